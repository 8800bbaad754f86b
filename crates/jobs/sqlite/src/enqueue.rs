//! Registers jobs.

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::error::Error;
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::id::JobId;
use nagaya_jobs::job::{Fingerprint, NewJob};
use nagaya_jobs::record::JobOptions;
use nagaya_jobs::request::{Enqueued, FoundBy};
use nagaya_jobs::state::{State, Tries};
use rusqlite::params;

use crate::read::{state_of, state_of_tenants_job};
use crate::rows::{IdempotencyRow, job_id};
use crate::sql::{first, query, run};
use crate::write_transaction::{JobRow, WriteTransaction};

pub(crate) fn enqueue(tx: &mut WriteTransaction<'_>, job: &NewJob) -> Result<Enqueued, Error> {
    let queue = tx.queue_num(&job.queue)?;
    let tenant = tx.tenant_num(&job.tenant)?;
    if let Some(found) = find(tx, queue, tenant, job)? {
        return Ok(found);
    }
    let settings = tx.settings(queue);
    if let Some(depth_max) = settings.depth_max
        && tx.memory.unstarted(queue) >= depth_max
    {
        return Err(Error::QueueFull {
            queue: job.queue.clone(),
            depth_max,
        });
    }
    let parents = pending_parents(tx, tenant, &job.depends_on)?;

    let options = JobOptions::of(job, &settings);
    let text = options.write();
    let id = tx.fresh_id();
    let run_at_ms = job.run_at_ms.filter(|at_ms| *at_ms > tx.now_ms);
    let row = JobRow {
        id,
        queue,
        tenant,
        priority: job.priority,
        max_retries: job.max_retries.unwrap_or(settings.max_retries),
        run_at_ms,
        plain: text.is_none(),
        options,
    };
    let values = params![
        id.get(),
        queue,
        tenant,
        job.kind,
        job.priority,
        tx.now_ms,
        run_at_ms,
        span_ms(job.timeout.unwrap_or(settings.lease)),
        row.max_retries,
        tx.memory.head,
        text,
        job.payload.content_type,
        &job.payload.bytes[..],
    ];
    run(tx.connection, query!(jobs.insert), values)?;
    remember_keys(tx, job, &row, span_ms(settings.idempotency_window))?;
    let counts = tx.memory.counts(queue, tenant);
    counts.throughput.enqueued += 1;
    tx.event(EventKind::Enqueued, &row, 0, &EventData::None)?;
    let state = place(tx, &row, &parents)?;
    Ok(Enqueued {
        id,
        state,
        found_by: None,
    })
}

/// Finds an earlier registration under one of the job's keys.
fn find(tx: &WriteTransaction<'_>, queue: i64, tenant: i64, job: &NewJob) -> Result<Option<Enqueued>, Error> {
    if let Some(idempotency) = &job.idempotency {
        let values = params![queue, tenant, idempotency.key, tx.now_ms];
        let sql = query!(keys.find_idempotency);
        let known = first(tx.connection, sql, values, IdempotencyRow::read)?;
        if let Some(known) = known
            // A job that is gone has left its ending with the key.
            && let Some(state) = state_of(tx.connection, known.id)?.or(known.ended)
        {
            let differs = |of: Fingerprint| known.fingerprint.is_some_and(|known| known != of);
            if idempotency.fingerprint.is_some_and(differs) {
                return Err(Error::KeyReused { id: known.id });
            }
            return Ok(Some(Enqueued {
                id: known.id,
                state,
                found_by: Some(FoundBy::IdempotencyKey),
            }));
        }
    }
    let Some(key) = &job.unique_key else {
        return Ok(None);
    };
    let values = params![queue, tenant, key];
    let Some(id) = first(tx.connection, query!(keys.find_unique), values, job_id)? else {
        return Ok(None);
    };
    Ok(state_of(tx.connection, id)?.map(|state| Enqueued {
        id,
        state,
        found_by: Some(FoundBy::UniqueKey),
    }))
}

/// Returns the jobs that have not ended. Fails for unknown jobs, among them those of other tenants, and for those
/// that failed or were cancelled.
fn pending_parents(tx: &WriteTransaction<'_>, tenant: i64, ids: &[JobId]) -> Result<Vec<JobId>, Error> {
    let mut parents = Vec::new();
    for &id in ids {
        match state_of_tenants_job(tx.connection, tenant, id)? {
            None => return Err(Error::DependencyUnknown { id }),
            Some(state @ (State::Failed | State::Cancelled)) => {
                return Err(Error::DependencyFailed { id, state });
            }
            Some(State::Succeeded) => (),
            Some(_) => parents.push(id),
        }
    }
    parents.sort();
    parents.dedup();
    Ok(parents)
}

fn remember_keys(tx: &WriteTransaction<'_>, job: &NewJob, row: &JobRow, window_ms: i64) -> Result<(), Error> {
    if let Some(idempotency) = &job.idempotency {
        let expires_ms = tx.now_ms + idempotency.window.map_or(window_ms, span_ms);
        let fingerprint = idempotency.fingerprint.as_ref().map(|hash| &hash[..]);
        let values = params![
            row.queue,
            row.tenant,
            idempotency.key,
            row.id.get(),
            expires_ms,
            fingerprint
        ];
        run(tx.connection, query!(keys.put_idempotency), values)?;
    }
    if let Some(key) = &job.unique_key {
        let values = params![row.queue, row.tenant, key, row.id.get()];
        run(tx.connection, query!(keys.insert_unique), values)?;
    }
    Ok(())
}

/// Inserts a new job into the table where it waits.
fn place(tx: &mut WriteTransaction<'_>, row: &JobRow, parents: &[JobId]) -> Result<State, Error> {
    if let Some(concurrency) = &row.options.concurrency {
        tx.set_places(row.queue, &concurrency.key, concurrency.limit)?;
    }
    if !parents.is_empty() {
        tx.block(row, parents)?;
        return Ok(State::Waiting);
    }
    let tries = Tries::fresh(row.max_retries);
    match row.run_at_ms {
        Some(run_at_ms) => {
            tx.delay(row, run_at_ms, tries)?;
            Ok(State::Scheduled)
        }
        None => {
            tx.admit(row, row.id.get(), tries)?;
            Ok(State::Waiting)
        }
    }
}
