//! What must be done now and then: expired leases, due times, dependents, retention.

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::request::{NextTimes, Round};
use nagaya_jobs::state::{State, Tries};
use rusqlite::params;

use crate::books::{Books, Ending, Run, job_id};
use crate::memory::TRIMMED_FACT;
use crate::report::expire;
use crate::sql::{all, first, query, run};

fn round(rows: usize, limit: usize) -> Round {
    Round {
        rows,
        more: rows >= limit,
    }
}

pub(crate) fn sweep_expired(books: &mut Books<'_>, limit: usize) -> Result<Round, Error> {
    let values = params![books.now_ms, limit];
    let mut expired = all(
        books.connection,
        query!("running/take_expired"),
        values,
        Run::read,
    )?;
    expired.sort_by_key(|taken| (taken.lease_until_ms, taken.id));
    for taken in &expired {
        expire(books, taken)?;
    }
    Ok(round(expired.len(), limit))
}

pub(crate) fn move_due(books: &mut Books<'_>, limit: usize) -> Result<Round, Error> {
    let values = params![books.now_ms, limit];
    let mut due = all(books.connection, query!("delayed/take_due"), values, |row| {
        let tries = Tries {
            attempt: row.get(2)?,
            attempt_max: row.get(3)?,
        };
        Ok((row.get::<_, i64>(0)?, job_id(row, 1)?, tries))
    })?;
    due.sort_by_key(|(run_at_ms, id, _)| (*run_at_ms, *id));
    let rows = due.len();
    for (_, id, tries) in due {
        let card = books.card_of(id)?;
        books.memory.counts(card.queue, card.tenant).depth.scheduled -= 1;
        let pos = books.fresh_id().get();
        books.admit(&card, pos, tries)?;
    }
    Ok(round(rows, limit))
}

/// Carries endings to dependents, at most `limit` of them.
pub(crate) fn resolve(books: &mut Books<'_>, limit: usize) -> Result<Round, Error> {
    let mut rows = 0;
    while rows < limit {
        let parent = first(books.connection, query!("resolving/first"), [], |row| {
            Ok((job_id(row, 0)?, row.get::<_, bool>(1)?))
        })?;
        let Some((parent, succeeded)) = parent else {
            break;
        };
        let values = params![parent.get(), limit - rows];
        let children = all(books.connection, query!("dependencies/children"), values, |row| {
            job_id(row, 0)
        })?;
        if children.is_empty() {
            run(books.connection, query!("resolving/delete"), [parent.get()])?;
            continue;
        }
        rows += children.len();
        for child in children {
            match succeeded {
                true => release_child(books, parent, child)?,
                false => cancel_child(books, parent, child)?,
            }
        }
    }
    Ok(round(rows, limit))
}

fn release_child(books: &mut Books<'_>, parent: JobId, child: JobId) -> Result<(), Error> {
    run(
        books.connection,
        query!("dependencies/delete"),
        params![parent.get(), child.get()],
    )?;
    books.memory.dependencies -= 1;
    if run(books.connection, query!("blocked/lower"), [child.get()])? > 0 {
        return Ok(());
    }
    run(books.connection, query!("blocked/delete"), [child.get()])?;
    let card = books.card_of(child)?;
    books.memory.counts(card.queue, card.tenant).depth.blocked -= 1;
    let tries = Tries::fresh(card.max_retries);
    match card.run_at_ms {
        Some(run_at_ms) if run_at_ms > books.now_ms => books.delay(&card, run_at_ms, tries),
        _ => {
            let pos = books.fresh_id().get();
            books.admit(&card, pos, tries)
        }
    }
}

fn cancel_child(books: &mut Books<'_>, parent: JobId, child: JobId) -> Result<(), Error> {
    let rows = run(
        books.connection,
        query!("dependencies/delete_of_child"),
        [child.get()],
    )?;
    books.memory.dependencies -= i64::try_from(rows).unwrap_or(0);
    run(books.connection, query!("blocked/delete"), [child.get()])?;
    let card = books.card_of(child)?;
    books.memory.counts(card.queue, card.tenant).depth.blocked -= 1;
    let error = format!("job {parent}, on which this one depends, did not succeed");
    let ending = Ending {
        state: State::Cancelled,
        attempt: 0,
        run: None,
        error: Some(&error),
        result: None,
    };
    books.end(&card, &ending)
}

pub(crate) fn purge(books: &mut Books<'_>, limit: usize) -> Result<Round, Error> {
    let values = params![books.now_ms, limit];
    let old = all(books.connection, query!("done/purgeable"), values, |row| {
        Ok((job_id(row, 0)?, row.get::<_, i64>(1)?, row.get(2)?, row.get(3)?))
    })?;
    for &(id, state, queue, tenant) in &old {
        for sql in [
            query!("deliveries/delete_tries_of_job"),
            query!("deliveries/delete_of_job"),
            query!("late_reports/delete"),
            query!("logs/delete"),
            query!("progress/delete"),
            query!("attempts/delete"),
            query!("positions/delete"),
            query!("done/delete"),
            query!("jobs/delete"),
        ] {
            run(books.connection, sql, [id.get()])?;
        }
        let counts = books.memory.counts(queue, tenant);
        match state {
            4 => counts.depth.succeeded -= 1,
            5 => counts.depth.failed -= 1,
            _ => counts.depth.cancelled -= 1,
        }
    }
    let keys = run(
        books.connection,
        query!("idempotency/purge"),
        params![books.now_ms, limit],
    )?;
    Ok(Round {
        rows: old.len() + keys,
        more: old.len() >= limit || keys >= limit,
    })
}

pub(crate) fn trim_events(books: &mut Books<'_>, before_ms: i64, limit: usize) -> Result<Round, Error> {
    let oldest = all(books.connection, query!("events/oldest"), [limit], |row| {
        Ok((row.get::<_, u64>(0)?, row.get::<_, i64>(1)?))
    })?;
    let old = oldest.iter().take_while(|(_, at_ms)| *at_ms < before_ms);
    let Some(&(last, _)) = old.clone().last() else {
        return Ok(Round::default());
    };
    let rows = old.count();
    run(books.connection, query!("events/cut"), [last])?;
    run(
        books.connection,
        query!("facts/set"),
        params![TRIMMED_FACT, last.to_be_bytes()],
    )?;
    Ok(round(rows, limit))
}

pub(crate) fn next_times(connection: &rusqlite::Connection) -> Result<NextTimes, Error> {
    let time =
        |sql| Ok::<_, Error>(first(connection, sql, [], |row| row.get::<_, Option<i64>>(0))?.flatten());
    Ok(NextTimes {
        due_ms: time(query!("delayed/next"))?,
        lease_ms: time(query!("running/next"))?,
        schedule_ms: time(query!("schedules/next"))?,
        delivery_ms: time(query!("deliveries/next"))?,
        purge_ms: time(query!("done/next"))?,
    })
}
