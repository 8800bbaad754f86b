//! A transaction that changes the state of jobs in ways that one statement cannot.
//!
//! Changes are collected row by row and written table by table in [`Step::finish`], events last, behind the
//! gate. The caller commits the transaction and then publishes the [`AfterCommit`].

mod rows;
mod write;

use std::collections::BTreeMap;

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::delivery::Webhook;
use nagaya_jobs::error::Error;
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::id::JobId;
use nagaya_jobs::job::Body;
use nagaya_jobs::name::QueueName;
use nagaya_jobs::queue::EventDetail;
use nagaya_jobs::record::{self, JobOptions};
use nagaya_jobs::state::{AttemptEnd, Next, State, Tries};
use nagaya_jobs::token::Lease;
use nagaya_jobs::url;
use nagaya_postgres_client::{Param, Session};

use crate::error::damaged;
use crate::flags;
use crate::rows::{RunningRow, unsigned_32};
use crate::sql::{Queries, query};
use crate::store::Inner;
use crate::throughput::{Count, Counts};
use rows::{AttemptRow, BlockedRow, DelayedRow, DeliveryRow, DoneRow, EventRow, ReadyRow};

/// The columns that every job table shares.
#[derive(Clone, Debug)]
pub(crate) struct JobPosition {
    pub(crate) id: JobId,
    pub(crate) queue: i32,
    pub(crate) tenant: i32,
    pub(crate) rank: i16,
    pub(crate) attempt: i32,
    pub(crate) attempt_max: i32,
    pub(crate) flags: i16,
    pub(crate) options: JobOptions,
}

/// A job that was taken out of `jobs_running`.
#[derive(Clone, Debug)]
pub(crate) struct RunningJob {
    pub(crate) position: JobPosition,
    pub(crate) nonce: i64,
    pub(crate) worker: String,
    pub(crate) started_ms: i64,
}

impl RunningJob {
    pub(crate) fn of(row: RunningRow) -> Result<RunningJob, Error> {
        Ok(RunningJob {
            position: row.position()?,
            nonce: row.nonce,
            worker: row.worker,
            started_ms: row.started_ms,
        })
    }

    pub(crate) fn tries(&self) -> Tries {
        Tries {
            attempt: unsigned_32(self.position.attempt),
            attempt_max: unsigned_32(self.position.attempt_max),
        }
    }
}

/// The ending of a job.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) state: State,
    /// The attempt that succeeded.
    pub(crate) success: Option<RunningJob>,
    pub(crate) error: Option<String>,
    pub(crate) result: Option<Body>,
}

/// What to notify about after the commit.
#[derive(Debug, Default)]
pub(crate) struct AfterCommit {
    pub(crate) ready: Vec<(i32, i32, i16, QueueName)>,
    pub(crate) head: Option<i64>,
    pub(crate) ended: Vec<(JobId, EventKind)>,
    /// Jobs that were taken from a worker, which may be connected to another server.
    pub(crate) withdrawn: Vec<JobId>,
    /// Whether other jobs depend on an ending.
    pub(crate) resolves: bool,
    /// Whether there are new deliveries.
    pub(crate) delivers: bool,
}

pub(crate) struct Step<'a> {
    pub(crate) store: &'a Inner,
    pub(crate) session: &'a Session,
    pub(crate) now_ms: i64,
    attempts: Vec<AttemptRow>,
    done: Vec<DoneRow>,
    delayed: Vec<DelayedRow>,
    blocked: Vec<BlockedRow>,
    ready: Vec<ReadyRow>,
    events: Vec<EventRow>,
    deliveries: Vec<(usize, DeliveryRow)>,
    released_unique: Vec<i64>,
    /// Changes of concurrency keys, by queue and key. Every step locks them in this order, so that two steps
    /// cannot deadlock.
    keys: BTreeMap<(i32, String), SlotChange>,
    counts: Counts,
    after_commit: AfterCommit,
}

/// The change of one concurrency key.
#[derive(Debug, Default)]
struct SlotChange {
    most: i32,
    /// A registration sets the limit; other changes use theirs only for a new key.
    sets_limit: bool,
    /// Slots that are released.
    left: i32,
    /// Jobs that wait for a slot.
    waiting: Vec<BlockedRow>,
}

