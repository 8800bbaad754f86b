use nagaya_resp::Proto;

use crate::testing::TestSession;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

fn with_hash(fields: &str) -> TestSession {
    let mut session = TestSession::new();
    session.run(
        &format!("HSET h {fields}")
            .split(' ')
            .map(str::as_bytes)
            .collect::<Vec<_>>(),
    );
    session
}

#[test]
fn hset_counts_new_fields_and_hmset_says_ok() {
    let mut session = TestSession::new();
    session.check("HSET h a 1 b 2", ":2\r\n");
    session.check("HSET h a 3 c 4", ":1\r\n");
    session.check("HMSET h a 5", "+OK\r\n");
    session.check(
        "HMGET h a b c d",
        "*4\r\n$1\r\n5\r\n$1\r\n2\r\n$1\r\n4\r\n$-1\r\n",
    );
    session.check(
        "HSET h a 1 b",
        "-ERR wrong number of arguments for 'hset' command\r\n",
    );
    session.check(
        "HMSET h a 1 b",
        "-ERR wrong number of arguments for 'hmset' command\r\n",
    );
}

#[test]
fn a_missing_hash_reads_as_an_empty_one() {
    let mut session = TestSession::new();
    session.check("HGET h f", "$-1\r\n");
    session.check("HMGET h f g", "*2\r\n$-1\r\n$-1\r\n");
    session.check("HGETALL h", "*0\r\n");
    session.check("HLEN h", ":0\r\n");
    session.check("HSTRLEN h f", ":0\r\n");
    session.check("HEXISTS h f", ":0\r\n");
    session.check("HDEL h f", ":0\r\n");
    session.check("HSCAN h 0 COUNT x", "*2\r\n$1\r\n0\r\n*0\r\n");
    session.check("HRANDFIELD h", "$-1\r\n");
    session.check("HRANDFIELD h 3", "*0\r\n");
}

