use std::collections::BTreeSet;

use nagaya_resp::Proto;

use crate::testing::TestSession;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

fn run(session: &mut TestSession, request: &str) -> String {
    let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    String::from_utf8(session.run(&args)).expect("ascii")
}

fn with_sets(sets: &[&str]) -> TestSession {
    let mut session = TestSession::new();
    for set in sets {
        run(&mut session, &format!("SADD {set}"));
    }
    session
}

/// The bulk strings of a reply.
fn members(reply: &str) -> BTreeSet<&str> {
    reply
        .split("\r\n")
        .filter(|line| !line.is_empty() && !line.starts_with(['$', '*', '~']))
        .collect()
}

#[test]
fn a_missing_set_reads_as_an_empty_one() {
    let mut session = TestSession::new();
    session.check("SMEMBERS s", "*0\r\n");
    session.check("SISMEMBER s a", ":0\r\n");
    session.check("SMISMEMBER s a b", "*2\r\n:0\r\n:0\r\n");
    session.check("SCARD s", ":0\r\n");
    session.check("SREM s a", ":0\r\n");
    session.check("SPOP s", "$-1\r\n");
    session.check("SPOP s 3", "*0\r\n");
    session.check("SRANDMEMBER s", "$-1\r\n");
    session.check("SRANDMEMBER s -3", "*0\r\n");
    session.check("SSCAN s 5 what", "*2\r\n$1\r\n0\r\n*0\r\n");
    session.check("SINTER s t", "*0\r\n");
    session.check("SMOVE s t a", ":0\r\n");
}

#[test]
fn every_command_refuses_another_type() {
    let mut session = with_sets(&["s a"]);
    session.check("SET k v", "+OK\r\n");
    for request in [
        "SADD k a",
        "SREM k a",
        "SISMEMBER k a",
        "SMISMEMBER k a",
        "SMEMBERS k",
        "SCARD k",
        "SPOP k",
        "SPOP k 1",
        "SRANDMEMBER k",
        "SRANDMEMBER k 1",
        "SMOVE k s a",
        "SMOVE s k a",
        "SINTER missing k",
        "SINTERCARD 2 s k",
        "SINTERSTORE d missing k",
        "SUNION s k",
        "SUNIONSTORE d k",
        "SDIFF missing k",
        "SDIFFSTORE d s k",
        "SSCAN k 0",
    ] {
        session.check(request, WRONG_TYPE);
    }
    session.check("SMOVE missing k a", ":0\r\n");
}

