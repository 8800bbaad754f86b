//! Operator actions: cancel jobs, and retry ended ones.

use nagaya_jobs::error::Error;
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::id::JobId;
use nagaya_jobs::request::CancelRequest;
use nagaya_jobs::state::{AttemptEnd, State, Tries};
use rusqlite::params;

use crate::read::state_of;
use crate::report::end_attempt;
use crate::rows::{DoneRow, RunningRow, TakenDelayedRow, TakenRow, attempt_end_code, job_id};
use crate::sql::{first, query, run, scalar};
use crate::write_transaction::{Ending, JobRow, WriteTransaction};

pub(crate) fn cancel(tx: &mut WriteTransaction<'_>, request: &CancelRequest) -> Result<State, Error> {
    let id = request.id;
    let Some(state) = state_of(tx.connection, id)? else {
        return Err(Error::no_such("job", id));
    };
    match state {
        State::Cancelled => return Ok(State::Cancelled),
        State::Succeeded | State::Failed => return Err(Error::WrongState { id, state }),
        State::Scheduled | State::Waiting | State::Running => (),
    }
    let job = tx.require_job(id)?;
    let reason = request.reason.as_deref();
    let attempt = withdraw(tx, &job, reason)?;
    let ending = Ending {
        state: State::Cancelled,
        attempt,
        success: None,
        error: reason,
        result: None,
    };
    tx.end(&job, &ending)?;
    Ok(state)
}

/// Removes a job from the table that it is in. Returns its attempts so far.
fn withdraw(tx: &mut WriteTransaction<'_>, job: &JobRow, reason: Option<&str>) -> Result<u32, Error> {
    let id = job.id.get();
    let connection = tx.connection;
    if let Some(taken) = first(connection, query!(running.take), [id], RunningRow::read)? {
        end_attempt(tx, &taken, AttemptEnd::Cancelled, reason)?;
        tx.memory.counts(job.queue, job.tenant).depth.running -= 1;
        tx.release(job)?;
        return Ok(taken.attempt);
    }
    if let Some(taken) = first(
        connection,
        query!(waiting.take_delayed),
        [id],
        TakenDelayedRow::read,
    )? {
        tx.memory.counts(job.queue, job.tenant).depth.scheduled -= 1;
        return Ok(taken.attempt);
    }
    if run(connection, query!(waiting.delete_blocked), [id])? > 0 {
        forget_parents(tx, job.id)?;
        tx.memory.counts(job.queue, job.tenant).depth.blocked -= 1;
        return Ok(0);
    }
    if let Some(taken) = first(connection, query!(concurrency.take_held), [id], TakenRow::read)? {
        tx.memory.counts(job.queue, job.tenant).depth.blocked -= 1;
        return Ok(taken.attempt);
    }
    let pos: Option<i64> = first(connection, query!(ready.position), [id], scalar)?;
    let values = params![job.queue, job.tenant, -i64::from(job.priority), pos.unwrap_or(id)];
    let Some(taken) = first(connection, query!(ready.take), values, TakenRow::read)? else {
        return Err(Error::Damaged {
            what: format!("job {id} is in no place"),
        });
    };
    tx.memory.counts(job.queue, job.tenant).depth.ready -= 1;
    tx.release(job)?;
    Ok(taken.attempt)
}

fn forget_parents(tx: &mut WriteTransaction<'_>, child: JobId) -> Result<(), Error> {
    let rows = run(
        tx.connection,
        query!(waiting.delete_dependencies_of),
        [child.get()],
    )?;
    tx.memory.dependencies -= i64::try_from(rows).unwrap_or(0);
    Ok(())
}

pub(crate) fn retry(tx: &mut WriteTransaction<'_>, id: JobId) -> Result<(), Error> {
    let Some(state) = state_of(tx.connection, id)? else {
        return Err(Error::no_such("job", id));
    };
    if !state.has_ended() {
        return Err(Error::WrongState { id, state });
    }
    let job = tx.require_job(id)?;
    if let Some(key) = &job.options.unique_key {
        let values = params![job.queue, job.tenant, key];
        if let Some(other) = first(tx.connection, query!(keys.find_unique), values, job_id)? {
            let state = state_of(tx.connection, other)?.unwrap_or(State::Waiting);
            return Err(Error::WrongState { id: other, state });
        }
        let values = params![job.queue, job.tenant, key, id.get()];
        run(tx.connection, query!(keys.insert_unique), values)?;
    }
    let attempt = keep_last_attempt(tx, id)?;
    run(tx.connection, query!(done.delete), [id.get()])?;
    run(tx.connection, query!(waiting.delete_resolving), [id.get()])?;
    let counts = tx.memory.counts(job.queue, job.tenant);
    match state {
        State::Succeeded => counts.depth.succeeded -= 1,
        State::Failed => counts.depth.failed -= 1,
        _ => counts.depth.cancelled -= 1,
    }
    let data = EventData::Retry {
        error: None,
        run_at_ms: tx.now_ms,
    };
    tx.event(EventKind::Retrying, &job, attempt, &data)?;
    let tries = Tries {
        attempt,
        attempt_max: attempt,
    };
    let pos = tx.fresh_id().get();
    tx.admit(&job, pos, tries.renewed(job.max_retries))
}

/// Stores the attempt that succeeded with the earlier ones. Returns the attempts so far.
fn keep_last_attempt(tx: &WriteTransaction<'_>, id: JobId) -> Result<u32, Error> {
    let Some(done) = first(tx.connection, query!(done.find), [id.get()], DoneRow::read)? else {
        return Ok(0);
    };
    let attempt = done.attempt;
    if let (Some(nonce), Some(worker), Some(started_ms)) = (done.nonce, done.worker, done.started_ms) {
        let none: Option<&str> = None;
        let succeeded = attempt_end_code(AttemptEnd::Succeeded);
        let values = params![
            id.get(),
            attempt,
            nonce,
            worker,
            started_ms,
            done.ended_ms,
            succeeded,
            none
        ];
        run(tx.connection, query!(reports.insert_attempt), values)?;
    }
    Ok(attempt)
}
