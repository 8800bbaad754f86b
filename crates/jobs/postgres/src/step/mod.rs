//! A transaction that changes the state of jobs in ways that one statement cannot.
//!
//! Changes are gathered row by row and written table by table in [`Step::finish`], events last, behind the gate.
//! The transaction's owner commits and then passes on what is to be told.

mod rows;
mod write;

use std::collections::{BTreeMap, BTreeSet};

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
use nagaya_postgres_client::{Row, Session};

use crate::error::damaged;
use crate::flags;
use crate::sql::Queries;
use crate::store::Inner;
use rows::{AttemptRow, BlockedRow, DelayedRow, DeliveryRow, DoneRow, EventRow, ReadyRow};

/// A job wherever it rests: what all tables say of it.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) id: JobId,
    pub(crate) queue: i32,
    pub(crate) tenant: i32,
    pub(crate) rank: i16,
    pub(crate) attempt: i32,
    pub(crate) attempt_max: i32,
    pub(crate) flags: i16,
    pub(crate) options: JobOptions,
}

/// A job that was running, taken out of its table.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) spot: Spot,
    pub(crate) nonce: i64,
    pub(crate) worker: String,
    pub(crate) started_ms: i64,
}

impl Running {
    pub(crate) fn tries(&self) -> Tries {
        let number = |number: i32| u32::try_from(number).unwrap_or(0);
        Tries {
            attempt: number(self.spot.attempt),
            attempt_max: number(self.spot.attempt_max),
        }
    }
}

/// How a job ends.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) state: State,
    /// The attempt that succeeded.
    pub(crate) run: Option<Running>,
    pub(crate) error: Option<String>,
    pub(crate) result: Option<Body>,
}

/// What to tell after the commit.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) ready: Vec<(i32, i32, i16, QueueName)>,
    pub(crate) head: Option<i64>,
    pub(crate) ended: Vec<(JobId, EventKind)>,
    pub(crate) counts: Vec<(i32, Count)>,
    /// Endings that other jobs wait for.
    pub(crate) resolves: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Enqueued,
    Ended(State),
    AttemptFailed,
    LeaseLost,
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
    unique_gone: Vec<i64>,
    /// What is to be done about concurrency keys, by queue and key: the order in which every step locks them,
    /// so that two cannot wait for each other.
    keys: BTreeMap<(i32, String), KeyWork>,
    told: Told,
}

