//! Connections are cut at random points while thousands of jobs end: every reader gets every result, exactly
//! once after duplicates are dropped by event id.

use std::collections::BTreeMap;

use futures_util::SinkExt;
use nagaya_jobs_api::proto::subscribe_request::Message as Asked;
use nagaya_jobs_api::proto::subscribe_response::Message as Told;
use nagaya_jobs_api::proto::watch_response::Message as Watched;
use nagaya_jobs_api::proto::{Ack, EventFilter, EventKind, SubscribeHello, SubscribeRequest, WatchRequest};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::events::{socket, told};
use super::test_server::TestServer;

const JOBS: usize = 2_000;

/// Registers jobs and completes them in batches, with their own numbers as results.
async fn run_jobs(server: &TestServer) -> Vec<String> {
    let client = server.client();
    let mut ids = Vec::new();
    for start in (0..JOBS).step_by(100) {
        let jobs: Vec<Value> = (start..start + 100)
            .map(|n| json!({"queue": "mail", "payload": n}))
            .collect();
        let made = client.post("/v1/jobs/batch", json!({"jobs": jobs})).await.is(201);
        let made = made["jobs"].as_array().unwrap();
        ids.extend(made.iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        let claim = json!({"worker": "w", "max": 100});
        let taken = client.post("/v1/queues/mail/claim", claim).await.is(200);
        let taken = taken["jobs"].as_array().unwrap();
        assert_eq!(taken.len(), 100);
        let report = |job: &Value| json!({"token": job["token"], "result": job["payload"]});
        let reports: Vec<Value> = taken.iter().map(report).collect();
        client
            .post("/v1/jobs/batch/complete", json!({"jobs": reports}))
            .await
            .is(200);
    }
    ids
}

/// What a reader has received: job and result by event id.
#[derive(Default)]
struct Inbox(BTreeMap<u64, (String, Value)>);

impl Inbox {
    fn take(&mut self, id: u64, job: String, result: Value) {
        let known = self.0.insert(id, (job.clone(), result.clone()));
        assert!(
            known.is_none_or(|known| known == (job, result)),
            "event {id} changed"
        );
    }

    fn is_full(&self) -> bool {
        self.0.len() == JOBS
    }

    fn check(&self, ids: &[String]) {
        let mut jobs: Vec<&String> = self.0.values().map(|(job, _)| job).collect();
        jobs.sort();
        let mut ids: Vec<&String> = ids.iter().collect();
        ids.sort();
        assert_eq!(jobs, ids);
        let mut results: Vec<i64> = self
            .0
            .values()
            .map(|(_, result)| result.as_i64().unwrap())
            .collect();
        results.sort_unstable();
        assert_eq!(results, (0..JOBS as i64).collect::<Vec<_>>());
    }
}

/// Returns how many messages to read before the next cut.
fn stretch() -> usize {
    1 + rand::random::<u16>() as usize % 150
}

#[tokio::test(flavor = "multi_thread")]
async fn server_sent_events_survive_cuts() {
    let server = TestServer::start().await;
    let client = server.client();
    let read = async {
        let (mut inbox, mut last) = (Inbox::default(), "0".to_owned());
        while !inbox.is_full() {
            let mut stream = client.events("/v1/events?kind=succeeded", Some(&last)).await;
            for _ in 0..stretch() {
                if inbox.is_full() {
                    break;
                }
                let sent = stream.next().await.unwrap();
                let job = sent.data["job"].as_str().unwrap().to_owned();
                inbox.take(sent.id.parse().unwrap(), job, sent.data["result"].clone());
                last = sent.id;
            }
        }
        inbox
    };
    let (inbox, ids) = tokio::join!(read, run_jobs(&server));
    inbox.check(&ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets_with_a_subscription_survive_cuts() {
    let server = TestServer::start().await;
    let hello = json!({"type": "hello", "subscription": "s", "kinds": ["succeeded"], "after": "0"});
    let read = async {
        let mut inbox = Inbox::default();
        while !inbox.is_full() {
            let (mut socket, _) = socket(&server, hello.clone()).await;
            for _ in 0..stretch() {
                if inbox.is_full() {
                    break;
                }
                let message = told(&mut socket).await.unwrap();
                let event = &message["event"];
                let id = event["id"].as_str().unwrap();
                inbox.take(
                    id.parse().unwrap(),
                    event["job"].as_str().unwrap().to_owned(),
                    event["result"].clone(),
                );
                // Some acknowledgements are lost with the connection.
                let ack = json!({"type": "ack", "id": id}).to_string();
                socket.feed(Message::text(ack)).await.unwrap();
                if rand::random::<u8>() < 64 {
                    socket.flush().await.unwrap();
                }
            }
        }
        inbox
    };
    let (inbox, ids) = tokio::join!(read, run_jobs(&server));
    inbox.check(&ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_watch_survives_cuts() {
    let server = TestServer::start().await;
    let read = async {
        let (mut inbox, mut last) = (Inbox::default(), 0);
        while !inbox.is_full() {
            let request = WatchRequest {
                filter: Some(EventFilter {
                    kinds: vec![EventKind::Succeeded.into()],
                    ..EventFilter::default()
                }),
                after: Some(last),
                ..Default::default()
            };
            let mut stream = server.grpc().await.watch(request).await.unwrap().into_inner();
            for _ in 0..stretch() {
                if inbox.is_full() {
                    break;
                }
                let Some(Watched::Event(event)) = stream.message().await.unwrap().unwrap().message else {
                    continue;
                };
                last = event.seq;
                let result = serde_json::from_slice(&event.result.unwrap().data).unwrap();
                inbox.take(event.seq, event.job.to_string(), result);
            }
        }
        inbox
    };
    let (inbox, ids) = tokio::join!(read, run_jobs(&server));
    inbox.check(&ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_subscriptions_survive_cuts() {
    let server = TestServer::start().await;
    let read = async {
        let mut inbox = Inbox::default();
        while !inbox.is_full() {
            let (asks, asked) = tokio::sync::mpsc::channel(1_000);
            let hello = Asked::Hello(SubscribeHello {
                name: "s".into(),
                filter: Some(EventFilter {
                    kinds: vec![EventKind::Succeeded.into()],
                    ..EventFilter::default()
                }),
                after: Some(0),
                outstanding_max: 64,
                ack_deadline_ms: 1_000,
            });
            asks.send(SubscribeRequest { message: Some(hello) })
                .await
                .unwrap();
            let asked = tokio_stream::wrappers::ReceiverStream::new(asked);
            let mut stream = server.grpc().await.subscribe(asked).await.unwrap().into_inner();
            for _ in 0..stretch() {
                if inbox.is_full() {
                    break;
                }
                let Some(Told::Event(event)) = stream.message().await.unwrap().unwrap().message else {
                    continue;
                };
                let result = serde_json::from_slice(&event.result.unwrap().data).unwrap();
                inbox.take(event.seq, event.job.to_string(), result);
                let ack = Asked::Ack(Ack {
                    seqs: vec![event.seq],
                    up_to: 0,
                });
                asks.send(SubscribeRequest { message: Some(ack) }).await.unwrap();
            }
        }
        inbox
    };
    let (inbox, ids) = tokio::join!(read, run_jobs(&server));
    inbox.check(&ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_polls_survive_cuts() {
    let server = TestServer::start().await;
    let client = server.client();
    let mut ids = Vec::new();
    for n in 0..200 {
        ids.push(client.enqueue(json!({"queue": "mail", "payload": n})).await);
    }
    let waits = ids.iter().map(|id| {
        let (client, id) = (client.clone(), id.clone());
        tokio::spawn(async move {
            loop {
                let path = format!("/v1/jobs/{id}?wait=30s");
                let span = std::time::Duration::from_millis(rand::random::<u64>() % 500);
                // Dropping the call cuts its connection.
                if let Ok(answer) = tokio::time::timeout(span, client.get(&path)).await
                    && answer.body["state"] == "succeeded"
                {
                    return answer.body["result"].clone();
                }
            }
        })
    });
    let waits: Vec<_> = waits.collect();
    for _ in 0..200 {
        let job = client.claim("mail").await;
        let report = json!({"token": job["token"], "result": job["payload"]});
        let path = format!("/v1/jobs/{}/complete", job["id"].as_str().unwrap());
        client.post(&path, report).await.is(200);
    }
    for (n, wait) in waits.into_iter().enumerate() {
        assert_eq!(wait.await.unwrap(), json!(n));
    }
}
