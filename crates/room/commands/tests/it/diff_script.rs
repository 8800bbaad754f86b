//! Scripts and functions beside a real server. Libraries and scripts belong to the whole server there, so
//! all of it is one test.

use nagaya_resp::Proto;

use crate::harness::{Compare, Pair};

/// Every script runs with the keys `k1 k2` and the arguments `a1 7 3.5`.
const SCRIPTS: &[&str] = &[
    // What scripts return.
    "return 1",
    "return -3.99",
    "return 1e15",
    "return 2^53",
    "return 'text'",
    "return ''",
    "return 'with\\r\\nbreaks'",
    "return true",
    "return false",
    "return nil",
    "return",
    "return {}",
    "return {1, 2, {3, 'x', {}}, false, true}",
    "return {1, nil, 3}",
    "return {nil, 2}",
    "return {ok='fine'}",
    "return {ok='fi\\r\\nne'}",
    "return {err='My error'}",
    "return {err='ERR my\\r\\nerror'}",
    "return {err='-CODE text'}",
    "return {err=''}",
    "return {double=3.25}",
    "return {double='x'}",
    "return {double=1/0}",
    "return {map={a=1}}",
    "return {set={a=true}}",
    "return {verbatim_string={format='txt', string='some'}}",
    "return {1, {map={a={double=1.5}}}, {set={x=true}}, {big_number='9'}}",
    "redis.setresp(3) return {double=3.25}",
    "redis.setresp(3) return {map={a=1}}",
    "redis.setresp(3) return {set={a=true}}",
    "redis.setresp(3) return {verbatim_string={format='txt', string='some'}}",
    "redis.setresp(3) return {true, false}",
    "redis.setresp(3) return nil",
    "return redis.status_reply('GOOD')",
    "return redis.error_reply('BAD one')",
    "return redis.error_reply('-BAD one')",
    "return redis.error_reply('')",
    "return redis.error_reply(1, 2)",
    "return redis.status_reply()",
    "return function() end",
    "return {1, function() end, 2}",
    "local t = {} t[1] = t return 'cycle'",
    // Keys and arguments.
    "return {KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3], #KEYS, #ARGV}",
    "return ARGV[2] + ARGV[3]",
    "KEYS[1] = 'other' return KEYS[1]",
    "return KEYS[1] .. ARGV[1]",
    // Commands and their replies.
    "return redis.call('SET', KEYS[1], ARGV[1])",
    "return redis.call('GET', KEYS[1])",
    "return redis.call('GET', 'missing')",
    "return redis.call('GET', 'missing') == false",
    "redis.setresp(3) return redis.call('GET', 'missing') == nil",
    "return type(redis.call('SET', 'x', 1))",
    "return redis.call('SET', 'x', 1)['ok']",
    "return redis.call('set', 'n', 3.7)",
    "return redis.call('get', 'n')",
    "redis.call('set', 'n', 1e20) return redis.call('get', 'n')",
    "redis.call('set', 'n', 0.1 + 0.2) return redis.call('get', 'n')",
    "redis.call('set', 'n', -0) return redis.call('get', 'n')",
    "redis.call('set', 'n', 123456789012) return redis.call('get', 'n')",
    "redis.call('set', 'n', 10) return redis.call('incr', 'n')",
    "return redis.call('INCRBYFLOAT', 'n', '1.25')",
    "return redis.call('APPEND', KEYS[1], 'more')",
    "return redis.call('STRLEN', KEYS[1])",
    "return redis.call('MSET', 'a', 1, 'b', 2)",
    "return redis.call('MGET', 'a', 'b', 'missing', 'a')",
    "return redis.call('EXISTS', 'a', 'b', 'missing')",
    "return redis.call('TYPE', 'a')",
    "return redis.call('TYPE', 'a')['ok']",
    "return redis.call('DEL', 'a')",
    "return redis.call('RPUSH', 'list', 1, 2, 3, 'x')",
    "return redis.call('LRANGE', 'list', 0, -1)",
    "return redis.call('LPOP', 'list', 2)",
    "return redis.call('LPOP', 'nolist', 2)",
    "return redis.call('LPOS', 'list', 'x')",
    "return redis.call('LMPOP', 1, 'list', 'LEFT')",
    "return redis.call('LMPOP', 1, 'nolist', 'LEFT')",
    "return redis.call('BLMPOP', 0, 1, 'nolist', 'LEFT')",
    "return redis.call('BLPOP', 'nolist', 0)",
    "return redis.call('HSET', 'hash', 'f', 'v')",
    "return redis.call('HGETALL', 'hash')",
    "redis.setresp(3) return redis.call('HGETALL', 'hash')",
    "redis.setresp(3) return redis.call('HGETALL', 'hash')['map']['f']",
    "return redis.call('HGETALL', 'nohash')",
    "redis.setresp(3) return redis.call('HGETALL', 'nohash')",
    "return redis.call('HGET', 'hash', 'none')",
    "return redis.call('HMGET', 'hash', 'f', 'none')",
    "return redis.call('SADD', 'set', 'only')",
    "return redis.call('SMEMBERS', 'set')",
    "redis.setresp(3) return redis.call('SMEMBERS', 'set')",
    "redis.setresp(3) return redis.call('SMEMBERS', 'set')['set']['only']",
    "return redis.call('SMISMEMBER', 'set', 'only', 'none')",
    "return redis.call('ZADD', 'zset', 1.5, 'a', 2, 'b')",
    "return redis.call('ZSCORE', 'zset', 'a')",
    "redis.setresp(3) return redis.call('ZSCORE', 'zset', 'a')",
    "redis.setresp(3) return redis.call('ZSCORE', 'zset', 'a')['double']",
    "redis.setresp(3) return redis.call('ZSCORE', 'zset', 'none')",
    "return redis.call('ZRANGE', 'zset', 0, -1, 'WITHSCORES')",
    "redis.setresp(3) return redis.call('ZRANGE', 'zset', 0, -1, 'WITHSCORES')",
    "return redis.call('ZRANK', 'zset', 'b')",
    "return redis.call('ZPOPMIN', 'zset')",
    "return redis.call('XADD', 'stream', '1-1', 'f', 'v')",
    "return redis.call('XRANGE', 'stream', '-', '+')",
    "redis.setresp(3) return redis.call('XREAD', 'STREAMS', 'stream', '0')",
    "return redis.call('XREAD', 'BLOCK', 0, 'STREAMS', 'stream', '$')",
    "return redis.call('XLEN', 'stream')",
    "return redis.call('EXPIRE', 'n', 100)",
    "return redis.call('TTL', 'n')",
    "return redis.call('TTL', 'missing')",
    "return redis.call('PERSIST', 'n')",
    "redis.call('SET', 'e', 'v', 'PX', 1) return redis.call('GET', 'e')",
    "return redis.call('OBJECT', 'ENCODING', 'n')",
    "return redis.call('SORT', 'set', 'ALPHA')",
    "redis.call('SADD', 's3', 'b', 'c', 'a') return redis.call('SORT', 's3', 'BY', 'nosort')",
    "return redis.call('DBSIZE') > 3",
    "return #redis.call('KEYS', 'h*')",
    "local t = {} for i = 1, 3000 do t[i] = 'v' .. i end return redis.call('RPUSH', 'many', unpack(t))",
    "local t = {} for i = 1, 7999 do t[i] = i end return redis.call('LPUSH', 'numbers', unpack(t))",
    // Errors.
    "return redis.call('INCR', KEYS[1])",
    "return redis.pcall('INCR', KEYS[1])",
    "return redis.pcall('INCR', KEYS[1])['err']",
    "local ok, e = pcall(redis.call, 'INCR', KEYS[1]) return {tostring(ok), e['err'], type(e)}",
    "return redis.call('LPUSH', KEYS[1], 'x')",
    "redis.pcall('LPUSH', KEYS[1], 'x') return 'went on'",
    "return {redis.pcall('LPUSH', KEYS[1], 'x'), 1}",
    "\n\nredis.call('LPUSH', KEYS[1], 'x')",
    "return redis.call('NOSUCH', 'x')",
    "return redis.pcall('NOSUCH', 'x')",
    "return redis.call('GET')",
    "return redis.call('GET', 'a', 'b')",
    "return redis.call('MULTI')",
    "return redis.call('WATCH', 'a')",
    "return redis.call('EVAL', 'return 1', 0)",
    "return redis.call('SCRIPT', 'LOAD', 'return 1')",
    "return redis.call('FUNCTION', 'STATS')",
    "return redis.call('SCRIPT', 'NOSUCH')",
    "return redis.call('SCRIPT')",
    "return redis.call('OBJECT', 'NOSUCH', 'a')",
    "return redis.call()",
    "return redis.pcall()",
    "return redis.call(nil)",
    "return redis.call({})",
    "return redis.call('GET', {})",
    "return redis.pcall('GET', true)",
    "error('my error')",
    "error({err='TABLE error'})",
    "error({err='TABLE error', extra=1})",
    "error()",
    "local x = nil return x.y",
    "return nosuchglobal",
    "newglobal = 1",
    "return redis.setresp(4)",
    "return redis.setresp()",
    "return redis.sha1hex('abc')",
    "return redis.sha1hex()",
    "return redis.log()",
    "return redis.log('x', 'y')",
    "return redis.log(9, 'y')",
    "return redis.log(redis.LOG_DEBUG, 'quiet')",
    "return redis.set_repl(redis.REPL_ALL)",
    "return redis.set_repl(99)",
    "return redis.replicate_commands()",
    "return redis.acl_check_cmd('GET', 'a')",
    "return redis.acl_check_cmd('NOSUCH', 'a')",
    "return {redis.REDIS_VERSION_NUM > 0, type(redis.REDIS_VERSION)}",
    "return redis.nosuch()",
    "redis.call = nil",
    "return 1 +",
    "return math.random() == math.random()",
    // Libraries on replies.
    "return cjson.encode(redis.call('MGET', 'b', 'missing'))",
    "return cjson.encode({KEYS, ARGV})",
    "return cmsgpack.unpack(cmsgpack.pack({1, 'two', 3.5}))",
    "return struct.pack('>I4', tonumber(ARGV[2]))",
    "return bit.band(tonumber(ARGV[2]), 3)",
    "return tostring(redis.call('TYPE', 'b'))ten",
    // What the first line says.
    "#!lua\nreturn redis.call('SET', 'x', 1)",
    "#!lua flags=no-writes\nreturn redis.call('SET', 'x', 1)",
    "#!lua flags=no-writes\nreturn redis.call('GET', 'x')",
    "#!lua flags=no-writes,allow-oom\nreturn redis.call('GET', 'x')",
    "#!lua flags=\nreturn 1",
    "#!lua flags=what\nreturn 1",
    "#!lua name=x\nreturn 1",
    "#!js\nreturn 1",
    "#!lua",
    "#!lua\n\nreturn redis.call('NOSUCH')",
];

