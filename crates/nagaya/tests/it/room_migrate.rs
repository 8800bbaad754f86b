//! `nagaya room import`, `export --rdb` and `compare`: from Redis, back to Redis, from one server to another.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use nagaya_testkit::{Keyspace, Postgres, Redis, Reply, RespClient};
use serde_json::Value;

use super::*;

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

fn filled(seed: u64) -> Redis {
    let redis = Redis::start();
    Keyspace::seeded(seed)
        .fill(&mut redis.client(), now_ms())
        .unwrap();
    redis
}

fn saved(redis: &Redis) -> PathBuf {
    assert_eq!(redis.cmd(&["SAVE"]), Reply::ok());
    let folder = redis.cmd(&["CONFIG", "GET", "dir"]).items()[1].text();
    Path::new(&folder).join("dump.rdb")
}

fn url(house: &Nagaya) -> String {
    format!("redis://{}", house.address("room"))
}

fn dbsize(house: &Nagaya) -> i64 {
    let mut client = RespClient::connect(house.address("room")).unwrap();
    client.cmd(&["DBSIZE"]).unwrap().int()
}

/// Runs a command on the server's data folder; it has to end well.
#[track_caller]
fn must(house: &Nagaya, words: &[&str]) -> Ran {
    let ran = tool(house, words);
    assert_eq!(ran.code, Some(0), "{words:?}: {}{}", ran.stdout, ran.stderr);
    ran
}

fn tool(house: &Nagaya, words: &[&str]) -> Ran {
    let mut args = vec!["room"];
    args.extend(words);
    args.extend(["--data", house.data().to_str().unwrap()]);
    run(args)
}

