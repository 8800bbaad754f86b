use nagaya_connections::client::Message;

use crate::testing::TestSession;

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn array(items: &[&str]) -> String {
    format!(
        "*{}\r\n{}",
        items.len(),
        items.iter().map(|item| bulk(item)).collect::<String>()
    )
}

/// The reply that ended a session's wait.
#[track_caller]
fn unblocked(session: &mut TestSession) -> String {
    match session.messages().as_slice() {
        [Message::Unblocked(bytes)] => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("expected one reply, got {other:?}"),
    }
}

#[track_caller]
fn still_waits(session: &mut TestSession) {
    assert!(session.messages().is_empty());
    assert!(session.client.is_blocked());
}

#[test]
fn pushes_reply_with_the_length_and_keep_the_order() {
    let mut session = TestSession::new();
    session.check("RPUSH l a b", ":2\r\n");
    session.check("LPUSH l 1 2", ":4\r\n");
    session.check("LRANGE l 0 -1", &array(&["2", "1", "a", "b"]));
    session.check("LLEN l", ":4\r\n");
}

#[test]
fn pushx_does_not_create() {
    let mut session = TestSession::new();
    session.check("LPUSHX l a", ":0\r\n");
    session.check("RPUSHX l a", ":0\r\n");
    session.check("LLEN l", ":0\r\n");
    session.check("RPUSH l a", ":1\r\n");
    session.check("LPUSHX l b c", ":3\r\n");
    session.check("LRANGE l 0 -1", &array(&["c", "b", "a"]));
}

#[test]
fn ranges_take_negative_and_outlying_ends() {
    let mut session = TestSession::new();
    session.check("RPUSH l a b c d", ":4\r\n");
    for (range, expected) in [
        ("0 -1", &["a", "b", "c", "d"][..]),
        ("-2 -1", &["c", "d"]),
        ("-100 1", &["a", "b"]),
        ("1 1", &["b"]),
        ("2 1", &[]),
        ("4 9", &[]),
        ("0 -5", &[]),
        ("-9223372036854775808 9223372036854775807", &["a", "b", "c", "d"]),
    ] {
        session.check(&format!("LRANGE l {range}"), &array(expected));
    }
    session.check("LRANGE l x 1", "-ERR value is not an integer or out of range\r\n");
}

#[test]
fn trimming_everything_removes_the_key() {
    let mut session = TestSession::new();
    session.check("RPUSH l a b c", ":3\r\n");
    session.check("LTRIM l 1 -1", "+OK\r\n");
    session.check("LRANGE l 0 -1", &array(&["b", "c"]));
    session.check("LTRIM l 5 9", "+OK\r\n");
    session.check("LPUSHX l a", ":0\r\n");
    session.check("LTRIM missing 0 1", "+OK\r\n");
}

#[test]
fn lset_tells_a_missing_key_before_a_bad_index() {
    let mut session = TestSession::new();
    session.check("LSET l x v", "-ERR no such key\r\n");
    session.check("RPUSH l a b", ":2\r\n");
    session.check("LSET l x v", "-ERR value is not an integer or out of range\r\n");
    session.check("LSET l 2 v", "-ERR index out of range\r\n");
    session.check("LSET l -1 v", "+OK\r\n");
    session.check("LINDEX l 1", &bulk("v"));
    session.check("LINDEX missing x", "$-1\r\n");
    session.check("LINDEX l 7", "$-1\r\n");
}

#[test]
fn linsert_says_whether_the_pivot_was_there() {
    let mut session = TestSession::new();
    session.check("LINSERT l BEFORE a b", ":0\r\n");
    session.check("RPUSH l a c", ":2\r\n");
    session.check("LINSERT l after a b", ":3\r\n");
    session.check("LINSERT l BEFORE x y", ":-1\r\n");
    session.check("LINSERT l BESIDE a y", "-ERR syntax error\r\n");
    session.check("LRANGE l 0 -1", &array(&["a", "b", "c"]));
}

