//! Libraries: loading, what they may do while they load, calling their functions.

use nagaya_lua::{LibraryId, RunOutcome, ScriptFlag};
use nagaya_resp::{Out, Proto};

use crate::support::{Bench, connect, start_redis};

fn load(code: &str) -> Result<Vec<nagaya_lua::FunctionDef>, String> {
    Bench::new().load_library(&format!("#!lua name=lib\n{code}"))
}

/// Libraries that must be refused, by us and by Redis with the same words.
const REFUSED: &[&str] = &[
    "return 1",
    "redis.register_function()",
    "redis.register_function('f1')",
    "redis.register_function('f1', function() end, 1)",
    "redis.register_function(nil, function() return 1 end)",
    "redis.register_function({}, function() return 1 end)",
    "redis.register_function('f1', 'not a function')",
    "redis.register_function('test\\0test', function() return 1 end)",
    "redis.register_function('', function() return 1 end)",
    "redis.register_function('a-b', function() return 1 end)",
    "redis.register_function('f1', function() end) redis.register_function('f1', function() end)",
    "redis.register_function{}",
    "redis.register_function{function_name='f1'}",
    "redis.register_function{callback=function() end}",
    "redis.register_function{function_name=function() end, callback=function() end}",
    "redis.register_function{function_name='f1', callback='x'}",
    "redis.register_function{function_name='f1', callback=function() end, description=function() end}",
    "redis.register_function{function_name='f1', callback=function() end, flags='x'}",
    "redis.register_function{function_name='f1', callback=function() end, flags={'bad'}}",
    "redis.register_function{function_name='f1', callback=function() end, flags={function() end}}",
    "redis.register_function{function_name='f1', callback=function() end, bad='x'}",
    "redis.register_function{function_name='f1', callback=function() end, [{}]='x'}",
    "return math.random()",
    "return redis.call('ping')",
    "return redis.setresp(3)",
    "return redis.set_repl(redis.REPL_NONE)",
    "mt = getmetatable(_G)",
    "a = 1",
    "redis.x = 1",
    "redis.math.random()",
    "redis.log('x')",
    "local x = ",
    "error('boom')",
    "local t = nil\nt.x = 1",
    "return KEYS",
];

#[test]
fn refused_libraries_get_the_words_of_redis() {
    let server = start_redis();
    let mut client = connect(&server);
    for code in REFUSED {
        let whole = format!("#!lua name=lib\n{code}");
        let theirs = client.ask(&[b"FUNCTION", b"LOAD", b"REPLACE", whole.as_bytes()]);
        let ours = match load(code) {
            Ok(_) => "loaded".to_owned(),
            Err(error) => format!("-ERR {error}\r\n"),
        };
        assert_eq!(ours, String::from_utf8_lossy(&theirs), "{code}");
    }
}

#[test]
fn registration_gives_names_descriptions_and_flags() {
    let functions = load(
        "redis.register_function('plain', function() end) \
         redis.register_function{function_name='full', callback=function() end, description='some desc', \
         flags={'no-writes', 'ALLOW-OOM'}}",
    )
    .unwrap();
    assert_eq!(functions[0].name, "plain");
    assert_eq!(functions[0].description, None);
    assert_eq!(functions[1].description.as_deref(), Some("some desc"));
    assert_eq!(functions[1].flags, [ScriptFlag::NoWrites, ScriptFlag::AllowOom]);
}

#[test]
fn a_function_gets_keys_and_arguments_and_full_globals() {
    let mut bench = Bench::new();
    let code = "#!lua name=lib\nlocal count = 0\nredis.register_function('f', function(keys, args) count = count + 1 \
                return {keys[1], args[1], tostring(math.floor(1.5)), redis.call('ping'), count} end)";
    bench.load_library(code).unwrap();
    for expected in [1, 2] {
        let mut out = Out::new(Proto::Resp2);
        let outcome = bench
            .vm
            .call_function(LibraryId(1), "f", &[b"k"], &[b"a"], &mut bench.host, &mut out);
        assert_eq!(outcome, RunOutcome::Replied);
        let reply = String::from_utf8(out.buf).unwrap();
        assert_eq!(
            reply,
            format!("*5\r\n$1\r\nk\r\n$1\r\na\r\n$1\r\n1\r\n+PONG\r\n:{expected}\r\n")
        );
    }
}

#[test]
fn a_library_cannot_smuggle_its_loading_table_into_a_run() {
    let mut bench = Bench::new();
    let code = "#!lua name=lib\nlocal lib = redis\n\
                lib.register_function('f1', function () lib.redis = redis return {ok='OK'} end)\n\
                lib.register_function('f2', function () lib.register_function('f3', function () end) end)\n\
                lib.register_function('f4', function () redis.register_function('f3', function () end) end)";
    bench.load_library(code).unwrap();
    let mut reply = |name: &str| String::from_utf8(bench.fcall(name, Proto::Resp2)).unwrap();
    assert!(reply("f1").contains("Attempt to modify a readonly table"));
    assert!(reply("f2").contains("can only be called on FUNCTION LOAD command"));
    assert!(reply("f4").contains("attempt to call field 'register_function' (a nil value)"));
}

#[test]
fn a_failed_load_keeps_the_library_that_was_there() {
    let mut bench = Bench::new();
    bench
        .load_library("#!lua name=lib\nredis.register_function('f', function() return 'old' end)")
        .unwrap();
    bench
        .load_library("#!lua name=lib\nredis.register_function('f', function() end) error('x')")
        .unwrap_err();
    assert_eq!(bench.fcall("f", Proto::Resp2), b"$3\r\nold\r\n");
    bench
        .load_library("#!lua name=lib\nredis.register_function('f', function() return 'new' end)")
        .unwrap();
    assert_eq!(bench.fcall("f", Proto::Resp2), b"$3\r\nnew\r\n");
    assert_eq!(bench.vm.library_name(LibraryId(1)), Some("lib"));
    bench.vm.drop_library(LibraryId(1));
    assert!(!bench.vm.has_library(LibraryId(1)));
    assert_eq!(bench.fcall("f", Proto::Resp2), b"");
}

#[test]
fn an_endless_load_is_ended_by_the_host() {
    let mut bench = Bench::new();
    bench.host.kill_at = Some(3);
    let error = bench
        .load_library("#!lua name=lib\nlocal a = 1\nwhile 1 do a = a + 1 end")
        .unwrap_err();
    assert_eq!(
        error,
        "Error registering functions: ERR Script killed by user with SCRIPT KILL..."
    );
}

#[test]
fn errors_in_functions_name_the_function_and_the_line() {
    let mut bench = Bench::new();
    bench
        .load_library("#!lua name=lib\nredis.register_function('f', function()\nerror('x') end)")
        .unwrap();
    let expected = b"-ERR user_function:3: x script: f, on @user_function:3.\r\n";
    assert_eq!(bench.fcall("f", Proto::Resp2), expected);
}
