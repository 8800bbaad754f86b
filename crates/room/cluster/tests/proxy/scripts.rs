//! Clients' scripts and functions under the tiering protocol.

use nagaya_cluster::hot_tier::keys;
use nagaya_testkit::{RedisCluster, Reply, wait};

use crate::support::{LIMIT, Talk, cluster_url, connect, start};
use crate::tiering::{FakeLoads, One, one_server, tiered, with_long_leases};

pub(crate) fn eval(client: &mut Talk, script: &str, keys: &[&str]) -> Reply {
    let count = keys.len().to_string();
    let mut words = vec!["EVAL", script, count.as_str()];
    words.extend(keys);
    client.0.cmd(&words).unwrap()
}

#[track_caller]
fn check_refused(reply: &Reply, part: &str) {
    let text = reply.error().unwrap_or_default();
    assert!(text.contains(part), "{part} in {reply:?}");
    assert!(!text.contains("ERR ERR"), "{text}");
}

/// The registered keys of a tag, with their tokens.
fn registered(one: &One, tag: &str) -> Vec<(String, String)> {
    let list = one.redis.cmd(&[b"HGETALL".to_vec(), keys::dirty(tag.as_bytes())]);
    let words: Vec<String> = list.items().iter().map(Reply::text).collect();
    let mut pairs: Vec<_> = words
        .chunks(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect();
    pairs.sort();
    pairs
}

fn names(one: &One, tag: &str) -> Vec<String> {
    registered(one, tag).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_script_writes_undeclared_keys_of_its_tag_and_registers_them() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    let script = "return redis.call('set','{t1}b',1)";
    assert_eq!(eval(&mut client, script, &["{t1}a"]), Reply::ok());
    client.expect("GET {t1}b", "\"1\"");
    assert!(one.is_dirty("t1", "{t1}b"));
    assert_eq!(names(&one, "t1"), ["{t1}b"], "what it wrote, and nothing else");
    let first = registered(&one, "t1");
    assert_eq!(eval(&mut client, script, &["{t1}a"]), Reply::ok());
    assert_ne!(registered(&one, "t1"), first, "each run has a token of its own");
    let sha = client.0.cmd(&["SCRIPT", "LOAD", script]).unwrap().text();
    client.expect(&format!("EVALSHA {sha} 1 {{t2}}a"), &refusal_of("{t1}b", &sha));
    let given = "return redis.call('SET',ARGV[1],ARGV[2])";
    let reply = client
        .0
        .cmd(&["EVAL", given, "1", "{t2}a", "{t2}x", "v"])
        .unwrap();
    assert_eq!(reply, Reply::ok());
    assert!(one.is_dirty("t2", "{t2}x"));
    assert_eq!(
        one.proxy.handle().metrics().registrations.get(),
        0,
        "none goes ahead"
    );
}

fn refusal_of(key: &str, sha: &str) -> String {
    format!(
        "-ERR script tried to use the key {key}, which has another hash tag than the keys it declares \
         script: {sha}, on @user_script:1."
    )
}

#[test]
fn a_script_registers_exactly_what_its_commands_may_write() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    for (script, written) in [
        ("return redis.call('GET', KEYS[1])", &[][..]),
        (
            "return redis.call('MSET', KEYS[1], 'x', '{T}2', 'y')",
            &["{T}1", "{T}2"],
        ),
        ("return redis.call('RPUSH', '{T}l', 3, 1, 2)", &["{T}l"]),
        (
            "redis.call('set','{T}1','x') return redis.call('RENAME', '{T}1', '{T}2')",
            &["{T}1", "{T}2"],
        ),
        ("return redis.call('COPY', KEYS[1], '{T}2')", &["{T}2"]),
        (
            "return redis.call('ZUNIONSTORE', '{T}d', 2, '{T}a', '{T}b')",
            &["{T}d"],
        ),
        ("return redis.call('SORT', '{T}l', 'STORE', '{T}2')", &["{T}2"]),
        ("return redis.call('SORT', '{T}l')", &[]),
        ("return redis.call('BITOP', 'NOT', '{T}o', KEYS[1])", &["{T}o"]),
        ("return redis.call('OBJECT', 'ENCODING', '{T}2')", &[]),
        (
            "return redis.call('xgroup', 'create', '{T}s', 'g', '$', 'mkstream')",
            &["{T}s"],
        ),
        (
            "return redis.call('XREAD', 'STREAMS', KEYS[1], '{T}s', '0', '0')",
            &[],
        ),
        (
            "return redis.call('GEORADIUS', '{T}g', 1, 2, 3, 'm', 'STORE', '{T}d')",
            &["{T}d"],
        ),
        (
            "local f = redis.call return f('DEL', '{T}2', '{T}3')",
            &["{T}2", "{T}3"],
        ),
        ("return redis.pcall('sEt', '{T}2', 'x')", &["{T}2"]),
        ("return redis.call('s'..'et', '{T}2', 'x')", &["{T}2"]),
        ("return redis.call('g'..'et', '{T}2')", &[]),
        (
            "redis.set_repl(redis.REPL_NONE) return redis.call('set', '{T}2', 'x')",
            &["{T}2"],
        ),
        ("return redis.call('lpush', KEYS[1], 'x')", &["{T}1"]),
        ("return {redis.call('PING'), redis.call('TIME')}", &[]),
    ]
    .into_iter()
    .enumerate()
    .map(|(number, (script, written))| {
        let named = |text: &str| text.replace("{T}", &format!("{{w{number}}}"));
        let written: Vec<String> = written.iter().map(|key| named(key)).collect();
        (named(script), (number, written))
    }) {
        let (number, written) = written;
        eval(&mut client, &script, &[&format!("{{w{number}}}1")]);
        assert_eq!(names(&one, &format!("w{number}")), written, "{script}");
    }
    let number = "return redis.call('set', 12345678901234567, 'x')";
    assert_eq!(eval(&mut client, number, &["12345678901234568"]), Reply::ok());
    assert_eq!(names(&one, "12345678901234568"), ["12345678901234568"]);
}

