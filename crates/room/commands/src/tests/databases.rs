//! Several databases in one engine.

use nagaya_connections::client::Message;

use crate::testing::TestSession;

const OUT_OF_RANGE: &str = "-ERR DB index is out of range\r\n";

/// Two clients of one engine, the second in database 1.
fn pair() -> (TestSession, TestSession) {
    let first = TestSession::new();
    let mut second = first.another();
    second.check("SELECT 1", "+OK\r\n");
    (first, second)
}

/// Takes the reply that ended a client's wait.
fn unblocked(session: &mut TestSession) -> Option<String> {
    session.messages().into_iter().find_map(|message| match message {
        Message::Unblocked(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        _ => None,
    })
}

#[test]
fn each_database_has_keys_of_its_own() {
    let (mut zero, mut one) = pair();
    zero.check("SET k zero", "+OK\r\n");
    one.check("GET k", "$-1\r\n");
    one.check("SET k one", "+OK\r\n");
    one.check("SET more one", "+OK\r\n");
    zero.check("GET k", "$4\r\nzero\r\n");
    zero.check("DBSIZE", ":1\r\n");
    one.check("DBSIZE", ":2\r\n");
    zero.check("KEYS *", "*1\r\n$1\r\nk\r\n");
    zero.check("RANDOMKEY", "$1\r\nk\r\n");
    one.check("SELECT 15", "+OK\r\n");
    one.check("SCAN 0 COUNT 1000", "*2\r\n$1\r\n0\r\n*0\r\n");
    one.check("SELECT 16", OUT_OF_RANGE);
    one.check("SELECT -1", OUT_OF_RANGE);
    one.check("SELECT x", "-ERR value is not an integer or out of range\r\n");
    one.check("DBSIZE", ":0\r\n");
    let told = zero.text("INFO keyspace");
    assert!(
        told.contains("db0:keys=1,expires=0,avg_ttl=0\r\ndb1:keys=2,expires=0"),
        "{told}"
    );
    assert!(!told.contains("db15"), "{told}");
}

#[test]
fn keys_move_and_are_copied_between_databases_with_their_expiry() {
    let (mut zero, mut one) = pair();
    zero.check("MOVE k 1", ":0\r\n");
    zero.check("SET k v PX 5000", "+OK\r\n");
    zero.check("MOVE k 16", OUT_OF_RANGE);
    zero.check("MOVE k 0", "-ERR source and destination objects are the same\r\n");
    zero.check("MOVE k 1", ":1\r\n");
    zero.check("EXISTS k", ":0\r\n");
    one.check("PTTL k", ":5000\r\n");
    zero.check("SET k w", "+OK\r\n");
    zero.check("MOVE k 1", ":0\r\n");
    one.check("GET k", "$1\r\nv\r\n");
    one.check("COPY k k", "-ERR source and destination objects are the same\r\n");
    one.check("COPY k k DB 0", ":0\r\n");
    one.check("COPY k k DB 0 REPLACE", ":1\r\n");
    one.check("COPY k k DB 16", OUT_OF_RANGE);
    zero.check("PTTL k", ":5000\r\n");
    one.advance_ms(5001);
    zero.expire();
    zero.check("DBSIZE", ":0\r\n");
    one.check("DBSIZE", ":0\r\n");
}

#[test]
fn flushdb_empties_one_database_and_flushall_every_one() {
    let (mut zero, mut one) = pair();
    for session in [&mut zero, &mut one] {
        session.check("SET k v", "+OK\r\n");
    }
    one.check("FLUSHDB", "+OK\r\n");
    one.check("DBSIZE", ":0\r\n");
    zero.check("DBSIZE", ":1\r\n");
    one.check("SET k v", "+OK\r\n");
    one.check("FLUSHALL", "+OK\r\n");
    zero.check("DBSIZE", ":0\r\n");
    one.check("DBSIZE", ":0\r\n");
}

#[test]
fn swapdb_exchanges_keys_and_leaves_clients_where_they_are() {
    let (mut zero, mut one) = pair();
    zero.check("SET k zero", "+OK\r\n");
    one.check("SET k one", "+OK\r\n");
    zero.check("SWAPDB 0 1", "+OK\r\n");
    zero.check("GET k", "$3\r\none\r\n");
    one.check("GET k", "$4\r\nzero\r\n");
    one.check("SET new 1", "+OK\r\n");
    one.check("SWAPDB 1 1", "+OK\r\n");
    zero.check("EXISTS new", ":0\r\n");
    zero.check("SWAPDB 0 16", OUT_OF_RANGE);
    zero.check("SWAPDB x 1", "-ERR invalid first DB index\r\n");
    zero.check("SWAPDB 1 x", "-ERR invalid second DB index\r\n");
}

#[test]
fn a_watch_breaks_by_changes_in_its_database_and_by_exchanges_of_it() {
    let (mut zero, mut one) = pair();
    let run = |session: &mut TestSession, expected: &str| {
        session.check("MULTI", "+OK\r\n");
        session.check("PING", "+QUEUED\r\n");
        session.check("EXEC", expected);
    };
    let (done, aborted) = ("*1\r\n+PONG\r\n", "*-1\r\n");
    zero.check("WATCH k", "+OK\r\n");
    one.check("SET k 1", "+OK\r\n");
    run(&mut zero, done);
    zero.check("WATCH k", "+OK\r\n");
    one.check("MOVE k 0", ":1\r\n");
    run(&mut zero, aborted);
    zero.check("WATCH k other", "+OK\r\n");
    one.check("SWAPDB 0 1", "+OK\r\n");
    run(&mut zero, aborted);
    zero.check("WATCH other", "+OK\r\n");
    one.check("SWAPDB 0 1", "+OK\r\n");
    run(&mut zero, done);
    // Watched here, selected there.
    zero.check("WATCH k", "+OK\r\n");
    zero.check("SELECT 1", "+OK\r\n");
    one.check("SELECT 0", "+OK\r\n");
    one.check("SET k 2", "+OK\r\n");
    run(&mut zero, aborted);
}

#[test]
fn a_watch_outlives_exchanges_that_bring_keys_past_their_time() {
    let (mut zero, mut one) = pair();
    one.check("SET k v PX 10", "+OK\r\n");
    one.advance_ms(20);
    zero.check("WATCH k", "+OK\r\n");
    zero.check("SWAPDB 0 1", "+OK\r\n");
    zero.check("MULTI", "+OK\r\n");
    zero.check("PING", "+QUEUED\r\n");
    zero.check("EXEC", "*1\r\n+PONG\r\n");
    // One that was there when it was watched is gone by now.
    zero.check("SET k v PX 10", "+OK\r\n");
    zero.check("WATCH k", "+OK\r\n");
    one.advance_ms(20);
    zero.check("SWAPDB 0 1", "+OK\r\n");
    zero.check("MULTI", "+OK\r\n");
    zero.check("PING", "+QUEUED\r\n");
    zero.check("EXEC", "*-1\r\n");
}

#[test]
fn blocked_clients_wait_for_keys_of_their_database() {
    let (mut zero, mut one) = pair();
    let mut waiter = one.another();
    waiter.check("SELECT 1", "+OK\r\n");
    assert!(waiter.run(&[b"BLPOP", b"l", b"0"]).is_empty());
    zero.check("RPUSH l a", ":1\r\n");
    assert_eq!(unblocked(&mut waiter), None);
    zero.check("MOVE l 1", ":1\r\n");
    assert_eq!(
        unblocked(&mut waiter).as_deref(),
        Some("*2\r\n$1\r\nl\r\n$1\r\na\r\n")
    );
    assert!(waiter.run(&[b"BLPOP", b"l", b"0"]).is_empty());
    zero.check("RPUSH l b", ":1\r\n");
    zero.check("SWAPDB 0 1", "+OK\r\n");
    assert_eq!(
        unblocked(&mut waiter).as_deref(),
        Some("*2\r\n$1\r\nl\r\n$1\r\nb\r\n")
    );
    one.check("EXISTS l", ":0\r\n");
    // Gone from both while it waits: nothing is left behind.
    assert!(waiter.run(&[b"BLPOP", b"l", b"0"]).is_empty());
    zero.check("SWAPDB 0 1", "+OK\r\n");
    waiter.disconnect();
    one.check("RPUSH l c", ":1\r\n");
    one.check("LLEN l", ":1\r\n");
}

#[test]
fn a_transaction_goes_on_where_it_selects_and_a_script_does_not() {
    let (mut zero, mut one) = pair();
    zero.check("MULTI", "+OK\r\n");
    for queued in ["SET k zero", "SELECT 1", "SET k one", "DBSIZE"] {
        zero.check(queued, "+QUEUED\r\n");
    }
    zero.check("EXEC", "*4\r\n+OK\r\n+OK\r\n+OK\r\n:1\r\n");
    zero.check("GET k", "$3\r\none\r\n");
    one.check("GET k", "$3\r\none\r\n");
    zero.check("SELECT 0", "+OK\r\n");
    let script = b"redis.call('select', ARGV[1]) return redis.call('get', 'k')";
    assert_eq!(zero.run(&[b"EVAL", script, b"0", b"1"]), b"$3\r\none\r\n");
    zero.check("GET k", "$4\r\nzero\r\n");
    let failing = b"redis.call('select', 3) error('x')";
    assert!(zero.run(&[b"EVAL", failing, b"0"]).starts_with(b"-"));
    zero.check("GET k", "$4\r\nzero\r\n");
}

#[test]
fn lists_and_monitors_tell_the_database_and_reset_leaves_it() {
    let (mut zero, mut one) = pair();
    assert!(one.text("CLIENT INFO").contains(" db=1 "));
    assert!(zero.text("CLIENT INFO").contains(" db=0 "));
    let listed = zero.text("CLIENT LIST DB 1");
    assert_eq!(listed.matches("id=").count(), 1, "{listed}");
    zero.check("MONITOR", "+OK\r\n");
    one.check("SET k v", "+OK\r\n");
    let seen: Vec<String> = zero
        .messages()
        .into_iter()
        .filter_map(|message| match message {
            Message::Push(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            _ => None,
        })
        .collect();
    assert!(
        seen.iter()
            .any(|line| line.contains(" [1 ") && line.contains("SET")),
        "{seen:?}"
    );
    one.check("RESET", "+RESET\r\n");
    one.check("DBSIZE", ":0\r\n");
}

#[test]
fn events_tell_the_database() {
    let (mut zero, mut one) = pair();
    zero.check("CONFIG SET notify-keyspace-events KEA", "+OK\r\n");
    let mut listener = zero.another();
    listener.run(&[b"PSUBSCRIBE", b"__key*"]);
    listener.messages();
    zero.check("SET k v", "+OK\r\n");
    zero.check("MOVE k 1", ":1\r\n");
    one.check("PEXPIRE k 10", ":1\r\n");
    one.advance_ms(20);
    zero.expire();
    let heard: Vec<String> = listener
        .messages()
        .into_iter()
        .filter_map(|message| match message {
            Message::Push(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let words: Vec<&str> = text.split("\r\n").collect();
                Some(format!("{} {}", words[6], words[8]))
            }
            _ => None,
        })
        .collect();
    let expected = [
        "__keyspace@0__:k set",
        "__keyevent@0__:set k",
        "__keyspace@0__:k move_from",
        "__keyevent@0__:move_from k",
        "__keyspace@1__:k move_to",
        "__keyevent@1__:move_to k",
        "__keyspace@1__:k expire",
        "__keyevent@1__:expire k",
        "__keyspace@1__:k expired",
        "__keyevent@1__:expired k",
    ];
    assert_eq!(heard, expected);
}

#[test]
fn eviction_takes_keys_of_all_databases() {
    let (mut zero, mut one) = pair();
    for number in 0..200 {
        zero.check(&format!("SET k{number} v"), "+OK\r\n");
        one.check(&format!("SET k{number} v"), "+OK\r\n");
    }
    zero.check("CONFIG SET maxmemory-policy allkeys-random", "+OK\r\n");
    let probe = Box::new(|| usize::MAX / 2);
    assert!(zero.engine.server.keyspace.memory.probe.set(probe).is_ok());
    zero.check("CONFIG SET maxmemory 1", "+OK\r\n");
    for _ in 0..2_000 {
        zero.run(&[b"GET", b"k1"]);
    }
    zero.check("DBSIZE", ":0\r\n");
    one.check("DBSIZE", ":0\r\n");
}

#[test]
fn the_journal_names_spaces_and_keeps_database_0_as_it_was() {
    let (mut zero, mut one) = pair();
    let records = zero.record();
    zero.check("SET k v", "+OK\r\n");
    one.check("SET k v", "+OK\r\n");
    zero.check("MOVE k 2", ":1\r\n");
    zero.check("SWAPDB 1 2", "+OK\r\n");
    one.check("APPEND k w", ":2\r\n");
    one.check("FLUSHDB", "+OK\r\n");
    let shown: Vec<String> = records
        .take_effects()
        .iter()
        .map(|record| {
            let effects = record.iter().map(|effect| {
                let words = effect.iter().take(3).filter(|word| word.len() < 12);
                let words: Vec<String> = words.map(|word| word.escape_ascii().to_string()).collect();
                words.join(" ")
            });
            effects.collect::<Vec<_>>().join("; ")
        })
        .collect();
    assert_eq!(
        shown,
        [
            "SET k v",
            "SELECT 1; SET k v",
            "DEL k; SELECT 2; RESTORE k 0",
            "SWAPDB 1 2",
            "SELECT 2; APPEND k w",
            "SELECT 2; FLUSHDB",
        ]
    );
}
