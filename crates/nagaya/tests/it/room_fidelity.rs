//! Everything goes cold and comes back byte for byte: odd names, every type in every form, times to the
//! millisecond.

use std::net::SocketAddr;

use nagaya_testkit::{Nagaya, Reply, RespClient};

use super::house;

type Bytes = Vec<u8>;

/// What is known of a key: DUMP, PEXPIRETIME and OBJECT ENCODING.
#[derive(Debug, PartialEq)]
struct Known {
    dump: Reply,
    /// The members of a hash table in order: a table keeps none, and DUMP lists them in table order.
    members: Vec<String>,
    expires_at_ms: Reply,
    encoding: String,
}

fn know(client: &mut RespClient, key: &[u8]) -> Known {
    let encoding = client.cmd(&[&b"OBJECT"[..], b"ENCODING", key]).unwrap();
    let mut known = Known {
        dump: client.cmd(&[b"DUMP", key]).unwrap(),
        members: Vec::new(),
        expires_at_ms: client.cmd(&[b"PEXPIRETIME", key]).unwrap(),
        // Two words for how a string lies in memory; one that was changed in place is "raw" until loaded.
        encoding: format!("{encoding:?}").replace("embstr", "raw"),
    };
    if encoding == Reply::bulk("hashtable") {
        let (read, group): (&[u8], usize) = match client.cmd(&[b"TYPE", key]).unwrap().text().as_str() {
            "hash" => (b"HGETALL", 2),
            _ => (b"SMEMBERS", 1),
        };
        let members = client.cmd(&[read, key]).unwrap();
        known.members = members
            .items()
            .chunks(group)
            .map(|member| format!("{member:?}"))
            .collect();
        known.members.sort_unstable();
        let Reply::Bulk(dump) = &known.dump else {
            panic!("{key:?} was dumped as {:?}", known.dump);
        };
        known.dump = Reply::Int(dump.len() as i64);
    }
    known
}

fn shown(key: &[u8]) -> String {
    let end = key.len().min(60);
    format!("{} ({} bytes)", key[..end].escape_ascii(), key.len())
}

/// Writes keys, then compares what is known of them before and after each way out of memory and back.
#[track_caller]
fn check(keys: &[Bytes], write: impl FnOnce(&mut RespClient)) {
    let house = house().start();
    let address = house.address("room");
    let mut client = connect(address);
    write(&mut client);
    let before: Vec<Known> = keys.iter().map(|key| know(&mut client, key)).collect();
    for (key, known) in keys.iter().zip(&before) {
        assert_ne!(known.dump, Reply::Nil, "{} was not written", shown(key));
    }
    let same = |client: &mut RespClient, when: &str| {
        for (key, before) in keys.iter().zip(&before) {
            let after = know(client, key);
            assert!(*before == after, "{} {when}:\n{before:?}\n{after:?}", shown(key));
        }
        let count = client.cmd(&["DBSIZE"]).unwrap().int();
        assert_eq!(count, keys.len() as i64, "{when}");
    };
    evict_all(&mut client, keys);
    same(&mut client, "after it was evicted");
    evict_all(&mut client, keys);
    assert_eq!(house.shut_down().code(), Some(0));
    house.restart();
    same(&mut connect(address), "after a restart");
    kill(&house);
    same(&mut connect(address), "after a crash");
    let mut client = connect(address);
    evict_all(&mut client, keys);
    kill(&house);
    same(&mut connect(address), "after it was evicted and a crash");
}

fn connect(address: SocketAddr) -> RespClient {
    let client = RespClient::connect(address).unwrap();
    client.set_timeout(super::LIMIT).unwrap();
    client
}

fn kill(house: &Nagaya) {
    house.process().kill9();
    house.restart();
}

/// Sends the tags of all keys to the cold tier; everything must go.
#[track_caller]
fn evict_all(client: &mut RespClient, keys: &[Bytes]) {
    let mut gone = 0;
    for key in keys {
        let reply = client.cmd(&[b"ROOM.EVICT", key.as_slice()]).unwrap();
        assert!(reply.error().is_none(), "{}: {reply:?}", shown(key));
        gone += reply.int();
    }
    assert_eq!(gone, keys.len() as i64, "keys that left memory");
    let status = client.cmd(&[b"ROOM.STATUS", keys[0].as_slice()]).unwrap();
    assert!(format!("{status:?}").contains("cleaned"), "{status:?}");
}

