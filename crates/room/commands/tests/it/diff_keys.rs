//! Keys of any type. Values come in by RESTORE, so that every type and form is met.

use std::collections::BTreeSet;

use nagaya_resp::{Frame, Proto, parse_frame};
use nagaya_store::hash::Hash;
use nagaya_store::limits::EncodingLimits;
use nagaya_store::list::List;
use nagaya_store::rdb::dump_value;
use nagaya_store::rng::Rng;
use nagaya_store::set::Set;
use nagaya_store::value::{StrRef, ValueRef};
use nagaya_store::zset::Zset;

use crate::harness::{Compare, Pair, drive, drive_with, pick, words};

const KEYS: &[&str] = &["k1", "k2", "k3", "{tag}a", "{tag}b"];

#[test]
fn keys_live_and_die_alike() {
    drive(4000, request);
}

#[test]
fn sorting_gives_the_same_order() {
    let setup: Vec<String> = (0..12)
        .flat_map(|number| {
            [
                format!("SET w_{number} {}", (number * 7) % 12),
                format!("SET name_{number}_x n{}", (number * 5) % 12),
            ]
        })
        .collect();
    let next = std::cell::Cell::new(0);
    // Redis's SORT takes an `errno` left behind by another test's number for its own.
    let server = nagaya_testkit::Redis::with_config(&["databases 1024"]);
    drive_with(&server, 2500, |rng| {
        let at = next.get() % 2500;
        next.set(next.get() + 1);
        if let Some(request) = setup.get(at) {
            return (words(request), Compare::Exact);
        }
        if rng.below(6) == 0 {
            return (
                restore(rng, &["l", "s", "z", "w_3", "h_1", "h_2"]),
                Compare::Exact,
            );
        }
        let request = sort(rng);
        let unordered = request.contains("nosort") && request.contains(" s ");
        (
            words(&request),
            if unordered { Compare::Shape } else { Compare::Exact },
        )
    });
}

#[test]
fn scans_find_the_same_keys() {
    let mut pair = Pair::new(Proto::Resp2);
    let mut rng = Rng::seeded(4);
    for index in 0..300 {
        let name = format!("key:{index}");
        let args = if index % 3 == 0 {
            restore(&mut rng, &[&name])
        } else {
            words(&format!("SET {name} v"))
        };
        pair.check(
            &args.iter().map(Vec::as_slice).collect::<Vec<_>>(),
            Compare::Exact,
        );
    }
    for options in [
        "",
        "MATCH key:1*",
        "TYPE string",
        "TYPE LIST",
        "TYPE nothing",
        "COUNT 1000",
        "MATCH *[05] TYPE string COUNT 3",
    ] {
        let (ours, theirs) = scan_all(&mut pair, options);
        assert_eq!(ours, theirs, "{options}");
    }
    for pattern in ["*", "key:1?", "key:[1-3]*5", "nothing", "key:\\1*"] {
        pair.check(&[b"KEYS", pattern.as_bytes()], Compare::Unordered);
    }
    pair.same("DBSIZE");
}

fn scan_all(pair: &mut Pair, options: &str) -> (BTreeSet<Vec<u8>>, BTreeSet<Vec<u8>>) {
    let (mut ours, mut theirs) = (BTreeSet::new(), BTreeSet::new());
    let (mut our_cursor, mut their_cursor) = (Some(b"0".to_vec()), Some(b"0".to_vec()));
    // Each side follows its own cursor; the other side's answer to it means nothing.
    while our_cursor.is_some() || their_cursor.is_some() {
        for (cursor, found, side) in [
            (&mut our_cursor, &mut ours, 0),
            (&mut their_cursor, &mut theirs, 1),
        ] {
            let Some(at) = cursor.take() else { continue };
            let mut args: Vec<&[u8]> = vec![b"SCAN", &at];
            args.extend(
                options
                    .split(' ')
                    .filter(|word| !word.is_empty())
                    .map(str::as_bytes),
            );
            let replies: [Vec<u8>; 2] = pair.run(&args).into();
            let Ok(Some((Frame::Array(parts), _))) = parse_frame(&replies[side]) else {
                panic!("no scan reply")
            };
            let [Frame::Bulk(next), Frame::Array(keys)] = parts.as_slice() else {
                panic!("no scan reply")
            };
            found.extend(keys.iter().map(|key| match key {
                Frame::Bulk(key) => key.to_vec(),
                other => panic!("{other:?} is no key"),
            }));
            *cursor = (next[..] != b"0"[..]).then(|| next.to_vec());
        }
    }
    (ours, theirs)
}

