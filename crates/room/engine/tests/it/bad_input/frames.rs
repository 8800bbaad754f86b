//! Requests that break the protocol.

use std::io::Write;

use nagaya_engine::used_bytes;

use crate::harness::*;

#[test]
fn lengths_beyond_the_limits_are_refused_as_by_redis() {
    let both = Both::start();
    let check = |bytes: &str, expected: &str| {
        assert_eq!(
            both.same(bytes.as_bytes()),
            format!("-ERR Protocol error: {expected}\r\n")
        );
    };
    check("*2147483648\r\n", "invalid multibulk length");
    check("*9223372036854775808\r\n", "invalid multibulk length");
    check("*abc\r\n", "invalid multibulk length");
    check("*1 \r\n", "invalid multibulk length");
    check("*\r\n", "invalid multibulk length");
    check("*1\r\n$536870913\r\n", "invalid bulk length");
    check("*1\r\n$9223372036854775808\r\n", "invalid bulk length");
    check("*1\r\n$-1\r\n", "invalid bulk length");
    check("*1\r\n$abc\r\n", "invalid bulk length");
    check("*1\r\n$\r\n", "invalid bulk length");
    check("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n:1\r\n", "expected '$', got ':'");
    check("*1\r\nPING\r\n", "expected '$', got 'P'");
    still_serves(&both.ours);
}

#[test]
fn our_own_limit_of_arguments_has_redis_words() {
    let engine = engine();
    let answer = exchange(engine.tcp_address(), b"*1048577\r\n");
    assert_eq!(answer, b"-ERR Protocol error: invalid multibulk length\r\n");
}

#[test]
fn lines_without_an_end_are_cut_off() {
    let both = Both::start();
    let digits = "1".repeat(70_000);
    let check = |bytes: String, expected: &str| {
        assert_eq!(
            both.same(bytes.as_bytes()),
            format!("-ERR Protocol error: {expected}\r\n")
        );
    };
    check(format!("*{digits}"), "too big mbulk count string");
    check(format!("*1\r\n${digits}"), "too big bulk count string");
    check(format!("SET key {digits}"), "too big inline request");
}

#[test]
fn nested_arrays_are_no_requests() {
    let both = Both::start();
    let nested = "*1\r\n".repeat(10_000);
    assert_eq!(
        both.same(nested.as_bytes()),
        "-ERR Protocol error: expected '$', got '*'\r\n"
    );
    still_serves(&both.ours);
}

#[test]
fn empty_requests_are_passed_over() {
    let both = Both::start();
    assert_eq!(both.same(b"*0\r\n*-1\r\n*-7\r\n\r\n\r\nPING\r\n"), "+PONG\r\n");
}

#[test]
fn inline_requests_are_split_as_by_redis() {
    let both = Both::start();
    let lines = [
        "PING\r\n",
        "ping\n",
        "  PING  \r\n",
        "ECHO \"a\\x00\\n\\\"b\"\r\n",
        "ECHO 'it\\'s'\r\n",
        "ECHO \"\"\r\n",
        "ECHO \"open\r\n",
        "ECHO \"a\"b\r\n",
        "ECHO 'a\r\n",
        "NOSUCH one two\r\n",
        "GET\r\n",
        "SET k v\r\nGET k\r\nDEL k\r\n",
        "+OK\r\n",
        "-ERR\r\n",
        ":1\r\n",
        "$3\r\nabc\r\n",
        "\u{ff}\u{fe}\r\n",
    ];
    for line in lines {
        both.same(line.as_bytes());
    }
    still_serves(&both.ours);
}

#[test]
fn a_web_browser_is_shown_the_door() {
    let both = Both::start();
    let rest = "Host: localhost\r\n\r\nSET stolen 1\r\n";
    assert_eq!(both.same(format!("POST / HTTP/1.1\r\n{rest}").as_bytes()), "");
    // Redis forgets the reply to the first line as well.
    let answer = exchange(
        both.ours.tcp_address(),
        format!("GET / HTTP/1.1\r\n{rest}").as_bytes(),
    );
    assert_eq!(answer, b"-ERR wrong number of arguments for 'get' command\r\n");
    assert_eq!(ask(&mut client(&both.ours), &["EXISTS", "stolen"]).int(), 0);
}

#[test]
fn requests_cut_off_anywhere_do_no_harm() {
    let both = Both::start();
    let whole = [
        request(&["ECHO", "abc"]),
        request(&["SET", "key", "value"]),
        b"PING\r\n".to_vec(),
    ]
    .concat();
    for end in 0..=whole.len() {
        both.same(&whole[..end]);
    }
    still_serves(&both.ours);
}

#[test]
fn random_bytes_never_stop_the_engine() {
    let engine = engine();
    // A fixed sequence, so that a failure repeats.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let pieces: [&[u8]; 12] = [
        b"*",
        b"$",
        b"\r\n",
        b"1",
        b"-",
        b"3",
        b"SET",
        b" ",
        b"\"",
        b"\0",
        b"\xff",
        b"*2\r\n$4\r\nECHO\r\n",
    ];
    for _ in 0..300 {
        let mut bytes = Vec::new();
        for _ in 0..random() % 60 {
            match random() % 4 {
                0 => bytes.push(random() as u8),
                _ => bytes.extend_from_slice(pieces[random() as usize % pieces.len()]),
            }
        }
        exchange(engine.tcp_address(), &bytes);
    }
    still_serves(&engine);
}

#[test]
fn claimed_lengths_take_no_memory() {
    let engine = engine();
    let before = used_bytes();
    let open: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = connect(engine.tcp_address());
            stream
                .write_all(b"*1000000\r\n$3\r\nSET\r\n$536870912\r\nabc")
                .unwrap();
            stream
        })
        .collect();
    still_serves(&engine);
    // They claim 50 GB. Other tests of this process may hold some memory meanwhile.
    assert!(used_bytes().saturating_sub(before) < 256 << 20);
    drop(open);
    still_serves(&engine);
}

#[test]
fn a_hundred_thousand_arguments_are_served() {
    let both = Both::start();
    let numbers: Vec<String> = (0..100_000).map(|number| number.to_string()).collect();
    let with = |words: &[&str]| {
        let words: Vec<&str> = words
            .iter()
            .copied()
            .chain(numbers.iter().map(String::as_str))
            .collect();
        request(&words)
    };
    let check = |words: &[&str]| both.same(&[with(words), b"QUIT\r\n".to_vec()].concat());
    assert_eq!(check(&["RPUSH", "list"]), ":100000\r\n+OK\r\n");
    assert_eq!(check(&["SADD", "set"]), ":100000\r\n+OK\r\n");
    assert_eq!(check(&["MSET"]), "+OK\r\n+OK\r\n");
    check(&["MGET"]);
    assert_eq!(check(&["DEL"]), ":50000\r\n+OK\r\n");
    both.same(b"LRANGE list 0 -1\r\nQUIT\r\n");
    assert_eq!(
        check(&["GET"]),
        "-ERR wrong number of arguments for 'get' command\r\n+OK\r\n"
    );
}