#[test]
fn a_script_reaches_no_key_of_another_tag_and_none_of_our_own() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    for key in ["{v}2", "uu", "{}u", "x{v}{u}"] {
        for script in [
            format!("return redis.call('GET', '{key}')"),
            format!("return redis.pcall('SET', '{key}', 1)"),
            format!("return redis.call('MGET', KEYS[1], '{key}')"),
        ] {
            let reply = eval(&mut client, &script, &["{u}1"]);
            check_refused(&reply, &format!("the key {key}, which has another hash tag"));
        }
    }
    for key in ["_room:{u}:dirty", "_room:{u}:meta"] {
        let script = format!("return redis.call('DEL', '{key}')");
        check_refused(
            &eval(&mut client, &script, &["{u}1"]),
            "kept for the server itself",
        );
    }
    let reply = client
        .0
        .cmd(&["EVAL", "return #KEYS", "2", "{u}1", "_room:{u}:dirty"])
        .unwrap();
    check_refused(&reply, "kept for the server itself");
    check_refused(
        &eval(&mut client, "return redis.call('GET','{u}1')", &[]),
        "declares none",
    );
    let sorts = [
        "'BY','{u}w*'",
        "'GET','{o}secret'",
        "'BY','nosort','GET','#','GET','*'",
    ];
    for options in sorts {
        let script = format!("return redis.call('SORT','{{u}}l',{options})");
        check_refused(
            &eval(&mut client, &script, &["{u}1"]),
            "option of SORT denied in cluster mode",
        );
    }
    for script in ["FLUSHALL", "RANDOMKEY", "DBSIZE", "SWAPDB", "SELECT"] {
        let reply = eval(
            &mut client,
            &format!("return redis.call('{script}','0','1')"),
            &["{u}1"],
        );
        check_refused(&reply, "not available to scripts");
    }
    let replies = [
        eval(&mut client, "return redis.call('NOSUCH')", &["{u}1"]),
        eval(&mut client, "return redis.call('BLPOP','{u}1',0)", &["{u}1"]),
        eval(
            &mut client,
            "return redis.call('OBJECT','NOSUCH','{u}1')",
            &["{u}1"],
        ),
    ];
    for (reply, part) in replies.iter().zip([
        "Unknown Redis command",
        "not allowed from script",
        "Unknown Redis command",
    ]) {
        assert!(
            reply
                .error()
                .is_some_and(|text| text.to_lowercase().contains(&part.to_lowercase())),
            "{reply:?}"
        );
    }
}

