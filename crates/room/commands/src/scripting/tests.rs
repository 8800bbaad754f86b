use std::sync::Arc;

use nagaya_clock::SystemClock;
use nagaya_connections::client::Message;

use crate::testing::{Engine, TestSession};

/// Runs a request given as words and compares its reply.
#[track_caller]
fn check(session: &mut TestSession, words: &[&str], expected: &str) {
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let reply = session.run(&args);
    assert_eq!(String::from_utf8_lossy(&reply), expected, "{words:?}");
}

/// Runs a script without keys and compares its reply.
#[track_caller]
fn eval(session: &mut TestSession, script: &str, expected: &str) {
    check(session, &["EVAL", script, "0"], expected);
}

#[test]
fn the_text_of_a_script_is_shown_by_its_digest() {
    let mut session = TestSession::new();
    let digest = session.run(&[b"SCRIPT", b"LOAD", b"return 1"]);
    let digest = String::from_utf8_lossy(&digest[5..45]).into_owned();
    session.check(&format!("SCRIPT SHOW {digest}"), "$8\r\nreturn 1\r\n");
    session.check("SCRIPT SHOW nothing", "-NOSCRIPT No matching script.\r\n");
}

#[test]
fn a_script_reads_its_keys_and_arguments() {
    let mut session = TestSession::new();
    let script = "return {KEYS[1], KEYS[2], ARGV[1], #KEYS, #ARGV}";
    check(
        &mut session,
        &["EVAL", script, "2", "a", "b", "c"],
        "*5\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n:2\r\n:1\r\n",
    );
    check(
        &mut session,
        &["EVAL", "return 1", "2", "a"],
        "-ERR Number of keys can't be greater than number of args\r\n",
    );
    check(
        &mut session,
        &["EVAL", "return 1", "-1"],
        "-ERR Number of keys can't be negative\r\n",
    );
    check(
        &mut session,
        &["EVAL", "return 1", "x"],
        "-ERR value is not an integer or out of range\r\n",
    );
}

#[test]
fn a_script_works_on_the_engines_data() {
    let mut session = TestSession::new();
    eval(
        &mut session,
        "redis.call('SET', 'a', 1) return redis.call('INCRBY', 'a', 41)",
        ":42\r\n",
    );
    session.check("GET a", "$2\r\n42\r\n");
    eval(&mut session, "return redis.call('GET', 'missing')", "$-1\r\n");
    eval(
        &mut session,
        "return redis.pcall('LPUSH', 'a', 1)['err']",
        "$65\r\nWRONGTYPE Operation against a key holding the wrong kind of value\r\n",
    );
}

#[test]
fn commands_that_scripts_may_not_run_are_refused_in_redis_words() {
    let mut session = TestSession::new();
    for (call, text) in [
        ("'NOSUCH'", "Unknown Redis command called from script"),
        ("'GET'", "Wrong number of args calling Redis command from script"),
        ("'MULTI'", "This Redis command is not allowed from script"),
        (
            "'EVAL', 'return 1', 0",
            "This Redis command is not allowed from script",
        ),
        ("'SCRIPT', 'NOSUCH'", "Unknown Redis command called from script"),
        (
            "'SCRIPT'",
            "Wrong number of args calling Redis command from script",
        ),
    ] {
        eval(
            &mut session,
            &format!("return redis.pcall({call})['err']"),
            &format!("${}\r\nERR {text}\r\n", text.len() + 4),
        );
    }
    eval(&mut session, "return redis.acl_check_cmd('GET', 'a')", ":1\r\n");
    eval(
        &mut session,
        "return pcall(redis.acl_check_cmd, 'NOSUCH')",
        "$-1\r\n",
    );
}

#[test]
fn a_script_may_do_what_its_caller_may() {
    let mut session = TestSession::new();
    session.check("ACL SETUSER limited on nopass +eval +get +set ~open:*", "+OK\r\n");
    let mut limited = session.another();
    limited.check("AUTH limited x", "+OK\r\n");
    eval(&mut limited, "return redis.call('SET', 'open:a', 1)", "+OK\r\n");
    for (call, text) in [
        ("'DEL', 'open:a'", "can't run this command or subcommand"),
        (
            "'GET', 'closed'",
            "can't access at least one of the keys mentioned in the command arguments",
        ),
    ] {
        let text = format!("ERR The user executing the script {text}");
        let script = format!("return redis.pcall({call})['err']");
        eval(&mut limited, &script, &format!("${}\r\n{text}\r\n", text.len()));
    }
    let script = "return {redis.acl_check_cmd('GET', 'open:a'), redis.acl_check_cmd('DEL', 'open:a')}";
    eval(&mut limited, script, "*2\r\n:1\r\n$-1\r\n");
}

