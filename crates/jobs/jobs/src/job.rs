//! A job as its submitter describes it.

use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::backoff::Backoff;
use crate::delivery::Webhook;
use crate::error::Error;
use crate::id::JobId;
use crate::json;
use crate::limits::{
    DEPENDENCIES_MAX, KEY_BYTES_MAX, LEASE_MAX, LEASE_MIN, Limits, MAX_RETRIES_MAX, PRIORITY_MAX, SPAN_MAX,
    TAGS_MAX,
};
use crate::name::{QueueName, TenantId};

/// Bytes and their content type. No type means JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    pub content_type: Option<Box<str>>,
    pub bytes: Bytes,
}

impl Body {
    pub const JSON: &str = "application/json";

    pub fn json(bytes: impl Into<Bytes>) -> Body {
        Body {
            content_type: None,
            bytes: bytes.into(),
        }
    }

    pub fn content_type(&self) -> &str {
        self.content_type.as_deref().unwrap_or(Body::JSON)
    }

    pub fn is_json(&self) -> bool {
        self.content_type() == Body::JSON
    }

    /// Checks that every reader can read it: JSON has no more levels than parsers take, and only whole characters.
    pub fn check(&self, field: &'static str) -> Result<(), Error> {
        if !self.is_json() {
            return Ok(());
        }
        json::check(&self.bytes).map_err(|why| Error::invalid(field, why))
    }

    /// Returns what tells this body from another one.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update(self.content_type().as_bytes());
        hash.update([0]);
        hash.update(&self.bytes);
        hash.finalize().into()
    }
}

/// A hash of a body.
pub type Fingerprint = [u8; 32];

/// A key under which a repeated registration finds the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    /// How long the key is remembered; by default the window of the queue.
    pub window: Option<Duration>,
    /// What the registration holds. A repeat with another one is refused; without one, any repeat is taken.
    pub fingerprint: Option<Fingerprint>,
}

/// At most `limit` jobs of one queue with the same key run at a time.
///
/// The limit of the newest registration applies to all jobs of the key. Jobs get free slots in order of
/// registration; until then they are outside of the index that claims scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency {
    pub key: String,
    pub limit: u32,
}

/// W3C trace context, passed to the worker unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceContext {
    pub parent: String,
    pub state: Option<String>,
}

/// A job to be registered. Unset options come from the queue's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    pub tenant: TenantId,
    pub queue: QueueName,
    pub payload: Body,
    /// The kind of work, for people, filters and grouping.
    pub kind: Option<String>,
    pub tags: Vec<String>,
    /// Higher goes first among the jobs of one tenant in one queue.
    pub priority: i16,
    /// Not before this, Unix milliseconds. A time that is past means now.
    pub run_at_ms: Option<i64>,
    /// Lease length of each attempt.
    pub timeout: Option<Duration>,
    pub max_retries: Option<u32>,
    pub backoff: Option<Backoff>,
    pub idempotency: Option<Idempotency>,
    /// At most one job of the tenant and queue with this key that has not ended; another registration
    /// meanwhile finds that one.
    pub unique_key: Option<String>,
    /// Runs after all of these succeeded; is cancelled when one of them ends otherwise.
    pub depends_on: Vec<JobId>,
    pub concurrency: Option<Concurrency>,
    pub webhook: Option<Webhook>,
    /// How long the job is kept after it ended.
    pub retention: Option<Duration>,
    pub trace: Option<TraceContext>,
}

impl NewJob {
    pub fn new(tenant: TenantId, queue: QueueName, payload: Body) -> NewJob {
        NewJob {
            tenant,
            queue,
            payload,
            kind: None,
            tags: Vec::new(),
            priority: 0,
            run_at_ms: None,
            timeout: None,
            max_retries: None,
            backoff: None,
            idempotency: None,
            unique_key: None,
            depends_on: Vec::new(),
            concurrency: None,
            webhook: None,
            retention: None,
            trace: None,
        }
    }

