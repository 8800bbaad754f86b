//! Requests that are well formed and ask for nonsense.

use nagaya_engine::used_bytes;
use nagaya_testkit::Reply;

use crate::harness::*;

const TYPES: [&str; 6] = [
    "SET string 1",
    "RPUSH list a",
    "SADD set a",
    "ZADD zset 1 a",
    "HSET hash f v",
    "XADD stream 1-1 f v",
];

#[test]
fn commands_refuse_keys_of_another_type() {
    let both = Both::start();
    both.same_commands(&TYPES);
    let commands = [
        "GET",
        "INCR",
        "APPEND K x",
        "STRLEN",
        "GETRANGE K 0 1",
        "SETRANGE K 0 x",
        "GETSET K x",
        "GETDEL",
        "GETEX",
        "BITCOUNT",
        "SETBIT K 0 1",
        "LPUSH K x",
        "LPOP",
        "LLEN",
        "LRANGE K 0 -1",
        "LINDEX K 0",
        "LINSERT K BEFORE a b",
        "LMOVE K other LEFT LEFT",
        "SADD K x",
        "SCARD",
        "SMEMBERS",
        "SPOP",
        "SINTER K list",
        "ZADD K 1 x",
        "ZCARD",
        "ZRANGE K 0 -1",
        "ZINCRBY K 1 x",
        "ZPOPMIN",
        "HSET K f v",
        "HGET K f",
        "HGETALL",
        "HINCRBY K f 1",
        "HSCAN K 0",
        "XADD K 5-1 f v",
        "XLEN",
        "XRANGE K - +",
        "XREADGROUP GROUP g c STREAMS K >",
        "PFADD K x",
        "GEOADD K 1 1 x",
    ];
    for kind in TYPES {
        let key = kind.split(' ').nth(1).unwrap();
        for command in commands {
            let command = if command.contains(" K") {
                command.replace(" K", &format!(" {key}"))
            } else {
                format!("{command} {key}")
            };
            // Those that fit the type would change it; each is asked with the type put back before.
            both.same_commands(&["FLUSHALL"]);
            both.same_commands(&TYPES);
            both.same_commands(&[&command]);
        }
    }
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let both = Both::start();
    both.same_commands(&[
        "SET max 9223372036854775807",
        "INCR max",
        "INCRBY max 1",
        "DECRBY max -1",
        "GET max",
        "SET min -9223372036854775808",
        "DECR min",
        "DECRBY min 1",
        "INCRBY min -1",
        "DECRBY zero -9223372036854775808",
        "INCRBY k 9223372036854775808",
        "INCRBY k 1.5",
        "INCRBY k abc",
        "SET text abc",
        "INCR text",
        "SET padded 012",
        "INCR padded",
        "SET plus +1",
        "INCR plus",
        "HSET h f 9223372036854775807",
        "HINCRBY h f 1",
        "HSET h g abc",
        "HINCRBY h g 1",
        "EXPIRE max 9223372036854775807",
        "PEXPIRE max 9223372036854775807",
        "EXPIRE max abc",
        "EXPIRE max -9223372036854775808",
        "SET k v EX 0",
        "SET k v EX -1",
        "SET k v PX 9223372036854775807",
        "SETEX k 0 v",
        "PSETEX k -5 v",
        "GETEX k EX 0",
        "EXPIREAT k 9223372036854775807",
        "LRANGE none abc 1",
        "LRANGE none 0 9223372036854775808",
        "LINDEX none 1.0",
        "LSET none 0 x",
        "LPOP none -1",
        "SRANDMEMBER none -9223372036854775808",
        "SRANDMEMBER none abc",
        "HRANDFIELD none -9223372036854775808 WITHVALUES",
        "ZRANDMEMBER none abc",
        "SPOP none -1",
        "GETRANGE none 0 99999999999999999999",
        "SETRANGE k -1 x",
        "COPY a b DB 99999999999",
        "OBJECT FREQ none",
        "SCAN abc",
        "SCAN 18446744073709551616",
        "SCAN 0 COUNT 0",
        "SCAN 0 COUNT abc",
        "HSCAN none 0 COUNT -1",
        "XADD s 18446744073709551616-0 f v",
        "XADD s 0-0 f v",
        "XADD s abc f v",
        "XADD s 1-1 f",
        "XRANGE s abc +",
        "XADD s MAXLEN -1 * f v",
        "BITCOUNT text 0 abc",
        "BITPOS text 2",
        "SELECT 99999999999",
        "BLPOP none -1",
        "BLPOP none abc",
        "BLPOP none inf",
        "BLPOP none nan",
        "LMPOP 0 a LEFT",
        "LMPOP -1 a LEFT",
        "SINTERCARD 0 a",
        "ZUNION 0 a",
        "ZUNIONSTORE d 99999999999 a",
        "EVAL x -1",
        "WAIT abc 1",
    ]);
    still_serves(&both.ours);
}

