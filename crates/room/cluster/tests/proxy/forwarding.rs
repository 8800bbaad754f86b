//! What goes through unchanged, what is split, and what is answered by the proxy itself.

use nagaya_cluster::proxy::Config;
use nagaya_testkit::{Reply, shared};

use crate::support::{before_cluster, before_redis, cluster_url, config, connect, start};

#[test]
fn commands_reach_the_nodes_of_their_keys() {
    let proxy = before_cluster(shared::cluster());
    let mut client = connect(&proxy);
    for number in 0..50 {
        client.expect(&format!("SET fwd:{number} {number}"), "+OK");
    }
    for number in 0..50 {
        client.expect(&format!("GET fwd:{number}"), &format!("\"{number}\""));
    }
    client.expect("INCRBY fwd:1 41", "42");
    client.expect(
        "LPUSH fwd:1 x",
        "-WRONGTYPE Operation against a key holding the wrong kind of value",
    );
    client.expect("GET fwd:absent", "nil");
    client.expect("HSET fwd:h a 1 b 2", "2");
    client.expect("HGETALL fwd:h", r#"["a", "1", "b", "2"]"#);
    client.expect(
        "SINTER fwd:1 fwd:2",
        "-CROSSSLOT Keys in request don't hash to the same slot",
    );
}

#[test]
fn replies_of_a_pipeline_over_all_nodes_come_in_order() {
    let proxy = before_cluster(shared::cluster());
    let mut client = connect(&proxy);
    for number in 0..3000 {
        client.send(&format!("SET pipe:{number} {number}"));
        client.send(&format!("GET pipe:{number}"));
        client.send("PING");
    }
    for number in 0..3000 {
        assert_eq!(client.receive(), Reply::ok());
        assert_eq!(client.receive(), Reply::bulk(number.to_string()));
        assert_eq!(client.receive(), Reply::Simple("PONG".into()));
    }
}

#[test]
fn large_values_pass_in_both_directions() {
    let proxy = before_cluster(shared::cluster());
    let mut client = connect(&proxy);
    let value = vec![b'x'; 5 << 20];
    assert_eq!(
        client.0.cmd(&[b"SET", &b"large"[..], &value]).unwrap(),
        Reply::ok()
    );
    assert_eq!(client.0.cmd(&["GET", "large"]).unwrap(), Reply::Bulk(value));
    client.expect("DEL large", "1");
}

#[test]
fn commands_over_several_tags_are_split_and_joined() {
    let proxy = before_cluster(shared::cluster());
    let mut client = connect(&proxy);
    for name in ["a", "b", "c"] {
        client.expect(&format!("SET split:{name} {name}"), "+OK");
    }
    client.expect(
        "MGET split:c split:none split:a split:b split:c",
        r#"["c", nil, "a", "b", "c"]"#,
    );
    client.expect("EXISTS split:a split:b split:none split:a", "3");
    client.expect("TOUCH split:a split:b", "2");
    client.expect(
        "MSET split:a 1 split:b 2",
        "-CROSSSLOT Keys in request don't hash to the same slot",
    );
    client.expect("MSET {split}a 1 {split}b 2", "+OK");
    client.expect(
        "MSETNX split:a 1 split:b 2",
        "-CROSSSLOT Keys in request don't hash to the same slot",
    );
    client.expect("DEL split:a split:c", "2");
    client.expect("UNLINK split:b split:none {split}a {split}b", "3");
}

#[test]
fn mset_over_several_tags_works_when_it_is_allowed() {
    let mut config = config(&cluster_url(shared::cluster()));
    config.allow_split_mset = true;
    let proxy = start(config);
    let mut client = connect(&proxy);
    client.expect("MSET mset:a 1 mset:b 2 mset:a 3", "+OK");
    client.expect("MGET mset:a mset:b", r#"["3", "2"]"#);
    client.expect(
        "MSET mset:a 1 mset:b",
        "-ERR wrong number of arguments for 'mset' command",
    );
}

#[test]
fn names_of_all_nodes_are_listed() {
    let redis = nagaya_testkit::RedisCluster::start();
    let proxy = before_cluster(&redis);
    let mut client = connect(&proxy);
    for number in 0..200 {
        client.expect(&format!("SET name:{number} x"), "+OK");
    }
    client.expect("DBSIZE", "200");
    assert_eq!(client.say("KEYS name:1?").items().len(), 10);
    assert!(client.say("RANDOMKEY").text().starts_with("name:"));
    let mut cursor = "0".to_owned();
    let mut names = std::collections::BTreeSet::new();
    loop {
        let page = client.say(&format!("SCAN {cursor} COUNT 20"));
        cursor = page.items()[0].text();
        names.extend(page.items()[1].items().iter().map(Reply::text));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(names.len(), 200);
    client.expect("SCAN x", "-ERR invalid cursor");
}

#[test]
fn the_proxy_looks_like_one_server() {
    let proxy = before_cluster(shared::cluster());
    let mut client = connect(&proxy);
    client.expect("PING", "+PONG");
    client.expect("ECHO hello", "\"hello\"");
    client.expect("SELECT 0", "+OK");
    client.expect("SELECT 1", "-ERR DB index is out of range");
    client.expect("CLIENT SETNAME me", "+OK");
    client.expect("CLIENT GETNAME", "\"me\"");
    assert!(client.say("INFO").text().contains("redis_version"));
    assert_eq!(client.say("COMMAND COUNT"), connect(&proxy).say("COMMAND COUNT"));
    client.expect(
        "NOSUCH a b",
        "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' ",
    );
    client.expect("GET", "-ERR wrong number of arguments for 'get' command");
    for refused in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"] {
        assert!(client.say(refused).error().is_some(), "{refused}");
    }
    client.expect(
        "SET _room:{a}:meta x",
        "-ERR key names that begin with _room: are kept for the server itself",
    );
    client
        .0
        .send_raw(b"SET inline:key 'a b'\r\nGET inline:key\r\n")
        .unwrap();
    assert_eq!(client.receive(), Reply::ok());
    assert_eq!(client.receive(), Reply::bulk("a b"));
    client.expect("QUIT", "+OK");
    assert!(client.0.receive().is_err());
}

#[test]
fn clients_choose_their_protocol() {
    let proxy = before_cluster(shared::cluster());
    let mut client = connect(&proxy);
    client.expect("HSET proto:h a 1", "1");
    let hello = client.say("HELLO 3");
    assert!(matches!(hello, Reply::Map(_)), "{hello:?}");
    client.expect("HGETALL proto:h", r#"{"a": "1"}"#);
    client.expect("ZADD proto:z 1.5 m", "1");
    client.expect("ZSCORE proto:z m", "1.5");
    client.expect("GET proto:none", "nil");
    client.expect("MGET proto:none proto:other", "[nil, nil]");
    client.say("HELLO 2");
    client.expect("HGETALL proto:h", r#"["a", "1"]"#);
}

#[test]
fn clients_authenticate_to_the_proxy() {
    let mut config = config(&shared::redis().url());
    config.password = Some("open".to_owned());
    let proxy = start(config);
    let mut client = connect(&proxy);
    client.expect("GET auth:k", "-NOAUTH Authentication required.");
    client.expect(
        "AUTH wrong",
        "-WRONGPASS invalid username-password pair or user is disabled.",
    );
    client.expect("AUTH open", "+OK");
    client.expect("SET auth:k 1", "+OK");
    client.expect("ACL SETUSER reader on >r ~auth:* +get", "+OK");
    let mut reader = connect(&proxy);
    reader.expect("AUTH reader r", "+OK");
    reader.expect("GET auth:k", "\"1\"");
    assert!(
        reader
            .say("SET auth:k 2")
            .error()
            .is_some_and(|text| text.starts_with("NOPERM"))
    );
}

#[test]
fn unwanted_replies_are_dropped_in_order() {
    let proxy = before_redis(shared::redis());
    let mut client = connect(&proxy);
    client.send("CLIENT REPLY SKIP");
    client.send("SET reply:k 1");
    client.expect("GET reply:k", "\"1\"");
    client.send("CLIENT REPLY OFF");
    client.send("SET reply:k 2");
    client.expect("CLIENT REPLY ON", "+OK");
    client.expect("GET reply:k", "\"2\"");
}

#[test]
fn one_server_takes_keys_of_any_slots_in_one_command() {
    let proxy = before_redis(shared::redis());
    let mut client = connect(&proxy);
    client.expect("MSET any:a 1 any:b 2", "+OK");
    client.expect("SADD any:s1 x", "1");
    client.expect("SUNIONSTORE any:d any:s1 any:s2", "1");
}

#[test]
fn scripts_run_where_their_keys_are() {
    let proxy = before_cluster(shared::cluster());
    let mut client = connect(&proxy);
    let script = "return redis.call('INCR', KEYS[1])";
    let mut eval = |command: &str, body: &str, key: &str| client.0.cmd(&[command, body, "1", key]).unwrap();
    for number in 0..20 {
        assert_eq!(eval("EVAL", script, &format!("script:{number}")).int(), 1);
    }
    let sha = client.0.cmd(&["SCRIPT", "LOAD", script]).unwrap().text();
    client.expect(&format!("SCRIPT EXISTS {sha} ffff"), "[1, 0]");
    for number in 0..20 {
        client.expect(&format!("EVALSHA {sha} 1 script:{number}"), "2");
    }
}

#[test]
fn sentinel_names_the_server() {
    let sentinel = nagaya_testkit::RedisSentinel::start();
    let addresses: Vec<String> = sentinel
        .sentinels()
        .iter()
        .map(|node| node.address().to_string())
        .collect();
    let url = format!(
        "redis+sentinel://{}/{}",
        addresses.join(","),
        nagaya_testkit::SENTINEL_SERVICE
    );
    let proxy = start(config(&url));
    let mut client = connect(&proxy);
    client.expect("SET sentinel:k 1", "+OK");
    let before = sentinel.primary_address();
    sentinel.failover();
    sentinel.wait_for_new_primary(before);
    nagaya_testkit::wait::until("the new primary takes writes", crate::support::LIMIT, || {
        connect(&proxy).say("SET sentinel:k 2") == Reply::ok()
    });
}

#[test]
fn a_client_that_closes_its_half_still_gets_its_replies() {
    use std::io::{Read, Write};
    let proxy = before_cluster(shared::cluster());
    let mut stream = std::net::TcpStream::connect(proxy.address()).unwrap();
    stream
        .write_all(b"SET half:a 1\r\nINCR half:a\r\nGET half:b\r\n")
        .unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    assert_eq!(replies, "+OK\r\n:2\r\n$-1\r\n");
}

#[test]
fn replies_are_those_of_the_server_itself() {
    let server = nagaya_testkit::Redis::start();
    let proxy = start(Config {
        enable_debug_command: "yes",
        ..config(&server.url())
    });
    let (mut through, mut direct) = (connect(&proxy), crate::support::Talk(shared::redis().client()));
    let lines = include_str!("commands.txt")
        .lines()
        .filter(|line| !line.is_empty());
    for protocol in ["2", "3"] {
        through.say(&format!("HELLO {protocol}"));
        direct.say(&format!("HELLO {protocol}"));
        for line in lines.clone() {
            assert_eq!(through.say(line), direct.say(line), "RESP{protocol}: {line}");
        }
    }
}