#[test]
fn a_script_sees_the_keys_and_arguments_of_its_client_only() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    let script = "return {#KEYS,#ARGV,KEYS[1],ARGV[1],tostring(KEYS[2]),unpack(ARGV)}";
    let reply = client.0.cmd(&["EVAL", script, "1", "{k}1", "x", "y"]).unwrap();
    assert_eq!(format!("{reply:?}"), r#"[1, 2, "{k}1", "x", "nil", "x", "y"]"#);
    let reply = client
        .0
        .cmd(&["EVAL", "return {#KEYS,#ARGV,unpack(ARGV)}", "0", "x"])
        .unwrap();
    assert_eq!(format!("{reply:?}"), r#"[0, 1, "x"]"#);
    client.expect(
        "EVAL return#KEYS x",
        "-ERR value is not an integer or out of range",
    );
    client.expect("EVAL return#KEYS -1", "-ERR Number of keys can't be negative");
    client.expect(
        "EVAL return#KEYS 2 a",
        "-ERR Number of keys can't be greater than number of args",
    );
    let script = "redis.call('MSET','{k}a',1,'x{k}',2) local n={} \
        for _,k in ipairs(redis.call('KEYS','*')) do n[#n+1]=k end \
        for _,k in ipairs(redis.call('SCAN','0','COUNT','1000')[2]) do n[#n+1]=k end \
        table.sort(n) return n";
    client.expect("SET {other}k 1", "+OK");
    let reply = eval(&mut client, script, &["{k}1"]);
    assert_eq!(format!("{reply:?}"), r#"["x{k}", "x{k}", "{k}a", "{k}a"]"#);
    assert_eq!(
        eval(&mut client, "return redis.sha1hex('')", &[]).text().len(),
        40
    );
    let wrong = eval(&mut client, "\n\nreturn nosuch.field", &[]);
    check_refused(&wrong, "user_script:3:");
}

#[test]
fn scripts_reply_as_on_the_bare_server() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    for script in [
        "return {1,2.9,'x',false,true,{ok='fine'}}",
        "return redis.error_reply('MY error')",
        "return {err='ERR mine'}",
        "return redis.status_reply('YES')",
        "return redis.pcall('LPUSH',KEYS[1])",
        "redis.call('SET',KEYS[1],'x') return redis.pcall('LPUSH',KEYS[1],'y')",
        "local ok,e=pcall(redis.call,'LPUSH',KEYS[1],'y') return {tostring(ok),e.err}",
        "return cjson.encode({a=1})",
        "return redis.call('HGETALL',KEYS[1]..'h')",
        "redis.setresp(3) redis.call('HSET',KEYS[1]..'h','a',1) return redis.call('HGETALL',KEYS[1]..'h')",
        "return redis.call('INCRBYFLOAT',KEYS[1]..'n','1.5')",
        "return tostring(redis.LOG_WARNING)..tostring(redis.REPL_ALL)..tostring(redis.nosuch)",
        "return redis.pcall('BLPOP',KEYS[1],0)",
        "return redis.pcall('NOSUCH')",
        "return redis.pcall()",
        "x=1",
    ] {
        let words = ["EVAL", script, "1", "{bare}k"];
        let empty = || one.redis.cmd(&["DEL", "{bare}k", "{bare}kh", "{bare}kn"]);
        empty();
        let through = client.0.cmd(&words).unwrap();
        empty();
        let bare = one.redis.cmd(&words);
        assert_eq!(format!("{through:?}"), format!("{bare:?}"), "{script}");
    }
    for script in [
        "return redis.call('SET','{bare}k',1)",
        "return redis.pcall('SET','{bare}k',1)",
    ] {
        let words = ["EVAL_RO", script, "1", "{bare}k"];
        let (through, bare) = (client.0.cmd(&words).unwrap(), one.redis.cmd(&words));
        let text = |reply: &Reply| {
            reply
                .error()
                .unwrap_or_default()
                .split(" script:")
                .next()
                .unwrap()
                .to_owned()
        };
        assert_eq!(text(&through), text(&bare), "{script}");
    }
}

#[test]
fn a_script_that_frees_memory_runs_when_memory_is_full() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    client.expect("SET {m}k x", "+OK");
    eval(&mut client, "return redis.call('GET',KEYS[1])", &["{m}k"]);
    one.redis.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let full = eval(&mut client, "return redis.call('SET','{m}new','x')", &["{m}k"]);
    check_refused(&full, "OOM command not allowed when used memory > 'maxmemory'");
    assert_eq!(
        eval(
            &mut client,
            "return redis.call('DEL','{m}k','{m}other')",
            &["{m}k"]
        ),
        Reply::Int(1)
    );
    one.redis.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(one.is_dirty("m", "{m}other") && !one.is_dirty("m", "{m}new"));
}

