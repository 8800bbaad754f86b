//! Claims that wait for jobs.
//!
//! One task claims for all waiting workers: new requests at once, waiting ones when their queue may have new
//! jobs, in order of arrival. Requests that arrive during a store call form the next one. Notifications can be
//! missed (from another server, or a lost message), so all waiting requests are retried at an interval.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use nagaya_threads::vital;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Config;
use super::stats::{Call, Counts};
use super::wakeups::Wakeups;
use crate::error::Error;
use crate::limits::CLAIM_MAX;
use crate::name::QueueName;
use crate::request::{ClaimRequest, ClaimedJob, Release};
use crate::store::JobQueue;
use crate::token::Lease;

/// A job and the token of its attempt.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub job: ClaimedJob,
    pub token: String,
}

type Reply = oneshot::Sender<Result<Vec<ClaimedJob>, Error>>;

struct Waiting {
    request: ClaimRequest,
    until: Instant,
    reply: Reply,
    /// One of its queues may have jobs.
    may_have_jobs: bool,
}

pub(super) struct Claims {
    requests: mpsc::Sender<Waiting>,
}

impl Claims {
    pub(super) fn start(
        store: Arc<dyn JobQueue>,
        wakeups: &Arc<Wakeups>,
        config: &Config,
        counts: &Arc<Counts>,
        shutdown: &CancellationToken,
        tasks: &TaskTracker,
    ) -> Claims {
        let (requests, received) = mpsc::channel(config.waiting_claims_max.max(1));
        let broker = ClaimBroker {
            store,
            wakeups: Arc::clone(wakeups),
            counts: Arc::clone(counts),
            waiting: VecDeque::new(),
            waiting_max: config.waiting_claims_max,
            batch_max: config.report_batch_max,
            poll: config.poll,
        };
        tasks.spawn(vital("jobs claims", broker.run(received, shutdown.clone())));
        Claims { requests }
    }

    pub(super) async fn claim(
        &self,
        request: ClaimRequest,
        wait: Duration,
    ) -> Result<Vec<ClaimedJob>, Error> {
        if request.max == 0 || request.queues.is_empty() {
            return Ok(Vec::new());
        }
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting {
            request,
            until: now() + wait,
            reply,
            may_have_jobs: true,
        };
        self.requests.try_send(waiting).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => Error::Busy,
            mpsc::error::TrySendError::Closed(_) => stopped(),
        })?;
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }
}

fn stopped() -> Error {
    Error::Stopped {
        why: "the server is going down".into(),
    }
}

/// The runtime's clock, which tests can pause.
fn now() -> Instant {
    Instant::now()
}

struct ClaimBroker {
    store: Arc<dyn JobQueue>,
    wakeups: Arc<Wakeups>,
    counts: Arc<Counts>,
    /// In order of arrival.
    waiting: VecDeque<Waiting>,
    waiting_max: usize,
    batch_max: usize,
    poll: Duration,
}

