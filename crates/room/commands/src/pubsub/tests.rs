use nagaya_connections::client::Message;
use nagaya_keyspace::notify::Events;
use nagaya_resp::Proto;

use crate::testing::TestSession;

#[track_caller]
fn pushes(session: &mut TestSession, expected: &[&str]) {
    let got: Vec<String> = session
        .messages()
        .into_iter()
        .map(|message| match message {
            Message::Push(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            other => panic!("not a push: {other:?}"),
        })
        .collect();
    assert_eq!(got, expected);
}

/// Switches keyspace events on and returns the events that requests cause, in order, as
/// `channel-suffix payload`.
fn events(letters: &[u8], requests: &[&str]) -> Vec<String> {
    let mut session = TestSession::new();
    let notify = Events::parse(letters).unwrap();
    session
        .engine
        .server
        .update_config(|config| config.notify = notify);
    let mut listener = session.another();
    listener.client.set_proto(Proto::Resp3);
    listener.run(&[b"PSUBSCRIBE", b"*"]);
    for request in requests {
        if let Some(ms) = request.strip_prefix("wait ") {
            session.advance_ms(ms.parse().unwrap());
            continue;
        }
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        session.run(&args);
    }
    listener
        .messages()
        .into_iter()
        .map(|message| {
            let Message::Push(bytes) = message else {
                panic!("not a push")
            };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let parts: Vec<&str> = text.split("\r\n").collect();
            format!("{} {}", parts[6], parts[8])
        })
        .collect()
}

#[test]
fn a_message_reaches_channel_and_pattern_listeners_in_their_protocol() {
    let mut session = TestSession::new();
    let mut old = session.another();
    let mut new = session.another();
    new.client.set_proto(Proto::Resp3);
    old.check(
        "SUBSCRIBE foo.bar",
        "*3\r\n$9\r\nsubscribe\r\n$7\r\nfoo.bar\r\n:1\r\n",
    );
    old.check(
        "PSUBSCRIBE foo.*",
        "*3\r\n$10\r\npsubscribe\r\n$5\r\nfoo.*\r\n:2\r\n",
    );
    new.check(
        "SUBSCRIBE foo.bar",
        ">3\r\n$9\r\nsubscribe\r\n$7\r\nfoo.bar\r\n:1\r\n",
    );
    session.check("PUBLISH foo.bar hi", ":3\r\n");
    pushes(
        &mut old,
        &[
            "*3\r\n$7\r\nmessage\r\n$7\r\nfoo.bar\r\n$2\r\nhi\r\n",
            "*4\r\n$8\r\npmessage\r\n$5\r\nfoo.*\r\n$7\r\nfoo.bar\r\n$2\r\nhi\r\n",
        ],
    );
    pushes(
        &mut new,
        &[">3\r\n$7\r\nmessage\r\n$7\r\nfoo.bar\r\n$2\r\nhi\r\n"],
    );
    session.check("PUBLISH elsewhere hi", ":0\r\n");
}

#[test]
fn subscribing_twice_counts_once_and_is_confirmed_twice() {
    let mut session = TestSession::new();
    let twice = "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n".repeat(2);
    session.check("SUBSCRIBE a a", &twice);
    let mut other = session.another();
    other.check("PUBLISH a x", ":1\r\n");
    assert_eq!(session.messages().len(), 1);
}

#[test]
fn unsubscribing_from_all_goes_in_order_and_always_replies() {
    let mut session = TestSession::new();
    session.check("UNSUBSCRIBE", "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n");
    session.check("UNSUBSCRIBE x", "*3\r\n$11\r\nunsubscribe\r\n$1\r\nx\r\n:0\r\n");
    session.run(&[b"PSUBSCRIBE", b"b", b"a"]);
    session.run(&[b"SUBSCRIBE", b"c"]);
    session.check(
        "PUNSUBSCRIBE",
        "*3\r\n$12\r\npunsubscribe\r\n$1\r\nb\r\n:2\r\n*3\r\n$12\r\npunsubscribe\r\n$1\r\na\r\n:1\r\n",
    );
    assert!(session.client.is_subscribed());
    session.check("UNSUBSCRIBE", "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n");
    assert!(!session.client.is_subscribed());
    session.client.set_proto(Proto::Resp3);
    session.check("SUNSUBSCRIBE", ">3\r\n$12\r\nsunsubscribe\r\n_\r\n:0\r\n");
}

#[test]
fn shard_channels_are_counted_apart_and_unseen_by_patterns() {
    let mut session = TestSession::new();
    let mut listener = session.another();
    listener.run(&[b"PSUBSCRIBE", b"*"]);
    listener.check("SSUBSCRIBE s", "*3\r\n$10\r\nssubscribe\r\n$1\r\ns\r\n:1\r\n");
    session.check("PUBLISH s x", ":1\r\n");
    session.check("SPUBLISH s y", ":1\r\n");
    assert_eq!(listener.messages().len(), 2);
    let counts = listener.client.shared.subscription_counts();
    assert_eq!(
        (counts.channels, counts.patterns, counts.shard_channels),
        (0, 1, 1)
    );
    session.check("PUBSUB SHARDCHANNELS", "*1\r\n$1\r\ns\r\n");
    session.check(
        "PUBSUB SHARDNUMSUB s t",
        "*4\r\n$1\r\ns\r\n:1\r\n$1\r\nt\r\n:0\r\n",
    );
    session.check("PUBSUB CHANNELS", "*0\r\n");
}

#[test]
fn a_subscribed_resp2_client_may_send_little_else() {
    let mut session = TestSession::new();
    session.run(&[b"SUBSCRIBE", b"a"]);
    assert!(session.client.in_subscribed_mode());
    let refused = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
    session.check("GET k", &format!("-ERR Can't execute 'get': {refused}\r\n"));
    session.check(
        "PUBSUB CHANNELS",
        &format!("-ERR Can't execute 'pubsub|channels': {refused}\r\n"),
    );
    session.check("GET", "-ERR wrong number of arguments for 'get' command\r\n");
    session.client.set_proto(Proto::Resp3);
    session.check("GET k", "_\r\n");
    session.client.set_proto(Proto::Resp2);
    session.run(&[b"UNSUBSCRIBE", b"a"]);
    session.check("GET k", "$-1\r\n");
}

#[test]
fn pubsub_tells_who_listens() {
    let mut session = TestSession::new();
    let (mut one, mut two) = (session.another(), session.another());
    one.run(&[b"SUBSCRIBE", b"news.it", b"other"]);
    two.run(&[b"SUBSCRIBE", b"news.it"]);
    one.run(&[b"PSUBSCRIBE", b"n*", b"m*"]);
    two.run(&[b"PSUBSCRIBE", b"n*"]);
    session.check("PUBSUB CHANNELS news.*", "*1\r\n$7\r\nnews.it\r\n");
    session.check(
        "PUBSUB NUMSUB news.it none",
        "*4\r\n$7\r\nnews.it\r\n:2\r\n$4\r\nnone\r\n:0\r\n",
    );
    session.check("PUBSUB NUMSUB", "*0\r\n");
    session.check("PUBSUB NUMPAT", ":2\r\n");
    session.check(
        "PUBSUB CHANNELS a b",
        "-ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.\r\n",
    );
    session.check(
        "PUBSUB",
        "-ERR wrong number of arguments for 'pubsub' command\r\n",
    );
    assert!(
        session
            .run(&[b"PUBSUB", b"HELP"])
            .starts_with(b"*13\r\n+PUBSUB <subcommand>")
    );
}

#[test]
fn a_client_that_is_gone_listens_no_more() {
    let mut session = TestSession::new();
    let mut listener = session.another();
    listener.run(&[b"SUBSCRIBE", b"a"]);
    listener.run(&[b"PSUBSCRIBE", b"*"]);
    listener.run(&[b"SSUBSCRIBE", b"a"]);
    listener.disconnect();
    session.check("PUBLISH a x", ":0\r\n");
    session.check("SPUBLISH a x", ":0\r\n");
    session.check("PUBSUB NUMPAT", ":0\r\n");
}

#[test]
fn subscribing_and_publishing_work_in_a_transaction() {
    let mut session = TestSession::new();
    session.client.set_proto(Proto::Resp3);
    session.check("MULTI", "+OK\r\n");
    session.check("SUBSCRIBE a", "+QUEUED\r\n");
    session.check("PUBLISH a x", "+QUEUED\r\n");
    session.check("EXEC", "*2\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n:1\r\n");
    pushes(&mut session, &[">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n"]);
}

#[test]
fn keyspace_events_come_in_redis_order() {
    assert_eq!(
        events(b"KEA", &["SET foo bar"]),
        ["__keyspace@0__:foo set", "__keyevent@0__:set foo"]
    );
    assert_eq!(
        events(
            b"E$g",
            &[
                "SET a 1",
                "INCR a",
                "APPEND a x",
                "SETRANGE a 0 y",
                "SETBIT a 1 0",
                "GETDEL a"
            ]
        ),
        [
            "__keyevent@0__:set a",
            "__keyevent@0__:incrby a",
            "__keyevent@0__:append a",
            "__keyevent@0__:setrange a",
            "__keyevent@0__:setbit a",
            "__keyevent@0__:del a",
        ]
    );
    assert_eq!(events(b"KEl", &["SET foo bar"]), [""; 0]);
    assert_eq!(
        events(b"En", &["SET foo bar", "SET foo baz", "SETBIT bar 0 1"]),
        ["__keyevent@0__:new foo", "__keyevent@0__:new bar"]
    );
    assert_eq!(
        events(b"Exm", &["PSETEX foo 100 1", "wait 200", "GET foo", "GET foo"])
            .iter()
            .filter(|event| event.contains("expired"))
            .count(),
        1
    );
    assert_eq!(
        events(
            b"Eg$",
            &["SET a 1", "BITOP AND d a a", "BITOP AND d none nothing"]
        ),
        [
            "__keyevent@0__:set a",
            "__keyevent@0__:set d",
            "__keyevent@0__:del d"
        ]
    );
}
