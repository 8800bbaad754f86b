//! Keys of several tags in one request, with one server behind the proxy.

use std::time::Duration;

use nagaya_testkit::{Reply, wait};

use crate::support::{LIMIT, connect, start};
use crate::tiering::{one_server, tiered, with_long_leases};

#[test]
fn commands_over_several_tags_run_whole_and_register_each_key_with_its_own_tag() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    client.expect("MSET {a}k 1 {b}k 2 c 3 {a}l 4", "+OK");
    for (tag, key) in [("a", "{a}k"), ("b", "{b}k"), ("c", "c"), ("a", "{a}l")] {
        assert!(one.is_dirty(tag, key), "{key}");
        let others = ["a", "b", "c"].into_iter().filter(|other| *other != tag);
        for other in others {
            assert!(!one.is_dirty(other, key), "{key} is none of {other}'s");
        }
    }
    client.expect("MGET {a}k {b}k c {d}k", r#"["1", "2", "3", nil]"#);
    client.expect("MSETNX {e}k 1 {a}k 1", "0");
    client.expect("RENAME {b}k {x}k", "+OK");
    assert!(one.is_dirty("x", "{x}k") && one.is_dirty("b", "{b}k"));
    client.expect("SADD {s1}s m", "1");
    client.expect("SADD {s2}s n", "1");
    client.expect("SUNIONSTORE {s3}s {s1}s {s2}s", "2");
    assert!(one.is_dirty("s3", "{s3}s"));
    client.expect("DEL {a}k {x}k {s3}s nothing", "3");
    client.expect("EXISTS {a}l c {s1}s", "3");
    let names: Vec<String> = (0..1100).map(|number| format!("many:{number}")).collect();
    assert_eq!(
        client.say(&format!("MGET {}", names.join(" "))).items().len(),
        1100
    );
    let refused = client.say(&format!("SINTER {}", names.join(" ")));
    assert_eq!(
        refused.error(),
        Some("ERR a request may have keys of 1024 hash tags at most")
    );
    client.expect(
        "MSET _room:{a}:meta x {b}k y",
        "-ERR key names that begin with _room: are kept for the server itself",
    );
}

#[test]
fn registrations_reach_their_tags_though_the_scripts_were_flushed() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    client.expect("MGET {a}k {b}k", "[nil, nil]");
    one.redis.cmd(&["SCRIPT", "FLUSH"]);
    client.expect("MSET {a}k 1 {b}k 2", "+OK");
    assert!(one.is_dirty("a", "{a}k") && one.is_dirty("b", "{b}k"));
}

#[test]
fn transactions_may_watch_and_write_several_tags() {
    let one = one_server(with_long_leases);
    let other = start(with_long_leases(tiered(&one.redis.url(), &one.loads)));
    let (mut client, mut second) = (connect(&one.proxy), connect(&other));
    client.expect("MULTI", "+OK");
    client.expect("SET {a}k 1", "+QUEUED");
    client.expect("INCR {b}n", "+QUEUED");
    client.expect("GET {c}k", "+QUEUED");
    client.expect("EXEC", "[+OK, 1, nil]");
    assert!(one.is_dirty("a", "{a}k") && one.is_dirty("b", "{b}n") && !one.is_dirty("c", "{c}k"));
    client.expect("WATCH {a}k {d}k", "+OK");
    client.expect("WATCH {e}k", "+OK");
    client.expect("MULTI", "+OK");
    client.expect("SET {f}k 1", "+QUEUED");
    client.expect("EXEC", "[+OK]");
    for key in ["{a}k", "{d}k", "{e}k"] {
        client.expect("WATCH {a}k {d}k", "+OK");
        client.expect("WATCH {e}k", "+OK");
        second.expect(&format!("SET {key} changed"), "+OK");
        client.expect("MULTI", "+OK");
        client.expect("SET {f}k 2", "+QUEUED");
        client.expect("EXEC", "nil");
    }
    client.expect("GET {f}k", "\"1\"");
}

