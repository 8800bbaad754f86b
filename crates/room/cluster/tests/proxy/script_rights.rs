//! What scripts may do is what their users may do.

use nagaya_testkit::Reply;

use crate::scripts::eval;
use crate::support::{Talk, connect};
use crate::tiering::{one_server, with_long_leases};

#[test]
fn scripts_do_no_more_than_their_users_may() {
    let one = one_server(with_long_leases);
    let mut admin = connect(&one.proxy);
    admin.expect("SET {h}k 1", "+OK");
    admin.expect("SET {o}k secret", "+OK");
    admin.expect(
        "ACL SETUSER u on nopass ~{h}* +@read +@scripting +multi +exec",
        "+OK",
    );
    let mut user = connect(&one.proxy);
    user.expect("AUTH u x", "+OK");
    let run = |talk: &mut Talk, script: &str| {
        talk.0.send(&["EVAL", script, "1", "{h}k"]).unwrap();
        format!("{:?}", talk.receive())
    };
    assert_eq!(run(&mut user, "return redis.call('get',KEYS[1])"), "\"1\"");
    assert_eq!(run(&mut user, "return server.call('GET',KEYS[1])"), "\"1\"");
    for script in [
        "return redis.call('set',KEYS[1],2)",
        "return redis.pcall('SET',KEYS[1],2)",
        "return redis.call('publish','c','m')",
        "return redis.call('object','freq','{o}k')",
        "return redis.call('get','{o}k')",
        "return _G.redis.call('get','{o}k')",
        "return loadstring('return redis.call(\"get\",\"{o}k\")')()",
        "return load(function() return nil end)",
        "return getmetatable(redis).__index.call('get','{o}k')",
        "redis.call=nil return redis.call('get','{o}k')",
        "return server.call('set',KEYS[1],2)",
    ] {
        let reply = run(&mut user, script);
        assert!(reply.starts_with('-'), "{script}: {reply}");
    }
    admin.expect("GET {h}k", "\"1\"");
    // Another's script is held to the rights of who runs it.
    admin
        .0
        .send(&["SCRIPT", "LOAD", "return redis.call('incr',KEYS[1])"])
        .unwrap();
    let sha = admin.receive().text();
    let denied = format!("{:?}", user.say(&format!("EVALSHA {sha} 1 {{h}}k")));
    assert!(
        denied.contains("can't run this command or subcommand"),
        "{denied}"
    );
    admin.expect(&format!("EVALSHA {sha} 1 {{h}}k"), "2");
    user.expect("MULTI", "+OK");
    user.expect(&format!("EVALSHA {sha} 1 {{h}}k"), "+QUEUED");
    let denied = format!("{:?}", user.say("EXEC"));
    assert!(
        denied.contains("can't run this command or subcommand"),
        "{denied}"
    );
    admin.expect("GET {h}k", "\"2\"");
    let denied = format!("{:?}", user.say("FCALL f 1 {h}k"));
    assert!(denied.starts_with("-NOPERM functions run"), "{denied}");
    admin.expect("ACL SETUSER u +@all allchannels", "+OK");
    assert_eq!(run(&mut user, "return redis.call('incr',KEYS[1])"), "3");
    user.expect("FCALL f 1 {h}k", "-ERR Function not found");
}

#[test]
fn a_script_in_a_transaction_is_held_to_the_rights_at_its_end() {
    let one = one_server(with_long_leases);
    let mut admin = connect(&one.proxy);
    for lost in ["resetkeys ~{h}k", "-set"] {
        admin.expect("ACL SETUSER u on nopass +@all -@admin resetkeys ~*", "+OK");
        let mut user = connect(&one.proxy);
        user.expect("AUTH u x", "+OK");
        for expected in ["-EXECABORT", "["] {
            user.expect("MULTI", "+OK");
            user.0
                .send(&["EVAL", "return redis.pcall('SET','{h}x',1)", "1", "{h}k"])
                .unwrap();
            assert_eq!(user.receive(), Reply::Simple("QUEUED".into()));
            if expected == "-EXECABORT" {
                admin.expect(&format!("ACL SETUSER u {lost}"), "+OK");
            }
            let reply = format!("{:?}", user.say("EXEC"));
            assert!(reply.starts_with(expected), "{lost}: {reply}");
            admin.expect("EXISTS {h}x", "0");
        }
    }
}

#[test]
fn undeclared_keys_are_for_users_who_may_use_them() {
    let one = one_server(with_long_leases);
    let mut admin = connect(&one.proxy);
    for (user, keys) in [
        ("some", "~{h}k"),
        ("tag", "~{h}*"),
        ("all", "~*"),
        ("two", "~* (+get +eval ~{h}k)"),
    ] {
        admin.expect(
            &format!("ACL SETUSER {user} on nopass +@all -@admin {keys}"),
            "+OK",
        );
    }
    let write = |user: &str, key: &str| {
        let mut talk = connect(&one.proxy);
        talk.expect(&format!("AUTH {user} x"), "+OK");
        let reply = eval(
            &mut talk,
            &format!("return redis.call('SET','{key}',1)"),
            &["{h}k"],
        );
        reply.error().map(str::to_owned)
    };
    for (user, key, may) in [
        ("some", "{h}k", true),
        ("some", "{h}x", false),
        ("tag", "{h}x", true),
        ("tag", "x{h}", false),
        ("all", "x{h}", true),
        ("two", "{h}k", true),
        ("two", "{h}x", false),
    ] {
        let error = write(user, key);
        assert_eq!(error.is_none(), may, "{user} {key}: {error:?}");
        assert!(
            error.is_none_or(|text| text.contains("undeclared key")),
            "{user} {key}"
        );
    }
}