#[test]
fn read_only_scripts_do_not_write() {
    let mut session = TestSession::new();
    let refused = "ERR Write commands are not allowed from read-only scripts.";
    let write = "return redis.pcall('SET', 'a', 1)['err']";
    check(
        &mut session,
        &["EVAL_RO", write, "0"],
        &format!("${}\r\n{refused}\r\n", refused.len()),
    );
    check(
        &mut session,
        &["EVAL", &format!("#!lua flags=no-writes\n{write}"), "0"],
        &format!("${}\r\n{refused}\r\n", refused.len()),
    );
    check(
        &mut session,
        &["EVAL_RO", "return redis.call('GET', 'a')", "0"],
        "$-1\r\n",
    );
    check(
        &mut session,
        &["EVAL_RO", "#!lua\nreturn 1", "0"],
        "-ERR Can not execute a script with write flag using *_ro command.\r\n",
    );
    check(
        &mut session,
        &["EVAL", "#!lua flags=what\nreturn 1", "0"],
        "-ERR Unexpected flag in script shebang: what\r\n",
    );
}

#[test]
fn scripts_are_found_by_digest_until_they_are_flushed() {
    let mut session = TestSession::new();
    let digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let no_script = "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    check(&mut session, &["EVALSHA", digest, "0"], no_script);
    check(&mut session, &["EVALSHA", "short", "0"], no_script);
    check(
        &mut session,
        &["SCRIPT", "LOAD", "return 1"],
        &format!("$40\r\n{digest}\r\n"),
    );
    check(&mut session, &["EVALSHA", digest, "0"], ":1\r\n");
    check(
        &mut session,
        &["EVALSHA_RO", &digest.to_uppercase(), "0"],
        ":1\r\n",
    );
    check(
        &mut session,
        &["SCRIPT", "EXISTS", digest, "nope", &digest.to_uppercase()],
        "*3\r\n:1\r\n:0\r\n:1\r\n",
    );
    assert_eq!(session.engine.server.scripts.sources_size(), (1, 8));
    check(
        &mut session,
        &["SCRIPT", "FLUSH", "LATER"],
        "-ERR SCRIPT FLUSH only support SYNC|ASYNC option\r\n",
    );
    check(&mut session, &["SCRIPT", "FLUSH", "ASYNC"], "+OK\r\n");
    check(&mut session, &["EVALSHA", digest, "0"], no_script);
    check(
        &mut session,
        &["SCRIPT", "LOAD", "return ("],
        "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'\r\n",
    );
    check(&mut session, &["SCRIPT", "DEBUG", "NO"], "+OK\r\n");
    check(
        &mut session,
        &["SCRIPT", "KILL"],
        "-NOTBUSY No scripts in execution right now.\r\n",
    );
}

#[test]
fn an_error_inside_a_script_counts_for_the_command_and_for_the_script() {
    let mut session = TestSession::new();
    session.check("SET a text", "+OK\r\n");
    eval(
        &mut session,
        "return redis.call('INCR', 'a')",
        "-ERR value is not an integer or out of range script: 7054b42133ea43b4b62a6002233e1b84329d5843, on @user_script:1.\r\n",
    );
    let failed = |name: &[u8]| {
        let number = crate::table::find(name).unwrap().number;
        session
            .engine
            .server
            .sum(|stats| stats.commands[number].failed.get())
    };
    // The test engine registers its one set of counters with every request.
    assert!(failed(b"INCR") > 0);
    assert!(failed(b"EVAL") > 0);
}