#[test]
fn members_are_sets_in_resp3_and_integers_sorted() {
    let mut session = with_sets(&["s 3 1 2"]);
    session.check("SMEMBERS s", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
    session.client.set_proto(Proto::Resp3);
    session.check("SMEMBERS s", "~3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
    session.check("SINTER s s", "~3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
    session.check("SMEMBERS missing", "~0\r\n");
    session.check("SPOP s 5", "~3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
    session.check("SRANDMEMBER s 5", "*0\r\n");
}

#[test]
fn removing_the_last_member_removes_the_key() {
    let mut session = with_sets(&["s a b", "t a"]);
    session.check("SREM s a b c", ":2\r\n");
    session.check("SET s v NX", "+OK\r\n");
    session.check("SPOP t", "$1\r\na\r\n");
    session.check("SET t v NX", "+OK\r\n");
}

#[test]
fn smove_moves_once_and_to_itself_does_nothing() {
    let mut session = with_sets(&["s a b", "t b"]);
    session.check("SMOVE s s a", ":1\r\n");
    session.check("SMOVE s s x", ":0\r\n");
    session.check("SMOVE s t a", ":1\r\n");
    session.check("SMOVE s t a", ":0\r\n");
    session.check("SMOVE s t b", ":1\r\n");
    session.check("SCARD s", ":0\r\n");
    session.check("SCARD t", ":2\r\n");
}

#[test]
fn algebra_gives_the_right_members() {
    let mut session = with_sets(&["a 1 2 3 x", "b 2 3 4 x y", "c 3 x z"]);
    assert_eq!(
        members(&run(&mut session, "SINTER a b c")),
        BTreeSet::from(["3", "x"])
    );
    assert_eq!(
        members(&run(&mut session, "SUNION a c missing")),
        BTreeSet::from(["1", "2", "3", "x", "z"])
    );
    assert_eq!(
        members(&run(&mut session, "SDIFF a c")),
        BTreeSet::from(["1", "2"])
    );
    assert_eq!(
        members(&run(&mut session, "SDIFF b a c")),
        BTreeSet::from(["4", "y"])
    );
    session.check("SDIFF a b a", "*0\r\n");
    session.check("SDIFF missing a", "*0\r\n");
    session.check("SINTER a missing", "*0\r\n");
}

#[test]
fn a_difference_with_many_small_sets_is_the_same_either_way() {
    let mut session = TestSession::new();
    let many: Vec<String> = (0..200).map(|n| format!("m{n}")).collect();
    run(&mut session, &format!("SADD large {}", many.join(" ")));
    let mut keys = Vec::new();
    for n in 0..10 {
        run(&mut session, &format!("SADD small{n} m{n} other"));
        keys.push(format!("small{n}"));
    }
    session.check(&format!("SDIFFSTORE d large {}", keys.join(" ")), ":190\r\n");
    session.check("SISMEMBER d m9", ":0\r\n");
    session.check("SISMEMBER d m10", ":1\r\n");
}

#[test]
fn an_empty_result_removes_the_destination_of_any_type() {
    let mut session = with_sets(&["a 1", "b 2"]);
    for request in ["SINTERSTORE d a b", "SDIFFSTORE d a a", "SUNIONSTORE d missing"] {
        session.check("SET d v", "+OK\r\n");
        session.check(request, ":0\r\n");
        session.check("GET d", "$-1\r\n");
    }
    session.check("SET d v", "+OK\r\n");
    session.check("SUNIONSTORE d a b", ":2\r\n");
    session.check("SMEMBERS d", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    session.check("SUNIONSTORE a a b", ":2\r\n");
}

#[test]
fn sintercard_counts_up_to_its_limit() {
    let mut session = with_sets(&["a 1 2 3", "b 2 3 4"]);
    session.check("SINTERCARD 2 a b", ":2\r\n");
    session.check("SINTERCARD 2 a b LIMIT 1", ":1\r\n");
    session.check("SINTERCARD 2 a b limit 0", ":2\r\n");
    session.check("SINTERCARD 1 a LIMIT 10", ":3\r\n");
    session.check("SINTERCARD 0 a", "-ERR numkeys should be greater than 0\r\n");
    session.check("SINTERCARD x a", "-ERR numkeys should be greater than 0\r\n");
    session.check(
        "SINTERCARD 3 a b",
        "-ERR Number of keys can't be greater than number of args\r\n",
    );
    session.check("SINTERCARD 1 a b", "-ERR syntax error\r\n");
    session.check("SINTERCARD 1 a LIMIT", "-ERR syntax error\r\n");
    session.check("SINTERCARD 1 a LIMIT -1", "-ERR LIMIT can't be negative\r\n");
    session.check("SINTERCARD 1 a LIMIT x", "-ERR LIMIT can't be negative\r\n");
}

#[test]
fn spop_takes_each_member_once_however_many_are_asked_for() {
    for (size, count) in [(10, 3), (100, 95), (1_000, 990), (1_000, 10), (5, 5), (5, 9)] {
        let mut session = TestSession::new();
        let all: Vec<String> = (0..size).map(|n| format!("m{n}")).collect();
        run(&mut session, &format!("SADD s {}", all.join(" ")));
        let popped = run(&mut session, &format!("SPOP s {count}"));
        let left = run(&mut session, "SMEMBERS s");
        let (popped, left) = (members(&popped), members(&left));
        assert_eq!(popped.len(), count.min(size));
        assert!(popped.is_disjoint(&left));
        assert_eq!(popped.len() + left.len(), size);
    }
}

#[test]
fn spop_and_srandmember_check_their_arguments() {
    let mut session = with_sets(&["s a"]);
    session.check("SPOP s -1", "-ERR value is out of range, must be positive\r\n");
    session.check("SPOP s x", "-ERR value is out of range, must be positive\r\n");
    session.check("SPOP s 1 2", "-ERR syntax error\r\n");
    session.check("SPOP s 0", "*0\r\n");
    session.check(
        "SRANDMEMBER s x",
        "-ERR value is not an integer or out of range\r\n",
    );
    session.check("SRANDMEMBER s 1 2", "-ERR syntax error\r\n");
    session.check("SRANDMEMBER s -2", "*2\r\n$1\r\na\r\n$1\r\na\r\n");
    session.check("SCARD s", ":1\r\n");
}

#[test]
fn srandmember_never_repeats_a_member_for_a_positive_count() {
    for numbers in [false, true] {
        let mut session = TestSession::new();
        let all: Vec<String> = (0..200)
            .map(|n| if numbers { n.to_string() } else { format!("m{n}") })
            .collect();
        run(&mut session, &format!("SADD s {}", all.join(" ")));
        for count in [1, 10, 150, 200, 300] {
            let reply = run(&mut session, &format!("SRANDMEMBER s {count}"));
            assert_eq!(members(&reply).len(), count.min(200));
        }
    }
}

#[test]
fn sscan_walks_a_large_set_in_steps() {
    let mut session = TestSession::new();
    let all: Vec<String> = (0..1_000).map(|n| format!("m{n}")).collect();
    run(&mut session, &format!("SADD s {}", all.join(" ")));
    let (mut cursor, mut seen, mut calls) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let reply = run(&mut session, &format!("SSCAN s {cursor} COUNT 20"));
        let mut lines = reply.split("\r\n").skip(2);
        cursor = lines.next().expect("a cursor").to_owned();
        seen.extend(lines.filter(|line| line.starts_with('m')).map(str::to_owned));
        calls += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 1_000);
    assert!((20..=51).contains(&calls), "{calls}");
}

#[test]
fn sscan_matches_integers_by_their_text() {
    let mut session = with_sets(&["s 1 10 100 2"]);
    session.check(
        "SSCAN s 0 MATCH 1*",
        "*2\r\n$1\r\n0\r\n*3\r\n$1\r\n1\r\n$2\r\n10\r\n$3\r\n100\r\n",
    );
}
