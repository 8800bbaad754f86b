//! Claims, runs and reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::attempt::{Attempt, Stopped};
use super::handler::{Handler, Outcome};
use super::lease::{Lease, keep};
use crate::client::{Claim, Client};
use crate::error::{Error, Failure};
use crate::job::Claimed;
use crate::retry::RetryPolicy;

/// Most jobs per claim.
const CLAIM_MAX: usize = 1000;
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
}

impl<H: Handler> Running<H> {
    async fn claim_until(&self, shutdown: &CancellationToken) -> Result<(), Error> {
        let (mut failures, patience) = (0, RetryPolicy::default());
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
            };
            let claimed = tokio::select! {
                claimed = self.worker.client.claim(&self.worker.queue, &claim) => claimed,
                () = after(shutdown, LAST_CLAIM) => return Ok(()),
            };
            match claimed {
                Ok(jobs) => {
                    failures = 0;
                    let from = Instant::now();
                    for (claimed, place) in jobs.into_iter().zip(places) {
                        self.start(claimed, from, place);
                    }
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
        let out_of_patience = self.out_of_patience.clone();
        self.attempts.spawn(async move {
            let ended = worker.attend(handler, claimed, from, out_of_patience).await;
            tally.count(ended);
            drop(place);
        });
    }
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Succeeded,
    Failed,
    Lost,
}

impl Worker {
    /// Runs one attempt from its claim to its report.
    async fn attend<H: Handler>(
        &self,
        handler: Arc<H>,
        claimed: Claimed,
        from: Instant,
        out_of_patience: CancellationToken,
    ) -> Ended {
        let attempt = Attempt::new(self.client.clone(), self.queue.clone(), claimed);
        let (lease, _) = watch::channel(Lease::new(attempt.claimed().lease(), from));
        let given = attempt.clone();
        // A task of its own, so that a panic ends this attempt and nothing else.
        let mut work = AbortOnDropHandle::new(tokio::spawn(async move { handler.run(given).await }));
        let keeper = keep(&self.client, attempt.claimed(), &lease);
        tokio::pin!(keeper);
        let outcome = tokio::select! {
            ended = &mut work => ended.unwrap_or_else(|error| Err(broken(&error))),
            why = &mut keeper => {
                tracing::warn!(job = attempt.id(), why, "lease lost, stopping the attempt");
                attempt.stop(Stopped::LeaseLost(why));
                tokio::time::timeout(self.grace, work).await.ok();
                return Ended::Lost;
            }
            () = out_of_patience.cancelled() => {
                attempt.stop(Stopped::Draining);
                match tokio::time::timeout(self.grace, work).await {
                    Ok(ended) => ended.unwrap_or_else(|error| Err(broken(&error))),
                    Err(_) => Err(Failure::retry("the worker was shut down before the job was done")),
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

#[derive(Default)]
struct Counts {
    succeeded: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
}

impl Counts {
    fn count(&self, ended: Ended) {
        let counter = match ended {
            Ended::Succeeded => &self.succeeded,
            Ended::Failed => &self.failed,
            Ended::Lost => &self.lost,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> Tally {
        Tally {
            succeeded: self.succeeded.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }
}
