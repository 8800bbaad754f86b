//! Threads and components that fail by a defect: the process ends, or the component is started again. The
//! defects are made by the feature `panic-injection` of `nagaya-threads`, which only tests switch on.

use nagaya_testkit::{Nagaya, NagayaBuilder, Postgres, Redis, wait};
use serde_json::Value;

use super::{LIMIT, house};

fn panicking(name: &str) -> NagayaBuilder {
    house()
        .listener("ids")
        .listener("fanout")
        .args([
            "--set",
            "fleet.enabled=true",
            "--set",
            "fleet.app=crew",
            "--set",
            "fanout.endpoints=a=http://127.0.0.1:1/",
        ])
        .env("NAGAYA_TEST_PANIC_IN", name)
}

/// Threads and tasks without which the server would go on only in appearance.
const VITAL: &[&str] = &[
    "nagaya-io-0",
    "nagaya-accept",
    "nagaya-save",
    "nagaya-load-3",
    "nagaya-walk",
    "nagaya-filter",
    "nagaya-free",
    "wal-flusher",
    "jobs-write",
    "jobs-read-0",
    "jobs-checkpoint",
    "jobs batcher",
    "jobs claims",
    "jobs events",
    "jobs feed",
    "jobs expiry sweeper",
    "jobs due mover",
    "jobs dependents",
    "jobs schedule clock",
    "jobs retention",
    "jobs deliveries",
    "jobs gauges",
    "jobs push rounds",
    "ids-0",
    "ids lease",
];

/// Launches a server with a defect and waits for its end, which has to name the thread.
fn ends_with_a_message(launched: NagayaBuilder, name: &str) {
    let house = launched.launch().unwrap();
    let ended = house.process().wait(LIMIT);
    let ended = ended.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(!ended.success(), "{name}");
    let log = house.process().stderr();
    let told = |line: &&str| line.contains("the process ends") && line.contains(name);
    assert!(log.lines().find(told).is_some(), "{name}: {log}");
}

#[test]
fn a_panic_on_a_thread_that_serves_ends_the_process_with_a_message() {
    for name in VITAL {
        ends_with_a_message(panicking(name), name);
    }
}

/// The same for a room whose data is in Redis and PostgreSQL.
const VITAL_BEFORE_REDIS: &[&str] = &[
    "room-io-0",
    "room-accept",
    "room-layout",
    "room-load-0",
    "room-cold-keys",
    "room-access",
    "room-shards",
    "room-clean",
    "room-save-0",
];

#[test]
fn a_panic_on_a_thread_before_redis_ends_the_process_with_a_message() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let database = postgres.create_database();
    for name in VITAL_BEFORE_REDIS {
        let launched = house()
            .args(["--redis", &redis.url(), "--postgres", &database])
            .env("NAGAYA_TEST_PANIC_IN", name);
        ends_with_a_message(launched, name);
    }
}

fn components(house: &Nagaya) -> Vec<Value> {
    let readyz = house.get("/readyz").unwrap();
    let readyz: Value = serde_json::from_str(&readyz.body).unwrap();
    readyz["components"].as_array().unwrap().clone()
}

#[test]
fn a_component_that_fails_is_started_again_while_the_others_go_on() {
    for name in ["fleet", "ids", "fanout", "http"] {
        let house = panicking(&format!("{name}:2")).launch().unwrap();
        if name != "http" {
            // After the second failure the pause is two seconds long.
            let failed = wait::value("the failure is told", LIMIT, || {
                house.get("/readyz").ok()?;
                let mut components = components(&house).into_iter();
                components.find(|one| one["name"] == name && one["state"] == "failed")
            });
            let detail = failed["detail"].as_str().unwrap_or_default();
            assert!(detail.contains("started again"), "{name}: {failed}");
        }
        // It is ready for a moment before each failure.
        wait::until("it is ready after its second restart", LIMIT, || {
            let is_there = |answer: nagaya_testkit::http::Answer| {
                answer.status == 200 && answer.body.contains("\"restarts\":2")
            };
            house.get("/readyz").is_ok_and(is_there)
        });
        for component in components(&house) {
            let restarts = component["restarts"].as_u64().unwrap_or(0);
            let expected = if component["name"] == name { 2 } else { 0 };
            assert_eq!(restarts, expected, "{name}: {component}");
        }
        let metrics = house.get("/metrics").unwrap().body;
        let line = format!("nagaya_component_restarts_total{{component=\"{name}\"}} 2");
        assert!(metrics.lines().any(|found| found == line), "{name}: {metrics}");
        assert!(house.shut_down().success(), "{name}");
    }
}