#[test]
fn monitors_see_a_script_before_its_commands() {
    let mut session = TestSession::new();
    let mut watcher = session.another();
    watcher.check("MONITOR", "+OK\r\n");
    eval(&mut session, "return redis.call('GET', 'a')", "$-1\r\n");
    let seen: Vec<String> = watcher
        .messages()
        .into_iter()
        .map(|message| match message {
            Message::Push(line) => String::from_utf8_lossy(&line).into_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen[0].contains("\"EVAL\""), "{seen:?}");
    assert!(seen[1].contains(" lua] \"GET\" \"a\""), "{seen:?}");
}

#[test]
fn shutdown_without_nosave_waits_for_a_slow_script_to_end() {
    let engine = impatient();
    let mut session = TestSession::on(&engine);
    while_slow(&engine, "while true do end", || {
        session.check("SHUTDOWN", &format!("-{BUSY}\r\n"));
        session.check("SCRIPT KILL", "+OK\r\n");
    });
}

#[test]
fn a_script_inside_a_transaction_runs_with_it() {
    let mut session = TestSession::new();
    session.check("MULTI", "+OK\r\n");
    session.check("SET a 1", "+QUEUED\r\n");
    check(
        &mut session,
        &["EVAL", "return redis.call('INCR', 'b')", "0"],
        "+QUEUED\r\n",
    );
    session.check("EXEC", "*2\r\n+OK\r\n:1\r\n");
}

#[test]
fn what_a_script_pushes_serves_those_who_wait() {
    let mut session = TestSession::new();
    let mut waiting = session.another();
    waiting.check("BLPOP list 0", "");
    eval(
        &mut session,
        "redis.call('RPUSH', 'list', 'a', 'b') return redis.call('LLEN', 'list')",
        ":2\r\n",
    );
    let served = b"*2\r\n$4\r\nlist\r\n$1\r\na\r\n".to_vec();
    assert_eq!(waiting.messages(), [Message::Unblocked(served)]);
    session.check("LLEN list", ":1\r\n");
}

#[test]
fn memory_without_end_is_an_error_and_no_more() {
    let mut session = TestSession::new();
    let reply = session.run(&[b"EVAL", b"local t = 'x' while true do t = t .. t end", b"0"]);
    assert!(reply.starts_with(b"-ERR"), "{}", reply.escape_ascii());
    eval(&mut session, "return 1", ":1\r\n");
}

/// An engine on which a script is slow at once.
fn impatient() -> Arc<Engine> {
    let engine = Engine::new(Arc::new(SystemClock));
    engine
        .server
        .update_config(|config| config.busy_reply_threshold = 0);
    engine
}

/// Runs a script on another thread, `work` while it is slow, and returns its reply.
fn while_slow(engine: &Arc<Engine>, script: &str, work: impl FnOnce()) -> String {
    std::thread::scope(|scope| {
        let mut runner = TestSession::on(engine);
        let running = scope.spawn(move || runner.run(&[b"EVAL", script.as_bytes(), b"0"]));
        while engine.server.keyspace.shards.long_script().is_none() {
            assert!(!running.is_finished(), "the script has ended");
            std::thread::yield_now();
        }
        work();
        String::from_utf8_lossy(&running.join().unwrap()).into_owned()
    })
}

const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

#[test]
fn others_are_told_that_a_slow_script_runs_and_may_kill_it() {
    let engine = impatient();
    let mut session = TestSession::on(&engine);
    let reply = while_slow(&engine, "while true do redis.call('GET', 'a') end", || {
        session.check("GET a", &format!("-{BUSY}\r\n"));
        session.check("SCRIPT EXISTS x", &format!("-{BUSY}\r\n"));
        session.check("FUNCTION STATS", &format!("-{BUSY}\r\n"));
        session.check("FUNCTION KILL", &format!("-{BUSY}\r\n"));
        session.check("SCRIPT KILL", "+OK\r\n");
    });
    assert!(
        reply.starts_with("-ERR Script killed by user with SCRIPT KILL... script: "),
        "{reply}"
    );
    session.check("GET a", "$-1\r\n");
    session.check("SCRIPT KILL", "-NOTBUSY No scripts in execution right now.\r\n");
}

#[test]
fn catching_the_error_does_not_save_a_killed_script() {
    let engine = impatient();
    let mut session = TestSession::on(&engine);
    let script = "local f = function() while 1 do redis.call('GET', 'a') end end while 1 do pcall(f) end";
    let reply = while_slow(&engine, script, || session.check("SCRIPT KILL", "+OK\r\n"));
    assert!(reply.starts_with("-ERR Script killed by user"), "{reply}");
}

#[test]
fn a_script_that_wrote_cannot_be_killed() {
    let engine = impatient();
    let mut session = TestSession::on(&engine);
    let script = "redis.call('SET', 'a', 1) local i = 0 while i < 3e7 do i = i + 1 end return i";
    let reply = while_slow(&engine, script, || {
        let reply = session.run(&[b"SCRIPT", b"KILL"]);
        assert!(reply.starts_with(b"-UNKILLABLE Sorry the script already executed write commands"));
    });
    assert_eq!(reply, ":30000000\r\n");
}

#[test]
fn a_transaction_that_meets_a_slow_script_is_aborted() {
    let engine = impatient();
    let mut session = TestSession::on(&engine);
    session.check("WATCH w", "+OK\r\n");
    while_slow(&engine, "while true do end", || {
        session.check("MULTI", "+OK\r\n");
        session.check("SET a 1", &format!("-{BUSY}\r\n"));
        session.check(
            "EXEC",
            &format!("-EXECABORT Transaction discarded because of: {BUSY}\r\n"),
        );
        session.check("EXEC", &format!("-{BUSY}\r\n"));
        session.check("WATCH w", &format!("-{BUSY}\r\n"));
        session.check("UNWATCH", "+OK\r\n");
        session.check("SCRIPT KILL", "+OK\r\n");
    });
    session.check("EXEC", "-ERR EXEC without MULTI\r\n");
    let place = engine.server.keyspace.shards.locate(b"w");
    let shard = engine.server.keyspace.shards.lock_one(place.shard, 0).unwrap();
    assert!(
        shard.watchers.is_empty(),
        "the watch was taken off after the script"
    );
}

#[test]
fn a_command_that_already_waits_for_its_shard_is_refused_too() {
    let engine = Engine::new(Arc::new(SystemClock));
    engine
        .server
        .update_config(|config| config.busy_reply_threshold = 50);
    std::thread::scope(|scope| {
        let mut runner = TestSession::on(&engine);
        let running = scope.spawn(move || runner.run(&[b"EVAL", b"while true do end", b"0"]));
        let mut session = TestSession::on(&engine);
        // Served while the script has not begun or, from then on, once it is slow.
        while session.run(&[b"GET", b"a"]) == b"$-1\r\n" {
            std::thread::yield_now();
        }
        session.check("GET a", &format!("-{BUSY}\r\n"));
        session.check("SCRIPT KILL", "+OK\r\n");
        running.join().unwrap();
    });
}