#[test]
fn lrem_counts_from_the_end_its_sign_names() {
    let mut session = TestSession::new();
    session.check("RPUSH l a b a b a", ":5\r\n");
    session.check("LREM l -1 a", ":1\r\n");
    session.check("LRANGE l 0 -1", &array(&["a", "b", "a", "b"]));
    session.check("LREM l 1 b", ":1\r\n");
    session.check("LREM l 0 a", ":2\r\n");
    session.check("LREM l -9223372036854775808 b", ":1\r\n");
    session.check("LLEN l", ":0\r\n");
    session.check("LPUSHX l a", ":0\r\n");
}

#[test]
fn pops_with_a_count_reply_with_arrays() {
    let mut session = TestSession::new();
    session.check("LPOP l", "$-1\r\n");
    session.check("LPOP l 1", "*-1\r\n");
    session.check("LPOP l -1", "-ERR value is out of range, must be positive\r\n");
    session.check("LPOP l x", "-ERR value is out of range, must be positive\r\n");
    session.check(
        "LPOP l 1 2",
        "-ERR wrong number of arguments for 'lpop' command\r\n",
    );
    session.check("RPUSH l a b c d e", ":5\r\n");
    session.check("LPOP l 0", "*0\r\n");
    session.check("LPOP l", &bulk("a"));
    session.check("RPOP l 2", &array(&["e", "d"]));
    session.check("LPOP l 9", &array(&["b", "c"]));
    session.check("LLEN l", ":0\r\n");
}

#[test]
fn lpos_honours_rank_count_and_maxlen() {
    let mut session = TestSession::new();
    session.check("RPUSH l a b c 1 2 3 c c", ":8\r\n");
    session.check("LPOS l c", ":2\r\n");
    session.check("LPOS l c RANK 2", ":6\r\n");
    session.check("LPOS l c RANK -1", ":7\r\n");
    session.check("LPOS l c RANK 4", "$-1\r\n");
    session.check("LPOS l c COUNT 0", "*3\r\n:2\r\n:6\r\n:7\r\n");
    session.check("LPOS l c COUNT 2 RANK -1", "*2\r\n:7\r\n:6\r\n");
    session.check("LPOS l c COUNT 0 MAXLEN 7", "*2\r\n:2\r\n:6\r\n");
    session.check("LPOS l c COUNT 0 MAXLEN 3 RANK -2", "*1\r\n:6\r\n");
    session.check("LPOS l x COUNT 1", "*0\r\n");
    session.check("LPOS missing x COUNT 1", "*0\r\n");
    session.check("LPOS missing x", "$-1\r\n");
    session.check("LPOS l c COUNT -1", "-ERR COUNT can't be negative\r\n");
    session.check("LPOS l c MAXLEN x", "-ERR MAXLEN can't be negative\r\n");
    session.check("LPOS l c RANK", "-ERR syntax error\r\n");
    session.check(
        "LPOS l c RANK 0",
        "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
         or use negative to start from the end of the list\r\n",
    );
}

#[test]
fn lmpop_takes_from_the_first_list_that_exists() {
    let mut session = TestSession::new();
    session.check("LMPOP 2 a b LEFT", "*-1\r\n");
    session.check("RPUSH b 1 2 3", ":3\r\n");
    session.check(
        "LMPOP 2 a b RIGHT COUNT 2",
        "*2\r\n$1\r\nb\r\n*2\r\n$1\r\n3\r\n$1\r\n2\r\n",
    );
    session.check("LMPOP 0 a LEFT", "-ERR numkeys should be greater than 0\r\n");
    session.check(
        "LMPOP 1 b LEFT COUNT 0",
        "-ERR count should be greater than 0\r\n",
    );
    session.check("LMPOP 1 b LEFT COUNT 1 COUNT 1", "-ERR syntax error\r\n");
    session.check("LMPOP 9 b LEFT", "-ERR syntax error\r\n");
    session.check("LMPOP 1 b UP", "-ERR syntax error\r\n");
    session.check("SET s v", "+OK\r\n");
    session.check(
        "LMPOP 2 s b LEFT",
        "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
    );
}

