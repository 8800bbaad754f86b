//! Jobs as readers see them.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::delivery::{DeliveryState, DeliveryView, Webhook};
use crate::id::JobId;
use crate::job::{Body, Concurrency, TraceContext};
use crate::name::{QueueName, TenantId};
use crate::state::{AttemptEnd, State};

/// The progress that a worker reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Parts of a thousand, when the worker knows.
    pub per_mille: Option<u16>,
    pub message: Option<String>,
    /// Further data of the worker, as JSON text.
    pub data: Option<String>,
    pub at_ms: i64,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptView {
    pub number: u32,
    pub worker: String,
    pub started_at_ms: i64,
    /// `None` while it runs.
    pub ended_at_ms: Option<i64>,
    pub end: Option<AttemptEnd>,
    pub error: Option<String>,
}

/// A report that came too late, or with a token that was not the job's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateReport {
    pub at_ms: i64,
    pub attempt: u32,
    /// What was tried: complete, fail, extend, progress or log.
    pub what: String,
    /// Why it was refused.
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Position among the job's lines, from 1.
    pub number: u64,
    pub at_ms: i64,
    pub attempt: u32,
    pub text: String,
}

/// The lease of a running job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    pub worker: String,
    pub started_at_ms: i64,
    pub until_ms: i64,
}

/// A line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSummary {
    pub id: JobId,
    pub tenant: TenantId,
    pub queue: QueueName,
    pub kind: Option<String>,
    pub tags: Vec<String>,
    pub state: State,
    pub priority: i16,
    /// Attempts begun so far.
    pub attempt: u32,
    pub max_retries: u32,
    pub created_at_ms: i64,
    /// When it is due, while scheduled.
    pub run_at_ms: Option<i64>,
    pub ended_at_ms: Option<i64>,
    /// The error that it ended with.
    pub error: Option<String>,
}

/// Everything about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    pub summary: JobSummary,
    pub payload: Body,
    pub timeout: Duration,
    pub backoff: Backoff,
    pub idempotency_key: Option<String>,
    pub unique_key: Option<String>,
    pub concurrency: Option<Concurrency>,
    pub depends_on: Vec<JobId>,
    /// Those of them that have not succeeded yet.
    pub pending_dependencies: Vec<JobId>,
    pub webhook: Option<Webhook>,
    pub retention: Option<Duration>,
    pub trace: Option<TraceContext>,
    pub lease: Option<LeaseView>,
    /// In order; the last one is still running when the job is.
    pub attempts: Vec<AttemptView>,
    pub progress: Option<Progress>,
    pub log_lines: u64,
    pub result: Option<Body>,
    /// When it will be removed, Unix milliseconds.
    pub purge_at_ms: Option<i64>,
    pub late_reports: Vec<LateReport>,
    /// All late reports, also those no longer kept.
    pub late_reports_count: u64,
    pub deliveries: Vec<DeliveryView>,
}

impl JobView {
    /// Returns the worst state of its deliveries; `None` without deliveries.
    pub fn delivery_state(&self) -> Option<DeliveryState> {
        let rank = |state: &DeliveryState| match state {
            DeliveryState::Delivered => 0,
            DeliveryState::Pending => 1,
            DeliveryState::GaveUp => 2,
        };
        self.deliveries
            .iter()
            .map(|one| one.delivery.state)
            .max_by_key(rank)
    }
}

/// Why a job is not running, or that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Explanation {
    Ended(State),
    Running(LeaseView),
    /// Due at `at_ms`; between two attempts when `attempt` is not 0.
    Scheduled {
        at_ms: i64,
        attempt: u32,
    },
    /// It is due; the next maintenance run makes it ready.
    Due,
    /// Waits for these to succeed.
    Dependencies(Vec<JobId>),
    /// All slots of its concurrency key are taken. `ahead` jobs of the key go first.
    KeyLimit {
        key: String,
        limit: u32,
        taken: u32,
        ahead: u64,
    },
    Paused,
    /// The queue's rate lets no job start before `next_at_ms`.
    RateLimited {
        next_at_ms: i64,
    },
    /// Can be claimed. `ahead` jobs of its tenant in its queue go first, counted up to a bound.
    /// `last_claim_at_ms` shows whether workers ask.
    Ready {
        ahead: u64,
        last_claim_at_ms: Option<i64>,
    },
}

/// Which jobs a listing shows. A filter that is not set matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    pub tenant: Option<TenantId>,
    pub queue: Option<QueueName>,
    /// Empty means every state.
    pub states: Vec<State>,
    pub kind: Option<String>,
    pub tag: Option<String>,
    /// Registered at or after this, Unix milliseconds.
    pub since_ms: Option<i64>,
    /// Registered before this.
    pub before_ms: Option<i64>,
}

/// A page of a listing. A page may be short, even empty: only one without `next` is the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C> {
    pub items: Vec<T>,
    pub next: Option<C>,
}
