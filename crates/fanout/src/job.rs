//! One endpoint's part of one request: wait for a worker, fetch, and report the outcome.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::client::{Fetch, FetchError, Fetched, Held};
use crate::deadline::{Deadline, Receipt};
use crate::endpoint::{Admission, Endpoint};
use crate::outcome::{Outcome, State};
use crate::request::Outgoing;
use crate::stats::EndpointCounts;
use crate::store::Answer;

/// What every job needs to send its request.
pub(crate) struct JobContext {
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) workers: Arc<Semaphore>,
    pub(crate) keep_error_bodies: bool,
}

/// A finished job: its answer, its counters, and the permits it holds until the answer is stored.
pub(crate) struct Done {
    pub(crate) answer: Answer,
    pub(crate) counts: Arc<EndpointCounts>,
    pub(crate) permits: JobPermits,
}

/// The permits of a job; dropped, and so released, once its answer is stored.
#[derive(Default)]
pub(crate) struct JobPermits {
    _admission: Option<Admission>,
    _worker_permits: Option<WorkerPermits>,
    _held: Option<Held>,
}

struct WorkerPermits {
    _slot: OwnedSemaphorePermit,
    _worker: OwnedSemaphorePermit,
}

/// How far a job has come, to report where its time went.
#[derive(Clone, Copy)]
enum Stage {
    Queued,
    Asked,
}

/// Runs the job. Ends by the fetch deadline.
pub(crate) async fn run(
    mut admission: Admission,
    outgoing: Arc<Outgoing>,
    deadline: Deadline,
    receipt: Receipt,
    context: Arc<JobContext>,
) -> Done {
    let endpoint = Arc::clone(&admission.endpoint);
    let mut stage = Stage::Queued;
    let mut worker_permits = None;
    let result = {
        let work = async {
            worker_permits = Some(WorkerPermits {
                _slot: acquire(&endpoint.slots).await,
                _worker: acquire(&context.workers).await,
            });
            stage = Stage::Asked;
            context
                .fetch
                .fetch(&endpoint.place, &outgoing, deadline.fetch_by())
                .await
        };
        if deadline.fetch_left(Instant::now()).is_zero() {
            None
        } else {
            timeout_at(deadline.fetch_by(), work).await.ok()
        }
    };
    let now = Instant::now();
    let took = deadline.elapsed(now);
    let (outcome, fetched) = match (result, stage) {
        (None, Stage::Queued) => (timed_out(took, "its turn did not come in time"), None),
        (None, Stage::Asked) => (timed_out(took, "no whole answer came in time"), None),
        (Some(Err(error)), _) => (failed(error, Outcome::new(State::Refused, took)), None),
        (Some(Ok(fetched)), _) => (answered(&fetched, Outcome::new(State::Ok, took)), Some(fetched)),
    };
    match stage {
        // A job that got no worker in time says nothing about the endpoint.
        Stage::Queued => admission.book(State::Shed, now),
        Stage::Asked => {
            endpoint.counts.latency.record(took);
            admission.book(outcome.state, now);
        }
    }
    let (body, held) = match fetched {
        Some(fetched) if outcome.state == State::Ok || context.keep_error_bodies => {
            (Some(fetched.body), fetched.held)
        }
        _ => (None, None),
    };
    let permits = JobPermits {
        _admission: Some(admission),
        _worker_permits: worker_permits,
        _held: held,
    };
    finished(&endpoint, outcome, body, deadline, receipt, permits)
}

/// Returns the result of a job that is cut short because the process ends.
pub(crate) fn abandoned(endpoint: &Endpoint, deadline: Deadline, receipt: Receipt) -> Done {
    let outcome = timed_out(deadline.elapsed(Instant::now()), "the service was stopped");
    finished(endpoint, outcome, None, deadline, receipt, JobPermits::default())
}

fn finished(
    endpoint: &Endpoint,
    outcome: Outcome,
    body: Option<Bytes>,
    deadline: Deadline,
    receipt: Receipt,
    permits: JobPermits,
) -> Done {
    Done {
        answer: Answer {
            name: Arc::clone(&endpoint.name),
            outcome,
            body,
            by: deadline.at(),
            by_store_ms: deadline.on_stores_clock(&receipt),
        },
        counts: Arc::clone(&endpoint.counts),
        permits,
    }
}

fn timed_out(took: Duration, detail: &'static str) -> Outcome {
    Outcome::new(State::Timeout, took).with_detail(detail)
}

async fn acquire(semaphore: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    let permit = Arc::clone(semaphore).acquire_owned().await;
    permit.expect("the semaphore is never closed")
}

fn answered(fetched: &Fetched, mut outcome: Outcome) -> Outcome {
    if fetched.status >= 400 {
        outcome.state = State::HttpError;
    }
    outcome.status = Some(fetched.status);
    outcome.bytes = fetched.body.len() as u64;
    outcome
}

fn failed(error: FetchError, mut outcome: Outcome) -> Outcome {
    match error {
        FetchError::Refused(reason) => outcome.with_detail(reason),
        FetchError::TooLarge(reason) => {
            outcome.state = State::TooLarge;
            outcome.with_detail(reason)
        }
        FetchError::NoMemory => {
            outcome.state = State::Shed;
            outcome.with_detail("the memory for answers is used up")
        }
        FetchError::Redirects(status) => {
            outcome.state = State::HttpError;
            outcome.status = Some(status);
            outcome.with_detail("its redirects do not end or lead nowhere")
        }
    }
}
