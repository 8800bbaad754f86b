//! Ids inside `nagaya up`.

use super::*;
use nagaya_ids_api::proto::nagaya::ids::v1::generator_client::GeneratorClient;
use nagaya_ids_api::proto::nagaya::ids::v1::{FetchMultiRequest, FetchRequest};
use nagaya_testkit::{Redis, RespClient, wait};
use serde_json::Value;
use std::io::{BufRead, BufReader};

/// A short lease, so that the delay before a new number's first use is under a second.
const QUICK: [&str; 4] = ["--set", "ids.interval=100ms", "--set", "ids.use_for=300ms"];

fn quick_house() -> NagayaBuilder {
    house().listener("ids").args(QUICK)
}

/// Fetches one id as a memcached client does; waits if the number may not be used yet.
pub(crate) fn fetch(address: SocketAddr) -> u64 {
    let stream = send(address, "get some-key\r\n");
    let mut lines = BufReader::new(stream).lines();
    let head = lines.next().unwrap().unwrap();
    assert!(head.starts_with("VALUE some-key 0 "), "{head}");
    let id = lines.next().unwrap().unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "END");
    id.parse().unwrap()
}

/// Fetches ids over HTTP: the ids, and the worker that made them.
fn fetch_http(house: &Nagaya, count: usize) -> (Vec<u64>, u64) {
    let answer = house.get(&format!("/v1/ids?n={count}")).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    let ids = answer["ids"].as_array().unwrap().iter();
    let ids = ids.map(|id| id.as_str().unwrap().parse().unwrap()).collect();
    (ids, answer["worker"].as_u64().unwrap())
}

async fn fetch_grpc(address: SocketAddr, count: u32) -> Vec<u64> {
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut client = GeneratorClient::new(channel);
    let mut ids = vec![client.fetch(FetchRequest {}).await.unwrap().into_inner().id];
    let more = client.fetch_multi(FetchMultiRequest { n: count }).await.unwrap();
    ids.extend(more.into_inner().ids);
    ids
}

/// Runs a command as on the server's machine, with the server's settings.
fn beside(house: &Nagaya, args: &[&str]) -> Ran {
    let (data, http) = (house.data(), house.address("http").to_string());
    let variables = [
        ("NAGAYA_HOUSE__DATA", data.to_str().unwrap()),
        ("NAGAYA_HTTP__LISTEN", http.as_str()),
        ("NAGAYA_ROOM__PASSWORD", "hunter2"),
    ];
    run_with(args, &variables)
}

#[test]
fn ids_come_over_memcached_http_and_grpc_and_all_differ() {
    let house = quick_house().start();
    let mut ids = vec![fetch(house.address("ids"))];
    let (more, worker) = fetch_http(&house, 100);
    assert_eq!(worker, 1);
    ids.extend(more);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    ids.extend(runtime.block_on(fetch_grpc(house.address("http"), 100)));
    ids.push(house.get("/id").unwrap().body.trim().parse().unwrap());
    ids.push(fetch(house.address("ids")));
    assert_eq!(ids.len(), 204);
    assert!(ids.is_sorted_by(|a, b| a < b), "each is above the one before");
    // A reply may be here before it is counted.
    for line in [
        "nagaya_ids_issued_total 204",
        "nagaya_ids_worker 1.0",
        "nagaya_ids_usable 1.0",
    ] {
        nagaya_testkit::wait::until(line, Duration::from_secs(10), || {
            let metrics = house.get("/metrics").unwrap().body;
            metrics.lines().any(|found| found == line)
        });
    }
    let stats: Value = serde_json::from_str(&house.get("/stats").unwrap().body).unwrap();
    assert_eq!(stats["worker_id"], 1);
}

#[test]
fn commands_find_the_pool_of_the_running_house() {
    let house = quick_house().env("NAGAYA_ROOM__PASSWORD", "hunter2").start();
    let list = beside(&house, &["ids", "list"]);
    assert_eq!(list.code, Some(0), "{}", list.stderr);
    assert_eq!(list.stdout.lines().count(), 2, "{}", list.stdout);
    let made = beside(&house, &["ids", "init"]);
    assert_eq!(made.code, Some(1));
    assert!(made.stderr.contains("already initialized"), "{}", made.stderr);
    let flags = ["--interval", "100ms", "--grace", "100ms", "--", "echo", "{}"];
    let ran = beside(&house, &[&["ids", "run"][..], &flags].concat());
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "2\n"),
        "{}",
        ran.stderr
    );
    fetch(house.address("ids"));
    let status = beside(&house, &["status"]);
    assert!(status.stdout.contains("number 1 (fence "), "{}", status.stdout);
}

#[test]
fn a_restarted_house_gets_its_number_back_and_goes_on_above_its_last_id() {
    let house = quick_house().start();
    let (before, worker) = fetch_http(&house, 10);
    for kill in [false, true] {
        if kill {
            house.process().kill9();
        }
        house.restart();
        let (after, again) = fetch_http(&house, 10);
        assert_eq!(again, worker);
        assert!(after[0] > before[9], "{after:?} after {before:?}");
    }
}

