//! One open transaction of the writer, and the moves of which all changes are made.

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
use crate::sql::{first, query, run};

pub(crate) struct WriteTransaction<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) memory: &'a mut Memory,
    pub(crate) now_ms: i64,
}

/// What must be known of a job to move it.
#[derive(Clone, Debug)]
pub(crate) struct JobRow {
    pub(crate) id: JobId,
    pub(crate) queue: i64,
    pub(crate) tenant: i64,
    pub(crate) priority: i16,
    pub(crate) max_retries: u32,
    pub(crate) run_at_ms: Option<i64>,
    pub(crate) options: JobOptions,
    /// Its position is its id, and nothing is said in its options.
    pub(crate) plain: bool,
}

/// A row of `running`.
#[derive(Clone, Debug)]
pub(crate) struct RunningRow {
    pub(crate) id: JobId,
    pub(crate) queue: i64,
    pub(crate) tenant: i64,
    pub(crate) tries: Tries,
    pub(crate) nonce: i64,
    pub(crate) worker: String,
    pub(crate) started_ms: i64,
    pub(crate) lease_until_ms: i64,
    pub(crate) plain: bool,
}

/// How a job ends.
pub(crate) struct Ending<'a> {
    pub(crate) state: State,
    pub(crate) attempt: u32,
    /// The attempt that succeeded.
    pub(crate) success: Option<&'a RunningRow>,
    pub(crate) error: Option<&'a str>,
    pub(crate) result: Option<&'a Body>,
}

impl RunningRow {
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<RunningRow> {
        Ok(RunningRow {
            id: job_id(row, 0)?,
            queue: row.get(1)?,
            tenant: row.get(2)?,
            tries: Tries {
                attempt: row.get(3)?,
                attempt_max: row.get(4)?,
            },
            nonce: row.get(5)?,
            worker: row.get(6)?,
            started_ms: row.get(7)?,
            lease_until_ms: row.get(9)?,
            plain: row.get(10)?,
        })
    }
}

