//! Thousands of jobs end while connections are cut and servers are killed with -9: every submitter has every
//! result, exactly once after it has dropped duplicates by the event's id.
//!
//! One server on SQLite, two on PostgreSQL, nginx in front of them, and a proxy that resets connections in front of
//! nginx. Trouble comes as the readers get on, so that it always meets them in the middle.

mod readers;
mod webhook;

use super::jobs_site::client::{Client, Endpoints};
use super::jobs_site::{Server, Site};
use super::*;
use nagaya_testkit::{TcpProxy, wait};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Mutex;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

const JOBS: usize = 2_000;
const BATCH: usize = 100;
/// Longer than any storm takes on a loaded machine.
const STORM_LIMIT: Duration = Duration::from_secs(120);
/// How long a client rests before it tries again.
const REST: Duration = Duration::from_millis(20);

/// What a reader has: job and result by event id.
#[derive(Default)]
struct Inbox(Mutex<BTreeMap<String, (String, Value)>>);

impl Inbox {
    fn take(&self, event: impl ToString, job: impl ToString, result: Value) {
        let (event, told) = (event.to_string(), (job.to_string(), result));
        let known = self.0.lock().unwrap().insert(event.clone(), told.clone());
        assert!(known.is_none_or(|known| known == told), "event {event} changed");
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn is_full(&self) -> bool {
        self.len() >= JOBS
    }

    /// Every job once, and with the result that its payload says.
    fn check(&self, ids: &[String]) {
        let told = self.0.lock().unwrap();
        let jobs: BTreeSet<&String> = told.values().map(|(job, _)| job).collect();
        assert_eq!(
            (told.len(), jobs.len()),
            (JOBS, JOBS),
            "an ending was told by two events"
        );
        for (job, result) in told.values() {
            let number = result.as_u64().unwrap();
            assert_eq!(&ids[usize::try_from(number).unwrap()], job);
        }
    }
}

/// A job with its number as payload. Its key makes a repeated registration harmless, and its lease is short: what a
/// killed server took along comes again soon.
fn job(number: usize, webhook: Option<&str>) -> Value {
    let mut job = json!({
        "queue": "mail", "payload": number, "idempotency_key": number.to_string(),
        "timeout_seconds": 2, "max_retries": 100, "backoff": {"kind": "none"},
    });
    if let Some(url) = webhook {
        job["webhook"] = json!({"url": url});
    }
    job
}

/// Registers the jobs and does their work, whatever becomes of the servers.
struct Crew {
    client: Client,
    webhook: Option<String>,
}

impl Crew {
    /// Repeats a call until it is answered well.
    async fn insist(&self, path: &str, body: &Value) -> Value {
        loop {
            let call = self.client.try_send("POST", path, Some(body.to_string()), &[]);
            if let Ok(Ok(answer)) = timeout(Duration::from_secs(5), call).await
                && answer.status < 300
            {
                return answer.body;
            }
            sleep(REST).await;
        }
    }

    /// Registers all jobs; returns their ids by number.
    async fn register(&self) -> Vec<String> {
        let mut ids = Vec::new();
        for start in (0..JOBS).step_by(BATCH) {
            let job = |number| job(number, self.webhook.as_deref());
            let jobs: Vec<Value> = (start..start + BATCH).map(job).collect();
            let made = self.insist("/v1/jobs/batch", &json!({"jobs": jobs})).await;
            let made = made["jobs"].as_array().unwrap();
            ids.extend(made.iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        }
        ids
    }

    /// Claims and ends jobs for ever.
    async fn work(&self) {
        loop {
            let claim = json!({"worker": "w", "max": BATCH, "wait_seconds": 1});
            let taken = self.insist("/v1/queues/mail/claim", &claim).await;
            let taken = taken["jobs"].as_array().unwrap();
            let report = |job: &Value| json!({"token": job["token"], "result": job["payload"]});
            let reports: Vec<Value> = taken.iter().map(report).collect();
            if !reports.is_empty() {
                self.insist("/v1/jobs/batch/complete", &json!({"jobs": reports}))
                    .await;
            }
        }
    }
}

/// Resets the readers' connections and kills servers, as the inbox fills.
fn make_trouble(servers: &[Server], proxies: &[TcpProxy], inbox: &Inbox) {
    for step in 1..10 {
        wait::until("the readers get on", STORM_LIMIT, || {
            inbox.len() >= JOBS * step / 10
        });
        match step % 3 {
            0 => {
                let server = &servers[step / 3 % servers.len()];
                server.kill9();
                server.start_again();
            }
            _ => proxies.iter().for_each(TcpProxy::reset),
        }
    }
}

/// Runs the jobs through a storm while `read` fills an inbox; `webhook` is told to the jobs.
fn storm<'a, F: Future<Output = ()>>(
    site: &Site,
    webhook: Option<String>,
    inbox: &'a Inbox,
    read: impl FnOnce(Endpoints, &'a Inbox) -> F,
) {
    let proxies = [site.endpoints.rest, site.endpoints.grpc].map(TcpProxy::start);
    let endpoints = Endpoints {
        rest: proxies[0].address(),
        grpc: proxies[1].address(),
    };
    let crew = Crew {
        client: site.endpoints.client(),
        webhook,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| make_trouble(&site.servers, &proxies, inbox));
        Runtime::new().unwrap().block_on(async {
            let all = async {
                tokio::select! {
                    (ids, ()) = async { tokio::join!(crew.register(), read(endpoints, inbox)) } => ids,
                    () = crew.work() => unreachable!("workers do not end by themselves"),
                }
            };
            let ids = timeout(STORM_LIMIT, all).await.unwrap_or_else(|_| {
                panic!("only {} of {JOBS} results came in time", inbox.len());
            });
            inbox.check(&ids);
        });
    });
}

/// How many messages to read before the next cut.
fn stretch() -> usize {
    1 + usize::from(rand::random::<u16>()) % 300
}
