//! Client-side caching through the proxy.

use std::time::Duration;

use nagaya_testkit::{Redis, RedisCluster, Reply, TcpProxy, wait};

use crate::support::{LIMIT, Talk, before_cluster, before_redis, config, connect, start};
use crate::tiering::{one_server, tiered, with_long_leases};

/// Connects a client that speaks RESP3.
fn modern(proxy: &nagaya_cluster::proxy::Proxy) -> Talk {
    let mut client = connect(proxy);
    client.say("HELLO 3");
    client
}

fn invalid(keys: &[&str]) -> Reply {
    let keys = keys.iter().map(Reply::bulk).collect();
    Reply::Push(vec![Reply::bulk("invalidate"), Reply::Array(keys)])
}

fn everything_invalid() -> Reply {
    Reply::Push(vec![Reply::bulk("invalidate"), Reply::Nil])
}

/// Sends a line; returns its reply and drops the messages before it.
fn ask(client: &mut Talk, line: &str) -> Reply {
    client.send(line);
    loop {
        let reply = client.receive();
        if !matches!(reply, Reply::Push(_)) {
            return reply;
        }
    }
}

#[test]
fn a_key_that_was_read_is_told_once_when_it_changes_through_any_server() {
    let cluster = RedisCluster::start();
    let (proxy, other) = (before_cluster(&cluster), before_cluster(&cluster));
    let (mut cache, mut near, mut far) = (modern(&proxy), connect(&proxy), connect(&other));
    cache.expect("CLIENT TRACKING ON", "+OK");
    for number in 0..20 {
        let key = format!("tr:{number}");
        cache.expect(&format!("GET {key}"), "nil");
        let writer = if number % 2 == 0 { &mut near } else { &mut far };
        writer.expect(&format!("SET {key} x"), "+OK");
        assert_eq!(cache.receive(), invalid(&[&key]));
        writer.expect(&format!("SET {key} y"), "+OK");
        cache.expect(&format!("GET {key}"), "\"y\"");
    }
    cache.expect("MGET tr:a tr:b tr:c", "[nil, nil, nil]");
    far.expect("SET tr:b x", "+OK");
    assert_eq!(cache.receive(), invalid(&["tr:b"]));
    cache.expect("CLIENT TRACKING OFF", "+OK");
    cache.expect("GET tr:d", "nil");
    far.expect("SET tr:c x", "+OK");
    far.expect("SET tr:d x", "+OK");
    cache.expect("GET tr:d", "\"x\"");
}

#[test]
fn reads_of_scripts_and_transactions_are_told_too() {
    let one = one_server(with_long_leases);
    let (mut cache, mut writer) = (modern(&one.proxy), connect(&one.proxy));
    cache.expect("CLIENT TRACKING ON", "+OK");
    let script = ["EVAL", "return redis.call('GET',KEYS[1])", "1", "{t}script"];
    cache.0.cmd(&script).unwrap();
    cache.expect("MULTI", "+OK");
    cache.expect("GET {t}exec", "+QUEUED");
    cache.expect("EXEC", "[nil]");
    for key in ["{t}script", "{t}exec"] {
        writer.expect(&format!("SET {key} x"), "+OK");
        assert_eq!(cache.receive(), invalid(&[key]));
    }
}

#[test]
fn optin_and_optout_follow_what_the_client_announces() {
    let one = one_server(with_long_leases);
    let (mut cache, mut writer) = (modern(&one.proxy), connect(&one.proxy));
    cache.expect("CLIENT TRACKING ON OPTIN", "+OK");
    cache.expect("GET {t}no", "nil");
    cache.expect("CLIENT CACHING YES", "+OK");
    cache.expect("GET {t}yes", "nil");
    cache.expect("GET {t}after", "nil");
    for key in ["{t}no", "{t}after", "{t}yes"] {
        writer.expect(&format!("SET {key} x"), "+OK");
    }
    assert_eq!(cache.receive(), invalid(&["{t}yes"]));
    cache.expect("CLIENT TRACKING OFF", "+OK");
    cache.expect("CLIENT TRACKING ON OPTOUT", "+OK");
    cache.expect("CLIENT CACHING NO", "+OK");
    cache.expect("GET {t}no", "\"x\"");
    cache.expect("GET {t}yes", "\"x\"");
    for key in ["{t}no", "{t}yes"] {
        writer.expect(&format!("SET {key} y"), "+OK");
    }
    assert_eq!(cache.receive(), invalid(&["{t}yes"]));
    cache.expect("GET {t}no", "\"y\"");
}