/// Reads a job's id.
pub(crate) fn job_id(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<JobId> {
    JobId::new(row.get(column)?).ok_or_else(|| nagaya_sqlite_client::strange_value(column, "job id"))
}

impl WriteTransaction<'_> {
    pub(crate) fn fresh_id(&mut self) -> JobId {
        let ids = self.memory.ids.as_mut().expect("set when the memory was read");
        ids.next(self.now_ms)
    }

    /// Finds a queue's number, or makes the queue.
    pub(crate) fn queue_num(&mut self, name: &QueueName) -> Result<i64, Error> {
        if let Some(num) = self.memory.queue_nums.get(name) {
            return Ok(*num);
        }
        let settings = QueueSettings::default();
        let values = params![name.as_str(), record::write_settings(&settings), self.now_ms];
        run(self.connection, query!(queues.insert), values)?;
        let num = self.connection.last_insert_rowid();
        let queue = Queue {
            name: name.clone(),
            settings: Arc::new(settings),
            paused: false,
            rate_horizon_us: 0,
            last_claim_ms: None,
            fair_round: FairRound::default(),
        };
        self.memory.queue_nums.insert(name.clone(), num);
        self.memory.queues.insert(num, queue);
        Ok(num)
    }

    /// Finds a tenant's number, or makes the tenant.
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

    /// Returns a tenant's number; one that no tenant has when the name is unknown.
    pub(crate) fn tenant_num_or_none(&self, name: &TenantId) -> i64 {
        self.memory.tenant_nums.get(name).copied().unwrap_or(-1)
    }

    pub(crate) fn settings(&self, queue: i64) -> Arc<QueueSettings> {
        let queue = self.memory.queues.get(&queue);
        queue.map(|queue| Arc::clone(&queue.settings)).unwrap_or_default()
    }

    /// Reads what must be known of a job to move it; nothing when it is not there.
    pub(crate) fn find_job(&self, id: JobId) -> Result<Option<JobRow>, Error> {
        let row = first(self.connection, query!(jobs.find), [id.get()], |row| {
            let options: Option<String> = row.get(5)?;
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
                options,
            ))
        })?;
        let Some((queue, tenant, priority, max_retries, run_at_ms, options)) = row else {
            return Ok(None);
        };
        Ok(Some(JobRow {
            id,
            queue,
            tenant,
            priority,
            max_retries,
            run_at_ms,
            options: JobOptions::read(options.as_deref())?,
            plain: false,
        }))
    }

    /// Reads a card that must be there, because one of its rows is.
    pub(crate) fn require_job(&self, id: JobId) -> Result<JobRow, Error> {
        self.find_job(id)?.ok_or_else(|| Error::Damaged {
            what: format!("job {id} is in a place but has no row"),
        })
    }

    /// Writes an event and makes what must be delivered of it. The queue may have asked for fewer events.
    pub(crate) fn event(
        &mut self,
        kind: EventKind,
        job: &JobRow,
        attempt: u32,
        data: &EventData,
    ) -> Result<(), Error> {
        let settings = self.settings(job.queue);
        let minor = matches!(
            kind,
            EventKind::Enqueued | EventKind::Started | EventKind::Progress
        );
        if minor && settings.events == EventDetail::Ends {
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
            let webhook = record::write_webhook(webhook);
            let values = params![id, queue, tenant, seq, kind.code(), attempt, webhook, self.now_ms];
            run(self.connection, query!(deliveries.insert), values)?;
        }
        Ok(())
    }

    /// Lets a job wait for its turn: ready, or held until a place under its key is free.
    pub(crate) fn admit(&mut self, job: &JobRow, pos: i64, tries: Tries) -> Result<(), Error> {
        let Some(concurrency) = &job.options.concurrency else {
            return self.make_ready(job, pos, tries);
        };
        let key = concurrency.key.as_str();
        let (places, taken) = self.places(job.queue, key)?.unwrap_or((concurrency.limit, 0));
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

    /// Lets a job wait for a time.
    pub(crate) fn delay(&mut self, job: &JobRow, run_at_ms: i64, tries: Tries) -> Result<(), Error> {
        let values = params![run_at_ms, job.id.get(), tries.attempt, tries.attempt_max];
        run(self.connection, query!(waiting.insert_delayed), values)?;
        self.memory.counts(job.queue, job.tenant).depth.scheduled += 1;
        Ok(())
    }

    /// Returns places under a key and how many are taken.
    fn places(&self, queue: i64, key: &str) -> Result<Option<(u32, u32)>, Error> {
        Ok(first(
            self.connection,
            query!(concurrency.find),
            params![queue, key],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?)
    }

    /// Gives back the place of a job that was ready or running.
    pub(crate) fn release(&mut self, job: &JobRow) -> Result<(), Error> {
        let Some(concurrency) = &job.options.concurrency else {
            return Ok(());
        };
        let key = &concurrency.key;
        let (places, taken) = self.places(job.queue, key)?.unwrap_or((concurrency.limit, 1));
        self.fill(job.queue, key, places, taken.saturating_sub(1))
    }

    /// Sets how many places there are under a key.
    pub(crate) fn set_places(&mut self, queue: i64, key: &str, places: u32) -> Result<(), Error> {
        match self.places(queue, key)? {
            Some((was, taken)) if was != places => self.fill(queue, key, places, taken),
            _ => Ok(()),
        }
    }

    /// Gives free places to the jobs that wait for them.
    fn fill(&mut self, queue: i64, key: &str, places: u32, mut taken: u32) -> Result<(), Error> {
        while taken < places {
            let next = first(
                self.connection,
                query!(concurrency.first_held),
                params![queue, key],
                |row| {
                    let tries = Tries {
                        attempt: row.get(2)?,
                        attempt_max: row.get(3)?,
                    };
                    Ok((row.get::<_, i64>(0)?, job_id(row, 1)?, tries))
                },
            )?;
            let Some((pos, id, tries)) = next else {
                break;
            };
            run(
                self.connection,
                query!(concurrency.delete_held),
                params![queue, key, pos],
            )?;
            let job = self.require_job(id)?;
            self.memory.counts(queue, job.tenant).depth.blocked -= 1;
            self.make_ready(&job, pos, tries)?;
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

    /// Writes a job's ending: its row, its event, and what depends on it. The caller has taken it out of the
    /// place where it was, and has released its place under a key.
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
        let has = first(self.connection, query!(waiting.has_children), [id.get()], |row| {
            row.get(0)
        })?;
        if has == Some(true) {
            run(
                self.connection,
                query!(waiting.insert_resolving),
                params![id.get(), succeeded],
            )?;
        }
        Ok(())
    }

    /// Writes what the memory has and the file has not. The last step before a commit.
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