/// A server that would have to wait for ten minutes before it uses a number of which it is not sure.
fn patient_house() -> NagayaBuilder {
    house().listener("ids").args(["--set", "ids.delay=10m"])
}

#[test]
fn ids_come_at_once_after_a_restart_that_lost_nothing() {
    let house = patient_house().start();
    let (mut before, worker) = fetch_http(&house, 10);
    for kill in [false, true, true, false] {
        if kill {
            house.process().kill9();
        }
        // Ready only when ids are made.
        house.restart();
        let (after, again) = fetch_http(&house, 10);
        assert_eq!(again, worker);
        assert!(after[0] > before[9], "{after:?} after {before:?}");
        before = after;
    }
}

#[test]
fn a_restored_folder_is_not_taken_for_the_one_that_ran() {
    let house = quick_house().start();
    let (before, worker) = fetch_http(&house, 10);
    // The engine's data and the state of the name: between them they prove that nobody has the number.
    let parts =
        ["backroom", "ids"].map(|part| (house.data().join(part), house.data().join(format!("{part}-copy"))));
    for (part, copy) in &parts {
        let copied = std::process::Command::new("cp")
            .arg("-a")
            .arg(part)
            .arg(copy)
            .status();
        assert!(copied.unwrap().success());
    }
    // What happens from here on is lost.
    house.restart();
    fetch_http(&house, 10);
    house.process().kill9();
    for (part, copy) in &parts {
        std::fs::remove_dir_all(part).unwrap();
        std::fs::rename(copy, part).unwrap();
    }
    house.restart();
    let granted = |text: &str| {
        text.lines()
            .filter(|line| line.contains("number granted"))
            .count()
    };
    wait::until("a number is granted", LIMIT, || {
        granted(&house.process().stderr()) > 0
    });
    let log = house.process().stderr();
    let last = log.lines().rfind(|line| line.contains("number granted")).unwrap();
    assert!(last.contains("at_once=false"), "{log}");
    let (after, again) = fetch_http(&house, 10);
    assert_eq!(again, worker);
    assert!(after[0] > before[9]);
}

#[test]
fn users_of_the_room_neither_see_nor_flush_the_pool() {
    let house = quick_house().start();
    let (before, worker) = fetch_http(&house, 1);
    let mut client = RespClient::connect(house.address("room")).unwrap();
    assert_eq!(client.cmd(&["DBSIZE"]).unwrap().int(), 0);
    let clients = client.cmd(&["CLIENT", "LIST"]).unwrap().text();
    assert_eq!(clients.lines().count(), 1, "{clients}");
    client.cmd(&["FLUSHALL"]).unwrap();
    let (after, again) = fetch_http(&house, 1);
    assert_eq!(again, worker);
    assert!(after[0] > before[0]);
}

#[test]
fn another_redis_can_have_the_pool() {
    let redis = Redis::start();
    let setting = format!("ids.redis={}/0?ns=yaraus", redis.url());
    let with_redis = || quick_house().args(["--set", &setting]);
    let refused = with_redis().try_start().unwrap_err().to_string();
    assert!(refused.contains("nagaya ids init"), "{refused}");
    run([
        "ids",
        "init",
        "--redis",
        &redis.url(),
        "--min",
        "40",
        "--max",
        "50",
        "--unused",
    ]);
    let house = with_redis().start();
    let (_, worker) = fetch_http(&house, 1);
    assert_eq!(worker, 40);
    assert!(house.shut_down().success());
    let list = run(["ids", "list", "--redis", &redis.url()]);
    assert_eq!(list.stdout.lines().count(), 1, "given back: {}", list.stdout);
    let shown = run_with(["config", "show"], &[("NAGAYA_IDS__REDIS", "redis://:hunter2@h")]);
    assert!(!shown.stdout.contains("hunter2"), "{}", shown.stdout);
}

#[test]
fn a_lost_redis_is_told_by_readyz_until_it_is_back() {
    let redis = Redis::with_config(&["appendonly yes"]);
    run(["ids", "init", "--redis", &redis.url(), "--unused"]);
    let setting = format!("ids.redis={}", redis.url());
    let house = quick_house().args(["--set", &setting]).start();
    fetch(house.address("ids"));
    redis.kill9();
    wait::until("the server is not ready", LIMIT, || {
        house.get("/readyz").unwrap().status == 503
    });
    wait::until("no more ids are made", LIMIT, || {
        house.get("/v1/ids").unwrap().status == 503
    });
    redis.restart();
    wait::until("ids are made again", LIMIT, || {
        house.get("/v1/ids").unwrap().status == 200
    });
    house.wait_ready().unwrap();
}

#[test]
fn ids_can_be_switched_off() {
    let house = house().start();
    assert_eq!(house.get("/v1/ids").unwrap().status, 404);
    let readyz = house.get("/readyz").unwrap().body;
    assert!(!readyz.contains("\"ids\""), "{readyz}");
}
