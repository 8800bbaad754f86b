//! Encodings that only older servers wrote. redis-server still reads them: it says whether we read them right.

use std::fs;

use nagaya_store::intset::Intset;
use nagaya_store::listpack::Listpack;
use nagaya_testkit::{Folder, Redis};

use super::by_hand::file;
use super::real_files::saved;
use super::*;

/// A ziplist of texts, each with the size of the one before.
fn ziplist(texts: &[&[u8]]) -> Vec<u8> {
    let mut entries = Vec::new();
    let (mut before, mut last) = (0, 10);
    for text in texts {
        last = 10 + entries.len();
        let mut entry = Vec::new();
        match u8::try_from(before) {
            Ok(small) if small < 254 => entry.push(small),
            _ => {
                entry.push(254);
                entry.extend_from_slice(&(before as u32).to_le_bytes());
            }
        }
        if text.len() < 64 {
            entry.push(text.len() as u8);
        } else {
            entry.extend_from_slice(&(0x4000 | text.len() as u16).to_be_bytes());
        }
        entry.extend_from_slice(text);
        before = entry.len();
        entries.extend_from_slice(&entry);
    }
    let mut bytes = (11 + entries.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&(last as u32).to_le_bytes());
    bytes.extend_from_slice(&(texts.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&entries);
    bytes.push(255);
    bytes
}

/// A string of at most 16 KiB with its length.
fn string(bytes: &[u8]) -> Vec<u8> {
    let mut out = match bytes.len() {
        len if len < 64 => vec![len as u8],
        len => (0x4000 | len as u16).to_be_bytes().to_vec(),
    };
    out.extend_from_slice(bytes);
    out
}

fn key(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind], string(name.as_bytes()).as_slice(), value].concat()
}

fn stream_node() -> Vec<u8> {
    // Count, deleted, one common field "f"; then one entry: flags 2 (same fields), +0 ms, +0 seq, value, 4 parts.
    let mut pack = Listpack::new();
    for number in [1, 0, 1] {
        pack.push_back_int(number);
    }
    pack.push_back(b"f");
    pack.push_back_int(0);
    for number in [2, 0, 0] {
        pack.push_back_int(number);
    }
    pack.push_back(b"v");
    pack.push_back_int(4);
    pack.as_bytes().to_vec()
}

fn old_file() -> Vec<u8> {
    let long = vec![b'z'; 300];
    let two: [&[u8]; 2] = [b"one", &long];
    let pairs: [&[u8]; 4] = [b"f", b"v", b"g", &long];
    let scores: [&[u8]; 4] = [b"m", b"-1.5", b"n", b"2"];
    let intset = {
        let mut set = Intset::new();
        for number in [-3, 70_000, 5_000_000_000] {
            set.add(number);
        }
        set.as_bytes().to_vec()
    };
    let mut stream = b"\x01\x10".to_vec();
    stream.extend_from_slice(&5_u64.to_be_bytes());
    stream.extend_from_slice(&1_u64.to_be_bytes());
    stream.extend_from_slice(&string(&stream_node()));
    // Length, last id, then one group with one consumer that has the entry.
    stream.extend_from_slice(b"\x01\x05\x01\x01\x02gr\x05\x01\x01");
    stream.extend_from_slice(&5_u64.to_be_bytes());
    stream.extend_from_slice(&1_u64.to_be_bytes());
    stream.extend_from_slice(&1_600_000_000_000_u64.to_le_bytes());
    stream.extend_from_slice(b"\x03\x01\x01c");
    stream.extend_from_slice(&1_600_000_000_000_u64.to_le_bytes());
    stream.push(1);
    stream.extend_from_slice(&5_u64.to_be_bytes());
    stream.extend_from_slice(&1_u64.to_be_bytes());
    let list_of_ziplists = [
        b"\x02".as_slice(),
        &string(&ziplist(&two)),
        &string(&ziplist(&[b"x"])),
    ]
    .concat();
    let keys = [
        key(0, "packed", b"\xc3\x05\x0a\x00a\xe0\x00\x00"),
        key(1, "list", b"\x02\x01a\xc0\x07"),
        key(2, "set", b"\x02\x01a\xc1\x2c\x01"),
        key(3, "zset-text", b"\x03\x01a\x031.5\x01b\xfe\x01c\xff"),
        key(4, "hash", b"\x01\x01f\x01v"),
        key(
            9,
            "zipmap",
            &string(b"\x02\x03foo\x03\x00bar\x05hello\x05\x00world\xff"),
        ),
        key(10, "list-ziplist", &string(&ziplist(&two))),
        key(11, "intset", &string(&intset)),
        key(12, "zset-ziplist", &string(&ziplist(&scores))),
        key(13, "hash-ziplist", &string(&ziplist(&pairs))),
        key(14, "quicklist", &list_of_ziplists),
        key(15, "stream", &stream),
    ];
    file(9, &[b"\xfe\x00".as_slice(), &keys.concat()].concat())
}

#[test]
fn old_encodings_are_read_as_redis_reads_them() {
    let folder = Folder::new("old");
    let bytes = old_file();
    fs::write(folder.path().join("dump.rdb"), &bytes).unwrap();
    let ours = read(&bytes).unwrap();
    assert_eq!(ours.keys.len(), 12);
    let dir = format!("dir {}", folder.path().display());
    let redis = Redis::with_config(&[&dir]);
    let theirs = read(&saved(&redis)).unwrap();
    assert_eq!(theirs.keys.len(), 12);
    for (key, (_, body)) in &ours.keys {
        let name = key.1.escape_ascii();
        assert_eq!(in_order(body), in_order(&theirs.keys[key].1), "{name}");
    }
}
