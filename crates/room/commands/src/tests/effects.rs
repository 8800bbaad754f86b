//! What each command leaves in the journal.

use std::collections::BTreeSet;

use nagaya_command_spec::spec::{MAY_REPLICATE, WRITE};
use nagaya_exec::replay::{EffectOn, ReplayError};
use nagaya_keyspace::effects::EffectBuf;

use crate::table;
use crate::testing::{Records, TestSession};

/// Requests that prepare the keys, a request, and the effects it is to have. Words are parted by spaces,
/// requests and effects by `;`. A time is `T` plus milliseconds; the bytes of a value are `#`.
const CASES: &[(&str, &str, &str)] = &[
    // Strings.
    ("", "SET k v", "SET k v"),
    ("", "set k v", "set k v"),
    ("", "SET k v EX 10", "SET k v PXAT T+10000"),
    ("", "SET k v PX 10 NX", "SET k v PXAT T+10"),
    ("SET k old", "SET k v XX GET", "SET k v"),
    ("SET k old", "SET k v IFEQ old PX 10", "SET k v PXAT T+10"),
    ("SET k old", "SET k v IFEQ new", ""),
    ("SET k v", "DELIFEQ k v", "DEL k"),
    ("SET k v", "DELIFEQ k w", ""),
    ("SET k old EX 9", "SET k v KEEPTTL", "SET k v KEEPTTL"),
    ("SET k old", "SET k v NX", ""),
    ("", "SET k v XX", ""),
    ("", "SET k v EX 10 NX XX", ""),
    ("", "SETNX k v", "SETNX k v"),
    ("SET k v", "SETNX k v", ""),
    ("", "SETEX k 10 v", "SET k v PXAT T+10000"),
    ("", "PSETEX k 10 v", "SET k v PXAT T+10"),
    ("SET k v", "GETDEL k", "DEL k"),
    ("", "GETDEL k", ""),
    ("SET k v", "GETEX k EX 10", "PEXPIREAT k T+10000"),
    ("SET k v", "GETEX k PXAT 5", "DEL k"),
    ("SET k v EX 5", "GETEX k PERSIST", "PERSIST k"),
    ("SET k v", "GETEX k", ""),
    ("", "GETSET k v", "GETSET k v"),
    ("", "APPEND k v", "APPEND k v"),
    ("", "INCR k", "INCR k"),
    ("", "DECR k", "DECR k"),
    ("", "INCRBY k 5", "INCRBY k 5"),
    ("", "DECRBY k 5", "DECRBY k 5"),
    ("SET k abc", "INCR k", ""),
    ("SET k 1", "INCRBYFLOAT k 0.5", "SET k 1.5 KEEPTTL"),
    ("", "MSET a 1 b 2", "SET a 1; SET b 2"),
    ("", "MSETNX a 1 b 2", "SET a 1; SET b 2"),
    ("SET a 1", "MSETNX a 1 b 2", ""),
    ("", "SETRANGE k 3 v", "SETRANGE k 3 v"),
    ("", "SETRANGE k 3 ", ""),
    // Bits.
    ("", "SETBIT k 7 1", "SETBIT k 7 1"),
    ("SETBIT k 7 1", "SETBIT k 7 1", ""),
    ("", "BITFIELD k SET u8 0 9", "BITFIELD k SET u8 0 9"),
    ("", "BITFIELD k GET u8 0", ""),
    (
        "",
        "BITFIELD k OVERFLOW FAIL SET u8 0 900",
        "BITFIELD k OVERFLOW FAIL SET u8 0 900",
    ),
    ("SET a x", "BITOP NOT k a", "RESTORE k 0 # REPLACE ABSTTL"),
    ("SET k x", "BITOP NOT k a", "DEL k"),
    ("", "BITOP NOT k a", ""),
    // Keys.
    ("MSET a 1 b 2", "DEL a none b", "DEL a; DEL b"),
    ("MSET a 1 b 2", "UNLINK a none b", "DEL a; DEL b"),
    ("", "DEL a", ""),
    ("SET k v", "EXPIRE k 10", "PEXPIREAT k T+10000"),
    ("SET k v", "EXPIRE k 10 NX", "PEXPIREAT k T+10000"),
    ("SET k v", "EXPIRE k 10 XX", ""),
    ("SET k v", "EXPIRE k -1", "DEL k"),
    ("", "EXPIRE k 10", ""),
    ("SET k v", "PEXPIRE k 10", "PEXPIREAT k T+10"),
    ("SET k v", "EXPIREAT k 4000000000", "PEXPIREAT k 4000000000000"),
    (
        "SET k v",
        "PEXPIREAT k 4000000000000",
        "PEXPIREAT k 4000000000000",
    ),
    ("SET k v EX 5", "PERSIST k", "PERSIST k"),
    ("SET k v", "PERSIST k", ""),
    ("SET k v", "RENAME k o", "DEL k; RESTORE o 0 # REPLACE ABSTTL"),
    (
        "SET k v PX 9",
        "RENAME k o",
        "DEL k; RESTORE o T+9 # REPLACE ABSTTL",
    ),
    ("SET {t}k v", "RENAME {t}k {t}o", "RENAME {t}k {t}o"),
    ("SET k v", "RENAME k k", ""),
    ("SET {t}k v", "RENAMENX {t}k {t}o", "RENAME {t}k {t}o"),
    ("SET k v", "RENAMENX k o", "DEL k; RESTORE o 0 # REPLACE ABSTTL"),
    ("MSET k v o v", "RENAMENX k o", ""),
    ("SET k v PX 9", "COPY k o", "RESTORE o T+9 # REPLACE ABSTTL"),
    ("SET {t}k v", "COPY {t}k {t}o", "COPY {t}k {t}o REPLACE"),
    ("MSET k v o v", "COPY k o", ""),
    ("", "FLUSHALL", "FLUSHALL"),
    ("SET k v", "FLUSHDB ASYNC", "FLUSHALL"),
    ("SET k v", "FLUSHALL NOW", ""),
    ("RPUSH l 2 1", "SORT l STORE k", "RESTORE k 0 # REPLACE ABSTTL"),
    ("RPUSH l 2 1", "SORT l", ""),
    ("SET k v", "SORT l STORE k", "DEL k"),
    // Hashes.
    ("", "HSET k f v", "HSET k f v"),
    ("", "HMSET k f v", "HMSET k f v"),
    ("", "HSETNX k f v", "HSETNX k f v"),
    ("HSET k f v", "HSETNX k f v", ""),
    ("", "HINCRBY k f 5", "HINCRBY k f 5"),
    ("HSET k f v", "HINCRBY k f 5", ""),
    ("HSET k f 1", "HINCRBYFLOAT k f 0.5", "HSET k f 1.5"),
    ("HSET k f v", "HDEL k f g", "HDEL k f g"),
    ("HSET k f v", "HDEL k g", ""),
    (
        "HSET k f v g v",
        "HEXPIRE k 10 FIELDS 3 f none g",
        "HPEXPIREAT k T+10000 FIELDS 2 f g",
    ),
    (
        "HSET k f v",
        "HPEXPIRE k 10 FIELDS 1 f",
        "HPEXPIREAT k T+10 FIELDS 1 f",
    ),
    ("HSET k f v", "HEXPIRE k 10 XX FIELDS 1 f", ""),
    ("HSET k f v g v", "HEXPIREAT k 1 FIELDS 2 f none", "HDEL k f"),
    (
        "HSET k f v",
        "HPEXPIREAT k 4000000000000 FIELDS 1 f",
        "HPEXPIREAT k 4000000000000 FIELDS 1 f",
    ),
    (
        "HSETEX k EX 9 FIELDS 1 f v",
        "HPERSIST k FIELDS 1 f",
        "HPERSIST k FIELDS 1 f",
    ),
    ("HSET k f v", "HPERSIST k FIELDS 1 f", ""),
    ("HSET k f v", "HGETDEL k FIELDS 2 none f", "HDEL k f"),
    ("HSET k f v", "HGETDEL k FIELDS 1 none", ""),
    (
        "HSET k f v",
        "HGETEX k EX 10 FIELDS 2 none f",
        "HPEXPIREAT k T+10000 FIELDS 1 f",
    ),
    ("HSET k f v", "HGETEX k EXAT 1 FIELDS 1 f", "HDEL k f"),
    (
        "HSETEX k EX 9 FIELDS 1 f v",
        "HGETEX k PERSIST FIELDS 2 f g",
        "HPERSIST k FIELDS 1 f",
    ),
    ("HSET k f v", "HGETEX k FIELDS 1 f", ""),
    (
        "",
        "HSETEX k FNX EX 10 FIELDS 1 f v",
        "HSETEX k PXAT T+10000 FIELDS 1 f v",
    ),
    (
        "HSET k f v",
        "HSETEX k FXX KEEPTTL FIELDS 1 f w",
        "HSETEX k KEEPTTL FIELDS 1 f w",
    ),
    ("HSET k f v", "HSETEX k FIELDS 1 f w", "HSETEX k FIELDS 1 f w"),
    ("HSET k f v", "HSETEX k FNX FIELDS 1 f w", ""),
    ("HSET k f v", "HSETEX k PXAT 1 FIELDS 1 g w", "HDEL k g"),
    (
        "HSETEX k EX 9 FIELDS 1 f 1",
        "HINCRBYFLOAT k f 0.5",
        "HSETEX k KEEPTTL FIELDS 1 f 1.5",
    ),
    // Lists.
    ("", "LPUSH k a b", "LPUSH k a b"),
    ("", "RPUSH k a b", "RPUSH k a b"),
    ("", "LPUSHX k a", ""),
    ("RPUSH k a", "LPUSHX k a", "LPUSHX k a"),
    ("RPUSH k a", "RPUSHX k a", "RPUSHX k a"),
    ("RPUSH k a b", "LPOP k", "LPOP k"),
    ("RPUSH k a b", "RPOP k 5", "RPOP k 5"),
    ("RPUSH k a", "LPOP k 0", ""),
    ("RPUSH k a b", "LMPOP 2 o k RIGHT", "RPOP k 1"),
    ("RPUSH k a b", "BLPOP o k 0", "LPOP k"),
    ("RPUSH k a b", "BRPOP k 0", "RPOP k"),
    ("RPUSH k a b", "BLMPOP 0 1 k LEFT COUNT 9", "LPOP k 9"),
    ("RPUSH k a", "LINSERT k BEFORE a b", "LINSERT k BEFORE a b"),
    ("RPUSH k a", "LINSERT k BEFORE c b", ""),
    ("RPUSH k a", "LREM k 0 a", "LREM k 0 a"),
    ("RPUSH k a", "LREM k 0 b", ""),
    ("RPUSH k a", "LSET k 0 b", "LSET k 0 b"),
    ("RPUSH k a b", "LTRIM k 0 0", "LTRIM k 0 0"),
    ("RPUSH k a b", "LMOVE k o LEFT RIGHT", "LPOP k; RPUSH o a"),
    (
        "RPUSH {t}k a",
        "LMOVE {t}k {t}o RIGHT LEFT",
        "LMOVE {t}k {t}o RIGHT LEFT",
    ),
    ("RPUSH k a b", "LMOVE k k LEFT RIGHT", "LMOVE k k LEFT RIGHT"),
    ("RPUSH k a b", "RPOPLPUSH k o", "RPOP k; LPUSH o b"),
    ("RPUSH k a b", "BLMOVE k o LEFT LEFT 0", "LPOP k; LPUSH o a"),
    ("RPUSH k a b", "BRPOPLPUSH k k 0", "LMOVE k k RIGHT LEFT"),
    // Sets.
    ("", "SADD k a", "SADD k a"),
    ("SADD k a", "SADD k a", ""),
    ("SADD k a", "SREM k a b", "SREM k a b"),
    ("SADD k a", "SPOP k", "SREM k a"),
    ("SADD k a", "SPOP k 3", "DEL k"),
    (
        "SADD k 1 2 3 4 5 6 7 8 9",
        "SPOP k 8",
        "RESTORE k 0 # REPLACE ABSTTL",
    ),
    ("SADD k a", "SPOP k 0", ""),
    ("SADD k a", "SMOVE k o a", "SREM k a; SADD o a"),
    ("SADD {t}k a", "SMOVE {t}k {t}o a", "SMOVE {t}k {t}o a"),
    ("SADD k a", "SMOVE k o b", ""),
    ("SADD a x", "SINTERSTORE k a", "RESTORE k 0 # REPLACE ABSTTL"),
    ("SADD a x", "SUNIONSTORE k a b", "RESTORE k 0 # REPLACE ABSTTL"),
    ("SADD k x", "SDIFFSTORE k a", "DEL k"),
    // Sorted sets.
    ("", "ZADD k 1 a", "ZADD k 1 a"),
    ("ZADD k 1 a", "ZADD k NX 2 a", ""),
    ("", "ZINCRBY k 1 a", "ZINCRBY k 1 a"),
    ("ZADD k 1 a", "ZREM k a", "ZREM k a"),
    ("ZADD k 1 a", "ZREMRANGEBYRANK k 0 0", "ZREMRANGEBYRANK k 0 0"),
    ("ZADD k 1 a", "ZREMRANGEBYSCORE k 0 1", "ZREMRANGEBYSCORE k 0 1"),
    ("ZADD k 1 a", "ZREMRANGEBYLEX k - +", "ZREMRANGEBYLEX k - +"),
    ("ZADD k 1 a", "ZPOPMIN k 5", "ZPOPMIN k 1"),
    ("ZADD k 1 a 2 b", "ZPOPMAX k", "ZPOPMAX k 1"),
    ("ZADD k 1 a 2 b", "ZMPOP 1 k MAX COUNT 2", "ZPOPMAX k 2"),
    ("ZADD k 1 a 2 b", "BZPOPMIN o k 0", "ZPOPMIN k 1"),
    ("ZADD k 1 a 2 b", "BZPOPMAX k 0", "ZPOPMAX k 1"),
    ("ZADD k 1 a 2 b", "BZMPOP 0 1 k MIN", "ZPOPMIN k 1"),
    ("ZADD a 1 x", "ZUNIONSTORE k 1 a", "RESTORE k 0 # REPLACE ABSTTL"),
    ("ZADD a 1 x", "ZINTERSTORE k 1 a", "RESTORE k 0 # REPLACE ABSTTL"),
    ("ZADD a 1 x", "ZDIFFSTORE k 1 a", "RESTORE k 0 # REPLACE ABSTTL"),
    ("ZADD k 1 x", "ZRANGESTORE k a 0 -1", "DEL k"),
    // Places.
    ("", "GEOADD k 1 2 a", "GEOADD k 1 2 a"),
    (
        "GEOADD a 1 2 x",
        "GEORADIUS a 1 2 5 km STORE k",
        "RESTORE k 0 # REPLACE ABSTTL",
    ),
    (
        "GEOADD a 1 2 x",
        "GEORADIUSBYMEMBER a x 5 km STORE k",
        "RESTORE k 0 # REPLACE ABSTTL",
    ),
    (
        "GEOADD a 1 2 x",
        "GEOSEARCHSTORE k a FROMMEMBER x BYRADIUS 5 km",
        "RESTORE k 0 # REPLACE ABSTTL",
    ),
    // HyperLogLogs.
    ("", "PFADD k a", "PFADD k a"),
    ("PFADD k a", "PFADD k a", ""),
    ("PFADD k a", "PFCOUNT k", "PFCOUNT k"),
    ("PFADD k a; PFCOUNT k", "PFCOUNT k", ""),
    ("PFADD a x", "PFMERGE k a", "RESTORE k 0 # REPLACE ABSTTL"),
    ("PFADD k a", "PFDEBUG TODENSE k", "PFDEBUG TODENSE k"),
    // Streams.
    ("", "XADD k * f v", "XADD k 1700000000000-0 f v"),
    (
        "XADD k 1-1 f v",
        "XADD k MAXLEN 1 5-* g w",
        "XADD k MAXLEN = 1 5-0 g w",
    ),
    (
        "XADD k 1-1 f v",
        "XADD k MINID = 3 5 g w",
        "XADD k MINID = 3-0 5-0 g w",
    ),
    ("XADD k 1-1 f v", "XADD k MAXLEN ~ 1 5 g w", "XADD k 5-0 g w"),
    ("", "XADD k NOMKSTREAM * f v", ""),
    ("XADD k 1-1 f v", "XDEL k 1-1 2-2", "XDEL k 1-1 2-2"),
    ("XADD k 1-1 f v", "XTRIM k MAXLEN 0", "XTRIM k MAXLEN = 0"),
    (
        "XADD k 1-1 f v",
        "XTRIM k MAXLEN ~ 0",
        "XTRIM k MINID = 18446744073709551615-18446744073709551615",
    ),
    ("XADD k 1-1 f v", "XTRIM k MINID 1", ""),
    ("XADD k 1-1 f v", "XSETID k 5-5", "XSETID k 5-5"),
    ("", "XGROUP CREATE k g $ MKSTREAM", "XGROUP CREATE k g $ MKSTREAM"),
    ("XGROUP CREATE k g $ MKSTREAM", "XGROUP CREATE k g 0", ""),
    (
        "XGROUP CREATE k g $ MKSTREAM",
        "XGROUP SETID k g 5",
        "XGROUP SETID k g 5",
    ),
    (
        "XGROUP CREATE k g $ MKSTREAM",
        "XGROUP DESTROY k g",
        "XGROUP DESTROY k g",
    ),
    (
        "XGROUP CREATE k g $ MKSTREAM",
        "XGROUP CREATECONSUMER k g c",
        "AT T XGROUP CREATECONSUMER k g c",
    ),
    (
        "XGROUP CREATE k g $ MKSTREAM; XGROUP CREATECONSUMER k g c",
        "XGROUP DELCONSUMER k g c",
        "XGROUP DELCONSUMER k g c",
    ),
    (
        "XGROUP CREATE k g $ MKSTREAM; XADD k 1-1 f v",
        "XREADGROUP GROUP g c STREAMS k >",
        "AT T XREADGROUP GROUP g c COUNT 0 STREAMS k >",
    ),
    (
        "XGROUP CREATE k g $ MKSTREAM; XADD k 1-1 f v; XGROUP CREATE o g $ MKSTREAM",
        "XREADGROUP GROUP g c NOACK COUNT 5 BLOCK 0 STREAMS o k > 0",
        "AT T XREADGROUP GROUP g c NOACK COUNT 5 STREAMS k 0",
    ),
    (
        "XGROUP CREATE k g $ MKSTREAM",
        "XREADGROUP GROUP g c STREAMS k >",
        "",
    ),
    (
        "XADD k 1-1 f v; XGROUP CREATE k g 0; XREADGROUP GROUP g c STREAMS k >",
        "XACK k g 1-1",
        "XACK k g 1-1",
    ),
    (
        "XADD k 1-1 f v; XGROUP CREATE k g 0; XREADGROUP GROUP g c STREAMS k >",
        "XCLAIM k g d 0 1-1",
        "AT T XCLAIM k g d 0 1-1",
    ),
    (
        "XADD k 1-1 f v; XGROUP CREATE k g 0; XREADGROUP GROUP g c STREAMS k >",
        "XAUTOCLAIM k g d 0 0",
        "AT T XAUTOCLAIM k g d 0 0",
    ),
    ("XADD k 1-1 f v; XGROUP CREATE k g 0", "XAUTOCLAIM k g d 0 0", ""),
    // Scripts, functions and the rest.
    ("SET k v", "EVAL return(redis.call('get','k')) 0", ""),
    (
        "",
        "EVAL redis.call('set','k','v','EX','1');redis.call('incr','n') 0",
        "SET k v PXAT T+1000; incr n",
    ),
    ("", "SCRIPT LOAD return(1)", ""),
    ("FUNCTION FLUSH", "FUNCTION FLUSH", "FUNCTION FLUSH"),
    ("", "DEBUG POPULATE 1 p 2", "SET p:0 va"),
];

