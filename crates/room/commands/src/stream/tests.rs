use nagaya_connections::client::Message;

use crate::testing::TestSession;

fn unblocked(session: &mut TestSession) -> String {
    match session.messages().as_slice() {
        [Message::Unblocked(reply)] => String::from_utf8_lossy(reply).into_owned(),
        other => panic!("one reply was expected, not {other:?}"),
    }
}

/// Two clients of one engine; the first is left waiting by a request.
fn waiting(setup: &[&str], request: &str) -> (TestSession, TestSession) {
    let mut waiter = TestSession::new();
    for request in setup {
        waiter.run(&request.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }
    waiter.check(request, "");
    assert!(waiter.client.is_blocked());
    let other = TestSession::on(&waiter.engine);
    (waiter, other)
}

const ONE_ENTRY: &str = "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n2-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n";

#[test]
fn automatic_ids_come_from_the_clock() {
    let mut session = TestSession::new();
    session.check("XADD s * f v", "$15\r\n1700000000000-0\r\n");
    session.check("XADD s * f v", "$15\r\n1700000000000-1\r\n");
    session.advance_ms(1);
    session.check("XADD s * f v", "$15\r\n1700000000001-0\r\n");
}

#[test]
fn a_plus_reads_the_last_entry_there_is() {
    let mut session = TestSession::new();
    session.check("XREAD STREAMS s +", "*-1\r\n");
    session.check("XADD s 1-0 f v", "$3\r\n1-0\r\n");
    session.check("XADD s 2-0 f v", "$3\r\n2-0\r\n");
    session.check("XADD s 3-0 f v", "$3\r\n3-0\r\n");
    session.check("XDEL s 3-0", ":1\r\n");
    session.check("XREAD STREAMS s +", ONE_ENTRY);
    session.check("XREAD COUNT 9 BLOCK 0 STREAMS s +", ONE_ENTRY);
    session.text("XGROUP CREATE s g 0");
    let refused = session.text("XREADGROUP GROUP g c STREAMS s +");
    assert!(refused.starts_with("-ERR The + ID is meaningless"), "{refused}");
}

#[test]
fn a_reader_of_the_last_entry_waits_for_the_first() {
    let (mut waiter, mut other) = waiting(&[], "XREAD BLOCK 0 STREAMS s +");
    other.check("XADD s 2-0 f v", "$3\r\n2-0\r\n");
    assert_eq!(unblocked(&mut waiter), ONE_ENTRY);
}

#[test]
fn a_blocked_reader_gets_the_entry_that_comes() {
    let (mut waiter, mut other) = waiting(&["XADD s 1-0 f v"], "XREAD BLOCK 0 STREAMS s $");
    other.check("XADD s 2-0 f v", "$3\r\n2-0\r\n");
    assert_eq!(unblocked(&mut waiter), ONE_ENTRY);
    assert!(!waiter.client.is_blocked());
}

#[test]
fn a_reader_of_a_missing_stream_waits_for_its_first_entry() {
    let (mut waiter, mut other) = waiting(&[], "XREAD BLOCK 0 STREAMS s $");
    other.check("SET s text", "+OK\r\n");
    other.check("DEL s", ":1\r\n");
    assert!(waiter.messages().is_empty());
    other.check("XADD s 2-0 f v", "$3\r\n2-0\r\n");
    assert_eq!(unblocked(&mut waiter), ONE_ENTRY);
}

#[test]
fn a_transaction_that_adds_and_removes_wakes_nobody() {
    let (mut waiter, mut other) = waiting(&[], "XREAD BLOCK 0 STREAMS s $");
    for request in ["MULTI", "XADD s 2-0 f v", "DEL s", "EXEC"] {
        other.run(&request.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }
    assert!(waiter.messages().is_empty());
}

#[test]
fn of_two_blocked_consumers_the_first_gets_the_entry() {
    let setup = ["XGROUP CREATE s g $ MKSTREAM"];
    let (mut first, mut other) = waiting(&setup, "XREADGROUP GROUP g a BLOCK 0 STREAMS s >");
    let mut second = TestSession::on(&first.engine);
    second.check("XREADGROUP GROUP g b BLOCK 0 STREAMS s >", "");
    other.check("XADD s 2-0 f v", "$3\r\n2-0\r\n");
    assert_eq!(unblocked(&mut first), ONE_ENTRY);
    assert!(second.messages().is_empty());
    other.check(
        "XPENDING s g",
        "*4\r\n:1\r\n$3\r\n2-0\r\n$3\r\n2-0\r\n*1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n",
    );
}

#[test]
fn a_blocked_consumer_learns_that_its_group_is_gone() {
    let setup = ["XGROUP CREATE s g $ MKSTREAM"];
    let (mut waiter, mut other) = waiting(&setup, "XREADGROUP GROUP g a BLOCK 0 STREAMS s >");
    other.check("XGROUP DESTROY s g", ":1\r\n");
    let expected = "-NOGROUP the consumer group this client was blocked on no longer exists\r\n";
    assert_eq!(unblocked(&mut waiter), expected);
}

#[test]
fn a_blocked_consumer_learns_that_its_stream_is_gone() {
    for removal in ["DEL s", "SET s text", "RENAME s elsewhere", "FLUSHALL"] {
        let setup = ["XGROUP CREATE s g $ MKSTREAM"];
        let (mut waiter, mut other) = waiting(&setup, "XREADGROUP GROUP g a BLOCK 0 STREAMS s >");
        other.run(&removal.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        assert_eq!(
            unblocked(&mut waiter),
            "-UNBLOCKED the stream key no longer exists\r\n",
            "{removal}"
        );
    }
}

#[test]
fn blocking_inside_a_transaction_replies_at_once() {
    let mut session = TestSession::new();
    session.check("MULTI", "+OK\r\n");
    session.check("XREAD BLOCK 0 STREAMS s $", "+QUEUED\r\n");
    session.check("EXEC", "*1\r\n*-1\r\n");
}

#[test]
fn group_changes_do_not_break_a_watched_transaction() {
    let mut session = TestSession::new();
    session.check("XADD s 1-0 f v", "$3\r\n1-0\r\n");
    session.check("WATCH s", "+OK\r\n");
    let mut other = TestSession::on(&session.engine);
    other.check("XGROUP CREATE s g 0", "+OK\r\n");
    session.check("MULTI", "+OK\r\n");
    session.check("XLEN s", "+QUEUED\r\n");
    session.check("EXEC", "*1\r\n:1\r\n");
}

#[test]
fn idle_times_count_from_the_last_delivery() {
    let mut session = TestSession::new();
    session.check("XADD s 1-0 f v", "$3\r\n1-0\r\n");
    session.check("XGROUP CREATE s g 0", "+OK\r\n");
    session.run(&[b"XREADGROUP", b"GROUP", b"g", b"a", b"STREAMS", b"s", b">"]);
    session.advance_ms(250);
    session.check(
        "XPENDING s g - + 1",
        "*1\r\n*4\r\n$3\r\n1-0\r\n$1\r\na\r\n:250\r\n:1\r\n",
    );
    session.check("XPENDING s g IDLE 251 - + 1", "*0\r\n");
    session.check("XAUTOCLAIM s g b 251 0", "*3\r\n$3\r\n0-0\r\n*0\r\n*0\r\n");
    session.check(
        "XAUTOCLAIM s g b 250 0 JUSTID",
        "*3\r\n$3\r\n0-0\r\n*1\r\n$3\r\n1-0\r\n*0\r\n",
    );
    session.check(
        "XPENDING s g - + 1",
        "*1\r\n*4\r\n$3\r\n1-0\r\n$1\r\nb\r\n:0\r\n:1\r\n",
    );
}

#[test]
fn help_lists_the_subcommands() {
    let mut session = TestSession::new();
    for container in ["XGROUP", "XINFO"] {
        let reply = session.run(&[container.as_bytes(), b"HELP"]);
        let text = String::from_utf8(reply).unwrap();
        let lines: usize = text[1..text.find('\r').unwrap()].parse().unwrap();
        assert_eq!(text.matches("\r\n+").count(), lines, "{container}");
        assert!(
            text.contains(&format!("+{container} <subcommand> "))
                && text.ends_with("+    Print this help.\r\n")
        );
    }
}

#[test]
fn a_group_or_consumer_may_be_called_streams() {
    let mut session = TestSession::new();
    session.check("XADD s 2-0 f v", "$3\r\n2-0\r\n");
    session.check("XGROUP CREATE s streams 0", "+OK\r\n");
    session.check("XREADGROUP NOACK GROUP streams streams STREAMS s >", ONE_ENTRY);
    session.check("XGROUP SETID s streams 0", "+OK\r\n");
    session.check("XREADGROUP COUNT 1 GROUP streams c STREAMS s >", ONE_ENTRY);
}

#[test]
fn a_timeout_beyond_all_time_is_as_good_as_none() {
    let (mut waiter, mut other) = waiting(&[], "XREAD BLOCK 9223372036854775807 STREAMS s $");
    other.check("XADD s 2-0 f v", "$3\r\n2-0\r\n");
    assert_eq!(unblocked(&mut waiter), ONE_ENTRY);
}
