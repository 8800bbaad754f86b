use std::collections::BTreeSet;

use nagaya_resp::Proto;
use nagaya_store::rng::Rng;

use crate::diff_hash::{Queue, scan_reply};
use crate::harness::{Compare, Pair, drive, pick, words};

const KEYS: &[&str] = &["s1", "s2", "s3", "{tag}s", "string", "missing"];
pub(crate) const NUMBERS: &[&str] = &[
    "1",
    "2",
    "3",
    "10",
    "-5",
    "70000",
    "-3000000000",
    "9223372036854775807",
    "0",
];
pub(crate) const TEXTS: &[&str] = &[
    "a",
    "b",
    "c",
    "",
    "007",
    "+1",
    "hello world!",
    "-0",
    "1.5",
    "9223372036854775808",
];

/// Sets of integers come sorted, so everything compares byte for byte.
#[test]
fn sets_of_integers_reply_as_redis_replies() {
    let queue = Queue::default();
    drive(4_000, |rng| step(rng, &queue, NUMBERS, Compare::Exact));
}

#[test]
fn sets_of_texts_reply_as_redis_replies() {
    let queue = Queue::default();
    let both: Vec<&str> = NUMBERS.iter().chain(TEXTS).copied().collect();
    drive(6_000, |rng| step(rng, &queue, &both, Compare::Unordered));
}

/// Sets that pass the intset's limit of members, with many keys at once.
#[test]
fn large_sets_reply_as_redis_replies() {
    drive(3_000, large);
}

pub(crate) fn large(rng: &mut Rng) -> (Vec<Vec<u8>>, Compare) {
    let keys = ["b1", "b2", "b3", "b4"];
    let (key, other, third) = (pick(rng, &keys), pick(rng, &keys), pick(rng, &keys));
    let from = rng.below(900);
    let letter = if rng.below(50) == 0 { "x" } else { "" };
    let run: Vec<String> = (from..from + rng.below(150) + 1)
        .map(|n| format!("{letter}{n}"))
        .collect();
    let (text, compare) = match rng.below(16) {
        0..=4 => (format!("SADD {key} {}", run.join(" ")), Compare::Exact),
        5..=7 => (format!("SREM {key} {}", run.join(" ")), Compare::Exact),
        8 => (format!("SINTER {key} {other} {third}"), Compare::Unordered),
        9 => (format!("SUNION {key} {other}"), Compare::Unordered),
        10 => (format!("SDIFF {key} {other} {third}"), Compare::Unordered),
        11 => (
            format!("SINTERCARD 2 {key} {other} LIMIT {}", rng.below(300)),
            Compare::Exact,
        ),
        12 => (
            format!(
                "S{}STORE {key} {other} {third}",
                pick(rng, &["INTER", "UNION", "DIFF"])
            ),
            Compare::Exact,
        ),
        13 => (format!("SMEMBERS {key}"), Compare::Unordered),
        14 => (format!("SRANDMEMBER {key} {}", rng.below(400)), Compare::Shape),
        _ => (format!("SRANDMEMBER {key} 100000"), Compare::Unordered),
    };
    (words(&text), compare)
}

pub(crate) fn step(
    rng: &mut Rng,
    queue: &Queue,
    members: &[&str],
    order: Compare,
) -> (Vec<Vec<u8>>, Compare) {
    let mut queue = queue.borrow_mut();
    if queue.is_empty() {
        fill(rng, &mut queue, members, order);
    }
    let (text, compare) = queue.pop_front().expect("filled just above");
    (
        text.split('\t').map(|word| word.as_bytes().to_vec()).collect(),
        compare,
    )
}