impl<'a> Step<'a> {
    pub(crate) fn new(store: &'a Inner, session: &'a Session, now_ms: i64) -> Step<'a> {
        Step {
            store,
            session,
            now_ms,
            attempts: Vec::new(),
            done: Vec::new(),
            delayed: Vec::new(),
            blocked: Vec::new(),
            ready: Vec::new(),
            events: Vec::new(),
            deliveries: Vec::new(),
            released_unique: Vec::new(),
            keys: BTreeMap::new(),
            counts: Counts::default(),
            after_commit: AfterCommit::default(),
        }
    }

    /// Removes and returns the running jobs of these leases. Jobs under other leases stay.
    pub(crate) async fn take_running(&mut self, leases: &[Lease]) -> Result<Vec<RunningJob>, Error> {
        // In the order of ids, which the statement searches.
        let mut leases = leases.to_vec();
        leases.sort_by_key(|lease| lease.id);
        let ids: Vec<i64> = leases.iter().map(|lease| lease.id.get()).collect();
        let nonces: Vec<i64> = leases.iter().map(|lease| lease.nonce).collect();
        let attempts: Vec<i32> = leases
            .iter()
            .map(|lease| i32::try_from(lease.attempt).unwrap_or(i32::MAX))
            .collect();
        let values: [Param<'_>; 3] = [&ids, &nonces, &attempts];
        let rows = self
            .session
            .all(query!(running.take_leased), &values, RunningRow::read)
            .await?;
        rows.into_iter().map(RunningJob::of).collect()
    }

    /// Notes that a job was taken from its worker.
    pub(crate) fn withdrawn(&mut self, id: JobId) {
        self.after_commit.withdrawn.push(id);
    }

    /// Ends a job. The caller has removed it from its table and has released its slot.
    pub(crate) async fn end(&mut self, position: JobPosition, ending: Ending) -> Result<(), Error> {
        let queue = self.store.names.queue_of(self.session, position.queue).await?;
        let retention = match (position.options.retention, ending.state) {
            (Some(own), _) => own,
            (None, State::Succeeded) => queue.settings.retention.succeeded,
            (None, _) => queue.settings.retention.failed,
        };
        let kind = match ending.state {
            State::Succeeded => EventKind::Succeeded,
            State::Cancelled => EventKind::Cancelled,
            _ => EventKind::Failed,
        };
        if position.flags & flags::UNIQUE != 0 {
            self.released_unique.push(position.id.get());
        }
        self.event(&position, kind, None).await?;
        self.after_commit.ended.push((position.id, kind));
        self.count(&position, Count::Ended(ending.state));
        self.done.push(DoneRow {
            id: position.id.get(),
            queue: position.queue,
            tenant: position.tenant,
            state: rows::state_code(ending.state),
            attempt: position.attempt,
            attempt_max: position.attempt_max,
            flags: position.flags,
            nonce: ending.success.as_ref().map(|run| run.nonce),
            started_ms: ending.success.as_ref().map(|run| run.started_ms),
            worker: ending.success.map(|run| run.worker),
            ended_ms: self.now_ms,
            error: ending.error,
            content_type: ending
                .result
                .as_ref()
                .and_then(|body| body.content_type.as_deref().map(Into::into)),
            result: ending.result.map(|body| rows::hex(&body.bytes)),
            purge_at_ms: self.now_ms + span_ms(retention),
        });
        Ok(())
    }

    /// Applies what follows an attempt that did not succeed: ready again, scheduled, or ended.
    pub(crate) async fn finish_attempt(
        &mut self,
        job: RunningJob,
        end: AttemptEnd,
        error: &str,
        next: Next,
    ) -> Result<(), Error> {
        self.count(&job.position, Count::AttemptFailed);
        if end == AttemptEnd::LeaseLost {
            self.count(&job.position, Count::LeaseLost);
            self.event(&job.position, EventKind::LeaseLost, None).await?;
        }
        self.record_attempt(&job, end, Some(error));
        self.release_slot(&job.position)?;
        let run_at_ms = match next {
            Next::Failed => {
                let ending = Ending {
                    state: State::Failed,
                    success: None,
                    error: Some(error.to_owned()),
                    result: None,
                };
                return self.end(job.position, ending).await;
            }
            Next::Waiting => self.now_ms,
            Next::Scheduled { at_ms } => at_ms,
        };
        let data = EventData::Retry {
            error: Some(error.to_owned()),
            run_at_ms,
        };
        self.event(
            &job.position,
            EventKind::Retrying,
            record::write_event_data(&data),
        )
        .await?;
        self.place(job.position, run_at_ms).await
    }

    /// Stores an attempt that is over.
    pub(crate) fn record_attempt(&mut self, job: &RunningJob, end: AttemptEnd, error: Option<&str>) {
        self.attempts.push(AttemptRow {
            id: job.position.id.get(),
            number: job.position.attempt,
            nonce: job.nonce,
            worker: job.worker.clone(),
            started_ms: job.started_ms,
            ended_ms: self.now_ms,
            ending: rows::end_code(end),
            error: error.map(Into::into),
        });
    }

    /// Makes a job ready, or delays it until `run_at_ms`.
    pub(crate) async fn place(&mut self, position: JobPosition, run_at_ms: i64) -> Result<(), Error> {
        if run_at_ms > self.now_ms {
            self.delayed.push(DelayedRow::of(&position, run_at_ms));
            return Ok(());
        }
        if position.flags & flags::CONCURRENCY == 0 {
            return self.make_ready(&position).await;
        }
        let pos = self.store.draw(self.now_ms);
        let row = BlockedRow::for_place(&position, pos.get());
        self.key_of(&position)?.waiting.push(row);
        Ok(())
    }

    /// Returns how many jobs this step registers in a queue.
    pub(crate) fn registered(&self, queue: i32) -> u64 {
        self.counts.enqueued(queue)
    }

    /// Blocks a job until its dependencies have succeeded.
    pub(crate) fn wait_for_dependencies(&mut self, position: &JobPosition, pending: i32, run_at_ms: i64) {
        self.blocked
            .push(BlockedRow::for_jobs(position, pending, run_at_ms));
    }

    /// Stores the attempt that succeeded, of a job that is retried.
    pub(crate) fn record_success(&mut self, row: PastAttempt) {
        self.attempts.push(row);
    }

    pub(crate) fn count(&mut self, position: &JobPosition, count: Count) {
        self.counts.add(position.queue, position.tenant, count);
    }

    async fn make_ready(&mut self, position: &JobPosition) -> Result<(), Error> {
        let queue = self.store.names.queue_of(self.session, position.queue).await?;
        let pos = self.store.draw(self.now_ms);
        self.ready.push(ReadyRow::of(position, pos.get()));
        self.after_commit
            .ready
            .push((position.queue, position.tenant, position.rank, queue.name.clone()));
        Ok(())
    }

    /// Adds an event, and its delivery.
    pub(crate) async fn event(
        &mut self,
        position: &JobPosition,
        kind: EventKind,
        data: Option<String>,
    ) -> Result<(), Error> {
        let queue = self.store.names.queue_of(self.session, position.queue).await?;
        if kind.is_detail() && queue.settings.events == EventDetail::Ends {
            return Ok(());
        }
        let hook: Option<&Webhook> = position
            .options
            .webhook
            .as_ref()
            .or(queue.settings.webhook.as_ref());
        if let Some(hook) = hook.filter(|hook| hook.wants(kind)) {
            let delivery = DeliveryRow {
                job: position.id.get(),
                queue: position.queue,
                tenant: position.tenant,
                seq: 0,
                kind: kind.code(),
                attempt: position.attempt,
                webhook: record::write_webhook(hook),
                target: url::target(&hook.url),
                state: 0,
                tries: 0,
                created_ms: self.now_ms,
                next_try_ms: self.now_ms,
            };
            self.deliveries.push((self.events.len(), delivery));
        }
        self.events.push(EventRow {
            kind: kind.code(),
            job: position.id.get(),
            queue: position.queue,
            tenant: position.tenant,
            attempt: position.attempt,
            at_ms: self.now_ms,
            data,
        });
        Ok(())
    }

    /// Releases the slot of a job, if it has a concurrency key.
    pub(crate) fn release_slot(&mut self, position: &JobPosition) -> Result<(), Error> {
        if position.flags & flags::CONCURRENCY != 0 {
            self.key_of(position)?.left += 1;
        }
        Ok(())
    }

    /// Sets the limit of a job's concurrency key: that of the newest registration applies to all.
    pub(crate) fn set_limit(&mut self, position: &JobPosition) -> Result<(), Error> {
        if let Some(concurrency) = &position.options.concurrency {
            let most = i32::try_from(concurrency.limit).unwrap_or(i32::MAX);
            let work = self.key_of(position)?;
            (work.most, work.sets_limit) = (most, true);
        }
        Ok(())
    }

    fn key_of(&mut self, position: &JobPosition) -> Result<&mut SlotChange, Error> {
        let Some(concurrency) = &position.options.concurrency else {
            return Err(damaged(format!(
                "job {} has lost its concurrency key",
                position.id
            )));
        };
        let work = self
            .keys
            .entry((position.queue, concurrency.key.clone()))
            .or_default();
        if work.most == 0 {
            work.most = i32::try_from(concurrency.limit).unwrap_or(i32::MAX);
        }
        Ok(work)
    }

    /// Returns the queues with new ready jobs, and the lowest rank among those of each.
    pub(crate) fn ready_queues(after_commit: &AfterCommit) -> BTreeMap<QueueName, i16> {
        let mut queues = BTreeMap::new();
        for (_, _, rank, name) in &after_commit.ready {
            let lowest = queues.entry(name.clone()).or_insert(i16::MAX);
            *lowest = (*rank).min(*lowest);
        }
        queues
    }
}

pub(crate) use rows::{AttemptRow as PastAttempt, end_of, state_of};

impl Inner {
    /// Notifies after the commit of a step.
    pub(crate) fn publish(&self, after_commit: AfterCommit) {
        for (queue, tenant, rank, _) in &after_commit.ready {
            self.note_ready(*queue, *tenant, *rank);
        }
        self.notify_ready(&Step::ready_queues(&after_commit));
        self.notify_logged(after_commit.head);
        self.notify_ended(&after_commit.ended);
        self.notify_withdrawn(&after_commit.withdrawn);
        if after_commit.delivers {
            self.notify_deliveries();
        }
    }
}
