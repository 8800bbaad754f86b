//! Runs one accepted request to its end: contacts all endpoints, batches answers that finish together, writes
//! them, and marks the request complete.
//!
//! One task owns everything about a request, so nothing is locked. Answers that arrive within the join window
//! of the first unwritten one go into one write; the last one flushes at once. The marker goes with the last
//! write, or after it if earlier writes are still in flight. So a reader that sees the marker sees
//! everything.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::deadline::Receipt;
use crate::endpoint::Admission;
use crate::gather::Tap;
use crate::job::{self, Done, JobContext};
use crate::live::Working;
use crate::log_limiter::LogLimiter;
use crate::outcome::{Outcome, State};
use crate::recent::Track;
use crate::request::Outgoing;
use crate::stats::{Counts, EndpointCounts, add};
use crate::store::{Answer, Batch, Store, StoreError, Written};
use crate::traced;

/// How long after a batch's last deadline we try to record that something failed. Bodies are no longer
/// accepted by then.
const RECORD_GRACE: Duration = Duration::from_secs(1);
/// Between two tries of a write that failed.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// What the runner needs besides the request.
pub(crate) struct Runner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) context: Arc<JobContext>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) join_window: Duration,
    /// The channel that is told of complete requests.
    pub(crate) publish: Option<String>,
    /// Limits log lines about the store.
    pub(crate) log_limiter: LogLimiter,
    /// Cancelled when unfinished requests must be marked as cut.
    pub(crate) cut: CancellationToken,
}

/// A request that was stored and acknowledged to the client.
pub(crate) struct Accepted {
    pub(crate) id: Arc<str>,
    pub(crate) at: Instant,
    pub(crate) receipt: Receipt,
    pub(crate) outgoing: Arc<Outgoing>,
    pub(crate) jobs: Vec<Admission>,
    pub(crate) working: Working,
    pub(crate) track: Arc<Track>,
    /// For a client that waits.
    pub(crate) tap: Option<Tap>,
}

impl Runner {
    /// Runs until everything is written or given up. Ends shortly after the last deadline at the latest,
    /// whatever endpoints and store do.
    pub(crate) async fn run(self: Arc<Runner>, accepted: Accepted) {
        let Accepted {
            id,
            at,
            receipt,
            outgoing,
            jobs: admissions,
            working,
            track,
            mut tap,
        } = accepted;
        add(&self.counts.jobs, admissions.len() as u64);
        let mut jobs: FuturesUnordered<_> = admissions
            .into_iter()
            .map(|admission| self.job(admission, &outgoing, at, receipt))
            .collect();
        let mut writes: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
        let mut ready: Vec<Done> = Vec::new();
        let mut flush_at = at;
        loop {
            if jobs.is_empty() && writes.is_empty() {
                let complete_ms = Some(elapsed_ms(at));
                self.clone()
                    .write(Arc::clone(&id), ready, complete_ms, Arc::clone(&track))
                    .await;
                track.finish();
                working.progress();
                return self.announce(&id, &track, at).await;
            }
            if jobs.is_empty() && !ready.is_empty() {
                // The last answers do not wait for earlier writes to a slow store; only the marker does.
                let ready = std::mem::take(&mut ready);
                let write = self
                    .clone()
                    .write(Arc::clone(&id), ready, None, Arc::clone(&track));
                writes.push(Box::pin(write));
            }
            tokio::select! {
                biased;
                Some(done) = jobs.next(), if !jobs.is_empty() => {
                    if let Some(tap) = &tap {
                        tap.tell(&done);
                    }
                    if jobs.is_empty() {
                        tap = None;
                    }
                    if ready.is_empty() {
                        flush_at = Instant::now() + self.join_window;
                    }
                    ready.push(done);
                    if !self.join_window.is_zero() || jobs.is_empty() {
                        continue;
                    }
                }
                Some(()) = writes.next(), if !writes.is_empty() => {
                    working.progress();
                    continue;
                }
                () = sleep_until(flush_at), if !ready.is_empty() && !jobs.is_empty() => (),
            }
            let ready = std::mem::take(&mut ready);
            let write = self
                .clone()
                .write(Arc::clone(&id), ready, None, Arc::clone(&track));
            writes.push(Box::pin(write));
        }
    }

    /// Tells subscribers that a request is complete. Those who miss it find the mark in the store.
    async fn announce(&self, id: &str, track: &Track, at: Instant) {
        let Some(channel) = &self.publish else {
            return;
        };
        let channel = channel.replace("{id}", id);
        let summary = track.summary(elapsed_ms(at));
        if let Err(error) = self.store.publish(&channel, &summary).await
            && let Some(times) = self.log_limiter.due(Instant::now())
        {
            tracing::warn!(
                error = error.chain(),
                times,
                "ends of requests could not be published"
            );
        }
    }