#[test]
fn scripts_in_a_transaction_register_what_they_write() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    client.expect("MULTI", "+OK");
    client
        .0
        .send(&["EVAL", "return redis.call('SET','{x}b',1)", "1", "{x}a"])
        .unwrap();
    assert_eq!(client.receive(), Reply::Simple("QUEUED".into()));
    client.expect("SET {x}c 1", "+QUEUED");
    client.expect("EXEC", "[+OK, +OK]");
    assert_eq!(names(&one, "x"), ["{x}b", "{x}c"]);
    client.expect("WATCH {y}a", "+OK");
    client.expect("MULTI", "+OK");
    client
        .0
        .send(&["EVAL", "return redis.call('SET','{y}b',#ARGV)", "1", "{y}a", "1"])
        .unwrap();
    assert_eq!(client.receive(), Reply::Simple("QUEUED".into()));
    client.expect("EXEC", "[+OK]");
    assert_eq!(names(&one, "y"), ["{y}b"]);
}

#[test]
fn scripts_are_known_by_the_hashes_their_clients_compute() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    let script = "return redis.call('INCR', KEYS[1])";
    let sha = client.0.cmd(&["SCRIPT", "LOAD", script]).unwrap().text();
    assert_eq!(
        sha,
        one.redis
            .cmd(&["EVAL", "return redis.sha1hex(ARGV[1])", "0", script])
            .text()
    );
    client.expect(&format!("SCRIPT EXISTS {sha} {}", "f".repeat(40)), "[1, 0]");
    client.expect(&format!("EVALSHA {sha} 1 {{h}}n"), "1");
    one.redis.cmd(&["SCRIPT", "FLUSH"]);
    client.expect(&format!("EVALSHA {sha} 1 {{h}}n"), "2");
    client.expect("MULTI", "+OK");
    client.expect(&format!("EVALSHA {sha} 1 {{h}}n"), "+QUEUED");
    client.expect("EXEC", "[3]");
    client.expect(
        &format!("EVALSHA {} 0", "f".repeat(40)),
        "-NOSCRIPT No matching script. Please use EVAL.",
    );
    client.expect("SCRIPT FLUSH", "+OK");
    client.expect(
        &format!("EVALSHA {sha} 1 {{h}}n"),
        "-NOSCRIPT No matching script. Please use EVAL.",
    );
}

