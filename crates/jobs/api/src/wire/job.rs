//! Jobs as readers see them.

use nagaya_jobs::delivery::{DeliveryState, DeliveryView};
use nagaya_jobs::view::{Explanation as Why, JobSummary, JobView, LogLine};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::new_job::{Backoff, Concurrency, EventKind, State, WebhookView};
use super::scalar::{Id, Number, Position, Seconds, Time};
use super::work::BodyView;

/// A line of a listing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Summary<'a> {
    #[schema(inline)]
    id: Id,
    queue: &'a str,
    tenant: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    state: State,
    priority: i16,
    /// Attempts begun so far.
    attempts: u32,
    max_retries: u32,
    #[schema(inline)]
    created_at: Time,
    /// When its time comes, while scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
    /// The error that it ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl<'a> From<&'a JobSummary> for Summary<'a> {
    fn from(job: &'a JobSummary) -> Summary<'a> {
        Summary {
            id: Number(job.id),
            queue: job.queue.as_str(),
            tenant: job.tenant.as_str(),
            kind: job.kind.as_deref(),
            tags: &job.tags,
            state: job.state.into(),
            priority: job.priority,
            attempts: job.attempt,
            max_retries: job.max_retries,
            created_at: Time(job.created_at_ms),
            run_at: job.run_at_ms.map(Time),
            ended_at: job.ended_at_ms.map(Time),
            error: job.error.as_deref(),
        }
    }
}

/// A page of jobs, newest first. Only a page without `next_cursor` is the last; a page may be short.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobPage<'a> {
    pub(crate) jobs: Vec<Summary<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

/// Everything about a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Job<'a> {
    #[serde(flatten)]
    summary: Summary<'a>,
    /// The payload, unless it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_content_type: Option<&'a str>,
    /// What it ended with, unless that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_content_type: Option<&'a str>,
    #[schema(inline)]
    timeout_seconds: Seconds,
    backoff: Backoff,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<Concurrency>,
    depends_on: Vec<Id>,
    /// Those of them that have not succeeded yet.
    pending_dependencies: Vec<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook: Option<WebhookView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseView<'a>>,
    /// Its attempts, in order; the last one is under way when the job runs.
    history: Vec<Attempt<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressView<'a>>,
    /// How many log lines there are.
    log_lines: u64,
    /// When it will be removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    removed_at: Option<Time>,
    /// Reports with tokens that were not worth anything; the newest are shown.
    late_reports: Vec<LateReport<'a>>,
    late_reports_count: u64,
    /// How far the telling of its result has come; nothing when nobody is to be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_delivery: Option<Delivery>,
    deliveries: Vec<DeliveryLine>,
    /// Why it is not running, or that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Explanation>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeaseView<'a> {
    worker: &'a str,
    #[schema(inline)]
    started_at: Time,
    #[schema(inline)]
    expires_at: Time,
}

/// One attempt.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Attempt<'a> {
    number: u32,
    worker: &'a str,
    #[schema(inline)]
    started_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
    /// succeeded, failed, lease_lost or cancelled; nothing while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProgressView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    data: Option<&'a RawValue>,
    #[schema(inline)]
    at: Time,
}

