use nagaya_resp::Proto;
use nagaya_store::rng::Rng;

use crate::harness::{Compare, Pair, drive, pick, words};

/// Small sets, sets that grow past the listpack, a set that is no set, and nothing.
const KEYS: &[&str] = &["z1", "z2", "{t}z3", "big1", "big2", "big3", "text", "missing"];
const MEMBERS: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "10",
    "-7",
    "007",
    "9999999999",
    "long-member-name",
    "",
];
const SCORES: &[&str] = &[
    "0",
    "-0",
    "1",
    "2",
    "3",
    "2.5",
    "-3",
    "0.1",
    "0.2",
    "0.7",
    "inf",
    "-inf",
    "1e20",
    "-1e-7",
    "123456789012345678",
    "4611686018427387904",
    "9007199254740993",
    "3.0000000000000004",
    "0x1p3",
    "5e-324",
    "1.7976931348623157e308",
];
const BAD_SCORES: &[&str] = &["nan", "abc", "1 ", "1e400", "", "+", "(1"];
const RANKS: &[&str] = &[
    "0",
    "1",
    "2",
    "5",
    "100",
    "-1",
    "-2",
    "-5",
    "-100",
    "9223372036854775807",
    "-9223372036854775808",
    "x",
];
const BOUNDS: &[&str] = &[
    "-inf", "+inf", "0", "1", "(1", "2", "(2", "2.5", "-3", "(0.1", "(-inf", "(inf", "1e400", "", "(", "x",
    "nan",
];
const LEX_KEYS: &[&str] = &["lex1", "lex2", "biglex"];
const LEX_BOUNDS: &[&str] = &[
    "-", "+", "[a", "(a", "[b", "(b", "[c", "[bb", "(m1", "[m5", "[m9", "(m99", "[", "(", "a", "+x",
];
const LIMITS: &[&str] = &[
    "",
    "",
    " LIMIT 0 2",
    " LIMIT 1 -1",
    " LIMIT 2 3",
    " LIMIT -1 2",
    " LIMIT 0 0",
    " LIMIT 50 10",
    " LIMIT 1 x",
    " LIMIT 1",
];
const SETS: &[&str] = &["s1", "s2", "{t}s3"];

#[test]
fn sorted_sets_reply_as_redis_replies() {
    drive(8000, |rng| {
        let (text, compare) = request(rng);
        (words(&text), compare)
    });
}

/// Blocking commands are run where there is something to take, or where they may not wait.
#[test]
fn small_scans_and_blocking_pops_reply_as_redis_replies() {
    for proto in [Proto::Resp2, Proto::Resp3] {
        let mut pair = Pair::new(proto);
        pair.same("ZADD small 1 a 2.5 b inf c -7 10");
        for scan in [
            "ZSCAN small 0",
            "ZSCAN small 5 COUNT 1",
            "ZSCAN small 0 MATCH [ab]",
            "ZSCAN gone x",
        ] {
            pair.same(scan);
        }
        for command in [
            "BZPOPMIN empty full 0",
            "BZPOPMAX full empty 0",
            "BZMPOP 0 2 empty full MAX COUNT 2",
            "BZMPOP 0 2 empty full MIN COUNT 0",
            "BZMPOP 0 1 full MIN",
            "BZMPOP x 1 full MIN",
            "BZMPOP -1 1 full MIN",
            "BZMPOP 0 0 full MIN",
            "BZPOPMIN full -1",
            "BZPOPMIN full x",
            "BZPOPMAX full 0.001",
            "BZPOPMIN text full 0",
        ] {
            pair.same("ZADD full 1 a 2 b 2.5 c");
            pair.same("SET text 1");
            pair.same(command);
            pair.same("ZREM full a b c");
            for step in ["MULTI", command, "EXEC"] {
                pair.same(step);
            }
        }
    }
}

pub(crate) fn request(rng: &mut Rng) -> (String, Compare) {
    let key = pick(rng, KEYS);
    let text = match rng.below(40) {
        0 => format!("SET text {}", pick(rng, MEMBERS)),
        1 => format!(
            "SADD {} {} {}",
            pick(rng, SETS),
            pick(rng, MEMBERS),
            rng.below(30)
        ),
        2 | 3 => many(rng, key),
        4..=11 => change(rng, key),
        12..=19 => range(rng, key),
        20..=22 => query(rng, key),
        23..=26 => algebra(rng),
        27..=30 => lex(rng),
        31 | 32 => pop(rng, key),
        33 => {
            let counts = [
                "",
                " 3",
                " -4",
                " 0",
                " 500",
                " 1 WITHSCORES",
                " -3 WITHSCORES",
                " x",
                " -9223372036854775808",
            ];
            return (format!("ZRANDMEMBER {key}{}", pick(rng, &counts)), Compare::Shape);
        }
        34 => return scan(rng, key),
        _ => store(rng),
    };
    (text, Compare::Exact)
}