#[test]
fn moving_within_one_list_turns_it_and_removes_emptied_ones() {
    let mut session = TestSession::new();
    session.check("RPUSH l a b c", ":3\r\n");
    session.check("RPOPLPUSH l l", &bulk("c"));
    session.check("LRANGE l 0 -1", &array(&["c", "a", "b"]));
    session.check("LMOVE l l LEFT RIGHT", &bulk("c"));
    session.check("RPUSH one x", ":1\r\n");
    session.check("LMOVE one one LEFT LEFT", &bulk("x"));
    session.check("LMOVE one l RIGHT LEFT", &bulk("x"));
    session.check("LPUSHX one y", ":0\r\n");
    session.check("LMOVE one l RIGHT LEFT", "$-1\r\n");
    session.check("LRANGE l 0 -1", &array(&["x", "a", "b", "c"]));
    session.check("SET s v", "+OK\r\n");
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    session.check("LMOVE l s LEFT LEFT", wrong);
    session.check("LMOVE s l LEFT LEFT", wrong);
    session.check("LMOVE missing s LEFT LEFT", "$-1\r\n");
    session.check("LLEN l", ":4\r\n");
}

#[test]
fn other_types_are_refused() {
    let mut session = TestSession::new();
    session.check("SET s v", "+OK\r\n");
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    for request in [
        "LPUSH s a",
        "RPUSHX s a",
        "LLEN s",
        "LINDEX s x",
        "LRANGE s 0 1",
        "LSET s x a",
        "LREM s 1 a",
        "LTRIM s 0 1",
        "LPOP s",
        "RPOP s 1",
        "LINSERT s BEFORE a b",
        "LPOS s a",
        "BLPOP s 0",
        "BLMOVE s d LEFT LEFT 0",
        "RPOPLPUSH s d",
    ] {
        session.check(request, wrong);
    }
}

#[test]
fn a_blocked_pop_is_served_by_the_next_push() {
    let mut pusher = TestSession::new();
    let mut waiter = pusher.another();
    waiter.check("BLPOP a b 0", "");
    pusher.check("RPUSH b 1 2", ":2\r\n");
    assert_eq!(unblocked(&mut waiter), array(&["b", "1"]));
    pusher.check("LRANGE b 0 -1", &array(&["2"]));
    waiter.check("BRPOP a b 0", &array(&["b", "2"]));
}

#[test]
fn waiters_are_served_in_the_order_they_came() {
    let mut pusher = TestSession::new();
    let (mut first, mut second, mut third) = (pusher.another(), pusher.another(), pusher.another());
    first.check("BLPOP l 0", "");
    second.check("BRPOP l 0", "");
    third.check("BLMPOP 0 1 l LEFT COUNT 5", "");
    pusher.check("RPUSH l a b", ":2\r\n");
    assert_eq!(unblocked(&mut first), array(&["l", "a"]));
    assert_eq!(unblocked(&mut second), array(&["l", "b"]));
    still_waits(&mut third);
    pusher.check("RPUSH l c d", ":2\r\n");
    assert_eq!(
        unblocked(&mut third),
        "*2\r\n$1\r\nl\r\n*2\r\n$1\r\nc\r\n$1\r\nd\r\n"
    );
    pusher.check("LLEN l", ":0\r\n");
}

