use nagaya_resp::{Frame, Proto, parse_frame};

use crate::testing::TestSession;

#[test]
fn digests_depend_on_data_and_expiry_alone() {
    let (mut first, mut second) = (TestSession::new(), TestSession::new());
    first.check("DEBUG DIGEST", &format!("+{}\r\n", "0".repeat(40)));
    for key in 0..50 {
        first.text(&format!("SET key{key} {key}"));
        second.text(&format!("SET key{} {}", 49 - key, 49 - key));
    }
    let digest = first.text("DEBUG DIGEST");
    assert_eq!(second.text("DEBUG DIGEST"), digest);
    second.text("EXPIRE key1 1000");
    assert_ne!(second.text("DEBUG DIGEST"), digest);
    let missing = format!("*1\r\n+{}\r\n", "0".repeat(40));
    first.check("DEBUG DIGEST-VALUE nosuch", &missing);
}

#[test]
fn a_reload_keeps_everything() {
    let mut session = TestSession::new();
    session.text("DEBUG POPULATE 100 k 20");
    session.text("XADD s 1-1 f v");
    session.text("SET volatile x PX 5000");
    let digest = session.text("DEBUG DIGEST");
    session.check("DEBUG RELOAD", "+OK\r\n");
    session.check("DEBUG LOADAOF", "+OK\r\n");
    assert_eq!(session.text("DEBUG DIGEST"), digest);
    session.check("PTTL volatile", ":5000\r\n");
    session.check(
        "DEBUG RELOAD x",
        "-ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.\r\n",
    );
}

#[test]
fn populate_makes_the_keys_redis_makes() {
    let mut session = TestSession::new();
    session.check("DEBUG POPULATE 2", "+OK\r\n");
    session.check("GET key:1", "$7\r\nvalue:1\r\n");
    session.check("DEBUG POPULATE 1 p 3", "+OK\r\n");
    session.check("GET p:0", "$3\r\nval\r\n");
    session.check(
        "DEBUG POPULATE -1",
        "-ERR value is out of range, must be positive\r\n",
    );
}

#[test]
fn every_protocol_type_is_a_whole_reply() {
    let mut session = TestSession::new();
    session.client.set_proto(Proto::Resp3);
    for name in [
        "string", "integer", "double", "bignum", "null", "array", "set", "map", "verbatim", "true", "false",
    ] {
        let reply = session.run(&[b"DEBUG", b"PROTOCOL", name.as_bytes()]);
        let (_, length) = parse_frame(&reply).unwrap().unwrap();
        assert_eq!(length, reply.len(), "{name}");
    }
    let push = session.run(&[b"DEBUG", b"PROTOCOL", b"push"]);
    let (frame, _) = parse_frame(&push).unwrap().unwrap();
    assert!(matches!(frame, Frame::Push(_)));
    assert!(session.text("DEBUG PROTOCOL attrib").starts_with("|1\r\n"));
    session.client.set_proto(Proto::Resp2);
    session.check(
        "DEBUG PROTOCOL push",
        "-ERR RESP2 is not supported by this command\r\n",
    );
}

#[test]
fn expiry_in_the_background_can_be_stopped() {
    let mut session = TestSession::new();
    session.text("SET k v PX 1");
    session.advance_ms(10);
    let engine = std::sync::Arc::clone(&session.engine);
    let sweep = || {
        let stats = nagaya_exec::executor::Executor::new_stats(&engine.server);
        let mut executor = nagaya_exec::executor::Executor::new(&engine.server, &stats);
        (0..engine.server.keyspace.shards.count()).for_each(|shard| {
            executor.expire_shard(shard, 10);
        });
    };
    session.check("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
    sweep();
    session.check("DBSIZE", ":1\r\n");
    session.check("DEBUG SET-ACTIVE-EXPIRE 1", "+OK\r\n");
    sweep();
    session.check("DBSIZE", ":0\r\n");
}

#[test]
fn odds_and_ends_answer() {
    let mut session = TestSession::new();
    session.check(
        "DEBUG ERROR ERR-made up",
        "-ERR unknown subcommand or wrong number of arguments for 'ERROR'. Try DEBUG HELP.\r\n",
    );
    session.check("DEBUG ERROR MADEUP", "-MADEUP\r\n");
    session.check("DEBUG PANIC", "-ERR DEBUG PANIC is not supported\r\n");
    session.check("DEBUG SLEEP 0", "+OK\r\n");
    session.check("DEBUG OBJECT nosuch", "-ERR no such key\r\n");
    session.text("SET k hello");
    let text = session.text("DEBUG OBJECT k");
    assert!(text.contains(" encoding:embstr serializedlength:6 "), "{text}");
    session.check("DEBUG LISTPACK k", "-ERR Not a listpack encoded object.\r\n");
    assert!(session.text("DEBUG HTSTATS 0").contains("number of elements: 1"));
    session.check("DEBUG QUICKLIST-PACKED-THRESHOLD 100b", "+OK\r\n");
    assert!(session.text("DEBUG HELP").starts_with("*"));
}
