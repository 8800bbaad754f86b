//! The fleet over HTTP: served by a manager alone, and by the server.

use super::*;
use crate::fleet::{QUICK, Stage};
use nagaya_testkit::{Redis, free_port, http, wait};
use serde_json::Value;

/// Sends a POST with these headers and reads status and body.
fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = read_all(&mut send(address, &request));
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}

fn get_json(address: SocketAddr, path: &str) -> Value {
    let answer = http::get(address, path).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

#[test]
fn a_manager_serves_the_api_and_reads_the_list_when_a_webhook_says_so() {
    let redis = Redis::start();
    let mut stage = Stage::without_redis(2);
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let secret = (
        "NAGAYA_FLEET__WEBHOOK_SECRET".to_owned(),
        "hunter2-hunter2-2".to_owned(),
    );
    stage.variables.push(secret);
    stage
        .variables
        .push(("NAGAYA_FLEET__REDIS".to_owned(), redis.url()));
    let listen = address.to_string();
    let flags = [
        "manager",
        "--source",
        "file:list.json",
        "--http-listen",
        &listen,
        "--wait-ready",
    ];
    let manager = stage.start("manager", &[&flags[..], &QUICK].concat());
    wait::until("it is ready", LIMIT, || {
        manager.stdout() == "{\"is_first_manager\":true}\n"
    });
    assert!(manager.stderr().contains("dark at most"), "{}", manager.stderr());
    let _a = stage.agent("a", &["--request", "echo {key} of {}"]);
    wait::until("the first list runs", LIMIT, || stage.runs_on("a") == 2);

    stage.write_list(0..4);
    let webhook = "/v1/fleet/webhook";
    assert_eq!(post(address, webhook, &[], "{}").0, 401);
    assert_eq!(
        post(
            address,
            webhook,
            &[("authorization", "Bearer hunter2-hunter2-2")],
            "{}"
        )
        .0,
        202
    );
    wait::until("the second list runs", LIMIT, || stage.runs_on("a") == 4);

    let list = get_json(address, "/v1/fleet");
    assert_eq!(list["manager"]["is_first_manager"], true, "{list}");
    assert_eq!(list["workers"].as_array().unwrap().len(), 4);
    assert_eq!(get_json(address, "/v1/fleet/plan")["moves"], 0);
    let events = get_json(address, "/v1/fleet/events?count=3");
    assert_eq!(events["events"].as_array().unwrap().len(), 3);
    assert_eq!(
        http::get(address, "/v1/fleet/events?after=x").unwrap().status,
        400
    );
    let (status, answers) = post(address, "/v1/fleet/ask", &[], r#"{"key":"color","worker":"d3"}"#);
    assert_eq!(status, 200);
    assert!(answers.contains("color of d3"), "{answers}");
    let (status, refused) = post(address, "/v1/fleet/relocate", &[], r#"{"worker":"d0"}"#);
    assert_eq!(status, 409);
    assert!(refused.contains(r#""code":"NO_NEED_TO_RELOCATE""#), "{refused}");
    assert_eq!(
        post(address, "/v1/fleet/relocate", &[], r#"{"all":true}"#).1,
        r#"{"moves":0}"#
    );
    assert_eq!(post(address, "/v1/fleet/relocate", &[], "{}").0, 400);
    assert_eq!(post(address, "/v1/fleet/confirm", &[], "").0, 404);
    assert_eq!(
        post(address, "/v1/fleet/drain", &[], r#"{"instance":"nobody"}"#).0,
        404
    );
    assert_eq!(
        post(address, "/v1/fleet/drain", &[], r#"{"instance":"a","on":1}"#).0,
        400
    );
    let (status, drained) = post(address, "/v1/fleet/drain", &[], r#"{"instance":"a"}"#);
    assert_eq!(
        (status, drained.contains(r#""workers":4"#)),
        (200, true),
        "{drained}"
    );
    let metrics = http::get(address, "/metrics").unwrap().body;
    for line in [
        "nagaya_fleet_workers 4.0",
        "nagaya_fleet_double_run_seconds_total 0.0",
        "nagaya_fleet_deaths_total 0",
        "nagaya_fleet_placed_total 4",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in\n{metrics}");
    }
    let second = stage.start("second", &[&["manager", "--wait-ready"], &QUICK[..]].concat());
    wait::until("another one is not the first", LIMIT, || {
        second.stdout() == "{\"is_first_manager\":false}\n"
    });
}

#[test]
fn a_webhook_without_any_secret_is_refused() {
    let stage = Stage::without_redis(1);
    let list = stage.folder.path().join("list.json");
    let house = house()
        .args(["--set", "fleet.app=devices", "--set"])
        .args([format!("fleet.source=file:{}", list.display())])
        .start();
    let (status, body) = post(house.address("http"), "/v1/fleet/webhook", &[], "");
    assert_eq!(status, 403);
    assert!(body.contains("fleet.webhook_secret"), "{body}");
}

#[test]
fn the_house_manages_the_fleet_that_its_settings_name() {
    let mut stage = Stage::without_redis(4);
    let list = stage.folder.path().join("list.json");
    let lengths = ["fleet.lease=3s", "fleet.heartbeat=300ms", "fleet.grace=500ms"];
    let house = house()
        .args(["--set", "fleet.app=devices", "--set"])
        .args([format!("fleet.source=file:{}", list.display())])
        .args(lengths.iter().flat_map(|pair| ["--set", pair]))
        .env("NAGAYA_HTTP__TOKEN", "hunter2-hunter2-2")
        .start();
    let data = house.data().to_str().unwrap().to_owned();
    stage.variables.push(("NAGAYA_HOUSE__DATA".to_owned(), data));
    let _a = stage.agent("a", &[]);
    let b = stage.agent("b", &[]);
    wait::until("two run on each", LIMIT, || {
        stage.runs_on("a") == 2 && stage.runs_on("b") == 2
    });
    let listed = stage.run(&["list"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(listed.stdout.contains("d3"), "{}", listed.stdout);
    let address = house.address("http");
    assert_eq!(
        house.get("/v1/fleet").unwrap().status,
        401,
        "the server has a token"
    );
    stage.write_list(0..5);
    let known = [("authorization", "Bearer hunter2-hunter2-2")];
    assert_eq!(post(address, "/v1/fleet/webhook", &[], "").0, 401);
    assert_eq!(post(address, "/v1/fleet/webhook", &known, "").0, 202);
    wait::until("the new one runs", LIMIT, || stage.running().len() == 5);
    assert!(
        house
            .get("/readyz")
            .unwrap()
            .body
            .contains("5 workers on 2 instances")
    );
    b.terminate();
    wait::until("all run on one", LIMIT, || stage.runs_on("a") == 5);
    // The room's users neither see nor flush it.
    let mut client = nagaya_testkit::RespClient::connect(house.address("room")).unwrap();
    assert_eq!(client.cmd(&["DBSIZE"]).unwrap().int(), 0);
}

#[test]
fn a_broken_host_is_emptied_and_named() {
    let redis = Redis::start();
    let mut stage = Stage::without_redis(12);
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    stage
        .variables
        .push(("NAGAYA_FLEET__REDIS".to_owned(), redis.url()));
    let listen = address.to_string();
    let flags = ["manager", "--source", "file:list.json", "--http-listen", &listen];
    let _manager = stage.start("manager", &[&flags[..], &QUICK].concat());
    let _good = stage.agent("good", &[]);
    wait::until("all run", LIMIT, || stage.runs_on("good") == 12);
    wait::until("all are healthy", LIMIT, || {
        http::get(address, "/metrics")
            .is_ok_and(|answer| answer.body.contains("nagaya_fleet_workers_healthy 12.0"))
    });
    let broken = ["agent", "--name", "broken", "--exec", "/no/such/binary {}"];
    let _broken = stage.start("broken", &[&broken[..], &QUICK].concat());
    let named = r#"nagaya_fleet_instance_cordoned{name="broken"} 1.0"#;
    wait::until("the alert's figure names it", LIMIT, || {
        http::get(address, "/metrics").is_ok_and(|answer| answer.body.contains(named))
    });
    wait::until("all run on the healthy host", LIMIT, || {
        stage.runs_on("good") == 12
    });
    let list = get_json(address, "/v1/fleet");
    let instances = list["instances"].as_array().unwrap();
    let state = |name: &str| instances.iter().find(|one| one["name"] == name).unwrap()["state"].clone();
    assert_eq!(
        (state("broken"), state("good")),
        ("cordoned".into(), "live".into())
    );
    let shown = stage.run(&["list"]).stdout;
    assert!(shown.contains("HEALTH") && shown.contains("cordoned"), "{shown}");
    let events = stage.run(&["events", "--count", "1000"]).stdout;
    assert!(events.contains("cordoned"), "{events}");
    let ready = http::get(address, "/readyz").unwrap().body;
    assert!(ready.contains("broken cordoned"), "{ready}");
}