impl<'a> From<&'a nagaya_jobs::view::Progress> for ProgressView<'a> {
    fn from(progress: &'a nagaya_jobs::view::Progress) -> ProgressView<'a> {
        ProgressView {
            progress: progress.per_mille.map(|share| f64::from(share) / 1_000.0),
            message: progress.message.as_deref(),
            data: progress
                .data
                .as_deref()
                .and_then(|data| serde_json::from_str(data).ok()),
            at: Time(progress.at_ms),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LateReport<'a> {
    #[schema(inline)]
    at: Time,
    attempt: u32,
    /// What was tried: complete, fail, extend, progress or log.
    what: &'a str,
    why: &'a str,
}

/// How far a delivery has come.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Delivery {
    Pending,
    Delivered,
    /// All tries are used up: the result was not delivered.
    GaveUp,
}

impl From<DeliveryState> for Delivery {
    fn from(state: DeliveryState) -> Delivery {
        match state {
            DeliveryState::Pending => Delivery::Pending,
            DeliveryState::Delivered => Delivery::Delivered,
            DeliveryState::GaveUp => Delivery::GaveUp,
        }
    }
}

/// One event on its way to the webhook.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliveryLine {
    #[schema(value_type = String)]
    id: Number<i64>,
    event: EventKind,
    #[schema(inline)]
    seq: Position,
    url: String,
    state: Delivery,
    tries: Vec<DeliveryTry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try_at: Option<Time>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliveryTry {
    number: u32,
    #[schema(inline)]
    at: Time,
    latency_ms: u64,
    /// The reply's status; nothing when there was no reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The first bytes of the reply.
    reply: String,
}

impl From<&DeliveryView> for DeliveryLine {
    fn from(view: &DeliveryView) -> DeliveryLine {
        let delivery = &view.delivery;
        let tries = view.tries.iter().map(|one| DeliveryTry {
            number: one.number,
            at: Time(one.at_ms),
            latency_ms: u64::try_from(one.latency.as_millis()).unwrap_or(u64::MAX),
            status: one.status,
            error: one.error.clone(),
            reply: String::from_utf8_lossy(&one.reply).into_owned(),
        });
        let is_pending = delivery.state == DeliveryState::Pending;
        DeliveryLine {
            id: Number(delivery.id.0),
            event: delivery.kind.into(),
            seq: Number(delivery.seq),
            url: delivery.webhook.url.clone(),
            state: delivery.state.into(),
            tries: tries.collect(),
            next_try_at: is_pending.then_some(Time(delivery.next_try_at_ms)),
        }
    }
}

impl<'a> Job<'a> {
    pub(crate) fn of(job: &'a JobView, why: Option<&Why>) -> Job<'a> {
        let payload = BodyView::of(&job.payload);
        let result = job.result.as_ref().map(BodyView::of).unwrap_or_default();
        let ids = |ids: &[nagaya_jobs::JobId]| ids.iter().copied().map(Number).collect();
        Job {
            summary: Summary::from(&job.summary),
            payload: payload.json,
            payload_base64: payload.base64,
            payload_content_type: payload.content_type,
            result: result.json,
            result_base64: result.base64,
            result_content_type: result.content_type,
            timeout_seconds: Seconds(job.timeout),
            backoff: job.backoff.into(),
            idempotency_key: job.idempotency_key.as_deref(),
            unique_key: job.unique_key.as_deref(),
            concurrency: job.concurrency.as_ref().map(|one| Concurrency {
                key: one.key.clone(),
                limit: one.limit,
            }),
            depends_on: ids(&job.depends_on),
            pending_dependencies: ids(&job.pending_dependencies),
            webhook: job.webhook.as_ref().map(WebhookView::from),
            traceparent: job.trace.as_ref().map(|trace| trace.parent.as_str()),
            lease: job.lease.as_ref().map(|lease| LeaseView {
                worker: &lease.worker,
                started_at: Time(lease.started_at_ms),
                expires_at: Time(lease.until_ms),
            }),
            history: job.attempts.iter().map(Attempt::from).collect(),
            progress: job.progress.as_ref().map(ProgressView::from),
            log_lines: job.log_lines,
            removed_at: job.purge_at_ms.map(Time),
            late_reports: job.late_reports.iter().map(LateReport::from).collect(),
            late_reports_count: job.late_reports_count,
            result_delivery: job.delivery_state().map(Delivery::from),
            deliveries: job.deliveries.iter().map(DeliveryLine::from).collect(),
            explanation: why.map(Explanation::from),
        }
    }
}

impl<'a> From<&'a nagaya_jobs::view::AttemptView> for Attempt<'a> {
    fn from(attempt: &'a nagaya_jobs::view::AttemptView) -> Attempt<'a> {
        Attempt {
            number: attempt.number,
            worker: &attempt.worker,
            started_at: Time(attempt.started_at_ms),
            ended_at: attempt.ended_at_ms.map(Time),
            end: attempt.end.map(|end| end.name()),
            error: attempt.error.as_deref(),
        }
    }
}

impl<'a> From<&'a nagaya_jobs::view::LateReport> for LateReport<'a> {
    fn from(report: &'a nagaya_jobs::view::LateReport) -> LateReport<'a> {
        LateReport {
            at: Time(report.at_ms),
            attempt: report.attempt,
            what: &report.what,
            why: &report.why,
        }
    }
}

/// Why a job is not running, or that it is.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Explanation {
    /// ended, running, scheduled, retry_later, due, dependencies, key_limit, paused, rate_limited, no_worker or
    /// ready.
    reason: &'static str,
    /// The same in a sentence.
    text: String,
    /// When that is going to change, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Time>,
    /// Jobs that go first, counted up to a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<u64>,
    /// Jobs that it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<Id>,
    /// When a worker last took a job of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_claim_at: Option<Time>,
}

impl From<&Why> for Explanation {
    fn from(why: &Why) -> Explanation {
        let say = |reason, text: String| Explanation {
            reason,
            text,
            ..Explanation::default()
        };
        match why {
            Why::Ended(state) => say("ended", format!("it has ended: {state}")),
            Why::Running(lease) => Explanation {
                at: Some(Time(lease.until_ms)),
                ..say("running", format!("worker {} has it", lease.worker))
            },
            Why::Scheduled { at_ms, attempt: 0 } => Explanation {
                at: Some(Time(*at_ms)),
                ..say("scheduled", "its time has not come".into())
            },
            Why::Scheduled { at_ms, attempt } => Explanation {
                at: Some(Time(*at_ms)),
                ..say(
                    "retry_later",
                    format!("attempt {attempt} failed; the next one waits"),
                )
            },
            Why::Due => say("due", "its time has just come".into()),
            Why::Dependencies(jobs) => Explanation {
                jobs: jobs.iter().copied().map(Number).collect(),
                ..say("dependencies", format!("it waits for {} other jobs", jobs.len()))
            },
            Why::KeyLimit {
                key,
                limit,
                taken,
                ahead,
            } => Explanation {
                ahead: Some(*ahead),
                ..say(
                    "key_limit",
                    format!("{taken} of {limit} places under the key {key} are taken, {ahead} jobs go first"),
                )
            },
            Why::Paused => say("paused", "the queue is paused".into()),
            Why::RateLimited { next_at_ms } => Explanation {
                at: Some(Time(*next_at_ms)),
                ..say("rate_limited", "the queue's rate lets no job start now".into())
            },
            Why::Ready {
                ahead,
                last_claim_at_ms: None,
            } => Explanation {
                ahead: Some(*ahead),
                ..say(
                    "no_worker",
                    "no worker has ever asked for jobs of its queue".into(),
                )
            },
            Why::Ready {
                ahead,
                last_claim_at_ms,
            } => Explanation {
                ahead: Some(*ahead),
                last_claim_at: last_claim_at_ms.map(Time),
                ..say("ready", format!("it can be taken; {ahead} jobs go first"))
            },
        }
    }
}

impl Explanation {
    pub(crate) fn text(self) -> String {
        self.text
    }
}

/// A line of a job's log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Line<'a> {
    number: u64,
    #[schema(inline)]
    at: Time,
    attempt: u32,
    text: &'a str,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lines<'a> {
    pub(crate) lines: Vec<Line<'a>>,
}

impl<'a> From<&'a LogLine> for Line<'a> {
    fn from(line: &'a LogLine) -> Line<'a> {
        Line {
            number: line.number,
            at: Time(line.at_ms),
            attempt: line.attempt,
            text: &line.text,
        }
    }
}

/// Why a job is called off.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    #[schema(max_length = 4096)]
    pub(crate) reason: Option<String>,
}

/// What became of a cancellation or a retry.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Changed {
    #[schema(inline)]
    pub(crate) id: Id,
    pub(crate) state: State,
    /// The state that it was in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) was: Option<State>,
}
