//! The arguments and results of store calls.

use std::time::Duration;

use crate::clock::span_ms;
use crate::error::Error;
use crate::event::EventKind;
use crate::id::JobId;
use crate::job::{Body, NewJob, TraceContext};
use crate::limits::{Limits, SPAN_MAX};
use crate::name::{QueueName, TenantId};
use crate::state::{FailureTerms, Next, State};
use crate::token::Lease;
use crate::view::Progress;

/// The result of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enqueued {
    pub id: JobId,
    pub state: State,
    /// `None` when this call created the job; otherwise the key by which an earlier one was found.
    pub found_by: Option<FoundBy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    IdempotencyKey,
    UniqueKey,
}

/// A claim of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The worker's name, shown on the attempt.
    pub worker: String,
    /// The queues to ask, in order: a later one is asked only for what the earlier ones could not give.
    pub queues: Vec<QueueName>,
    /// Only jobs of this tenant; by default all tenants in fair shares.
    pub tenant: Option<TenantId>,
    pub max: usize,
    /// Lease for all of them instead of each job's own.
    pub lease: Option<Duration>,
}

/// A job that a worker holds until its lease expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedJob {
    pub lease: Lease,
    pub lease_until_ms: i64,
    /// Length of the lease, also of its extensions.
    pub lease_length: Duration,
    pub tenant: TenantId,
    pub queue: QueueName,
    pub kind: Option<String>,
    pub tags: Vec<String>,
    pub priority: i16,
    pub payload: Body,
    pub max_retries: u32,
    pub created_at_ms: i64,
    pub trace: Option<TraceContext>,
}

/// A worker's report of success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    pub lease: Lease,
    pub result: Option<Body>,
}

/// The result of a report of success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed {
    Done,
    /// The same report had been taken before.
    Repeated,
}

/// A worker's report of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub lease: Lease,
    pub error: String,
    pub terms: FailureTerms,
}

/// The result of a report of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// What follows for the job.
    Taken(Next),
    /// The same report had been taken before.
    Repeated,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    pub lease: Lease,
    /// The lease ends this long from now; by default its first length.
    pub length: Option<Duration>,
}

/// A worker gives a job back: the attempt does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    pub lease: Lease,
    /// Not to be started before this has passed; at once when zero.
    pub delay: Duration,
}

/// Where a job is after it was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    Waiting,
    /// Until this time, Unix milliseconds.
    Scheduled {
        at_ms: i64,
    },
}

impl Released {
    /// Returns where a job goes that is given back at `now_ms`.
    pub fn after(delay: Duration, now_ms: i64) -> Released {
        match span_ms(delay.min(SPAN_MAX)) {
            0 => Released::Waiting,
            ms => Released::Scheduled { at_ms: now_ms + ms },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressReport {
    pub lease: Lease,
    /// Its time is set by the store.
    pub progress: Progress,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReport {
    pub lease: Lease,
    pub lines: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelRequest {
    pub id: JobId,
    pub reason: Option<String>,
}

/// A change of a job that waits. What is not set stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub id: JobId,
    pub priority: Option<i16>,
    /// Not before this, Unix milliseconds; a time that is past means now.
    pub run_at_ms: Option<i64>,
    pub payload: Option<Body>,
    /// Lease length of each attempt.
    pub timeout: Option<Duration>,
    pub max_retries: Option<u32>,
    /// Moves the job to this queue. Its idempotency key stays with the old one; lease, retries, backoff and webhook
    /// stay what they were.
    pub queue: Option<QueueName>,
}

impl Edit {
    /// A change of nothing, to be filled in.
    pub fn of(id: JobId) -> Edit {
        Edit {
            id,
            priority: None,
            run_at_ms: None,
            payload: None,
            timeout: None,
            max_retries: None,
            queue: None,
        }
    }

    /// Returns whether nothing is to change.
    pub fn is_empty(&self) -> bool {
        self.priority.is_none()
            && self.run_at_ms.is_none()
            && self.payload.is_none()
            && self.timeout.is_none()
            && self.max_retries.is_none()
            && self.queue.is_none()
    }

    /// Checks a change. A store may assume that this was done.
    pub fn check(&self, limits: &Limits) -> Result<(), Error> {
        // The rules are those of a registration.
        let payload = self.payload.clone().unwrap_or_else(|| Body::json("0"));
        let mut job = NewJob::new(TenantId::default_tenant(), QueueName::notifications(), payload);
        job.priority = self.priority.unwrap_or(0);
        job.timeout = self.timeout;
        job.max_retries = self.max_retries;
        job.check(limits)
    }
}

/// The runs of one schedule to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    pub tenant: TenantId,
    pub schedule: String,
    /// The fence: the schedule's next run as it was read. When it has moved since, nothing happens.
    pub next_run_was_ms: i64,
    pub next_run_ms: Option<i64>,
    /// The newest run among the jobs.
    pub last_run_ms: Option<i64>,
    pub jobs: Vec<NewJob>,
}

/// The result of a firing.
#[derive(Debug, Default)]
pub struct Fired {
    /// Whether the schedule was advanced: false when another server had done it, or the schedule is gone.
    pub advanced: bool,
    /// Why runs were refused. The schedule goes on without them, and shows the last one.
    pub refused: Vec<Error>,
}

/// The result of one maintenance run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepResult {
    /// Rows processed.
    pub rows: usize,
    /// The limit was reached: there is probably more.
    pub more: bool,
}

/// When maintenance is next due, Unix milliseconds; `None` when nothing is to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextTimes {
    /// A scheduled job is due.
    pub due_ms: Option<i64>,
    /// A lease expires.
    pub lease_ms: Option<i64>,
    /// A schedule's run is due.
    pub schedule_ms: Option<i64>,
    /// A try of a delivery is due.
    pub delivery_ms: Option<i64>,
    /// The retention of an ended job is over.
    pub purge_ms: Option<i64>,
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub what: String,
}

/// Receives notifications of a store, after the commit. The store does not wait for it. They are hints: some
/// may be missing, so a waiting task also polls.
pub trait Listener: Send + Sync + 'static {
    /// Queues may have new jobs to claim.
    fn ready(&self, queues: &[QueueName]);

    /// The log has grown to this position.
    fn logged(&self, head: u64);

    /// There may be new deliveries to webhooks.
    fn deliveries(&self);

    /// Jobs have ended in this process, with the kind of the ending. Others are found in the log.
    fn ended(&self, jobs: &[(JobId, EventKind)]);
}
