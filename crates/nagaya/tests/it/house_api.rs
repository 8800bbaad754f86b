//! The server's own REST: every service in figures, the room's tags, recent requests, numbers, history.

use super::*;
use crate::fanout_serve::Endpoint;
use nagaya_testkit::{RespClient, http, wait};
use serde_json::{Value, json};

/// Status and body of any request.
fn call(house: &Nagaya, method: &str, path: &str) -> (u16, Value) {
    let head = format!("{method} {path} HTTP/1.1\r\ncontent-length: 0");
    let text = ask(house.address("http"), &head);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[track_caller]
fn get(house: &Nagaya, path: &str) -> Value {
    let (status, body) = call(house, "GET", path);
    assert_eq!(status, 200, "{path}: {body}");
    body
}

#[track_caller]
fn refused(house: &Nagaya, path: &str, status: u16, part: &str) {
    let (found, body) = call(house, "GET", path);
    assert_eq!(found, status, "{path}: {body}");
    assert!(body["detail"].as_str().unwrap().contains(part), "{path}: {body}");
}

fn redis(house: &Nagaya) -> RespClient {
    RespClient::connect(house.address("room")).unwrap()
}

fn whole_house() -> NagayaBuilder {
    house()
        .listener("ids")
        .listener("fanout")
        .args(["--set", "fleet.enabled=true"])
}

fn names(list: &Value) -> Vec<&str> {
    let tags = list["tags"].as_array().unwrap().iter();
    tags.map(|tag| tag["tag"].as_str().unwrap()).collect()
}

#[test]
fn a_bare_house_serves_all_five_and_tells_of_them() {
    let house = whole_house().start();
    let all = get(&house, "/v1/house");
    assert_eq!(all["state"], "ready", "{all}");
    assert_eq!(all["url"], format!("http://{}", house.address("http")));
    let services = all["services"].as_object().unwrap();
    for (name, fields) in [
        (
            "room",
            &[
                "memory_bytes",
                "keys",
                "tags_hot",
                "tags_cold",
                "clients",
                "commands_per_second",
                "loads_per_second",
                "staleness_seconds",
            ][..],
        ),
        (
            "jobs",
            &[
                "waiting",
                "running",
                "scheduled",
                "failed",
                "queues",
                "paused",
                "enqueued_per_second",
                "finished_per_second",
            ],
        ),
        (
            "fanout",
            &[
                "endpoints",
                "requests_per_second",
                "answers_ok_per_second",
                "in_flight",
                "sheds_per_second",
            ],
        ),
        (
            "ids",
            &[
                "minted_per_second",
                "clock_skew_ms",
                "numbers_held",
                "numbers_free",
            ],
        ),
        ("fleet", &["instances", "workers", "placed", "spread", "moves"]),
        ("http", &["requests_per_second", "connections"]),
    ] {
        let service = &services[name];
        assert_eq!(service["state"], "ready", "{name}: {service}");
        assert!(service["address"].is_string(), "{name}: {service}");
        for field in fields {
            assert!(service[field].is_number(), "{name}.{field}: {service}");
        }
    }
    assert_eq!(services["room"]["mode"], "embedded");
    assert_eq!(services["room"]["memory_limit_bytes"], Value::Null);
    assert_eq!(services["fleet"]["is_held"], false);
    assert_eq!(get(&house, "/v1/fleet")["app"], "main");
    assert_eq!(get(&house, "/v1/fanout")["endpoints"], json!([]));
    let nobody = http::get(house.address("fanout"), "/q").unwrap();
    assert_eq!(nobody.status, 503);
    assert!(nobody.body.contains("fanout.endpoints"), "{}", nobody.body);
}

#[test]
fn services_that_are_off_are_null_and_say_what_switches_them_on() {
    let house = house().args(["--set", "jobs.enabled=false"]).start();
    let services = get(&house, "/v1/house")["services"].clone();
    for name in ["jobs", "fanout", "ids", "fleet"] {
        assert_eq!(services[name], Value::Null, "{name}");
        let setting = format!("`{name}.enabled`");
        refused(&house, &format!("/v1/{name}"), 404, &setting);
        refused(&house, &format!("/v1/{name}/anything/else"), 404, &setting);
    }
    refused(&house, "/v1/queues", 404, "`jobs.enabled`");
}

#[test]
fn the_token_guards_it() {
    let house = house().env("NAGAYA_HTTP__TOKEN", "hunter2-hunter2-2").start();
    for path in [
        "/v1/house",
        "/v1/house/history",
        "/v1/room",
        "/v1/room/tags",
        "/v1/fleet",
    ] {
        assert_eq!(call(&house, "GET", path).0, 401, "{path}");
    }
    let with = "GET /v1/house HTTP/1.1\r\nauthorization: Bearer hunter2-hunter2-2";
    let answer = super::ask(house.address("http"), with);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn tags_are_found_looked_into_and_moved() {
    let house = house().start();
    let mut redis = redis(&house);
    for number in 0..30 {
        redis
            .cmd(&["SET", &format!("{{user:{number}}}name"), "x"])
            .unwrap();
    }
    let long = "0123456789".repeat(500);
    redis.cmd(&["SET", "{user:7}photo", &long, "EX", "1000"]).unwrap();
    redis.cmd(&["RPUSH", "{user:7}list", "a", "b"]).unwrap();
    assert_eq!(redis.cmd(&["ROOM.WAITCOLD", "20000", "ALL"]).unwrap().int(), 1);

    let biggest = get(&house, "/v1/room/tags?by=biggest&limit=3");
    assert_eq!(
        (names(&biggest)[0], names(&biggest).len()),
        ("user:7", 3),
        "{biggest}"
    );
    assert_eq!(biggest["tags"][0]["keys"], 3);
    assert_eq!(biggest["tags"][0]["place"], "both");
    assert_eq!(biggest["tags"][0]["dirty"], false);
    assert_eq!(names(&get(&house, "/v1/room/tags")).len(), 20, "the hottest");
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = get(
            &house,
            &format!("/v1/room/tags?prefix=user:&limit=8&cursor={cursor}"),
        );
        found.extend(names(&page).into_iter().map(str::to_owned));
        match page["cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 30);
    assert_eq!(
        names(&get(&house, "/v1/room/tags?prefix=user:2&limit=100")).len(),
        11
    );

    let tag = get(&house, "/v1/room/tags/user%3A7");
    assert_eq!(
        (&tag["keys_total"], &tag["place"]),
        (&json!(3), &json!("both")),
        "{tag}"
    );
    assert!(
        tag["saved_ms"].is_number() && tag["idle_seconds"].is_number(),
        "{tag}"
    );
    let photo = &tag["keys_listed"][2];
    assert_eq!(
        (&photo["key"], &photo["type"]),
        (&json!("{user:7}photo"), &json!("string"))
    );
    assert!(
        photo["bytes"].as_u64() >= Some(5000) && photo["expires_ms"].is_number(),
        "{photo}"
    );

    let evicted = call(&house, "POST", "/v1/room/tags/user:7/evict");
    assert_eq!(evicted, (200, json!({"tag": "user:7", "keys": 3})));
    let tag = get(&house, "/v1/room/tags/user:7");
    assert_eq!(
        (&tag["keys_total"], &tag["place"]),
        (&json!(3), &json!("disk")),
        "{tag}"
    );
    assert_eq!(tag["keys_listed"].as_array().unwrap().len(), 3, "{tag}");
    let export = http::get(house.address("http"), "/v1/room/tags/user:7/export").unwrap();
    assert!(
        export.head.contains("attachment; filename=\"user_7.jsonl\""),
        "{}",
        export.head
    );
    let line: Value = serde_json::from_str(export.body.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&line["key"], &line["value"]),
        (&json!("{user:7}list"), &json!(["a", "b"]))
    );
    assert_eq!(export.body.lines().count(), 3);
    let warm = call(&house, "POST", "/v1/room/tags/user:7/warm");
    assert_eq!(warm, (200, json!({"tag": "user:7", "keys": 3})));
    assert_eq!(get(&house, "/v1/room/tags/user:7")["place"], "both");
    let room = get(&house, "/v1/room");
    assert_eq!(
        (&room["persist"], &room["keys"]),
        (&json!(true), &json!(32)),
        "{room}"
    );
    assert!(
        room["disk_bytes"].is_number() && room["evictions_per_second"].is_number(),
        "{room}"
    );

    let erased = call(&house, "DELETE", "/v1/room/tags/user:7");
    assert_eq!(erased, (200, json!({"tag": "user:7", "keys": 3})));
    refused(&house, "/v1/room/tags/user:7", 404, "there is no tag user:7");
    refused(
        &house,
        "/v1/room/tags/user:7/export",
        404,
        "there is no tag user:7",
    );
    refused(&house, "/v1/room/tags?by=name", 400, "hottest or biggest");
    refused(&house, "/v1/room/tags?prefix=a&cursor=x", 400, "`cursor`");
    assert_eq!(call(&house, "GET", "/v1/room/tags/a/evict").0, 405);
}

#[test]
fn tags_are_bytes_and_commands_that_are_refused_say_why() {
    let house = house().args(["--set", "room.pinned={stay"]).start();
    let mut redis = redis(&house);
    redis.cmd(&["SET", "{stay}a", "1"]).unwrap();
    let raw: [&[u8]; 3] = [b"SET", b"{\xff/ }a", b"1"];
    redis.cmd(&raw).unwrap();
    let tag = get(&house, "/v1/room/tags/%FF%2F%20");
    assert_eq!(
        (&tag["tag"], &tag["tag_base64"]),
        (&json!("\u{fffd}/ "), &json!("/y8g"))
    );
    redis.cmd(&["ROOM.WAITCOLD", "20000", "ALL"]).unwrap();
    let (status, problem) = call(&house, "POST", "/v1/room/tags/stay/evict");
    assert_eq!(status, 409, "{problem}");
    assert!(
        problem["detail"].as_str().unwrap().contains("pinned"),
        "{problem}"
    );
}

#[test]
fn a_room_that_keeps_nothing_still_has_tags() {
    let house = house().args(["--set", "room.persist=false"]).start();
    let mut redis = redis(&house);
    for key in ["{a}1", "{a}2", "{b}1", "plain"] {
        redis.cmd(&["SET", key, "x"]).unwrap();
    }
    assert_eq!(names(&get(&house, "/v1/room/tags?by=biggest"))[0], "a");
    assert_eq!(names(&get(&house, "/v1/room/tags?prefix=")).len(), 3);
    let tag = get(&house, "/v1/room/tags/a");
    assert_eq!(
        (&tag["place"], &tag["keys_total"], &tag["saved_ms"]),
        (&json!("memory"), &json!(2), &Value::Null)
    );
    assert_eq!(call(&house, "POST", "/v1/room/tags/a/evict").0, 409);
    assert_eq!(
        call(&house, "DELETE", "/v1/room/tags/a"),
        (200, json!({"tag": "a", "keys": 2}))
    );
    assert_eq!(redis.cmd(&["DBSIZE"]).unwrap().int(), 2);
    let room = get(&house, "/v1/room");
    assert_eq!(
        (&room["persist"], &room["disk_bytes"]),
        (&json!(false), &Value::Null),
        "{room}"
    );
}

#[test]
fn the_fan_out_shows_endpoints_and_recent_requests() {
    let endpoint = Endpoint::start("one");
    let closed = nagaya_testkit::free_port();
    let words = format!(
        "fanout.endpoints=a={},b=http://user:secret@127.0.0.1:{closed}/x?key=1",
        endpoint.url
    );
    let house = house()
        .listener("fanout")
        .args(["--set", &words, "--set", "fanout.timeout=5s"])
        .start();
    let listener = house.address("fanout");
    let taken: Value = serde_json::from_str(&http::get(listener, "/p?q=1").unwrap().body).unwrap();
    let id = taken["request_id"].as_str().unwrap();
    wait::until("the request is finished", LIMIT, || {
        get(&house, "/v1/fanout/requests?limit=5")["requests"][0]["finished"] == true
    });
    let read: Value =
        serde_json::from_str(&http::get(listener, &format!("/requests/{id}")).unwrap().body).unwrap();
    let recent = get(&house, "/v1/fanout/requests");
    let request = &recent["requests"][0];
    assert_eq!((&request["id"], &request["url"]), (&json!(id), &json!("/p?q=1")));
    assert_eq!(
        (&request["endpoints"], &request["done"], &request["ok"]),
        (&json!(2), &json!(2), &json!(1))
    );
    assert_eq!(get(&house, &format!("/v1/fanout/requests/{id}")), read);
    refused(&house, "/v1/fanout/requests/123", 404, "no request 123");
    let fanout = get(&house, "/v1/fanout");
    let [a, b] = fanout["endpoints"].as_array().unwrap().as_slice() else {
        panic!("{fanout}");
    };
    assert_eq!(
        (&a["name"], &a["breaker"], &a["outcomes"]["ok"]),
        (&json!("a"), &json!("closed"), &json!(1))
    );
    assert!(a["latency_ms"]["p50"].is_number(), "{fanout}");
    assert_eq!(
        b["url"],
        format!("http://127.0.0.1:{closed}/x"),
        "no login and no query"
    );
    assert_eq!(b["outcomes"]["refused"], 1);
}

#[test]
fn numbers_and_ids_are_explained() {
    let house = house().listener("ids").start();
    let id = get(&house, "/v1/ids")["ids"][0].as_str().unwrap().to_owned();
    let numbers = get(&house, "/v1/ids/numbers");
    let held = &numbers["held"][0];
    assert_eq!(
        (&held["is_mine"], numbers["held"].as_array().unwrap().len()),
        (&json!(true), 1),
        "{numbers}"
    );
    assert!(
        held["remaining_seconds"].as_f64() > Some(0.0) && held["since_ms"].is_number(),
        "{numbers}"
    );
    assert_eq!(
        (&numbers["min"], &numbers["max"], &numbers["free"]),
        (&json!(1), &json!(1023), &json!(1022))
    );
    let decoded = get(&house, &format!("/v1/ids/decode/{id}"));
    assert_eq!(
        (&decoded["id"], &decoded["worker"]),
        (&json!(id), &held["number"]),
        "{decoded}"
    );
    assert!(decoded["at"].as_str().unwrap().starts_with("20"), "{decoded}");
    refused(&house, "/v1/ids/decode/seven", 400, "not an id");
    let ids = get(&house, "/v1/house")["services"]["ids"].clone();
    assert_eq!(
        (&ids["number"], &ids["numbers_held"]),
        (&held["number"], &json!(1))
    );
}

#[test]
fn history_has_every_series_at_the_same_length() {
    let house = house().start();
    let listed = wait::value("the first points", LIMIT, || {
        let listed = get(&house, "/v1/house/history");
        let has = |name: &str| listed["names"].as_array().unwrap().contains(&json!(name));
        (has("nagaya_room_keys") && has("process_resident_memory_bytes")).then_some(listed)
    });
    assert_eq!(listed["step_seconds"], 10);
    let path = "/v1/house/history?series=nagaya_room_keys,process_resident_memory_bytes&minutes=5";
    let history = get(&house, path);
    for name in ["nagaya_room_keys", "process_resident_memory_bytes"] {
        let points = history["series"][name].as_array().unwrap();
        assert_eq!(points.len(), 30, "{history}");
        assert!(points[0].is_null() && points[29].is_number(), "{history}");
    }
    assert!(history["to_ms"].is_number());
    refused(
        &house,
        "/v1/house/history?series=nothing",
        404,
        "no series nothing",
    );
    refused(&house, "/v1/house/history?minutes=soon", 400, "minutes");
    refused(
        &house,
        &format!("/v1/house/history?series={}", ["x"; 51].join(",")),
        400,
        "50 series",
    );
}

#[test]
fn every_command_of_the_banner_is_true() {
    let house = whole_house().env("REDISCLI_AUTH", "").start();
    let banner = wait::value("the whole banner", LIMIT, || {
        Some(house.process().stderr()).filter(|stderr| stderr.contains("Ctrl-C stops it."))
    });
    let commands = banner.split("in this folder:\n\n").nth(1).unwrap();
    let commands: Vec<&str> = commands
        .split("\n\n")
        .next()
        .unwrap()
        .lines()
        .map(str::trim)
        .collect();
    assert_eq!(commands.len(), 6, "{banner}");
    for command in commands {
        // It would go on for ever.
        let command = command.trim_end_matches(" --watch");
        let folder = Folder::new("banner");
        let quiet = command.replace("curl ", "curl --silent --fail --show-error ");
        let ran =
            finish(Process::start(Launch::new("sh", "sh").args(["-c", &quiet]), folder.path()).unwrap());
        assert_eq!(ran.code, Some(0), "{command}: {}", ran.stderr);
        assert!(!ran.stdout.is_empty(), "{command} says nothing");
    }
}
