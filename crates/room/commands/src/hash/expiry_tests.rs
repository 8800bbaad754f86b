//! Fields that expire, by the examples of Redis's documentation and beyond.

use nagaya_connections::client::Message;

use crate::testing::TestSession;

const MISSING_FIELDS: &str = "-ERR Mandatory argument FIELDS is missing or not at the right position\r\n";
/// The clock of a test session begins here, in Unix seconds.
const NOW_S: i64 = 1_700_000_000;

fn session() -> TestSession {
    let mut session = TestSession::new();
    session.check("HSET h a 1 b 2 c 3", ":3\r\n");
    session
}

#[test]
fn expiries_are_set_told_and_taken_away_per_field() {
    let mut session = session();
    session.check("HEXPIRE h 10 FIELDS 3 a b none", "*3\r\n:1\r\n:1\r\n:-2\r\n");
    session.check("HTTL h FIELDS 4 a b c none", "*4\r\n:10\r\n:10\r\n:-1\r\n:-2\r\n");
    session.check("HPTTL h FIELDS 1 a", "*1\r\n:10000\r\n");
    session.check("HEXPIRETIME h FIELDS 1 a", "*1\r\n:1700000010\r\n");
    session.check("HPEXPIRETIME h FIELDS 1 a", "*1\r\n:1700000010000\r\n");
    session.advance_ms(1);
    session.check("HTTL h FIELDS 1 a", "*1\r\n:10\r\n");
    session.check("HPERSIST h FIELDS 3 a c none", "*3\r\n:1\r\n:-1\r\n:-2\r\n");
    session.check("HTTL h FIELDS 2 a b", "*2\r\n:-1\r\n:10\r\n");
    session.check("HPEXPIRE h 700 FIELDS 1 a", "*1\r\n:1\r\n");
    session.check("HTTL h FIELDS 1 a", "*1\r\n:1\r\n");
    session.check(&format!("HEXPIREAT h {} FIELDS 1 a", NOW_S + 5), "*1\r\n:1\r\n");
    session.check(
        &format!("HPEXPIREAT h {} FIELDS 1 c", NOW_S * 1000 + 77),
        "*1\r\n:1\r\n",
    );
    session.check("HPTTL h FIELDS 2 a c", "*2\r\n:4999\r\n:76\r\n");
    for command in ["HTTL", "HPERSIST", "HPEXPIRETIME"] {
        session.check(&format!("{command} none FIELDS 2 a b"), "*2\r\n:-2\r\n:-2\r\n");
    }
    session.check("HEXPIRE none 5 FIELDS 1 a", "*1\r\n:-2\r\n");
}

#[test]
fn conditions_count_a_field_without_expiry_as_living_longest() {
    let mut session = session();
    session.check("HEXPIRE h 10 XX FIELDS 1 a", "*1\r\n:0\r\n");
    session.check("HEXPIRE h 10 GT FIELDS 1 a", "*1\r\n:0\r\n");
    session.check("HEXPIRE h 10 NX FIELDS 1 a", "*1\r\n:1\r\n");
    session.check("HEXPIRE h 20 NX FIELDS 2 a b", "*2\r\n:0\r\n:1\r\n");
    session.check("HEXPIRE h 10 gt FIELDS 1 a", "*1\r\n:0\r\n");
    session.check("HEXPIRE h 15 GT FIELDS 2 a b", "*2\r\n:1\r\n:0\r\n");
    session.check("HEXPIRE h 15 LT FIELDS 3 a b c", "*3\r\n:0\r\n:1\r\n:1\r\n");
    session.check("HEXPIRE h 30 XX FIELDS 1 a", "*1\r\n:1\r\n");
}

#[test]
fn a_moment_that_is_past_removes_the_field_and_the_last_one_the_hash() {
    let mut session = session();
    session.check("HEXPIRE h 0 FIELDS 2 a none", "*2\r\n:2\r\n:-2\r\n");
    session.check("HPEXPIREAT h 1 FIELDS 1 b", "*1\r\n:2\r\n");
    session.check("HLEN h", ":1\r\n");
    session.check("HEXPIREAT h 1 FIELDS 1 c", "*1\r\n:2\r\n");
    session.check("EXISTS h", ":0\r\n");
}

