//! Replaying a journal gives the data back, whatever was run and wherever one starts.

use std::collections::{BTreeMap, BTreeSet};

use nagaya_commands::testing::TestSession;
use nagaya_exec::replay::EffectOn;
use nagaya_keyspace::databases::{split_name, tag_name};
use nagaya_keyspace::effects::EffectBuf;
use nagaya_keyspace::hash_tag::hash_tag;
use nagaya_store::limits::EncodingLimits;
use nagaya_store::rdb;
use nagaya_store::rng::Rng;
use nagaya_store::value::Value;

use crate::diff_hash::Queue;
use crate::harness::{Compare, pick, seed, words};
use crate::{
    diff_bitmap, diff_geo, diff_hash, diff_hll, diff_keys, diff_list, diff_set, diff_stream, diff_string,
    diff_zset,
};

pub(crate) type Request = Vec<Vec<u8>>;
/// Every key with its expiry and its dump.
pub(crate) type Contents = BTreeMap<Vec<u8>, (Option<i64>, Vec<u8>)>;

/// What requests are drawn from. For a while most come from one of these, so that its values grow.
pub(crate) const FAMILIES: &[fn(&mut Rng) -> Request] = &[
    databases,
    diff_string::request,
    diff_bitmap::request,
    diff_hll::request,
    |rng| words(&diff_geo::request(rng)),
    |rng| words(&diff_zset::request(rng).0),
    |rng| diff_keys::request(rng).0,
    |rng| words(&diff_keys::sort(rng)),
    diff_list::request,
    diff_list::long_request,
    |rng| words(&diff_hash::small(rng)),
    |rng| diff_hash::large(rng).0,
    |rng| diff_set::step(rng, &Queue::default(), diff_set::NUMBERS, Compare::Skip).0,
    |rng| diff_set::step(rng, &Queue::default(), diff_set::TEXTS, Compare::Skip).0,
    |rng| diff_set::large(rng).0,
    |rng| match rng.below(3) {
        0 => words(&diff_stream::entries(rng)),
        1 => words(&diff_stream::groups(rng)),
        _ => words(&diff_stream::claims(rng)),
    },
    timed_streams,
    typed,
    typed,
    expiring,
    any_type,
];

/// Keys by type, of three tags and of none.
const STRINGS: &[&str] = &["{x}str1", "{x}str2", "{y}str", "str3"];
const LISTS: &[&str] = &["{x}list1", "{x}list2", "{y}list", "list3"];
const SETS: &[&str] = &["{x}set1", "{x}set2", "{y}set", "set3"];
const ZSETS: &[&str] = &["{x}zset1", "{x}zset2", "{y}zset", "zset3"];
const HASHES: &[&str] = &["{x}hash1", "{x}hash2", "{y}hash", "hash3"];

const SCRIPTS: &[&str] = &[
    "redis.call('SET', KEYS[1], 'v', 'PX', ARGV[1]) return redis.pcall('RENAME', KEYS[1], KEYS[2])",
    "redis.pcall('LPUSH', KEYS[1], 'a', 'b') redis.pcall('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT') return 1",
    "redis.pcall('SADD', KEYS[1], 1, 2, 3, 4) redis.pcall('SPOP', KEYS[1], 2) redis.call('PEXPIRE', KEYS[1], ARGV[1])",
    "local n = redis.pcall('INCR', KEYS[1]) redis.pcall('SETNX', KEYS[2], ARGV[1]) return n",
    "redis.call('DEL', KEYS[1], KEYS[2]) error('after a write')",
];

