//! Requests and replies of workers.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use nagaya_jobs::job::Body;
use nagaya_jobs::json;
use nagaya_jobs::limits::CLAIM_MAX;
use nagaya_jobs::request::{Completed, Failed};
use nagaya_jobs::service;
use nagaya_jobs::state::{FailureTerms, Next};
use nagaya_jobs::view::Progress as ProgressRule;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::lease::LostLease;
use super::new_job::{BINARY, State, json_body};
use super::scalar::{Id, Number, Seconds, Time};
use crate::handlers::check_text;
use crate::problem::{Problem, ProblemDocument};

/// A worker's wish for jobs of one queue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim<'a> {
    /// The worker's name, shown on the attempt.
    #[serde(borrow)]
    #[schema(min_length = 1, max_length = 256)]
    pub(crate) worker: Cow<'a, str>,
    /// Most jobs to be given; 1 when left out.
    #[schema(minimum = 1, maximum = 1024)]
    pub(crate) max: Option<usize>,
    /// How long to wait when there is nothing. The server's `wait_max` is the most.
    pub(crate) wait_seconds: Option<Seconds>,
    /// A lease for all of them instead of each job's own.
    pub(crate) timeout_seconds: Option<Seconds>,
    /// Only for callers that speak for several tenants: jobs of this one.
    #[schema(min_length = 1, max_length = 128)]
    pub(crate) tenant: Option<String>,
    /// Tokens of jobs that the worker has under way. When one of them is lost, the answer says so, and does not wait
    /// for a job.
    #[serde(default)]
    #[schema(max_items = 1024)]
    pub(crate) holding: Vec<String>,
}

/// A worker's wish for jobs of several queues.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimAny<'a> {
    /// In order: a later one is asked for what the earlier ones could not give.
    #[schema(min_items = 1, max_items = 64)]
    pub(crate) queues: Vec<String>,
    /// The worker's name, shown on the attempt.
    #[serde(borrow)]
    #[schema(min_length = 1, max_length = 256)]
    pub(crate) worker: Cow<'a, str>,
    /// Most jobs to be given; 1 when left out.
    #[schema(minimum = 1, maximum = 1024)]
    pub(crate) max: Option<usize>,
    /// How long to wait when there is nothing. The server's `wait_max` is the most.
    pub(crate) wait_seconds: Option<Seconds>,
    /// A lease for all of them instead of each job's own.
    pub(crate) timeout_seconds: Option<Seconds>,
    /// Only for callers that speak for several tenants: jobs of this one.
    #[schema(min_length = 1, max_length = 128)]
    pub(crate) tenant: Option<String>,
    /// Tokens of jobs that the worker has under way. When one of them is lost, the answer says so, and does not wait
    /// for a job.
    #[serde(default)]
    #[schema(max_items = 1024)]
    pub(crate) holding: Vec<String>,
}

/// Validates the number of jobs that a worker asks for.
pub(crate) fn claim_max(max: Option<usize>) -> Result<usize, Problem> {
    match max.unwrap_or(1) {
        max @ 1..=CLAIM_MAX => Ok(max),
        _ => Err(Problem::bad_request("max must lie between 1 and 1024")),
    }
}

/// Validates the number of jobs that a worker says it holds.
pub(crate) fn check_holding(count: usize) -> Result<(), Problem> {
    if count <= CLAIM_MAX {
        Ok(())
    } else {
        Err(Problem::bad_request("holding must have 1024 tokens at most"))
    }
}

/// Jobs that belong to the worker until their leases end.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimedJobs<'a> {
    pub(crate) jobs: Vec<Claimed<'a>>,
    /// Those of `holding` that are lost: stop working on them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) lost: Vec<LostLease>,
}

/// A job that belongs to the worker until its lease ends.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Claimed<'a> {
    #[schema(inline)]
    id: Id,
    /// Lease, fence and credential of this attempt: every report needs it.
    token: &'a str,
    queue: &'a str,
    tenant: &'a str,
    /// The number of this attempt, from 1.
    attempt: u32,
    max_retries: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    priority: i16,
    /// The payload, unless it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// The type of `payload_base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[schema(inline)]
    created_at: Time,
    #[schema(inline)]
    lease_expires_at: Time,
    /// Length of the lease, also of its extensions.
    #[schema(inline)]
    timeout_seconds: Seconds,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<&'a str>,
}

