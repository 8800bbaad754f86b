//! An in-memory server that speaks the REST core and fails on demand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use nagaya_client::{Client, RetryPolicy};
use serde_json::{Value, json};
use tokio::sync::watch;

const LEASE_LOST: &str = "https://nagaya/problems/lease-lost";

/// A status and the problem's type.
type Refusal = (u16, &'static str);

/// A one-time failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The call is executed, and the response is lost.
    AnswerLost,
    /// The call is refused with this status and not executed.
    Refused(u16),
    /// The lease is gone.
    LeaseLost,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    pub(crate) queue: String,
    pub(crate) payload: Value,
    pub(crate) key: Option<String>,
    pub(crate) state: &'static str,
    pub(crate) attempts: u32,
    pub(crate) token: String,
    pub(crate) result: Option<Value>,
    pub(crate) failure: Option<Value>,
    pub(crate) extensions: u32,
    pub(crate) progress: Option<Value>,
    pub(crate) log: Vec<Value>,
}

#[derive(Default)]
pub(crate) struct ServerState {
    pub(crate) jobs: BTreeMap<u64, Job>,
    pub(crate) faults: VecDeque<(&'static str, Fault)>,
    /// Calls by kind.
    pub(crate) calls: BTreeMap<String, u32>,
    pub(crate) lease_seconds: f64,
}

#[derive(Clone)]
pub(crate) struct Fake {
    server: Arc<Mutex<ServerState>>,
    changes: watch::Sender<u64>,
    pub(crate) url: String,
}

impl Fake {
    pub(crate) async fn start() -> Fake {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Fake {
            server: Arc::new(Mutex::new(ServerState {
                lease_seconds: 30.0,
                ..ServerState::default()
            })),
            changes: watch::channel(0).0,
            url: format!("http://{}", listener.local_addr().unwrap()),
        };
        let router = Router::new()
            .route("/v1/jobs", post(enqueue))
            .route("/v1/jobs/batch", post(enqueue_many))
            .route("/v1/jobs/{id}", get(read))
            .route("/v1/jobs/{id}/{what}", post(report))
            .route("/v1/queues/{queue}/claim", post(claim))
            .with_state(fake.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        fake
    }

    pub(crate) fn client(&self) -> Client {
        let retry = RetryPolicy {
            attempts: 4,
            first: Duration::from_millis(1),
            max: Duration::from_millis(5),
        };
        Client::builder(&self.url).retry(retry).build().unwrap()
    }

    pub(crate) fn server(&self) -> MutexGuard<'_, ServerState> {
        self.server.lock().unwrap()
    }

    pub(crate) fn fail(&self, kind: &'static str, fault: Fault) {
        self.server().faults.push_back((kind, fault));
    }