#[test]
fn a_woken_pop_takes_from_the_key_that_woke_it() {
    let mut pusher = TestSession::new();
    let mut waiter = pusher.another();
    waiter.check("BLPOP a b 0", "");
    pusher.check("SET a string", "+OK\r\n");
    still_waits(&mut waiter);
    pusher.check("RPUSH b 1", ":1\r\n");
    assert_eq!(unblocked(&mut waiter), array(&["b", "1"]));

    pusher.check("GETDEL a", &bulk("string"));
    waiter.check("BLPOP a b 0", "");
    pusher.check("MULTI", "+OK\r\n");
    pusher.check("RPUSH b 2", "+QUEUED\r\n");
    pusher.check("RPUSH a 3", "+QUEUED\r\n");
    pusher.check("EXEC", "*2\r\n:1\r\n:1\r\n");
    assert_eq!(unblocked(&mut waiter), array(&["b", "2"]));
    pusher.check("LLEN a", ":1\r\n");
}

#[test]
fn a_list_gone_before_the_transaction_ends_wakes_nobody() {
    let mut pusher = TestSession::new();
    let mut waiter = pusher.another();
    waiter.check("BLPOP l 0", "");
    pusher.check("MULTI", "+OK\r\n");
    pusher.check("RPUSH l a", "+QUEUED\r\n");
    pusher.check("LPOP l", "+QUEUED\r\n");
    pusher.check("EXEC", "*2\r\n:1\r\n$1\r\na\r\n");
    still_waits(&mut waiter);
    pusher.check("RPUSH l b", ":1\r\n");
    assert_eq!(unblocked(&mut waiter), array(&["l", "b"]));
}

#[test]
fn blocked_moves_chain() {
    let mut pusher = TestSession::new();
    let (mut first, mut second) = (pusher.another(), pusher.another());
    first.check("BLMOVE a b LEFT RIGHT 0", "");
    second.check("BRPOPLPUSH b c 0", "");
    pusher.check("RPUSH a x", ":1\r\n");
    assert_eq!(unblocked(&mut first), bulk("x"));
    assert_eq!(unblocked(&mut second), bulk("x"));
    pusher.check("LRANGE c 0 -1", &array(&["x"]));
    pusher.check("LLEN a", ":0\r\n");
    pusher.check("LLEN b", ":0\r\n");
}

#[test]
fn a_blocked_move_to_another_type_fails_and_takes_nothing() {
    let mut pusher = TestSession::new();
    let mut waiter = pusher.another();
    pusher.check("SET d v", "+OK\r\n");
    waiter.check("BLMOVE s d LEFT LEFT 0", "");
    pusher.check("RPUSH s x", ":1\r\n");
    assert_eq!(
        unblocked(&mut waiter),
        "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
    );
    pusher.check("LRANGE s 0 -1", &array(&["x"]));
}

#[test]
fn inside_a_transaction_nobody_waits() {
    let mut session = TestSession::new();
    session.check("MULTI", "+OK\r\n");
    for request in [
        "BLPOP l 0",
        "BLMPOP 0 1 l LEFT",
        "BLMOVE l d LEFT LEFT 0",
        "BRPOPLPUSH l d 0",
    ] {
        session.check(request, "+QUEUED\r\n");
    }
    session.check("EXEC", "*4\r\n*-1\r\n*-1\r\n$-1\r\n$-1\r\n");
    assert!(!session.client.is_blocked());
}

#[test]
fn timeouts_are_fractions_of_seconds() {
    let mut session = TestSession::new();
    session.check("BLPOP l -1", "-ERR timeout is negative\r\n");
    session.check("BLPOP l x", "-ERR timeout is not a float or out of range\r\n");
    session.check(
        "BLMOVE l d LEFT LEFT nan",
        "-ERR timeout is not a float or out of range\r\n",
    );
    session.check("BLMPOP -1 1 l LEFT", "-ERR timeout is negative\r\n");
    session.check("BRPOP l 0.0015", "");
    let now_ms = 1_700_000_000_000;
    assert_eq!(session.client.block_deadline_ms(), Some(now_ms + 2));
}

#[test]
fn a_timeout_past_64_bits_is_called_negative() {
    let mut session = TestSession::new();
    for timeout in ["1e30", "inf", "9223372036854776"] {
        session.check(&format!("BLPOP l {timeout}"), "-ERR timeout is negative\r\n");
    }
}
