//! Scripts that would crash, hang or exhaust a bare Lua. Each must end with an error and leave the `Vm` usable.

use nagaya_lua::Limits;

use crate::support::Bench;

/// The script must fail with a text that contains `expected`, and another must run afterwards.
fn check(body: &str, expected: &str) {
    check_with(
        Bench::with_limits(Limits {
            memory_bytes: 32 << 20,
            ..Limits::default()
        }),
        body,
        expected,
    );
}

fn check_with(mut bench: Bench, body: &str, expected: &str) {
    let reply = bench.eval(body);
    assert!(
        reply.starts_with('-') && reply.contains(expected),
        "{body}\nreplied {reply}"
    );
    bench.host.kill_at = None;
    assert_eq!(
        bench.eval("local t = {} for i = 1, 100 do t[i] = i end return #t"),
        ":100\r\n"
    );
}

fn check_killed(body: &str) {
    let mut bench = Bench::with_limits(Limits {
        memory_bytes: 32 << 20,
        ..Limits::default()
    });
    bench.host.kill_at = Some(5);
    check_with(bench, body, "Script killed by user with SCRIPT KILL...");
}

#[test]
fn unpack_of_a_huge_range_is_refused() {
    check(
        "return select('#', unpack({1,2,3}, -2, 2147483647))",
        "too many results to unpack",
    );
    check("return unpack({}, 0, 2147483647)", "too many results to unpack");
    check(
        "return unpack({}, -2147483648, 2147483647)",
        "too many results to unpack",
    );
    check("return unpack({}, 1, 1e5)", "too many results to unpack");
}

#[test]
fn precompiled_code_is_refused_everywhere() {
    check(
        "assert(loadstring(string.dump(function() return 1 end)))",
        "unexpected symbol",
    );
    check(
        "local s = string.dump(function() end) local n = 0 \
           assert(load(function() n = n + 1 return n <= #s and s:sub(n, n) or nil end))",
        "unexpected symbol",
    );
    let mut bench = Bench::new();
    assert!(bench.eval("\u{1b}LuaQ").contains("unexpected symbol"));
}

#[test]
fn deep_nesting_in_source_is_refused() {
    for (open, close) in [
        ("(", ")"),
        ("{", "}"),
        ("function() return ", " end"),
        ("- ", ""),
        ("not ", ""),
        ("f(", ")"),
    ] {
        let inner = open.repeat(100_000) + "1" + &close.repeat(100_000);
        check(
            &format!("assert(loadstring([==[return {inner}]==]))"),
            "chunk has too many syntax levels",
        );
        let reply = Bench::new().eval(&format!("return {inner}"));
        assert!(
            reply.contains("chunk has too many syntax levels"),
            "{open}: {reply}"
        );
    }
    check(
        &format!("assert(loadstring('return 1{}'))", " .. 1".repeat(100_000)),
        "too many syntax levels",
    );
    check(
        &format!("assert(loadstring('{}'))", "do ".repeat(100_000)),
        "too many syntax levels",
    );
}

#[test]
fn absurd_bracket_levels_are_only_text() {
    check(
        "return loadstring('x = [' .. string.rep('=', 5000000))()",
        "attempt to call a nil value",
    );
    let level = "=".repeat(1_000_000);
    assert_eq!(
        Bench::new().eval(&format!("return [{level}[text]{level}]")),
        "$4\r\ntext\r\n"
    );
}

#[test]
fn source_beyond_the_limit_is_refused() {
    let limits = Limits {
        source_bytes_max: 1000,
        ..Limits::default()
    };
    let mut bench = Bench::with_limits(limits.clone());
    assert!(
        bench
            .eval(&" ".repeat(1001))
            .contains("script is larger than 1000 bytes")
    );
    check_with(
        Bench::with_limits(limits.clone()),
        "assert(loadstring(string.rep(' ', 1001)))",
        "larger than 1000",
    );
    check_with(
        Bench::with_limits(limits),
        "local _, e = load(function() return ' ' end) error(e)",
        "too large",
    );
}