/// Queues one request, or several that belong together; words are parted by tabs.
fn fill(
    rng: &mut Rng,
    queue: &mut std::collections::VecDeque<(String, Compare)>,
    members: &[&str],
    order: Compare,
) {
    let (key, other, third) = (pick(rng, KEYS), pick(rng, KEYS), pick(rng, KEYS));
    let (member, second) = (pick(rng, members), pick(rng, members));
    let cursor = pick(rng, &["0", "0", "7", "-1", "x", ""]);
    let option = pick(
        rng,
        &[
            "MATCH\t*",
            "MATCH\t1*",
            "COUNT\t5",
            "COUNT\t0",
            "COUNT\tx",
            "MATCH",
            "TYPE\tset",
        ],
    );
    let operation = pick(rng, &["SINTER", "SUNION", "SDIFF"]);
    let limit = pick(
        rng,
        &["", "\tLIMIT\t1", "\tLIMIT\t0", "\tLIMIT\t-1", "\tLIMIT", "\tx"],
    );
    let unordered_scan = if order == Compare::Exact {
        Compare::Exact
    } else {
        Compare::Skip
    };
    let (text, compare) = match rng.below(26) {
        0..=3 => (format!("SADD\t{key}\t{member}\t{second}"), Compare::Exact),
        4 => (format!("SADD\t{key}\t{member}"), Compare::Exact),
        5 => (format!("SREM\t{key}\t{member}"), Compare::Exact),
        6 => (
            format!("SREM\t{key}\t{member}\t{second}\t{member}"),
            Compare::Exact,
        ),
        7 => (format!("SISMEMBER\t{key}\t{member}"), Compare::Exact),
        8 => (
            format!("SMISMEMBER\t{key}\t{member}\t{second}\tnone"),
            Compare::Exact,
        ),
        9 => (format!("SMEMBERS\t{key}"), order),
        10 => (format!("SCARD\t{key}"), Compare::Exact),
        11 | 12 => (format!("SMOVE\t{key}\t{other}\t{member}"), Compare::Exact),
        13 | 14 => (format!("{operation}\t{key}\t{other}"), order),
        15 => (format!("{operation}\t{key}"), order),
        16 => (
            format!("{operation}STORE\t{key}\t{other}\t{third}"),
            Compare::Exact,
        ),
        17 => (format!("SINTERCARD\t2\t{key}\t{other}{limit}"), Compare::Exact),
        18 => (
            format!("SINTERCARD\t{}\t{key}", pick(rng, &["0", "2", "x", "-1", "1"])),
            Compare::Exact,
        ),
        19 => (format!("SSCAN\t{key}\t{cursor}"), unordered_scan),
        20 => (format!("SSCAN\t{key}\t{cursor}\t{option}"), unordered_scan),
        21 => (
            format!("SRANDMEMBER\t{key}\t{}", pick(rng, &["0", "-3", "x", "2"])),
            Compare::Shape,
        ),
        22 => (format!("SRANDMEMBER\t{key}\t100"), order),
        23 => return pop(rng, queue, key, order),
        24 => ("SET\tstring\tv".to_owned(), Compare::Exact),
        _ => (
            pick(
                rng,
                &[
                    "SPOP\ts1\t-1",
                    "SPOP\ts1\tx",
                    "SPOP\ts1\t1\t2",
                    "SRANDMEMBER\ts1\t1\t2",
                ],
            )
            .to_owned(),
            Compare::Exact,
        ),
    };
    queue.push_back((text, compare));
}

/// After a random pop the two sides hold different members, so the set is removed on both.
fn pop(rng: &mut Rng, queue: &mut std::collections::VecDeque<(String, Compare)>, key: &str, order: Compare) {
    let count = rng.below(8);
    let (text, compare) = match count {
        0 => (format!("SPOP\t{key}"), Compare::Shape),
        1 => (format!("SPOP\t{key}\t100"), order),
        _ => (format!("SPOP\t{key}\t{}", count - 2), Compare::Shape),
    };
    queue.push_back((text, compare));
    queue.push_back((format!("SCARD\t{key}"), Compare::Exact));
    queue.push_back((format!("SUNIONSTORE\t{key}\tnothing"), Compare::Exact));
}

#[test]
fn a_whole_sscan_gives_every_member() {
    for (prefix, members) in [("", 10), ("", 512), ("", 513), ("m", 3), ("m", 2_000)] {
        let mut pair = Pair::new(Proto::Resp3);
        let all: Vec<String> = (0..members).map(|n| format!("{prefix}{n}")).collect();
        let mut request: Vec<&[u8]> = vec![b"SADD", b"scanned"];
        request.extend(all.iter().map(String::as_bytes));
        pair.check(&request, Compare::Exact);
        let (mut cursor, mut seen) = (b"0".to_vec(), BTreeSet::new());
        loop {
            let (ours, _) = pair.run(&[b"SSCAN", b"scanned", &cursor]);
            let mut items = scan_reply(&ours);
            cursor = items.pop_front().expect("a cursor");
            seen.extend(items);
            if cursor == b"0" {
                break;
            }
        }
        assert_eq!(seen.len(), members);
        pair.check(&[b"SMEMBERS", b"scanned"], Compare::Unordered);
    }
}
