use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use nagaya_resp::{Frame, Proto, parse_frame};
use nagaya_store::rng::Rng;

use crate::harness::{Compare, Pair, drive, pick, words};

const KEYS: &[&str] = &["h1", "h2", "h3", "{tag}h", "string"];
const FIELDS: &[&str] = &[
    "a",
    "b",
    "c",
    "",
    "0",
    "-7",
    "007",
    "9223372036854775807",
    "a-rather-long-field-name",
    "num",
];
const VALUES: &[&str] = &[
    "",
    "0",
    "7",
    "-12",
    "007",
    "abc",
    "3.5",
    "9223372036854775807",
    "-9223372036854775808",
    "1e3",
    "hello",
    "inf",
];
const NUMBERS: &[&str] = &[
    "1",
    "-1",
    "100",
    "-9223372036854775808",
    "9223372036854775807",
    "x",
    "1.5",
    "",
    "0",
];
const FLOATS: &[&str] = &[
    "1.5",
    "0.1",
    "-0.1",
    "0.2",
    "1e10",
    "1e-10",
    "3.141592653589793238",
    "1e30",
    "-1e30",
    "5",
    "inf",
    "nan",
    "x",
    "",
    "0x1p3",
    "1e5000",
    "123456789.123456789",
    "0.00000000000000001",
];

/// Small hashes keep the order of arrival, so everything compares byte for byte.
#[test]
fn small_hashes_reply_as_redis_replies() {
    drive(4_000, |rng| (words(&small(rng)), Compare::Exact));
}

pub(crate) fn small(rng: &mut Rng) -> String {
    let key = pick(rng, KEYS);
    let (field, other) = (pick(rng, FIELDS), pick(rng, FIELDS));
    let (value, second) = (pick(rng, VALUES), pick(rng, VALUES));
    let (number, float) = (pick(rng, NUMBERS), pick(rng, FLOATS));
    let cursor = pick(rng, &["0", "0", "5", "-1", "x", "", "18446744073709551616"]);
    let option = pick(
        rng,
        &[
            "MATCH *",
            "MATCH [ab]*",
            "COUNT 5",
            "COUNT 0",
            "COUNT x",
            "MATCH",
            "TYPE hash",
            "MATCH a* COUNT 100",
            "MATCH ?",
        ],
    );
    match rng.below(26) {
        0 | 1 => format!("HSET {key} {field} {value}"),
        2 => format!("HSET {key} {field} {value} {other} {second}"),
        3 => format!("HMSET {key} {field} {value} {other} {second}"),
        4 => format!("HSETNX {key} {field} {value}"),
        5 => format!("HGET {key} {field}"),
        6 => format!("HMGET {key} {field} {other} missing"),
        7 => format!("HGETALL {key}"),
        8 => format!("HKEYS {key}"),
        9 => format!("HVALS {key}"),
        10 => format!("HLEN {key}"),
        11 => format!("HSTRLEN {key} {field}"),
        12 => format!("HEXISTS {key} {field}"),
        13 => format!("HDEL {key} {field}"),
        14 => format!("HDEL {key} {field} {other} {field}"),
        15 | 16 => format!("HINCRBY {key} {field} {number}"),
        17 | 18 => format!("HINCRBYFLOAT {key} {field} {float}"),
        19 => format!("HSCAN {key} {cursor}"),
        20 => format!("HSCAN {key} {cursor} {option}"),
        21 => format!(
            "HRANDFIELD {key} {}",
            pick(rng, &["0", "100", "x", "-9223372036854775808"])
        ),
        22 => format!(
            "HRANDFIELD {key} 100 {}",
            pick(rng, &["WITHVALUES", "withvalues", "x", "WITHVALUES x"])
        ),
        23 => format!("HSET {key} {field} {value} {other}"),
        24 => "SET string value".to_owned(),
        _ => pick(
            rng,
            &[
                "HSET h1",
                "HGET h1",
                "HRANDFIELD h1 -9223372036854770000 WITHVALUES",
                "HSCAN h1",
            ],
        )
        .to_owned(),
    }
}

/// Hashes grow past the listpack's limits, whose order is then anybody's.
#[test]
fn large_hashes_reply_as_redis_replies() {
    drive(6_000, large);
}