#[test]
fn functions_register_what_they_write() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    let library = "#!lua name=mine\n\
        redis.register_function('put', function(keys, args) return redis.call('SET', args[1], #keys..#args) end)\n\
        redis.register_function{function_name='look', flags={'no-writes'}, \
        callback=function(keys, args) return redis.call('GET', keys[1]) end}";
    assert_eq!(
        client.0.cmd(&["FUNCTION", "LOAD", library]).unwrap().text(),
        "mine"
    );
    client.expect("FCALL put 1 {q}k {q}k", "+OK");
    client.expect("FCALL_RO look 1 {q}k", "\"11\"");
    client.expect("FCALL put 1 {q}k {q}other", "+OK");
    assert_eq!(names(&one, "q"), ["{q}k", "{q}other"]);
    check_refused(&client.say("FCALL put 1 {q}k {r}other"), "another hash tag");
    check_refused(&client.say("FCALL put 0 {r}other"), "declares none");
    client.expect("MULTI", "+OK");
    client.expect("FCALL put 1 {s}k {s}other", "+QUEUED");
    client.expect("EXEC", "[+OK]");
    assert_eq!(names(&one, "s"), ["{s}other"]);
}

#[test]
fn a_script_waits_while_its_slot_moves_and_is_registered_on_the_new_node() {
    let cluster = RedisCluster::start();
    let loads = FakeLoads::new(cluster.addresses());
    let proxy = start(with_long_leases(tiered(&cluster_url(&cluster), &loads)));
    let mut client = connect(&proxy);
    let script = "redis.call('APPEND','{mv}b','x') return redis.call('APPEND','{mv}c','y')";
    assert_eq!(eval(&mut client, script, &["{mv}a"]), Reply::Int(1));
    let slot = cluster.slot_of("{mv}a");
    let to = (0..cluster.nodes().len())
        .find(|node| {
            *node != cluster.owner_of(slot)
                && (0..16384)
                    .step_by(512)
                    .any(|slot| cluster.owner_of(slot) == *node)
        })
        .unwrap();
    let moving = cluster.begin_slot_move(slot, to);
    let mut second = connect(&proxy);
    second.0.send(&["EVAL", script, "1", "{mv}a"]).unwrap();
    moving.migrate_keys();
    moving.finish();
    let reply = second.receive();
    assert_eq!(reply, Reply::Int(2), "it ran once, whole, on one node");
    wait::until("the script runs on the new node", LIMIT, || {
        eval(&mut client, "return redis.call('GET','{mv}b')", &["{mv}a"]) == Reply::bulk("xx")
    });
    let dirty = cluster.nodes()[to].cmd(&[b"HEXISTS".to_vec(), keys::dirty(b"mv"), b"{mv}b".to_vec()]);
    assert_eq!(dirty, Reply::Int(1));
}

#[test]
fn functions_that_nothing_registers_for_are_not_found() {
    let one = one_server(with_long_leases);
    let library = "#!lua name=direct\n\
        redis.register_function('put', function(keys) return redis.call('SET', keys[1], 'x') end)";
    assert_eq!(one.redis.cmd(&["FUNCTION", "LOAD", library]).text(), "direct");
    let mut client = connect(&one.proxy);
    client.expect("FCALL put 1 {q}k", "-ERR Function not found");
    client.expect("EXISTS {q}k", "0");
    let loaded = client.0.cmd(&["FUNCTION", "LOAD", "REPLACE", library]).unwrap();
    assert_eq!(loaded.text(), "direct");
    client.expect("FCALL put 1 {q}k", "+OK");
    assert_eq!(names(&one, "q"), ["{q}k"]);
}
