use nagaya_command_spec::spec::{Category, RO, key};
use nagaya_connections::client::Message;
use nagaya_exec::entry::{Entry, Registry, cmd};
use nagaya_exec::executor::Executor;
use nagaya_keyspace::shard::LockScope;
use nagaya_resp::{ArgVec, Out, Proto};

use crate::table::FAMILIES;
use crate::testing::{Engine, ManualClock, TestSession};

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

fn invalidate(keys: &[&str]) -> String {
    let keys: String = keys
        .iter()
        .map(|key| format!("${}\r\n{key}\r\n", key.len()))
        .collect();
    let count = keys.matches('$').count();
    format!(">2\r\n$10\r\ninvalidate\r\n*{count}\r\n{keys}")
}

fn tracking(options: &str) -> (TestSession, TestSession) {
    let writer = TestSession::new();
    let reader = track(&writer, options);
    (writer, reader)
}

/// Makes another client of the writer's engine, which tracks.
fn track(writer: &TestSession, options: &str) -> TestSession {
    let mut reader = writer.another();
    reader.client.set_proto(Proto::Resp3);
    reader.check(&format!("CLIENT TRACKING ON{options}"), "+OK\r\n");
    reader
}

fn flush(session: &TestSession) {
    let engine = &session.engine;
    let stats = Executor::new_stats(&engine.server);
    let mut executor = Executor::new(&engine.server, &stats);
    let ready = executor.with_db(LockScope::All, session.client.caller(), |_, db| {
        db.flush();
    });
    executor.serve(ready.unwrap());
}

#[test]
fn a_read_key_is_invalidated_once() {
    let (mut writer, mut reader) = tracking("");
    reader.check("GET k", "_\r\n");
    writer.check("SET k 1", "+OK\r\n");
    pushes(&mut reader, &[&invalidate(&["k"])]);
    writer.check("SET k 2", "+OK\r\n");
    pushes(&mut reader, &[]);
    reader.check("MGET k j", "*2\r\n$1\r\n2\r\n_\r\n");
    writer.check("MSET j 1 k 1", "+OK\r\n");
    pushes(&mut reader, &[&invalidate(&["j"]), &invalidate(&["k"])]);
}

#[test]
fn written_keys_are_not_tracked() {
    let (mut writer, mut reader) = tracking("");
    reader.check("SET k 1", "+OK\r\n");
    reader.check("INCR k", ":2\r\n");
    writer.check("SET k 3", "+OK\r\n");
    pushes(&mut reader, &[]);
}

#[test]
fn own_changes_are_told_unless_noloop_is_set() {
    for (options, expected) in [("", 1), (" NOLOOP", 0)] {
        let (mut writer, mut reader) = tracking(options);
        reader.check("GET k", "_\r\n");
        reader.check("SET k 1", "+OK\r\n");
        assert_eq!(reader.messages().len(), expected);
        reader.check("GET j", "_\r\n");
        writer.check("SET j 1", "+OK\r\n");
        pushes(&mut reader, &[&invalidate(&["j"])]);
    }
}

#[test]
fn resp2_messages_go_to_a_subscribed_redirection() {
    let mut writer = TestSession::new();
    let (mut target, mut reader) = (writer.another(), writer.another());
    reader.check(
        &format!("CLIENT TRACKING ON REDIRECT {}", target.client.id()),
        "+OK\r\n",
    );
    reader.check("GET k", "$-1\r\n");
    writer.check("SET k 1", "+OK\r\n");
    pushes(&mut target, &[]);
    target.run(&[b"SUBSCRIBE", b"__redis__:invalidate"]);
    reader.check("GET k", "$1\r\n1\r\n");
    writer.check("SET k 2", "+OK\r\n");
    let message = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n";
    pushes(&mut target, &[message]);
    flush(&writer);
    let message = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n$-1\r\n";
    pushes(&mut target, &[message]);
    pushes(&mut reader, &[]);
}