impl<'a> From<&'a service::Claimed> for Claimed<'a> {
    fn from(claimed: &'a service::Claimed) -> Claimed<'a> {
        let service::Claimed { job, token } = claimed;
        let BodyView {
            json: payload,
            base64: payload_base64,
            content_type,
        } = BodyView::of(&job.payload);
        Claimed {
            id: Number(job.lease.id),
            token,
            queue: job.queue.as_str(),
            tenant: job.tenant.as_str(),
            attempt: job.lease.attempt,
            max_retries: job.max_retries,
            kind: job.kind.as_deref(),
            tags: &job.tags,
            priority: job.priority,
            payload,
            payload_base64,
            content_type,
            created_at: Time(job.created_at_ms),
            lease_expires_at: Time(job.lease_until_ms),
            timeout_seconds: Seconds(job.lease_length),
            traceparent: job.trace.as_ref().map(|trace| trace.parent.as_str()),
            tracestate: job.trace.as_ref().and_then(|trace| trace.state.as_deref()),
        }
    }
}

/// Bytes as JSON shows them: as they are when they are JSON that any parser takes, in base64 when not.
#[derive(Debug, Default)]
pub(crate) struct BodyView<'a> {
    pub(crate) json: Option<&'a RawValue>,
    pub(crate) base64: Option<String>,
    pub(crate) content_type: Option<&'a str>,
}

impl<'a> BodyView<'a> {
    pub(crate) fn of(body: &'a Body) -> BodyView<'a> {
        // What was stored before such things were refused must not break its readers.
        if body.check("body").is_ok()
            && body.is_json()
            && let Ok(json) = serde_json::from_slice(&body.bytes)
        {
            return BodyView {
                json: Some(json),
                ..BodyView::default()
            };
        }
        BodyView {
            json: None,
            base64: Some(STANDARD.encode(&body.bytes)),
            content_type: Some(body.content_type()),
        }
    }
}

/// A report of success.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Complete<'a> {
    #[serde(borrow)]
    pub(crate) token: Cow<'a, str>,
    /// Any JSON.
    #[serde(borrow, default)]
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<&'a RawValue>,
    /// A result that is not JSON, in base64; then there is no `result`.
    result_base64: Option<Cow<'a, str>>,
    /// The media type of `result_base64`.
    #[schema(min_length = 1, max_length = 256)]
    content_type: Option<String>,
}

impl Complete<'_> {
    /// Takes the result out of the body it came in, without a copy.
    pub(crate) fn result(&self, whole: &Bytes) -> Result<Option<Body>, Problem> {
        match (self.result, &self.result_base64, &self.content_type) {
            (None, None, None) => Ok(None),
            (Some(json), None, None) => Ok(Some(json_body(Some(json), whole))),
            (None, Some(text), content_type) => {
                content_type
                    .as_deref()
                    .map_or(Ok(()), |name| check_text("content_type", name))?;
                let bytes = STANDARD
                    .decode(text.as_bytes())
                    .map_err(|_| Problem::bad_request("result_base64 is not base64"))?;
                Ok(Some(Body {
                    content_type: Some(content_type.as_deref().unwrap_or(BINARY).into()),
                    bytes: bytes.into(),
                }))
            }
            _ => Err(Problem::bad_request(
                "give either result, or result_base64 with its content_type",
            )),
        }
    }
}

/// Reports of success on several jobs. Each is judged by itself.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteMany<'a> {
    #[serde(borrow)]
    #[schema(min_items = 1, max_items = 10000)]
    pub(crate) jobs: Vec<Complete<'a>>,
}

/// A report of failure.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fail<'a> {
    #[serde(borrow)]
    pub(crate) token: Cow<'a, str>,
    /// What went wrong; what is past 16 KiB is cut off.
    pub(crate) error: String,
    /// No other attempt can mend it.
    #[serde(default)]
    permanent: Option<bool>,
    /// Instead of the backoff's wait.
    retry_after_seconds: Option<Seconds>,
}

impl Fail<'_> {
    pub(crate) fn terms(&self) -> FailureTerms {
        FailureTerms {
            permanent: self.permanent.unwrap_or(false),
            retry_after: self.retry_after_seconds.map(|seconds| seconds.0),
        }
    }
}

/// Reports of failure on several jobs. Each is judged by itself.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailMany<'a> {
    #[serde(borrow)]
    #[schema(min_items = 1, max_items = 10000)]
    pub(crate) jobs: Vec<Fail<'a>>,
}

/// How far the worker has come.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Progress<'a> {
    #[serde(borrow)]
    pub(crate) token: Cow<'a, str>,
    /// From 0 to 1, when the worker knows.
    #[schema(minimum = 0.0, maximum = 1.0)]
    progress: Option<f64>,
    #[schema(max_length = 4096)]
    message: Option<String>,
    /// Anything else that the worker wants to show.
    #[serde(borrow, default)]
    #[schema(value_type = Option<serde_json::Value>)]
    data: Option<&'a RawValue>,
}