    /// Checks a registration. A store may assume that this was done.
    pub fn check(&self, limits: &Limits) -> Result<(), Error> {
        if self.payload.bytes.len() > limits.payload_bytes_max {
            return Err(Error::TooLarge {
                what: "payload",
                bytes: self.payload.bytes.len(),
                bytes_max: limits.payload_bytes_max,
            });
        }
        self.payload.check("payload")?;
        check_key("content_type", self.payload.content_type.as_deref())?;
        check_key("kind", self.kind.as_deref())?;
        check_key("unique_key", self.unique_key.as_deref())?;
        check_key(
            "idempotency_key",
            self.idempotency.as_ref().map(|one| one.key.as_str()),
        )?;
        check_key(
            "concurrency_key",
            self.concurrency.as_ref().map(|one| one.key.as_str()),
        )?;
        self.tags
            .iter()
            .try_for_each(|tag| check_key("tags", Some(tag)))?;
        if self.tags.len() > TAGS_MAX {
            return Err(Error::invalid("tags", "must be 16 at most"));
        }
        if self.priority.abs() > PRIORITY_MAX {
            return Err(Error::invalid("priority", "must lie between -1000 and 1000"));
        }
        if self.max_retries.is_some_and(|retries| retries > MAX_RETRIES_MAX) {
            return Err(Error::invalid("max_retries", "must be 1000 at most"));
        }
        if self.concurrency.as_ref().is_some_and(|one| one.limit == 0) {
            return Err(Error::invalid("concurrency_limit", "must be 1 at least"));
        }
        if self.depends_on.len() > DEPENDENCIES_MAX {
            return Err(Error::invalid("depends_on", "must be 1000 jobs at most"));
        }
        self.timeout
            .map_or(Ok(()), |timeout| check_lease("timeout", timeout))?;
        self.retention
            .map_or(Ok(()), |span| check_span("retention", span))?;
        let window = self.idempotency.as_ref().and_then(|one| one.window);
        window.map_or(Ok(()), |span| check_span("idempotency_window", span))?;
        self.backoff.map_or(Ok(()), check_backoff)?;
        self.check_trace()?;
        self.webhook.as_ref().map_or(Ok(()), Webhook::check)
    }

    fn check_trace(&self) -> Result<(), Error> {
        let Some(trace) = &self.trace else {
            return Ok(());
        };
        check_key("traceparent", Some(&trace.parent))?;
        match &trace.state {
            Some(state) if state.len() > 512 => {
                Err(Error::invalid("tracestate", "must be 512 bytes at most"))
            }
            _ => Ok(()),
        }
    }
}

/// Checks the length of a lease.
pub fn check_lease(field: &'static str, lease: Duration) -> Result<(), Error> {
    if (LEASE_MIN..=LEASE_MAX).contains(&lease) {
        return Ok(());
    }
    Err(Error::invalid(field, "must lie between 1 second and 24 hours"))
}

/// Checks a length of time other than a lease.
pub fn check_span(field: &'static str, span: Duration) -> Result<(), Error> {
    if span <= SPAN_MAX {
        return Ok(());
    }
    Err(Error::invalid(field, "must be 366 days at most"))
}

/// Checks the waits between attempts.
pub fn check_backoff(backoff: Backoff) -> Result<(), Error> {
    match backoff {
        Backoff::None => Ok(()),
        Backoff::Fixed { delay } => check_span("backoff", delay),
        Backoff::Exponential { first, max } => {
            check_span("backoff", first)?;
            check_span("backoff", max)
        }
    }
}

fn check_key(field: &'static str, key: Option<&str>) -> Result<(), Error> {
    match key {
        None => Ok(()),
        Some(key) if key.is_empty() || key.len() > KEY_BYTES_MAX => {
            Err(Error::invalid(field, "must have 1 to 256 bytes"))
        }
        Some(key) if key.chars().any(char::is_control) => {
            Err(Error::invalid(field, "must not hold control characters"))
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> NewJob {
        NewJob::new(
            TenantId::default_tenant(),
            QueueName::new("mail").unwrap(),
            Body::json("{}"),
        )
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut NewJob), word: &str) {
        let mut job = job();
        change(&mut job);
        let error = job.check(&Limits::default()).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }

    #[test]
    fn a_plain_job_is_fine() {
        job().check(&Limits::default()).unwrap();
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_by_name() {
        refused(|job| job.timeout = Some(Duration::from_millis(999)), "timeout");
        refused(|job| job.priority = 1_001, "priority");
        refused(|job| job.kind = Some(String::new()), "kind");
        refused(|job| job.kind = Some("a\0b".into()), "kind");
        refused(|job| job.tags = vec!["x".into(); 17], "tags");
        refused(|job| job.max_retries = Some(1_001), "max_retries");
        refused(|job| job.retention = Some(Duration::MAX), "retention");
        refused(|job| job.payload = Body::json(vec![0; (1 << 20) + 1]), "payload");
        refused(|job| job.payload = Body::json("[".repeat(129)), "nested");
        refused(|job| job.payload = Body::json(r#""\ud800""#), "surrogate");
        refused(|job| job.unique_key = Some("k".repeat(257)), "unique_key");
        let nobody = Concurrency {
            key: "k".into(),
            limit: 0,
        };
        refused(|job| job.concurrency = Some(nobody), "concurrency_limit");
    }
}
