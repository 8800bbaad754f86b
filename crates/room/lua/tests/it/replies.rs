//! Conversions between RESP and Lua that a plain server cannot be made to show, and the rest of the `redis` table.

use nagaya_lua::{LogLevel, RunOutcome, sha1_hex};
use nagaya_resp::{Out, Proto};

use crate::support::Bench;

/// Runs `body` against a host whose command RAW 0 answers `reply`.
fn with_reply(reply: &str, body: &str) -> String {
    let mut bench = Bench::new();
    bench.host.raw = vec![reply.as_bytes().to_vec()];
    bench.eval(body)
}

#[test]
fn every_reply_type_becomes_the_lua_value_of_redis() {
    let kind = "redis.setresp(3) local v = redis.pcall('raw', 0)";
    let check = |reply: &str, tail: &str, expected: &str| {
        assert_eq!(
            with_reply(reply, &format!("{kind} {tail}")),
            expected,
            "{reply:?} {tail}"
        );
    };
    check(
        "%1\r\n+k\r\n:7\r\n",
        "for k, v in pairs(v.map) do return {k.ok, v} end",
        "*2\r\n$1\r\nk\r\n:7\r\n",
    );
    check("%1\r\n$1\r\nk\r\n*1\r\n:7\r\n", "return v.map.k[1]", ":7\r\n");
    check(
        "~2\r\n$1\r\na\r\n$1\r\nb\r\n",
        "return {tostring(v.set.a), tostring(v.set.b)}",
        "*2\r\n$4\r\ntrue\r\n$4\r\ntrue\r\n",
    );
    check(",3.25\r\n", "return tostring(v.double)", "$4\r\n3.25\r\n");
    check(",inf\r\n", "return tostring(v.double)", "$3\r\ninf\r\n");
    check("_\r\n", "return type(v)", "$3\r\nnil\r\n");
    check("#t\r\n", "return tostring(v)", "$4\r\ntrue\r\n");
    check("#f\r\n", "return tostring(v)", "$5\r\nfalse\r\n");
    check(
        "(1234567890123456789012\r\n",
        "return v.big_number",
        "$22\r\n1234567890123456789012\r\n",
    );
    check(
        "=8\r\ntxt:some\r\n",
        "return {v.verbatim_string.format, v.verbatim_string.string}",
        "*2\r\n$3\r\ntxt\r\n$4\r\nsome\r\n",
    );
    check(
        "|1\r\n+key\r\n+value\r\n$4\r\nreal\r\n",
        "return v",
        "$4\r\nreal\r\n",
    );
    check("$-1\r\n", "return tostring(v)", "$5\r\nfalse\r\n");
    check("*-1\r\n", "return tostring(v)", "$5\r\nfalse\r\n");
    check(
        "*3\r\n:1\r\n$-1\r\n*1\r\n+x\r\n",
        "return {v[1], tostring(v[2]), v[3][1].ok}",
        "*3\r\n:1\r\n$5\r\nfalse\r\n$1\r\nx\r\n",
    );
    check(
        "-WRONGTYPE Operation against\r\n",
        "return v.err",
        "$27\r\nWRONGTYPE Operation against\r\n",
    );
    check(
        ":-9223372036854775808\r\n",
        "return v",
        ":-9223372036854775808\r\n",
    );
}

#[test]
fn a_value_goes_through_a_script_unchanged_in_resp3() {
    for reply in [
        "%1\r\n$1\r\nk\r\n$1\r\nv\r\n",
        "~1\r\n$1\r\na\r\n",
        ",3.25\r\n",
        "_\r\n",
        "#t\r\n",
        "(12345678901234567890\r\n",
        "=8\r\ntxt:some\r\n",
        "*2\r\n:1\r\n$1\r\nx\r\n",
        "+OK\r\n",
        "-ERR some problem\r\n",
    ] {
        let mut bench = Bench::new();
        bench.host.raw = vec![reply.as_bytes().to_vec()];
        let body = b"redis.setresp(3) return redis.pcall('raw', 0)";
        assert_eq!(
            bench.eval_bytes(body, &[], &[], Proto::Resp3),
            reply.as_bytes(),
            "{reply:?}"
        );
    }
}

#[test]
fn a_script_starts_with_resp2_whatever_an_earlier_one_chose() {
    let mut bench = Bench::new();
    bench.eval("redis.setresp(3) redis.call('ping')");
    bench.eval("redis.call('ping')");
    assert_eq!(bench.host.protos, [Proto::Resp3, Proto::Resp2]);
}

