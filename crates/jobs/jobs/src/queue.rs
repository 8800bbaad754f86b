//! A queue's settings and counters.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::delivery::Webhook;
use crate::error::Error;
use crate::job::{check_backoff, check_lease, check_span};
use crate::limits::{IDEMPOTENCY_WINDOW_DEFAULT, LEASE_DEFAULT, MAX_RETRIES_DEFAULT, MAX_RETRIES_MAX};
use crate::name::QueueName;
use crate::rate::Rate;
use crate::url;

/// Which events of a queue's jobs are written to the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventDetail {
    /// Every change of state.
    #[default]
    All,
    /// Only endings, retries and lost leases: fewer rows for each job.
    Ends,
}

/// How long jobs are kept after they ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub succeeded: Duration,
    /// Failed and cancelled ones.
    pub failed: Duration,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            succeeded: Duration::from_secs(7 * 24 * 3600),
            failed: Duration::from_secs(30 * 24 * 3600),
        }
    }
}

/// An HTTP endpoint that the server calls with each job of a queue, as a worker would claim it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    pub url: String,
    pub headers: Vec<(String, String)>,
    /// Calls at a time.
    pub concurrency: u32,
}

/// Settings of a queue. A queue that was never set up has the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Lease of jobs that ask for none.
    pub lease: Duration,
    pub max_retries: u32,
    pub backoff: Backoff,
    pub idempotency_window: Duration,
    pub retention: Retention,
    /// Most jobs that have not started; more are refused. Servers in parallel may exceed it by the calls they
    /// have in progress.
    pub depth_max: Option<u64>,
    pub rate: Option<Rate>,
    pub events: EventDetail,
    /// Webhook of jobs that name none of their own.
    pub webhook: Option<Webhook>,
    pub push: Option<Push>,
    /// Routes of administrators' notifications by name; all routes when empty.
    pub notify: Vec<String>,
}

impl Default for QueueSettings {
    fn default() -> QueueSettings {
        QueueSettings {
            lease: LEASE_DEFAULT,
            max_retries: MAX_RETRIES_DEFAULT,
            backoff: Backoff::default(),
            idempotency_window: IDEMPOTENCY_WINDOW_DEFAULT,
            retention: Retention::default(),
            depth_max: None,
            rate: None,
            events: EventDetail::default(),
            webhook: None,
            push: None,
            notify: Vec::new(),
        }
    }
}

impl QueueSettings {
    pub fn check(&self) -> Result<(), Error> {
        check_lease("lease", self.lease)?;
        check_backoff(self.backoff)?;
        check_span("idempotency_window", self.idempotency_window)?;
        check_span("retention", self.retention.succeeded)?;
        check_span("retention", self.retention.failed)?;
        if self.max_retries > MAX_RETRIES_MAX {
            return Err(Error::invalid("max_retries", "must be 1000 at most"));
        }
        if self.rate.is_some_and(|rate| {
            rate.jobs == 0 || rate.per.is_zero() || rate.per > Duration::from_secs(86_400)
        }) {
            return Err(Error::invalid("rate", "needs at least 1 job in at most a day"));
        }
        if let Some(push) = &self.push {
            url::check(&push.url).map_err(|why| Error::invalid("push", why))?;
            if push.concurrency == 0 {
                return Err(Error::invalid("push", "needs a concurrency of 1 at least"));
            }
        }
        self.webhook.as_ref().map_or(Ok(()), Webhook::check)
    }
}

/// How many jobs of a queue are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    pub scheduled: u64,
    /// Can be claimed, unless the queue is paused or limited.
    pub ready: u64,
    /// Wait for other jobs or for a slot of their concurrency key.
    pub blocked: u64,
    pub running: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub cancelled: u64,
}

impl Depth {
    /// Jobs that have not started: what the depth cap counts.
    pub fn unstarted(&self) -> u64 {
        self.scheduled + self.ready + self.blocked
    }
}

/// How many jobs passed through the queue since it exists. The difference of two readings is a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throughput {
    pub enqueued: u64,
    pub started: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Attempts that did not succeed, whatever followed.
    pub attempts_failed: u64,
    pub leases_lost: u64,
    pub late_reports: u64,
}

/// What a reader of queues wants counted. Counting takes longer the more there is to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// Nothing: names and settings only.
    Nothing,
    /// Jobs that have not ended, and what passed.
    Open,
    /// Those that have ended too.
    All,
}

/// A queue as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueView {
    pub name: QueueName,
    pub settings: QueueSettings,
    pub paused: bool,
    pub created_at_ms: i64,
    pub depth: Depth,
    pub throughput: Throughput,
    /// When the oldest ready job was registered, Unix milliseconds.
    pub oldest_ready_at_ms: Option<i64>,
    /// When a worker last claimed a job here, Unix milliseconds.
    pub last_claim_at_ms: Option<i64>,
}
