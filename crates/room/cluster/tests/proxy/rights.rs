//! Users on the proxy: their rights, their passwords, and the file that keeps them.

use std::path::Path;

use nagaya_cluster::proxy::{Config, Service};
use nagaya_commands::testing::rights::{PASSWORD, walk};
use nagaya_testkit::{Folder, Redis};

use crate::support::{config, connect, start};

#[test]
fn every_command_answers_every_user_as_committed() {
    let redis = Redis::start();
    let proxy = start(Config {
        password: Some(PASSWORD.to_owned()),
        ..config(&redis.url())
    });
    // That of the installed server behind the proxy.
    let tally = walk(proxy.address(), (7, 0));
    for ((who, answer), count) in &tally {
        println!("{who}: {count} x {answer}");
    }
}

#[test]
fn a_password_set_by_config_is_asked_of_new_connections() {
    let redis = Redis::start();
    let proxy = start(config(&redis.url()));
    let mut old = connect(&proxy);
    old.expect("SET k 1", "+OK");
    old.expect("CONFIG SET requirepass one", "+OK");
    old.expect("GET k", "\"1\"");
    let mut new = connect(&proxy);
    new.expect("GET k", "-NOAUTH Authentication required.");
    new.expect("AUTH one", "+OK");
    old.expect("MULTI", "+OK");
    old.expect("CONFIG SET requirepass two", "+QUEUED");
    old.expect("EXEC", "[+OK]");
    let mut newer = connect(&proxy);
    let refused = "-WRONGPASS invalid username-password pair or user is disabled.";
    newer.expect("AUTH one", refused);
    newer.expect("AUTH two", "+OK");
    newer.expect("GET k", "\"1\"");
}

fn with_users(redis: &Redis, path: &Path) -> Config {
    Config {
        acl_file: Some(path.to_owned()),
        ..config(&redis.url())
    }
}

#[test]
fn users_saved_to_the_file_are_there_after_a_restart_and_on_other_proxies_with_it() {
    let redis = Redis::start();
    let folder = Folder::new("proxy-users");
    let path = folder.path().join("users.acl");
    let missing = Service::bind(with_users(&redis, &path))
        .err()
        .unwrap()
        .to_string();
    assert!(
        missing.contains("users.acl") && missing.contains("No such file"),
        "{missing}"
    );
    std::fs::write(&path, "").unwrap();
    let proxy = start(with_users(&redis, &path));
    let mut admin = connect(&proxy);
    admin.expect("ACL SETUSER u on >pw ~a +@all", "+OK");
    admin.expect("ACL SAVE", "+OK");
    let other = start(with_users(&redis, &path));
    let mut user = connect(&other);
    user.expect("AUTH u pw", "+OK");
    user.expect("SET a 1", "+OK");
    admin.expect("ACL SETUSER u ~b", "+OK");
    admin.expect("ACL SAVE", "+OK");
    proxy.stop();
    user.expect(
        "SET b 1",
        "-NOPERM this user has no permissions to access one of the keys used as arguments",
    );
    connect(&other).expect("ACL LOAD", "+OK");
    let mut user = connect(&other);
    user.expect("AUTH u pw", "+OK");
    user.expect("SET b 1", "+OK");
    std::fs::write(&path, "user u on\nuser v +nosuch\n").unwrap();
    let wrong = Service::bind(with_users(&redis, &path))
        .err()
        .unwrap()
        .to_string();
    assert!(
        wrong.contains("users.acl:2: Error in applying operation '+nosuch'"),
        "{wrong}"
    );
}

#[test]
fn settings_of_the_data_are_refused_where_the_data_is_elsewhere() {
    let redis = Redis::start();
    let proxy = start(config(&redis.url()));
    let mut client = connect(&proxy);
    for request in [
        "CONFIG SET maxmemory 100mb",
        "CONFIG SET maxmemory-policy allkeys-lru",
        "CONFIG SET min-replicas-to-write 1",
        "CONFIG SET appendfsync always",
        "CONFIG SET busy-reply-threshold 10",
    ] {
        let reply = format!("{:?}", client.say(request));
        assert!(reply.contains("Redis servers"), "{request}: {reply}");
    }
    client.expect("CONFIG SET maxmemory 0", "+OK");
    client.expect("CONFIG SET hash-max-listpack-entries 5", "+OK");
    let reply = format!("{:?}", client.say("DEBUG SLEEP 0"));
    assert!(reply.contains("DEBUG command not allowed"), "{reply}");
}

#[test]
fn a_transaction_does_not_run_what_its_user_may_no_longer_do() {
    let redis = Redis::start();
    let proxy = start(config(&redis.url()));
    let mut admin = connect(&proxy);
    admin.expect("ACL SETUSER u on nopass ~* +@all", "+OK");
    let mut user = connect(&proxy);
    user.expect("AUTH u x", "+OK");
    user.expect("MULTI", "+OK");
    user.expect("SET k 1", "+QUEUED");
    user.expect("INCR k", "+QUEUED");
    admin.expect("ACL SETUSER u -incr", "+OK");
    let reply = format!("{:?}", user.say("EXEC"));
    assert!(
        reply.starts_with("-EXECABORT") && reply.contains("NOPERM"),
        "{reply}"
    );
    admin.expect("EXISTS k", "0");
    user.expect("SET k 1", "+OK");
}
