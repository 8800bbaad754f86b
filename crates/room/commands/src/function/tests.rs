use std::sync::Arc;

use nagaya_clock::SystemClock;
use nagaya_resp::Proto;

use crate::testing::{Engine, TestSession};

const LIBRARY: &str = "#!lua name=lib
redis.register_function('get', function(keys, args) return redis.call('GET', keys[1]) end)
redis.register_function{function_name='put', description='writes', callback=function(keys, args)
  return redis.call('SET', keys[1], args[1])
end}
redis.register_function{function_name='look', callback=function(keys) return #keys end,
  flags={'allow-oom', 'no-writes'}}";

#[track_caller]
fn check(session: &mut TestSession, words: &[&str], expected: &str) {
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let reply = session.run(&args);
    assert_eq!(String::from_utf8_lossy(&reply), expected, "{words:?}");
}

fn loaded() -> TestSession {
    let mut session = TestSession::new();
    check(&mut session, &["FUNCTION", "LOAD", LIBRARY], "$3\r\nlib\r\n");
    session
}

#[test]
fn functions_run_with_keys_and_arguments() {
    let mut session = loaded();
    check(&mut session, &["FCALL", "put", "1", "a", "1"], "+OK\r\n");
    check(&mut session, &["FCALL", "GET", "1", "a"], "$1\r\n1\r\n");
    check(&mut session, &["FCALL_RO", "look", "2", "a", "b", "c"], ":2\r\n");
    check(
        &mut session,
        &["FCALL_RO", "get", "1", "a"],
        "-ERR Can not execute a script with write flag using *_ro command.\r\n",
    );
    check(
        &mut session,
        &["FCALL", "none", "0"],
        "-ERR Function not found\r\n",
    );
    check(
        &mut session,
        &["FCALL", "get", "x"],
        "-ERR Bad number of keys provided\r\n",
    );
    check(
        &mut session,
        &["FCALL", "get", "1"],
        "-ERR Number of keys can't be greater than number of args\r\n",
    );
}

#[test]
fn loading_twice_needs_replace_and_function_names_are_unique() {
    let mut session = loaded();
    check(
        &mut session,
        &["FUNCTION", "LOAD", LIBRARY],
        "-ERR Library 'lib' already exists\r\n",
    );
    let other = "#!lua name=other\nredis.register_function('GET', function() return 1 end)";
    check(
        &mut session,
        &["FUNCTION", "LOAD", other],
        "-ERR Function GET already exists\r\n",
    );
    let smaller = "#!lua name=lib\nredis.register_function('only', function() return 'new' end)";
    check(
        &mut session,
        &["FUNCTION", "LOAD", "REPLACE", smaller],
        "$3\r\nlib\r\n",
    );
    check(&mut session, &["FCALL", "only", "0"], "$3\r\nnew\r\n");
    check(
        &mut session,
        &["FCALL", "get", "1", "a"],
        "-ERR Function not found\r\n",
    );
    check(&mut session, &["FUNCTION", "LOAD", other], "$5\r\nother\r\n");
    // A replacement that fails changes nothing.
    let clash = "#!lua name=lib\nredis.register_function('get', function() return 1 end)";
    check(
        &mut session,
        &["FUNCTION", "LOAD", "REPLACE", clash],
        "-ERR Function get already exists\r\n",
    );
    check(&mut session, &["FCALL", "only", "0"], "$3\r\nnew\r\n");
}

#[test]
fn what_is_not_a_library_is_refused() {
    let mut session = TestSession::new();
    for (code, text) in [
        ("return 1", "Missing library metadata"),
        ("#!lua name=a\nreturn 1", "No functions registered"),
        ("#!js name=a\nreturn 1", "Engine 'js' not found"),
    ] {
        check(
            &mut session,
            &["FUNCTION", "LOAD", code],
            &format!("-ERR {text}\r\n"),
        );
    }
    check(
        &mut session,
        &["FUNCTION", "LOAD", "NOW", "x"],
        "-ERR Unknown option given: NOW\r\n",
    );
    let reply = session.run(&[b"FUNCTION", b"LOAD", b"#!lua name=a\nredis.call('PING')"]);
    assert!(
        reply.starts_with(b"-ERR Error registering functions: "),
        "{}",
        reply.escape_ascii()
    );
}

#[test]
fn a_library_that_does_not_end_is_given_up() {
    let mut session = TestSession::on(&Engine::new(Arc::new(SystemClock)));
    check(
        &mut session,
        &["FUNCTION", "LOAD", "#!lua name=a\nwhile true do end"],
        "-ERR Error registering functions: ERR FUNCTION LOAD timeout\r\n",
    );
}

