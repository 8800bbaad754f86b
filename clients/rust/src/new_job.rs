//! Jobs to register.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::error::Error;

/// A job to register. Unset fields come from the queue's settings.
#[derive(Clone, Debug, Serialize)]
pub struct NewJob {
    pub(crate) queue: String,
    payload: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl NewJob {
    /// Creates a job whose payload is a value serialized as JSON.
    pub fn new(queue: impl Into<String>, payload: &impl Serialize) -> Result<NewJob, Error> {
        let payload = to_raw_value(payload).map_err(|source| Error::Encode {
            what: "payload",
            source,
        })?;
        Ok(NewJob::with_raw(queue, payload))
    }

    /// Creates a job whose payload is JSON already; it is passed on byte for byte.
    pub fn with_raw(queue: impl Into<String>, payload: Box<RawValue>) -> NewJob {
        NewJob {
            queue: queue.into(),
            payload,
            idempotency_key: None,
            rest: Map::new(),
        }
    }

    /// Two registrations in one queue with the same key are one job, for as long as the server keeps the key.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> NewJob {
        self.idempotency_key = Some(key.into());
        self
    }

    /// How long an attempt may go without an extension before the job is given to another worker, in whole
    /// seconds.
    pub fn timeout(self, timeout: Duration) -> NewJob {
        self.field("timeout_seconds", timeout.as_secs().max(1))
    }

    /// Attempts after the first.
    pub fn max_retries(self, retries: u32) -> NewJob {
        self.field("max_retries", retries)
    }

    /// The earliest start.
    pub fn run_at(self, at: SystemTime) -> NewJob {
        // A time outside the calendar's range is treated as far in the future.
        let at = jiff::Timestamp::try_from(at).unwrap_or(jiff::Timestamp::MAX);
        self.field("run_at", format!("{at:.3}"))
    }

    /// Higher goes first.
    pub fn priority(self, priority: i16) -> NewJob {
        self.field("priority", priority)
    }

    /// Notifies this URL when the job has ended.
    pub fn webhook(self, url: &str) -> NewJob {
        self.field("webhook", serde_json::json!({ "url": url }))
    }

    /// Runs only after all of these succeeded.
    pub fn depends_on(self, ids: &[String]) -> NewJob {
        self.field("depends_on", ids)
    }

    /// Sets any other field of `POST /v1/jobs`; see the server's `/openapi.json`.
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> NewJob {
        self.rest.insert(name.to_owned(), value.into());
        self
    }

    /// Generates a key unless the job has one.
    pub(crate) fn with_key(mut self) -> NewJob {
        self.idempotency_key
            .get_or_insert_with(|| uuid::Uuid::now_v7().simple().to_string());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_written_with_what_was_said_and_nothing_else() {
        let job = NewJob::new("mail", &serde_json::json!({"to": "a@b"})).unwrap();
        assert_eq!(
            serde_json::to_string(&job).unwrap(),
            r#"{"queue":"mail","payload":{"to":"a@b"}}"#
        );
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
        let job = job.run_at(at).max_retries(2).timeout(Duration::from_secs(90));
        let value = serde_json::to_value(&job).unwrap();
        assert_eq!(value["run_at"], "1970-01-01T00:00:01.500Z");
        assert_eq!(value["max_retries"], 2);
        assert_eq!(value["timeout_seconds"], 90);
    }

    #[test]
    fn raw_payloads_keep_their_bytes() {
        let raw = RawValue::from_string("{\"b\" : 1,\"a\":1.50}".to_owned()).unwrap();
        let text = serde_json::to_string(&NewJob::with_raw("q", raw)).unwrap();
        assert!(text.contains("{\"b\" : 1,\"a\":1.50}"), "{text}");
    }

    #[test]
    fn a_key_of_the_submitters_own_stays() {
        let job = NewJob::new("q", &1).unwrap();
        assert_ne!(
            job.clone().with_key().idempotency_key,
            job.clone().with_key().idempotency_key
        );
        assert_eq!(
            job.idempotency_key("mine").with_key().idempotency_key.as_deref(),
            Some("mine")
        );
    }
}
