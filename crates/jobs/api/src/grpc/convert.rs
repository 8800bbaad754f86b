//! Conversion between messages and domain types.

use std::time::Duration;

use bytes::Bytes;
use nagaya_jobs::backoff::Backoff;
use nagaya_jobs::delivery::Webhook;
use nagaya_jobs::event::{Event, EventData, EventFilter, EventKind};
use nagaya_jobs::job::{Body, Concurrency, Idempotency, TraceContext};
use nagaya_jobs::queue::QueueView;
use nagaya_jobs::request::{Completed, Enqueued, Failed};
use nagaya_jobs::service::Claimed;
use nagaya_jobs::state::Next;
use nagaya_jobs::view::{AttemptView, Explanation, JobSummary, JobView, Progress};
use nagaya_jobs::{JobId, NewJob, State};
use serde::de::IgnoredAny;

use crate::auth::Principal;
use crate::handlers::{Seen, check_text};
use crate::problem::Problem;
use crate::proto;
use crate::wire::job::Explanation as Explained;
use crate::wire::new_job::client_queue;

/// An empty string stands for an absent one.
pub(super) fn said(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

pub(super) fn span(ms: Option<u64>) -> Option<Duration> {
    ms.map(Duration::from_millis)
}

pub(super) fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn job_id(number: i64) -> Result<JobId, Problem> {
    JobId::new(number).ok_or_else(|| Problem::bad_request("id is not a job id"))
}

/// Converts a body. One declared as JSON must parse.
pub(super) fn body(body: Option<proto::Body>, what: &str) -> Result<Option<Body>, Problem> {
    let Some(body) = body else {
        return Ok(None);
    };
    let content_type = said(body.content_type).filter(|name| name != Body::JSON);
    content_type
        .as_deref()
        .map_or(Ok(()), |name| check_text("content_type", name))?;
    if content_type.is_none() && serde_json::from_slice::<IgnoredAny>(&body.data).is_err() {
        let detail = format!("{what} is not JSON; say what it is in content_type");
        return Err(Problem::bad_request(detail));
    }
    Ok(Some(Body {
        content_type: content_type.map(String::into_boxed_str),
        bytes: body.data,
    }))
}

pub(super) fn body_message(body: &Body) -> proto::Body {
    proto::Body {
        data: body.bytes.clone(),
        content_type: body.content_type.as_deref().unwrap_or_default().into(),
    }
}

pub(super) fn backoff(message: Option<proto::Backoff>) -> Option<Backoff> {
    use proto::backoff::Rule;
    Some(match message?.rule? {
        Rule::Exponential(rule) => Backoff::Exponential {
            first: Duration::from_millis(rule.first_ms),
            max: Duration::from_millis(rule.max_ms),
        },
        Rule::Fixed(rule) => Backoff::Fixed {
            delay: Duration::from_millis(rule.delay_ms),
        },
        Rule::None(_) => Backoff::None,
    })
}

pub(super) fn backoff_message(backoff: Backoff) -> proto::Backoff {
    use proto::backoff::{Exponential, Fixed, None, Rule};
    let rule = match backoff {
        Backoff::Exponential { first, max } => Rule::Exponential(Exponential {
            first_ms: ms(first),
            max_ms: ms(max),
        }),
        Backoff::Fixed { delay } => Rule::Fixed(Fixed { delay_ms: ms(delay) }),
        Backoff::None => Rule::None(None {}),
    };
    proto::Backoff { rule: Some(rule) }
}

pub(super) fn webhook(message: proto::Webhook) -> Result<Webhook, Problem> {
    Ok(Webhook {
        url: message.url,
        headers: message.headers.into_iter().collect(),
        events: kinds(&message.events)?,
        cloud_events: message.cloud_events,
    })
}

pub(super) fn new_job(principal: &Principal, message: proto::EnqueueRequest) -> Result<NewJob, Problem> {
    let tenant = principal.acting_for(said(message.tenant).as_deref())?;
    let queue = client_queue(&message.queue)?;
    principal.check_queue(&queue)?;
    let payload = body(message.payload, "payload")?;
    let payload = payload.unwrap_or_else(|| Body::json(Bytes::from_static(b"null")));
    let priority = i16::try_from(message.priority)
        .map_err(|_| Problem::bad_request("priority must lie between -1000 and 1000"))?;
    let mut job = NewJob::new(tenant, queue, payload);
    job.kind = said(message.kind);
    job.tags = message.tags;
    job.priority = priority;
    job.run_at_ms = message.run_at_ms;
    job.timeout = span(message.timeout_ms);
    job.max_retries = message.max_retries;
    job.backoff = backoff(message.backoff);
    job.idempotency = said(message.idempotency_key).map(|key| Idempotency {
        key,
        window: span(message.idempotency_window_ms),
        fingerprint: Some(job.payload.fingerprint()),
    });
    job.unique_key = said(message.unique_key);
    job.depends_on = message
        .depends_on
        .into_iter()
        .map(job_id)
        .collect::<Result<_, _>>()?;
    job.concurrency = message.concurrency.map(|one| Concurrency {
        key: one.key,
        limit: one.limit,
    });
    job.webhook = message.webhook.map(webhook).transpose()?;
    job.retention = span(message.retention_ms);
    job.trace = said(message.traceparent).map(|parent| TraceContext {
        parent,
        state: said(message.tracestate),
    });
    Ok(job)
}

impl From<Enqueued> for proto::EnqueueResponse {
    fn from(enqueued: Enqueued) -> proto::EnqueueResponse {
        proto::EnqueueResponse {
            id: enqueued.id.get(),
            state: state_message(enqueued.state).into(),
            found: enqueued.found_by.is_some(),
        }
    }
}

pub(super) fn claimed(Claimed { job, token }: Claimed) -> proto::ClaimedJob {
    let (traceparent, tracestate) = match job.trace {
        Some(trace) => (trace.parent, trace.state.unwrap_or_default()),
        None => Default::default(),
    };
    proto::ClaimedJob {
        id: job.lease.id.get(),
        token,
        attempt: job.lease.attempt,
        payload: Some(body_message(&job.payload)),
        queue: job.queue.to_string(),
        kind: job.kind.unwrap_or_default(),
        tags: job.tags,
        priority: job.priority.into(),
        max_retries: job.max_retries,
        created_at_ms: job.created_at_ms,
        lease_expires_at_ms: job.lease_until_ms,
        timeout_ms: ms(job.lease_length),
        tenant: job.tenant.to_string(),
        traceparent,
        tracestate,
    }
}

impl From<Completed> for proto::CompleteResponse {
    fn from(completed: Completed) -> proto::CompleteResponse {
        proto::CompleteResponse {
            repeat: completed == Completed::Repeated,
        }
    }
}

impl From<Failed> for proto::FailResponse {
    fn from(failed: Failed) -> proto::FailResponse {
        let (state, run_at_ms) = match failed {
            Failed::Taken(Next::Waiting) => (proto::State::Waiting, None),
            Failed::Taken(Next::Scheduled { at_ms }) => (proto::State::Scheduled, Some(at_ms)),
            Failed::Taken(Next::Failed) => (proto::State::Failed, None),
            Failed::Repeated => (proto::State::Unspecified, None),
        };
        proto::FailResponse {
            state: state.into(),
            run_at_ms,
            repeat: failed == Failed::Repeated,
        }
    }
}

pub(super) fn state_message(state: State) -> proto::State {
    match state {
        State::Scheduled => proto::State::Scheduled,
        State::Waiting => proto::State::Waiting,
        State::Running => proto::State::Running,
        State::Succeeded => proto::State::Succeeded,
        State::Failed => proto::State::Failed,
        State::Cancelled => proto::State::Cancelled,
    }
}

pub(super) fn state(number: i32) -> Result<State, Problem> {
    match proto::State::try_from(number) {
        Ok(proto::State::Scheduled) => Ok(State::Scheduled),
        Ok(proto::State::Waiting) => Ok(State::Waiting),
        Ok(proto::State::Running) => Ok(State::Running),
        Ok(proto::State::Succeeded) => Ok(State::Succeeded),
        Ok(proto::State::Failed) => Ok(State::Failed),
        Ok(proto::State::Cancelled) => Ok(State::Cancelled),
        Ok(proto::State::Unspecified) | Err(_) => Err(Problem::bad_request("there is no such state")),
    }
}

fn kinds(numbers: &[i32]) -> Result<Vec<EventKind>, Problem> {
    // Messages and stores use the same numbers for kinds; a test checks that.
    let kind = |number: &i32| i16::try_from(*number).ok().and_then(EventKind::coded);
    let kinds = numbers
        .iter()
        .map(|number| kind(number).ok_or_else(|| Problem::bad_request("there is no such kind of event")));
    kinds.collect()
}

pub(super) fn summary(job: JobSummary) -> proto::Job {
    proto::Job {
        id: job.id.get(),
        queue: job.queue.to_string(),
        tenant: job.tenant.to_string(),
        kind: job.kind.unwrap_or_default(),
        tags: job.tags,
        state: state_message(job.state).into(),
        priority: job.priority.into(),
        attempts: job.attempt,
        max_retries: job.max_retries,
        created_at_ms: job.created_at_ms,
        run_at_ms: job.run_at_ms,
        ended_at_ms: job.ended_at_ms,
        error: job.error.unwrap_or_default(),
        ..proto::Job::default()
    }
}

pub(super) fn job(job: JobView, why: Option<Explanation>) -> proto::Job {
    proto::Job {
        payload: Some(body_message(&job.payload)),
        result: job.result.as_ref().map(body_message),
        history: job.attempts.into_iter().map(attempt).collect(),
        progress: job.progress.as_ref().map(progress),
        lease_expires_at_ms: job.lease.map(|lease| lease.until_ms),
        late_reports: job.late_reports_count,
        explanation: why.map_or_else(String::new, |why| Explained::from(&why).text()),
        ..summary(job.summary)
    }
}

fn attempt(attempt: AttemptView) -> proto::Attempt {
    proto::Attempt {
        number: attempt.number,
        worker: attempt.worker,
        started_at_ms: attempt.started_at_ms,
        ended_at_ms: attempt.ended_at_ms,
        end: attempt.end.map_or("", |end| end.name()).into(),
        error: attempt.error.unwrap_or_default(),
    }
}

fn progress(progress: &Progress) -> proto::JobProgress {
    proto::JobProgress {
        progress: progress.per_mille.map(|share| f64::from(share) / 1_000.0),
        message: progress.message.clone().unwrap_or_default(),
        data: progress.data.clone().unwrap_or_default(),
        at_ms: progress.at_ms,
    }
}

pub(super) fn event(event: &Event) -> proto::Event {
    let mut message = proto::Event {
        seq: event.seq,
        kind: event.kind.code().into(),
        job: event.job.get(),
        queue: event.queue.to_string(),
        tenant: event.tenant.to_string(),
        job_kind: event.job_kind.clone().unwrap_or_default(),
        attempt: event.attempt,
        at_ms: event.at_ms,
        ..proto::Event::default()
    };
    match &event.data {
        EventData::None => (),
        EventData::Progress(data) => message.progress = Some(progress(data)),
        EventData::Retry { error, run_at_ms } => {
            message.error = error.clone().unwrap_or_default();
            message.run_at_ms = Some(*run_at_ms);
        }
        EventData::Result(body) => message.result = Some(body_message(body)),
        EventData::Error(error) => message.error = error.clone(),
    }
    message
}

/// Converts a filter, restricted to what the caller may see. Whether it sees the job, the reader checks.
pub(super) fn filter(
    principal: &Principal,
    seen: Seen<'_>,
    message: Option<proto::EventFilter>,
) -> Result<EventFilter, Problem> {
    let message = message.unwrap_or_default();
    let (tenant, queue) = (said(message.tenant), said(message.queue));
    let job = message.job.map(job_id).transpose()?;
    let filter = match (job, &queue) {
        (Some(_), None) => EventFilter {
            tenant: principal.seeing(tenant.as_deref())?,
            ..EventFilter::default()
        },
        (_, queue) => seen.event_filter(tenant.as_deref(), queue.as_deref())?,
    };
    Ok(EventFilter {
        job,
        kinds: kinds(&message.kinds)?,
        ..filter
    })
}

pub(super) fn queue(queue: &QueueView) -> proto::Queue {
    proto::Queue {
        name: queue.name.to_string(),
        paused: queue.paused,
        scheduled: queue.depth.scheduled,
        ready: queue.depth.ready,
        blocked: queue.depth.blocked,
        running: queue.depth.running,
        succeeded: queue.depth.succeeded,
        failed: queue.depth.failed,
        cancelled: queue.depth.cancelled,
        oldest_ready_at_ms: queue.oldest_ready_at_ms,
        last_claim_at_ms: queue.last_claim_at_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_number_kinds_and_states_as_the_domain_names_them() {
        for kind in EventKind::ALL {
            let message = proto::EventKind::try_from(i32::from(kind.code())).unwrap();
            let name = message.as_str_name().trim_start_matches("EVENT_KIND_");
            assert_eq!(name.to_ascii_lowercase(), kind.name());
        }
        for one in State::ALL {
            assert_eq!(state(state_message(one).into()).unwrap(), one);
        }
    }

    #[test]
    fn what_claims_to_be_json_must_be() {
        let message = |data: &'static str, content_type: &str| {
            Some(proto::Body {
                data: Bytes::from_static(data.as_bytes()),
                content_type: content_type.into(),
            })
        };
        assert!(
            body(message("{\"a\":1}", ""), "payload")
                .unwrap()
                .unwrap()
                .is_json()
        );
        assert!(body(message("{", ""), "payload").is_err());
        assert!(body(message("", "application/json"), "payload").is_err());
        let text = body(message("{", "text/plain"), "payload").unwrap().unwrap();
        assert_eq!(text.content_type(), "text/plain");
    }
}
