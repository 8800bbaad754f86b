use nagaya_store::rng::Rng;

use crate::harness::{Compare, drive, pick, words};

const KEYS: &[&str] = &["k1", "k2", "k3", "{tag}a", "{tag}b"];
const VALUES: &[&str] = &[
    "",
    "0",
    "7",
    "-12",
    "007",
    "abc",
    "3.5",
    "9223372036854775807",
    "1e3",
    "hello-world",
];

#[test]
fn strings_reply_as_redis_replies() {
    drive(4000, |rng| (request(rng), Compare::Exact));
}

pub(crate) fn request(rng: &mut Rng) -> Vec<Vec<u8>> {
    let (key, other) = (pick(rng, KEYS), pick(rng, KEYS));
    let (value, second) = (pick(rng, VALUES), pick(rng, VALUES));
    let option = pick(
        rng,
        &[
            "NX",
            "XX",
            "GET",
            "NX GET",
            "XX GET",
            "EX 100",
            "KEEPTTL",
            "PX 100000",
            "EX 0",
            "NX XX",
        ],
    );
    let number = pick(
        rng,
        &[
            "1",
            "-1",
            "5",
            "100",
            "-9223372036854775808",
            "9223372036854775807",
            "x",
            "0",
        ],
    );
    let text = match rng.below(24) {
        0 => format!("SET {key} {value}"),
        1 => format!("SET {key} {value} {option}"),
        2 => format!("GET {key}"),
        3 => format!("SETNX {key} {value}"),
        4 => format!("GETSET {key} {value}"),
        5 => format!("GETDEL {key}"),
        6 => format!("MGET {key} {other} missing"),
        7 => format!("MSET {key} {value} {other} {second}"),
        8 => format!("MSETNX {key} {value} {other} {second}"),
        9 => format!("APPEND {key} {value}"),
        10 => format!("STRLEN {key}"),
        11 => format!("SETRANGE {key} {} {value}", rng.below(20)),
        12 => format!("GETRANGE {key} {number} {}", rng.below(10)),
        13 => format!("INCR {key}"),
        14 => format!("DECR {key}"),
        15 => format!("INCRBY {key} {number}"),
        16 => format!("DECRBY {key} {number}"),
        17 => format!("LCS {key} {other}"),
        18 => format!("LCS {key} {other} IDX WITHMATCHLEN"),
        19 => format!("LCS {key} {other} LEN"),
        20 => format!("GETEX {key}"),
        21 => format!("SETEX {key} {number} {value}"),
        22 => format!("SUBSTR {key} 1 -2"),
        _ => format!("MSET {key} {value} {other}"),
    };
    words(&text)
}
