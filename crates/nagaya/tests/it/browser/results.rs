//! A browser's own EventSource and WebSocket miss nothing, whatever happens to the connection and to the server.

use super::super::jobs_site::client::{Client, Endpoints};
use super::*;
use nagaya_testkit::{TcpProxy, wait};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

const JOBS: usize = 300;
const BATCH: usize = 10;
const BROWSER_LIMIT: Duration = Duration::from_secs(120);

/// Repeats a call until it is answered well.
async fn insist(client: &Client, path: &str, body: &Value) -> Value {
    loop {
        let call = client.try_send("POST", path, Some(body.to_string()), &[]);
        if let Ok(Ok(answer)) = timeout(Duration::from_secs(5), call).await
            && answer.status < 300
        {
            return answer.body;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Registers jobs and ends them with their numbers. Returns their ids by number.
async fn run_jobs(client: &Client) -> Vec<String> {
    let mut ids = Vec::new();
    for start in (0..JOBS).step_by(BATCH) {
        let job = |number: usize| {
            json!({
                "queue": "mail", "payload": number, "idempotency_key": number.to_string(),
                "timeout_seconds": 2, "max_retries": 100, "backoff": {"kind": "none"},
            })
        };
        let jobs: Vec<Value> = (start..start + BATCH).map(job).collect();
        let made = insist(client, "/v1/jobs/batch", &json!({"jobs": jobs})).await;
        let made = made["jobs"].as_array().unwrap();
        ids.extend(made.iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        // What a killed server took along comes again when its lease is over.
        let mut left = BATCH;
        while left > 0 {
            let claim = json!({"worker": "w", "max": BATCH, "wait_seconds": 1});
            let taken = insist(client, "/v1/queues/mail/claim", &claim).await;
            let taken = taken["jobs"].as_array().unwrap();
            let report = |job: &Value| json!({"token": job["token"], "result": job["payload"]});
            let reports: Vec<Value> = taken.iter().map(report).collect();
            let ended = insist(client, "/v1/jobs/batch/complete", &json!({"jobs": reports})).await;
            let ended = ended["jobs"].as_array().unwrap().iter();
            left -= ended.filter(|one| one.get("error").is_none()).count();
        }
    }
    ids
}

/// Cuts the connection and kills the server as the page gets on.
fn make_trouble(house: &Nagaya, proxy: &TcpProxy, browser: &Process) {
    for step in 1..10 {
        let mark = format!("{} results", JOBS * step / 10);
        wait::until("the page gets on", BROWSER_LIMIT, || {
            !browser.is_running() || browser.stdout().lines().any(|line| line == mark)
        });
        match step % 4 {
            2 => {
                house.process().kill9();
                house.restart();
            }
            _ => proxy.reset(),
        }
    }
}

#[track_caller]
fn misses_nothing(scenario: &str) {
    let house = house().start();
    let proxy = TcpProxy::start(house.address("http"));
    let folder = Folder::new("browser");
    let launch = launch(proxy.address(), "results.js", scenario).env("JOBS", JOBS.to_string());
    let browser = Process::start(launch, folder.path()).unwrap();
    let address = house.address("http");
    let endpoints = Endpoints {
        rest: address,
        grpc: address,
    };
    let ids = std::thread::scope(|scope| {
        scope.spawn(|| make_trouble(&house, &proxy, &browser));
        let jobs = async {
            timeout(BROWSER_LIMIT, run_jobs(&endpoints.client()))
                .await
                .unwrap()
        };
        Runtime::new().unwrap().block_on(jobs)
    });
    let status = browser.wait(BROWSER_LIMIT).unwrap();
    assert!(status.success(), "{status}:\n{}", browser.output());
    let told = browser.stdout();
    let told: BTreeMap<String, (String, usize)> = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    let mut results: Vec<&(String, usize)> = told.values().collect();
    results.sort_by_key(|(_, number)| *number);
    let expected: Vec<(String, usize)> = ids
        .into_iter()
        .enumerate()
        .map(|(number, id)| (id, number))
        .collect();
    assert_eq!(results, expected.iter().collect::<Vec<_>>());
}

#[test]
fn an_event_source_misses_nothing() {
    misses_nothing("eventSource");
}

#[test]
fn a_websocket_misses_nothing() {
    misses_nothing("webSocket");
}