#[test]
fn a_broken_redirection_is_reported_to_the_tracking_client() {
    let mut writer = TestSession::new();
    let (mut target, mut reader) = (writer.another(), writer.another());
    let id = target.client.id();
    reader.client.set_proto(Proto::Resp3);
    reader.check(&format!("CLIENT TRACKING ON REDIRECT {id}"), "+OK\r\n");
    reader.check("GET k", "_\r\n");
    target.disconnect();
    writer.check("SET k 1", "+OK\r\n");
    pushes(
        &mut reader,
        &[&format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{id}\r\n")],
    );
    reader.check(
        "CLIENT TRACKINGINFO",
        &format!(
            "%3\r\n$5\r\nflags\r\n~2\r\n$2\r\non\r\n$15\r\nbroken_redirect\r\n$8\r\nredirect\r\n:{id}\r\n$8\r\nprefixes\r\n*0\r\n"
        ),
    );
    let gone = "-ERR The client ID you want redirect to does not exist\r\n";
    reader.check(&format!("CLIENT TRACKING ON REDIRECT {id}"), gone);
}

#[test]
fn broadcast_tells_all_keys_of_a_command_under_each_prefix() {
    let (mut writer, mut reader) = tracking(" BCAST PREFIX a: PREFIX b:");
    writer.check("MSET b:1 x a:2 x a:1 x c:1 x", "+OK\r\n");
    pushes(
        &mut reader,
        &[&invalidate(&["a:1", "a:2"]), &invalidate(&["b:1"])],
    );
    writer.check("MULTI", "+OK\r\n");
    writer.check("SET a:1 y", "+QUEUED\r\n");
    writer.check("SET a:1 z", "+QUEUED\r\n");
    writer.check("EXEC", "*2\r\n+OK\r\n+OK\r\n");
    pushes(&mut reader, &[&invalidate(&["a:1"])]);
    reader.check("CLIENT TRACKING ON BCAST PREFIX c:", "+OK\r\n");
    writer.check("SET c:1 x", "+OK\r\n");
    pushes(&mut reader, &[&invalidate(&["c:1"])]);
    assert_eq!(writer.engine.server.subscribers.tracking.stats().prefixes, 3);
    reader.check("CLIENT TRACKING OFF", "+OK\r\n");
    assert_eq!(writer.engine.server.subscribers.tracking.stats().prefixes, 0);
}

#[test]
fn broadcast_without_loops_leaves_out_what_the_client_changed_last() {
    let (mut writer, mut reader) = tracking(" BCAST NOLOOP");
    reader.check("SET mine 1", "+OK\r\n");
    pushes(&mut reader, &[]);
    writer.check("SET theirs 1", "+OK\r\n");
    pushes(&mut reader, &[&invalidate(&["theirs"])]);
    reader.check("PSETEX mine 10 1", "+OK\r\n");
    writer.advance_ms(20);
    reader.check("GET mine", "_\r\n");
    pushes(&mut reader, &[&invalidate(&["mine"])]);
}

#[test]
fn an_expired_key_is_invalidated() {
    let (mut writer, mut reader) = tracking("");
    writer.check("PSETEX k 10 v", "+OK\r\n");
    reader.check("GET k", "$1\r\nv\r\n");
    writer.advance_ms(20);
    writer.check("GET k", "$-1\r\n");
    pushes(&mut reader, &[&invalidate(&["k"])]);
}

#[test]
fn caching_holds_for_one_command_or_transaction() {
    let (mut writer, mut reader) = tracking(" OPTIN");
    reader.check("GET a", "_\r\n");
    reader.check("CLIENT CACHING YES", "+OK\r\n");
    reader.check("CLIENT ID", &format!(":{}\r\n", reader.client.id()));
    reader.check("GET b", "_\r\n");
    reader.check("GET c", "_\r\n");
    reader.check("CLIENT CACHING YES", "+OK\r\n");
    reader.check("MULTI", "+OK\r\n");
    reader.check("GET d", "+QUEUED\r\n");
    reader.check("EXEC", "*1\r\n_\r\n");
    reader.check("GET e", "_\r\n");
    writer.check("MSET a 1 b 1 c 1 d 1 e 1", "+OK\r\n");
    pushes(&mut reader, &[&invalidate(&["b"]), &invalidate(&["d"])]);

    let (mut writer, mut reader) = tracking(" OPTOUT");
    reader.check("CLIENT CACHING NO", "+OK\r\n");
    reader.check("GET a", "_\r\n");
    reader.check("GET b", "_\r\n");
    writer.check("MSET a 1 b 1", "+OK\r\n");
    pushes(&mut reader, &[&invalidate(&["b"])]);
}

#[test]
fn a_flush_tells_everybody_that_nothing_is_valid() {
    let (writer, mut reader) = tracking("");
    reader.check("GET k", "_\r\n");
    assert_eq!(writer.engine.server.subscribers.tracking.stats().keys, 1);
    flush(&writer);
    pushes(&mut reader, &[">2\r\n$10\r\ninvalidate\r\n_\r\n"]);
    assert_eq!(writer.engine.server.subscribers.tracking.stats().keys, 0);
    flush(&reader);
    pushes(&mut reader, &[">2\r\n$10\r\ninvalidate\r\n_\r\n"]);
}

#[test]
fn the_table_stays_within_its_limit_and_tells_what_it_forgets() {
    let (mut writer, mut reader) = tracking("");
    for at in 0..250 {
        reader.run(&[b"GET", format!("key{at}").as_bytes()]);
    }
    let stats = writer.engine.server.subscribers.tracking.stats();
    assert_eq!((stats.clients, stats.keys, stats.items), (1, 250, 250));
    writer
        .engine
        .server
        .update_config(|config| config.tracking_table_max_keys = 1);
    writer.check("GET other", "$-1\r\n");
    assert_eq!(reader.messages().len(), 249);
    reader.check("GET another", "_\r\n");
    assert_eq!(writer.engine.server.subscribers.tracking.stats().keys, 1);
    assert_eq!(reader.messages().len(), 1);
}

#[test]
fn a_client_that_stops_tracking_hears_nothing_more() {
    let (mut writer, mut reader) = tracking("");
    reader.check("GET k", "_\r\n");
    reader.check("CLIENT TRACKING OFF", "+OK\r\n");
    assert_eq!(writer.engine.server.subscribers.tracking.stats().keys, 0);
    writer.check("SET k 1", "+OK\r\n");
    reader.check("CLIENT TRACKING ON", "+OK\r\n");
    writer.check("SET k 2", "+OK\r\n");
    pushes(&mut reader, &[]);
    reader.check("GET k", "$1\r\n2\r\n");
    assert!(
        writer
            .engine
            .server
            .subscribers
            .tracking
            .info_of(reader.client.id())
            .is_some()
    );
    reader.disconnect();
    writer.check("SET k 3", "+OK\r\n");
    assert_eq!(writer.engine.server.subscribers.tracking.stats().clients, 0);
}

#[test]
fn messages_for_the_own_client_wait_for_the_end_of_its_command() {
    let (_, mut reader) = tracking("");
    reader.check("GET k", "_\r\n");
    let engine = std::sync::Arc::clone(&reader.engine);
    let stats = Executor::new_stats(&engine.server);
    let mut executor = Executor::new(&engine.server, &stats);
    let ready = executor.with_db(LockScope::All, reader.client.caller(), |_, db| {
        db.set_str(b"k", b"v", nagaya_keyspace::db::Expiry::Clear);
        db.modified(b"k");
    });
    // The reply of a wait that has ended would be delivered here.
    pushes(&mut reader, &[]);
    executor.serve(ready.unwrap());
    pushes(&mut reader, &[&invalidate(&["k"])]);
}

#[test]
fn a_script_that_reads_tracks_its_declared_keys() {
    const READER: &[Entry] = &[cmd("READER", -2, |ctx| {
        let inner: ArgVec = [b"GET".as_slice(), b"other"].into_iter().collect();
        if ctx.is(1, "read") {
            let get = ctx.table().find(b"GET").unwrap();
            ctx.call(get, inner.as_args());
        }
        Ok(())
    })
    .acl(Category::SCRIPTING)
    .keys(&[key(2, RO)])];
    let families: Vec<&[Entry]> = FAMILIES.iter().copied().chain([READER]).collect();
    let registry: &Registry = Box::leak(Box::new(Registry::new(&families)));
    let engine = Engine::with_commands(registry, ManualClock::new());
    let mut writer = TestSession::on(&engine);
    let mut reader = track(&writer, "");
    let stats = Executor::new_stats(&engine.server);
    let mut executor = Executor::new(&engine.server, &stats);
    let script = registry.table.find(b"READER").unwrap();
    for (word, expected) in [("write", 0), ("read", 1)] {
        let args: ArgVec = ["READER", word, "declared"]
            .iter()
            .map(|arg| arg.as_bytes())
            .collect();
        let mut out = Out::new(Proto::Resp3);
        executor
            .with_db(LockScope::All, reader.client.caller(), |executor, db| {
                executor.call(&mut reader.client, script, args.as_args(), db, &mut out);
            })
            .unwrap();
        writer.check("MSET declared 1 other 1", "+OK\r\n");
        let got = reader.messages();
        assert_eq!(got.len(), expected, "{word}");
        if expected == 1 {
            assert_eq!(got, [Message::Push(invalidate(&["declared"]).as_bytes().into())]);
        }
    }
}

#[test]
fn contradicting_options_are_refused_in_redis_words() {
    let mut session = TestSession::new();
    for (options, error) in [
        ("ON PREFIX a", "PREFIX option requires BCAST mode to be enabled"),
        ("ON BCAST OPTIN", "OPTIN and OPTOUT are not compatible with BCAST"),
        (
            "ON OPTIN OPTOUT",
            "You can't specify both OPTIN mode and OPTOUT mode",
        ),
        (
            "ON REDIRECT 999",
            "The client ID you want redirect to does not exist",
        ),
        ("ON REDIRECT x", "value is not an integer or out of range"),
        (
            "ON REDIRECT 1 REDIRECT 1",
            "A client can only redirect to a single other client",
        ),
        (
            "ON BCAST PREFIX FOOBAR PREFIX FOO",
            "Prefix 'FOOBAR' overlaps with another provided prefix 'FOO'. Prefixes for a single client must not overlap.",
        ),
        ("MAYBE", "syntax error"),
        ("ON NONSENSE", "syntax error"),
    ] {
        session.check(
            &format!("CLIENT TRACKING {options}"),
            &format!("-ERR {error}\r\n"),
        );
    }
    session.check(
        "CLIENT CACHING YES",
        "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled\r\n",
    );
    session.check("CLIENT GETREDIR", ":-1\r\n");
    session.check("CLIENT TRACKING ON BCAST PREFIX FOO PREFIX BAR", "+OK\r\n");
    session.check(
        "CLIENT TRACKING ON BCAST PREFIX FO",
        "-ERR Prefix 'FO' overlaps with an existing prefix 'FOO'. Prefixes for a single client must not overlap.\r\n",
    );
    session.check(
        "CLIENT TRACKING ON",
        "-ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.\r\n",
    );
    session.check("CLIENT GETREDIR", ":0\r\n");
}
