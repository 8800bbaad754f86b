//! Jobs as parts of traces.
//!
//! A job carries the trace of the request that registered it, or the one that it names itself, through the
//! store to its worker and its webhook. Where spans are exported, each attempt is a span from its claim to
//! its report, and the context given to the worker is its child. Elsewhere the caller's context is passed on
//! unchanged.

use std::collections::HashMap;
use std::time::Duration;

use axum::http::HeaderMap;
use nagaya_jobs::NewJob;
use nagaya_jobs::job::TraceContext;
use nagaya_jobs::limits::KEY_BYTES_MAX;
use nagaya_jobs::service::Claimed;
use nagaya_jobs::token::Lease;
use nagaya_telemetry::trace::{self, TRACEPARENT, TRACESTATE};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{Span, field, info_span};

/// Attempt spans kept open here; spans beyond that are closed at once.
const OPEN_MAX: usize = 10_000;
/// How long after the end of its lease an unreported attempt is given up.
const GRACE: Duration = Duration::from_secs(5);
/// How often expired attempts are checked.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Headers per webhook at most.
const WEBHOOK_HEADERS_MAX: usize = 32;

/// Returns the trace of a request, for jobs that name none.
pub(crate) fn of_request(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let own = trace::traceparent(&Span::current());
    let given =
        || text(TRACEPARENT).filter(|text| trace::is_traceparent(text) && text.len() <= KEY_BYTES_MAX);
    Some(TraceContext {
        parent: own.or_else(|| given().map(str::to_owned))?,
        state: text(TRACESTATE)
            .filter(|text| text.len() <= KEY_BYTES_MAX)
            .map(str::to_owned),
    })
}

/// Assigns a job to its own trace, or to its request's.
pub(crate) fn adopt(job: &mut NewJob, request: Option<&TraceContext>) {
    match &mut job.trace {
        None => job.trace = request.cloned(),
        Some(own) if trace::is_on() && trace::is_traceparent(&own.parent) => {
            let span = info_span!(parent: None, "job_enqueue", queue = %job.queue);
            trace::hang(&span, Some(&own.parent), own.state.as_deref());
            own.parent = trace::traceparent(&span).unwrap_or_else(|| own.parent.clone());
        }
        Some(_) => (),
    }
    // Webhook receivers find the trace in the usual header.
    if let (Some(trace), Some(webhook)) = (&job.trace, &mut job.webhook) {
        let headers = &mut webhook.headers;
        let is_taken = headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(TRACEPARENT));
        if !is_taken && headers.len() < WEBHOOK_HEADERS_MAX && trace::is_traceparent(&trace.parent) {
            headers.push((TRACEPARENT.to_owned(), trace.parent.clone()));
        }
    }
}

/// The spans of running attempts that were claimed here.
#[derive(Default)]
pub(crate) struct Attempts(Mutex<Open>);

#[derive(Default)]
struct Open {
    spans: HashMap<Lease, Running>,
    swept_at: Option<Instant>,
}

struct Running {
    span: Span,
    lease: Duration,
    until: Instant,
}

impl Attempts {
    /// Opens the span of an attempt and makes it the parent of the worker's spans.
    pub(crate) fn begin(&self, claimed: &mut Claimed, worker: &str) {
        let job = &mut claimed.job;
        let Some(context) = job.trace.as_mut().filter(|_| trace::is_on()) else {
            return;
        };
        // Not a child of the claim's span, which would otherwise last as long.
        let span = info_span!(
            parent: None, "job_attempt", job = %job.lease.id, attempt = job.lease.attempt, queue = %job.queue, worker,
            outcome = field::Empty
        );
        trace::hang(&span, Some(&context.parent), context.state.as_deref());
        if let Some(parent) = trace::traceparent(&span) {
            context.parent = parent;
        }
        let now = Instant::now();
        let mut open = self.0.lock();
        open.give_up_lost(now);
        if open.spans.len() < OPEN_MAX {
            let (lease, until) = (job.lease_length, now + job.lease_length);
            open.spans.insert(job.lease, Running { span, lease, until });
        }
    }

    /// Prolongs an attempt.
    pub(crate) fn extend(&self, lease: &Lease, length: Option<Duration>) {
        if let Some(running) = self.0.lock().spans.get_mut(lease) {
            running.until = Instant::now() + length.unwrap_or(running.lease);
        }
    }

    /// Returns the span of a report, as a child of its attempt.
    pub(crate) fn report(&self, lease: &Lease) -> Span {
        match self.0.lock().spans.get(lease) {
            Some(running) => info_span!(parent: &running.span, "job_report"),
            None => Span::none(),
        }
    }

    /// Closes the span of an attempt after its report.
    pub(crate) fn end(&self, lease: &Lease, outcome: &'static str) {
        let ended = self.0.lock().spans.remove(lease);
        if let Some(running) = ended {
            running.span.record("outcome", outcome);
        }
    }
}

impl Open {
    fn give_up_lost(&mut self, now: Instant) {
        if self.swept_at.is_some_and(|at| now < at + SWEEP_INTERVAL) {
            return;
        }
        self.swept_at = Some(now);
        self.spans.retain(|_, running| {
            let is_ours = now < running.until + GRACE;
            if !is_ours {
                running.span.record("outcome", "lost");
            }
            is_ours
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagaya_jobs::delivery::Webhook;
    use nagaya_jobs::job::Body;
    use nagaya_jobs::{QueueName, TenantId};

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203332-01";

    fn job(trace: Option<&str>) -> NewJob {
        let queue = QueueName::new("mail").unwrap();
        let mut job = NewJob::new(TenantId::default_tenant(), queue, Body::json("null"));
        job.webhook = Some(Webhook::to("http://h"));
        job.trace = trace.map(|parent| TraceContext {
            parent: parent.to_owned(),
            state: None,
        });
        job
    }

    #[test]
    fn a_job_is_part_of_its_own_trace_or_of_its_requests() {
        let mut headers = HeaderMap::new();
        assert_eq!(of_request(&headers), None);
        headers.insert(TRACEPARENT, PARENT.parse().unwrap());
        headers.insert(TRACESTATE, "a=1".parse().unwrap());
        let request = of_request(&headers);
        let mut plain = job(None);
        adopt(&mut plain, request.as_ref());
        assert_eq!(plain.trace, request);
        assert_eq!(plain.trace.unwrap().state.as_deref(), Some("a=1"));
        let mut own = job(Some(OTHER));
        adopt(&mut own, request.as_ref());
        assert_eq!(own.trace.unwrap().parent, OTHER);
    }

    #[test]
    fn a_webhook_carries_the_trace_unless_it_names_another() {
        let mut told = job(Some(PARENT));
        adopt(&mut told, None);
        let headers = told.webhook.unwrap().headers;
        assert_eq!(headers, [(TRACEPARENT.to_owned(), PARENT.to_owned())]);
        let mut own = job(Some(PARENT));
        let mine = vec![("Traceparent".to_owned(), OTHER.to_owned())];
        own.webhook.as_mut().unwrap().headers = mine.clone();
        adopt(&mut own, None);
        assert_eq!(own.webhook.unwrap().headers, mine);
    }

    #[test]
    fn words_that_are_no_traceparent_are_kept_with_the_job_and_go_no_further() {
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, "p".parse().unwrap());
        assert_eq!(of_request(&headers), None);
        let mut odd = job(Some("p"));
        adopt(&mut odd, None);
        assert_eq!(odd.trace.unwrap().parent, "p");
        assert_eq!(odd.webhook.unwrap().headers, []);
    }
}