const LIBRARIES: &[&str] = &[
    "#!lua name=lib\nredis.register_function('one', function(k, a) return {#k, #a, k[1], a[1]} end)",
    "#!lua name=lib\nredis.register_function('one', function() return 2 end)",
    "#!lua name=lib2\nredis.register_function('ONE', function() return 2 end)",
    "#!LUA name=writer\nredis.register_function('put', function(k, a) return redis.call('SET', k[1], a[1]) end)",
    "#!lua name=reader\nredis.register_function{function_name='look', flags={'no-writes'}, description='d', \
     callback=function(k) return redis.call('GET', k[1]) end}",
    "#!lua name=cheat\nredis.register_function{function_name='cheat', flags={'no-writes'}, \
     callback=function(k) return redis.call('SET', k[1], 1) end}",
    "#!lua name=fails\nredis.register_function('fails', function() error('inside') end)",
    "#!lua name=fails2\nredis.register_function('fails2', function()\n return redis.call('NOSUCH') end)",
    "#!lua name=three\nredis.register_function('m3', function() redis.setresp(3) return {map={a=1}} end)",
    "#!lua name=dup\nredis.register_function('d', function() end) redis.register_function('d', function() end)",
    "#!lua name=none\nreturn 1",
    "#!lua name=bad!\nreturn 1",
    "#!lua name=\nreturn 1",
    "#!lua\nreturn 1",
    "#!lua nome=x\nreturn 1",
    "#!lua name=a name=b\nreturn 1",
    "#!js name=x\nreturn 1",
    "return 1",
    "#!lua name=x",
    "",
    "#!lua name=syntax\nreturn (",
    "#!lua name=runs\nerror('at load')",
    "#!lua name=calls\nredis.call('PING')",
    "#!lua name=calls2\nredis.setresp(3)",
    "#!lua name=glob\nfoo = 1",
    "#!lua name=args\nredis.register_function('f')",
    "#!lua name=args2\nredis.register_function('f f', function() end)",
    "#!lua name=args3\nredis.register_function{function_name='f', callback=1}",
    "#!lua name=args4\nredis.register_function{function_name='f', callback=function() end, flags={'what'}}",
    "#!lua name=args5\nredis.register_function{function_name='f', callback=function() end, what=1}",
];

