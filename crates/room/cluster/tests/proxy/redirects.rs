//! Slots that move while clients use them.

use nagaya_testkit::{Failover, RedisCluster, Reply};

use crate::support::{before_cluster, connect};

#[test]
fn commands_follow_a_moved_slot() {
    let cluster = RedisCluster::start();
    let proxy = before_cluster(&cluster);
    let mut client = connect(&proxy);
    client.expect("SET {m}k 1", "+OK");
    let slot = cluster.slot_of("m");
    let to = (cluster.owner_of(slot) + 1) % 3;
    cluster.move_slot(slot, to);
    client.expect("GET {m}k", "\"1\"");
    client.expect("INCR {m}k", "2");
    assert!(proxy.handle().metrics().redirects.get() >= 1);
    let followed = proxy.handle().metrics().redirects.get();
    client.expect("INCR {m}k", "3");
    assert_eq!(
        proxy.handle().metrics().redirects.get(),
        followed,
        "the new owner is known"
    );
}

#[test]
fn commands_are_asked_for_while_a_slot_moves() {
    let cluster = RedisCluster::start();
    let proxy = before_cluster(&cluster);
    let mut client = connect(&proxy);
    client.expect("SET {q}old 1", "+OK");
    let slot = cluster.slot_of("q");
    let to = (cluster.owner_of(slot) + 1) % 3;
    let moving = cluster.begin_slot_move(slot, to);
    client.expect("GET {q}old", "\"1\"");
    client.expect("SET {q}new 2", "+OK");
    client.expect("GET {q}new", "\"2\"");
    moving.migrate_keys();
    client.expect("INCR {q}old", "2");
    client.send("MULTI");
    client.send("INCR {q}old");
    client.send("GET {q}new");
    client.send("EXEC");
    for _ in 0..3 {
        client.receive();
    }
    assert_eq!(format!("{:?}", client.receive()), r#"[3, "2"]"#);
    moving.finish();
    client.expect("MGET {q}old {q}new", r#"["3", "2"]"#);
}

#[test]
fn pipelines_keep_their_order_while_slots_move_back_and_forth() {
    let cluster = RedisCluster::start();
    let proxy = before_cluster(&cluster);
    let mut client = connect(&proxy);
    let slot = cluster.slot_of("o");
    let home = cluster.owner_of(slot);
    let mut next = 0;
    for round in 0..6 {
        let to = if round % 2 == 0 { (home + 1) % 3 } else { home };
        let mover = std::thread::scope(|scope| {
            let mover = scope.spawn(|| cluster.move_slot(slot, to));
            for _ in 0..200 {
                for _ in 0..10 {
                    client.send("RPUSH {o}list x");
                    client.send("LLEN {o}list");
                }
                for _ in 0..10 {
                    next += 1;
                    assert_eq!(
                        client.receive(),
                        Reply::Int(next),
                        "a push was lost, doubled or overtaken"
                    );
                    assert_eq!(client.receive(), Reply::Int(next));
                }
            }
            mover.join()
        });
        mover.unwrap();
    }
}

#[test]
fn a_transaction_is_replayed_where_its_slot_went() {
    let cluster = RedisCluster::start();
    let proxy = before_cluster(&cluster);
    let mut client = connect(&proxy);
    client.expect("SET {t}n 1", "+OK");
    let slot = cluster.slot_of("t");
    client.expect("MULTI", "+OK");
    client.expect("INCR {t}n", "+QUEUED");
    cluster.move_slot(slot, (cluster.owner_of(slot) + 1) % 3);
    client.expect("INCR {t}n", "+QUEUED");
    client.expect("EXEC", "[2, 3]");
    client.expect("GET {t}n", "\"3\"");
}

#[test]
fn a_graceful_failover_loses_nothing_and_shows_no_redirect() {
    let cluster = RedisCluster::start();
    let proxy = before_cluster(&cluster);
    let mut client = connect(&proxy);
    let owner = cluster.owner_of(cluster.slot_of("f"));
    let replica = cluster.replica_of(owner);
    let mut count = 0;
    std::thread::scope(|scope| {
        let failover = scope.spawn(|| cluster.failover(replica, Failover::Graceful));
        while !failover.is_finished() {
            let reply = client.say("INCR {f}n");
            match reply {
                Reply::Int(value) => {
                    assert!(value > count, "a counted write is gone");
                    count = value;
                }
                other => panic!("{other:?}"),
            }
        }
    });
    client.expect("GET {f}n", &format!("\"{count}\""));
}

#[test]
fn a_watch_whose_slot_moves_stops_the_transaction() {
    let cluster = RedisCluster::start();
    let proxy = before_cluster(&cluster);
    let mut client = connect(&proxy);
    client.expect("SET {v}k 1", "+OK");
    client.expect("WATCH {v}k", "+OK");
    let slot = cluster.slot_of("v");
    cluster.move_slot(slot, (cluster.owner_of(slot) + 1) % 3);
    client.expect("WATCH {v}other", "+OK");
    client.expect("MULTI", "+OK");
    client.expect("SET {v}k 2", "+QUEUED");
    client.expect("EXEC", "nil");
    client.expect("GET {v}k", "\"1\"");
    client.expect("WATCH {v}k", "+OK");
    client.expect("MULTI", "+OK");
    client.expect("SET {v}k 2", "+QUEUED");
    client.expect("EXEC", "[+OK]");
}