#[test]
fn hscan_leaves_values_out_when_asked_to() {
    let mut session = with_hash("a 1 b 2");
    session.check(
        "HSCAN h 0 NOVALUES",
        "*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    );
    session.check(
        "HSCAN h 0 MATCH b novalues COUNT 5",
        "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nb\r\n",
    );
    session.check("SADD s m", ":1\r\n");
    session.check("SSCAN s 0 NOVALUES", "-ERR syntax error\r\n");
}

#[test]
fn every_command_refuses_another_type() {
    let mut session = TestSession::new();
    session.check("SET s v", "+OK\r\n");
    for request in [
        "HSET s f v",
        "HSETNX s f v",
        "HGET s f",
        "HMGET s f",
        "HGETALL s",
        "HKEYS s",
        "HVALS s",
        "HLEN s",
        "HSTRLEN s f",
        "HEXISTS s f",
        "HDEL s f",
        "HINCRBY s f 1",
        "HINCRBYFLOAT s f 1",
        "HSCAN s 0",
        "HRANDFIELD s",
        "HRANDFIELD s 1",
    ] {
        session.check(request, WRONG_TYPE);
    }
}

#[test]
fn hgetall_is_a_map_in_resp3_in_the_order_of_arrival() {
    let mut session = with_hash("b 1 a x");
    session.check("HGETALL h", "*4\r\n$1\r\nb\r\n$1\r\n1\r\n$1\r\na\r\n$1\r\nx\r\n");
    session.client.set_proto(Proto::Resp3);
    session.check("HGETALL h", "%2\r\n$1\r\nb\r\n$1\r\n1\r\n$1\r\na\r\n$1\r\nx\r\n");
    session.check("HKEYS h", "*2\r\n$1\r\nb\r\n$1\r\na\r\n");
    session.check("HVALS h", "*2\r\n$1\r\n1\r\n$1\r\nx\r\n");
}

#[test]
fn hdel_of_the_last_field_removes_the_key() {
    let mut session = with_hash("a 1 b 2");
    session.check("HDEL h a a x", ":1\r\n");
    session.check("HDEL h b b", ":1\r\n");
    session.check("SET h v NX", "+OK\r\n");
}

#[test]
fn hincrby_stops_at_the_ends_and_at_text() {
    let mut session = with_hash("max 9223372036854775807 text x");
    session.check("HINCRBY h new -3", ":-3\r\n");
    session.check(
        "HINCRBY h max 1",
        "-ERR increment or decrement would overflow\r\n",
    );
    session.check("HINCRBY h text 1", "-ERR hash value is not an integer\r\n");
    session.check(
        "HINCRBY h new 1.5",
        "-ERR value is not an integer or out of range\r\n",
    );
    session.check("HGET h max", "$19\r\n9223372036854775807\r\n");
}

#[test]
fn hincrbyfloat_adds_as_a_long_double_does() {
    let mut session = with_hash("f 0.1 big 17179869184 text x");
    session.check("HINCRBYFLOAT h f 0.2", "$3\r\n0.3\r\n");
    session.check("HINCRBYFLOAT h big 1.5", "$13\r\n17179869185.5\r\n");
    session.check("HINCRBYFLOAT h new 1e3", "$4\r\n1000\r\n");
    session.check("HINCRBYFLOAT h new x", "-ERR value is not a valid float\r\n");
    session.check("HINCRBYFLOAT h new inf", "-ERR value is NaN or Infinity\r\n");
    session.check("HINCRBYFLOAT h text 1", "-ERR hash value is not a float\r\n");
    session.check("HSET h inf inf", ":1\r\n");
    session.check(
        "HINCRBYFLOAT h inf 1",
        "-ERR increment would produce NaN or Infinity\r\n",
    );
}

#[test]
fn hrandfield_checks_its_arguments_in_order() {
    let mut session = with_hash("a 1");
    session.check(
        "HRANDFIELD h x",
        "-ERR value is not an integer or out of range\r\n",
    );
    session.check(
        "HRANDFIELD h -9223372036854775808",
        "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807\r\n",
    );
    session.check("HRANDFIELD h 1 what", "-ERR syntax error\r\n");
    session.check("HRANDFIELD h 1 WITHVALUES x", "-ERR syntax error\r\n");
    session.check(
        "HRANDFIELD h -9223372036854770000 WITHVALUES",
        "-ERR value is out of range\r\n",
    );
    session.check("HRANDFIELD h", "$1\r\na\r\n");
    session.check("HRANDFIELD h 0", "*0\r\n");
    session.check(
        "HRANDFIELD h -2 withvalues",
        "*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\na\r\n$1\r\n1\r\n",
    );
    session.client.set_proto(Proto::Resp3);
    session.check("HRANDFIELD h 5 WITHVALUES", "*1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n");
}

#[test]
fn hrandfield_never_repeats_a_field_for_a_positive_count() {
    for fields in [20, 1_000] {
        let mut session = TestSession::new();
        for n in 0..fields {
            session.check(&format!("HSET h f{n} {n}"), ":1\r\n");
        }
        for count in [1, 5, 19] {
            let reply = session.run(&[b"HRANDFIELD", b"h", count.to_string().as_bytes()]);
            let text = String::from_utf8(reply).expect("ascii");
            let mut names: Vec<&str> = text.split("\r\n").filter(|line| line.starts_with('f')).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}

#[test]
fn hscan_of_a_small_hash_returns_it_whole() {
    let mut session = with_hash("a 1 b 2 c 3");
    session.check(
        "HSCAN h 0 MATCH [ac] COUNT 1",
        "*2\r\n$1\r\n0\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nc\r\n$1\r\n3\r\n",
    );
    session.check("HSCAN h x", "-ERR invalid cursor\r\n");
    session.check("HSCAN h 0 COUNT 0", "-ERR syntax error\r\n");
    session.check("HSCAN h 0 COUNT", "-ERR syntax error\r\n");
    session.check("HSCAN h 0 TYPE hash", "-ERR syntax error\r\n");
    session.check(
        "HSCAN h 0 COUNT y",
        "-ERR value is not an integer or out of range\r\n",
    );
}

#[test]
fn hsetnx_leaves_what_is_there() {
    let mut session = TestSession::new();
    session.check("HSETNX h f 1", ":1\r\n");
    session.check("HSETNX h f 2", ":0\r\n");
    session.check("HGET h f", "$1\r\n1\r\n");
}
