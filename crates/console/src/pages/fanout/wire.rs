//! What `/v1/fanout` and its requests say, as far as the pages show it.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The answer of `GET /v1/fanout`.
#[derive(Debug, Deserialize)]
pub(super) struct Fanout {
    pub(super) endpoints: Vec<Endpoint>,
    #[serde(default)]
    pub(super) in_progress: u64,
    #[serde(default)]
    pub(super) workers_busy: u64,
    #[serde(default)]
    pub(super) queue: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Endpoint {
    pub(super) name: String,
    pub(super) url: String,
    #[serde(default)]
    pub(super) in_flight: u64,
    pub(super) breaker: Breaker,
    /// How many of its answers ended how, since the server started.
    #[serde(default)]
    pub(super) outcomes: BTreeMap<String, u64>,
    pub(super) latency_ms: Option<Latency>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Breaker {
    Closed,
    Open,
    Probing,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
}

/// The answer of `GET /v1/fanout/requests`.
#[derive(Debug, Deserialize)]
pub(super) struct Requests {
    pub(super) requests: Vec<Request>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub(super) id: String,
    pub(super) method: String,
    pub(super) url: String,
    pub(super) at_ms: i64,
    pub(super) endpoints: u64,
    pub(super) done: u64,
    pub(super) ok: u64,
    pub(super) finished: bool,
}

/// The answer of `GET /v1/fanout/requests/ID`.
#[derive(Debug, Deserialize)]
pub(super) struct Answers {
    pub(super) request_id: String,
    pub(super) method: String,
    pub(super) url: String,
    pub(super) complete: bool,
    /// How long all of it took.
    pub(super) ms: Option<f64>,
    pub(super) endpoints: Vec<String>,
    pub(super) pending: Vec<String>,
    pub(super) results: BTreeMap<String, Outcome>,
}

/// What became of one endpoint's part. What serinin stored has a body alone.
#[derive(Debug, Deserialize)]
pub(super) struct Outcome {
    pub(super) state: Option<String>,
    pub(super) status: Option<u16>,
    pub(super) bytes: Option<u64>,
    pub(super) ms: Option<f64>,
    pub(super) detail: Option<String>,
    pub(super) body: Option<String>,
    pub(super) body_base64: Option<String>,
}