#[test]
fn libraries_are_listed_with_their_functions() {
    let mut session = loaded();
    session.client.set_proto(Proto::Resp3);
    check(
        &mut session,
        &["FUNCTION", "LIST", "LIBRARYNAME", "L*"],
        "*1\r\n%3\r\n$12\r\nlibrary_name\r\n$3\r\nlib\r\n$6\r\nengine\r\n$3\r\nLUA\r\n$9\r\nfunctions\r\n*3\r\n\
         %3\r\n$4\r\nname\r\n$3\r\nget\r\n$11\r\ndescription\r\n_\r\n$5\r\nflags\r\n~0\r\n\
         %3\r\n$4\r\nname\r\n$3\r\nput\r\n$11\r\ndescription\r\n$6\r\nwrites\r\n$5\r\nflags\r\n~0\r\n\
         %3\r\n$4\r\nname\r\n$4\r\nlook\r\n$11\r\ndescription\r\n_\r\n$5\r\nflags\r\n~2\r\n+no-writes\r\n+allow-oom\r\n",
    );
    check(&mut session, &["FUNCTION", "LIST", "LIBRARYNAME", "x"], "*0\r\n");
    check(
        &mut session,
        &["FUNCTION", "LIST", "LIBRARYNAME"],
        "-ERR library name argument was not given\r\n",
    );
    check(
        &mut session,
        &["FUNCTION", "LIST", "x"],
        "-ERR Unknown argument x\r\n",
    );
    check(
        &mut session,
        &["FUNCTION", "STATS"],
        "%2\r\n$14\r\nrunning_script\r\n_\r\n$7\r\nengines\r\n%1\r\n$3\r\nLUA\r\n%2\r\n\
         $15\r\nlibraries_count\r\n:1\r\n$15\r\nfunctions_count\r\n:3\r\n",
    );
}

/// Takes the payload out of a bulk reply.
fn payload(reply: &[u8]) -> Vec<u8> {
    let start = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    reply[start..reply.len() - 2].to_vec()
}

#[test]
fn a_dump_restores_by_its_policy() {
    let mut session = loaded();
    let dumped = payload(&session.run(&[b"FUNCTION", b"DUMP"]));
    let restore = |session: &mut TestSession, policy: &[u8]| {
        let reply = session.run(&[b"FUNCTION", b"RESTORE", &dumped, policy]);
        String::from_utf8(reply).unwrap()
    };
    assert_eq!(
        restore(&mut session, b"append"),
        "-ERR Library lib already exists\r\n"
    );
    assert_eq!(restore(&mut session, b"replace"), "+OK\r\n");
    check(&mut session, &["FUNCTION", "DELETE", "lib"], "+OK\r\n");
    check(
        &mut session,
        &["FUNCTION", "DELETE", "lib"],
        "-ERR Library not found\r\n",
    );
    check(
        &mut session,
        &["FCALL", "get", "1", "a"],
        "-ERR Function not found\r\n",
    );
    assert_eq!(restore(&mut session, b"append"), "+OK\r\n");
    check(&mut session, &["FCALL", "get", "1", "a"], "$-1\r\n");
    check(&mut session, &["FUNCTION", "FLUSH"], "+OK\r\n");
    let other = "#!lua name=other\nredis.register_function('get', function() return 1 end)";
    check(&mut session, &["FUNCTION", "LOAD", other], "$5\r\nother\r\n");
    assert_eq!(
        restore(&mut session, b"replace"),
        "-ERR Function get already exists\r\n"
    );
    assert_eq!(restore(&mut session, b"flush"), "+OK\r\n");
    check(&mut session, &["FCALL", "get", "1", "a"], "$-1\r\n");
    assert_eq!(
        restore(&mut session, b"merge"),
        "-ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.\r\n"
    );
    let reply = session.run(&[b"FUNCTION", b"RESTORE", b"junk"]);
    assert_eq!(reply, b"-ERR DUMP payload version or checksum are wrong\r\n");
}

#[test]
fn a_slow_function_is_shown_and_killed() {
    let engine = Engine::new(Arc::new(SystemClock));
    engine
        .server
        .update_config(|config| config.busy_reply_threshold = 0);
    let mut session = TestSession::on(&engine);
    let code = "#!lua name=lib\nredis.register_function('spin', function() while true do end end)";
    check(&mut session, &["FUNCTION", "LOAD", code], "$3\r\nlib\r\n");
    let busy =
        "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.\r\n";
    std::thread::scope(|scope| {
        let mut runner = TestSession::on(&engine);
        let running = scope.spawn(move || runner.run(&[b"FCALL", b"spin", b"0", b"x"]));
        while engine.server.keyspace.shards.slow().is_none() {
            assert!(!running.is_finished(), "the function has ended");
            std::thread::yield_now();
        }
        check(&mut session, &["GET", "a"], busy);
        check(&mut session, &["SCRIPT", "KILL"], busy);
        let stats = session.run(&[b"FUNCTION", b"STATS"]);
        let stats = String::from_utf8(stats).unwrap();
        let shown = "$14\r\nrunning_script\r\n*6\r\n$4\r\nname\r\n$4\r\nspin\r\n$7\r\ncommand\r\n*4\r\n\
                     $5\r\nFCALL\r\n$4\r\nspin\r\n$1\r\n0\r\n$1\r\nx\r\n$11\r\nduration_ms\r\n:";
        assert!(stats.contains(shown), "{stats}");
        check(&mut session, &["FUNCTION", "KILL"], "+OK\r\n");
        let reply = running.join().unwrap();
        assert!(reply.starts_with(b"-ERR Script killed by user with SCRIPT KILL... script: spin"));
    });
}
