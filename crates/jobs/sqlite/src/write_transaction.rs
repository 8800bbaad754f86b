//! The open transaction of the writer, and the state transitions that all changes consist of.

use std::sync::Arc;

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::delivery::Webhook;
use nagaya_jobs::error::Error;
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::fair::FairRound;
use nagaya_jobs::id::JobId;
use nagaya_jobs::job::Body;
use nagaya_jobs::name::{QueueName, TenantId};
use nagaya_jobs::queue::{EventDetail, QueueSettings};
use nagaya_jobs::record::{self, JobOptions};
use nagaya_jobs::state::{State, Tries};
use rusqlite::{Connection, params};

use crate::memory::{Memory, Queue, Tenant};
use crate::rows::{HeldRow, RunningRow, SlotsRow, StoredJob};
use crate::sql::{first, query, run, scalar};

pub(crate) struct WriteTransaction<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) memory: &'a mut Memory,
    pub(crate) now_ms: i64,
}

/// The fields of a job that a state transition needs.
#[derive(Clone, Debug)]
pub(crate) struct JobRow {
    pub(crate) id: JobId,
    pub(crate) queue: i64,
    pub(crate) tenant: i64,
    pub(crate) priority: i16,
    pub(crate) max_retries: u32,
    pub(crate) run_at_ms: Option<i64>,
    pub(crate) options: JobOptions,
    /// Its position equals its id, and it has no options.
    pub(crate) plain: bool,
}

/// The ending of a job.
pub(crate) struct Ending<'a> {
    pub(crate) state: State,
    pub(crate) attempt: u32,
    /// The attempt that succeeded.
    pub(crate) success: Option<&'a RunningRow>,
    pub(crate) error: Option<&'a str>,
    pub(crate) result: Option<&'a Body>,
}