    /// Waits until the server's state matches.
    pub(crate) async fn until(&self, mut is: impl FnMut(&ServerState) -> bool) {
        let mut changes = self.changes.subscribe();
        let waiting = async {
            while !is(&self.server()) {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting)
            .await
            .expect("the house never became as expected");
    }

    /// Executes a call and answers, or injects the next fault.
    fn answer(&self, kind: &str, act: impl FnOnce(&mut ServerState) -> Result<Value, Refusal>) -> Response {
        let response = {
            let mut server = self.server();
            *server.calls.entry(kind.to_owned()).or_default() += 1;
            let place = server.faults.iter().position(|(of, _)| *of == kind);
            let fault = place
                .and_then(|place| server.faults.remove(place))
                .map(|(_, fault)| fault);
            match fault {
                Some(Fault::Refused(status)) => problem(status, "about:blank"),
                Some(Fault::LeaseLost) => problem(409, LEASE_LOST),
                Some(Fault::AnswerLost) => {
                    act(&mut server).ok();
                    problem(502, "about:blank")
                }
                None => match act(&mut server) {
                    Ok(value) => Json(value).into_response(),
                    Err((status, kind)) => problem(status, kind),
                },
            }
        };
        self.changes.send_modify(|count| *count += 1);
        response
    }
}

fn problem(status: u16, kind: &str) -> Response {
    let body = json!({"type": kind, "status": status, "detail": "as told"});
    (StatusCode::from_u16(status).unwrap(), Json(body)).into_response()
}

impl ServerState {
    fn add(&mut self, new: &Value) -> u64 {
        let key = new["idempotency_key"].as_str().map(str::to_owned);
        let known = self.jobs.iter().find(|(_, job)| key.is_some() && job.key == key);
        if let Some((id, _)) = known {
            return *id;
        }
        let id = self.jobs.len() as u64 + 1;
        let job = Job {
            queue: new["queue"].as_str().unwrap().to_owned(),
            payload: new["payload"].clone(),
            key,
            state: "waiting",
            ..Job::default()
        };
        self.jobs.insert(id, job);
        id
    }
}

async fn enqueue(State(fake): State<Fake>, Json(new): Json<Value>) -> Response {
    fake.answer("enqueue", |server| {
        let id = server.add(&new);
        Ok(json!({"id": id.to_string(), "state": "waiting"}))
    })
}

async fn enqueue_many(State(fake): State<Fake>, Json(new): Json<Value>) -> Response {
    fake.answer("batch", |server| {
        let jobs = new["jobs"].as_array().unwrap();
        let ids = jobs.iter().map(|job| json!({"id": server.add(job).to_string()}));
        Ok(json!({"jobs": ids.collect::<Vec<_>>()}))
    })
}

async fn claim(State(fake): State<Fake>, Path(queue): Path<String>, Json(body): Json<Value>) -> Response {
    let max = body["max"].as_u64().unwrap() as usize;
    let has_jobs = |server: &ServerState| {
        !server.faults.is_empty()
            || server
                .jobs
                .values()
                .any(|job| job.queue == queue && job.state == "waiting")
    };
    let mut changes = fake.changes.subscribe();
    while !has_jobs(&fake.server()) {
        changes.changed().await.unwrap();
    }
    fake.answer("claim", |server| {
        let lease = server.lease_seconds;
        let ready = server
            .jobs
            .iter_mut()
            .filter(|(_, job)| job.queue == queue && job.state == "waiting");
        let claimed = ready.take(max).map(|(id, job)| {
            job.state = "running";
            job.attempts += 1;
            job.token = format!("{id}-{}", job.attempts);
            json!({"id": id.to_string(), "token": job.token, "attempt": job.attempts,
                   "payload": job.payload, "timeout_seconds": lease})
        });
        Ok(json!({"jobs": claimed.collect::<Vec<_>>()}))
    })
}

async fn read(State(fake): State<Fake>, Path(id): Path<u64>) -> Response {
    let mut changes = fake.changes.subscribe();
    let is_over = || {
        fake.server()
            .jobs
            .get(&id)
            .is_none_or(|job| job.result.is_some() || job.state == "failed")
    };
    let waiting = async {
        while !is_over() {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(1), waiting).await.ok();
    fake.answer("read", |server| {
        let job = server.jobs.get(&id).ok_or((404, "about:blank"))?;
        let mut view = json!({"id": id.to_string(), "queue": job.queue, "state": job.state,
                              "attempts": job.attempts, "max_retries": 5});
        if let Some(result) = &job.result {
            view["result"] = result.clone();
        }
        Ok(view)
    })
}

async fn report(
    State(fake): State<Fake>,
    Path((id, what)): Path<(u64, String)>,
    Json(body): Json<Value>,
) -> Response {
    fake.answer(&what, |server| {
        let job = server.jobs.get_mut(&id).ok_or((404, "about:blank"))?;
        let with_token = !matches!(what.as_str(), "cancel" | "retry");
        if with_token && body["token"] != job.token.as_str() {
            return Err((409, LEASE_LOST));
        }
        match what.as_str() {
            "extend" => job.extensions += 1,
            "progress" => job.progress = Some(body),
            "log" => job.log.extend(body["lines"].as_array().unwrap().clone()),
            "complete" => {
                job.state = "succeeded";
                job.result = Some(body["result"].clone());
            }
            "fail" => {
                job.state = "failed";
                job.failure = Some(body);
            }
            "release" => {
                job.state = "waiting";
                job.attempts -= 1;
            }
            "cancel" => job.state = "cancelled",
            "retry" => job.state = "waiting",
            other => panic!("{other} is not spoken here"),
        }
        Ok(json!({}))
    })
}