/// Write commands without a case of their own, and why.
const EXEMPT: &[(&str, &str)] = &[
    ("migrate", "always refused"),
    ("move", "always refused: there is one database"),
    ("swapdb", "there is one database to swap with itself"),
    ("restore", "its payload is bytes: restore_tells_a_moment"),
    ("restore-asking", "runs restore's handler"),
    (
        "room.erase",
        "needs a cold tier: an_erased_tag_is_told_as_its_keys",
    ),
    ("evalsha", "runs eval's handler: the commands inside tell"),
    ("fcall", "functions_are_told_with_all_they_need"),
    ("function|delete", "functions_are_told_with_all_they_need"),
    ("function|load", "functions_are_told_with_all_they_need"),
    ("function|restore", "functions_are_told_with_all_they_need"),
    ("publish", "may_replicate in Redis; changes no key"),
    ("spublish", "may_replicate in Redis; changes no key"),
];

fn words(text: &str) -> Vec<&[u8]> {
    text.split(' ').map(str::as_bytes).collect()
}

fn requests(text: &str) -> impl Iterator<Item = &str> {
    text.split("; ").filter(|request| !request.is_empty())
}

/// Shows a record: times that are in the future of the test's clock as `T+ms`, values as `#`.
fn shown(record: &[Vec<Vec<u8>>]) -> String {
    let effects = record.iter().map(|effect| {
        let words = effect.iter().enumerate().map(|(at, arg)| {
            if at == 3 && effect[0] == b"RESTORE" {
                return "#".to_owned();
            }
            String::from_utf8_lossy(arg).into_owned()
        });
        words.collect::<Vec<_>>().join(" ")
    });
    effects.collect::<Vec<_>>().join("; ")
}

