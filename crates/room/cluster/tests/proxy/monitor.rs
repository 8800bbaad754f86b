//! MONITOR through the proxy.

use nagaya_testkit::Redis;

use crate::support::{before_redis, connect, start};
use crate::tiering::{one_server, with_long_leases};

#[test]
fn a_watcher_sees_what_the_clients_of_this_server_ask_for() {
    let one = one_server(with_long_leases);
    let (mut watcher, mut client) = (connect(&one.proxy), connect(&one.proxy));
    watcher.expect("MONITOR", "+OK");
    client.expect("SET {m}k v\"1", "+OK");
    client.expect("MULTI", "+OK");
    client.expect("GET {m}k", "+QUEUED");
    client.expect("EXEC", "[\"v\\\"1\"]");
    client
        .0
        .cmd(&["EVAL", "return redis.call('GET',KEYS[1])", "1", "{m}k"])
        .unwrap();
    client.expect("PING", "+PONG");
    client.expect("AUTH secret", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?");
    client.expect("GET {m}last", "nil");
    for wanted in [
        r#""SET" "{m}k" "v\"1""#,
        r#""MULTI""#,
        r#""GET" "{m}k""#,
        r#""EXEC""#,
        r#""EVAL" "return redis.call('GET',KEYS[1])" "1" "{m}k""#,
        r#""PING""#,
        r#""AUTH" "(redacted)""#,
        r#""GET" "{m}last""#,
    ] {
        let line = watcher.receive().text();
        let (head, words) = line.split_once("] ").unwrap();
        assert_eq!(words, wanted);
        assert!(head.contains(" [0 127.0.0.1:"), "{head}");
    }
    // RESET ends the watch.
    watcher.send("RESET");
    let mut replies = (0..).map(|_| watcher.receive().text());
    assert!(replies.any(|reply| reply == "RESET"));
    client.expect("GET {m}k", "\"v\\\"1\"");
    watcher.expect("PING", "+PONG");
}

#[test]
fn a_watcher_of_one_worker_sees_the_clients_of_all() {
    let redis = Redis::start();
    let mut config = crate::support::config(&redis.url());
    config.io_threads = 3;
    let proxy = start(config);
    let mut watcher = connect(&proxy);
    watcher.expect("MONITOR", "+OK");
    for number in 0..6 {
        connect(&proxy).expect(&format!("SET mon:{number} x"), "+OK");
        let line = watcher.receive().text();
        assert!(line.ends_with(&format!(r#""SET" "mon:{number}" "x""#)), "{line}");
    }
    let other = before_redis(&redis);
    connect(&other).expect("SET mon:other x", "+OK");
    connect(&proxy).expect("SET mon:own x", "+OK");
    let line = watcher.receive().text();
    assert!(line.ends_with(r#""mon:own" "x""#), "{line}");
}
