//! What writers do: every type, one tag and several, alone and as one.

use nagaya_store::rng::Rng;

use super::wire::{Request, words};

/// Something that happens wholly or not at all.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// Requests of which the last one does it: a plain command, or all of a transaction.
    Fixed(Vec<Request>),
    /// SPOP of a set: only the reply shows what happened.
    Pop(String),
}

impl Op {
    pub(super) fn requests(&self) -> Vec<Request> {
        match self {
            Op::Fixed(requests) => requests.clone(),
            Op::Pop(key) => vec![words(&format!("SPOP {key}"))],
        }
    }
}

/// The types that keys are named after, per tag.
const KINDS: &[&str] = &[
    "str", "num", "bits", "hll", "list", "hash", "set", "zset", "stream", "any", "n",
];

/// Returns the names of all keys that the operations on a tag use. The last has the tag's own name.
pub(super) fn keys_of(tag: &str) -> Vec<String> {
    let braced = KINDS.iter().map(|kind| format!("{{{tag}}}{kind}"));
    braced.chain([tag.to_owned()]).collect()
}

const SCRIPT: &str = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('RPUSH', KEYS[2], ARGV[1], 'x') \
     redis.call('HINCRBY', KEYS[3], 'scripts', 1) return redis.call('INCR', KEYS[4])";

/// Picks what a writer does next on its own tags.
pub(super) fn next(rng: &mut Rng, tags: &[String]) -> Op {
    let one = &tags[rng.below(tags.len())];
    let other = &tags[rng.below(tags.len())];
    match rng.below(20) {
        0 => Op::Pop(format!("{{{one}}}set")),
        1 | 2 => transaction(rng, one, other),
        3 => script(rng, one, other),
        4..7 => Op::Fixed(vec![words(&several_tags(rng, one, other))]),
        7 => Op::Fixed(vec![words(&format!("DEL {{{one}}}any {{{other}}}str"))]),
        _ => Op::Fixed(vec![words(&one_tag(rng, one))]),
    }
}

/// Some bytes without spaces, mostly short.
fn value(rng: &mut Rng) -> String {
    let length = match rng.below(12) {
        0 => 3000 + rng.below(6000),
        1..4 => 100 + rng.below(400),
        _ => 1 + rng.below(20),
    };
    let letter = char::from(b'a' + rng.below(26) as u8);
    format!("{}{}", rng.below(1000), letter.to_string().repeat(length))
}

fn one_tag(rng: &mut Rng, tag: &str) -> String {
    let (text, number) = (value(rng), rng.below(50));
    let end = ["L", "R"][rng.below(2)];
    match rng.below(34) {
        0 | 1 => format!("SET {{{tag}}}str {text}"),
        2 => format!("APPEND {{{tag}}}str {number}"),
        3 => format!("SETRANGE {{{tag}}}str {number} zz"),
        4 => format!("SET {tag} {text}"),
        5 => format!("GETDEL {{{tag}}}str"),
        6 => format!("INCRBY {{{tag}}}num {number}"),
        7 => format!("INCRBYFLOAT {{{tag}}}num 0.5"),
        8 => format!("SETBIT {{{tag}}}bits {} 1", rng.below(5000)),
        9 => format!("BITFIELD {{{tag}}}bits SET u8 {number} {number} INCRBY i5 100 1"),
        10 => format!("PFADD {{{tag}}}hll {text} {number}"),
        11..14 => format!("{end}PUSH {{{tag}}}list {text} {number}"),
        14 => format!("{end}POP {{{tag}}}list {}", 1 + rng.below(4)),
        15 => format!("LTRIM {{{tag}}}list 0 60"),
        16..18 => format!("HSET {{{tag}}}hash f{number} {text}"),
        18 => format!("HDEL {{{tag}}}hash f{number} f1"),
        19 => format!("HINCRBYFLOAT {{{tag}}}hash float 0.1"),
        20..22 => format!("SADD {{{tag}}}set {number} m{number}"),
        22 => format!("SREM {{{tag}}}set {number}"),
        23..25 => format!("ZADD {{{tag}}}zset {number}.5 m{number} 1 {number}"),
        25 => format!("ZPOPMIN {{{tag}}}zset"),
        26 => format!("ZINCRBY {{{tag}}}zset 0.1 m{number}"),
        27 => format!(
            "XADD {{{tag}}}stream NOMKSTREAM MAXLEN 40 {} f {text}",
            stream_id(rng)
        ),
        28 => format!("XADD {{{tag}}}stream {} f {text}", stream_id(rng)),
        29 => format!("XGROUP CREATE {{{tag}}}stream g{} 0 MKSTREAM", number % 2),
        30 => format!(
            "XREADGROUP GROUP g{} c{} COUNT 3 STREAMS {{{tag}}}stream >",
            number % 2,
            number % 3
        ),
        31 => format!(
            "PEXPIREAT {{{tag}}}{} {}",
            KINDS[rng.below(KINDS.len() - 1)],
            far(rng)
        ),
        32 => format!("PERSIST {{{tag}}}{}", KINDS[rng.below(KINDS.len())]),
        _ => format!("LRANGE {{{tag}}}list 0 -1"),
    }
}

/// Ids that mostly grow; one that does not is refused by every server.
fn stream_id(rng: &mut Rng) -> String {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("{next}-{}", rng.below(3))
}

/// A time that no test reaches, to the millisecond.
fn far(rng: &mut Rng) -> u64 {
    4_000_000_000_000 + rng.below(1_000_000_000) as u64
}

fn several_tags(rng: &mut Rng, one: &str, other: &str) -> String {
    let (text, number) = (value(rng), rng.below(50));
    match rng.below(10) {
        0 | 1 => format!("MSET {{{one}}}str {text} {{{other}}}any {number} {other} {number}"),
        2 => format!("MSETNX {{{one}}}any {text} {{{other}}}any {number}"),
        3 => format!("RENAME {{{one}}}any {{{other}}}str"),
        4 => format!("SMOVE {{{one}}}set {{{other}}}set {number}"),
        5 => format!("LMOVE {{{one}}}list {{{other}}}list LEFT RIGHT"),
        6 => format!("SUNIONSTORE {{{one}}}set {{{other}}}set {{{one}}}set"),
        7 => format!("ZUNIONSTORE {{{one}}}zset 2 {{{other}}}zset {{{one}}}zset"),
        8 => format!("COPY {{{one}}}hash {{{other}}}any REPLACE"),
        _ => format!("PFMERGE {{{one}}}hll {{{other}}}hll"),
    }
}

fn transaction(rng: &mut Rng, one: &str, other: &str) -> Op {
    let mut requests = vec![words("MULTI")];
    for _ in 0..1 + rng.below(4) {
        let text = match rng.below(3) {
            0 => several_tags(rng, one, other),
            1 => one_tag(rng, one),
            _ => one_tag(rng, other),
        };
        requests.push(words(&text));
    }
    requests.push(words("EXEC"));
    Op::Fixed(requests)
}

fn script(rng: &mut Rng, one: &str, other: &str) -> Op {
    let keys = [
        format!("{{{one}}}str"),
        format!("{{{other}}}list"),
        format!("{{{one}}}hash"),
        format!("{{{other}}}num"),
    ];
    let head = ["EVAL", SCRIPT, "4"].map(|word| word.as_bytes().to_vec());
    let keys = keys.map(String::into_bytes);
    let text = [value(rng).into_bytes()];
    Op::Fixed(vec![head.into_iter().chain(keys).chain(text).collect()])
}
