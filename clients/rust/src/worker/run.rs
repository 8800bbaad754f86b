//! Claims, runs and reports.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::attempt::{Attempt, Stopped};
use super::handler::{Handler, Outcome};
use super::lease::{Lease, keep};
use crate::client::{Claim, Client};
use crate::error::{Error, Failure};
use crate::job::Claimed;
use crate::leases::LostLease;
use crate::retry::RetryPolicy;

/// Most jobs per claim.
const CLAIM_MAX: usize = 1000;
/// Most tokens per claim of what is under way.
const HOLDING_MAX: usize = 1024;
/// How long a pending claim may still be answered after shutdown began. Jobs in a response that is not read
/// stay leased until the lease expires, and lose an attempt.
const LAST_CLAIM: Duration = Duration::from_millis(500);

/// Claims jobs of one queue and runs a handler for each.
#[derive(Clone)]
pub struct Worker {
    client: Client,
    queue: String,
    name: String,
    concurrency: usize,
    poll: Duration,
    grace: Duration,
    drain_limit: Option<Duration>,
}

/// The attempts of a worker by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub succeeded: u64,
    /// Failed attempts, whether they will be retried or not.
    pub failed: u64,
    /// Attempts that lost their lease before they ended, or could not be reported.
    pub lost: u64,
    /// Attempts that did not end in time at a shutdown; their jobs were given back, which costs them nothing.
    pub given_back: u64,
}

impl Worker {
    pub fn new(client: Client, queue: impl Into<String>) -> Worker {
        Worker {
            client,
            queue: queue.into(),
            name: format!("pid-{}", std::process::id()),
            concurrency: 1,
            poll: Duration::from_secs(20),
            grace: Duration::from_secs(5),
            drain_limit: None,
        }
    }

    /// The worker's name, for display.
    pub fn name(mut self, name: impl Into<String>) -> Worker {
        self.name = name.into();
        self
    }

    /// Concurrent attempts; 1 by default.
    pub fn concurrency(mut self, attempts: usize) -> Worker {
        self.concurrency = attempts.max(1);
        self
    }

    /// How long a claim waits at the server for jobs; 20 seconds by default.
    pub fn poll(mut self, wait: Duration) -> Worker {
        self.poll = wait;
        self
    }

    /// How long a handler may take to end after it was told to stop, before it is dropped; 5 seconds by
    /// default.
    pub fn grace(mut self, grace: Duration) -> Worker {
        self.grace = grace;
        self
    }

    /// How long attempts may continue after shutdown began; unlimited by default.
    pub fn drain_limit(mut self, limit: Duration) -> Worker {
        self.drain_limit = Some(limit);
        self
    }

    /// Runs until shutdown is requested and all running attempts have ended.
    ///
    /// An unreachable server is retried forever. One that refuses (a wrong token, an invalid queue) ends the
    /// worker with its error, after a drain. Dropping the future stops the handlers as an expired drain does,
    /// but without waiting for them.
    pub async fn run(self, handler: impl Handler, shutdown: CancellationToken) -> Result<Tally, Error> {
        let running = Running {
            places: Arc::new(Semaphore::new(self.concurrency)),
            handler: Arc::new(handler),
            tally: Arc::default(),
            held: Arc::default(),
            attempts: TaskTracker::new(),
            out_of_patience: CancellationToken::new(),
            worker: Arc::new(self),
        };
        // Stops running attempts if this future is dropped before its end.
        let _stop_all = running.out_of_patience.clone().drop_guard();
        let claimed = running.claim_until(&shutdown).await;
        running.attempts.close();
        match running.worker.drain_limit {
            None => running.attempts.wait().await,
            Some(limit) => {
                if tokio::time::timeout(limit, running.attempts.wait())
                    .await
                    .is_err()
                {
                    running.out_of_patience.cancel();
                    running.attempts.wait().await;
                }
            }
        }
        claimed.map(|()| running.tally.read())
    }
}

struct Running<H> {
    worker: Arc<Worker>,
    handler: Arc<H>,
    places: Arc<Semaphore>,
    attempts: TaskTracker,
    out_of_patience: CancellationToken,
    tally: Arc<Counts>,
    /// The attempts under way.
    held: Arc<Held>,
}