/// Commands about entries that exist. The group is the second key.
const STREAM_SCRIPTS: &[&str] = &[
    "local e = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 8) return redis.call('XDEL', KEYS[1], e[#e][1])",
    "local e = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 3) return redis.call('XDEL', KEYS[1], e[#e][1])",
    "local p = redis.call('XPENDING', KEYS[1], KEYS[2], '-', '+', 5)
     return redis.call('XACK', KEYS[1], KEYS[2], p[#p][1])",
    "local p = redis.call('XPENDING', KEYS[1], KEYS[2], '-', '+', 9)
     return redis.call('XCLAIM', KEYS[1], KEYS[2], 'claimer', 10, p[1][1], p[#p][1])",
    "local p = redis.call('XPENDING', KEYS[1], KEYS[2], '-', '+', 9)
     return redis.call('XCLAIM', KEYS[1], KEYS[2], 'forcer', 0, p[#p][1], '1-1', 'IDLE', 500, 'RETRYCOUNT', 7, 'FORCE')",
    "local e = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 4)
     redis.call('XTRIM', KEYS[1], 'MINID', e[#e][1]) return redis.call('XSETID', KEYS[1], '1800000000000-0')",
];

/// One engine under load, with its journal.
struct Source {
    clients: Vec<TestSession>,
    /// Where most requests come from for now.
    focus: usize,
    /// All records so far, and the contents at some moments: after how many records.
    records: Vec<Vec<u8>>,
    moments: Vec<(usize, Contents)>,
}

impl Source {
    fn run(rng: &mut Rng, steps: usize) -> Source {
        let first = fresh();
        let journal = first.record();
        let mut source = Source {
            clients: (0..3).map(|_| first.another()).collect(),
            focus: 0,
            records: Vec::new(),
            moments: Vec::new(),
        };
        source.clients.push(first);
        for step in 0..steps {
            source.step(rng);
            source.records.extend(journal.take());
            if rng.below(steps / 50) == 0 || step + 1 == steps {
                let contents = source.clients[0].contents();
                source.moments.push((source.records.len(), contents));
            }
        }
        source
    }

    fn step(&mut self, rng: &mut Rng) {
        if rng.below(3) == 0 {
            self.clients[0].advance_ms(rng.below(40) as i64);
        }
        if rng.below(20) == 0 {
            self.clients[0].expire();
        }
        let free: Vec<usize> = (0..self.clients.len())
            .filter(|&at| !self.clients[at].client.is_blocked())
            .collect();
        if rng.below(200) == 0 {
            self.focus = rng.below(FAMILIES.len());
        }
        let request = match rng.below(20) {
            0 => diff_list::crowd_request(rng, free.len() > 1),
            1 => words("EXEC"),
            at if at < 12 => FAMILIES[self.focus](rng),
            _ => FAMILIES[rng.below(FAMILIES.len())](rng),
        };
        let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let sender = free[rng.below(free.len())];
        self.clients[sender].run(&args);
        // Should all wait, nobody could wake them.
        if self.clients.iter().all(|client| client.client.is_blocked()) {
            self.clients[sender].disconnect();
            self.clients[sender] = self.clients[(sender + 1) % 4].another();
        }
        self.clients.iter_mut().for_each(|client| drop(client.messages()));
    }
}

/// Requests that mostly meet the type they are for.
fn typed(rng: &mut Rng) -> Request {
    let (string, other_string) = (pick(rng, STRINGS), pick(rng, STRINGS));
    let (list, other_list) = (pick(rng, LISTS), pick(rng, LISTS));
    let (set, other_set) = (pick(rng, SETS), pick(rng, SETS));
    let (zset, other_zset) = (pick(rng, ZSETS), pick(rng, ZSETS));
    let (hash, number) = (pick(rng, HASHES), rng.below(40));
    let end = pick(rng, &["LEFT", "RIGHT"]);
    words(&match rng.below(43) {
        0 => format!("INCRBYFLOAT {string} 0.{number}"),
        1 => format!("SET {string} {number} KEEPTTL"),
        2 => format!("MSET {string} {number} {other_string} 0.5"),
        3 => format!("MSETNX {string} {number} {other_string} 7"),
        4 => format!("GETDEL {string}"),
        5 => format!("BITOP XOR {string} {other_string} {string}"),
        6 => format!("APPEND {string} {number}"),
        7 => format!("LMOVE {list} {other_list} {end} RIGHT"),
        8 => format!("RPOPLPUSH {list} {other_list}"),
        9..=11 => format!("RPUSH {list} {number} b{number} c"),
        12 => format!("LMPOP 2 {list} {other_list} {end} COUNT {}", number + 1),
        13 => format!("LTRIM {list} 0 {number}"),
        14 => format!("SPOP {set}"),
        15 => format!("SPOP {set} {number}"),
        16 | 17 => format!("SMOVE {set} {other_set} {number}"),
        18..=20 => format!("SADD {set} {number} {} {}", number + 1, number * 7),
        21 => format!("SADD {set} m{number}"),
        22 => format!("SDIFFSTORE {set} {other_set} {set}"),
        23 => format!("SUNIONSTORE {set} {other_set} set3"),
        24..=26 => format!("ZADD {zset} {number}.5 m{number} 1 x{number}"),
        27 => format!("ZUNIONSTORE {zset} 2 {zset} {other_zset} WEIGHTS 0.{number} 3"),
        28 => format!("ZRANGESTORE {zset} {other_zset} 0 {number}"),
        29 => format!("ZMPOP 2 {zset} {other_zset} MIN COUNT 2"),
        30 => format!("ZINCRBY {zset} 0.{number} m{number}"),
        31 => format!("ZREMRANGEBYRANK {zset} {number} -1"),
        32 => format!("HINCRBYFLOAT {hash} f{number} 1.{number}"),
        33 => format!("HDEL {hash} f{number} f1"),
        34 => format!("SORT {set} BY nosort STORE {list}"),
        35 => format!("HPEXPIRE {hash} {} FIELDS 2 f{number} f1", 1 + number * number),
        36 => format!("HSETEX {hash} PX {} FIELDS 1 f{number} {number}", 1 + number * 3),
        37 => format!("HSETEX {hash} KEEPTTL FIELDS 1 f{number} kept"),
        38 => format!("HGETEX {hash} PERSIST FIELDS 1 f{number}"),
        39 => format!("HGETDEL {hash} FIELDS 2 f{number} f2"),
        40 => format!("HPERSIST {hash} FIELDS 1 f{number}"),
        _ => format!("HSET {hash} f{number} {number}"),
    })
}

/// Streams whose ids come from the clock, with groups and trims of many small blocks.
fn timed_streams(rng: &mut Rng) -> Request {
    let (key, number) = (pick(rng, &["auto1", "{x}auto2"]), rng.below(40));
    let (group, consumer) = (number % 2, number % 3);
    let threshold = pick(
        rng,
        &[
            "MAXLEN ~ 20",
            "MAXLEN 15",
            "MINID ~ 1700000001000",
            "MAXLEN ~ 5 LIMIT 7",
        ],
    );
    words(&match rng.below(26) {
        20..=25 => return script(rng, STREAM_SCRIPTS, &[key, &format!("g{group}")]),
        0..=3 => format!("XADD {key} * f {number} g x"),
        4 | 5 => format!("XADD {key} {threshold} * f {number} g x"),
        6 => format!("XTRIM {key} {threshold}"),
        7 => format!("XGROUP CREATE {key} g{group} 0"),
        8..=10 => format!("XREADGROUP GROUP g{group} c{consumer} COUNT {number} STREAMS {key} >"),
        11 => format!("XREADGROUP GROUP g0 c{consumer} STREAMS auto1 {{x}}auto2 > 0"),
        12 => format!("XREADGROUP GROUP g{group} c{consumer} COUNT 3 STREAMS {key} 0"),
        13 => format!("XREADGROUP GROUP g{group} c{consumer} NOACK COUNT 3 STREAMS {key} >"),
        14 => format!("XAUTOCLAIM {key} g{group} c{consumer} {number} - COUNT 5"),
        15 => format!("XAUTOCLAIM {key} g{group} c{consumer} 5 - JUSTID"),
        16 => format!("XGROUP CREATECONSUMER {key} g{group} d{number}"),
        17 => format!("XGROUP SETID {key} g{group} $"),
        18 if number == 0 => format!("DEL {key}"),
        _ => format!("XGROUP DELCONSUMER {key} g{group} d{number}"),
    })
}

/// Times to live that end during the run.
fn expiring(rng: &mut Rng) -> Request {
    let families = [
        STRINGS,
        LISTS,
        SETS,
        ZSETS,
        HASHES,
        &["l1", "h1", "s1", "k1", "{tag}a"],
    ];
    let family = families[rng.below(families.len())];
    let (key, string, soon_ms) = (pick(rng, family), pick(rng, STRINGS), rng.below(900));
    words(&match rng.below(12) {
        0..=2 => format!("PEXPIRE {key} {soon_ms}"),
        3 => format!("EXPIRE {key} {}", rng.below(3)),
        4 => format!("SET {string} v PX {}", soon_ms + 1),
        5 => format!("SET {string} v NX EXAT {}", 1_700_000_000 + rng.below(300)),
        6 => format!("GETEX {string} PX {}", soon_ms + 1),
        7 => format!("PSETEX {string} {} v", soon_ms + 1),
        8 => format!("SETNX {string} v"),
        9 => format!("PERSIST {key}"),
        10 => format!("GETEX {string} PERSIST"),
        _ => format!("EXISTS {key} {string}"),
    })
}

/// Requests that move between databases.
fn databases(rng: &mut Rng) -> Request {
    let families = [STRINGS, LISTS, SETS, ZSETS, HASHES];
    let all: Vec<&str> = families.concat();
    let (key, other) = (pick(rng, &all), pick(rng, &all));
    let (database, second) = (rng.below(4), rng.below(4));
    words(&match rng.below(12) {
        0 | 1 => format!("SELECT {database}"),
        2 | 3 => format!("MOVE {key} {database}"),
        4 => format!("COPY {key} {other} DB {database}"),
        5 => format!("COPY {key} {key} DB {database} REPLACE"),
        6 if rng.below(4) == 0 => format!("SWAPDB {database} {second}"),
        7 if rng.below(12) == 0 => "FLUSHDB".to_owned(),
        8 => format!("WATCH {key}"),
        9 => "MULTI".to_owned(),
        10 => return script(rng, SELECTING, &[key, other]),
        _ => "EXEC".to_owned(),
    })
}

/// Scripts that select a database, which does not outlast them.
const SELECTING: &[&str] = &[
    "redis.call('select', 2) redis.call('set', KEYS[1], 'x') return redis.call('dbsize') >= 1",
    "redis.call('move', KEYS[1], 3) redis.call('select', 3) return redis.call('type', KEYS[1])",
    "redis.call('set', KEYS[2], 'y') redis.call('select', 1) return redis.call('copy', KEYS[2], KEYS[1], 'DB', 0)",
];

/// Requests over keys of any type, rare ones, and those that hold others.
fn any_type(rng: &mut Rng) -> Request {
    let families = [STRINGS, LISTS, SETS, ZSETS, HASHES];
    let all: Vec<&str> = families.concat();
    let (key, other, third) = (pick(rng, &all), pick(rng, &all), pick(rng, &all));
    words(&match rng.below(16) {
        0 => format!("RENAME {key} {other}"),
        1 => format!("RENAMENX {key} {other}"),
        2 => format!("COPY {key} {other} REPLACE"),
        3 => format!("COPY {key} {other}"),
        4 => format!("DEL {key} {other}"),
        5 => format!("SORT {key} ALPHA STORE {other}"),
        6 => format!("PFMERGE {key} {other} {third}"),
        7 if rng.below(20) == 0 => pick(rng, &["FLUSHALL", "FLUSHDB"]).to_owned(),
        8..=10 => return script(rng, SCRIPTS, &[key, other]),
        11 if rng.below(3) == 0 => return library(rng),
        12 if rng.below(2) == 0 => "MULTI".to_owned(),
        13 => "DISCARD".to_owned(),
        _ => "EXEC".to_owned(),
    })
}

fn script(rng: &mut Rng, scripts: &[&str], keys: &[&str]) -> Request {
    let ttl_ms = (rng.below(200) + 1).to_string();
    let script = pick(rng, scripts);
    ["EVAL", script, "2", keys[0], keys[1], &ttl_ms]
        .iter()
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

fn library(rng: &mut Rng) -> Request {
    let number = rng.below(4);
    if rng.below(4) == 0 {
        return words(&format!("FUNCTION DELETE l{number}"));
    }
    let code = format!(
        "#!lua name=l{number}\nredis.register_function('f{number}', function(keys, args) return {} end)",
        rng.below(100)
    );
    vec![
        b"FUNCTION".to_vec(),
        b"LOAD".to_vec(),
        b"REPLACE".to_vec(),
        code.into_bytes(),
    ]
}

/// Makes an engine whose streams and lists have many small blocks.
pub(crate) fn fresh() -> TestSession {
    let mut session = TestSession::new();
    session.check("CONFIG SET stream-node-max-entries 6", "+OK\r\n");
    session
}

/// Returns the name of the tag of a key, given as contents have it.
pub(crate) fn tag_of(key: &[u8]) -> Vec<u8> {
    let (space, key) = split_name(key);
    tag_name(space, hash_tag(key)).into_owned()
}

/// Replays all records on a new engine, long after, and compares at every moment. Tags with a cut start
/// from what they held after so many records: their effects before it are skipped.
fn replayed(source: &Source, cuts: &BTreeMap<Vec<u8>, usize>, context: &str) -> TestSession {
    let mut session = fresh();
    session.advance_ms(86_400_000);
    for at in 0..=source.records.len() {
        for (moment, contents) in source.moments.iter().filter(|(moment, _)| *moment == at) {
            let cut_here = |key: &[u8]| cuts.get(&tag_of(key)) == Some(moment);
            let mut buf = EffectBuf::default();
            for (key, (expiry, dump)) in contents.iter().filter(|(key, _)| cut_here(key)) {
                let expiry = expiry.unwrap_or(0).to_string();
                let (space, key) = split_name(key);
                buf.push(&[b"SELECT", space.to_string().as_bytes()]);
                buf.push(&[b"RESTORE", key, expiry.as_bytes(), dump, b"REPLACE", b"ABSTTL"]);
            }
            session.replay(buf.as_bytes(), |_| true).unwrap();
            let begun = |key: &[u8]| cuts.get(&tag_of(key)).is_none_or(|cut| *cut <= at);
            compare(
                contents,
                &session.contents(),
                begun,
                &source.records[..at],
                context,
            );
        }
        let Some(record) = source.records.get(at) else {
            break;
        };
        let wanted = |on: EffectOn<'_>| match on {
            EffectOn::Tag(tag) => cuts.get(tag).is_none_or(|cut| *cut <= at),
            EffectOn::Databases | EffectOn::Everything => true,
        };
        if let Err(error) = session.replay(record, wanted) {
            panic!("{context}record {at}: {error}: {}", record.escape_ascii());
        }
    }
    session
}

/// Shows a value without what DUMP and RESTORE do not keep: the inner order of sets and hashes, and a
/// form that a value has from being larger once.
fn canonical(dump: &[u8]) -> Vec<String> {
    let show = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let mut parts: Vec<String> = match rdb::restore(dump, &EncodingLimits::default()).unwrap() {
        Value::Set(set) => set.iter().map(|member| show(&member.to_vec())).collect(),
        Value::Hash(hash) => {
            let pairs = hash.iter();
            pairs
                .map(|(field, value)| format!("{}={}", show(&field.to_vec()), show(&value.to_vec())))
                .collect()
        }
        Value::Zset(zset) => {
            let entries = zset.iter();
            entries
                .map(|entry| format!("{}={:x}", show(&entry.member.to_vec()), entry.score.to_bits()))
                .collect()
        }
        _ => vec![show(dump)],
    };
    parts.sort();
    parts
}

pub(crate) fn compare(
    before: &Contents,
    after: &Contents,
    begun: impl Fn(&[u8]) -> bool,
    records: &[Vec<u8>],
    context: &str,
) {
    let keys: BTreeSet<&Vec<u8>> = before.keys().chain(after.keys()).collect();
    for key in keys.into_iter().filter(|key| begun(key)) {
        let (before, after) = (before.get(key), after.get(key));
        let same = match (before, after) {
            (Some((expiry, dump)), Some((other_expiry, other_dump))) => {
                expiry == other_expiry && (dump == other_dump || canonical(dump) == canonical(other_dump))
            }
            _ => false,
        };
        if same {
            continue;
        }
        let show = |value: Option<&(Option<i64>, Vec<u8>)>| {
            value.map(|(expiry, dump)| (*expiry, canonical(dump).join(" ")))
        };
        let needle = hash_tag(split_name(key).1);
        let about = |(at, record): (usize, &Vec<u8>)| {
            let found = record.windows(needle.len()).any(|window| window == needle);
            found.then(|| format!("{at}: {}", record.escape_ascii()))
        };
        let records: Vec<String> = records.iter().enumerate().filter_map(about).collect();
        let from = records.len().saturating_sub(40);
        panic!(
            "{context}key {} differs\n before: {:?}\n after:  {:?}\nlatest records:\n  {}",
            key.escape_ascii(),
            show(before),
            show(after),
            records[from..].join("\n  ")
        );
    }
}

fn steps() -> usize {
    match std::env::var_os("NAGAYA_TEST_LONG") {
        Some(_) => 200_000,
        None => 20_000,
    }
}

#[test]
fn a_replayed_journal_gives_the_data_back() {
    let seed = seed();
    let source = Source::run(&mut Rng::seeded(seed), steps());
    let mut replayed = replayed(&source, &BTreeMap::new(), &format!("NAGAYA_SEED={seed}: "));
    let list: &[&[u8]] = &[b"FUNCTION", b"LIST", b"WITHCODE"];
    let mut client = source.clients[0].another();
    assert_eq!(client.run(list), replayed.run(list), "NAGAYA_SEED={seed}");
    let spaces = |session: &TestSession| session.engine.server.keyspace.databases.in_order();
    assert_eq!(spaces(&client), spaces(&replayed), "NAGAYA_SEED={seed}");
}

#[test]
fn each_tag_may_start_from_a_later_copy() {
    let seed = seed();
    let mut rng = Rng::seeded(seed);
    let source = Source::run(&mut rng, steps());
    let keys = source.moments.iter().flat_map(|(_, contents)| contents.keys());
    let tags: BTreeSet<Vec<u8>> = keys.map(|key| tag_of(key)).collect();
    for round in 0..4 {
        let cuts = tags.iter().filter_map(|tag| {
            let (moment, _) = &source.moments[rng.below(source.moments.len())];
            (rng.below(4) > 0).then(|| (tag.clone(), *moment))
        });
        replayed(
            &source,
            &cuts.collect(),
            &format!("NAGAYA_SEED={seed} round {round}: "),
        );
    }
}
