//! What people do with jobs: cancel them, and let them run again.

use nagaya_jobs::error::Error;
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::id::JobId;
use nagaya_jobs::request::CancelRequest;
use nagaya_jobs::state::{AttemptEnd, State, Tries};
use rusqlite::params;

use crate::books::{Books, Card, Ending, Run, job_id};
use crate::read::state_of;
use crate::report::end_attempt;
use crate::sql::{first, query, run};

pub(crate) fn cancel(books: &mut Books<'_>, request: &CancelRequest) -> Result<State, Error> {
    let id = request.id;
    let Some(state) = state_of(books.connection, id)? else {
        return Err(Error::no_such("job", id));
    };
    match state {
        State::Cancelled => return Ok(State::Cancelled),
        State::Succeeded | State::Failed => return Err(Error::WrongState { id, state }),
        State::Scheduled | State::Waiting | State::Running => (),
    }
    let card = books.card_of(id)?;
    let reason = request.reason.as_deref();
    let attempt = withdraw(books, &card, reason)?;
    let ending = Ending {
        state: State::Cancelled,
        attempt,
        run: None,
        error: reason,
        result: None,
    };
    books.end(&card, &ending)?;
    Ok(state)
}

/// Takes a job out of the place where it is, whichever that is. Returns its attempts so far.
fn withdraw(books: &mut Books<'_>, card: &Card, reason: Option<&str>) -> Result<u32, Error> {
    let id = card.id.get();
    let connection = books.connection;
    if let Some(taken) = first(connection, query!("running/take_any"), [id], Run::read)? {
        end_attempt(books, &taken, AttemptEnd::Cancelled, reason)?;
        books.memory.counts(card.queue, card.tenant).depth.running -= 1;
        books.release(card)?;
        return Ok(taken.tries.attempt);
    }
    if let Some(attempt) = first(connection, query!("delayed/delete"), [id], |row| row.get(1))? {
        books.memory.counts(card.queue, card.tenant).depth.scheduled -= 1;
        return Ok(attempt);
    }
    if run(connection, query!("blocked/delete"), [id])? > 0 {
        forget_parents(books, card.id)?;
        books.memory.counts(card.queue, card.tenant).depth.blocked -= 1;
        return Ok(0);
    }
    if let Some(attempt) = first(connection, query!("held/delete_by_id"), [id], |row| row.get(0))? {
        books.memory.counts(card.queue, card.tenant).depth.blocked -= 1;
        return Ok(attempt);
    }
    let pos: Option<i64> = first(connection, query!("positions/get"), [id], |row| row.get(0))?;
    let values = params![
        card.queue,
        card.tenant,
        -i64::from(card.priority),
        pos.unwrap_or(id)
    ];
    let Some(attempt) = first(connection, query!("ready/delete"), values, |row| row.get(0))? else {
        return Err(Error::Damaged {
            what: format!("job {id} is in no place"),
        });
    };
    books.memory.counts(card.queue, card.tenant).depth.ready -= 1;
    books.release(card)?;
    Ok(attempt)
}

fn forget_parents(books: &mut Books<'_>, child: JobId) -> Result<(), Error> {
    let rows = run(
        books.connection,
        query!("dependencies/delete_of_child"),
        [child.get()],
    )?;
    books.memory.dependencies -= i64::try_from(rows).unwrap_or(0);
    Ok(())
}

pub(crate) fn retry(books: &mut Books<'_>, id: JobId) -> Result<(), Error> {
    let Some(state) = state_of(books.connection, id)? else {
        return Err(Error::no_such("job", id));
    };
    if !state.has_ended() {
        return Err(Error::WrongState { id, state });
    }
    let card = books.card_of(id)?;
    if let Some(key) = &card.options.unique_key {
        let values = params![card.queue, card.tenant, key];
        if let Some(other) = first(books.connection, query!("uniques/find"), values, |row| {
            job_id(row, 0)
        })? {
            let state = state_of(books.connection, other)?.unwrap_or(State::Waiting);
            return Err(Error::WrongState { id: other, state });
        }
        let values = params![card.queue, card.tenant, key, id.get()];
        run(books.connection, query!("uniques/insert"), values)?;
    }
    let attempt = keep_last_attempt(books, id)?;
    run(books.connection, query!("done/delete"), [id.get()])?;
    run(books.connection, query!("resolving/delete"), [id.get()])?;
    let counts = books.memory.counts(card.queue, card.tenant);
    match state {
        State::Succeeded => counts.depth.succeeded -= 1,
        State::Failed => counts.depth.failed -= 1,
        _ => counts.depth.cancelled -= 1,
    }
    let data = EventData::Retry {
        error: None,
        run_at_ms: books.now_ms,
    };
    books.event(EventKind::Retrying, &card, attempt, &data)?;
    let tries = Tries {
        attempt,
        attempt_max: attempt,
    };
    let pos = books.fresh_id().get();
    books.admit(&card, pos, tries.renewed(card.max_retries))
}

/// Moves the attempt that succeeded to the others. Returns the attempts so far.
fn keep_last_attempt(books: &Books<'_>, id: JobId) -> Result<u32, Error> {
    let done = first(books.connection, query!("done/find"), [id.get()], |row| {
        let attempt: u32 = row.get(1)?;
        let worker: Option<String> = row.get(3)?;
        let nonce: Option<i64> = row.get(2)?;
        let started: Option<i64> = row.get(4)?;
        Ok((attempt, nonce.zip(worker).zip(started), row.get::<_, i64>(5)?))
    })?;
    let Some((attempt, succeeded, ended_ms)) = done else {
        return Ok(0);
    };
    if let Some(((nonce, worker), started_ms)) = succeeded {
        let none: Option<&str> = None;
        let values = params![id.get(), attempt, nonce, worker, started_ms, ended_ms, 1, none];
        run(books.connection, query!("attempts/insert"), values)?;
    }
    Ok(attempt)
}