impl<H: Handler> Running<H> {
    async fn claim_until(&self, shutdown: &CancellationToken) -> Result<(), Error> {
        let (mut failures, patience) = (0, RetryPolicy::default());
        let mut tells_losses = true;
        loop {
            let places = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                places = self.free_places() => places,
            };
            let claim = Claim {
                worker: self.worker.name.clone(),
                max: places.len(),
                wait: self.worker.poll,
                holding: if tells_losses {
                    self.held.tokens()
                } else {
                    Vec::new()
                },
            };
            let claimed = tokio::select! {
                claimed = self.worker.client.claim_holding(&self.worker.queue, &claim) => claimed,
                () = after(shutdown, LAST_CLAIM) => return Ok(()),
            };
            match claimed {
                Ok(answer) => {
                    failures = 0;
                    let from = Instant::now();
                    answer.lost.iter().for_each(|lost| self.held.lose(lost));
                    for (claimed, place) in answer.jobs.into_iter().zip(places) {
                        self.start(claimed, from, place);
                    }
                }
                // An older server does not know the field; there losses are seen at the next extension.
                Err(Error::Refused(problem)) if problem.status == 400 && !claim.holding.is_empty() => {
                    tells_losses = false;
                }
                Err(error) if error.is_temporary() => {
                    failures += 1;
                    tracing::warn!(queue = self.worker.queue, %error, failures, "claim failed, trying again");
                    let wish = error.problem().and_then(|problem| problem.retry_after);
                    tokio::select! {
                        biased;
                        () = shutdown.cancelled() => return Ok(()),
                        () = tokio::time::sleep(patience.pause(failures, wish)) => (),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for a free slot and takes all that are free then.
    async fn free_places(&self) -> Vec<OwnedSemaphorePermit> {
        let take = || Arc::clone(&self.places);
        let first = take().acquire_owned().await.expect("the places are never closed");
        let more = std::iter::from_fn(|| take().try_acquire_owned().ok());
        std::iter::once(first).chain(more).take(CLAIM_MAX).collect()
    }

    fn start(&self, claimed: Claimed, from: Instant, place: OwnedSemaphorePermit) {
        let worker = Arc::clone(&self.worker);
        let handler = Arc::clone(&self.handler);
        let tally = Arc::clone(&self.tally);
        let stop = Stop {
            out_of_patience: self.out_of_patience.clone(),
            lost: self.held.add(&claimed.token),
        };
        let held = Arc::clone(&self.held);
        let token = claimed.token.clone();
        self.attempts.spawn(async move {
            let ended = worker.attend(handler, claimed, from, stop).await;
            held.remove(&token);
            tally.count(ended);
            drop(place);
        });
    }
}

/// What stops an attempt from outside.
struct Stop {
    out_of_patience: CancellationToken,
    /// Why the server took the lease back.
    lost: oneshot::Receiver<String>,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Succeeded,
    Failed,
    Lost,
    GivenBack,
}

impl Worker {
    /// Runs one attempt from its claim to its report.
    async fn attend<H: Handler>(
        &self,
        handler: Arc<H>,
        claimed: Claimed,
        from: Instant,
        stop: Stop,
    ) -> Ended {
        let attempt = Attempt::new(self.client.clone(), self.queue.clone(), claimed);
        let (lease, _) = watch::channel(Lease::new(attempt.claimed().lease(), from));
        let given = attempt.clone();
        // A task of its own, so that a panic ends this attempt and nothing else.
        let mut work = AbortOnDropHandle::new(tokio::spawn(async move { handler.run(given).await }));
        let keeper = async {
            tokio::select! {
                why = keep(&self.client, attempt.claimed(), &lease) => why,
                why = told(stop.lost) => why,
            }
        };
        tokio::pin!(keeper);
        let outcome = tokio::select! {
            ended = &mut work => ended.unwrap_or_else(|error| Err(broken(&error))),
            why = &mut keeper => {
                tracing::warn!(job = attempt.id(), why, "lease lost, stopping the attempt");
                attempt.stop(Stopped::LeaseLost(why));
                tokio::time::timeout(self.grace, work).await.ok();
                return Ended::Lost;
            }
            () = stop.out_of_patience.cancelled() => {
                attempt.stop(Stopped::Draining);
                match tokio::time::timeout(self.grace, work).await {
                    Ok(ended) => ended.unwrap_or_else(|error| Err(broken(&error))),
                    Err(_) => return self.give_back(&attempt).await,
                }
            }
        };
        tokio::select! {
            ended = self.report(&attempt, &outcome, &lease) => ended,
            why = &mut keeper => {
                tracing::warn!(job = attempt.id(), why, "lease lost before the outcome was reported");
                Ended::Lost
            }
        }
    }

    /// Gives the job of an attempt back that could not end in time.
    async fn give_back(&self, attempt: &Attempt) -> Ended {
        let (id, token) = (attempt.id(), attempt.token());
        match self.client.release(id, token, Duration::ZERO).await {
            Ok(()) => return Ended::GivenBack,
            // An older server has no such call: there it costs an attempt.
            Err(Error::Refused(problem)) if matches!(problem.status, 404 | 405) => (),
            Err(error) => {
                tracing::warn!(job = id, %error, "job not given back, its lease will expire");
                return Ended::Lost;
            }
        }
        let why = "the worker was shut down before the job was done";
        match self.client.fail(id, token, why, false).await {
            Ok(()) => Ended::Failed,
            Err(_) => Ended::Lost,
        }
    }

    /// Reports until the server has accepted it, or the lease is over.
    async fn report(&self, attempt: &Attempt, outcome: &Outcome, lease: &watch::Sender<Lease>) -> Ended {
        let (id, token) = (attempt.id(), attempt.token());
        let (mut failures, patience) = (0, RetryPolicy::default());
        loop {
            let sent = match outcome {
                Ok(result) => self.client.complete(id, token, result.as_deref()).await,
                Err(failure) => {
                    self.client
                        .fail(id, token, &failure.error, failure.permanent)
                        .await
                }
            };
            let error = match (sent, outcome) {
                (Ok(()), Ok(_)) => return Ended::Succeeded,
                (Ok(()), Err(_)) => return Ended::Failed,
                (Err(error), _) => error,
            };
            failures += 1;
            let until = lease.borrow().until;
            if !error.is_temporary() || Instant::now() >= until {
                // A result that is refused for its content would be refused from every attempt.
                if let (Ok(_), Error::Refused(problem)) = (outcome, &error)
                    && problem.status != 409
                {
                    let text = format!("the server rejected the result: {problem}");
                    return match self.client.fail(id, token, &text, true).await {
                        Ok(()) => Ended::Failed,
                        Err(_) => Ended::Lost,
                    };
                }
                tracing::warn!(job = id, %error, "outcome not reported");
                return Ended::Lost;
            }
            tracing::warn!(job = id, %error, failures, "outcome not reported yet, trying again");
            tokio::time::sleep(patience.pause(failures, None)).await;
        }
    }
}

/// Resolves a given time after shutdown began.
async fn after(shutdown: &CancellationToken, pause: Duration) {
    shutdown.cancelled().await;
    tokio::time::sleep(pause).await;
}

fn broken(error: &tokio::task::JoinError) -> Failure {
    if error.is_panic() {
        Failure::retry("the handler panicked")
    } else {
        Failure::retry("the handler was cancelled")
    }
}

/// Resolves when the server tells that it took the lease back.
async fn told(lost: oneshot::Receiver<String>) -> String {
    match lost.await {
        Ok(reason) => reason,
        // Nobody can tell any more.
        Err(_) => std::future::pending().await,
    }
}

/// The attempts under way, by token.
#[derive(Default)]
struct Held(Mutex<HashMap<String, oneshot::Sender<String>>>);

impl Held {
    fn attempts(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tokens, as many as a claim may name.
    fn tokens(&self) -> Vec<String> {
        self.attempts().keys().take(HOLDING_MAX).cloned().collect()
    }

    /// Returns where the attempt is told that it lost its lease.
    fn add(&self, token: &str) -> oneshot::Receiver<String> {
        let (tell, told) = oneshot::channel();
        self.attempts().insert(token.to_owned(), tell);
        told
    }

    fn remove(&self, token: &str) {
        self.attempts().remove(token);
    }

    fn lose(&self, lost: &LostLease) {
        if let Some(tell) = self.attempts().remove(&lost.token) {
            // An attempt that has ended meanwhile need not be told.
            tell.send(lost.reason.clone()).ok();
        }
    }
}

#[derive(Default)]
struct Counts {
    succeeded: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
    given_back: AtomicU64,
}

impl Counts {
    fn count(&self, ended: Ended) {
        let counter = match ended {
            Ended::Succeeded => &self.succeeded,
            Ended::Failed => &self.failed,
            Ended::Lost => &self.lost,
            Ended::GivenBack => &self.given_back,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> Tally {
        Tally {
            succeeded: self.succeeded.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            given_back: self.given_back.load(Ordering::Relaxed),
        }
    }
}