#[test]
fn requests_with_errors_are_refused_alike() {
    let mut pair = Pair::new(Proto::Resp2);
    pair.same("SET k v");
    for request in ERRORS {
        pair.same(request);
    }
}

const ERRORS: &[&str] = &[
    "DEL",
    "EXISTS",
    "TYPE",
    "TYPE a b",
    "KEYS",
    "SCAN x",
    "SCAN 5x",
    "SCAN -",
    "SCAN 18446744073709551616",
    "SCAN 0 COUNT 0",
    "SCAN 0 COUNT x",
    "SCAN 0 COUNT",
    "SCAN 0 FOO bar",
    "RENAME missing k",
    "RENAME missing missing",
    "RENAMENX missing k",
    "RENAMENX missing missing",
    "RENAMENX k k",
    "RENAME k k",
    "COPY k k",
    "COPY k k2 FOO",
    "COPY k k2 DB",
    "COPY k k2 DB x",
    "COPY k k2 DB 99999999999",
    "COPY missing k2",
    "MOVE k x",
    "MOVE k 99999999999",
    "EXPIRE k",
    "EXPIRE k x",
    "EXPIRE k 10 FOO",
    "EXPIRE k x FOO",
    "EXPIRE k 10 NX XX",
    "EXPIRE k 10 NX GT",
    "EXPIRE k 10 GT LT",
    "EXPIRE k 9223372036854775807",
    "EXPIRE k -9223372036854775808",
    "EXPIRE k 9223372036854775",
    "PEXPIRE k 9223372036854775807",
    "EXPIREAT k 9223372036854775807",
    "PEXPIREAT k 9223372036854775807",
    "PEXPIRETIME k",
    "EXPIRETIME k",
    "PERSIST k",
    "EXPIRE missing 9223372036854775807",
    "TTL missing",
    "PTTL missing",
    "EXPIRETIME missing",
    "PEXPIRETIME missing",
    "DUMP missing",
    "RESTORE k 0 bad",
    "RESTORE k2 x bad",
    "RESTORE k2 -1 bad",
    "RESTORE k2 0 bad",
    "RESTORE k2 0 bad-but-long-enough",
    "RESTORE k2 0 bad FOO",
    "RESTORE k2 0 bad IDLETIME -1",
    "RESTORE k2 0 bad IDLETIME x",
    "RESTORE k2 0 bad FREQ 256",
    "RESTORE k2 0 bad FREQ 5 IDLETIME 5",
    "RESTORE k2 0 bad IDLETIME",
    "OBJECT",
    "OBJECT FOO",
    "OBJECT ENCODING",
    "OBJECT ENCODING missing",
    "OBJECT REFCOUNT missing",
    "OBJECT IDLETIME missing",
    "OBJECT FREQ missing",
    "OBJECT FREQ k",
    "OBJECT ENCODING k x",
    "SORT k",
    "SORT missing",
    "SORT missing FOO",
    "SORT missing LIMIT 1",
    "SORT missing LIMIT x 1",
    "SORT missing LIMIT 1 x",
    "SORT missing BY",
    "SORT missing STORE",
    "SORT missing STORE k",
    "EXISTS k",
    "SORT_RO missing STORE k",
    "SORT_RO k",
    "FLUSHALL FOO",
    "FLUSHDB SYNC x",
    "RANDOMKEY",
    "DBSIZE x",
];

/// A RESTORE of a random value; a key's first letter may tell its type.
fn restore(rng: &mut Rng, keys: &[&str]) -> Vec<Vec<u8>> {
    let key = pick(rng, keys).as_bytes().to_vec();
    let limits = EncodingLimits::default();
    let count_max = if rng.below(4) == 0 { 200 } else { 12 };
    let count = 1 + rng.below(count_max);
    let word = |rng: &mut Rng| match rng.below(3) {
        0 => format!("{}", rng.below(12)),
        1 => format!("word{}", rng.below(500)),
        _ => format!("{}.5", rng.below(900)),
    };
    let kind = match key[0] {
        b'l' => 1,
        b's' => 2,
        b'h' => 3,
        b'z' => 4,
        _ => rng.below(5),
    };
    let payload = match kind {
        0 => dump_value(ValueRef::Str(StrRef::Bytes(word(rng).as_bytes()))),
        1 => {
            let mut list = List::new();
            (0..count).for_each(|_| list.push_back(word(rng).as_bytes(), &limits));
            dump_value(ValueRef::List(&list))
        }
        2 => {
            let mut set = Set::new();
            let numbers = rng.below(2) == 0;
            for _ in 0..count {
                let member = if numbers {
                    rng.below(100_000).to_string()
                } else {
                    word(rng)
                };
                set.add(member.as_bytes(), &limits);
            }
            dump_value(ValueRef::Set(&set))
        }
        3 => {
            let mut hash = Hash::new();
            for _ in 0..count {
                let (field, value) = (word(rng), word(rng));
                hash.set(field.as_bytes(), value.as_bytes(), &limits);
            }
            dump_value(ValueRef::Hash(&hash))
        }
        _ => {
            let mut zset = Zset::new();
            for _ in 0..count {
                let (score, member) = (rng.below(50) as f64 / 4.0, word(rng));
                zset.add(score, member.as_bytes(), Default::default(), &limits);
            }
            dump_value(ValueRef::Zset(&zset))
        }
    };
    vec![
        b"RESTORE".to_vec(),
        key,
        b"0".to_vec(),
        payload,
        b"REPLACE".to_vec(),
    ]
}

