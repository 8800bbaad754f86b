//! Files put together byte by byte: what the installed server does not write.

use nagaya_rdb::{Checksum, KeyError, Writer};
use nagaya_store::rdb::crc64;

use super::*;

/// A file with a right checksum.
pub(super) fn file(version: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("REDIS{version:04}").into_bytes();
    bytes.extend_from_slice(body);
    bytes.push(255);
    if version >= 5 {
        let checksum = crc64(0, &bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
    }
    bytes
}

#[track_caller]
fn refused(bytes: &[u8], expected: &str) -> u64 {
    let error = read(bytes).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
    error.offset()
}

#[test]
fn attributes_hold_for_the_next_key_only() {
    let mut body = b"\xfe\x03\xfb\x03\x01\xfd".to_vec();
    body.extend_from_slice(&7_i32.to_le_bytes());
    body.extend_from_slice(b"\xf8\x09\x00\x01a\x01x");
    body.extend_from_slice(b"\xf9\x05\x00\x01b\x01y");
    let content = read(&file(11, &body)).unwrap();
    let (a, _) = &content.keys[&(3, b"a".to_vec())];
    assert_eq!(
        (a.expires_at_ms, a.idle_s, a.frequency),
        (Some(7000), Some(9), None)
    );
    let (b, value) = &content.keys[&(3, b"b".to_vec())];
    assert_eq!((b.expires_at_ms, b.idle_s, b.frequency), (None, None, Some(5)));
    assert_eq!(value, b"\x00\x01y");
}

#[test]
fn files_without_a_checksum_say_so() {
    for (bytes, expected) in [
        (file(4, b"\x00\x01a\x01x"), Checksum::Absent),
        (file(9, b"\x00\x01a\x01x"), Checksum::Verified),
    ] {
        let mut reader = Reader::new(bytes.as_slice(), Limits::default()).unwrap();
        while reader.next().unwrap().is_some() {}
        assert_eq!(reader.checksum(), Some(expected));
        assert!(reader.next().unwrap().is_none());
    }
    let mut unsummed = file(10, b"\x00\x01a\x01x");
    let at = unsummed.len() - 8;
    unsummed[at..].fill(0);
    assert_eq!(read(&unsummed).unwrap().keys.len(), 1);
}

#[test]
fn hashes_with_field_expiries_are_passed_whole() {
    let mut body = b"\x18\x01h".to_vec();
    body.extend_from_slice(&1_900_000_000_000_u64.to_le_bytes());
    // Two fields, the first without an expiry.
    body.extend_from_slice(b"\x02\x00\x01a\x01x\x01\x01b\x01y");
    body.extend_from_slice(b"\x19\x01p");
    body.extend_from_slice(&1_900_000_000_000_u64.to_le_bytes());
    body.extend_from_slice(b"\x05\x00\x01\x02\x03\x04");
    body.extend_from_slice(b"\x16\x01c\x01\x00\x01a\x01x");
    body.extend_from_slice(b"\x17\x01d\x02zz");
    let content = read(&file(12, &body)).unwrap();
    let names: Vec<_> = content.keys.keys().map(|(_, name)| name.as_slice()).collect();
    assert_eq!(names, [b"c", b"d", b"h", b"p"]);
    let (key, value) = &content.keys[&(0, b"h".to_vec())];
    assert_eq!(key.elements, Some(2));
    assert_eq!(value[0], 24);
    assert_eq!(value.len(), 1 + 8 + 1 + 10);
}

#[test]
fn values_of_modules_are_named_and_passed_over() {
    // "ABCDEFGHI" of version 1: nine numbers of six bits.
    let id = (0..9_u64).fold(0, |id, letter| id << 6 | letter) << 10 | 1;
    let mut number = vec![0x81];
    number.extend_from_slice(&id.to_be_bytes());
    let parts = b"\x02\x07\x05\x03abc\x04\x00\x00\x00\x00\x00\x00\xf0\x3f\x03\x00\x00\x80\x3f\x01\x09\x00";
    let mut body = b"\xf7".to_vec();
    body.extend_from_slice(&number);
    body.extend_from_slice(b"\x02\x02\x05\x01z\x00");
    body.extend_from_slice(b"\x07\x01m");
    body.extend_from_slice(&number);
    body.extend_from_slice(parts);
    body.extend_from_slice(b"\x00\x01s\x01x");
    let content = read(&file(11, &body)).unwrap();
    assert_eq!(content.modules, ["ABCDEFGHI"]);
    let (key, value) = &content.keys[&(0, b"m".to_vec())];
    assert_eq!(key.module.as_deref(), Some("ABCDEFGHI"));
    assert_eq!(*value, [b"\x07".as_slice(), &number, parts].concat());
    assert!(content.keys.contains_key(&(0, b"s".to_vec())));
}

#[test]
fn what_cannot_be_read_is_refused_with_its_place() {
    assert_eq!(refused(b"", "not an RDB file"), 0);
    refused(b"REDIS00", "not an RDB file");
    refused(b"REDIS00x1\xff", "not an RDB file");
    refused(b"*1\r\n$4\r\nPING\r\n", "not an RDB file");
    refused(b"VALKEY080\xff", "Valkey 9");
    refused(b"REDIS0013\xff", "version 13");
    refused(b"REDIS0000\xff", "version 0");
    assert_eq!(refused(&file(10, b"\x00\x01a\x01x\x1b\x01b\x01x"), "type 27"), 14);
    assert_eq!(refused(&file(10, b"\x06\x01b\x01x"), "module"), 9);
    refused(&file(10, b"\xf6\x01b\x01x"), "release candidates");
    refused(&file(10, b"\xfe\x81\x00\x00\x00\x01\x00\x00\x00\x00"), "database");
    assert_eq!(refused(&file(10, b"\x00\xc4a\x01x"), "no string begins so"), 10);
    assert_eq!(
        refused(&file(10, b"\x04\x01h\xc3\x01\x01"), "where a length was expected"),
        12
    );
    let mut trailing = file(10, b"\x00\x01a\x01x");
    let end = trailing.len() as u64;
    trailing.push(b'\n');
    assert_eq!(refused(&trailing, "goes on after its end"), end);
}

#[test]
fn a_value_beyond_the_limit_is_refused_and_one_with_elements_is_cut() {
    let limits = Limits {
        part_bytes: 10,
        value_bytes: 20,
    };
    let long = [b"\x00\x01a\x15".as_slice(), &[b'x'; 21]].concat();
    let error = read_within(&file(10, &long), limits).unwrap_err();
    assert!(error.to_string().contains("longer than 20 bytes"), "{error}");
    let exact = [b"\x00\x01a\x13".as_slice(), &[b'x'; 19]].concat();
    assert_eq!(read_within(&file(10, &exact), limits).unwrap().keys.len(), 1);
    let many = [
        b"\x02\x01s\x0a".as_slice(),
        b"\x01a\x01b\x01c\x01d\x01e\x01f\x01g\x01h\x01i\x01j",
    ]
    .concat();
    let bytes = file(10, &many);
    let mut reader = Reader::new(bytes.as_slice(), limits).unwrap();
    let Some(Item::Key(key)) = reader.next().unwrap() else {
        panic!()
    };
    assert_eq!(key.elements, Some(10));
    let mut part = Vec::new();
    assert_eq!(reader.value(&mut part).unwrap(), Extent::Part);
    assert_eq!(part, b"\x02\x05\x01a\x01b\x01c\x01d\x01e");
    assert_eq!(reader.value(&mut part).unwrap(), Extent::LastPart);
    assert_eq!(part, b"\x02\x05\x01f\x01g\x01h\x01i\x01j");
    assert!(reader.next().unwrap().is_none());
}

#[test]
fn the_writer_refuses_what_its_readers_could_not_load() {
    let mut writer = Writer::new(Vec::new(), 10).unwrap();
    let newer = sealed(b"\x14\x07\x07\x00\x00\x00\x00\x00\xff");
    assert!(matches!(
        writer.key(b"a", None, &newer),
        Err(KeyError::Version { needed: 11, .. })
    ));
    let mut changed = sealed(b"\x00\x01x");
    changed[2] = b'y';
    assert!(matches!(writer.key(b"a", None, &changed), Err(KeyError::Payload)));
    writer.key(b"b", Some(5), &sealed(b"\x00\x01x")).unwrap();
    let content = read(&writer.finish().unwrap()).unwrap();
    assert_eq!(content.keys.len(), 1);
    assert_eq!(content.keys[&(0, b"b".to_vec())].0.expires_at_ms, Some(5));
}

#[test]
fn the_mark_that_ends_what_a_server_sends_may_follow_and_nothing_else() {
    let bytes = file(10, b"");
    let with = |rest: &[u8]| read(&[bytes.as_slice(), rest].concat());
    assert!(with(b"").is_ok());
    assert!(with(b"0123456789abcdef0123456789abcdef01234567").is_ok());
    for rest in [
        &b"x"[..],
        b"0123456789abcdef0123456789abcdef0123456",
        b"0123456789abcdef0123456789abcdef012345678",
        b"0123456789abcdef0123456789abcdef0123456z",
        &[0; 100_000],
    ] {
        let error = with(rest).err().unwrap();
        assert!(matches!(error, nagaya_rdb::Error::Trailing { .. }), "{error}");
    }
}