fn expected(text: &str) -> String {
    const START_MS: i64 = 1_700_000_000_000;
    let word = |word: &str| match word.strip_prefix("T") {
        Some("") => START_MS.to_string(),
        Some(rest) if rest.starts_with('+') => {
            let (ms, end) = rest[1..]
                .split_once(';')
                .map_or((&rest[1..], ""), |(ms, _)| (ms, ";"));
            format!("{}{end}", START_MS + ms.parse::<i64>().unwrap())
        }
        _ => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Returns everything recorded since the last time, as text; records are parted by `|`.
fn told(records: &Records) -> String {
    let records: Vec<String> = records
        .take_effects()
        .iter()
        .map(|record| shown(record))
        .collect();
    records.join(" | ")
}

#[test]
fn commands_are_told_as_what_they_did() {
    for (setup, request, effects) in CASES {
        let mut session = TestSession::new();
        let records = session.record();
        for request in requests(setup) {
            session.run(&words(request));
        }
        records.take();
        let reply = session.run(&words(request));
        assert_eq!(
            told(&records),
            expected(effects),
            "{setup}; {request}: {}",
            reply.escape_ascii()
        );
        assert_eq!(
            session.client.journal_position > 0,
            !setup.is_empty() || !effects.is_empty()
        );
    }
}

#[test]
fn every_write_command_has_a_case() {
    let mut covered = BTreeSet::new();
    for (_, request, _) in CASES {
        let words = words(request);
        let found = table::find_request(&nagaya_resp::Args::from_slices(&words));
        covered.insert(found.unwrap_or_else(|| panic!("{request}")).full_name.as_str());
    }
    covered.extend(EXEMPT.iter().map(|(name, _)| *name));
    for command in table::every().filter(|command| command.spec.flags.has(WRITE.and(MAY_REPLICATE))) {
        assert!(
            covered.contains(command.full_name.as_str()),
            "{}",
            command.full_name
        );
    }
}

#[test]
fn restore_tells_a_moment() {
    let mut session = TestSession::new();
    let records = session.record();
    session.check("SET a v", "+OK\r\n");
    let dump = session.run(&[b"DUMP", b"a"]);
    let payload = &dump[dump.iter().position(|&byte| byte == b'\n').unwrap() + 1..dump.len() - 2];
    records.take();
    let cases: &[(&[&[u8]], &str)] = &[
        (&[b"0"], "RESTORE k 0 # REPLACE ABSTTL"),
        (&[b"50"], "RESTORE k T+50 # REPLACE ABSTTL"),
        (&[b"50", b"IDLETIME", b"5"], "RESTORE k T+50 # REPLACE ABSTTL"),
        (&[b"5", b"ABSTTL"], "DEL k"),
    ];
    for (options, effects) in cases {
        let mut args: Vec<&[u8]> = vec![b"RESTORE", b"k", options[0], payload, b"REPLACE"];
        args.extend(&options[1..]);
        assert_eq!(session.run(&args), b"+OK\r\n");
        assert_eq!(told(&records), expected(effects));
    }
}

#[test]
fn functions_are_told_with_all_they_need() {
    let mut session = TestSession::new();
    let records = session.record();
    let code: &[u8] =
        b"#!lua name=l\nredis.register_function('f', function() redis.call('set', 'k', 'v') end)";
    assert_eq!(session.run(&[b"FUNCTION", b"LOAD", code]), b"$1\r\nl\r\n");
    session.check("FCALL f 0", "$-1\r\n");
    let dump = session.run(&[b"FUNCTION", b"DUMP"]);
    let payload = &dump[dump.iter().position(|&byte| byte == b'\n').unwrap() + 1..dump.len() - 2];
    session.check("FUNCTION DELETE l", "+OK\r\n");
    assert_eq!(session.run(&[b"FUNCTION", b"RESTORE", payload]), b"+OK\r\n");
    let effects: Vec<Vec<Vec<u8>>> = records.take_effects().concat();
    let expected: [&[&[u8]]; 4] = [
        &[b"FUNCTION", b"LOAD", b"REPLACE", code],
        &[b"set", b"k", b"v"],
        &[b"FUNCTION", b"DELETE", b"l"],
        &[b"FUNCTION", b"RESTORE", payload],
    ];
    assert_eq!(
        effects,
        expected.map(|effect| effect.iter().map(|arg| arg.to_vec()).collect::<Vec<_>>())
    );
}

#[test]
fn a_transaction_and_a_script_are_one_record_each() {
    let mut session = TestSession::new();
    let records = session.record();
    for request in ["MULTI", "SET a 1", "GET a", "LPUSH b x", "INCR b", "EXEC"] {
        session.text(request);
    }
    session.text("EVAL redis.call('incr','a');redis.call('spop','none');redis.call('del','b') 0");
    assert_eq!(told(&records), "SET a 1; LPUSH b x | incr a; DEL b");
    session.check("WATCH a", "+OK\r\n");
    session.text("MULTI");
    session.text("EXEC");
    session.text("SUBSCRIBE c");
    assert_eq!(told(&records), "");
}

#[test]
fn expired_keys_go_before_what_the_command_did() {
    let mut session = TestSession::new();
    let records = session.record();
    let cases = [
        ("GET k", "DEL k"),
        ("SETNX k w", "DEL k; SETNX k w"),
        ("SET k w", "DEL k; SET k w"),
        ("SADD k w", "DEL k; SADD k w"),
        ("MSETNX o 1 k w", "SET o 1; DEL k; SET k w"),
        ("INCRBYFLOAT k 1", "DEL k; SET k 1 KEEPTTL"),
        ("SUNIONSTORE k k", "DEL k"),
        ("SINTERSTORE o k", "DEL k"),
        ("SCAN 0 COUNT 1000", "DEL k"),
        (
            "EVAL redis.call('get','k');redis.call('setnx','k','w') 0",
            "DEL k; setnx k w",
        ),
    ];
    for (request, effects) in cases {
        session.text("FLUSHALL");
        session.check("SET k v PX 5", "+OK\r\n");
        records.take();
        session.advance_ms(6);
        // A scan goes from shard to shard.
        let mut reply = session.text(request);
        while let Some(cursor) = reply
            .lines()
            .nth(2)
            .filter(|line| request.starts_with("SCAN") && *line != "0")
        {
            reply = session.text(&format!("SCAN {cursor} COUNT 1000"));
        }
        assert_eq!(told(&records), effects, "{request}");
    }
}

#[test]
fn expired_fields_go_before_what_the_command_did() {
    let mut session = TestSession::new();
    let records = session.record();
    let cases = [
        ("HGET k f", "HDEL k f"),
        ("HLEN k", "HDEL k f"),
        ("HSET k f w", "HDEL k f; HSET k f w"),
        ("HSETNX k f w", "HDEL k f; HSETNX k f w"),
        ("HDEL k f", "HDEL k f"),
        ("HPERSIST k FIELDS 2 f g", "HDEL k f; HPERSIST k FIELDS 2 f g"),
        ("GET k", ""),
    ];
    for (request, effects) in cases {
        session.text("FLUSHALL");
        session.check("HSETEX k PX 5 FIELDS 1 f v", ":1\r\n");
        session.check("HSETEX k PX 50 FIELDS 1 g v", ":1\r\n");
        session.advance_ms(6);
        records.take();
        session.text(request);
        assert_eq!(told(&records), effects, "{request}");
    }
    session.text("FLUSHALL");
    session.check("HSETEX k PX 5 FIELDS 2 f v g v", ":1\r\n");
    session.advance_ms(6);
    records.take();
    session.expire();
    let told = told(&records);
    assert!(told == "HDEL k f g" || told == "HDEL k g f", "{told}");
}

#[test]
fn replay_keeps_fields_past_their_time_until_it_is_told() {
    let mut session = TestSession::new();
    let records = session.record();
    session.check("HSETEX k PX 5 FIELDS 2 f v g v", ":1\r\n");
    session.check("HPEXPIRE k 50 FIELDS 1 g", "*1\r\n:1\r\n");
    let written = records.take();
    let mut other = session_at_a_later_time();
    for record in &written {
        other.replay(record, |_| true).unwrap();
    }
    assert_eq!(other.contents(), session.contents());
    other.check("EXISTS k", ":1\r\n");
    other.check("HLEN k", ":0\r\n");
}

fn session_at_a_later_time() -> TestSession {
    let session = TestSession::new();
    session.advance_ms(60_000);
    session
}

#[test]
fn keys_that_time_or_want_of_memory_takes_are_told() {
    let mut session = TestSession::new();
    let records = session.record();
    session.check("SET a v PX 5", "+OK\r\n");
    session.advance_ms(6);
    records.take();
    session.expire();
    assert_eq!(told(&records), "DEL a");
    session.check("SET a v", "+OK\r\n");
    session.check("CONFIG SET maxmemory-policy allkeys-lru", "+OK\r\n");
    session.check("CONFIG SET maxmemory 1", "+OK\r\n");
    records.take();
    session.text("GET b");
    assert_eq!(told(&records), "DEL a");
}

#[test]
fn a_served_wait_is_told_as_what_it_took() {
    let mut session = TestSession::new();
    let records = session.record();
    let cases = [
        ("BLPOP k 0", "RPUSH k a b", "RPUSH k a b | LPOP k"),
        (
            "BLMOVE k o LEFT RIGHT 0",
            "RPUSH k a",
            "RPUSH k a | LPOP k; RPUSH o a",
        ),
        ("BZPOPMAX k 0", "ZADD k 1 a", "ZADD k 1 a | ZPOPMAX k 1"),
        (
            "XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
            "XADD s 1-1 f v",
            "XADD s 1-1 f v | AT T XREADGROUP GROUP g c COUNT 1000 STREAMS s >",
        ),
    ];
    for (waits, writes, effects) in cases {
        session.text("FLUSHALL");
        session.check("XGROUP CREATE s g $ MKSTREAM", "+OK\r\n");
        let mut waiter = session.another();
        assert_eq!(waiter.text(waits), "");
        records.take();
        session.text(writes);
        assert_eq!(told(&records), expected(effects), "{waits}");
        waiter.messages();
        assert_eq!(waiter.client.journal_position, 2);
    }
}

#[test]
fn nothing_is_told_without_a_journal_nor_by_replay() {
    let mut session = TestSession::new();
    session.check("SET k v", "+OK\r\n");
    let records = session.record();
    let mut other = TestSession::new();
    let theirs = other.record();
    other.check("SET k w PX 100", "+OK\r\n");
    for record in theirs.take() {
        assert_eq!(session.replay(&record, |_| true), Ok(1));
    }
    assert_eq!(told(&records), "");
    session.check("PTTL k", ":100\r\n");
}

#[test]
fn replay_keeps_keys_past_their_time_until_it_is_told() {
    let mut a = TestSession::new();
    let records = a.record();
    a.check("SET k v PX 100", "+OK\r\n");
    a.check("APPEND k w", ":2\r\n");
    a.check("PEXPIRE k 50", ":1\r\n");
    let mut b = TestSession::new();
    b.advance_ms(10_000);
    for record in records.take() {
        b.replay(&record, |_| true).unwrap();
    }
    b.check("DEBUG OBJECT nothing", "-ERR no such key\r\n");
    assert!(b.text("DEBUG OBJECT k").starts_with("+Value"));
    b.check("GET k", "$-1\r\n");
}

#[test]
fn replay_asks_for_each_tag_and_skips_what_is_not_wanted() {
    let mut a = TestSession::new();
    let records = a.record();
    a.check("MSET {a}1 x {b}1 y c z", "+OK\r\n");
    a.check("FLUSHALL", "+OK\r\n");
    let mut b = TestSession::new();
    let mut asked = Vec::new();
    for record in records.take() {
        let wanted = |on: EffectOn<'_>| {
            let tag = match on {
                EffectOn::Tag(tag) => Some(tag),
                EffectOn::Databases | EffectOn::Everything => None,
            };
            asked.push(tag.map(<[u8]>::to_vec));
            tag.is_some_and(|tag| tag != b"b")
        };
        b.replay(&record, wanted).unwrap();
    }
    let tags: [Option<&[u8]>; 4] = [Some(b"a"), Some(b"b"), Some(b"c"), None];
    assert_eq!(asked, tags.map(|tag| tag.map(<[u8]>::to_vec)));
    b.check("EXISTS {a}1 {b}1 c", ":2\r\n");
}

#[test]
fn replay_is_held_to_no_limit_that_came_later() {
    let mut a = TestSession::new();
    let records = a.record();
    a.check("APPEND k v", ":1\r\n");
    a.check("APPEND k w", ":2\r\n");
    a.check("SETRANGE k 2000000 v", ":2000001\r\n");
    a.check("SETBIT k 24000000 1", ":0\r\n");
    let mut b = TestSession::new();
    b.check("CONFIG SET proto-max-bulk-len 1mb", "+OK\r\n");
    for record in records.take() {
        b.replay(&record, |_| true).unwrap();
    }
    b.check("STRLEN k", ":3000001\r\n");
}

#[test]
fn bad_records_are_refused() {
    let mut session = TestSession::new();
    let mut refused = |effect: &[&[u8]]| {
        let mut buf = EffectBuf::default();
        buf.push(effect);
        session.replay(buf.as_bytes(), |_| true).unwrap_err()
    };
    assert_eq!(
        refused(&[b"NOPE"]),
        ReplayError::UnknownCommand("NOPE".to_owned())
    );
    assert_eq!(refused(&[b"GET"]), ReplayError::UnknownCommand("GET".to_owned()));
    assert_eq!(refused(&[b"AT"]), ReplayError::UnknownCommand("AT".to_owned()));
    assert_eq!(
        refused(&[b"AT", b"5"]),
        ReplayError::UnknownCommand(String::new())
    );
    assert_eq!(
        refused(&[b"MSET", b"a", b"1", b"b", b"2"]),
        ReplayError::SeveralTags("mset".to_owned())
    );
    let ReplayError::Refused { command, .. } = refused(&[b"LSET", b"k", b"0", b"v"]) else {
        panic!("not refused")
    };
    assert_eq!(command, "lset");
    assert!(matches!(
        session.replay(&[7], |_| true),
        Err(ReplayError::Corrupt(_))
    ));
}

#[test]
fn once_the_journal_has_failed_writes_are_refused_and_reads_go_on() {
    let refusal = "-MISCONF Errors writing to the AOF file: disk full\r\n";
    let mut session = TestSession::new();
    let records = session.record();
    session.check("SET k v", "+OK\r\n");
    records.fail("disk full");
    session.check("SET k w", refusal);
    session.check("SET k x", refusal);
    session.check("GET k", "$1\r\nw\r\n");
    session.check("MULTI", "+OK\r\n");
    session.check("SET k y", refusal);
    session.text("EXEC");
    session.text("EVAL redis.call('set','k','z') 0");
    session.check("GET k", "$1\r\nw\r\n");
    assert_eq!(session.client.journal_position, 1);
}