#[test]
fn scripts_may_declare_keys_of_several_tags_and_register_with_each() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    let script = "redis.call('SET',KEYS[1],#KEYS) redis.call('SET','{b:2}undeclared',#ARGV) \
                  return redis.call('MGET',KEYS[1],KEYS[2],'{b:2}undeclared')";
    let words = ["EVAL", script, "2", "{a}k", "{b:2}k", "x"];
    assert_eq!(
        format!("{:?}", client.0.cmd(&words).unwrap()),
        r#"["2", nil, "1"]"#
    );
    assert!(one.is_dirty("a", "{a}k") && one.is_dirty("b:2", "{b:2}undeclared"));
    assert!(!one.is_dirty("b:2", "{b:2}k") && !one.is_dirty("a", "{b:2}undeclared"));
    let sha = client.0.cmd(&["SCRIPT", "LOAD", script]).unwrap().text();
    one.redis.cmd(&["SCRIPT", "FLUSH"]);
    let words = ["EVALSHA", &sha, "2", "{a}k", "{b:2}k"];
    assert_eq!(
        format!("{:?}", client.0.cmd(&words).unwrap()),
        r#"["2", nil, "0"]"#
    );
    client.expect("MULTI", "+OK");
    client
        .0
        .cmd(&["EVAL", "return redis.call('SET',KEYS[2],1)", "2", "{c}k", "{d}k"])
        .unwrap();
    client.expect("SET {e}k 1", "+QUEUED");
    client.expect("EXEC", "[+OK, +OK]");
    assert!(one.is_dirty("d", "{d}k") && one.is_dirty("e", "{e}k") && !one.is_dirty("c", "{c}k"));
    let refused = client
        .0
        .cmd(&["EVAL", "return redis.call('GET','{z}k')", "2", "{a}k", "{b:2}k"])
        .unwrap();
    assert!(
        refused.error().unwrap().contains("another hash tag"),
        "{refused:?}"
    );
}

#[test]
fn a_client_may_wait_for_queues_of_several_tags() {
    // Leases are short, so the command is sent again and again.
    let one = one_server(|config| config);
    let other = start(tiered(&one.redis.url(), &one.loads));
    let (mut waiting, mut pusher) = (connect(&one.proxy), connect(&other));
    for queue in ["queue:high", "queue:low", "queue:high"] {
        waiting.send("BRPOP queue:high queue:low 0");
        let sent = proxy_calls(&one.redis);
        wait::until("it was sent under several leases", LIMIT, || {
            proxy_calls(&one.redis) >= sent + 3
        });
        pusher.expect(&format!("LPUSH {queue} job"), "1");
        assert_eq!(
            format!("{:?}", waiting.receive()),
            format!(r#"["{queue}", "job"]"#)
        );
        assert!(one.is_dirty(queue, queue));
    }
    waiting.expect("BRPOP queue:high queue:low 1", "nil");
}

fn proxy_calls(redis: &nagaya_testkit::Redis) -> u64 {
    let stats = redis.cmd(&["INFO", "commandstats"]).text();
    let calls = stats
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_brpop:calls="));
    calls.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

#[test]
fn a_request_that_waits_for_one_of_its_tags_is_not_overtaken() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    client.expect("SET {a}k old", "+OK");
    let held = one.loads.hold.lock().unwrap();
    client.send("MSET {a}k new {b}k new");
    client.send("GET {a}k");
    client.send("MULTI");
    client.send("APPEND {a}k er");
    client.send("APPEND {c}k er");
    client.send("EXEC");
    client.send("GET {a}k");
    // Others are not held up.
    connect(&one.proxy).expect("GET {a}k", "\"old\"");
    drop(held);
    assert_eq!(client.receive(), Reply::ok());
    assert_eq!(client.receive(), Reply::bulk("new"));
    let replies: Vec<String> = (0..5).map(|_| format!("{:?}", client.receive())).collect();
    assert_eq!(replies, ["+OK", "+QUEUED", "+QUEUED", "[5, 2]", "\"newer\""]);
}

#[test]
fn nobody_sees_a_part_of_a_change_of_several_tags() {
    const ROUNDS: usize = 1500;
    // Short leases end in the middle of everything.
    let short = |mut config: nagaya_cluster::proxy::Config| {
        if let Some(tiering) = &mut config.tiering {
            tiering.lease = Duration::from_millis(150);
            tiering.margin = Duration::from_millis(20);
        }
        config
    };
    let one = one_server(short);
    let other = start(short(tiered(&one.redis.url(), &one.loads)));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut writer = connect(&one.proxy);
            for number in 0..ROUNDS {
                if number % 2 == 0 {
                    writer.expect(&format!("MSET {{x}}k {number} {{y}}k {number} z {number}"), "+OK");
                } else {
                    writer.expect("MULTI", "+OK");
                    for key in ["{x}k", "{y}k", "z"] {
                        writer.expect(&format!("SET {key} {number}"), "+QUEUED");
                    }
                    writer.expect("EXEC", "[+OK, +OK, +OK]");
                }
            }
        });
        let mut reader = connect(&other);
        while !writer.is_finished() {
            let values = reader.say("MGET {x}k {y}k z");
            let values = values.items();
            assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "{values:?}");
        }
    });
    for (tag, key) in [("x", "{x}k"), ("y", "{y}k"), ("z", "z")] {
        assert!(one.is_dirty(tag, key), "{key}");
    }
}