impl WriteTransaction<'_> {
    pub(crate) fn fresh_id(&mut self) -> JobId {
        let ids = self.memory.ids.as_mut().expect("set when the memory was read");
        ids.next(self.now_ms)
    }

    /// Returns the number of a queue; creates the queue when it is missing.
    pub(crate) fn queue_num(&mut self, name: &QueueName) -> Result<i64, Error> {
        if let Some(&num) = self.memory.queue_nums.get(name) {
            if let Some(queue) = self.memory.queues.get_mut(&num).filter(|queue| queue.is_gone) {
                queue.is_gone = false;
                run(
                    self.connection,
                    query!(queues.come_back),
                    params![num, self.now_ms],
                )?;
            }
            return Ok(num);
        }
        let settings = QueueSettings::default();
        let values = params![name.as_str(), record::write_settings(&settings), self.now_ms];
        run(self.connection, query!(queues.insert), values)?;
        let num = self.connection.last_insert_rowid();
        let queue = Queue {
            name: name.clone(),
            settings: Arc::new(settings),
            paused: false,
            is_gone: false,
            rate_horizon_us: 0,
            last_claim_ms: None,
            fair_round: FairRound::default(),
        };
        self.memory.queue_nums.insert(name.clone(), num);
        self.memory.queues.insert(num, queue);
        Ok(num)
    }

    /// Returns the number of a tenant; creates the tenant when it is missing.
    pub(crate) fn tenant_num(&mut self, name: &TenantId) -> Result<i64, Error> {
        if let Some(num) = self.memory.tenant_nums.get(name) {
            return Ok(*num);
        }
        let values = params![name.as_str(), 1, self.now_ms];
        run(self.connection, query!(tenants.insert), values)?;
        let num = self.connection.last_insert_rowid();
        let tenant = Tenant {
            name: name.clone(),
            weight: 1,
        };
        self.memory.tenant_nums.insert(name.clone(), num);
        self.memory.tenants.insert(num, tenant);
        Ok(num)
    }

    /// Returns the number of a tenant; -1, which no tenant has, when the name is unknown.
    pub(crate) fn tenant_num_or_none(&self, name: &TenantId) -> i64 {
        self.memory.tenant_nums.get(name).copied().unwrap_or(-1)
    }

    pub(crate) fn settings(&self, queue: i64) -> Arc<QueueSettings> {
        let queue = self.memory.queues.get(&queue);
        queue.map(|queue| Arc::clone(&queue.settings)).unwrap_or_default()
    }

    /// Reads the fields that a state transition needs; `None` when the job does not exist.
    pub(crate) fn find_job(&self, id: JobId) -> Result<Option<JobRow>, Error> {
        let row = first(self.connection, query!(jobs.find), [id.get()], StoredJob::read)?;
        let Some(row) = row else {
            return Ok(None);
        };
        Ok(Some(JobRow {
            id,
            queue: row.queue,
            tenant: row.tenant,
            priority: row.priority,
            max_retries: row.max_retries,
            run_at_ms: row.run_at_ms,
            options: JobOptions::read(row.options.as_deref())?,
            plain: false,
        }))
    }

    /// Reads a job that must exist, because another table has a row of it.
    pub(crate) fn require_job(&self, id: JobId) -> Result<JobRow, Error> {
        self.find_job(id)?.ok_or_else(|| Error::Damaged {
            what: format!("job {id} is in a place but has no row"),
        })
    }

    /// Writes an event and its delivery. The queue may have disabled some events.
    pub(crate) fn event(
        &mut self,
        kind: EventKind,
        job: &JobRow,
        attempt: u32,
        data: &EventData,
    ) -> Result<(), Error> {
        let settings = self.settings(job.queue);
        if kind.is_detail() && settings.events == EventDetail::Ends {
            return Ok(());
        }
        self.memory.head += 1;
        self.memory.notifications.logged = true;
        let seq = self.memory.head;
        let (id, queue, tenant) = (job.id.get(), job.queue, job.tenant);
        let data = record::write_event_data(data);
        let values = params![seq, id, queue, tenant, kind.code(), attempt, self.now_ms, data];
        run(self.connection, query!(events.insert), values)?;
        let webhook: Option<&Webhook> = job.options.webhook.as_ref().or(settings.webhook.as_ref());
        if let Some(webhook) = webhook.filter(|webhook| webhook.wants(kind)) {
            let target = nagaya_jobs::url::target(&webhook.url);
            let webhook = record::write_webhook(webhook);
            let code = kind.code();
            let values = params![
                id,
                queue,
                tenant,
                seq,
                code,
                attempt,
                webhook,
                self.now_ms,
                target
            ];
            run(self.connection, query!(deliveries.insert), values)?;
            self.memory.notifications.deliveries = true;
        }
        Ok(())
    }

    /// Makes a job ready, or holds it until its concurrency key has a free slot.
    pub(crate) fn admit(&mut self, job: &JobRow, pos: i64, tries: Tries) -> Result<(), Error> {
        let Some(concurrency) = &job.options.concurrency else {
            return self.make_ready(job, pos, tries);
        };
        let key = concurrency.key.as_str();
        let slots = self.slots(job.queue, key)?;
        let (places, taken) = slots.map_or((concurrency.limit, 0), |slots| (slots.places, slots.taken));
        if taken < places {
            run(
                self.connection,
                query!(concurrency.put),
                params![job.queue, key, places, taken + 1],
            )?;
            return self.make_ready(job, pos, tries);
        }
        let values = params![
            job.queue,
            key,
            pos,
            job.id.get(),
            tries.attempt,
            tries.attempt_max
        ];
        run(self.connection, query!(concurrency.insert_held), values)?;
        self.memory.counts(job.queue, job.tenant).depth.blocked += 1;
        Ok(())
    }

    fn make_ready(&mut self, job: &JobRow, pos: i64, tries: Tries) -> Result<(), Error> {
        let id = job.id.get();
        let rank = -i64::from(job.priority);
        let values = params![
            job.queue,
            job.tenant,
            rank,
            pos,
            id,
            tries.attempt,
            tries.attempt_max
        ];
        run(self.connection, query!(ready.insert), values)?;
        if pos != id {
            run(self.connection, query!(ready.put_position), params![id, pos])?;
        }
        self.memory.counts(job.queue, job.tenant).depth.ready += 1;
        self.memory.notifications.ready.insert(job.queue);
        Ok(())
    }

    /// Blocks a job until others have succeeded.
    pub(crate) fn block(&mut self, job: &JobRow, parents: &[JobId]) -> Result<(), Error> {
        let values = params![job.id.get(), parents.len()];
        run(self.connection, query!(waiting.insert_blocked), values)?;
        for parent in parents {
            let values = params![parent.get(), job.id.get()];
            run(self.connection, query!(waiting.insert_dependency), values)?;
        }
        self.memory.dependencies += i64::try_from(parents.len()).unwrap_or(0);
        self.memory.counts(job.queue, job.tenant).depth.blocked += 1;
        Ok(())
    }

    /// Delays a job until a time.
    pub(crate) fn delay(&mut self, job: &JobRow, run_at_ms: i64, tries: Tries) -> Result<(), Error> {
        let values = params![run_at_ms, job.id.get(), tries.attempt, tries.attempt_max];
        run(self.connection, query!(waiting.insert_delayed), values)?;
        self.memory.counts(job.queue, job.tenant).depth.scheduled += 1;
        Ok(())
    }

    /// Returns the slots of a concurrency key.
    fn slots(&self, queue: i64, key: &str) -> Result<Option<SlotsRow>, Error> {
        let values = params![queue, key];
        first(self.connection, query!(concurrency.find), values, SlotsRow::read)
    }

    /// Releases the slot of a job that was ready or running.
    pub(crate) fn release(&mut self, job: &JobRow) -> Result<(), Error> {
        let Some(concurrency) = &job.options.concurrency else {
            return Ok(());
        };
        let key = &concurrency.key;
        let slots = self.slots(job.queue, key)?;
        let (places, taken) = slots.map_or((concurrency.limit, 1), |slots| (slots.places, slots.taken));
        self.fill(job.queue, key, places, taken.saturating_sub(1))
    }

    /// Sets the number of slots of a concurrency key.
    pub(crate) fn set_places(&mut self, queue: i64, key: &str, places: u32) -> Result<(), Error> {
        match self.slots(queue, key)? {
            Some(slots) if slots.places != places => self.fill(queue, key, places, slots.taken),
            _ => Ok(()),
        }
    }

    /// Grants free slots to the jobs that wait for them.
    fn fill(&mut self, queue: i64, key: &str, places: u32, mut taken: u32) -> Result<(), Error> {
        while taken < places {
            let values = params![queue, key];
            let next = first(
                self.connection,
                query!(concurrency.first_held),
                values,
                HeldRow::read,
            )?;
            let Some(next) = next else {
                break;
            };
            run(
                self.connection,
                query!(concurrency.delete_held),
                params![queue, key, next.pos],
            )?;
            let job = self.require_job(next.id)?;
            self.memory.counts(queue, job.tenant).depth.blocked -= 1;
            let tries = Tries {
                attempt: next.attempt,
                attempt_max: next.attempt_max,
            };
            self.make_ready(&job, next.pos, tries)?;
            taken += 1;
        }
        match taken {
            0 => run(self.connection, query!(concurrency.delete), params![queue, key])?,
            _ => run(
                self.connection,
                query!(concurrency.put),
                params![queue, key, places, taken],
            )?,
        };
        Ok(())
    }

    /// Writes the ending of a job: its row, its event, and the note for its dependents. The caller has removed
    /// it from its table and has released its slot.
    pub(crate) fn end(&mut self, job: &JobRow, ending: &Ending<'_>) -> Result<(), Error> {
        let settings = self.settings(job.queue);
        let (code, kind, keep) = match ending.state {
            State::Succeeded => (4, EventKind::Succeeded, settings.retention.succeeded),
            State::Failed => (5, EventKind::Failed, settings.retention.failed),
            _ => (6, EventKind::Cancelled, settings.retention.failed),
        };
        let keep = job.options.retention.unwrap_or(keep);
        let values = params![
            job.id.get(),
            code,
            ending.attempt,
            ending.success.map(|run| run.nonce),
            ending.success.map(|run| run.worker.as_str()),
            ending.success.map(|run| run.started_ms),
            self.now_ms,
            self.now_ms + span_ms(keep),
            ending.error,
            ending.result.and_then(|result| result.content_type.as_deref()),
            ending.result.map(|result| &result.bytes[..]),
        ];
        run(self.connection, query!(done.insert), values)?;
        self.event(kind, job, ending.attempt, &EventData::None)?;
        self.memory.notifications.ended.push((job.id, kind));
        let counts = self.memory.counts(job.queue, job.tenant);
        match ending.state {
            State::Succeeded => (counts.depth.succeeded += 1, counts.throughput.succeeded += 1),
            State::Failed => (counts.depth.failed += 1, counts.throughput.failed += 1),
            _ => (counts.depth.cancelled += 1, counts.throughput.cancelled += 1),
        };
        if let Some(key) = &job.options.unique_key {
            let values = params![job.queue, job.tenant, key, job.id.get()];
            run(self.connection, query!(keys.delete_unique), values)?;
        }
        if !job.plain {
            run(self.connection, query!(ready.delete_position), [job.id.get()])?;
        }
        self.note_for_dependents(job.id, ending.state == State::Succeeded)
    }

    fn note_for_dependents(&mut self, id: JobId, succeeded: bool) -> Result<(), Error> {
        if self.memory.dependencies == 0 {
            return Ok(());
        }
        let has = first(self.connection, query!(waiting.has_children), [id.get()], scalar)?;
        if has == Some(true) {
            run(
                self.connection,
                query!(waiting.insert_resolving),
                params![id.get(), succeeded],
            )?;
        }
        Ok(())
    }

    /// Writes cached changes to the file. The last step before a commit.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        for (queue, tenant) in std::mem::take(&mut self.memory.dirty) {
            let counts = self
                .memory
                .counts
                .entry(queue)
                .or_default()
                .entry(tenant)
                .or_default();
            let (depth, throughput) = (&counts.depth, &counts.throughput);
            let values = params![
                queue,
                tenant,
                depth.scheduled,
                depth.ready,
                depth.blocked,
                depth.running,
                depth.succeeded,
                depth.failed,
                depth.cancelled,
                throughput.enqueued,
                throughput.started,
                throughput.succeeded,
                throughput.failed,
                throughput.cancelled,
                throughput.attempts_failed,
                throughput.leases_lost,
                throughput.late_reports,
            ];
            run(self.connection, query!(queues.put_counters), values)?;
        }
        for num in std::mem::take(&mut self.memory.claimed) {
            if let Some(queue) = self.memory.queues.get(&num) {
                let values = params![num, queue.rate_horizon_us, queue.last_claim_ms];
                run(self.connection, query!(queues.set_claim), values)?;
            }
        }
        Ok(())
    }
}