/// Bytes kept of a progress report's message and of its data.
const PROGRESS_BYTES_MAX: usize = 4 << 10;

impl Progress<'_> {
    pub(crate) fn progress(&self) -> Result<ProgressRule, Problem> {
        progress(
            self.progress,
            self.message.clone(),
            self.data.map(|data| data.get().to_owned()),
        )
    }
}

/// Validates a progress report.
pub(crate) fn progress(
    share: Option<f64>,
    message: Option<String>,
    data: Option<String>,
) -> Result<ProgressRule, Problem> {
    if share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
        return Err(Problem::bad_request("progress must lie between 0 and 1"));
    }
    let sizes = message.as_ref().map_or(0, String::len) + data.as_ref().map_or(0, String::len);
    if sizes > PROGRESS_BYTES_MAX {
        return Err(Problem::bad_request(
            "message and data may have 4096 bytes together",
        ));
    }
    if let Some(Err(why)) = data.as_deref().map(|data| json::check(data.as_bytes())) {
        return Err(Problem::bad_request(format!("data {why}")));
    }
    Ok(ProgressRule {
        per_mille: share.map(|share| (share * 1_000.0).round() as u16),
        message,
        data,
        at_ms: 0,
    })
}

/// Lines for the job's log.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log<'a> {
    #[serde(borrow)]
    pub(crate) token: Cow<'a, str>,
    /// What is past 4 KiB of a line is cut off; the newest 1000 lines are kept.
    #[schema(min_items = 1, max_items = 1000)]
    pub(crate) lines: Vec<String>,
}

/// What became of a report of success.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CompletedJob {
    #[schema(inline)]
    id: Id,
    state: State,
    /// The same report had been taken before.
    repeated: bool,
}

impl CompletedJob {
    pub(crate) fn of(id: nagaya_jobs::JobId, completed: Completed) -> CompletedJob {
        CompletedJob {
            id: Number(id),
            state: State::Succeeded,
            repeated: completed == Completed::Repeated,
        }
    }
}

/// What became of a report of failure.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FailedJob {
    #[schema(inline)]
    id: Id,
    /// Where the job is now; nothing for a repeated report, whose job may have gone anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    /// When the next attempt may begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<Time>,
    /// The same report had been taken before.
    repeated: bool,
}

impl FailedJob {
    pub(crate) fn of(id: nagaya_jobs::JobId, failed: Failed) -> FailedJob {
        let (state, run_at) = match failed {
            Failed::Taken(Next::Waiting) => (Some(State::Waiting), None),
            Failed::Taken(Next::Scheduled { at_ms }) => (Some(State::Scheduled), Some(Time(at_ms))),
            Failed::Taken(Next::Failed) => (Some(State::Failed), None),
            Failed::Repeated => (None, None),
        };
        FailedJob {
            id: Number(id),
            state,
            run_at,
            repeated: failed == Failed::Repeated,
        }
    }
}

/// One report's outcome: either it, or why not.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum ReportOutcome<'a> {
    Completed(CompletedJob),
    Failed(FailedJob),
    Problem { error: ProblemDocument<'a> },
}

/// What became of reports, in their order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReportOutcomes<'a> {
    pub(crate) jobs: Vec<ReportOutcome<'a>>,
}

/// Limits a requested wait.
pub(crate) fn bounded_wait(asked: Option<Seconds>, wait_max: Duration) -> Duration {
    asked.map_or(Duration::ZERO, |seconds| seconds.0.min(wait_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_that_is_not_json_is_shown_in_base64() {
        let view = |body: &Body| {
            let view = BodyView::of(body);
            (view.json.map(|json| json.get().to_owned()), view.base64)
        };
        assert_eq!(view(&Body::json("[1]")), (Some("[1]".into()), None));
        let bytes = Body {
            content_type: Some("image/png".into()),
            bytes: vec![0, 255].into(),
        };
        assert_eq!(view(&bytes), (None, Some("AP8=".into())));
        assert_eq!(
            view(&Body::json("{")),
            (None, Some("ew==".into())),
            "damage is shown, not hidden"
        );
    }

    #[test]
    fn progress_is_a_share() {
        assert_eq!(progress(Some(0.4567), None, None).unwrap().per_mille, Some(457));
        assert!(progress(Some(1.5), None, None).is_err());
        assert!(progress(None, Some("x".repeat(5_000)), None).is_err());
    }
}