#[test]
fn what_is_not_a_number_is_refused() {
    let both = Both::start();
    both.same_commands(&[
        "INCRBYFLOAT f nan",
        "INCRBYFLOAT f inf",
        "INCRBYFLOAT f 1e400",
        "INCRBYFLOAT f abc",
        "INCRBYFLOAT f 1e308",
        "SET f 1e308",
        "INCRBYFLOAT f 1.7e308",
        "HINCRBYFLOAT h f nan",
        "HINCRBYFLOAT h f inf",
        "HINCRBYFLOAT h f -inf",
        "ZADD z nan a",
        "ZADD z inf a",
        "ZINCRBY z -inf a",
        "ZADD z INCR -inf a",
        "ZADD z abc a",
        "ZADD z 1 a b",
        "ZINCRBY z nan b",
        "ZRANGEBYSCORE z nan 1",
        "ZRANGEBYSCORE z (abc 1",
        "ZRANGE z 0 1 BYSCORE LIMIT a b",
        "ZADD y 1 a",
        "ZADD x inf a",
        "ZUNIONSTORE d 2 x y WEIGHTS nan 1",
        "ZUNIONSTORE d 2 x x WEIGHTS 1 -1",
        "ZSCORE d a",
        "GEOADD g nan 1 a",
        "GEOADD g 181 1 a",
        "GEOADD g 1 86 a",
        "GEOSEARCH g FROMLONLAT nan 1 BYRADIUS 1 m",
        "GEOSEARCH g FROMLONLAT 1 1 BYRADIUS -1 m",
        "GEORADIUS g 1 1 nan m",
        "ZSCORE z a",
    ]);
}

#[test]
fn strings_end_at_512_megabytes_without_being_made() {
    let both = Both::start();
    let before = used_bytes();
    both.same_commands(&[
        "SETRANGE k 536870912 x",
        "SETRANGE k 536870911 xx",
        "SETRANGE k 9223372036854775807 x",
        "SETRANGE k 536870912 ",
        "EXISTS k",
        "SETBIT k 4294967296 1",
        "SETBIT k -1 1",
        "SETBIT k 9223372036854775807 1",
        "SETBIT k 0 2",
        "BITFIELD k SET u8 4294967296 1",
        "BITFIELD k SET u8 #536870912 1",
        "BITFIELD k SET u64 0 1",
        "BITFIELD k SET i65 0 1",
        "BITFIELD k GET u8 -1",
        "EXISTS k",
        "GETBIT k 4294967295",
        "GETBIT k 4294967296",
        "LPUSH l a",
        "LSET l 1 a",
        "GETRANGE k 0 536870912",
    ]);
    assert!(used_bytes().saturating_sub(before) < 256 << 20);
    still_serves(&both.ours);
}

#[test]
fn keys_and_values_may_be_any_bytes() {
    let both = Both::start();
    let every: Vec<u8> = (0..=255).collect();
    let keys: [&[u8]; 5] = [b"", b"\r\n", b"\0", b"{}", &every];
    for key in keys {
        let commands: [&[&[u8]]; 8] = [
            &[b"SET", key, key],
            &[b"GET", key],
            &[b"RENAME", key, b"renamed"],
            &[b"HSET", key, key, key, b"f", b""],
            &[b"HGET", key, key],
            &[b"TYPE", key],
            &[b"DBSIZE"],
            &[b"DEL", key, b"renamed"],
        ];
        for command in commands {
            both.same(&request(command));
        }
    }
}

#[test]
fn payloads_that_are_not_dumps_are_refused() {
    let both = Both::start();
    let mut ours = client(&both.ours);
    for value in [
        "SET k value",
        "RPUSH k a b 1 2",
        "ZADD k 1 a 2.5 b",
        "HSET k a b c d",
        "XADD k 1-1 a b",
        "SADD k 1 2 x",
    ] {
        both.same_commands(&["DEL k", value]);
        let Reply::Bulk(dump) = ask(&mut ours, &["DUMP", "k"]) else {
            panic!("no dump")
        };
        for at in 0..dump.len() {
            let mut broken = dump.clone();
            broken[at] ^= 0x55;
            let answer = ask(&mut ours, &[b"RESTORE".as_slice(), b"copy", b"0", &broken]);
            assert_eq!(
                answer.error(),
                Some("ERR DUMP payload version or checksum are wrong")
            );
            let cut = ask(&mut ours, &[b"RESTORE".as_slice(), b"copy", b"0", &dump[..at]]);
            assert_eq!(
                cut.error(),
                Some("ERR DUMP payload version or checksum are wrong")
            );
        }
    }
    still_serves(&both.ours);
}

#[test]
fn wrong_options_get_redis_own_words() {
    let both = Both::start();
    both.same_commands(&[
        "",
        "NOSUCH",
        "NOSUCH a b c",
        "GET",
        "GET a b",
        "SET k",
        "SET k v NX XX",
        "SET k v EX",
        "SET k v EX 1 PX 1",
        "SET k v KEEPTTL EX 1",
        "SET k v NOSUCH",
        "MSET a",
        "MSET a 1 b",
        "HSET h a",
        "ZADD z",
        "ZADD z NX XX 1 a",
        "ZADD z GT LT 1 a",
        "ZADD z INCR 1 a 2 b",
        "ZRANGE z 0 1 LIMIT 0 1",
        "ZRANGE z 0 1 BYLEX",
        "LPOS l a RANK 0",
        "LPOS l a COUNT -1",
        "EXPIRE k 1 NX XX",
        "EXPIRE k 1 NOSUCH",
        "SORT l LIMIT 1",
        "OBJECT NOSUCH",
        "OBJECT ENCODING",
        "XADD s NOMKSTREAM",
        "XREAD STREAMS a b 0",
        "XGROUP NOSUCH",
        "XGROUP CREATE none g 0",
        "XACK none g abc",
        "BITOP NOT d a b",
        "BITOP NOSUCH d a",
        "COPY a",
        "SINTERCARD abc a",
        "LMOVE a b UP DOWN",
        "EXEC",
        "DISCARD",
        "MULTI",
        "MULTI",
        "WATCH a",
        "NOSUCH",
        "EXEC",
        "CLIENT NOSUCH",
        "HELLO 4",
        "HELLO abc",
        "HELLO 2 AUTH x",
    ]);
}