/// Only the shape: a large set may come in any order and with any cursor.
fn scan(rng: &mut Rng, key: &str) -> (String, Compare) {
    let options = pick(
        rng,
        &[
            "",
            " MATCH *1*",
            " COUNT 1000",
            " COUNT 0",
            " COUNT x",
            " MATCH",
            " TYPE zset",
        ],
    );
    let cursor = pick(rng, &["0", "", "x", "+0", "5", "-"]);
    (format!("ZSCAN {key} {cursor}{options}"), Compare::Shape)
}

/// Fills a set past the listpack, or adds a member too long for one.
fn many(rng: &mut Rng, key: &str) -> String {
    let mut text = format!("ZADD {key}");
    if rng.below(4) == 0 {
        text.push_str(&format!(" {} {}", rng.below(9), "long".repeat(17)));
    }
    let count = if key.starts_with("big") { 150 } else { 12 };
    for _ in 0..count {
        text.push_str(&format!(" {} m{}", rng.below(40) as f64 / 4.0, rng.below(400)));
    }
    text
}

fn change(rng: &mut Rng, key: &str) -> String {
    let options = pick(
        rng,
        &[
            "",
            "",
            "",
            " NX",
            " XX",
            " GT",
            " LT",
            " CH",
            " XX CH",
            " GT CH",
            " XX LT CH",
            " NX XX",
            " NX GT",
            " GT LT",
            " INCR",
            " INCR XX",
            " NX INCR",
            " GT INCR",
        ],
    );
    let (member, other) = (pick(rng, MEMBERS), format!("m{}", rng.below(400)));
    let (score, second) = (pick(rng, SCORES), pick(rng, SCORES));
    match rng.below(14) {
        0..=4 => format!("ZADD {key}{options} {score} {member}"),
        5 => format!("ZADD {key}{options} {score} {member} {second} {other}"),
        6 => format!("ZADD {key} {} {member}", pick(rng, BAD_SCORES)),
        7 => format!("ZADD {key} {score} {member} {second}"),
        8 | 9 => format!("ZINCRBY {key} {score} {member}"),
        10 => format!(
            "ZINCRBY {key} {} {other}",
            pick(rng, &["1", "-1", "0.1", "nx", "abc"])
        ),
        11 => format!("ZREM {key} {member} {other}"),
        12 => format!("ZREMRANGEBYRANK {key} {} {}", pick(rng, RANKS), rng.below(4)),
        _ => format!(
            "ZREMRANGEBYSCORE {key} {} {}",
            pick(rng, BOUNDS),
            pick(rng, BOUNDS)
        ),
    }
}

fn range(rng: &mut Rng, key: &str) -> String {
    let (start, stop) = (pick(rng, RANKS), pick(rng, RANKS));
    let (min, max) = (pick(rng, BOUNDS), pick(rng, BOUNDS));
    let scores = pick(rng, &["", " WITHSCORES", " withscores WITHSCORES"]);
    let limit = pick(rng, LIMITS);
    match rng.below(10) {
        0 => format!("ZRANGE {key} {start} {stop}{scores}"),
        1 => format!("ZRANGE {key} {start} {stop} REV{scores}"),
        2 => format!("ZRANGE {key} {start} {stop}{scores}{limit}"),
        3 => format!("ZRANGE {key} {min} {max} BYSCORE{scores}{limit}"),
        4 => format!("ZRANGE {key} {max} {min} BYSCORE REV{scores}{limit}"),
        5 => format!("ZREVRANGE {key} {start} {stop}{scores}"),
        6 => format!("ZRANGEBYSCORE {key} {min} {max}{scores}{limit}"),
        7 => format!("ZREVRANGEBYSCORE {key} {max} {min}{limit}{scores}"),
        8 => format!("ZCOUNT {key} {min} {max}"),
        _ => format!(
            "ZRANGE {key} {start} {stop} {}",
            pick(
                rng,
                &["BYLEX BYSCORE", "REV REV", "LIMIT", "foo", "BYLEX WITHSCORES"]
            )
        ),
    }
}

fn query(rng: &mut Rng, key: &str) -> String {
    let (member, other) = (pick(rng, MEMBERS), format!("m{}", rng.below(400)));
    match rng.below(8) {
        0 => format!("ZCARD {key}"),
        1 => format!("ZSCORE {key} {member}"),
        2 => format!("ZMSCORE {key} {member} {other} a b"),
        3 => format!("ZRANK {key} {other}"),
        4 => format!("ZREVRANK {key} {member}"),
        5 => format!("OBJECT ENCODING {key}"),
        6 => format!("DUMP {key}"),
        _ => format!("COPY {key} {} REPLACE", pick(rng, &["z1", "big3", "out"])),
    }
}

fn inputs(rng: &mut Rng) -> (usize, String) {
    let count = 1 + rng.below(3);
    let keys = (0..count).map(|_| {
        if rng.below(4) == 0 {
            pick(rng, SETS)
        } else {
            pick(rng, KEYS)
        }
    });
    (count, keys.collect::<Vec<_>>().join(" "))
}

