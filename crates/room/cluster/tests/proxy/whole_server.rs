//! Commands about the whole server: INFO and WAIT.

use nagaya_testkit::{Redis, RedisCluster, Reply, shared, wait};

use crate::support::{LIMIT, before_cluster, before_redis, connect};

fn keys_in_info(info: &str) -> Option<i64> {
    let line = info.lines().find_map(|line| line.strip_prefix("db0:keys="))?;
    line.split(',').next()?.parse().ok()
}

#[test]
fn info_tells_as_many_keys_as_dbsize() {
    let redis = Redis::start();
    let proxy = before_redis(&redis);
    let mut client = connect(&proxy);
    assert_eq!(keys_in_info(&client.say("INFO keyspace").text()), None);
    for number in 0..40 {
        client.expect(&format!("SET info:{number} x EX 100"), "+OK");
    }
    client.expect("SET info:lasting x", "+OK");
    let text = client.say("INFO keyspace").text();
    assert!(
        text.starts_with("# Keyspace\r\ndb0:keys=41,expires=40,avg_ttl="),
        "{text}"
    );
    assert_eq!(client.say("DBSIZE"), Reply::Int(41));
    for request in ["INFO", "INFO all", "INFO everything", "INFO server KEYSPACE"] {
        let text = client.say(request).text();
        assert_eq!(keys_in_info(&text), Some(41), "{request}");
        assert!(text.contains("redis_version:"), "{request}");
    }
    assert_eq!(keys_in_info(&client.say("INFO server").text()), None);
    client.send("GET info:lasting");
    client.send("INFO keyspace");
    client.send("GET info:1");
    assert_eq!(client.receive(), Reply::bulk("x"));
    assert_eq!(keys_in_info(&client.receive().text()), Some(41));
    assert_eq!(client.receive(), Reply::bulk("x"));
    client.say("HELLO 3");
    assert_eq!(keys_in_info(&client.say("INFO keyspace").text()), Some(41));
    redis.kill9();
    wait::until("INFO is answered without the node", LIMIT, || {
        client.say("INFO").text().contains("redis_version:")
    });
}

#[test]
fn info_adds_up_the_keys_of_all_nodes() {
    let proxy = before_cluster(shared::cluster());
    let mut client = connect(&proxy);
    for number in 0..50 {
        client.expect(&format!("SET whole:{number} x"), "+OK");
    }
    // Other tests share the nodes, and may write meanwhile.
    wait::until("both say the same", LIMIT, || {
        let told = keys_in_info(&client.say("INFO keyspace").text());
        told.is_some_and(|keys| keys >= 50 && client.say("DBSIZE") == Reply::Int(keys))
    });
}

#[test]
fn wait_counts_the_replicas_of_the_nodes_that_the_client_wrote_to() {
    let cluster = RedisCluster::start();
    let proxy = before_cluster(&cluster);
    let mut client = connect(&proxy);
    let key_on = |node: usize| {
        let mut names = (0..).map(|number| format!("wait:{number}"));
        names
            .find(|name| cluster.owner_of(cluster.slot_of(name)) == node)
            .unwrap()
    };
    let primaries: Vec<usize> = (0..cluster.nodes().len())
        .filter(|node| key_owner(&cluster, *node))
        .collect();
    let (one, other) = (primaries[0], primaries[1]);
    client.expect("WAIT x 1", "-ERR value is not an integer or out of range");
    client.expect("WAIT 1 -1", "-ERR timeout is negative");
    client.expect("WAIT 1", "-ERR wrong number of arguments for 'wait' command");
    client.expect(&format!("SET {} x", key_on(one)), "+OK");
    client.expect("WAIT 1 0", "1");
    client.expect("WAIT 2 50", "1");
    let frozen = &cluster.nodes()[cluster.replica_of(other)];
    frozen.stop();
    client.expect("WAIT 1 0", "1");
    let mut second = connect(&proxy);
    second.expect(&format!("SET {} x", key_on(other)), "+OK");
    second.expect("WAIT 1 50", "0");
    // A client that waits holds up nobody else, and a transaction does not wait at all.
    second.send("WAIT 1 0");
    client.expect(&format!("GET {}", key_on(other)), "\"x\"");
    frozen.cont();
    assert_eq!(second.receive(), Reply::Int(1));
    let names = client.say("KEYS *");
    assert!(!format!("{names:?}").contains("_room"), "{names:?}");
    client.expect("MULTI", "+OK");
    client.expect(&format!("SET {} y", key_on(one)), "+QUEUED");
    client.expect("WAIT 0 0", "+QUEUED");
    assert_eq!(client.say("EXEC").items().len(), 2);
}

fn key_owner(cluster: &RedisCluster, node: usize) -> bool {
    (0..16384).step_by(512).any(|slot| cluster.owner_of(slot) == node)
}
