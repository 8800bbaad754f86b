//! Servers that die, hang or cannot be reached.

use std::time::Duration;

use nagaya_testkit::{Direction, Redis, RedisCluster, Reply, TcpProxy, wait};

use crate::support::{LIMIT, before_cluster, before_redis, config, connect, start};

#[test]
fn a_command_whose_connection_broke_is_not_sent_again() {
    let redis = Redis::start();
    let link = TcpProxy::start(redis.address());
    let proxy = start(config(&format!("redis://{}", link.address())));
    let mut client = connect(&proxy);
    client.expect("SET n 0", "+OK");
    link.cut(Direction::ToClient);
    client.send("INCR n");
    wait::until("the command has run", LIMIT, || {
        redis.cmd(&["GET", "n"]) == Reply::bulk("1")
    });
    link.reset();
    link.restore();
    let error = client.receive();
    assert!(
        error
            .error()
            .is_some_and(|text| text.contains("the command may have run")),
        "{error:?}"
    );
    wait::until("the server is back", LIMIT, || {
        client.say("GET n") == Reply::bulk("1")
    });
    assert!(proxy.handle().metrics().lost.get() >= 1);
}

#[test]
fn a_hanging_server_gives_errors_in_time_and_is_used_again_after() {
    let redis = Redis::start();
    let mut config = config(&redis.url());
    config.reply_limit = Duration::from_millis(300);
    config.connect_limit = Duration::from_millis(300);
    config.retry_for = Duration::from_millis(500);
    let proxy = start(config);
    let mut client = connect(&proxy);
    client.expect("SET k 1", "+OK");
    redis.stop();
    let first = client.say("GET k");
    assert!(
        first
            .error()
            .is_some_and(|text| text.contains("no answer in time")),
        "{first:?}"
    );
    let second = client.say("GET k");
    assert!(
        second.error().is_some_and(|text| text.starts_with("CLUSTERDOWN")),
        "{second:?}"
    );
    redis.cont();
    wait::until("the server is back", LIMIT, || {
        client.say("GET k") == Reply::bulk("1")
    });
}

#[test]
fn a_dead_server_gives_clear_errors_and_is_found_again() {
    let redis = Redis::start();
    let mut config = config(&redis.url());
    config.retry_for = Duration::from_millis(300);
    let proxy = start(config);
    let mut client = connect(&proxy);
    client.expect("SET k 1", "+OK");
    redis.kill9();
    wait::until("the loss is told", LIMIT, || {
        client
            .say("GET k")
            .error()
            .is_some_and(|text| text.starts_with("CLUSTERDOWN"))
    });
    client.expect("PING", "+PONG");
    redis.restart();
    wait::until("the server is back", LIMIT, || {
        client.say("SET k 2") == Reply::ok()
    });
}

#[test]
fn a_promoted_replica_takes_over_without_the_clients_doing() {
    let cluster = RedisCluster::start();
    let proxy = before_cluster(&cluster);
    let mut client = connect(&proxy);
    client.expect("SET {d}k 1", "+OK");
    let owner = cluster.owner_of(cluster.slot_of("d"));
    let replica = cluster.replica_of(owner);
    cluster.nodes()[replica].wait_synced();
    cluster.nodes()[owner].kill9();
    cluster.wait_until_primary(replica);
    wait::until("the promoted replica answers", LIMIT, || {
        client.say("SET {d}k 2") == Reply::ok()
    });
    client.expect("GET {d}k", "\"2\"");
}

#[test]
fn a_client_that_leaves_with_requests_under_way_harms_nobody() {
    let redis = Redis::start();
    let proxy = before_redis(&redis);
    for _ in 0..20 {
        let mut leaver = connect(&proxy);
        for number in 0..200 {
            leaver.send(&format!("SET leave:{number} x"));
        }
        drop(leaver);
        connect(&proxy).expect("ECHO still", "\"still\"");
        let mut client = connect(&proxy);
        client.expect("INCR leave:n", &format!("{}", client_count(&redis)));
    }
}

fn client_count(redis: &Redis) -> i64 {
    match redis.cmd(&["GET", "leave:n"]) {
        Reply::Nil => 1,
        other => other.text().parse::<i64>().unwrap() + 1,
    }
}

#[test]
fn login_and_database_of_the_url_are_used() {
    let redis = Redis::with_config(&["requirepass secret"]);
    let proxy = start(config(&format!("redis://:secret@{}", redis.address())));
    connect(&proxy).expect("SET k 1", "+OK");
    let mut wrong = config(&format!("redis://:wrong@{}", redis.address()));
    wrong.retry_for = Duration::from_millis(200);
    let proxy = start(wrong);
    assert!(connect(&proxy).say("SET k 1").error().is_some());
}

/// What a writer knows of its own counter.
struct Writer {
    client: crate::support::Talk,
    key: String,
    least: i64,
    most: i64,
}

impl Writer {
    /// Counts once; an answer must be one that no lost or doubled increment explains.
    fn count(&mut self) {
        self.client.send(&format!("INCR {}", self.key));
        self.most += 1;
        match self.client.receive() {
            Reply::Int(value) => {
                assert!(
                    (self.least + 1..=self.most).contains(&value),
                    "{}: {value} is not between {} and {}",
                    self.key,
                    self.least + 1,
                    self.most
                );
                (self.least, self.most) = (value, value);
            }
            Reply::Error(text) if text.contains("may have run") => {}
            // It says that it did not run.
            Reply::Error(text) if text.starts_with("CLUSTERDOWN") => self.most -= 1,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn no_acknowledged_increment_is_lost_or_doubled_while_slots_and_primaries_move() {
    let cluster = RedisCluster::start();
    let proxy = before_cluster(&cluster);
    let tags = ["w0", "w1", "w2", "w3", "w4", "w5"];
    let stop = std::sync::atomic::AtomicBool::new(false);
    let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        let writers: Vec<_> = tags
            .iter()
            .map(|tag| {
                let client = connect(&proxy);
                scope.spawn(move || {
                    let key = format!("{{{tag}}}n");
                    let (least, most) = (0, 0);
                    let mut writer = Writer {
                        client,
                        key,
                        least,
                        most,
                    };
                    while !stopped() {
                        writer.count();
                    }
                    writer
                })
            })
            .collect();
        for round in 0..6 {
            let slot = cluster.slot_of(tags[round % tags.len()]);
            let owner = cluster.owner_of(slot);
            if round % 3 == 2 {
                cluster.failover(cluster.replica_of(owner), nagaya_testkit::Failover::Graceful);
                cluster.wait_settled();
            } else {
                let primaries: Vec<usize> = (0..6).filter(|node| is_primary(&cluster, *node)).collect();
                let to = primaries.into_iter().find(|node| *node != owner).unwrap();
                cluster.move_slot(slot, to);
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for writer in writers {
            let mut writer = writer.join().unwrap();
            let value: i64 = writer
                .client
                .say(&format!("GET {}", writer.key))
                .text()
                .parse()
                .unwrap();
            assert!((writer.least..=writer.most).contains(&value), "{}", writer.key);
            assert!(value > 100, "{} got nowhere", writer.key);
        }
    });
}

fn is_primary(cluster: &RedisCluster, node: usize) -> bool {
    cluster.nodes()[node].info("role").as_deref() == Some("master")
}
