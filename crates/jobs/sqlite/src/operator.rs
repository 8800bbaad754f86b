//! Operator actions: cancel, edit, retry and remove jobs.

use std::collections::VecDeque;

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::error::Error;
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::id::JobId;
use nagaya_jobs::name::QueueName;
use nagaya_jobs::request::{CancelRequest, Edit};
use nagaya_jobs::state::{AttemptEnd, State, Tries};
use rusqlite::params;

use crate::maintenance;
use crate::read::state_of;
use crate::report::end_attempt;
use crate::rows::{DoneRow, PurgeableRow, RunningRow, TakenDelayedRow, TakenRow, attempt_end_code, job_id};
use crate::sql::{all, first, query, run, scalar};
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
    let taken = take_ready(tx, job)?;
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
    tx.admit(&job, pos, tries.renewed(job.max_retries))?;
    run(tx.connection, query!(waiting.delete_revivals_of), [id.get()])?;
    revive(tx, id)
}

/// Jobs that come back with one retry at most; the rest of a larger tree stays cancelled.
const REVIVALS_MAX: usize = 10_000;

/// Lets the jobs wait again that were cancelled because this one had not succeeded, and those that were cancelled
/// because of them.
fn revive(tx: &mut WriteTransaction<'_>, parent: JobId) -> Result<(), Error> {
    let mut parents = VecDeque::from([parent]);
    let mut revived = 0;
    while let Some(parent) = parents.pop_front() {
        let children = all(tx.connection, query!(waiting.revivals), [parent.get()], job_id)?;
        for child in children {
            if revived < REVIVALS_MAX && revive_one(tx, child)? {
                revived += 1;
                parents.push_back(child);
            }
        }
    }
    Ok(())
}

/// Returns whether the job waits again.
fn revive_one(tx: &mut WriteTransaction<'_>, id: JobId) -> Result<bool, Error> {
    if state_of(tx.connection, id)? != Some(State::Cancelled) {
        return Ok(false);
    }
    let job = tx.require_job(id)?;
    let mut pending = Vec::new();
    for &parent in &job.options.depends_on {
        match state_of(tx.connection, parent)? {
            // One that is gone had succeeded: otherwise this job would have been cancelled because of it.
            None | Some(State::Succeeded) => (),
            Some(State::Failed | State::Cancelled) => {
                let values = params![parent.get(), id.get()];
                run(tx.connection, query!(waiting.insert_revival), values)?;
                return Ok(false);
            }
            Some(State::Scheduled | State::Waiting | State::Running) => pending.push(parent),
        }
    }
    pending.sort();
    pending.dedup();
    if pending.is_empty() || !hold_unique(tx, &job)? {
        return Ok(false);
    }
    for sql in [
        query!(waiting.delete_revivals_of),
        query!(done.delete),
        query!(waiting.delete_resolving),
        // What it waits for decides when it runs now.
        query!(jobs.forget_run_at),
    ] {
        run(tx.connection, sql, [id.get()])?;
    }
    tx.memory.counts(job.queue, job.tenant).depth.cancelled -= 1;
    let data = EventData::Retry {
        error: None,
        run_at_ms: tx.now_ms,
    };
    tx.event(EventKind::Retrying, &job, 0, &data)?;
    tx.block(&job, &pending)?;
    Ok(true)
}

/// Takes the unique key of a job that comes back. Returns whether it is free.
fn hold_unique(tx: &WriteTransaction<'_>, job: &JobRow) -> Result<bool, Error> {
    let Some(key) = &job.options.unique_key else {
        return Ok(true);
    };
    let values = params![job.queue, job.tenant, key];
    if first(tx.connection, query!(keys.find_unique), values, job_id)?.is_some() {
        return Ok(false);
    }
    let values = params![job.queue, job.tenant, key, job.id.get()];
    run(tx.connection, query!(keys.insert_unique), values)?;
    Ok(true)
}

pub(crate) fn edit(tx: &mut WriteTransaction<'_>, edit: &Edit) -> Result<(), Error> {
    let id = edit.id;
    let Some(state) = state_of(tx.connection, id)? else {
        return Err(Error::no_such("job", id));
    };
    if !matches!(state, State::Scheduled | State::Waiting) {
        return Err(Error::WrongState { id, state });
    }
    let was = tx.require_job(id)?;
    let queue = match &edit.queue {
        Some(name) => Some(tx.queue_num(name)?).filter(|queue| *queue != was.queue),
        None => None,
    };
    if let (Some(queue), Some(name)) = (queue, &edit.queue) {
        check_move(tx, &was, queue, name)?;
    }
    let blocked = first(tx.connection, query!(waiting.is_blocked), [id.get()], scalar)? == Some(true);
    // Out of its place by what it was, back into one by what it is.
    let waiting = if blocked {
        None
    } else {
        Some(withdraw_waiting(tx, &was)?)
    };
    let (content_type, bytes) = match &edit.payload {
        Some(body) => (body.content_type.as_deref(), Some(&body.bytes[..])),
        None => (None, None),
    };
    let values = params![
        id.get(),
        edit.priority,
        edit.run_at_ms,
        edit.timeout.map(span_ms),
        edit.max_retries,
        content_type,
        bytes,
        queue,
    ];
    run(tx.connection, query!(jobs.edit), values)?;
    if let Some(queue) = queue {
        move_unique_key(tx, &was, queue)?;
    }
    let Some(waiting) = waiting else {
        if let Some(queue) = queue {
            tx.memory.counts(was.queue, was.tenant).depth.blocked -= 1;
            tx.memory.counts(queue, was.tenant).depth.blocked += 1;
        }
        return Ok(());
    };
    let job = tx.require_job(id)?;
    let tries = match edit.max_retries {
        Some(retries) => Tries {
            attempt: waiting.tries.attempt,
            attempt_max: retries.saturating_add(1).max(waiting.tries.attempt + 1),
        },
        None => waiting.tries,
    };
    match edit
        .run_at_ms
        .or(waiting.run_at_ms)
        .filter(|at_ms| *at_ms > tx.now_ms)
    {
        Some(at_ms) => tx.delay(&job, at_ms, tries),
        None => {
            let pos = tx.fresh_id().get();
            tx.admit(&job, pos, tries)
        }
    }
}