const FCALLS: &[&str] = &[
    "FCALL one 2 a b c",
    "FCALL ONE 0",
    "FCALL_RO one 0",
    "FCALL put 1 key value",
    "FCALL look 1 key",
    "FCALL_RO look 1 key",
    "FCALL cheat 1 key",
    "FCALL fails 0",
    "FCALL fails2 0",
    "FCALL m3 0",
    "FCALL nosuch 0",
    "FCALL one x",
    "FCALL one -1",
    "FCALL one 3 a",
    "FCALL one",
    "FUNCTION",
    "FUNCTION NOSUCH",
    "FUNCTION STATS",
    "FUNCTION STATS x",
    "FUNCTION LIST LIBRARYNAME lib WITHCODE",
    "FUNCTION LIST LIBRARYNAME LI[B]",
    "FUNCTION LIST LIBRARYNAME reader",
    "FUNCTION LIST LIBRARYNAME none",
    "FUNCTION LIST LIBRARYNAME",
    "FUNCTION LIST WITHCODE WITHCODE",
    "FUNCTION LIST what",
    "FUNCTION DELETE nosuch",
    "FUNCTION DELETE fails",
    "FCALL fails 0",
    "FUNCTION KILL",
    "FUNCTION FLUSH LATER",
    "FUNCTION FLUSH SYNC more",
    "FUNCTION RESTORE junk",
    "FUNCTION RESTORE junk what",
    "FUNCTION RESTORE junk APPEND more",
    "SCRIPT",
    "SCRIPT KILL",
    "SCRIPT EXISTS",
    "SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db x",
    "SCRIPT FLUSH LATER",
    "SCRIPT DEBUG NO",
    "SCRIPT DEBUG WHAT",
    "SCRIPT LOAD",
    "EVALSHA 0000000000000000000000000000000000000000 0",
    "EVALSHA short x",
    "EVAL x",
];

