//! Keyspace notifications through the proxy.

use nagaya_cluster::hot_tier::scripts;
use nagaya_testkit::{RedisCluster, Reply, wait};
use nagaya_tiering::cold::{Kind, Row, StoredValue};
use nagaya_tiering::hot::Chunk;
use nagaya_tiering::protocol::{Part, Tokens};

use crate::support::{LIMIT, Talk, before_cluster, connect, start};
use crate::tiering::{call, one_server, run_of, tiered, with_long_leases};

#[track_caller]
fn hears(listener: &mut Talk, channel: &str, payload: &str) {
    let message = listener.receive();
    let items = message.items();
    let (heard, said) = (items[items.len() - 2].text(), items[items.len() - 1].text());
    assert_eq!((heard.as_str(), said.as_str()), (channel, payload));
}

#[test]
fn events_of_every_node_reach_those_who_listen_once() {
    let cluster = RedisCluster::start();
    let (proxy, other) = (before_cluster(&cluster), before_cluster(&cluster));
    let (mut client, mut all, mut some) = (connect(&proxy), connect(&proxy), connect(&other));
    client.expect("CONFIG SET notify-keyspace-events KEA", "+OK");
    for server in [&proxy, &other] {
        let told = connect(server).say("CONFIG GET notify-keyspace-events");
        assert_eq!(told.items()[1], Reply::bulk("AKE"));
    }
    all.expect("PSUBSCRIBE *", r#"["psubscribe", "*", 1]"#);
    some.expect(
        "SUBSCRIBE __keyevent@0__:del",
        r#"["subscribe", "__keyevent@0__:del", 1]"#,
    );
    for number in 0..12 {
        let key = format!("ev:{number}");
        client.expect(&format!("SET {key} x"), "+OK");
        client.expect(&format!("DEL {key}"), "1");
        hears(&mut all, &format!("__keyspace@0__:{key}"), "set");
        hears(&mut all, "__keyevent@0__:set", &key);
        hears(&mut all, &format!("__keyspace@0__:{key}"), "del");
        hears(&mut all, "__keyevent@0__:del", &key);
        hears(&mut some, "__keyevent@0__:del", &key);
    }
    // Messages of clients still come once, although events come from every node.
    client.expect("PUBLISH ordinary x", "1");
    hears(&mut all, "ordinary", "x");
    all.expect("PUNSUBSCRIBE *", r#"["punsubscribe", "*", 0]"#);
    drop(some);
    wait::until("no node is listened to any more", LIMIT, || {
        cluster
            .nodes()
            .iter()
            .all(|node| node.cmd(&["PUBSUB", "NUMPAT"]) == Reply::Int(0))
    });
}

#[test]
fn bad_letters_are_refused_before_any_node_is_asked() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    let refused = client.say("CONFIG SET notify-keyspace-events X");
    assert!(
        refused.error().unwrap().contains("notify-keyspace-events"),
        "{refused:?}"
    );
    client.expect("CONFIG SET maxclients 100 notify-keyspace-events Kg", "+OK");
    assert_eq!(
        one.redis
            .cmd(&["CONFIG", "GET", "notify-keyspace-events"])
            .items()[1],
        Reply::bulk("gK")
    );
    client.expect("CONFIG GET maxclients", r#"["maxclients", "100"]"#);
    client.expect("MULTI", "+OK");
    let queued = client.say("CONFIG SET notify-keyspace-events KEA");
    assert!(queued.error().is_some(), "{queued:?}");
}

#[test]
fn a_limit_of_memory_is_the_nodes_own_and_stops_no_write() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    let refused = client.say("CONFIG SET maxmemory 1mb");
    assert!(refused.error().unwrap().contains("Redis servers"), "{refused:?}");
    client.expect("SET {mm}k x", "+OK");
}

#[test]
fn loads_and_evictions_are_not_told_and_neither_are_reserved_names() {
    let one = one_server(with_long_leases);
    let other = start(with_long_leases(tiered(&one.redis.url(), &one.loads)));
    let (mut client, mut listener) = (connect(&one.proxy), connect(&other));
    client.expect("CONFIG SET notify-keyspace-events EA", "+OK");
    listener.say("PSUBSCRIBE __keyevent@*");
    client.expect("SET {e}first x PX 100000", "+OK");
    hears(&mut listener, "__keyevent@0__:set", "{e}first");
    hears(&mut listener, "__keyevent@0__:expire", "{e}first");
    // Another tag comes into memory with its keys, and leaves it again.
    let mut node = one.redis.client();
    let payload = node.cmd(&["DUMP", "{e}first"]).unwrap();
    let Reply::Bulk(payload) = payload else {
        panic!("{payload:?}")
    };
    let (run, token) = (run_of(&mut node), Tokens::default().draw());
    let row = |key: &str| Row {
        key: key.as_bytes().to_vec(),
        value: StoredValue {
            kind: Kind::String,
            payload: payload.clone(),
            expires_at_ms: None,
        },
    };
    call(&mut node, &scripts::begin(&run, b"cold", token));
    let chunk = Chunk {
        part: Part {
            generation: 1,
            saved: Default::default(),
            is_last: true,
        },
        rows: vec![row("{cold}a"), row("{cold}b")],
        tombstones: vec![b"{cold}gone".to_vec()],
    };
    assert_eq!(
        call(&mut node, &scripts::install(&run, b"cold", token, &chunk)).text(),
        "put"
    );
    assert_eq!(
        call(&mut node, &scripts::mark(&run, b"cold", token)).text(),
        "marked"
    );
    let names = [b"{cold}a".to_vec(), b"{cold}b".to_vec()];
    assert_eq!(
        call(&mut node, &scripts::confirm(&run, b"cold", token, &names)).text(),
        "gone"
    );
    client.expect("DEL {e}first", "1");
    hears(&mut listener, "__keyevent@0__:del", "{e}first");
    client.expect("SET {e}short x PX 1", "+OK");
    hears(&mut listener, "__keyevent@0__:set", "{e}short");
    hears(&mut listener, "__keyevent@0__:expire", "{e}short");
    hears(&mut listener, "__keyevent@0__:expired", "{e}short");
    // A row that cannot be restored does not silence what comes after it.
    call(&mut node, &scripts::begin(&run, b"bad", token));
    let mut broken = row("{bad}a");
    broken.value.payload = b"nonsense".to_vec();
    let chunk = Chunk {
        rows: vec![broken],
        tombstones: Vec::new(),
        ..chunk
    };
    let refused = call(&mut node, &scripts::install(&run, b"bad", token, &chunk));
    assert!(refused.error().is_some(), "{refused:?}");
    client.expect("SET {e}last x", "+OK");
    hears(&mut listener, "__keyevent@0__:set", "{e}last");
}

#[test]
fn events_come_again_after_a_node_was_replaced() {
    let cluster = RedisCluster::start();
    for node in cluster.nodes() {
        node.cmd(&["CONFIG", "SET", "notify-keyspace-events", "E$"]);
    }
    let proxy = before_cluster(&cluster);
    let (mut client, mut listener) = (connect(&proxy), connect(&proxy));
    listener.say("SUBSCRIBE __keyevent@0__:set");
    client.expect("SET ev:moved x", "+OK");
    hears(&mut listener, "__keyevent@0__:set", "ev:moved");
    let owner = cluster.owner_of(cluster.slot_of("ev:moved"));
    let replica = cluster.replica_of(owner);
    cluster.nodes()[owner].kill9();
    cluster.wait_until_primary(replica);
    listener
        .0
        .set_timeout(std::time::Duration::from_millis(200))
        .unwrap();
    wait::until("an event comes from the new node", LIMIT, || {
        client.say("SET ev:moved y");
        matches!(listener.0.receive(), Ok(message) if message.items()[2] == Reply::bulk("ev:moved"))
    });
}