/// Moves the unique key of a job, if it has one, to another queue.
fn move_unique_key(tx: &WriteTransaction<'_>, job: &JobRow, queue: i64) -> Result<(), Error> {
    let Some(key) = &job.options.unique_key else {
        return Ok(());
    };
    let values = params![job.queue, job.tenant, key, job.id.get()];
    run(tx.connection, query!(keys.delete_unique), values)?;
    let values = params![queue, job.tenant, key, job.id.get()];
    run(tx.connection, query!(keys.insert_unique), values)?;
    Ok(())
}

/// Checks that a queue takes a job of another one.
fn check_move(
    tx: &mut WriteTransaction<'_>,
    job: &JobRow,
    queue: i64,
    name: &QueueName,
) -> Result<(), Error> {
    if let Some(depth_max) = tx.settings(queue).depth_max
        && tx.memory.unstarted(queue) >= depth_max
    {
        return Err(Error::QueueFull {
            queue: name.clone(),
            depth_max,
        });
    }
    if let Some(key) = &job.options.unique_key {
        let values = params![queue, job.tenant, key];
        let holder: Option<i64> = first(tx.connection, query!(keys.find_unique), values, scalar)?;
        if holder.is_some() {
            return Err(Error::unique_key_held());
        }
    }
    Ok(())
}

/// A job that was taken out of its place.
struct Waiting {
    tries: Tries,
    run_at_ms: Option<i64>,
}

/// Removes a job that waits for no other one from its place.
fn withdraw_waiting(tx: &mut WriteTransaction<'_>, job: &JobRow) -> Result<Waiting, Error> {
    let id = job.id.get();
    let sql = query!(waiting.take_delayed);
    if let Some(taken) = first(tx.connection, sql, [id], TakenDelayedRow::read)? {
        tx.memory.counts(job.queue, job.tenant).depth.scheduled -= 1;
        return Ok(Waiting {
            tries: Tries {
                attempt: taken.attempt,
                attempt_max: taken.attempt_max,
            },
            run_at_ms: Some(taken.run_at_ms),
        });
    }
    let held = first(tx.connection, query!(concurrency.take_held), [id], TakenRow::read)?;
    let taken = match held {
        Some(taken) => {
            tx.memory.counts(job.queue, job.tenant).depth.blocked -= 1;
            taken
        }
        None => {
            let taken = take_ready(tx, job)?;
            tx.release(job)?;
            taken
        }
    };
    // A position of its own is written again when it gets one.
    run(tx.connection, query!(ready.delete_position), [id])?;
    Ok(Waiting {
        tries: Tries {
            attempt: taken.attempt,
            attempt_max: taken.attempt_max,
        },
        run_at_ms: None,
    })
}

/// Removes a job from the ready ones.
fn take_ready(tx: &mut WriteTransaction<'_>, job: &JobRow) -> Result<TakenRow, Error> {
    let id = job.id.get();
    let pos: Option<i64> = first(tx.connection, query!(ready.position), [id], scalar)?;
    let values = params![job.queue, job.tenant, -i64::from(job.priority), pos.unwrap_or(id)];
    let Some(taken) = first(tx.connection, query!(ready.take), values, TakenRow::read)? else {
        return Err(Error::Damaged {
            what: format!("job {id} is in no place"),
        });
    };
    tx.memory.counts(job.queue, job.tenant).depth.ready -= 1;
    Ok(taken)
}

pub(crate) fn remove(tx: &mut WriteTransaction<'_>, id: JobId) -> Result<(), Error> {
    let Some(state) = state_of(tx.connection, id)? else {
        return Err(Error::no_such("job", id));
    };
    if !state.has_ended() {
        return Err(Error::WrongState { id, state });
    }
    let job = tx.require_job(id)?;
    let row = PurgeableRow {
        id,
        state,
        queue: job.queue,
        tenant: job.tenant,
    };
    maintenance::remove(tx, &row)
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