pub(crate) fn request(rng: &mut Rng) -> (Vec<Vec<u8>>, Compare) {
    let (key, other) = (pick(rng, KEYS), pick(rng, KEYS));
    let condition = pick(rng, &["", "", " NX", " XX", " GT", " LT", " XX GT", " XX LT"]);
    // Comparing two times from now would compare the clocks.
    let timeless = pick(rng, &["", "", " NX", " XX"]);
    let seconds = pick(rng, &["100", "200", "300", "1000", "-1", "0"]);
    let at = pick(rng, &["4000000000", "4000000100", "5000000000", "1"]);
    let exact = |text: String| (words(&text), Compare::Exact);
    match rng.below(30) {
        0..=5 => (restore(rng, KEYS), Compare::Exact),
        6 => exact(format!("SET {key} {}", rng.below(20_000))),
        7 => exact(format!("DEL {key} {other}")),
        8 => exact(format!("UNLINK {key}")),
        9 => exact(format!("EXISTS {key} {other} {key}")),
        10 => exact(format!("TYPE {key}")),
        11 => exact(format!("RENAME {key} {other}")),
        12 => exact(format!("RENAMENX {key} {other}")),
        13 => exact(format!("COPY {key} {other}")),
        14 => exact(format!("COPY {key} {other} REPLACE")),
        15 => exact(format!("EXPIRE {key} {seconds}{timeless}")),
        16 => exact(format!("PEXPIRE {key} {seconds}000{timeless}")),
        17 => exact(format!("EXPIREAT {key} {at}{condition}")),
        18 => exact(format!("PEXPIREAT {key} {at}123{condition}")),
        19 => (words(&format!("TTL {key}")), Compare::Near(1)),
        20 => (words(&format!("PTTL {key}")), Compare::Near(2000)),
        21 => (words(&format!("EXPIRETIME {key}")), Compare::Near(1)),
        22 => (words(&format!("PEXPIRETIME {key}")), Compare::Near(2000)),
        23 => exact(format!("PERSIST {key}")),
        24 => exact(format!("TOUCH {key} {other}")),
        25 => exact(format!("OBJECT ENCODING {key}")),
        // A copy of a small integer is an object of its own in Redis.
        26 => (words(&format!("OBJECT REFCOUNT {key}")), Compare::Shape),
        27 => (words("KEYS *"), Compare::Unordered),
        28 => exact("DBSIZE".to_owned()),
        _ => exact(format!("OBJECT FREQ {key}")),
    }
}

pub(crate) fn sort(rng: &mut Rng) -> String {
    let key = pick(rng, &["l", "s", "z", "missing", "w_1"]);
    let by = pick(
        rng,
        &[
            "",
            "",
            " BY w_*",
            " BY name_*_x",
            " BY h_*->4",
            " BY nosort",
            " BY w_*->",
        ],
    );
    let get = pick(
        rng,
        &[
            "",
            "",
            " GET #",
            " GET # GET w_*",
            " GET h_*->5",
            " GET name_*_x GET missing",
            " GET w_*->",
        ],
    );
    let limit = match rng.below(4) {
        0 => format!(" LIMIT {} {}", rng.below(15) as i64 - 2, rng.below(15) as i64 - 2),
        _ => String::new(),
    };
    let order = pick(rng, &["", " ASC", " DESC"]);
    // Texts behind a pattern may be equal, and Redis leaves the order of equals open.
    let alpha = if by.contains('*') {
        ""
    } else {
        pick(rng, &["", " ALPHA", " ALPHA"])
    };
    let store = pick(rng, &["", "", "", " STORE dst"]);
    match rng.below(12) {
        0 => "DUMP dst".to_owned(),
        1 => format!("SORT_RO {key}{by}{get}{limit}{order}{alpha}"),
        _ => format!("SORT {key}{by}{limit}{get}{order}{alpha}{store}"),
    }
}
