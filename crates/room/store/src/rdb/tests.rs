use super::*;
use crate::hash::Hash;
use crate::list::List;
use crate::rng::Rng;
use crate::set::Set;
use crate::stream::{ENTRIES_READ_UNKNOWN, NewId, Pending, Stream, StreamId};
use crate::value::StrRef;
use crate::zset::{AddFlags, Zset};

/// What redis-server 7.0.15 answered to DUMP.
const INT: &str = "00c0f90a005e26d130d7a242ab";
const WIDE_INT: &str = "000b31323334353637383930310a00304e52d727176510";
const PACKED: &str = "00c30a3c02616261e02e010161620a00bb16d3ebae6fc574";
const TEXT: &str = "000b68656c6c6f20776f726c640a000bfc49b9a6c7a034";
const LIST: &str = "1201021414000000040081610201018378797a04de0c02ff0a008e639ab397446f86";
const INTSET: &str = "0b140400000003000000fdffffff01000000701101000a007b8d4dddaf2286d7";
const SET: &str = "0201046f6e6c790a006190c4de032a2d68";
const HASH: &str = "1012120000000400816602817602816e020c01ff0a0001369481d35b8974";
const LARGE_HASH: &str = "04010166c3094041017676e034000176760a003d71be523786cf45";
const ZSET: &str = "111c1c0000000600816102010181620283322e350481630283696e6604ff0a006b1ddedce8e2c399";
const LARGE_ZSET: &str = "0501c3094041016d6de03400016d6d000000000000f8bf0a00f6a4626bc35187f2";
const STREAM: &str = "130110000000000000000100000000000000013a3a000000160002010101010181660200010201000100018176\
    02040103010101dfff02817702040100010201dfff0201018167028178020601ff02030001010200030103677270000081ffffffffff\
    ffffff00000a003255fb9708872062";

const ALL: [&str; 12] = [
    INT, WIDE_INT, PACKED, TEXT, LIST, INTSET, SET, HASH, LARGE_HASH, ZSET, LARGE_ZSET, STREAM,
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn limits() -> EncodingLimits {
    EncodingLimits::default()
}

fn as_ref(value: &Value) -> ValueRef<'_> {
    match value {
        Value::Int(number) => ValueRef::Str(StrRef::Int(*number)),
        Value::Str(text) => ValueRef::Str(StrRef::Bytes(text)),
        Value::List(list) => ValueRef::List(list),
        Value::Set(set) => ValueRef::Set(set),
        Value::Hash(hash) => ValueRef::Hash(hash),
        Value::Zset(zset) => ValueRef::Zset(zset),
        Value::Stream(stream) => ValueRef::Stream(stream),
    }
}

