//! The API's documents about jobs, as far as pages show them.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(super) struct Queues {
    pub(super) queues: Vec<Queue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) paused: bool,
    pub(super) created_at: String,
    pub(super) depth: Depth,
    pub(super) passed: Passed,
    pub(super) oldest_ready_at: Option<String>,
    pub(super) last_claim_at: Option<String>,
    pub(super) settings: Value,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Depth {
    pub(super) scheduled: u64,
    pub(super) ready: u64,
    pub(super) blocked: u64,
    pub(super) running: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) cancelled: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Passed {
    pub(super) enqueued: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) attempts_failed: u64,
    pub(super) leases_lost: u64,
    pub(super) late_reports: u64,
}

/// How long jobs of a queue took lately.
#[derive(Debug, Deserialize)]
pub(super) struct Latency {
    pub(super) jobs: u64,
    pub(super) wait_ms: Option<Spread>,
    pub(super) run_ms: Option<Spread>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Spread {
    pub(super) p50: u64,
    pub(super) p90: u64,
    pub(super) p99: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct JobPage {
    pub(super) jobs: Vec<Summary>,
    pub(super) next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Summary {
    pub(super) id: String,
    pub(super) queue: String,
    pub(super) tenant: String,
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    pub(super) state: String,
    pub(super) priority: i64,
    pub(super) attempts: u64,
    pub(super) max_retries: u64,
    pub(super) created_at: String,
    pub(super) run_at: Option<String>,
    pub(super) ended_at: Option<String>,
    pub(super) error: Option<String>,
}

impl Summary {
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state.as_str(), "succeeded" | "failed" | "cancelled")
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Job {
    #[serde(flatten)]
    pub(super) summary: Summary,
    #[serde(flatten)]
    pub(super) bodies: Bodies,
    pub(super) timeout_seconds: f64,
    pub(super) backoff: Value,
    pub(super) idempotency_key: Option<String>,
    pub(super) unique_key: Option<String>,
    pub(super) concurrency: Option<Concurrency>,
    #[serde(default)]
    pub(super) depends_on: Vec<String>,
    pub(super) traceparent: Option<String>,
    pub(super) lease: Option<Lease>,
    #[serde(default)]
    pub(super) history: Vec<Attempt>,
    pub(super) progress: Option<Progress>,
    #[serde(default)]
    pub(super) log_lines: u64,
    pub(super) removed_at: Option<String>,
    #[serde(default)]
    pub(super) late_reports: Vec<LateReport>,
    #[serde(default)]
    pub(super) late_reports_count: u64,
    #[serde(default)]
    pub(super) deliveries: Vec<Delivery>,
    pub(super) explanation: Option<Explanation>,
}

/// What went in and what came out: JSON, or any bytes.
#[derive(Debug, Deserialize)]
pub(super) struct Bodies {
    pub(super) payload: Option<Value>,
    pub(super) payload_base64: Option<String>,
    pub(super) payload_content_type: Option<String>,
    pub(super) result: Option<Value>,
    pub(super) result_base64: Option<String>,
    pub(super) result_content_type: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Concurrency {
    pub(super) key: String,
    pub(super) limit: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Lease {
    pub(super) worker: String,
    pub(super) started_at: String,
    pub(super) expires_at: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Attempt {
    pub(super) number: u64,
    pub(super) worker: String,
    pub(super) started_at: String,
    pub(super) ended_at: Option<String>,
    pub(super) end: Option<String>,
    pub(super) error: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Progress {
    pub(super) progress: Option<f64>,
    pub(super) message: Option<String>,
    pub(super) data: Option<Value>,
    pub(super) at: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct LateReport {
    pub(super) at: String,
    pub(super) attempt: u64,
    pub(super) what: String,
    pub(super) why: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Deliveries {
    pub(super) deliveries: Vec<Delivery>,
    pub(super) next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delivery {
    /// Said in listings over all jobs only.
    pub(super) job: Option<String>,
    pub(super) event: String,
    pub(super) url: String,
    pub(super) state: String,
    #[serde(default)]
    pub(super) tries: Vec<Try>,
    pub(super) next_try_at: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Try {
    pub(super) number: u64,
    pub(super) at: String,
    pub(super) latency_ms: u64,
    pub(super) status: Option<u16>,
    pub(super) error: Option<String>,
    #[serde(default)]
    pub(super) reply: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Explanation {
    pub(super) text: String,
    pub(super) at: Option<String>,
    pub(super) ahead: Option<u64>,
    #[serde(default)]
    pub(super) jobs: Vec<String>,
    pub(super) last_claim_at: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Lines {
    pub(super) lines: Vec<Line>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Line {
    pub(super) at: String,
    pub(super) attempt: u64,
    pub(super) text: String,
}
