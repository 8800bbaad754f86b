//! Messages through the proxy.

use nagaya_testkit::{Redis, RedisCluster, Reply, TcpProxy, shared, wait};

use crate::support::{LIMIT, before_cluster, config, connect, start};

#[test]
fn a_message_reaches_all_who_listen_once() {
    let proxy = before_cluster(shared::cluster());
    let (mut one, mut two, mut publisher) = (connect(&proxy), connect(&proxy), connect(&proxy));
    one.expect("SUBSCRIBE ps:a", r#"["subscribe", "ps:a", 1]"#);
    one.expect("PSUBSCRIBE ps:*", r#"["psubscribe", "ps:*", 2]"#);
    two.expect("SUBSCRIBE ps:a", r#"["subscribe", "ps:a", 1]"#);
    publisher.expect("PUBLISH ps:a hello", "3");
    assert_eq!(format!("{:?}", two.receive()), r#"["message", "ps:a", "hello"]"#);
    let mut got = [format!("{:?}", one.receive()), format!("{:?}", one.receive())];
    got.sort();
    assert_eq!(
        got,
        [
            r#"["message", "ps:a", "hello"]"#,
            r#"["pmessage", "ps:*", "ps:a", "hello"]"#
        ]
    );
    one.expect("GET k", "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context");
    one.expect("UNSUBSCRIBE ps:a", r#"["unsubscribe", "ps:a", 1]"#);
    publisher.expect("PUBLISH ps:a again", "2");
    assert_eq!(
        format!("{:?}", one.receive()),
        r#"["pmessage", "ps:*", "ps:a", "again"]"#
    );
    assert_eq!(format!("{:?}", two.receive()), r#"["message", "ps:a", "again"]"#);
}

#[test]
fn those_who_left_are_not_counted_and_their_subscription_ends() {
    let redis = Redis::start();
    let mut config = config(&redis.url());
    config.io_threads = 3;
    let proxy = start(config);
    let mut publisher = connect(&proxy);
    let mut listeners: Vec<_> = (0..6).map(|_| connect(&proxy)).collect();
    for listener in &mut listeners {
        listener.say("SUBSCRIBE ps:left");
    }
    let mut outsider = redis.client();
    outsider.cmd(&["SUBSCRIBE", "ps:left"]).unwrap();
    publisher.expect("PUBLISH ps:left x", "7");
    publisher.expect("PUBSUB CHANNELS", r#"["ps:left"]"#);
    publisher.expect("PUBSUB NUMSUB ps:left", r#"["ps:left", 6]"#);
    for listener in &mut listeners[..3] {
        listener.receive();
        listener.expect("UNSUBSCRIBE ps:left", r#"["unsubscribe", "ps:left", 0]"#);
    }
    publisher.expect("PUBSUB NUMSUB ps:left", r#"["ps:left", 3]"#);
    listeners.clear();
    drop(outsider);
    wait::until("nobody listens on the server", LIMIT, || {
        redis.cmd(&["PUBSUB", "NUMSUB", "ps:left"]).items()[1] == Reply::Int(0)
    });
    publisher.expect("PUBLISH ps:left x", "0");
}

#[test]
fn messages_come_from_clients_of_the_servers_too() {
    let proxy = before_cluster(shared::cluster());
    let mut client = connect(&proxy);
    client.say("HELLO 3");
    client.expect("SUBSCRIBE ps:direct", r#">["subscribe", "ps:direct", 1]"#);
    for node in &shared::cluster().nodes()[..3] {
        node.cmd(&["PUBLISH", "ps:direct", "x"]);
        assert_eq!(
            format!("{:?}", client.receive()),
            r#">["message", "ps:direct", "x"]"#
        );
    }
    client.expect("SET {ps}k 1", "+OK");
}

#[test]
fn shard_channels_live_on_the_node_of_their_slot() {
    let proxy = before_cluster(shared::cluster());
    let (mut listener, mut publisher) = (connect(&proxy), connect(&proxy));
    for name in ["sh:a", "sh:b", "sh:c"] {
        listener.say(&format!("SSUBSCRIBE {name}"));
    }
    for name in ["sh:c", "sh:a", "sh:b"] {
        assert_eq!(publisher.say(&format!("SPUBLISH {name} x")), Reply::Int(1));
        assert_eq!(
            format!("{:?}", listener.receive()),
            format!(r#"["smessage", "{name}", "x"]"#)
        );
    }
}

#[test]
fn a_publisher_is_heard_right_after_the_confirmation() {
    let proxy = before_cluster(shared::cluster());
    let mut publisher = connect(&proxy);
    for round in 0..50 {
        let mut listener = connect(&proxy);
        listener.say(&format!("SUBSCRIBE ps:round:{round}"));
        publisher.say(&format!("PUBLISH ps:round:{round} now"));
        assert_eq!(listener.receive().items()[2], Reply::bulk("now"));
    }
}

#[test]
fn listeners_hear_again_after_the_node_they_listened_on_died() {
    let cluster = RedisCluster::start();
    let proxy = before_cluster(&cluster);
    let (mut listener, mut publisher) = (connect(&proxy), connect(&proxy));
    listener.say("SUBSCRIBE ps:after");
    listener.say("SSUBSCRIBE ps:shard");
    publisher.say("PUBLISH ps:after before");
    assert_eq!(listener.receive().items()[2], Reply::bulk("before"));
    // Messages come by the first primary; shard messages by the node of their slot.
    let shard_owner = cluster.owner_of(cluster.slot_of("ps:shard"));
    for owner in [cluster.owner_of(0), shard_owner] {
        if cluster.nodes()[owner].is_running() {
            let replica = cluster.replica_of(owner);
            cluster.nodes()[owner].kill9();
            cluster.wait_until_primary(replica);
        }
    }
    listener
        .0
        .set_timeout(std::time::Duration::from_millis(200))
        .unwrap();
    for (publish, name) in [("PUBLISH", "ps:after"), ("SPUBLISH", "ps:shard")] {
        wait::until("a message comes through again", LIMIT, || {
            publisher.say(&format!("{publish} {name} again"));
            matches!(listener.0.receive(), Ok(reply) if reply.items()[1] == Reply::bulk(name))
        });
    }
}

#[test]
fn a_link_that_went_silent_is_replaced() {
    let redis = Redis::start();
    let link = TcpProxy::start(redis.address());
    let mut config = config(&format!("redis://{}", link.address()));
    config.reply_limit = std::time::Duration::from_millis(500);
    let proxy = start(config);
    let mut listener = connect(&proxy);
    listener.say("SUBSCRIBE ps:silent");
    let connects = proxy.handle().metrics().connects.get();
    // The connection stays open and carries nothing any more.
    link.half_open();
    wait::until("the silence is noticed", LIMIT, || {
        proxy.handle().metrics().connects.get() > connects
    });
    link.restore();
    listener
        .0
        .set_timeout(std::time::Duration::from_millis(200))
        .unwrap();
    wait::until("a message comes through again", LIMIT, || {
        redis.cmd(&["PUBLISH", "ps:silent", "hello"]);
        matches!(listener.0.receive(), Ok(reply) if reply.items()[2] == Reply::bulk("hello"))
    });
}

#[test]
fn a_client_that_asks_for_several_channels_hears_all_of_them() {
    let redis = Redis::start();
    let link = TcpProxy::start(redis.address());
    let proxy = start(config(&format!("redis://{}", link.address())));
    let (mut listener, mut publisher) = (connect(&proxy), connect(&proxy));
    // So slow that the node's confirmations come one by one.
    link.throttle(200);
    listener.send("SUBSCRIBE ps:several:a ps:several:b ps:several:c");
    for name in ["a", "b", "c"] {
        assert_eq!(
            listener.receive().items()[1],
            Reply::bulk(format!("ps:several:{name}"))
        );
    }
    link.restore();
    for name in ["a", "b", "c"] {
        publisher.expect(&format!("PUBLISH ps:several:{name} x"), "1");
        assert_eq!(
            listener.receive().items()[1],
            Reply::bulk(format!("ps:several:{name}"))
        );
    }
}