/// Adds a true footer to a body.
fn signed(body: &[u8], version: u16) -> Vec<u8> {
    let mut payload = body.to_vec();
    payload.extend_from_slice(&version.to_le_bytes());
    let checksum = crc64::crc64(0, &payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

fn read_body(body: &[u8]) -> Result<Value, RestoreError> {
    restore(&signed(body, VERSION), &limits())
}

/// Reads an old form and returns the payload of today.
fn modernized(body: &[u8]) -> Vec<u8> {
    dump_value(as_ref(&read_body(body).unwrap()))
}

fn list(elements: &[&[u8]]) -> Vec<u8> {
    let mut list = List::new();
    elements
        .iter()
        .for_each(|element| list.push_back(element, &limits()));
    dump_value(ValueRef::List(&list))
}

fn hash(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut hash = Hash::new();
    pairs
        .iter()
        .for_each(|(field, value)| assert!(hash.set(field, value, &limits())));
    dump_value(ValueRef::Hash(&hash))
}

fn set(members: &[&[u8]]) -> Vec<u8> {
    let mut set = Set::new();
    members
        .iter()
        .for_each(|member| assert!(set.add(member, &limits())));
    dump_value(ValueRef::Set(&set))
}

fn zset(members: &[(f64, &[u8])]) -> Vec<u8> {
    let mut zset = Zset::new();
    for (score, member) in members {
        zset.add(*score, member, AddFlags::default(), &limits());
    }
    dump_value(ValueRef::Zset(&zset))
}

fn sample_stream() -> Stream {
    let mut stream = Stream::new();
    let entries = [(1, 1, "f", "v"), (2, 0, "f", "w"), (3, 0, "g", "x")];
    for (ms, seq, field, value) in entries {
        let pairs = [(field.as_bytes(), value.as_bytes())];
        stream
            .add(NewId::Exact(StreamId::new(ms, seq)), pairs.into_iter(), &limits())
            .unwrap();
    }
    stream.delete(StreamId::new(2, 0));
    stream.create_group(b"grp", StreamId::MIN, ENTRIES_READ_UNKNOWN);
    stream
}

#[test]
fn dumps_are_those_of_redis() {
    let string = |text: &[u8]| dump_value(as_ref(&Value::string(text)));
    assert_eq!(string(b"-7"), bytes(INT));
    assert_eq!(string(b"12345678901"), bytes(WIDE_INT));
    assert_eq!(string("ab".repeat(30).as_bytes()), bytes(PACKED));
    assert_eq!(string(b"hello world"), bytes(TEXT));
    assert_eq!(list(&[b"a", b"1", b"xyz", b"-500"]), bytes(LIST));
    assert_eq!(set(&[b"1", b"70000", b"-3"]), bytes(INTSET));
    assert_eq!(set(&[b"only"]), bytes(SET));
    assert_eq!(hash(&[(b"f", b"v"), (b"n", b"12")]), bytes(HASH));
    assert_eq!(hash(&[(b"f", &[b'v'; 65])]), bytes(LARGE_HASH));
    assert_eq!(
        zset(&[(1.0, b"a"), (2.5, b"b"), (f64::INFINITY, b"c")]),
        bytes(ZSET)
    );
    assert_eq!(zset(&[(-1.5, &[b'm'; 65])]), bytes(LARGE_ZSET));
    assert_eq!(dump_value(ValueRef::Stream(&sample_stream())), bytes(STREAM));
}

#[test]
fn dumps_of_redis_come_back_unchanged() {
    for payload in ALL {
        let value = restore(&bytes(payload), &limits()).unwrap();
        assert_eq!(dump_value(as_ref(&value)), bytes(payload), "{payload}");
    }
}

#[test]
fn a_footer_of_other_bytes_or_a_newer_format_is_refused() {
    let refused = |payload: &[u8]| restore(payload, &limits()).err() == Some(RestoreError::VersionOrChecksum);
    let good = bytes(TEXT);
    assert!(refused(b""));
    assert!(refused(&good[..9]));
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(refused(&bad), "byte {at}");
    }
    assert!(refused(&signed(b"\x00\x01a", 13)));
    assert!(restore(&signed(b"\x00\x01a", 12), &limits()).is_ok());
    assert!(restore(&signed(b"\x00\x01a", 1), &limits()).is_ok());
}

/// "a", 1 as a ziplist.
const ZIPLIST: &[u8] = b"\x10\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01a\x03\xf2\xff";

fn with_ziplist(head: &[u8]) -> Vec<u8> {
    [head, &[ZIPLIST.len() as u8], ZIPLIST].concat()
}

#[test]
fn older_forms_are_read() {
    assert_eq!(modernized(b"\x01\x02\x01a\xc0\x01"), list(&[b"a", b"1"]));
    assert_eq!(
        modernized(&with_ziplist(&[kind::LIST_ZIPLIST])),
        list(&[b"a", b"1"])
    );
    assert_eq!(
        modernized(&with_ziplist(&[kind::LIST_OF_ZIPLISTS, 1])),
        list(&[b"a", b"1"])
    );
    assert_eq!(
        modernized(&with_ziplist(&[kind::HASH_ZIPLIST])),
        hash(&[(b"a", b"1")])
    );
    assert_eq!(
        modernized(&with_ziplist(&[kind::ZSET_ZIPLIST])),
        zset(&[(1.0, b"a")])
    );
    assert_eq!(
        modernized(b"\x09\x0a\x01\x01f\x03\x01v12.\xff"),
        hash(&[(b"f", b"v12")])
    );
    assert_eq!(modernized(b"\x04\x01\x01f\x01v"), hash(&[(b"f", b"v")]));
    assert_eq!(modernized(b"\x02\x02\xc0\x05\xc0\x07"), set(&[b"5", b"7"]));
    assert_eq!(
        modernized(b"\x03\x02\x01a\x032.5\x01b\xff"),
        zset(&[(2.5, b"a"), (f64::NEG_INFINITY, b"b")])
    );
    assert_eq!(
        modernized(b"\x14\x0a\x0a\x00\x00\x00\x01\x00\x81x\x02\xff"),
        set(&[b"x"])
    );
}

#[test]
fn a_redis_5_stream_gets_its_counts_worked_out() {
    let modern = bytes(STREAM);
    let node = &modern[1..modern.len() - 36];
    let mut body = vec![kind::STREAM_5];
    body.extend_from_slice(&node[..2 + 16 + 1 + 0x3a]);
    // Length, last id, one group that stands at the last entry, nothing pending, no consumer.
    body.extend_from_slice(b"\x02\x03\x00\x01\x01g\x03\x00\x00\x00");
    let Value::Stream(stream) = read_body(&body).unwrap() else {
        panic!("not a stream")
    };
    assert_eq!(
        (stream.len(), stream.entries_added(), stream.first_id()),
        (2, 2, StreamId::new(1, 1))
    );
    assert_eq!(stream.group(b"g").unwrap().entries_read, 2);
}

#[test]
fn groups_come_back_with_consumers_and_pending_entries() {
    let mut stream = sample_stream();
    let group = stream.group_mut(b"grp").unwrap();
    let one = group.create_consumer(b"one", 111).unwrap();
    group.create_consumer(b"two", 222).unwrap();
    group.set_pending(StreamId::new(1, 1), Pending::new(one, 333));
    group.pending_mut(StreamId::new(1, 1)).unwrap().deliveries = 70_000;
    let payload = dump_value(ValueRef::Stream(&stream));
    let Value::Stream(back) = restore(&payload, &limits()).unwrap() else {
        panic!("not a stream")
    };
    assert_eq!(dump_value(ValueRef::Stream(&back)), payload);
    let group = back.group(b"grp").unwrap();
    assert_eq!(group.pending(StreamId::new(1, 1)).unwrap().deliveries, 70_000);
}

#[test]
fn unsound_values_are_refused() {
    let refused = |body: &[u8]| assert_eq!(read_body(body).err(), Some(RestoreError::BadData), "{body:?}");
    refused(b"");
    refused(b"\x63\x01a");
    refused(b"\x06\x01a");
    refused(b"\x01\x00");
    refused(b"\x02\x00");
    refused(b"\x02\x02\x01a\x01a");
    refused(b"\x04\x00");
    refused(b"\x04\x02\x01f\x01v\x01f\x01w");
    refused(b"\x05\x00");
    refused(b"\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xf8\x7f");
    refused(b"\x05\x02\x01a\x00\x00\x00\x00\x00\x00\xf0\x3f\x01a\x00\x00\x00\x00\x00\x00\xf0\x3f");
    refused(b"\x12\x01\x03\x01a");
    refused(b"\x12\x01\x01\x00");
    refused(b"\x12\x81\xff\xff\xff\xff\xff\xff\xff\xff");
    refused(b"\x02\x80\xff\xff\xff\xff\x01a");
}

#[test]
fn damaged_payloads_give_a_sound_value_or_a_refusal() {
    let mut rng = Rng::seeded(17);
    let mut samples: Vec<Vec<u8>> = ALL.iter().map(|payload| bytes(payload)).collect();
    for type_byte in [kind::LIST_ZIPLIST, kind::HASH_ZIPLIST, kind::ZSET_ZIPLIST] {
        samples.push(signed(&with_ziplist(&[type_byte]), VERSION));
    }
    for round in 0..60_000 {
        let sample = &samples[round % samples.len()];
        let mut body = sample[..sample.len() - 10].to_vec();
        for _ in 0..1 + rng.below(3) {
            let at = rng.below(body.len());
            body[at] = rng.next_u64() as u8;
        }
        if rng.below(10) == 0 {
            body.truncate(rng.below(body.len()));
        }
        if let Ok(value) = read_body(&body) {
            let payload = dump_value(as_ref(&value));
            let again = restore(&payload, &limits()).unwrap_or_else(|_| panic!("{body:02x?} gave {value:?}"));
            assert_eq!(value.kind(), again.kind());
        }
    }
}

#[test]
fn values_come_back_in_the_form_they_had() {
    let limits = EncodingLimits::default();
    let (mut set, mut hash, mut zset) = (Set::new(), Hash::new(), Zset::new());
    for number in 0..600 {
        let text = format!("x{number}");
        set.add(text.as_bytes(), &limits);
        hash.set(text.as_bytes(), b"v", &limits);
        zset.add(f64::from(number), text.as_bytes(), Default::default(), &limits);
    }
    // Few are left, but the large form stays.
    for number in 3..600 {
        let text = format!("x{number}");
        set.remove(text.as_bytes());
        hash.remove(text.as_bytes());
        zset.remove(text.as_bytes());
    }
    for value in [ValueRef::Set(&set), ValueRef::Hash(&hash), ValueRef::Zset(&zset)] {
        let payload = dump_sorted(value);
        let back = restore_as_it_was(&dump_value(value)).unwrap();
        assert_eq!(dump_sorted(as_ref(&back)), payload);
    }
    for payload in ALL {
        let back = restore_as_it_was(&bytes(payload)).unwrap();
        assert_eq!(dump_sorted(as_ref(&back)), bytes(payload));
    }
}
