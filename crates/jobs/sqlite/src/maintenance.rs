//! Periodic work: expired leases, due jobs, dependents, retention.

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::request::{NextTimes, SweepResult};
use nagaya_jobs::state::{State, Tries};
use rusqlite::params;

use crate::memory::TRIMMED_METADATA;
use crate::report::expire;
use crate::rows::{DueRow, EventTimeRow, PurgeableRow, ResolvingRow, RunningRow, ended_code, job_id};
use crate::sql::{all, first, query, run, scalar};
use crate::write_transaction::{Ending, WriteTransaction};

fn swept(rows: usize, limit: usize) -> SweepResult {
    SweepResult {
        rows,
        more: rows >= limit,
    }
}

pub(crate) fn sweep_expired(tx: &mut WriteTransaction<'_>, limit: usize) -> Result<SweepResult, Error> {
    let values = params![tx.now_ms, limit];
    let mut expired = all(
        tx.connection,
        query!(running.take_expired),
        values,
        RunningRow::read,
    )?;
    expired.sort_by_key(|taken| (taken.lease_until_ms, taken.id));
    for taken in &expired {
        expire(tx, taken)?;
    }
    Ok(swept(expired.len(), limit))
}

pub(crate) fn move_due(tx: &mut WriteTransaction<'_>, limit: usize) -> Result<SweepResult, Error> {
    let values = params![tx.now_ms, limit];
    let mut due = all(tx.connection, query!(waiting.take_due), values, DueRow::read)?;
    due.sort_by_key(|row| (row.run_at_ms, row.id));
    let rows = due.len();
    for row in due {
        let job = tx.require_job(row.id)?;
        tx.memory.counts(job.queue, job.tenant).depth.scheduled -= 1;
        let pos = tx.fresh_id().get();
        let tries = Tries {
            attempt: row.attempt,
            attempt_max: row.attempt_max,
        };
        tx.admit(&job, pos, tries)?;
    }
    Ok(swept(rows, limit))
}

/// Applies endings to at most `limit` dependents.
pub(crate) fn resolve(tx: &mut WriteTransaction<'_>, limit: usize) -> Result<SweepResult, Error> {
    let mut rows = 0;
    while rows < limit {
        let resolving = first(
            tx.connection,
            query!(waiting.first_resolving),
            [],
            ResolvingRow::read,
        )?;
        let Some(ResolvingRow { parent, succeeded }) = resolving else {
            break;
        };
        let values = params![parent.get(), limit - rows];
        let children = all(tx.connection, query!(waiting.children), values, job_id)?;
        if children.is_empty() {
            run(tx.connection, query!(waiting.delete_resolving), [parent.get()])?;
            continue;
        }
        rows += children.len();
        for child in children {
            if succeeded {
                release_child(tx, parent, child)?;
            } else {
                cancel_child(tx, parent, child)?;
            }
        }
    }
    Ok(swept(rows, limit))
}

fn release_child(tx: &mut WriteTransaction<'_>, parent: JobId, child: JobId) -> Result<(), Error> {
    run(
        tx.connection,
        query!(waiting.delete_dependency),
        params![parent.get(), child.get()],
    )?;
    tx.memory.dependencies -= 1;
    if run(tx.connection, query!(waiting.lower_blocked), [child.get()])? > 0 {
        return Ok(());
    }
    run(tx.connection, query!(waiting.delete_blocked), [child.get()])?;
    let job = tx.require_job(child)?;
    tx.memory.counts(job.queue, job.tenant).depth.blocked -= 1;
    let tries = Tries::fresh(job.max_retries);
    match job.run_at_ms {
        Some(run_at_ms) if run_at_ms > tx.now_ms => tx.delay(&job, run_at_ms, tries),
        _ => {
            let pos = tx.fresh_id().get();
            tx.admit(&job, pos, tries)
        }
    }
}

fn cancel_child(tx: &mut WriteTransaction<'_>, parent: JobId, child: JobId) -> Result<(), Error> {
    let rows = run(
        tx.connection,
        query!(waiting.delete_dependencies_of),
        [child.get()],
    )?;
    tx.memory.dependencies -= i64::try_from(rows).unwrap_or(0);
    run(tx.connection, query!(waiting.delete_blocked), [child.get()])?;
    let job = tx.require_job(child)?;
    tx.memory.counts(job.queue, job.tenant).depth.blocked -= 1;
    let values = params![parent.get(), child.get()];
    run(tx.connection, query!(waiting.insert_revival), values)?;
    let error = format!("job {parent}, on which this one depends, did not succeed");
    let ending = Ending {
        state: State::Cancelled,
        attempt: 0,
        success: None,
        error: Some(&error),
        result: None,
    };
    tx.end(&job, &ending)
}

pub(crate) fn purge(tx: &mut WriteTransaction<'_>, limit: usize) -> Result<SweepResult, Error> {
    let values = params![tx.now_ms, limit];
    let old = all(tx.connection, query!(done.purgeable), values, PurgeableRow::read)?;
    for row in &old {
        remove(tx, row)?;
    }
    let keys = run(
        tx.connection,
        query!(keys.purge_idempotency),
        params![tx.now_ms, limit],
    )?;
    Ok(SweepResult {
        rows: old.len() + keys,
        more: old.len() >= limit || keys >= limit,
    })
}

/// Removes an ended job with all its rows. Its idempotency key stays for its whole window.
pub(crate) fn remove(tx: &mut WriteTransaction<'_>, row: &PurgeableRow) -> Result<(), Error> {
    run(
        tx.connection,
        query!(keys.outlive),
        params![row.id.get(), ended_code(row.state)],
    )?;
    for sql in [
        query!(waiting.delete_revivals),
        query!(deliveries.delete_tries_of_job),
        query!(deliveries.delete_of_job),
        query!(reports.delete_late_reports),
        query!(reports.delete_log_lines),
        query!(reports.delete_progress),
        query!(reports.delete_attempts),
        query!(ready.delete_position),
        query!(done.delete),
        query!(jobs.delete),
    ] {
        run(tx.connection, sql, [row.id.get()])?;
    }
    let counts = tx.memory.counts(row.queue, row.tenant);
    match row.state {
        State::Succeeded => counts.depth.succeeded -= 1,
        State::Failed => counts.depth.failed -= 1,
        _ => counts.depth.cancelled -= 1,
    }
    Ok(())
}

pub(crate) fn trim_events(
    tx: &mut WriteTransaction<'_>,
    before_ms: i64,
    limit: usize,
) -> Result<SweepResult, Error> {
    let oldest = all(tx.connection, query!(events.oldest), [limit], EventTimeRow::read)?;
    let old = oldest.iter().take_while(|event| event.at_ms < before_ms);
    let Some(last) = old.clone().last().map(|event| event.seq) else {
        return Ok(SweepResult::default());
    };
    let rows = old.count();
    run(tx.connection, query!(events.cut), [last])?;
    run(
        tx.connection,
        query!(metadata.set),
        params![TRIMMED_METADATA, last.to_be_bytes()],
    )?;
    Ok(swept(rows, limit))
}

pub(crate) fn next_times(connection: &rusqlite::Connection) -> Result<NextTimes, Error> {
    let time = |sql| Ok::<Option<i64>, Error>(first(connection, sql, [], scalar)?.flatten());
    Ok(NextTimes {
        due_ms: time(query!(waiting.next_delayed))?,
        lease_ms: time(query!(running.next))?,
        schedule_ms: time(query!(schedules.next))?,
        delivery_ms: time(query!(deliveries.next))?,
        purge_ms: time(query!(done.next))?,
    })
}