#[test]
fn an_expired_field_is_missing_to_every_command() {
    for (request, reply) in [
        ("HGET h a", "$-1\r\n"),
        ("HMGET h a b", "*2\r\n$-1\r\n$1\r\n2\r\n"),
        ("HGETALL h", "*2\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("HKEYS h", "*1\r\n$1\r\nb\r\n"),
        ("HVALS h", "*1\r\n$1\r\n2\r\n"),
        ("HLEN h", ":1\r\n"),
        ("HEXISTS h a", ":0\r\n"),
        ("HSTRLEN h a", ":0\r\n"),
        ("HDEL h a", ":0\r\n"),
        ("HSETNX h a new", ":1\r\n"),
        ("HSET h a new", ":1\r\n"),
        ("HINCRBY h a 5", ":5\r\n"),
        ("HINCRBYFLOAT h a 0.5", "$3\r\n0.5\r\n"),
        ("HRANDFIELD h", "$1\r\nb\r\n"),
        ("HRANDFIELD h 9", "*1\r\n$1\r\nb\r\n"),
        ("HSCAN h 0", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("HTTL h FIELDS 1 a", "*1\r\n:-2\r\n"),
        ("HPERSIST h FIELDS 1 a", "*1\r\n:-2\r\n"),
        ("HEXPIRE h 5 FIELDS 1 a", "*1\r\n:-2\r\n"),
        ("HGETDEL h FIELDS 1 a", "*1\r\n$-1\r\n"),
        ("HGETEX h FIELDS 1 a", "*1\r\n$-1\r\n"),
        ("HSETEX h FXX FIELDS 1 a 1", ":0\r\n"),
        ("HSETEX h FNX FIELDS 1 a 1", ":1\r\n"),
        ("SORT l BY nosort GET *->a", "*1\r\n$-1\r\n"),
    ] {
        let mut session = TestSession::new();
        session.check("RPUSH l h", ":1\r\n");
        session.check("HSET h a 1 b 2", ":2\r\n");
        session.check("HPEXPIRE h 10 FIELDS 1 a", "*1\r\n:1\r\n");
        session.advance_ms(10);
        session.check("HGET h a", "$1\r\n1\r\n");
        session.advance_ms(1);
        session.check(request, reply);
    }
}

#[test]
fn a_hash_whose_fields_have_all_expired_is_gone() {
    let mut session = session();
    session.check("HPEXPIRE h 10 FIELDS 3 a b c", "*3\r\n:1\r\n:1\r\n:1\r\n");
    session.advance_ms(11);
    session.check("HGETALL h", "*0\r\n");
    session.check("EXISTS h", ":0\r\n");
    session.check("SET h string", "+OK\r\n");
}

#[test]
fn fields_that_nobody_asks_for_expire_too() {
    let mut session = TestSession::new();
    for n in 0..50 {
        session.check(&format!("HSET h{n} a 1 b 2"), ":2\r\n");
        session.check(&format!("HPEXPIRE h{n} {} FIELDS 1 a", 1 + n), "*1\r\n:1\r\n");
    }
    session.check("HPEXPIRE h0 5 FIELDS 1 b", "*1\r\n:1\r\n");
    session.advance_ms(26);
    session.expire();
    session.check("DBSIZE", ":49\r\n");
    assert!(session.text("INFO stats").contains("expired_subkeys:26\r\n"));
    assert!(session.text("INFO stats").contains("expired_keys:0\r\n"));
    session.check("HLEN h24", ":1\r\n");
    session.check("HLEN h25", ":2\r\n");
}

#[test]
fn setting_a_field_takes_its_expiry_away_and_counting_keeps_it() {
    let mut session = session();
    session.check("HEXPIRE h 10 FIELDS 3 a b c", "*3\r\n:1\r\n:1\r\n:1\r\n");
    session.check("HSET h a 5", ":0\r\n");
    session.check("HINCRBY h b 1", ":3\r\n");
    session.check("HINCRBYFLOAT h c 0.5", "$3\r\n3.5\r\n");
    session.check("HTTL h FIELDS 3 a b c", "*3\r\n:-1\r\n:10\r\n:10\r\n");
}

#[test]
fn hgetdel_returns_and_removes() {
    let mut session = session();
    session.check("HGETDEL h FIELDS 3 a none a", "*3\r\n$1\r\n1\r\n$-1\r\n$-1\r\n");
    session.check("HGETDEL h FIELDS 2 b c", "*2\r\n$1\r\n2\r\n$1\r\n3\r\n");
    session.check("EXISTS h", ":0\r\n");
    session.check("HGETDEL h FIELDS 1 a", "*1\r\n$-1\r\n");
}

#[test]
fn hgetex_returns_and_sets_the_expiry() {
    let mut session = session();
    session.check("HGETEX h FIELDS 1 a", "*1\r\n$1\r\n1\r\n");
    session.check("HGETEX h EX 10 FIELDS 2 a none", "*2\r\n$1\r\n1\r\n$-1\r\n");
    session.check("HTTL h FIELDS 2 a b", "*2\r\n:10\r\n:-1\r\n");
    session.check("HGETEX h PX 20 FIELDS 1 a", "*1\r\n$1\r\n1\r\n");
    session.check("HGETEX h PXAT 1700000000030 FIELDS 1 b", "*1\r\n$1\r\n2\r\n");
    session.check("HPTTL h FIELDS 2 a b", "*2\r\n:20\r\n:30\r\n");
    session.check("HGETEX h PERSIST FIELDS 2 a c", "*2\r\n$1\r\n1\r\n$1\r\n3\r\n");
    session.check("HTTL h FIELDS 1 a", "*1\r\n:-1\r\n");
    session.check("HGETEX h EXAT 1 FIELDS 1 b", "*1\r\n$1\r\n2\r\n");
    session.check("HLEN h", ":2\r\n");
    session.check("HGETEX none FIELDS 1 a", "*1\r\n$-1\r\n");
}

#[test]
fn hsetex_sets_all_fields_or_none() {
    let mut session = TestSession::new();
    session.check("HSETEX h EX 60 FIELDS 2 a Hello b World", ":1\r\n");
    session.check("HTTL h FIELDS 2 a b", "*2\r\n:60\r\n:60\r\n");
    session.check("HSETEX h FNX EX 60 FIELDS 2 a x n y", ":0\r\n");
    session.check("HSETEX h FXX FIELDS 2 a x n y", ":0\r\n");
    session.check("HSETEX h FXX KEEPTTL FIELDS 1 a x", ":1\r\n");
    session.check("HTTL h FIELDS 1 a", "*1\r\n:60\r\n");
    session.check("HSETEX h FIELDS 1 a y", ":1\r\n");
    session.check("HTTL h FIELDS 2 a b", "*2\r\n:-1\r\n:60\r\n");
    session.check("HSETEX h PXAT 5 FIELDS 2 a z b z", ":1\r\n");
    session.check("EXISTS h", ":0\r\n");
    session.check("HSETEX none FXX FIELDS 1 a x", ":0\r\n");
    session.check("EXISTS none", ":0\r\n");
    for (options, error) in [
        (
            "FNX FXX FIELDS 1 a x",
            "ERR Only one of FXX or FNX arguments can be specified",
        ),
        (
            "EX 1 KEEPTTL FIELDS 1 a x",
            "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        ),
        ("FOO FIELDS 1 a x", "ERR unknown argument: FOO"),
        ("EX 1 FIELDS 0 a x", "ERR invalid number of fields"),
        ("EX -1 FIELDS 1 a x", "ERR invalid expire time, must be >= 0"),
        (
            "EX 99999999999999 FIELDS 1 a x",
            "ERR invalid expire time in 'hsetex' command",
        ),
        (
            "EX 1 FIELDS 2 a x",
            "ERR wrong number of arguments for 'hsetex' command",
        ),
        (
            "EX 1 FIELDS 1 a",
            "ERR wrong number of arguments for 'hsetex' command",
        ),
        (
            "EX 1 EX 1 EX 1",
            "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        ),
        ("FNX KEEPTTL 1 EX", "ERR unknown argument: 1"),
    ] {
        session.check(&format!("HSETEX h {options}"), &format!("-{error}\r\n"));
    }
}

#[test]
fn mistakes_in_requests_are_told_and_change_nothing() {
    let mut session = session();
    session.check("SET s v", "+OK\r\n");
    let before = session.contents();
    for request in [
        "HEXPIRE s 5 FIELDS 1 a",
        "HTTL s FIELDS 1 a",
        "HPERSIST s FIELDS 1 a",
        "HGETDEL s FIELDS 1 a",
        "HGETEX s FIELDS 1 a",
        "HSETEX s FIELDS 1 a b",
    ] {
        session.check(
            request,
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        );
    }
    session.check("HEXPIRE h 5 NX 1 FIELDS a b", MISSING_FIELDS);
    session.check("HTTL h FIELD 1 a", MISSING_FIELDS);
    session.check("HGETEX h EX 5 1 a", MISSING_FIELDS);
    session.check(
        "HEXPIRE h 5 FIELDS 0 a",
        "-ERR Parameter `numFields` should be greater than 0\r\n",
    );
    session.check(
        "HTTL h FIELDS x a",
        "-ERR Number of fields must be a positive integer\r\n",
    );
    let mismatch = "-ERR The `numfields` parameter must match the number of arguments\r\n";
    session.check("HEXPIRE h 5 FIELDS 2 a", mismatch);
    session.check("HGETDEL h FIELDS 1 a b", mismatch);
    session.check(
        "HEXPIRE h 9223372036854775807 FIELDS 1 a",
        "-ERR invalid expire time in 'hexpire' command\r\n",
    );
    session.check(
        "HPEXPIREAT h 70368744177664 FIELDS 1 a",
        "-ERR invalid expire time in 'hpexpireat' command\r\n",
    );
    session.check(
        "HEXPIRE h -1 FIELDS 1 a",
        "-ERR invalid expire time, must be >= 0\r\n",
    );
    assert_eq!(session.contents(), before);
}

#[test]
fn events_tell_what_happened_to_fields() {
    let mut session = session();
    session.check("CONFIG SET notify-keyspace-events KEA", "+OK\r\n");
    let mut listener = session.another();
    listener.run(&[b"PSUBSCRIBE", b"__keyspace@0__:h"]);
    for (request, events) in [
        ("HEXPIRE h 10 FIELDS 1 a", "hexpire"),
        ("HEXPIRE h 10 NX FIELDS 1 a", ""),
        ("HPERSIST h FIELDS 1 a", "hpersist"),
        ("HPERSIST h FIELDS 1 a", ""),
        ("HEXPIRE h 0 FIELDS 1 a", "hdel"),
        ("HGETEX h EX 10 FIELDS 1 b", "hexpire"),
        ("HGETEX h PERSIST FIELDS 1 b", "hpersist"),
        ("HSETEX h EX 10 FIELDS 1 a 1", "hset hexpire"),
        ("HSETEX h KEEPTTL FIELDS 1 a 1", "hset"),
        ("HGETDEL h FIELDS 2 b c", "hdel"),
        ("HLEN h", ""),
    ] {
        session.text(request);
        assert_eq!(events_of(&mut listener), events, "{request}");
    }
    session.advance_ms(10_001);
    session.check("HGET h a", "$-1\r\n");
    assert_eq!(events_of(&mut listener), "hexpired del");
    session.check("HSETEX h PX 5 FIELDS 1 a 1", ":1\r\n");
    session.advance_ms(6);
    session.expire();
    assert_eq!(events_of(&mut listener), "hset hexpire hexpired del");
}

/// Returns the names of the events that arrived, in order.
fn events_of(listener: &mut TestSession) -> String {
    let events: Vec<String> = listener
        .messages()
        .into_iter()
        .filter_map(|message| match message {
            Message::Push(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                text.trim_end().rsplit("\r\n").next().map(str::to_owned)
            }
            _ => None,
        })
        .collect();
    events.join(" ")
}

#[test]
fn expiries_of_fields_go_where_the_hash_goes() {
    let mut session = session();
    session.check("HEXPIRE h 10 FIELDS 1 a", "*1\r\n:1\r\n");
    session.check("COPY h copied", ":1\r\n");
    session.check("RENAME h renamed", "+OK\r\n");
    let payload = session.run(&[b"DUMP", b"renamed"]);
    let start = payload.iter().position(|&byte| byte == b'\n').expect("a bulk") + 1;
    let payload = &payload[start..payload.len() - 2];
    assert_eq!(session.run(&[b"RESTORE", b"restored", b"0", payload]), b"+OK\r\n");
    for key in ["copied", "renamed", "restored"] {
        session.check(&format!("HTTL {key} FIELDS 2 a b"), "*2\r\n:10\r\n:-1\r\n");
        session.check(&format!("OBJECT ENCODING {key}"), "$10\r\nlistpackex\r\n");
    }
    session.advance_ms(10_001);
    session.expire();
    for key in ["copied", "renamed", "restored"] {
        session.check(&format!("HLEN {key}"), ":2\r\n");
        session.check(&format!("OBJECT ENCODING {key}"), "$8\r\nlistpack\r\n");
    }
    session.check("HSET renamed a new", ":1\r\n");
    assert_eq!(session.run(&[b"RESTORE", b"late", b"0", payload]), b"+OK\r\n");
    session.check("HLEN late", ":2\r\n");
}

#[test]
fn a_watching_transaction_notices_an_expired_field() {
    let mut session = session();
    session.check("HPEXPIRE h 5 FIELDS 1 a", "*1\r\n:1\r\n");
    session.check("WATCH h", "+OK\r\n");
    session.advance_ms(6);
    session.another().check("HLEN h", ":2\r\n");
    session.check("MULTI", "+OK\r\n");
    session.check("PING", "+QUEUED\r\n");
    session.check("EXEC", "*-1\r\n");
}
