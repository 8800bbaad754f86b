//! `nagaya room doctor`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nagaya_testkit::{Postgres, Redis, Reply, RespClient};
use serde_json::Value;

use super::*;

fn doctor(data: &Path, more: &[&str]) -> (Ran, Value) {
    let mut args = vec!["room", "doctor", "--json", "--data", data.to_str().unwrap()];
    args.extend(more);
    let ran = run(args);
    let report = serde_json::from_str(&ran.stdout).unwrap_or_default();
    (ran, report)
}

fn findings(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| (text(&finding["part"]), text(&finding["what"])))
        .collect()
}

fn write_keys(house: &Nagaya, keys: std::ops::Range<u32>) {
    let mut client = RespClient::connect(house.address("room")).unwrap();
    for number in keys {
        let reply = client.cmd(&["SET", &format!("{{tag{number}}}k"), &"v".repeat(100)]);
        assert_eq!(reply.unwrap(), Reply::ok());
    }
}

fn wait_cold(house: &Nagaya) {
    let mut client = RespClient::connect(house.address("room")).unwrap();
    assert_eq!(
        client.cmd(&["ROOM.WAITCOLD", "20000", "ALL"]).unwrap(),
        Reply::Int(1)
    );
}

fn segments(data: &Path) -> Vec<PathBuf> {
    let folder = data.join("room/log");
    let mut paths: Vec<PathBuf> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}

#[test]
fn a_sound_house_is_well_running_and_stopped() {
    let house = house().start();
    write_keys(&house, 0..500);
    let (ran, report) = doctor(house.data(), &[]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_eq!((&report["ok"], &report["running"]), (&true.into(), &true.into()));
    let parts: Vec<&str> = report["facts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fact| fact["part"].as_str().unwrap())
        .collect();
    assert_eq!(parts, ["folder", "disk", "cold", "log", "memory"]);
    let refused = doctor(house.data(), &["--fix"]).0;
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    house.shut_down();
    let table = run(["room", "doctor", "--data", house.data().to_str().unwrap()]);
    assert_eq!(table.code, Some(0), "{}{}", table.stdout, table.stderr);
    assert!(table.stdout.contains("500 keys of 500 tags"), "{}", table.stdout);
    assert!(table.stdout.contains("all of it saved"), "{}", table.stdout);
    assert!(table.stdout.ends_with("\nnothing is wrong\n"), "{}", table.stdout);
}

#[test]
fn strangers_and_open_folders_are_found() {
    let house = house().start();
    write_keys(&house, 0..1);
    house.shut_down();
    std::fs::write(house.data().join("room/old.bak"), "").unwrap();
    std::fs::set_permissions(house.data(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (ran, report) = doctor(house.data(), &[]);
    assert_eq!(ran.code, Some(1));
    let found = findings(&report);
    assert!(
        found
            .iter()
            .any(|(_, what)| what.contains("other users can read")),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .any(|(_, what)| what.contains("old.bak belongs to nothing")),
        "{found:?}"
    );
    let (ran, report) = doctor(house.data(), &["--fix"]);
    assert_eq!(ran.code, Some(1), "the stranger stays");
    assert_eq!(findings(&report).len(), 1);
    assert!(report["mended"][0].as_str().unwrap().contains("private"));
}

#[test]
fn a_damaged_log_is_named_and_cut_on_request() {
    let house = house()
        .args(["--set", "room.fsync=always", "--set", "room.max_staleness=1h"])
        .start();
    write_keys(&house, 0..10);
    wait_cold(&house);
    write_keys(&house, 10..20);
    house.process().kill9();
    // Writes under `always` leave marks, which prove that what is before them was safe.
    let [segment] = &segments(house.data())[..] else {
        panic!("one segment is enough for so little");
    };
    let mut bytes = std::fs::read(segment).unwrap();
    let place = bytes.windows(7).position(|window| window == b"{tag12}").unwrap();
    bytes[place] ^= 1;
    std::fs::write(segment, bytes).unwrap();
    let (ran, report) = doctor(house.data(), &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    let found = findings(&report);
    assert_eq!(found.len(), 1, "{found:?}");
    let name = segment.file_name().unwrap().to_str().unwrap();
    assert!(
        found[0].1.contains(name) && found[0].1.contains("is damaged at byte"),
        "{found:?}"
    );
    let export = run(["room", "export", "--data", house.data().to_str().unwrap()]);
    assert_eq!(export.code, Some(1));
    assert!(export.stderr.contains("nagaya room doctor"), "{}", export.stderr);
    let (ran, report) = doctor(house.data(), &["--fix"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(
        report["mended"][0].as_str().unwrap().contains("damaged-log-"),
        "{report}"
    );
    house.restart();
    let mut client = RespClient::connect(house.address("room")).unwrap();
    assert_eq!(client.cmd(&["DBSIZE"]).unwrap(), Reply::Int(12));
}

#[test]
fn a_damaged_cold_file_is_found() {
    let house = house().start();
    write_keys(&house, 0..2000);
    house.shut_down();
    let path = house.data().join("room/cold.sqlite");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4096].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    let (ran, report) = doctor(house.data(), &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    let found = findings(&report);
    assert!(found.iter().any(|(part, _)| part == "cold"), "{found:?}");
}

#[test]
fn servers_of_a_room_on_redis_and_postgresql_are_asked() {
    let redis = Redis::with_config(&["maxmemory-policy allkeys-lru"]);
    let postgres = Postgres::start();
    let database = postgres.create_database();
    let redis_url = redis.url();
    let args = [
        "room",
        "doctor",
        "--json",
        "--redis",
        &redis_url,
        "--postgres",
        &database,
    ];
    let ran = run(args);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let found = findings(&report);
    assert!(found.iter().all(|(part, _)| part == "hot"), "{found:?}");
    assert!(found[0].1.contains("maxmemory-policy allkeys-lru"), "{found:?}");
    assert_eq!(report["facts"][1]["part"], "cold");
    redis.kill9();
    let ran = run(args);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let found = findings(&report);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.contains("cannot be asked"), "{found:?}");
    assert_eq!(run([&args[..], &["--fix"]].concat()).code, Some(2));
}