#[track_caller]
fn run<A: AsRef<[u8]>>(client: &mut RespClient, args: &[A]) -> Reply {
    let reply = client.cmd(args).unwrap();
    assert!(reply.error().is_none(), "{reply:?}");
    reply
}

/// Runs a request given as words.
#[track_caller]
fn say(client: &mut RespClient, request: &str) -> Reply {
    run(client, &request.split(' ').collect::<Vec<_>>())
}

#[test]
fn keys_of_any_bytes_come_back() {
    let every_byte: Bytes = (0..=255).collect();
    let mut keys: Vec<Bytes> = [
        &b""[..],
        b"{",
        b"}",
        b"{}",
        b"{}tail",
        b"}{",
        b"a{b",
        b"a}b{c",
        b"{{x}}",
        b"{x}",
        b"x",
        b"{x}{y}",
        b"pre{x}post}more{",
        b"\0",
        b"\0{\xff}\0",
        b"\xff",
        b"{\r\n}\r\n",
        b" ",
        b"*?[]\\",
        "{\u{e9}}\u{1f600}".as_bytes(),
    ]
    .map(<[u8]>::to_vec)
    .into();
    let long = vec![b'k'; 70_000];
    keys.push(long.clone());
    keys.push([b"{", long.as_slice(), b"}member"].concat());
    keys.push([long.as_slice(), b"{short}"].concat());
    keys.push(every_byte.repeat(280));
    keys.push(every_byte.clone());
    let others = keys.clone();
    check(&keys, move |client| {
        for (number, key) in others.iter().enumerate() {
            let value = [every_byte.as_slice(), number.to_string().as_bytes()].concat();
            run(client, &[b"SET", key.as_slice(), &value]);
        }
    });
}

#[test]
fn strings_of_every_form_come_back() {
    let every_byte: Bytes = (0..=255).collect();
    let names = [
        "empty", "int", "least", "almost", "embedded", "raw", "large", "bits", "sparse", "dense",
    ];
    let keys: Vec<Bytes> = names
        .iter()
        .map(|name| format!("{{s}}{name}").into_bytes())
        .collect();
    check(&keys, move |client| {
        let set = |client: &mut RespClient, name: &str, value: &[u8]| {
            run(client, &[b"SET", format!("{{s}}{name}").as_bytes(), value]);
        };
        set(client, "empty", b"");
        set(client, "int", b"12345");
        set(client, "least", b"-9223372036854775808");
        set(client, "almost", b"007");
        set(client, "embedded", b"\0\xff\r\n");
        set(client, "raw", &every_byte);
        set(client, "large", &every_byte.repeat(4096));
        say(client, "SETBIT {s}bits 100003 1");
        say(client, "PFADD {s}sparse a b c");
        for some in (0..5000).collect::<Vec<u32>>().chunks(500) {
            let members: Vec<String> = some.iter().map(u32::to_string).collect();
            say(client, &format!("PFADD {{s}}dense {}", members.join(" ")));
        }
    });
}

#[test]
fn lists_hashes_sets_and_sorted_sets_of_every_form_come_back() {
    let names = [
        "list", "nodes", "wide", "hash", "table", "int16", "int32", "int64", "set", "zset", "skiplist",
    ];
    let keys: Vec<Bytes> = names
        .iter()
        .map(|name| format!("{{c}}{name}").into_bytes())
        .collect();
    check(&keys, |client| {
        let every_byte: Bytes = (0..=255).collect();
        run(
            client,
            &[&b"RPUSH"[..], b"{c}list", b"", b"1", b"-7", &every_byte[..50]],
        );
        run(
            client,
            &[
                &b"RPUSH"[..],
                b"{c}wide",
                &every_byte.repeat(100),
                b"x",
                &every_byte.repeat(40),
            ],
        );
        run(
            client,
            &[
                &b"HSET"[..],
                b"{c}hash",
                b"",
                b"",
                &every_byte[200..],
                &every_byte[..60],
            ],
        );
        say(client, "SADD {c}int16 3 -1 2");
        say(client, "SADD {c}int32 70000 1");
        say(client, "SADD {c}int64 9223372036854775807 -5");
        say(client, "ZADD {c}zset inf a -inf b 0.1 c -0 d 1e300 e 5e-324 f");
        for number in 0..1500 {
            say(client, &format!("RPUSH {{c}}nodes {number} value-{number}"));
            say(client, &format!("HSET {{c}}table f{number} {number}"));
            say(client, &format!("SADD {{c}}set {number} m{number}"));
            say(
                client,
                &format!("ZADD {{c}}skiplist {}.25 m{number}", number % 97),
            );
        }
        // What was taken out again leaves no trace.
        say(client, "LTRIM {c}nodes 3 -5");
        say(client, "HDEL {c}table f7 f8");
        say(client, "SREM {c}set 9 m10");
        say(client, "ZREM {c}skiplist m11");
    });
}

