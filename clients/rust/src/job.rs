//! Jobs as the server returns them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::error::Error;

/// Assumed lease of a claimed job if the server does not state its length.
const LEASE_UNTOLD: Duration = Duration::from_secs(30);

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Scheduled,
    Waiting,
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

impl State {
    pub const ALL: [State; 6] = [
        State::Scheduled,
        State::Waiting,
        State::Running,
        State::Succeeded,
        State::Failed,
        State::Cancelled,
    ];

    /// Returns whether the job has ended and will stay so unless it is retried.
    pub fn is_over(self) -> bool {
        matches!(self, State::Succeeded | State::Failed | State::Cancelled)
    }

    pub fn name(self) -> &'static str {
        match self {
            State::Scheduled => "scheduled",
            State::Waiting => "waiting",
            State::Running => "running",
            State::Succeeded => "succeeded",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// The response to a registration.
#[derive(Clone, Debug, Deserialize)]
pub struct Enqueued {
    pub id: String,
    /// Absent in the response to a batch.
    #[serde(default)]
    pub state: Option<State>,
}

/// A job that this worker may run now.
#[derive(Clone, Debug, Deserialize)]
pub struct Claimed {
    pub id: String,
    /// Lease, fence and credential of this attempt.
    pub token: String,
    /// Counted from 1.
    pub attempt: u32,
    #[serde(default)]
    payload: Option<Box<RawValue>>,
    #[serde(default)]
    payload_base64: Option<String>,
    #[serde(default)]
    content_type: Option<String>,
    #[serde(default)]
    timeout_seconds: Option<f64>,
    #[serde(default)]
    pub max_retries: Option<u32>,
    #[serde(default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub traceparent: Option<String>,
}

impl Claimed {
    /// Parses the payload.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.raw_payload())
    }

    /// Returns the payload as the submitter wrote it; `null` if it is not JSON.
    pub fn raw_payload(&self) -> &str {
        self.payload.as_deref().map_or("null", RawValue::get)
    }

    /// Returns the payload's bytes, also if they are not JSON.
    pub fn payload_bytes(&self) -> Cow<'_, [u8]> {
        match &self.payload_base64 {
            // What cannot be decoded is returned as received.
            Some(text) => Cow::Owned(
                STANDARD
                    .decode(text)
                    .unwrap_or_else(|_| text.clone().into_bytes()),
            ),
            None => Cow::Borrowed(self.raw_payload().as_bytes()),
        }
    }

    /// Returns the payload's media type.
    pub fn content_type(&self) -> &str {
        self.content_type.as_deref().unwrap_or("application/json")
    }

    /// Returns how long the lease holds from the moment of the claim.
    pub fn lease(&self) -> Duration {
        let told = self.timeout_seconds.map(Duration::try_from_secs_f64);
        told.and_then(Result::ok).unwrap_or(LEASE_UNTOLD)
    }
}

/// A job with all its fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub id: String,
    pub queue: String,
    pub state: State,
    /// Attempts begun so far.
    #[serde(default)]
    pub attempts: u32,
    #[serde(default)]
    pub max_retries: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// All other fields, as in `/openapi.json`.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Job {
    /// Parses the result; `None` unless the job succeeded with one.
    pub fn result<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let read = |result: &Value| {
            T::deserialize(result).map_err(|source| Error::Answer {
                path: format!("/v1/jobs/{}", self.id),
                source,
            })
        };
        self.result.as_ref().map(read).transpose()
    }
}

/// One page of a listing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobPage {
    pub jobs: Vec<Job>,
    /// Where the next page begins; `None` at the end.
    #[serde(default, alias = "cursor")]
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_job_keeps_the_bytes_of_its_payload() {
        let text = r#"{"id":"7","token":"t","attempt":2,"payload":{"b": 1.50},"timeout_seconds":90,"new":1}"#;
        let claimed: Claimed = serde_json::from_str(text).unwrap();
        assert_eq!(claimed.raw_payload(), r#"{"b": 1.50}"#);
        assert_eq!(claimed.lease(), Duration::from_secs(90));
        let bare: Claimed = serde_json::from_str(r#"{"id":"7","token":"t","attempt":1}"#).unwrap();
        assert_eq!((bare.raw_payload(), bare.lease()), ("null", LEASE_UNTOLD));
        let bytes =
            r#"{"id":"7","token":"t","attempt":1,"payload_base64":"AP8=","content_type":"image/png"}"#;
        let bytes: Claimed = serde_json::from_str(bytes).unwrap();
        assert_eq!(
            (&bytes.payload_bytes()[..], bytes.content_type()),
            (&[0, 255][..], "image/png")
        );
    }

    #[test]
    fn a_job_keeps_what_this_client_does_not_know() {
        let text = r#"{"id":"7","queue":"q","state":"succeeded","attempts":1,"max_retries":5,"result":[1],"kind":"x"}"#;
        let job: Job = serde_json::from_str(text).unwrap();
        assert_eq!(job.rest["kind"], "x");
        assert_eq!(job.result::<Vec<u8>>().unwrap(), Some(vec![1]));
        assert_eq!(
            serde_json::to_value(&job).unwrap(),
            serde_json::from_str::<Value>(text).unwrap()
        );
    }
}
