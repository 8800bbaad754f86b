use std::io::ErrorKind;
use std::time::Duration;

use nagaya_testkit::{Redis, RedisReplicas, RedisSentinel, Reply, shared, wait};

use crate::LIMIT;

#[test]
fn a_shared_redis_is_one_server_for_all() {
    let redis = shared::redis();
    assert_eq!(redis.cmd(&["SET", "shared:a", "1"]), Reply::ok());
    assert_eq!(redis.port(), shared::redis().port());
    assert_eq!(
        redis.client().cmd(&["GET", "shared:a"]).unwrap(),
        Reply::bulk("1")
    );
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let mut client = shared::redis().client();
    client.send(&["ECHO", "a"]).unwrap();
    client.send(&["NOSUCH"]).unwrap();
    client.send_raw(b"PING\r\n").unwrap();
    assert_eq!(client.receive().unwrap(), Reply::bulk("a"));
    assert!(
        client
            .receive()
            .unwrap()
            .error()
            .unwrap()
            .starts_with("ERR unknown command")
    );
    assert_eq!(client.receive().unwrap(), Reply::Simple("PONG".into()));
}

#[test]
fn resp3_replies_are_read() {
    let mut client = shared::redis().client();
    let hello = client.cmd(&["HELLO", "3"]).unwrap();
    assert!(matches!(hello, Reply::Map(_)), "{hello:?}");
    assert_eq!(client.cmd(&["GET", "shared:none"]).unwrap(), Reply::Nil);
    client.cmd(&["SADD", "shared:set", "a"]).unwrap();
    assert_eq!(
        client.cmd(&["SMEMBERS", "shared:set"]).unwrap(),
        Reply::Set(vec![Reply::bulk("a")])
    );
    assert_eq!(
        client.cmd(&["DEBUG", "PROTOCOL", "true"]).unwrap(),
        Reply::Bool(true)
    );
}

#[test]
fn a_killed_redis_restarts_on_its_port_with_what_it_kept_on_disk() {
    let redis = Redis::with_config(&["appendonly yes", "appendfsync always"]);
    redis.cmd(&["SET", "a", "1"]);
    redis.kill9();
    let error = redis.try_cmd(&["GET", "a"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    redis.restart();
    assert_eq!(redis.cmd(&["GET", "a"]), Reply::bulk("1"));
}

#[test]
fn a_running_redis_restarts_by_a_clean_shutdown() {
    let redis = Redis::with_config(&["save 3600 1"]);
    redis.cmd(&["SET", "a", "1"]);
    let first = redis.process().pid();
    redis.restart();
    assert_ne!(redis.process().pid(), first);
    assert_eq!(redis.cmd(&["GET", "a"]), Reply::bulk("1"));
}

#[test]
fn a_stopped_redis_keeps_its_connections_and_answers_later() {
    let redis = Redis::start();
    let mut client = redis.client();
    client.cmd(&["PING"]).unwrap();
    client.set_timeout(Duration::from_millis(200)).unwrap();
    redis.stop();
    assert!(!redis.is_running());
    let error = client.cmd(&["PING"]).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{error}"
    );
    redis.cont();
    client.set_timeout(LIMIT).unwrap();
    assert_eq!(client.receive().unwrap(), Reply::Simple("PONG".into()));
}

#[test]
fn a_bad_config_line_is_shown_in_the_panic() {
    let panic = std::panic::catch_unwind(|| Redis::with_config(&["no-such-directive 1"])).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("no-such-directive"), "{message}");
}

#[test]
fn a_promoted_replica_has_the_data_and_the_others_follow_it() {
    let group = RedisReplicas::start(2);
    // On one connection: WAIT asks about the writes of its own.
    let mut client = group.primary().client();
    client.cmd(&["SET", "a", "1"]).unwrap();
    assert_eq!(client.cmd(&["WAIT", "2", "0"]).unwrap(), Reply::Int(2));
    group.primary().kill9();
    group.promote(1);
    assert_eq!(group.primary().port(), group.nodes()[1].port());
    assert_eq!(group.primary().cmd(&["SET", "b", "2"]), Reply::ok());
    group.nodes()[0].restart();
    group.nodes()[0].follow(group.primary());
    assert_eq!(group.replicas().len(), 2);
    for replica in group.replicas() {
        wait::until("the replica has both keys", LIMIT, || {
            replica.cmd(&["MGET", "a", "b"]) == Reply::Array(vec![Reply::bulk("1"), Reply::bulk("2")])
        });
    }
    // The role lasts over a restart.
    group.nodes()[1].restart();
    assert_eq!(group.nodes()[1].info("role").as_deref(), Some("master"));
}

#[test]
fn the_sentinels_replace_a_primary_on_request_and_a_dead_one_by_themselves() {
    let trio = RedisSentinel::start();
    assert_eq!(trio.primary().port(), trio.servers()[0].port());
    trio.failover();
    assert_ne!(trio.primary().port(), trio.servers()[0].port());
    assert_eq!(trio.primary().cmd(&["SET", "a", "1"]), Reply::ok());

    let dead = trio.primary();
    let before = dead.address();
    dead.kill9();
    trio.wait_for_new_primary(before);
    assert_eq!(trio.primary().cmd(&["SET", "b", "2"]), Reply::ok());
    assert_eq!(trio.sentinels().len(), 3);
}