#[test]
fn a_table_that_contains_itself_ends_at_the_stack_limit() {
    let reply = Bench::new().eval("local a = {}; local b = {a}; a[1] = b; return a");
    let error = reply.trim_start_matches("*1\r\n");
    assert_eq!(error, "-ERR reached lua stack limit\r\n");
    assert!(reply.len() > 30_000);
}

#[test]
fn outcomes_tell_whether_an_error_was_counted_by_the_command() {
    let mut bench = Bench::new();
    let mut run = |body: &str| {
        let sha = sha1_hex(body.as_bytes());
        bench.vm.load_script(&sha, body.as_bytes()).unwrap();
        bench
            .vm
            .run_script(&sha, &[], &[], &mut bench.host, &mut Out::new(Proto::Resp2))
    };
    assert_eq!(run("return 1"), RunOutcome::Replied);
    assert_eq!(
        run("return redis.call('nosuchcommand')"),
        RunOutcome::Error {
            already_counted: true
        }
    );
    assert_eq!(
        run("return redis.pcall('nosuchcommand')"),
        RunOutcome::Error {
            already_counted: true
        }
    );
    assert_eq!(
        run("error('x')"),
        RunOutcome::Error {
            already_counted: false
        }
    );
    assert_eq!(
        run("return {err='x'}"),
        RunOutcome::Error {
            already_counted: false
        }
    );
    let missing = bench.vm.run_script(
        &[b'0'; 40],
        &[],
        &[],
        &mut bench.host,
        &mut Out::new(Proto::Resp2),
    );
    assert_eq!(missing, RunOutcome::Missing);
}

#[test]
fn forgotten_scripts_are_gone_and_their_memory_with_them() {
    let mut bench = Bench::new();
    let before = bench.vm.used_memory();
    for number in 0..500 {
        let body = format!("local x = {number} return x + {number}");
        bench
            .vm
            .load_script(&sha1_hex(body.as_bytes()), body.as_bytes())
            .unwrap();
    }
    assert_eq!(bench.vm.script_count(), 500);
    bench.vm.forget_scripts();
    assert_eq!(bench.vm.script_count(), 0);
    assert!(bench.vm.used_memory() < before + 64 * 1024);
}

#[test]
fn ten_thousand_runs_do_not_grow_the_state() {
    let mut bench = Bench::new();
    for _ in 0..10_000 {
        bench.eval_bytes(b"return redis.call('incr', KEYS[1])", &["x"], &[], Proto::Resp2);
    }
    assert_eq!(bench.host.data[&b"x"[..]], b"10000");
    assert!(
        bench.vm.used_memory() < 200 * 1024,
        "{} bytes",
        bench.vm.used_memory()
    );
}

#[test]
fn log_lines_reach_the_host_with_their_level() {
    let mut bench = Bench::new();
    bench.eval("redis.log(redis.LOG_WARNING, 'one', 2, {}, 'three')");
    assert_eq!(bench.host.log, [(LogLevel::Warning, b"one 2 three".to_vec())]);
}

#[test]
fn replication_flags_reach_the_host() {
    let mut bench = Bench::new();
    bench.eval("redis.set_repl(redis.REPL_AOF)");
    assert_eq!(bench.host.repl, Some(1));
}

#[test]
fn acl_answers_come_from_the_host() {
    let mut bench = Bench::new();
    assert_eq!(bench.eval("return redis.acl_check_cmd('set', 'xx', 1)"), ":1\r\n");
    assert_eq!(
        bench.eval("return redis.acl_check_cmd('hset', 'xx', 'f', 1)"),
        "$-1\r\n"
    );
    assert!(
        bench
            .eval("return redis.acl_check_cmd('other')")
            .contains("Invalid command passed")
    );
}

#[test]
fn only_the_clock_of_os_is_there() {
    let mut bench = Bench::new();
    assert_eq!(bench.eval("return os.clock() >= 0"), ":1\r\n");
    assert_eq!(bench.eval("return tostring(os.execute)"), "$3\r\nnil\r\n");
}

#[test]
fn the_random_sequence_goes_on_from_script_to_script() {
    let mut bench = Bench::new();
    let first = bench.eval("return tostring(math.random())");
    assert_ne!(first, bench.eval("return tostring(math.random())"));
}

#[test]
fn a_panic_of_the_host_passes_through_lua_and_leaves_the_vm_usable() {
    let mut bench = Bench::new();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        bench.eval("while true do pcall(redis.call, 'panic') end")
    }));
    assert_eq!(
        panicked.unwrap_err().downcast_ref::<&str>(),
        Some(&"the host failed")
    );
    assert_eq!(bench.eval("return 1"), ":1\r\n");
}