pub(crate) fn large(rng: &mut Rng) -> (Vec<Vec<u8>>, Compare) {
    let key = pick(rng, &["l1", "l2"]);
    let field = format!("f{}", rng.below(400));
    let value = "v".repeat(rng.below(90));
    let (text, compare) = match rng.below(40) {
        0 => (format!("HGETALL {key}"), Compare::UnorderedPairs),
        1 => (format!("HKEYS {key}"), Compare::Unordered),
        2 => (format!("HVALS {key}"), Compare::Unordered),
        3 => (format!("HRANDFIELD {key} 1000 WITHVALUES"), pairs_compare()),
        4 => (format!("HRANDFIELD {key} 1000"), Compare::Unordered),
        5 => (format!("HRANDFIELD {key} {}", rng.below(500)), Compare::Shape),
        6 => (
            format!("HRANDFIELD {key} -{} WITHVALUES", rng.below(50)),
            Compare::Shape,
        ),
        7 => (format!("HRANDFIELD {key}"), Compare::Shape),
        8..=11 => (
            format!("HDEL {key} {field} f{} f{}", rng.below(400), rng.below(400)),
            Compare::Exact,
        ),
        12 => (format!("HINCRBY {key} {field} 5"), Compare::Exact),
        13 => (
            format!(
                "HINCRBYFLOAT {key} n{field} {}",
                pick(rng, &["1e300", "-1e4000", "0.1", "1e-4940", "7"])
            ),
            Compare::Exact,
        ),
        14 => (format!("HSTRLEN {key} {field}"), Compare::Exact),
        15..=20 => (format!("HGET {key} {field}"), Compare::Exact),
        21 => (format!("HMGET {key} {field} f1 f2"), Compare::Exact),
        22 => (format!("HLEN {key}"), Compare::Exact),
        23 => (format!("HSETNX {key} {field} {value}"), Compare::Exact),
        _ => (
            format!("HSET {key} {field} {value} f{} x", rng.below(400)),
            Compare::Exact,
        ),
    };
    (words(&text), compare)
}

/// RESP2 gives one flat array and RESP3 nested pairs; comparing flat elements as a set fits both.
fn pairs_compare() -> Compare {
    Compare::Unordered
}

#[test]
fn a_whole_hscan_gives_what_hgetall_gives() {
    for fields in [0, 10, 128, 129, 2_000] {
        let mut pair = Pair::new(Proto::Resp2);
        let mut expected = BTreeMap::new();
        for n in 0..fields {
            let (field, value) = (format!("field{n}"), format!("value{n}"));
            pair.check(
                &[b"HSET", b"scanned", field.as_bytes(), value.as_bytes()],
                Compare::Exact,
            );
            expected.insert(field.into_bytes(), value.into_bytes());
        }
        for side in [0, 1] {
            let (mut cursor, mut seen) = (b"0".to_vec(), BTreeMap::new());
            loop {
                let replies = pair.run(&[b"HSCAN", b"scanned", &cursor, b"COUNT", b"50"]);
                let reply = if side == 0 { replies.0 } else { replies.1 };
                let mut items = scan_reply(&reply);
                cursor = items.pop_front().expect("a cursor");
                while let (Some(field), Some(value)) = (items.pop_front(), items.pop_front()) {
                    seen.insert(field, value);
                }
                if cursor == b"0" {
                    break;
                }
            }
            assert_eq!(seen, expected);
        }
        pair.check(&[b"HGETALL", b"scanned"], Compare::UnorderedPairs);
        let names: Vec<Vec<u8>> = expected.into_keys().collect();
        let mut request: Vec<&[u8]> = vec![b"HDEL", b"scanned", b"nothing"];
        request.extend(names.iter().map(Vec::as_slice));
        pair.check(&request, Compare::Exact);
        pair.check(&[b"HLEN", b"scanned"], Compare::Exact);
    }
}

/// Returns the cursor of a scan's reply, then its elements.
pub(crate) fn scan_reply(reply: &[u8]) -> VecDeque<Vec<u8>> {
    let Ok(Some((Frame::Array(parts), _))) = parse_frame(reply) else {
        panic!("not a scan's reply")
    };
    let [Frame::Bulk(cursor), Frame::Array(items)] = parts.as_slice() else {
        panic!("not a scan's reply")
    };
    let mut all = VecDeque::from([cursor.to_vec()]);
    for item in items {
        let Frame::Bulk(item) = item else {
            panic!("not a string: {item:?}")
        };
        all.push_back(item.to_vec());
    }
    all
}

/// A queue of requests that must follow one another, for generators that make one at a time.
pub(crate) type Queue = RefCell<VecDeque<(String, Compare)>>;