#[test]
fn memory_bombs_meet_the_limit() {
    check("local s = 'x' while true do s = s .. s end", "not enough memory");
    check("return string.rep('x', 2147483647)", "not enough memory");
    check(
        "return string.rep(string.rep('x', 1000000), 1000)",
        "not enough memory",
    );
    check(
        "local t = {} for i = 1, 1e9 do t[i] = {} end",
        "not enough memory",
    );
    check(
        "local t = {} for i = 1, 1e9 do t[i] = tostring(i) .. 'padding' end",
        "not enough memory",
    );
    check(
        "local s = string.rep('x', 1000000) return string.gsub(s, 'x', s)",
        "not enough memory",
    );
    check(
        "local s = string.rep('x', 1000000) return string.gsub(s, 'x', function() return s end)",
        "not enough memory",
    );
    check(
        "return cjson.decode('[' .. string.rep('[],', 5000000) .. '1]')",
        "not enough memory",
    );
    check(
        "return cmsgpack.unpack('\\221\\255\\255\\255\\255' .. string.rep('\\144', 5000000))",
        "not enough memory",
    );
    check(
        "local t = {} for i = 1, 8000 do t[i] = string.rep('x', 100000) end return table.concat(t)",
        "not enough memory",
    );
    check(
        "local s = string.rep('\\1', 3000000) local t = {} for i = 1, 9 do t[i] = s end return cjson.encode(t)",
        "not enough memory",
    );
}

#[test]
fn many_references_to_one_big_string_meet_the_limit_too() {
    let many = "local s = string.rep('x', 1000000) local t = {} for i = 1, 100000 do t[i] = s end";
    check(&format!("{many} return cjson.encode(t)"), "not enough memory");
    check(&format!("{many} return cmsgpack.pack(t)"), "not enough memory");
    check(&format!("{many} return table.concat(t)"), "not enough memory");
    check(&format!("{many} return t"), "reply is larger than 33554432 bytes");
    check(
        &format!("{many} redis.log(redis.LOG_WARNING, unpack(t, 1, 7000))"),
        "not enough memory",
    );
    check(
        &format!("{many} return struct.pack(string.rep('s', 7000), unpack(t, 1, 7000))"),
        "not enough memory",
    );
}

#[test]
fn a_caught_memory_error_is_an_ordinary_error() {
    let mut bench = Bench::with_limits(Limits {
        memory_bytes: 16 << 20,
        ..Limits::default()
    });
    let body = "local ok, e = pcall(function() local s = 'x' while true do s = s .. s end end) return {tostring(ok), e}";
    assert_eq!(
        bench.eval(body),
        "*2\r\n$5\r\nfalse\r\n$17\r\nnot enough memory\r\n"
    );
}

#[test]
fn garbage_alone_does_not_fill_the_limit() {
    let mut bench = Bench::with_limits(Limits {
        memory_bytes: 16 << 20,
        ..Limits::default()
    });
    assert_eq!(
        bench.eval("for i = 1, 500 do local s = string.rep('x', 1000000) end return 1"),
        ":1\r\n"
    );
    assert_eq!(bench.eval("collectgarbage('stop') return 1"), ":1\r\n");
    assert_eq!(
        bench.eval("for i = 1, 500 do local s = string.rep('x', 1000000) end return 1"),
        ":1\r\n"
    );
}

#[test]
fn endless_loops_are_killed_wherever_they_hide() {
    check_killed("while true do end");
    check_killed("while true do pcall(function() while true do end end) end");
    check_killed(
        "while true do xpcall(function() while true do end end, function(e) while true do end end) end",
    );
    check_killed("while true do coroutine.wrap(function() while true do end end)() end");
    check_killed(
        "while true do pcall(coroutine.wrap(function() while true do pcall(function() while true do end end) end end)) end",
    );
    check_killed("while true do coroutine.resume(coroutine.create(function() while true do end end)) end");
    check_killed("local f = function() while 1 do redis.call('ping') end end while 1 do pcall(f) end");
    check_killed("while true do pcall(string.gsub, 'a', 'a', function() while true do end end) end");
    check_killed("table.sort({3,2,1}, function() while true do end end)");
    check_killed("load(function() while true do end end)");
    check_killed(
        "setmetatable({}, {__index=function() while true do end end})[1] = nil return setmetatable({}, {__index=function() while true do end end}).x",
    );
    check_killed(
        "local s = string.rep('a', 40) while true do pcall(string.find, s, string.rep('a*', 30) .. 'b') end",
    );
    check_killed("for w in string.gmatch(string.rep('a', 40), string.rep('a*', 30) .. 'b') do end");
    check_killed("return string.gsub(string.rep('a', 40), string.rep('a-', 30) .. 'b', '')");
}