impl ClaimBroker {
    async fn run(mut self, mut requests: mpsc::Receiver<Waiting>, shutdown: CancellationToken) {
        let mut look_at = now() + self.poll;
        loop {
            while let Ok(request) = requests.try_recv() {
                self.accept(request);
            }
            self.note_ready();
            let draining = self.wakeups.draining.is_cancelled();
            if draining {
                let at = now();
                self.waiting
                    .iter_mut()
                    .for_each(|one| one.until = one.until.min(at));
            }
            if now() >= look_at {
                look_at = now() + self.poll;
                self.waiting.iter_mut().for_each(|one| one.may_have_jobs = true);
            }
            self.ask().await;
            self.answer_expired();
            if self.waiting.iter().any(|one| one.may_have_jobs) {
                continue;
            }
            let next = self.waiting.iter().map(|one| one.until).min();
            let wake_at = next.map_or(look_at, |next| next.min(look_at));
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                request = requests.recv() => match request {
                    Some(request) => self.accept(request),
                    None => break,
                },
                () = self.wakeups.claims.notified() => (),
                () = self.wakeups.draining.cancelled(), if !draining => (),
                () = sleep_until(wake_at), if !self.waiting.is_empty() => (),
            }
        }
        for one in std::mem::take(&mut self.waiting) {
            self.wakeups.remove_workers(&one.request.queues);
            one.reply.send(Ok(Vec::new())).ok();
        }
    }

    fn accept(&mut self, request: Waiting) {
        if self.waiting.len() >= self.waiting_max {
            request.reply.send(Err(Error::Busy)).ok();
            return;
        }
        self.wakeups.add_workers(&request.request.queues);
        self.waiting.push_back(request);
    }

    /// Marks the requests whose queue may have new jobs.
    fn note_ready(&mut self) {
        let ready: HashSet<QueueName> = self.wakeups.take_ready().into_iter().collect();
        if ready.is_empty() {
            return;
        }
        for one in &mut self.waiting {
            one.may_have_jobs |= one.request.queues.iter().any(|queue| ready.contains(queue));
        }
    }

    /// Claims for the first marked requests. The others stay marked.
    async fn ask(&mut self) {
        let mut rest = VecDeque::with_capacity(self.waiting.len());
        let (mut asked, mut requests, mut jobs) = (Vec::new(), Vec::new(), 0);
        for one in std::mem::take(&mut self.waiting) {
            if one.reply.is_closed() {
                self.wakeups.remove_workers(&one.request.queues);
            } else if one.may_have_jobs && requests.len() < self.batch_max && jobs < CLAIM_MAX {
                jobs += one.request.max;
                requests.push(one.request.clone());
                asked.push(one);
            } else {
                rest.push_back(one);
            }
        }
        if requests.is_empty() {
            self.waiting = rest;
            return;
        }
        match self.store.claim(requests).await {
            Ok(answers) => {
                let jobs: usize = answers.iter().map(Vec::len).sum();
                self.counts.sent(Call::Claim, jobs);
                self.counts.started(answers.iter().flatten());
                let unclaimed = self.hand_out(asked, answers);
                self.give_back(unclaimed).await;
            }
            Err(error) => {
                for one in asked {
                    self.wakeups.remove_workers(&one.request.queues);
                    one.reply.send(Err(error.again())).ok();
                }
            }
        }
        // Requests that keep waiting came first.
        self.waiting.append(&mut rest);
    }

    /// Returns the leases of jobs whose worker disconnected meanwhile.
    fn hand_out(&mut self, asked: Vec<Waiting>, answers: Vec<Vec<ClaimedJob>>) -> Vec<Lease> {
        let at = now();
        let mut unclaimed = Vec::new();
        for (mut one, jobs) in asked.into_iter().zip(answers) {
            if jobs.is_empty() && one.until > at {
                one.may_have_jobs = false;
                self.waiting.push_back(one);
            } else {
                self.wakeups.remove_workers(&one.request.queues);
                if let Err(Ok(jobs)) = one.reply.send(Ok(jobs)) {
                    unclaimed.extend(jobs.iter().map(|job| job.lease));
                }
            }
        }
        unclaimed
    }

    /// Makes jobs ready again whose worker disconnected, instead of waiting for their leases to expire. It costs no
    /// attempt: nobody has seen them.
    async fn give_back(&self, unclaimed: Vec<Lease>) {
        if unclaimed.is_empty() {
            return;
        }
        let releases = unclaimed.into_iter().map(|lease| Release {
            lease,
            delay: Duration::ZERO,
        });
        if let Err(error) = self.store.release(releases.collect()).await {
            tracing::warn!(%error, "jobs of a disconnected worker could not be released; their leases will expire");
        }
    }

    /// Answers requests whose wait is over.
    fn answer_expired(&mut self) {
        let at = now();
        let (home, stay): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|one| one.until <= at && !one.may_have_jobs);
        self.waiting = stay;
        for one in home {
            self.wakeups.remove_workers(&one.request.queues);
            one.reply.send(Ok(Vec::new())).ok();
        }
    }
}