fn options(rng: &mut Rng, count: usize) -> String {
    let weights = match rng.below(4) {
        0 => format!(
            " WEIGHTS{}",
            (0..count)
                .map(|_| format!(" {}", pick(rng, &["2", "0.5", "-1", "0", "inf", "1e10", "x"])))
                .collect::<String>()
        ),
        _ => String::new(),
    };
    format!(
        "{weights}{}",
        pick(
            rng,
            &[
                "",
                "",
                " AGGREGATE SUM",
                " AGGREGATE MIN",
                " AGGREGATE MAX",
                " AGGREGATE avg",
                " AGGREGATE"
            ]
        )
    )
}

fn algebra(rng: &mut Rng) -> String {
    let (count, keys) = inputs(rng);
    let options = options(rng, count);
    let scores = pick(rng, &["", " WITHSCORES"]);
    match rng.below(9) {
        0..=2 => format!("ZUNION {count} {keys}{options}{scores}"),
        3..=5 => format!("ZINTER {count} {keys}{options}{scores}"),
        6 => format!("ZDIFF {count} {keys}{scores}"),
        7 => format!(
            "ZINTERCARD {count} {keys}{}",
            pick(
                rng,
                &["", " LIMIT 2", " LIMIT 0", " LIMIT -1", " LIMIT x", " LIMIT"]
            )
        ),
        _ => format!(
            "{} {} {keys}",
            pick(rng, &["ZUNION", "ZDIFF", "ZINTER", "ZINTERCARD"]),
            pick(rng, &["0", "-1", "x", "9"])
        ),
    }
}

fn store(rng: &mut Rng) -> String {
    let (count, keys) = inputs(rng);
    let options = options(rng, count);
    let (destination, source) = (pick(rng, &["z1", "z2", "big2", "out", "text"]), pick(rng, KEYS));
    match rng.below(6) {
        0 => format!("ZUNIONSTORE {destination} {count} {keys}{options}"),
        1 => format!("ZINTERSTORE {destination} {count} {keys}{options}"),
        2 => format!("ZDIFFSTORE {destination} {count} {keys}"),
        3 => format!(
            "ZRANGESTORE {destination} {source} {} {}{}",
            pick(rng, RANKS),
            pick(rng, RANKS),
            pick(rng, &["", " REV", " WITHSCORES", " LIMIT 1 2"])
        ),
        4 => format!(
            "ZRANGESTORE {destination} {source} {} {} BYSCORE{}",
            pick(rng, BOUNDS),
            pick(rng, BOUNDS),
            pick(rng, LIMITS)
        ),
        _ => format!("ZRANGE {destination} 0 -1 WITHSCORES"),
    }
}

/// Members of these keys all have the score zero: only then is their order by bytes defined.
fn lex(rng: &mut Rng) -> String {
    let key = pick(rng, LEX_KEYS);
    let (min, max) = (pick(rng, LEX_BOUNDS), pick(rng, LEX_BOUNDS));
    let limit = pick(rng, LIMITS);
    match rng.below(10) {
        0 | 1 => {
            let count = if key == "biglex" { 140 } else { 5 };
            let members: String = (0..count).map(|_| format!(" 0 m{}", rng.below(300))).collect();
            format!("ZADD {key}{members} 0 a 0 b 0 c")
        }
        2 => format!("ZRANGEBYLEX {key} {min} {max}{limit}"),
        3 => format!("ZREVRANGEBYLEX {key} {max} {min}{limit}"),
        4 => format!("ZRANGE {key} {min} {max} BYLEX{limit}"),
        5 => format!("ZRANGE {key} {max} {min} REV BYLEX{limit}"),
        6 => format!("ZLEXCOUNT {key} {min} {max}"),
        7 => format!("ZREMRANGEBYLEX {key} {min} {max}"),
        8 => format!("ZRANGESTORE lexout {key} {min} {max} BYLEX{limit}"),
        _ => "ZRANGE lexout 0 -1".to_owned(),
    }
}

fn pop(rng: &mut Rng, key: &str) -> String {
    let other = pick(rng, KEYS);
    match rng.below(6) {
        0 => format!(
            "ZPOPMIN {key}{}",
            pick(rng, &["", " 1", " 3", " 0", " -1", " x", " 1 2"])
        ),
        1 => format!(
            "ZPOPMAX {key}{}",
            pick(rng, &["", " 1", " 3", " 0", " -1", " 1000"])
        ),
        2 => format!("ZMPOP 2 {key} {other} MIN"),
        3 => format!(
            "ZMPOP 2 {key} {other} MAX COUNT {}",
            pick(rng, &["1", "3", "0", "-1", "x", "2 COUNT 3"])
        ),
        4 => format!(
            "ZMPOP {} {key} MIN",
            pick(rng, &["0", "-1", "x", "2", "9223372036854775807"])
        ),
        _ => format!(
            "ZMPOP 1 {key} {}",
            pick(rng, &["MID", "MIN COUNT", "MAX foo", "MIN COUNT 2 x"])
        ),
    }
}