    /// Runs one job, which ends early on shutdown.
    fn job(
        self: &Arc<Runner>,
        admission: Admission,
        outgoing: &Arc<Outgoing>,
        at: Instant,
        receipt: Receipt,
    ) -> impl Future<Output = Done> + use<> {
        let deadline = admission.endpoint.deadline(at);
        let (runner, outgoing) = (Arc::clone(self), Arc::clone(outgoing));
        async move {
            let endpoint = Arc::clone(&admission.endpoint);
            let span = traced::fetch(&endpoint.name);
            let outgoing = traced::below(&span, outgoing);
            let work = job::run(
                admission,
                outgoing,
                deadline,
                receipt,
                Arc::clone(&runner.context),
            );
            let done = tokio::select! {
                biased;
                done = work.instrument(span.clone()) => done,
                () = runner.cut.cancelled() => job::abandoned(&endpoint, deadline, receipt),
            };
            span.record("outcome", done.answer.outcome.state.word());
            done
        }
    }

    /// Writes answers, retries while there is time, and counts their outcomes.
    async fn write(
        self: Arc<Runner>,
        id: Arc<str>,
        done: Vec<Done>,
        complete_ms: Option<u64>,
        track: Arc<Track>,
    ) {
        let last = done.iter().map(|done| done.answer.by).max();
        let give_up = last.unwrap_or_else(Instant::now) + RECORD_GRACE;
        let mut counted = Vec::with_capacity(done.len());
        let mut answers = Vec::with_capacity(done.len());
        let mut permits = Vec::with_capacity(done.len());
        for done in done {
            counted.push(done.counts);
            answers.push(done.answer);
            permits.push(done.permits);
        }
        let mut batch = Batch {
            id,
            answers,
            complete_ms,
        };
        let mut pause = FIRST_PAUSE;
        let error = loop {
            match self.write_once(&batch).await {
                Ok(written) => {
                    self.book(&mut batch, &mut counted, &written, &track);
                    if batch.answers.is_empty() {
                        return;
                    }
                    if Instant::now() + pause > give_up {
                        break "a part of the store was not reached".to_owned();
                    }
                }
                Err(error) if !error.is_retryable() || Instant::now() + pause > give_up => {
                    break error.chain();
                }
                Err(error) => tracing::debug!(error = error.chain(), "write to the store failed"),
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        };
        if let Some(times) = self.log_limiter.due(Instant::now()) {
            tracing::warn!(error, times, "answers could not be stored");
        }
        counted
            .iter()
            .for_each(|counts| self.count(counts, State::StoreFailed, &track));
        self.tell_failure(batch, &error).await;
    }

    /// Tries once to record that answers were not stored. Where the store has no room for a body, the failure
    /// may still fit.
    async fn tell_failure(&self, mut batch: Batch, error: &str) {
        for answer in &mut batch.answers {
            answer.body = None;
            answer.outcome = answer.outcome.not_stored(error.to_owned());
        }
        if let Err(error) = self.store.write(&batch).await {
            tracing::debug!(error = error.chain(), "the failure could not be recorded either");
        }
    }

    /// Records that nobody was asked, for a request that may be stored though its client was told that it is not.
    /// Tried once: who reads it finds it either so or not at all, or, should this fail, without any outcome.
    pub(crate) async fn mark_refused(&self, id: &Arc<str>, jobs: &[Admission]) {
        let by = Instant::now() + RECORD_GRACE;
        let outcome = Outcome::new(State::Shed, Duration::ZERO);
        let outcome = outcome.with_detail("the request was refused, because it was not stored in time");
        let answers = jobs.iter().map(|job| Answer {
            name: Arc::clone(&job.endpoint.name),
            outcome: outcome.clone(),
            body: None,
            by,
            by_store_ms: None,
        });
        let batch = Batch {
            id: Arc::clone(id),
            answers: answers.collect(),
            complete_ms: Some(0),
        };
        if let Err(error) = self.store.write(&batch).await {
            tracing::debug!(error = error.chain(), "the refusal could not be recorded");
        }
    }

    async fn write_once(&self, batch: &Batch) -> Result<Vec<Written>, StoreError> {
        let began = Instant::now();
        let writing = self.store.write(batch);
        let written = writing.instrument(traced::store(batch.answers.len())).await;
        self.counts.store_latency.record(began.elapsed());
        add(&self.counts.batches, 1);
        match written {
            Ok(_) => add(&self.counts.answers, batch.answers.len() as u64),
            Err(_) => add(&self.counts.store_failures, 1),
        }
        written
    }

    /// Counts the settled answers and leaves the rest in the batch, with their counters.
    fn book(
        &self,
        batch: &mut Batch,
        counted: &mut Vec<Arc<EndpointCounts>>,
        written: &[Written],
        track: &Track,
    ) {
        let answers = std::mem::take(&mut batch.answers);
        let counts = std::mem::take(counted);
        for ((answer, counts), written) in answers.into_iter().zip(counts).zip(written) {
            match written {
                Written::Stored => self.count(&counts, answer.outcome.state, track),
                Written::Late | Written::Gone | Written::Refused => {
                    self.count(&counts, State::StoreFailed, track);
                }
                Written::Unreached => {
                    batch.answers.push(answer);
                    counted.push(counts);
                }
            }
        }
    }

    fn count(&self, counts: &EndpointCounts, state: State, track: &Track) {
        track.count(state);
        self.counts.count(state);
        counts.count(state);
    }
}

fn elapsed_ms(at: Instant) -> u64 {
    u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX)
}