/// What a step does about one concurrency key.
#[derive(Debug, Default)]
struct KeyWork {
    most: i32,
    /// A registration sets the limit for all; others only use theirs when the key is new.
    sets_limit: bool,
    /// Jobs that give back their place.
    left: i32,
    /// Jobs that want one.
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
            unique_gone: Vec::new(),
            keys: BTreeMap::new(),
            told: Told::default(),
        }
    }

    /// Takes jobs out of running whose leases are these; those of other leases stay and are left out.
    pub(crate) async fn take_running(&mut self, leases: &[Lease]) -> Result<Vec<Running>, Error> {
        let ids: Vec<i64> = leases.iter().map(|lease| lease.id.get()).collect();
        let nonces: Vec<i64> = leases.iter().map(|lease| lease.nonce).collect();
        let attempts: Vec<i32> = leases
            .iter()
            .map(|lease| i32::try_from(lease.attempt).unwrap_or(i32::MAX))
            .collect();
        let rows = self
            .session
            .rows(
                include_str!("../queries/steps/take_running.sql"),
                &[&ids, &nonces, &attempts],
            )
            .await?;
        rows.iter().map(running).collect()
    }

    /// Ends a job. Whoever calls this has taken it from where it was, and left its place.
    pub(crate) async fn end(&mut self, spot: Spot, ending: Ending) -> Result<(), Error> {
        let queue = self.store.names.queue_of(self.session, spot.queue).await?;
        let retention = match (spot.options.retention, ending.state) {
            (Some(own), _) => own,
            (None, State::Succeeded) => queue.settings.retention.succeeded,
            (None, _) => queue.settings.retention.failed,
        };
        let kind = match ending.state {
            State::Succeeded => EventKind::Succeeded,
            State::Cancelled => EventKind::Cancelled,
            _ => EventKind::Failed,
        };
        if spot.flags & flags::UNIQUE != 0 {
            self.unique_gone.push(spot.id.get());
        }
        self.event(&spot, kind, None).await?;
        self.told.ended.push((spot.id, kind));
        self.told.counts.push((spot.queue, Count::Ended(ending.state)));
        self.done.push(DoneRow {
            id: spot.id.get(),
            queue: spot.queue,
            tenant: spot.tenant,
            state: rows::state_code(ending.state),
            attempt: spot.attempt,
            attempt_max: spot.attempt_max,
            flags: spot.flags,
            nonce: ending.run.as_ref().map(|run| run.nonce),
            started_ms: ending.run.as_ref().map(|run| run.started_ms),
            worker: ending.run.map(|run| run.worker),
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

    /// Follows an attempt that did not succeed: back to waiting, later, or the job's end.
    pub(crate) async fn attempt_over(
        &mut self,
        row: Running,
        end: AttemptEnd,
        error: &str,
        next: Next,
    ) -> Result<(), Error> {
        self.told.counts.push((row.spot.queue, Count::AttemptFailed));
        if end == AttemptEnd::LeaseLost {
            self.told.counts.push((row.spot.queue, Count::LeaseLost));
            self.event(&row.spot, EventKind::LeaseLost, None).await?;
        }
        self.keep_attempt(&row, end, Some(error));
        self.leave_place(&row.spot)?;
        let run_at_ms = match next {
            Next::Failed => {
                let ending = Ending {
                    state: State::Failed,
                    run: None,
                    error: Some(error.to_owned()),
                    result: None,
                };
                return self.end(row.spot, ending).await;
            }
            Next::Waiting => self.now_ms,
            Next::Scheduled { at_ms } => at_ms,
        };
        let data = EventData::Retry {
            error: Some(error.to_owned()),
            run_at_ms,
        };
        self.event(&row.spot, EventKind::Retrying, record::write_event_data(&data))
            .await?;
        self.place(row.spot, run_at_ms).await
    }

    /// Keeps an attempt that is over.
    pub(crate) fn keep_attempt(&mut self, row: &Running, end: AttemptEnd, error: Option<&str>) {
        self.attempts.push(AttemptRow {
            id: row.spot.id.get(),
            number: row.spot.attempt,
            nonce: row.nonce,
            worker: row.worker.clone(),
            started_ms: row.started_ms,
            ended_ms: self.now_ms,
            ending: rows::end_code(end),
            error: error.map(Into::into),
        });
    }

    /// Puts a job where it belongs that may run from `run_at_ms` on.
    pub(crate) async fn place(&mut self, spot: Spot, run_at_ms: i64) -> Result<(), Error> {
        if run_at_ms > self.now_ms {
            self.delayed.push(DelayedRow::of(&spot, run_at_ms));
            return Ok(());
        }
        if spot.flags & flags::PLACE == 0 {
            return self.make_ready(&spot).await;
        }
        let pos = self.store.draw(self.now_ms);
        let row = BlockedRow::for_place(&spot, pos.get());
        self.key_of(&spot)?.waiting.push(row);
        Ok(())
    }

    /// How many jobs this step registers in a queue and has not written yet.
    pub(crate) fn registered(&self, queue: i32) -> u64 {
        let is_one = |(of, count): &&(i32, Count)| *of == queue && matches!(count, Count::Enqueued);
        self.told.counts.iter().filter(is_one).count() as u64
    }

    /// Lets a job wait for others.
    pub(crate) fn wait_for_jobs(&mut self, spot: &Spot, pending: i32, run_at_ms: i64) {
        self.blocked.push(BlockedRow::for_jobs(spot, pending, run_at_ms));
    }

    /// Keeps the attempt that succeeded, of a job that is to run again.
    pub(crate) fn keep_success(&mut self, row: PastAttempt) {
        self.attempts.push(row);
    }

    pub(crate) fn count(&mut self, queue: i32, count: Count) {
        self.told.counts.push((queue, count));
    }

    async fn make_ready(&mut self, spot: &Spot) -> Result<(), Error> {
        let queue = self.store.names.queue_of(self.session, spot.queue).await?;
        let pos = self.store.draw(self.now_ms);
        self.ready.push(ReadyRow::of(spot, pos.get()));
        self.told
            .ready
            .push((spot.queue, spot.tenant, spot.rank, queue.name.clone()));
        Ok(())
    }

    /// Adds an event to the log, and its deliveries.
    pub(crate) async fn event(
        &mut self,
        spot: &Spot,
        kind: EventKind,
        data: Option<String>,
    ) -> Result<(), Error> {
        let queue = self.store.names.queue_of(self.session, spot.queue).await?;
        let is_detail = matches!(
            kind,
            EventKind::Enqueued | EventKind::Started | EventKind::Progress
        );
        if is_detail && queue.settings.events == EventDetail::Ends {
            return Ok(());
        }
        let hook: Option<&Webhook> = spot.options.webhook.as_ref().or(queue.settings.webhook.as_ref());
        if let Some(hook) = hook.filter(|hook| hook.wants(kind)) {
            let delivery = DeliveryRow {
                job: spot.id.get(),
                queue: spot.queue,
                tenant: spot.tenant,
                seq: 0,
                kind: kind.code(),
                attempt: spot.attempt,
                webhook: record::write_webhook(hook),
                state: 0,
                tries: 0,
                created_ms: self.now_ms,
                next_try_ms: self.now_ms,
            };
            self.deliveries.push((self.events.len(), delivery));
        }
        self.events.push(EventRow {
            kind: kind.code(),
            job: spot.id.get(),
            queue: spot.queue,
            tenant: spot.tenant,
            attempt: spot.attempt,
            at_ms: self.now_ms,
            data,
        });
        Ok(())
    }

    /// Gives back the place under a job's concurrency key, if it has one.
    pub(crate) fn leave_place(&mut self, spot: &Spot) -> Result<(), Error> {
        if spot.flags & flags::PLACE != 0 {
            self.key_of(spot)?.left += 1;
        }
        Ok(())
    }

    /// Sets the limit of a job's concurrency key: the newest registration's holds for all.
    pub(crate) fn set_limit(&mut self, spot: &Spot) -> Result<(), Error> {
        if let Some(concurrency) = &spot.options.concurrency {
            let most = i32::try_from(concurrency.limit).unwrap_or(i32::MAX);
            let work = self.key_of(spot)?;
            (work.most, work.sets_limit) = (most, true);
        }
        Ok(())
    }

    fn key_of(&mut self, spot: &Spot) -> Result<&mut KeyWork, Error> {
        let Some(concurrency) = &spot.options.concurrency else {
            return Err(damaged(format!("job {} has lost its concurrency key", spot.id)));
        };
        let work = self
            .keys
            .entry((spot.queue, concurrency.key.clone()))
            .or_default();
        if work.most == 0 {
            work.most = i32::try_from(concurrency.limit).unwrap_or(i32::MAX);
        }
        Ok(work)
    }

    /// The queues that got ready jobs, once each.
    pub(crate) fn ready_queues(told: &Told) -> Vec<QueueName> {
        let names: BTreeSet<&QueueName> = told.ready.iter().map(|(_, _, _, name)| name).collect();
        names.into_iter().cloned().collect()
    }
}

/// Reads a row of [`Running`]: id, queue, tenant, rank, attempt, attempt_max, flags, options, nonce, worker,
/// started_ms.
pub(crate) fn running(row: &Row) -> Result<Running, Error> {
    Ok(Running {
        spot: spot(row)?,
        nonce: row.get(8),
        worker: row.get(9),
        started_ms: row.get(10),
    })
}

/// Reads the first eight columns of a row as a [`Spot`].
pub(crate) fn spot(row: &Row) -> Result<Spot, Error> {
    Ok(Spot {
        id: JobId::new(row.get(0)).ok_or_else(|| damaged("a job id is not positive"))?,
        queue: row.get(1),
        tenant: row.get(2),
        rank: row.get(3),
        attempt: row.get(4),
        attempt_max: row.get(5),
        flags: row.get(6),
        options: JobOptions::read(row.get(7))?,
    })
}

pub(crate) use rows::{AttemptRow as PastAttempt, end_of, state_of};

impl Inner {
    /// Passes on what a step has done, after its commit.
    pub(crate) fn tell(&self, told: Told) {
        for (queue, count) in &told.counts {
            self.passed.count(*queue, |passed| match count {
                Count::Enqueued => passed.enqueued += 1,
                Count::Ended(State::Succeeded) => passed.succeeded += 1,
                Count::Ended(State::Cancelled) => passed.cancelled += 1,
                Count::Ended(_) => passed.failed += 1,
                Count::AttemptFailed => passed.attempts_failed += 1,
                Count::LeaseLost => passed.leases_lost += 1,
            });
        }
        for (queue, tenant, rank, _) in &told.ready {
            self.note_ready(*queue, *tenant, *rank);
        }
        self.tell_ready(&Step::ready_queues(&told));
        self.tell_logged(told.head);
        self.tell_ended(&told.ended);
    }
}