#[test]
fn old_clients_are_told_on_another_connection() {
    let one = one_server(with_long_leases);
    let (mut cache, mut listener, mut writer) =
        (connect(&one.proxy), connect(&one.proxy), connect(&one.proxy));
    let id = listener.say("CLIENT ID").int();
    listener.say("SUBSCRIBE __redis__:invalidate");
    cache.expect(&format!("CLIENT TRACKING ON REDIRECT {id}"), "+OK");
    cache.expect("HSET {r}h f v", "1");
    cache.expect("HGETALL {r}h", r#"["f", "v"]"#);
    cache.expect("ZADD {r}z 1 m", "1");
    cache.expect("ZRANGE {r}z 0 -1 WITHSCORES", r#"["m", "1"]"#);
    for key in ["{r}z", "{r}h"] {
        writer.expect(&format!("DEL {key}"), "1");
        assert_eq!(
            format!("{:?}", listener.receive()),
            format!(r#"["message", "__redis__:invalidate", ["{key}"]]"#)
        );
    }
}

#[test]
fn prefixes_are_broadcast_from_every_node() {
    let cluster = RedisCluster::start();
    let (proxy, other) = (before_cluster(&cluster), before_cluster(&cluster));
    let (mut cache, mut writer) = (modern(&proxy), connect(&other));
    cache.expect("CLIENT TRACKING ON BCAST PREFIX user: PREFIX cart:", "+OK");
    // Each node is listened to from some moment on, and everything before it is invalid.
    for _ in 0..3 {
        assert_eq!(cache.receive(), everything_invalid());
    }
    for number in 0..9 {
        writer.expect(&format!("SET other:{number} x"), "+OK");
        writer.expect(&format!("SET cart:{number} x"), "+OK");
        assert_eq!(cache.receive(), invalid(&[&format!("cart:{number}")]));
    }
    cache.expect("CLIENT TRACKING OFF", "+OK");
    writer.expect("SET cart:1 y", "+OK");
    cache.expect("GET cart:1", "\"y\"");
}

#[test]
fn a_lost_connection_makes_everything_invalid() {
    let redis = Redis::start();
    let link = TcpProxy::start(redis.address());
    let proxy = start(config(&format!("redis://{}", link.address())));
    let mut cache = modern(&proxy);
    cache.expect("CLIENT TRACKING ON", "+OK");
    cache.expect("GET tr:lost", "nil");
    link.reset();
    link.restore();
    assert_eq!(cache.receive(), everything_invalid());
    wait::until("the node answers again", LIMIT, || {
        ask(&mut cache, "GET tr:lost") == Reply::Nil
    });
    redis.cmd(&["SET", "tr:lost", "x"]);
    while cache.receive() != invalid(&["tr:lost"]) {}
}

#[test]
fn nobody_keeps_a_value_that_was_changed_while_it_was_read() {
    const WRITES: usize = 2000;
    let one = one_server(with_long_leases);
    let other = start(with_long_leases(tiered(&one.redis.url(), &one.loads)));
    for mode in ["ON", "ON BCAST"] {
        let mut cache = modern(&one.proxy);
        cache.expect(&format!("CLIENT TRACKING {mode}"), "+OK");
        let mut writer = connect(&other);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..=WRITES {
                    writer.expect(&format!("SET {{race}}k {number}"), "+OK");
                }
            });
            // It reads what it does not keep, and keeps that until it is told otherwise.
            let mut kept = Reply::Nil;
            let (mut reads, mut is_asked) = (0, true);
            cache.send("GET {race}k");
            while kept != Reply::bulk(WRITES.to_string()) || is_asked {
                match cache.receive() {
                    Reply::Push(_) => kept = Reply::Nil,
                    value => {
                        kept = value;
                        is_asked = false;
                    }
                }
                if kept == Reply::Nil && !is_asked {
                    cache.send("GET {race}k");
                    (reads, is_asked) = (reads + 1, true);
                }
            }
            assert!(reads > 10, "{reads} reads");
        });
        assert_eq!(ask(&mut cache, "CLIENT TRACKING OFF"), Reply::ok());
        writer.expect("DEL {race}k", "1");
    }
}

#[test]
fn a_client_that_does_not_track_is_told_nothing() {
    let redis = Redis::start();
    let proxy = before_redis(&redis);
    let (mut plain, mut cache) = (modern(&proxy), modern(&proxy));
    cache.expect("CLIENT TRACKING ON", "+OK");
    plain.expect("GET tr:plain", "nil");
    cache.expect("GET tr:plain", "nil");
    redis.cmd(&["SET", "tr:plain", "x"]);
    assert_eq!(cache.receive(), invalid(&["tr:plain"]));
    plain.expect("GET tr:plain", "\"x\"");
    plain.0.set_timeout(Duration::from_secs(5)).unwrap();
    plain.expect("PING", "+PONG");
}