#[test]
fn deep_recursion_ends_with_an_error() {
    check("local function f() return 1 + f() end f()", "stack overflow");
    check("local function f() pcall(f) error('out') end f()", "");
    check(
        "local function f() local ok, e = pcall(f) if not ok then error(e, 0) end end f()",
        "C stack overflow",
    );
    check(
        "local function f() return coroutine.wrap(f)() end f()",
        "C stack overflow",
    );
    check(
        "local t = {} t = setmetatable(t, {__index=function(t, k) return t[k] end}) return t.x",
        "C stack overflow",
    );
    check(
        "return string.gsub('a', 'a', function() return (string.gsub('a', 'a', debug_missing)) end)",
        "nonexistent",
    );
    check(
        "local function f() return (string.gsub('a', 'a', f)) end f()",
        "C stack overflow",
    );
    check(
        "return string.find(string.rep('a', 300000), string.rep('a?', 300000))",
        "pattern too complex",
    );
    check(
        "return string.find(string.rep('a', 300000), string.rep('(a', 31))",
        "unfinished capture",
    );
}

#[test]
fn deep_data_is_refused_by_the_encoders() {
    check(
        "cjson.encode_max_depth(1000000) local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t)",
        "excessive nesting",
    );
    check(
        "cjson.decode_max_depth(1000000) return cjson.decode(string.rep('[', 100000))",
        "too many nested",
    );
    check(
        "return cmsgpack.unpack(string.rep('\\145', 100000))",
        "too many return values",
    );
    check(
        "return cmsgpack.unpack(string.rep('\\1', 100000))",
        "too many return values",
    );
    let mut bench = Bench::new();
    assert_eq!(
        bench.eval("local t = {} for i = 1, 100000 do t = {t} end return #cmsgpack.pack(t)"),
        ":17\r\n"
    );
}

#[test]
fn error_values_of_any_type_are_reported() {
    check("error({})", "ERR unknown error");
    check("error({err={}})", "ERR unknown error");
    check("error({err=12})", "-12 script: ");
    check("error(function() end)", "ERR function: 0x");
    check(
        "error(setmetatable({}, {__newindex=function() error('again') end}))",
        "ERR unknown error",
    );
    check("error(redis)", "ERR unknown error");
    check("error(_G)", "ERR unknown error");
    check("error(coroutine.create(function() end))", "ERR thread: 0x");
}

#[test]
fn nothing_a_script_does_is_seen_by_the_next() {
    let tricks = [
        "getmetatable('').__index = nil",
        "getmetatable('').x = 1",
        "getmetatable('').__index.upper = nil",
        "rawset(getmetatable(''), '__index', nil)",
        "string.upper = nil",
        "rawset(string, 'upper', nil)",
        "table.insert(string, 1)",
        "table.remove(string)",
        "table.sort(string)",
        "setmetatable(string, {__index=function() end})",
        "setmetatable(_G, {})",
        "rawset(getmetatable(_G), '__index', nil)",
        "for k, v in pairs(_G) do if k == 'string' then rawset(v, 'upper', nil) end end",
        "local f, s = pairs(string) s.upper = nil",
        "local k, v = next(_G) _G[k] = nil",
        "local _, r = next(redis) redis.call = r",
        "string.gsub('redis', '%w+', function(k) rawset(_G[k], 'call', nil) end)",
    ];
    let mut bench = Bench::new();
    for trick in tricks {
        let reply = bench.eval(trick);
        assert!(
            reply.contains("Attempt to modify a readonly table"),
            "{trick}: {reply}"
        );
        assert_eq!(
            bench.eval("return {('x'):upper(), type(redis.call), #string}"),
            "*3\r\n$1\r\nX\r\n$8\r\nfunction\r\n:0\r\n"
        );
    }
    for gone in [
        "newproxy", "getfenv", "setfenv", "dofile", "loadfile", "print", "debug", "io", "package", "require",
        "module",
    ] {
        let reply = bench.eval(&format!("return {gone}"));
        assert!(
            reply.contains(&format!("nonexistent global variable '{gone}'")),
            "{gone}: {reply}"
        );
    }
}

#[test]
fn a_collector_hook_cannot_be_set_on_a_table() {
    // Lua 5.1 runs __gc for userdata only, and scripts have no userdata to attach it to.
    let body = "do local t = setmetatable({}, {__gc=function() redis.call('set', 'gc', 'ran') end}) end \
                collectgarbage() collectgarbage() return redis.call('get', 'gc')";
    assert_eq!(Bench::new().eval(body), "$-1\r\n");
}

#[test]
fn the_host_is_asked_every_so_many_instructions() {
    let mut bench = Bench::with_limits(Limits {
        instructions_per_tick: 1000,
        ..Limits::default()
    });
    bench.eval("for i = 1, 100000 do end");
    assert!(
        (50..=400).contains(&bench.host.ticks),
        "{} ticks",
        bench.host.ticks
    );
}
