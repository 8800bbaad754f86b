//! Limits that settings set.

use std::io::Read;
use std::time::Duration;

use nagaya_config::Secret;
use nagaya_testkit::{Redis, Reply};

use crate::harness::*;

#[test]
fn one_client_too_many_is_told_so_and_closed() {
    let engine = engine_with(|config| config.max_clients = 2);
    let mut first = client(&engine);
    let mut second = client(&engine);
    for client in [&mut first, &mut second] {
        assert_eq!(ask(client, &["PING"]), Reply::Simple("PONG".into()));
    }
    let answer = read_to_end(&mut connect(engine.tcp_address()));
    assert_eq!(answer, b"-ERR max number of clients reached\r\n");
    drop(first);
    wait_for("the free place is given away", || {
        client(&engine)
            .cmd(&["PING"])
            .is_ok_and(|reply| reply.error().is_none())
    });
    assert_eq!(ask(&mut second, &["PING"]), Reply::Simple("PONG".into()));
}

#[test]
fn idle_connections_are_closed_and_waiting_ones_are_not() {
    let engine = engine_with(|config| config.idle_timeout = Duration::from_millis(300));
    let mut blocked = client(&engine);
    blocked.send(&["BLPOP", "list", "0"]).unwrap();
    let mut idle = connect(engine.tcp_address());
    assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0);
    ask(&mut client(&engine), &["RPUSH", "list", "x"]);
    assert_eq!(blocked.receive().unwrap().items()[1], Reply::bulk("x"));
}

#[test]
fn a_client_that_must_authenticate_may_send_little() {
    let ours = engine_with(|config| config.password = Some(Secret::new("hunter2")));
    let redis = Redis::with_config(&["requirepass hunter2"]);
    for bytes in [
        "*11\r\n",
        "*2\r\n$3\r\nGET\r\n$16385\r\n",
        "PING\r\n",
        "GET k\r\n",
        "AUTH wrong\r\n",
        "AUTH hunter2\r\nGET k\r\n",
    ] {
        let answers =
            [ours.tcp_address(), redis.address()].map(|address| exchange(address, bytes.as_bytes()));
        let [ours, redis] = answers.map(|answer| String::from_utf8(answer).unwrap());
        assert_eq!(ours, redis, "{bytes:?}");
    }
}