#[test]
fn streams_come_back_with_groups_consumers_and_pending_entries() {
    let keys: Vec<Bytes> = [&b"{x}s"[..], b"{x}empty", b"{x}large"]
        .map(<[u8]>::to_vec)
        .into();
    check(&keys, |client| {
        for number in 1..=30 {
            say(
                client,
                &format!("XADD {{x}}s {number}-{} f {number} g \0", number % 3),
            );
        }
        for number in 1..=400 {
            say(
                client,
                &format!("XADD {{x}}large 5-{number} field-{number} {number} other x"),
            );
        }
        say(client, "XADD {x}empty 9-9 f v");
        say(client, "XDEL {x}empty 9-9");
        say(client, "XGROUP CREATE {x}empty lonely $");
        say(client, "XDEL {x}s 3-0 4-1");
        say(client, "XTRIM {x}s MINID 3");
        say(client, "XGROUP CREATE {x}s g1 0");
        say(client, "XGROUP CREATE {x}s g2 10 ENTRIESREAD 8");
        say(client, "XGROUP CREATECONSUMER {x}s g1 idle");
        say(client, "XREADGROUP GROUP g1 alice COUNT 5 STREAMS {x}s >");
        say(client, "XREADGROUP GROUP g1 bob COUNT 3 STREAMS {x}s >");
        say(client, "XREADGROUP GROUP g2 bob NOACK COUNT 3 STREAMS {x}s >");
        say(client, "XACK {x}s g1 6-0");
        say(client, "XCLAIM {x}s g1 carol 0 7-1 IDLE 5000 RETRYCOUNT 9");
        // Pending, though the entry itself is gone.
        say(client, "XDEL {x}s 8-2");
        say(client, "XSETID {x}s 100-7 ENTRIESADDED 200 MAXDELETEDID 50-1");
    });
}

#[test]
fn times_to_live_come_back_to_the_millisecond() {
    let keys: Vec<Bytes> = (0..20)
        .map(|number| format!("{{t{}}}k{number}", number % 4).into_bytes())
        .collect();
    let others = keys.clone();
    check(&keys, move |client| {
        for (number, key) in others.iter().enumerate() {
            let at_ms = (4_102_444_800_001u64 + 137 * number as u64).to_string();
            match number % 3 {
                0 => run(client, &[&b"RPUSH"[..], key, b"a"]),
                1 => run(client, &[&b"HSET"[..], key, b"f", b"v"]),
                _ => run(client, &[&b"SET"[..], key, b"v"]),
            };
            run(client, &[&b"PEXPIREAT"[..], key, at_ms.as_bytes()]);
        }
    });
}

#[test]
fn what_expires_while_it_is_cold_stays_away_after_a_crash() {
    let house = house().start();
    let mut client = connect(house.address("room"));
    say(&mut client, "SET {t}short v PX 200");
    say(&mut client, "SET {t}long v");
    assert_eq!(say(&mut client, "ROOM.EVICT t"), Reply::Int(2));
    nagaya_testkit::wait::until("its time is up", super::LIMIT, || {
        say(&mut client, "EXISTS {t}short") == Reply::Int(0)
    });
    kill(&house);
    let mut client = connect(house.address("room"));
    assert_eq!(say(&mut client, "EXISTS {t}short {t}long"), Reply::Int(1));
    assert_eq!(say(&mut client, "DBSIZE"), Reply::Int(1));
}
