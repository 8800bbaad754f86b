use nagaya_connections::client::Message;

use crate::testing::TestSession;

fn array(items: &[&str]) -> String {
    let items: String = items
        .iter()
        .map(|item| format!("${}\r\n{item}\r\n", item.len()))
        .collect();
    format!("*{}\r\n{items}", items.matches('$').count())
}

fn filled(pairs: &str) -> TestSession {
    let mut session = TestSession::new();
    session.check(
        &format!("ZADD z {pairs}"),
        &format!(":{}\r\n", pairs.split(' ').count() / 2),
    );
    session
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
fn options_that_contradict_each_other_are_refused() {
    let mut session = TestSession::new();
    let pairs = "-ERR GT, LT, and/or NX options at the same time are not compatible\r\n";
    session.check(
        "ZADD z NX XX 1 a",
        "-ERR XX and NX options at the same time are not compatible\r\n",
    );
    session.check("ZADD z GT LT 1 a", pairs);
    session.check("ZADD z NX GT 1 a", pairs);
    session.check(
        "ZADD z INCR 1 a 2 b",
        "-ERR INCR option supports a single increment-element pair\r\n",
    );
    session.check("ZADD z 1 a 2", "-ERR syntax error\r\n");
    session.check("ZADD z 1 a x b", "-ERR value is not a valid float\r\n");
    session.check("ZCARD z", ":0\r\n");
}

#[test]
fn a_sum_that_is_no_number_leaves_the_member_alone() {
    let mut session = filled("inf a");
    session.check(
        "ZINCRBY z -inf a",
        "-ERR resulting score is not a number (NaN)\r\n",
    );
    session.check("ZSCORE z a", "$3\r\ninf\r\n");
}

#[test]
fn gt_and_lt_with_incr_reply_nil_when_nothing_changed() {
    let mut session = filled("28 x");
    session.check("ZADD z LT INCR 1 x", "$-1\r\n");
    session.check("ZADD z LT INCR -1 x", "$2\r\n27\r\n");
    session.check("ZADD z GT INCR -1 x", "$-1\r\n");
    session.check("ZADD z GT INCR 1 x", "$2\r\n28\r\n");
    session.check("ZADD missing XX INCR 1 x", "$-1\r\n");
    session.check("ZCARD missing", ":0\r\n");
}

#[test]
fn bounds_are_read_as_loosely_as_redis_reads_them() {
    let mut session = filled("-1 a 0 b 1 c 2 d");
    let run = |session: &mut TestSession, min: &str, max: &str| {
        let reply = session.run(&[b"ZRANGEBYSCORE", b"z", min.as_bytes(), max.as_bytes()]);
        String::from_utf8_lossy(&reply).into_owned()
    };
    assert_eq!(run(&mut session, "", "(2"), array(&["b", "c"]));
    assert_eq!(run(&mut session, " 1", "1e999"), array(&["c", "d"]));
    assert_eq!(run(&mut session, "(", "5\0x"), array(&["c", "d"]));
    assert_eq!(run(&mut session, "0x1", "2"), array(&["c", "d"]));
    for bad in ["1 ", " ", "nan", "x", "((1"] {
        assert_eq!(
            run(&mut session, bad, "2"),
            "-ERR min or max is not a float\r\n",
            "{bad:?}"
        );
    }
}

#[test]
fn a_negative_offset_selects_nothing_and_a_negative_limit_everything() {
    let mut session = filled("1 a 2 b 3 c");
    session.check("ZRANGEBYSCORE z -inf +inf LIMIT -1 2", "*0\r\n");
    session.check("ZRANGEBYSCORE z -inf +inf LIMIT 1 -7", &array(&["b", "c"]));
    session.check("ZREVRANGEBYSCORE z +inf -inf LIMIT 1 1", &array(&["b"]));
    session.check("ZRANGE z 0 -1 LIMIT 0 -1", &array(&["a", "b", "c"]));
}

#[test]
fn removing_the_last_member_removes_the_key() {
    let mut session = filled("1 a 2 b");
    session.check("ZREM z a b c", ":2\r\n");
    session.check("GET z", "$-1\r\n");
    session.check("ZADD z 1 a", ":1\r\n");
    session.check("ZREMRANGEBYRANK z 0 -1", ":1\r\n");
    session.check("GET z", "$-1\r\n");
    session.check("ZADD z 1 a", ":1\r\n");
    session.check("ZPOPMAX z 5", &array(&["a", "1"]));
    session.check("GET z", "$-1\r\n");
}

#[test]
fn storing_an_empty_result_removes_the_destination() {
    let mut session = filled("1 a");
    session.check("SET d x", "+OK\r\n");
    session.check("ZINTERSTORE d 2 z missing", ":0\r\n");
    session.check("GET d", "$-1\r\n");
    session.check("SET d x", "+OK\r\n");
    session.check("ZRANGESTORE d z 5 9", ":0\r\n");
    session.check("GET d", "$-1\r\n");
}

#[test]
fn opposite_infinities_and_zero_weights_add_up_to_zero() {
    let mut session = filled("inf a");
    session.check("ZADD y -inf a", ":1\r\n");
    session.check("ZUNION 2 z y WITHSCORES", &array(&["a", "0"]));
    session.check("ZINTER 2 z y WITHSCORES", &array(&["a", "0"]));
    session.check("ZUNION 1 z WEIGHTS 0 WITHSCORES", &array(&["a", "0"]));
}

/// Found by the comparison with Redis: a large result never passes through the small form.
#[test]
fn a_stored_difference_of_a_large_set_keeps_its_negative_zero() {
    let mut session = TestSession::new();
    for n in 0..200 {
        session.check(&format!("ZADD z {n} m{n}"), ":1\r\n");
    }
    session.check("ZADD z -0 minus", ":1\r\n");
    session.check("ZDIFFSTORE d 1 z", ":201\r\n");
    session.check("ZSCORE d minus", "$2\r\n-0\r\n");
    session.check("ZRANGESTORE d z 0 -1", ":201\r\n");
    session.check("ZSCORE d minus", "$2\r\n-0\r\n");
}

/// Found by the comparison with Redis: members go in highest first, so those
/// after the first long one find the large form already there.
#[test]
fn a_reversed_range_is_stored_from_its_high_end() {
    let mut session = TestSession::new();
    let long = "long".repeat(17);
    session.check(&format!("ZADD z 5 {long} 1 a -0 minus"), ":3\r\n");
    session.check("ZRANGESTORE d z 0 -1 REV", ":3\r\n");
    session.check("ZSCORE d minus", "$2\r\n-0\r\n");
}

#[test]
fn random_members_repeat_only_when_asked_to() {
    let mut session = TestSession::new();
    for n in 0..150 {
        session.check(&format!("ZADD z {n} m{n}"), ":1\r\n");
    }
    for (count, members) in [(10, 10), (100, 100), (150, 150), (500, 150)] {
        let reply = session.run(&[b"ZRANDMEMBER", b"z", count.to_string().as_bytes()]);
        let text = String::from_utf8(reply).expect("members are text");
        let distinct: std::collections::BTreeSet<&str> =
            text.split("\r\n").filter(|part| part.starts_with('m')).collect();
        assert_eq!(distinct.len(), members);
        assert!(text.starts_with(&format!("*{members}\r\n")));
    }
    let reply = session.run(&[b"ZRANDMEMBER", b"z", b"-400", b"WITHSCORES"]);
    assert!(reply.starts_with(b"*800\r\n"));
    session.check(
        "ZRANDMEMBER z 4611686018427387904 WITHSCORES",
        "-ERR value is out of range\r\n",
    );
    session.check("ZRANDMEMBER missing 5", "*0\r\n");
    session.check("ZRANDMEMBER missing", "$-1\r\n");
}

#[test]
fn a_waiting_client_gets_the_first_member_that_comes() {
    let mut session = TestSession::new();
    let mut waiting = session.another();
    waiting.check("BZPOPMIN a z a 0", "");
    still_waits(&mut waiting);
    session.check("ZADD z 2 two 1 one", ":2\r\n");
    assert_eq!(unblocked(&mut waiting), array(&["z", "one", "1"]));
    session.check("ZRANGE z 0 -1", &array(&["two"]));
    waiting.check("BZPOPMAX z 0", &array(&["z", "two", "2"]));
}

#[test]
fn what_is_gone_again_at_the_end_of_a_transaction_wakes_nobody() {
    let mut session = TestSession::new();
    let mut waiting = session.another();
    waiting.check("BZMPOP 0 1 z MIN COUNT 10", "");
    session.check("MULTI", "+OK\r\n");
    session.check("ZADD z 0 foo", "+QUEUED\r\n");
    session.check("GETDEL other", "+QUEUED\r\n");
    session.check("ZREM z foo", "+QUEUED\r\n");
    session.check("SET z text", "+QUEUED\r\n");
    session.check("EXEC", "*4\r\n:1\r\n$-1\r\n:1\r\n+OK\r\n");
    still_waits(&mut waiting);
    session.check("GETDEL z", "$4\r\ntext\r\n");
    session.check("ZADD z 1 a 2 b", ":2\r\n");
    let pairs = "*2\r\n$1\r\nz\r\n*2\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n";
    assert_eq!(unblocked(&mut waiting), pairs);
}

#[test]
fn waiting_clients_are_served_in_the_order_they_came() {
    let mut session = TestSession::new();
    let (mut first, mut second, mut third) = (session.another(), session.another(), session.another());
    first.check("BZMPOP 0 2 z y MIN COUNT 1", "");
    second.check("BZPOPMAX z 0", "");
    third.check("BZPOPMIN z y 0", "");
    session.check("ZADD z 1 a 2 b 3 c", ":3\r\n");
    assert_eq!(
        unblocked(&mut first),
        "*2\r\n$1\r\nz\r\n*1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n"
    );
    assert_eq!(unblocked(&mut second), array(&["z", "c", "3"]));
    assert_eq!(unblocked(&mut third), array(&["z", "b", "2"]));
    session.check("GET z", "$-1\r\n");
}

#[test]
fn a_key_that_turns_into_text_does_not_fail_a_client_already_waiting() {
    let mut session = TestSession::new();
    let (mut first, mut second) = (session.another(), session.another());
    first.check("BZPOPMIN a z 0", "");
    second.check("BZMPOP 0 2 a z MAX", "");
    session.check("SET a text", "+OK\r\n");
    still_waits(&mut first);
    session.check("ZADD z 1 x 2 y", ":2\r\n");
    assert_eq!(unblocked(&mut first), array(&["z", "x", "1"]));
    assert_eq!(
        unblocked(&mut second),
        "*2\r\n$1\r\nz\r\n*1\r\n*2\r\n$1\r\ny\r\n$1\r\n2\r\n"
    );
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    first.check("BZPOPMIN a z 0", wrong);
}

#[test]
fn stored_results_wake_waiting_clients() {
    let mut session = filled("1 a");
    let mut waiting = session.another();
    waiting.check("BZPOPMIN d 0", "");
    session.check("ZUNIONSTORE d 1 z", ":1\r\n");
    assert_eq!(unblocked(&mut waiting), array(&["d", "a", "1"]));
}

#[test]
fn ranks_come_with_their_scores_when_asked_for() {
    let mut session = TestSession::new();
    session.check("ZADD z 1 a 2.5 b 3 c", ":3\r\n");
    session.check("ZRANK z b WITHSCORE", "*2\r\n:1\r\n$3\r\n2.5\r\n");
    session.check("ZREVRANK z a withscore", "*2\r\n:2\r\n$1\r\n1\r\n");
    session.check("ZRANK z nobody WITHSCORE", "*-1\r\n");
    session.check("ZRANK none a WITHSCORE", "*-1\r\n");
    session.check("ZRANK z nobody", "$-1\r\n");
    session.check("ZRANK z a SCORES", "-ERR syntax error\r\n");
    session.check(
        "ZRANK z a WITHSCORE x",
        "-ERR wrong number of arguments for 'zrank' command\r\n",
    );
    session.text("HELLO 3");
    session.check("ZRANK z b WITHSCORE", "*2\r\n:1\r\n,2.5\r\n");
    session.check("ZRANK z nobody WITHSCORE", "_\r\n");
}