#[test]
fn a_redis_moves_in_and_out_again_with_everything() {
    let house = house().start();
    let source = filled(1);
    let file = saved(&source);
    let file = file.to_str().unwrap();
    let ran = must(&house, &["import", file, "--json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["imported"]["keys"], 300);
    assert_eq!(report["imported"]["functions"], 2);
    assert_eq!(report["file"]["checksum"], "verified");
    let ran = must(&house, &["compare", &source.url()]);
    assert!(ran.stdout.starts_with("equal: 300 keys"), "{}", ran.stdout);
    must(&house, &["compare", file]);

    // What was imported is as durable as anything else.
    house.process().kill9();
    house.restart();
    must(&house, &["compare", file]);

    let folder = Folder::new("out");
    let out = folder.path().join("dump.rdb");
    must(&house, &["export", "--rdb", out.to_str().unwrap()]);
    let checked = Command::new("redis-check-rdb").arg(&out).output().unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stdout)
    );
    let target = Redis::with_config(&[&format!("dir {}", folder.path().display())]);
    assert_eq!(target.cmd(&["DEBUG", "DIGEST"]), source.cmd(&["DEBUG", "DIGEST"]));
    assert_eq!(target.cmd(&["FUNCTION", "LIST"]).items().len(), 2);
    let ran = run(["room", "compare", &source.url(), &target.url()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
}

#[test]
fn a_second_run_needs_a_word_about_the_keys_that_are_there() {
    let house = house().start();
    let source = filled(2);
    let file = saved(&source);
    let file = file.to_str().unwrap();
    must(&house, &["import", file, "--match", "key:*"]);
    let ran = tool(&house, &["import", file]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("say --replace or --keep"), "{}", ran.stderr);
    must(&house, &["import", file, "--keep"]);
    must(&house, &["import", file, "--replace"]);
    must(&house, &["compare", &source.url()]);
    let both = tool(&house, &["import", file, "--keep", "--replace"]);
    assert_eq!(both.code, Some(2));
}

#[test]
fn a_dry_run_tells_what_there_is_and_changes_nothing() {
    let source = Redis::start();
    for request in [
        "SET {user:1}:name Aiko",
        "RPUSH {user:1}:cart a b c",
        "SET plain x",
        "SET gone x",
    ] {
        source.cmd(&request.split(' ').collect::<Vec<_>>());
    }
    source.cmd(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    source.cmd(&["PEXPIRE", "gone", "1"]);
    let file = saved(&source);
    // Without any server: nothing is needed for it.
    let ran = run(["room", "import", file.to_str().unwrap(), "--dry-run"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for expected in [
        "3 keys to import",
        "list    1 key",
        "string  2 keys",
        "2 tags; 1 key without braces",
        "1 past their time",
        "checksum verified",
    ] {
        assert!(ran.stdout.contains(expected), "{expected}: {}", ran.stdout);
    }
    let ran = run(["room", "import", file.to_str().unwrap(), "--dry-run", "--json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["file"]["types"]["string"]["keys"], 2);
    assert_eq!(report["file"]["biggest"].as_array().unwrap().len(), 3);
}

#[test]
fn nothing_of_a_damaged_file_comes_in_unless_it_is_asked_for() {
    let house = house().start();
    let source = filled(3);
    let mut bytes = std::fs::read(saved(&source)).unwrap();
    let folder = Folder::new("damaged");
    let file = folder.path().join("damaged.rdb");
    let at = bytes.len() / 2;
    bytes[at] ^= 0x20;
    std::fs::write(&file, &bytes).unwrap();
    let name = file.to_str().unwrap();
    let ran = tool(&house, &["import", name]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("nothing was imported"), "{}", ran.stderr);
    assert!(ran.stderr.contains("byte "), "{}", ran.stderr);
    assert_eq!(dbsize(&house), 0);

    std::fs::write(&file, &bytes[..at - 1]).unwrap();
    let ran = tool(&house, &["import", name, "--salvage"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains(&format!("ends at byte {}", at - 1)),
        "{}",
        ran.stderr
    );
    let there = dbsize(&house);
    assert!(there > 0, "{}", ran.stderr);
    let ran = run(["room", "compare", &url(&house), &source.url(), "--json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["only_in_b"], 300 - there);
    assert_eq!(
        (&report["values"], &report["expiries"], &report["only_in_a"]),
        (&0.into(), &0.into(), &0.into())
    );
}

#[test]
fn what_cannot_be_imported_is_said_before_anything_is() {
    let house = house().start();
    let folder = Folder::new("wrong");
    for (name, text, expected) in [
        ("text", "hello, this is no snapshot", "not an RDB file"),
        ("newer", "REDIS0099\u{7f}", "version 99"),
        ("valkey", "VALKEY080", "Valkey 9"),
    ] {
        let file = folder.write(name, text);
        let ran = tool(&house, &["import", file.to_str().unwrap()]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains(expected), "{name}: {}", ran.stderr);
    }
    let ran = tool(&house, &["import", folder.path().to_str().unwrap()]);
    assert!(ran.stderr.contains("no manifest"), "{}", ran.stderr);
    let ran = tool(&house, &["import", "nowhere.rdb"]);
    assert!(ran.stderr.contains("cannot read nowhere.rdb"), "{}", ran.stderr);
    let source = Redis::start();
    source.cmd(&["SET", "a", "x"]);
    let mut client = source.client();
    client.cmd(&["SELECT", "5"]).unwrap();
    client.cmd(&["SET", "b", "y"]).unwrap();
    let file = saved(&source);
    let file = file.to_str().unwrap();
    let one = format!("redis://{}/3", house.address("room"));
    let ran = tool(&house, &["import", file, "--to", &one]);
    assert!(ran.stderr.contains("0 (1 key), 5 (1 key)"), "{}", ran.stderr);
    assert_eq!(dbsize(&house), 0);
    must(&house, &["import", file, "--db", "5"]);
    assert_eq!(dbsize(&house), 1);
    house.shut_down();
    let ran = tool(&house, &["import", file]);
    assert!(ran.stderr.contains("no server runs on"), "{}", ran.stderr);
}

#[test]
fn standard_input_is_imported_like_a_file() {
    let house = house().start();
    let source = filled(4);
    let file = saved(&source);
    let folder = Folder::new("pipe");
    let pipe = format!(
        "cat '{}' | '{BINARY}' room import - --to {}",
        file.display(),
        url(&house)
    );
    let launch = Launch::new("sh", "/bin/sh").args(["-c", &pipe]);
    let ran = finish(Process::start(launch, folder.path()).unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(dbsize(&house), 300);
}

#[test]
fn a_password_of_the_settings_and_of_a_url_is_used() {
    let house = house().env("NAGAYA_ROOM__PASSWORD", "open sesame 1234").start();
    let source = filled(5);
    let file = saved(&source);
    let file = file.to_str().unwrap();
    let ran = tool(&house, &["import", file]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("NOAUTH"), "{}", ran.stderr);
    let args = ["room", "import", file, "--data", house.data().to_str().unwrap()];
    let ran = run_with(args, &[("NAGAYA_ROOM__PASSWORD", "open sesame 1234")]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let with_password = format!("redis://:open%20sesame%201234@{}", house.address("room"));
    let ran = run(["room", "compare", &with_password, &source.url()]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

/// From a room in one process to one on Redis and PostgreSQL, and back.
#[test]
fn a_room_moves_to_redis_and_postgres_and_back() {
    let (small, redis, postgres) = (house().start(), Redis::start(), Postgres::start());
    let large = house()
        .args(["--redis", &redis.url(), "--postgres", &postgres.create_database()])
        .start();
    let source = filled(6);
    let file = saved(&source);
    must(&small, &["import", file.to_str().unwrap()]);
    let folder = Folder::new("between");
    let out = folder.path().join("out.rdb");
    let out = out.to_str().unwrap();
    must(&small, &["export", "--rdb", out]);
    let ran = run(["room", "import", out, "--to", &url(&large)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = run(["room", "compare", &url(&small), &url(&large)]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let back = folder.path().join("back.rdb");
    let back = back.to_str().unwrap();
    let ran = run(["room", "export", "--rdb", back, "--from", &url(&large)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = run(["room", "compare", out, back]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn an_export_as_json_lines_comes_in_again() {
    let (from, to) = (house().start(), house().start());
    let source = filled(7);
    must(&from, &["import", saved(&source).to_str().unwrap()]);
    let folder = Folder::new("lines");
    let lines = folder.path().join("all.jsonl");
    let lines = lines.to_str().unwrap();
    must(&from, &["export", "--payload", "--output", lines]);
    must(&to, &["import", lines]);
    must(&to, &["compare", &url(&from)]);
    must(&from, &["export", "--output", lines]);
    let ran = tool(&to, &["import", lines, "--replace"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("line 1: it has no payload"), "{}", ran.stderr);
}

#[test]
fn an_append_only_folder_comes_in_once_it_is_rewritten() {
    let house = house().start();
    let source = Redis::with_config(&["appendonly yes"]);
    let mut client = source.client();
    Keyspace::seeded(8).fill(&mut client, now_ms()).unwrap();
    let folder = source.cmd(&["CONFIG", "GET", "dir"]).items()[1].text();
    let folder = Path::new(&folder).join("appendonlydir");
    let folder = folder.to_str().unwrap();
    let ran = tool(&house, &["import", folder]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("BGREWRITEAOF"), "{}", ran.stderr);
    assert_eq!(dbsize(&house), 0);
    client.cmd(&["BGREWRITEAOF"]).unwrap();
    nagaya_testkit::wait::until("the rewrite is over", LIMIT, || {
        source.info("aof_rewrite_in_progress").as_deref() == Some("0")
            && source.info("aof_rewrite_scheduled").as_deref() == Some("0")
    });
    must(&house, &["import", folder]);
    must(&house, &["compare", &source.url()]);
}
