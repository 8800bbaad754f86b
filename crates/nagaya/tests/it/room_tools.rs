//! `nagaya room export`, `erase` and `doctor`, beside a running server and on a stopped one.

use std::path::{Path, PathBuf};

use nagaya_testkit::{Reply, RespClient};
use serde_json::{Value, json};

use super::*;

fn client(house: &Nagaya) -> RespClient {
    RespClient::connect(house.address("room")).unwrap()
}

/// Sends requests of plain words, none of which may fail.
fn send_all(house: &Nagaya, requests: &[&str]) {
    let mut client = client(house);
    for request in requests {
        let words: Vec<&str> = request.split(' ').collect();
        let reply = client.cmd(&words).unwrap();
        assert_eq!(reply.error(), None, "{request}");
    }
}

fn tool(house: &Nagaya, words: &[&str]) -> Ran {
    tool_in(house.data(), words)
}

fn tool_in(data: &Path, words: &[&str]) -> Ran {
    let mut args = vec!["room"];
    args.extend(words);
    args.extend(["--data", data.to_str().unwrap()]);
    run(args)
}

/// The lines of an export, by key.
fn exported(ran: &Ran) -> Vec<Value> {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut lines: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    lines.sort_by_key(|line| line["key"].to_string());
    lines
}

/// Whether any file of the room's folder holds these bytes.
fn is_on_disk(data: &Path, needle: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![data.join("room")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap_or_default();
            if bytes.windows(needle.len()).any(|window| window == needle) {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn a_running_house_is_exported_with_all_that_was_just_written() {
    let house = house().start();
    send_all(
        &house,
        &[
            "SET {u:1}:name Aiko",
            "RPUSH {u:1}:list a b",
            "HSET plain field 1",
            "SET late 5 PXAT 99999999999999",
        ],
    );
    client(&house).cmd(&[&b"SET"[..], b"\xff", b"\xfe"]).unwrap();
    let ran = tool(&house, &["export"]);
    let expected = [
        json!({"tag": "late", "key": "late", "type": "string", "expires_at_ms": 99999999999999i64, "value": "5"}),
        json!({"tag": "plain", "key": "plain", "type": "hash", "expires_at_ms": null, "value": {"field": "1"}}),
        json!({"tag": "u:1", "key": "{u:1}:list", "type": "list", "expires_at_ms": null, "value": ["a", "b"]}),
        json!({"tag": "u:1", "key": "{u:1}:name", "type": "string", "expires_at_ms": null, "value": "Aiko"}),
        json!({"tag": {"base64": "/w=="}, "key": {"base64": "/w=="}, "type": "string", "expires_at_ms": null,
               "value": {"base64": "/g=="}}),
    ];
    assert_eq!(exported(&ran), expected);
    assert!(ran.stderr.contains("exported 5 keys of 4 tags"), "{}", ran.stderr);
}

#[test]
fn named_tags_go_to_a_file_with_payloads() {
    let house = house().start();
    send_all(&house, &["SET {a}1 x", "SET {b}1 y", "SET {c}1 z"]);
    let folder = Folder::new("export");
    let file = folder.path().join("two.jsonl");
    let file = file.to_str().unwrap();
    let ran = tool(
        &house,
        &["export", "a", "{b}whatever", "--payload", "--output", file],
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    let text = std::fs::read_to_string(file).unwrap();
    assert_eq!(text.lines().count(), 2);
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["key"], "{a}1");
    assert!(first["payload"].as_str().unwrap().starts_with("AAF4"), "{first}");
    let missing = tool(&house, &["export", "nobody"]);
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.stderr.contains("nothing is stored under the tag nobody"),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_killed_house_is_exported_with_its_log() {
    let house = house()
        .args(["--set", "room.fsync=always", "--set", "room.max_staleness=1h"])
        .start();
    send_all(&house, &["SET saved 1"]);
    assert_eq!(
        client(&house).cmd(&["ROOM.WAITCOLD", "20000", "ALL"]).unwrap(),
        Reply::Int(1)
    );
    send_all(&house, &["INCR saved", "SET unsaved 1"]);
    house.process().kill9();
    let ran = tool(&house, &["export"]);
    let values: Vec<_> = exported(&ran)
        .iter()
        .map(|line| (line["key"].clone(), line["value"].clone()))
        .collect();
    assert_eq!(
        values,
        [(json!("saved"), json!("2")), (json!("unsaved"), json!("1"))]
    );
    assert!(
        ran.stderr
            .contains("2 records of its write-ahead log are saved first"),
        "{}",
        ran.stderr
    );
    // The second time there is nothing left to save, and the server still has everything.
    assert_eq!(exported(&tool(&house, &["export"])).len(), 2);
    house.restart();
    assert_eq!(client(&house).cmd(&["GET", "saved"]).unwrap(), Reply::bulk("2"));
}

#[test]
fn a_house_with_a_password_is_asked_with_the_settings() {
    let house = house().env("NAGAYA_ROOM__PASSWORD", "hunter2").start();
    let mut client = client(&house);
    client.cmd(&["AUTH", "hunter2"]).unwrap();
    client.cmd(&["SET", "k", "v"]).unwrap();
    let data = house.data().to_str().unwrap();
    let words = ["room", "export", "--data", data];
    let ran = run_with(words, &[("NAGAYA_ROOM__PASSWORD", "hunter2")]);
    assert_eq!(exported(&ran).len(), 1);
    let without = run(words);
    assert!(without.stderr.contains("room.password"), "{}", without.stderr);
    assert!(
        without.stderr.contains("the copy on disk was last written"),
        "{}",
        without.stderr
    );
}

#[test]
fn a_running_house_forgets_an_erased_tag_in_memory_and_in_the_file() {
    let house = house().start();
    let secret = "x".repeat(50) + "secret";
    let large = "y".repeat(20_000) + "confidential";
    send_all(
        &house,
        &[
            &format!("SET {{u}}a {secret}"),
            &format!("SET {{u}}b {large}"),
            "SET other 1",
        ],
    );
    assert_eq!(
        client(&house).cmd(&["ROOM.WAITCOLD", "20000", "ALL"]).unwrap(),
        Reply::Int(1)
    );
    assert_eq!(client(&house).cmd(&["ROOM.EVICT", "u"]).unwrap(), Reply::Int(2));
    let refused = tool(&house, &["erase", "u"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("--yes"), "{}", refused.stderr);
    let ran = tool(&house, &["erase", "u", "--yes"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("erased 2 keys of the tag u"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        client(&house).cmd(&["EXISTS", "{u}a", "{u}b", "other"]).unwrap(),
        Reply::Int(1)
    );
    for needle in ["secret", "confidential", "{u}a"] {
        let found = is_on_disk(house.data(), needle.as_bytes());
        let in_log = |path: &PathBuf| path.parent().unwrap().ends_with("log");
        assert!(found.iter().all(in_log), "{needle} is in {found:?}");
    }
    let again = tool(&house, &["erase", "u", "--yes"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(again.stderr.contains("nothing was stored"), "{}", again.stderr);
    // The server goes on with the tag, and it survives a crash.
    send_all(&house, &["SET {u}a new"]);
    assert_eq!(
        client(&house).cmd(&["ROOM.WAITCOLD", "20000", "ALL"]).unwrap(),
        Reply::Int(1)
    );
    house.process().kill9();
    house.restart();
    assert_eq!(client(&house).cmd(&["GET", "{u}a"]).unwrap(), Reply::bulk("new"));
}

#[test]
fn nothing_of_an_erased_tag_is_left_in_a_stopped_folder() {
    let house = house().args(["--set", "room.fsync=always"]).start();
    send_all(
        &house,
        &["SET {u}a secret", "RPUSH {u}b secret more", "SET other kept"],
    );
    house.process().kill9();
    assert!(!is_on_disk(house.data(), b"secret").is_empty());
    let ran = tool(&house, &["erase", "u", "--yes"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("erased 2 keys of the tag u"),
        "{}",
        ran.stderr
    );
    for needle in ["secret", "{u}a"] {
        assert_eq!(
            is_on_disk(house.data(), needle.as_bytes()),
            Vec::<PathBuf>::new(),
            "{needle}"
        );
    }
    house.restart();
    let mut client = client(&house);
    assert_eq!(client.cmd(&["EXISTS", "{u}a", "{u}b"]).unwrap(), Reply::Int(0));
    assert_eq!(client.cmd(&["GET", "other"]).unwrap(), Reply::bulk("kept"));
    // New positions do not fall behind old ones.
    client.cmd(&["SET", "other", "newer"]).unwrap();
    assert_eq!(
        client.cmd(&["ROOM.WAITCOLD", "20000", "ALL"]).unwrap(),
        Reply::Int(1)
    );
    house.restart();
    assert_eq!(
        self::client(&house).cmd(&["GET", "other"]).unwrap(),
        Reply::bulk("newer")
    );
}

#[test]
fn a_folder_without_data_is_named() {
    let folder = Folder::new("empty");
    for words in [&["export"][..], &["erase", "u", "--yes"], &["doctor"]] {
        let ran = tool_in(folder.path(), words);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("holds no data of the room"), "{}", ran.stderr);
        let ran = tool_in(&folder.path().join("missing"), words);
        assert!(ran.stderr.contains("there is no data folder"), "{}", ran.stderr);
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}
