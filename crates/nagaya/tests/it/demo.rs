//! `nagaya demo`: every service moves, and nothing is left behind.

use super::*;
use nagaya_testkit::RespClient;
use serde_json::Value;

/// How long a demo may take beside others: its own time, placing and moving workers, and cleaning up.
const DEMO_LIMIT: Duration = Duration::from_secs(120);

/// Starts a demo against a server and waits for its end.
fn demo(house: &Nagaya, words: &[&str]) -> Ran {
    let folder = Folder::new("demo");
    let url = format!("http://{}", house.address("http"));
    let launch = Launch::new("demo", BINARY)
        .args(["demo", "--url", &url])
        .args(words);
    let process = Process::start(launch, folder.path()).unwrap();
    let status = process.wait(DEMO_LIMIT).unwrap();
    Ran {
        code: status.code(),
        stdout: process.stdout(),
        stderr: process.stderr(),
    }
}

#[test]
fn a_short_demo_moves_every_service_and_leaves_nothing_behind() {
    let house = house().listener("ids").start();
    let ran = demo(&house, &["--seconds", "8", "--json"]);
    let told: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}{}", ran.stdout, ran.stderr));
    assert_eq!(ran.code, Some(0), "{told:#}\n{}", ran.stderr);
    assert_eq!(told["left_behind"], Value::Null, "{told:#}");
    let figure = |part: &str, name: &str| told["parts"][part]["figures"][name].as_f64().unwrap_or(-1.0);
    for (part, name, least) in [
        ("room", "visits", 5.0),
        ("room", "went_cold", 1.0),
        ("jobs", "enqueued", 5.0),
        ("jobs", "succeeded", 1.0),
        ("jobs", "retried", 1.0),
        ("fanout", "requests", 2.0),
        ("fleet", "orphans", 1.0),
        ("fleet", "moved_seconds", 0.0),
        ("ids", "fetched", 50.0),
    ] {
        assert!(figure(part, name) >= least, "{part} {name}: {told:#}");
    }
    assert!(
        told["parts"]["fanout"]["figures"]["outcomes"]["reviews"]["timeout"].as_u64() >= Some(1),
        "{told:#}"
    );
    for (part, name) in [("room", "wrong"), ("fanout", "unaccounted"), ("ids", "twice")] {
        assert_eq!(figure(part, name), 0.0, "{part} {name}: {told:#}");
    }

    let mut room = RespClient::connect(house.address("room")).unwrap();
    assert_eq!(
        room.cmd(&["DBSIZE"]).unwrap().int(),
        0,
        "{:?}",
        room.cmd(&["KEYS", "*"])
    );
    for state in ["waiting", "scheduled", "running"] {
        let listed = house
            .get(&format!("/v1/jobs?queue=demo-thumbnails&state={state}"))
            .unwrap();
        let listed: Value = serde_json::from_str(&listed.body).unwrap();
        assert_eq!(listed["jobs"], serde_json::json!([]), "{state}");
    }
}

#[test]
fn a_demo_that_is_interrupted_ends_soon_and_takes_its_processes_with_it() {
    let house = house().args(["--set", "jobs.enabled=false"]).start();
    let folder = Folder::new("demo");
    let url = format!("http://{}", house.address("http"));
    let launch = Launch::new("demo", BINARY).args(["demo", "--seconds", "600", "--url", &url]);
    let process = Process::start(launch, folder.path()).unwrap();
    let mut room = RespClient::connect(house.address("room")).unwrap();
    nagaya_testkit::wait::until("the fleet is there", LIMIT, || {
        room.cmd(&["EXISTS", "{demo}:fleet:instances"]).unwrap().int() == 1
    });
    process.terminate();
    let status = process.wait(LIMIT).unwrap();
    assert_eq!(status.code(), Some(0), "{}", process.output());
    let words = process.stdout();
    assert!(
        words.contains("What was seen") && words.contains("taken away"),
        "{words}"
    );
    assert!(words.contains("jobs are off on this server"), "{words}");
    assert_eq!(
        room.cmd(&["DBSIZE"]).unwrap().int(),
        0,
        "{:?}",
        room.cmd(&["KEYS", "*"])
    );
}

#[test]
fn a_second_demo_and_a_house_that_is_not_there_are_told() {
    let house = house().start();
    let mut room = RespClient::connect(house.address("room")).unwrap();
    room.cmd(&["SET", "demo:lock", "1"]).unwrap();
    let ran = demo(&house, &["--seconds", "3"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("a demo runs on this server already"),
        "{}",
        ran.stderr
    );
    let ran = run(["demo", "--url", "http://127.0.0.1:1"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("start the server with `nagaya up`"),
        "{}",
        ran.stderr
    );
}