#[test]
fn scripts_and_functions_reply_as_redis_replies() {
    for proto in [Proto::Resp2, Proto::Resp3] {
        let mut pair = Pair::new(proto);
        pair.same("FUNCTION FLUSH");
        pair.same("SCRIPT FLUSH");
        for command in ["EVAL", "EVAL_RO"] {
            let requests = SCRIPTS.iter().map(|script| request(command, script.as_bytes()));
            all_same(&mut pair, requests);
        }
        by_digest(&mut pair);
        transactions(&mut pair);
        functions(&mut pair);
        dumps(&mut pair);
    }
}

/// Runs all requests and shows every one whose replies differ, not only the first.
fn all_same<'a>(pair: &mut Pair, requests: impl Iterator<Item = Vec<&'a [u8]>>) {
    let mut differences = String::new();
    for request in requests {
        let (ours, theirs) = pair.run(&request);
        if ours != theirs {
            let shown: Vec<String> = request
                .iter()
                .map(|word| word.escape_ascii().to_string())
                .collect();
            let (ours, theirs) = (ours.escape_ascii(), theirs.escape_ascii());
            differences += &format!("{}\n ours:   {ours}\n theirs: {theirs}\n", shown.join(" "));
        }
    }
    assert!(differences.is_empty(), "replies differ\n{differences}");
}

