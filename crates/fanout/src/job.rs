//! One endpoint's part of one request: wait for a worker, fetch, and report the outcome.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::task::TaskTracker;

use crate::client::{Fetch, FetchError, Fetched, Held};
use crate::deadline::{Deadline, Receipt};
use crate::endpoint::{Admission, Endpoint};
use crate::load::Load;
use crate::outcome::{Outcome, State};
use crate::request::Outgoing;
use crate::stats::EndpointCounts;
use crate::store::Answer;

/// What every job needs to send its request.
pub(crate) struct JobContext {
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) workers: Arc<Semaphore>,
    /// Calls whose deadline has passed and that are read to their end, so that their connection can be used again.
    pub(crate) late_calls: Arc<Semaphore>,
    pub(crate) late_tasks: TaskTracker,
    pub(crate) keep_error_bodies: bool,
}

/// A finished job: its answer, its counters, and the permits it holds until the answer is stored.
pub(crate) struct Done {
    pub(crate) answer: Answer,
    /// The type of the answer's body.
    pub(crate) kind: Option<HeaderValue>,
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

/// A turn: held from when the endpoint is asked until the answer is stored. Its length is what others wait for.
struct WorkerPermits {
    endpoint: Arc<Endpoint>,
    all: Arc<Load>,
    asked: Instant,
    _slot: OwnedSemaphorePermit,
    _worker: OwnedSemaphorePermit,
}

impl Drop for WorkerPermits {
    fn drop(&mut self) {
        let took = self.asked.elapsed();
        self.endpoint.load.learn(took);
        self.all.learn(took);
    }
}

/// How long a call may go on after its deadline. An answer that is about to come costs less than a new connection;
/// one that does not come is not waited for.
const LATE_MAX: Duration = Duration::from_millis(500);

/// Before the first retry; twice as long before each further one.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// How far a job has come, to report where its time went.
#[derive(Clone, Copy)]
enum Stage {
    Queued,
    /// Its turn came with too little time left.
    TooLate,
    /// Asked with this much time left.
    Asked(Duration),
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
    let result = match take_turn(&admission, deadline, &context).await {
        None => None,
        Some(permits) => {
            let left = deadline.fetch_left(permits.asked);
            worker_permits = Some(permits);
            if left < endpoint.worth_asking() {
                stage = Stage::TooLate;
                None
            } else {
                stage = Stage::Asked(left);
                ask(&endpoint, &outgoing, deadline, &context).await
            }
        }
    };
    let now = Instant::now();
    let took = deadline.elapsed(now);
    let (outcome, fetched) = match (result, stage) {
        (None, Stage::Queued) => (timed_out(took, "its turn did not come in time"), None),
        (None, Stage::TooLate) => (
            timed_out(took, "its turn came too late for an answer in time"),
            None,
        ),
        (None, Stage::Asked(_)) => (timed_out(took, "no whole answer came in time"), None),
        (Some(Err(error)), _) => (failed(error, Outcome::new(State::Refused, took)), None),
        (Some(Ok(fetched)), _) => (answered(&fetched, Outcome::new(State::Ok, took)), Some(fetched)),
    };
    match stage {
        // A job that got no worker in time says nothing about the endpoint.
        Stage::Queued | Stage::TooLate => admission.book(State::Shed, Duration::ZERO, now),
        Stage::Asked(had) => {
            endpoint.counts.latency.record(took);
            admission.book(outcome.state, had, now);
        }
    }
    let (body, kind, held) = match fetched {
        Some(fetched) if outcome.state == State::Ok || context.keep_error_bodies => {
            (Some(fetched.body), fetched.kind, fetched.held)
        }
        _ => (None, None, None),
    };
    let permits = JobPermits {
        _admission: Some(admission),
        _worker_permits: worker_permits,
        _held: held,
    };
    let mut done = finished(&endpoint, outcome, body, deadline, receipt, permits);
    done.kind = kind;
    done
}

/// Waits for one of the endpoint's slots and for a worker; `None` if they do not come by the deadline.
async fn take_turn(admission: &Admission, deadline: Deadline, context: &JobContext) -> Option<WorkerPermits> {
    let endpoint = &admission.endpoint;
    if deadline.fetch_left(Instant::now()).is_zero() {
        return None;
    }
    let permits = async {
        let slot = acquire(&endpoint.slots).await;
        let worker = acquire(&context.workers).await;
        WorkerPermits {
            endpoint: Arc::clone(endpoint),
            all: admission.all(),
            asked: Instant::now(),
            _slot: slot,
            _worker: worker,
        }
    };
    timeout_at(deadline.fetch_by(), permits).await.ok()
}

/// Asks the endpoint; `None` if it has not answered by the deadline. The call then goes on for a while without the
/// job, if there are not too many like it: a connection with half of an answer in it can only be closed, and when many
/// answers are late, new connections for all of them would make further ones late.
async fn ask(
    endpoint: &Arc<Endpoint>,
    outgoing: &Arc<Outgoing>,
    deadline: Deadline,
    context: &Arc<JobContext>,
) -> Option<Result<Fetched, FetchError>> {
    let call = {
        let (endpoint, outgoing, fetch) = (
            Arc::clone(endpoint),
            Arc::clone(outgoing),
            Arc::clone(&context.fetch),
        );
        async move { fetch_hedged(&*fetch, &endpoint, &outgoing, deadline).await }
    };
    let mut call = Box::pin(call);
    match timeout_at(deadline.fetch_by(), &mut call).await {
        Ok(result) => Some(result),
        Err(_) => {
            if let Ok(permit) = Arc::clone(&context.late_calls).try_acquire_owned() {
                context.late_tasks.spawn(async move {
                    let _permit = permit;
                    // Nobody is interested in what it brings.
                    drop(timeout(LATE_MAX, call).await);
                });
            }
            None
        }
    }
}

/// Fetches, and asks a second time when that takes longer than most calls do, if the endpoint is set to it and the
/// call can be repeated. The first good answer counts.
async fn fetch_hedged(
    fetch: &dyn Fetch,
    endpoint: &Endpoint,
    outgoing: &Outgoing,
    deadline: Deadline,
) -> Result<Fetched, FetchError> {
    let mut first = pin!(fetch_trying(fetch, endpoint, outgoing, deadline));
    let Some(hedges) = &endpoint.hedges else {
        return first.await;
    };
    hedges.earn();
    let slow_after = endpoint.slow_after();
    let slow_after = slow_after.filter(|_| endpoint.place.is_repeatable(outgoing));
    let Some(slow_after) = slow_after else {
        return first.await;
    };
    tokio::select! {
        result = &mut first => return result,
        () = sleep(slow_after) => (),
    }
    if !hedges.take() {
        return first.await;
    }
    let mut second = pin!(fetch.fetch(&endpoint.place, outgoing, deadline.fetch_by()));
    let is_good =
        |result: &Result<Fetched, FetchError>| result.as_ref().is_ok_and(|fetched| fetched.status < 500);
    tokio::select! {
        result = &mut first => if is_good(&result) { result } else { second.await },
        result = &mut second => if is_good(&result) { result } else { first.await },
    }
}

/// Fetches, and tries again what failed if the endpoint is set to it, there is a retry left and the call can be
/// repeated without doing anything twice.
async fn fetch_trying(
    fetch: &dyn Fetch,
    endpoint: &Endpoint,
    outgoing: &Outgoing,
    deadline: Deadline,
) -> Result<Fetched, FetchError> {
    let first = fetch.fetch(&endpoint.place, outgoing, deadline.fetch_by()).await;
    let Some(retries) = &endpoint.retries else {
        return first;
    };
    retries.budget.earn();
    let mut result = first;
    let mut pause = RETRY_PAUSE;
    for _ in 0..retries.max {
        let can_change = match &result {
            Ok(fetched) => matches!(fetched.status, 502..=504),
            Err(error) => matches!(error, FetchError::Refused(_)),
        };
        let has_time = deadline.fetch_left(Instant::now()) > pause + endpoint.worth_asking();
        if !can_change || !has_time || !endpoint.place.is_repeatable(outgoing) || !retries.budget.take() {
            break;
        }
        sleep(pause).await;
        pause *= 2;
        result = fetch.fetch(&endpoint.place, outgoing, deadline.fetch_by()).await;
    }
    result
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
        kind: None,
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
        FetchError::LongQuery => {
            outcome.state = State::Shed;
            outcome.with_detail("the request's query is too long to be added to the endpoint's URL")
        }
        FetchError::NoMemory => {
            outcome.state = State::Shed;
            outcome.with_detail("the memory for answers is used up")
        }
        FetchError::NoFiles => {
            outcome.state = State::Shed;
            outcome.with_detail("the process has no file descriptor left for a connection")
        }
        FetchError::Redirects(status) => {
            outcome.state = State::HttpError;
            outcome.status = Some(status);
            outcome.with_detail("its redirects do not end or lead nowhere")
        }
    }
}
