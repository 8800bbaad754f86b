//! Scripts that take too long, with one I/O thread and with several.

use std::time::Duration;

use nagaya_config::Listen;
use nagaya_engine::{Bound, Engine, RoomConfig};
use nagaya_testkit::{Reply, RespClient};

const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// Starts an engine on which a script is slow at once.
fn start(io_threads: u32) -> Engine {
    let config = RoomConfig {
        listen: Listen(([127, 0, 0, 1], 0).into()),
        io_threads,
        ..RoomConfig::default()
    };
    let engine = Bound::bind(config).unwrap().start(None).unwrap();
    engine
        .server()
        .update_config(|config| config.busy_reply_threshold = 0);
    engine
}

fn connect(engine: &Engine) -> RespClient {
    RespClient::connect(engine.tcp_address()).unwrap()
}

/// Asks until the reply is an error that starts with `prefix`.
fn wait_for_error(client: &mut RespClient, request: &[&str], prefix: &str) -> Reply {
    for _ in 0..100_000 {
        let reply = client.cmd(request).unwrap();
        if reply.error().is_some_and(|text| text.starts_with(prefix)) {
            return reply;
        }
        std::thread::yield_now();
    }
    panic!("no reply to {request:?} starts with {prefix}");
}

#[test]
fn a_slow_script_leaves_the_other_clients_an_answer() {
    for io_threads in [1, 3] {
        let engine = start(io_threads);
        let mut runner = connect(&engine);
        let mut others: Vec<RespClient> = (0..4).map(|_| connect(&engine)).collect();
        // A second request right behind the script runs after it.
        runner
            .send(&["EVAL", "while true do redis.call('GET', 'a') end", "0"])
            .unwrap();
        runner.send(&["GET", "a"]).unwrap();
        wait_for_error(&mut others[0], &["GET", "a"], "BUSY");
        for other in &mut others {
            assert_eq!(other.cmd(&["SET", "a", "1"]).unwrap().error(), Some(BUSY));
            assert_eq!(other.cmd(&["MULTI"]).unwrap(), Reply::ok());
            assert_eq!(other.cmd(&["DISCARD"]).unwrap(), Reply::ok());
        }
        // Connections made meanwhile are served, too.
        let mut late = connect(&engine);
        assert_eq!(late.cmd(&["GET", "a"]).unwrap().error(), Some(BUSY));
        assert_eq!(late.cmd(&["FUNCTION", "KILL"]).unwrap().error(), Some(BUSY));
        assert_eq!(late.cmd(&["SCRIPT", "KILL"]).unwrap(), Reply::ok());
        let reply = runner.receive().unwrap();
        let text = reply.error().unwrap();
        assert!(
            text.starts_with("ERR Script killed by user with SCRIPT KILL..."),
            "{text}"
        );
        assert_eq!(runner.receive().unwrap(), Reply::Nil);
        for other in &mut others {
            assert_eq!(other.cmd(&["GET", "a"]).unwrap(), Reply::Nil);
        }
    }
}

#[test]
fn a_client_that_leaves_during_a_slow_script_is_cleaned_up_after_it() {
    // One thread takes its connections in turn, so a closed one is noticed before another is answered.
    let engine = start(1);
    let (mut runner, mut other) = (connect(&engine), connect(&engine));
    let (mut waiting, mut watching) = (connect(&engine), connect(&engine));
    waiting.send(&["BLPOP", "list", "0"]).unwrap();
    assert_eq!(watching.cmd(&["WATCH", "w"]).unwrap(), Reply::ok());
    assert_eq!(watching.cmd(&["WATCH", "w"]).unwrap(), Reply::ok());
    runner.send(&["EVAL", "while true do end", "0"]).unwrap();
    wait_for_error(&mut other, &["GET", "a"], "BUSY");
    drop((waiting, watching));
    for _ in 0..10 {
        assert_eq!(other.cmd(&["GET", "a"]).unwrap().error(), Some(BUSY));
    }
    assert_eq!(other.cmd(&["SCRIPT", "KILL"]).unwrap(), Reply::ok());
    assert!(runner.receive().unwrap().error().is_some());
    assert_eq!(other.cmd(&["RPUSH", "list", "x"]).unwrap(), Reply::Int(1));
    assert_eq!(
        other.cmd(&["LLEN", "list"]).unwrap(),
        Reply::Int(1),
        "nobody waits any more"
    );
}

#[test]
fn a_script_that_wrote_ends_with_the_engine_only() {
    for io_threads in [1, 2] {
        let engine = start(io_threads);
        let (mut runner, mut other) = (connect(&engine), connect(&engine));
        runner
            .send(&["EVAL", "redis.call('SET', 'a', 1) while true do end", "0"])
            .unwrap();
        wait_for_error(&mut other, &["SCRIPT", "KILL"], "UNKILLABLE");
        assert_eq!(other.cmd(&["GET", "a"]).unwrap().error(), Some(BUSY));
        other.set_timeout(Duration::from_secs(10)).unwrap();
        engine.stop();
        assert!(other.cmd(&["GET", "a"]).is_err(), "the connection is closed");
    }
}