fn words(request: &'static str) -> Vec<&'static [u8]> {
    request.split(' ').map(str::as_bytes).collect()
}

fn request<'a>(command: &'a str, script: &'a [u8]) -> Vec<&'a [u8]> {
    let mut request = vec![command.as_bytes(), script];
    request.extend([&b"2"[..], b"k1", b"k2", b"a1", b"7", b"3.5"]);
    request
}

fn by_digest(pair: &mut Pair) {
    for script in SCRIPTS {
        let (ours, theirs) = pair.run(&[b"SCRIPT", b"LOAD", script.as_bytes()]);
        assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string());
        if let Some(digest) = ours.strip_prefix(b"$40\r\n") {
            let digest = digest[..40].to_vec();
            pair.check(&request("EVALSHA", &digest), Compare::Exact);
            pair.check(
                &request("EVALSHA_RO", &digest.to_ascii_uppercase()),
                Compare::Exact,
            );
            pair.check(&[b"SCRIPT", b"EXISTS", &digest], Compare::Exact);
        }
    }
    pair.same("SCRIPT FLUSH ASYNC");
    pair.same("EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0");
}

fn transactions(pair: &mut Pair) {
    pair.same("MULTI");
    pair.check(
        &request("EVAL", b"return redis.call('INCR', 'tx')"),
        Compare::Exact,
    );
    pair.check(&request("EVAL", b"return redis.call('NOSUCH')"), Compare::Exact);
    pair.check(
        &request("EVAL", b"return {KEYS[1], redis.call('GET', 'tx')}"),
        Compare::Exact,
    );
    pair.same("EXEC");
}

fn functions(pair: &mut Pair) {
    let load = |library: &&'static str| vec![&b"FUNCTION"[..], b"LOAD", library.as_bytes()];
    all_same(pair, LIBRARIES.iter().map(load));
    all_same(pair, FCALLS.iter().map(|request| words(request)));
    for library in LIBRARIES.iter().rev() {
        pair.check(
            &[b"FUNCTION", b"LOAD", b"REPLACE", library.as_bytes()],
            Compare::Exact,
        );
        pair.check(
            &[b"FUNCTION", b"LOAD", b"what", library.as_bytes()],
            Compare::Exact,
        );
        pair.same("FCALL one 0");
    }
    pair.check(
        &[b"FUNCTION", b"LIST", b"LIBRARYNAME", b"*e*"],
        Compare::Unordered,
    );
    pair.same("FUNCTION STATS");
}

/// Each side takes what the other dumped.
fn dumps(pair: &mut Pair) {
    pair.same("FUNCTION FLUSH");
    pair.same("FUNCTION DUMP");
    pair.check(&[b"FUNCTION", b"LOAD", LIBRARIES[0].as_bytes()], Compare::Exact);
    pair.same("FUNCTION DUMP");
    let (_, theirs) = pair.run(&[b"FUNCTION", b"DUMP"]);
    let start = theirs.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let payload = &theirs[start..theirs.len() - 2];
    for policy in ["APPEND", "REPLACE", "FLUSH"] {
        pair.check(
            &[b"FUNCTION", b"RESTORE", payload, policy.as_bytes()],
            Compare::Exact,
        );
        pair.same("FCALL one 1 x");
    }
    pair.check(
        &[b"FUNCTION", b"LOAD", b"REPLACE", LIBRARIES[1].as_bytes()],
        Compare::Exact,
    );
    pair.check(&[b"FUNCTION", b"LOAD", LIBRARIES[3].as_bytes()], Compare::Exact);
    pair.check(&[b"FUNCTION", b"RESTORE", payload, b"REPLACE"], Compare::Exact);
    pair.same("FCALL one 1 x");
    pair.same("FCALL put 1 x y");
    pair.same("FUNCTION DELETE lib");
    let clash = b"#!lua name=clash\nredis.register_function('one', function() return 2 end)";
    pair.check(&[b"FUNCTION", b"LOAD", clash], Compare::Exact);
    pair.check(&[b"FUNCTION", b"RESTORE", payload], Compare::Exact);
    pair.check(&[b"FUNCTION", b"RESTORE", payload, b"FLUSH"], Compare::Exact);
    pair.same("FUNCTION STATS");
}
