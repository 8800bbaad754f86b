//! What workers report: success, failure, progress, log lines, and that they are still there.

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::error::{Error, LostWhy};
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::job::Body;
use nagaya_jobs::limits::{
    ERROR_BYTES_MAX, LATE_REPORTS_MAX, LOG_LINE_BYTES_MAX, LOG_LINES_MAX, PROGRESS_EVENT_GAP,
};
use nagaya_jobs::record::JobOptions;
use nagaya_jobs::request::{Completed, Completion, Extension, Failed, Failure, LogReport, ProgressReport};
use nagaya_jobs::state::{AttemptEnd, Next, State, after_expiry, after_failure};
use nagaya_jobs::token::Lease;
use nagaya_jobs::view::Progress;
use rusqlite::params;

use crate::books::{Books, Card, Ending, Run};
use crate::read::state_of;
use crate::sql::{first, query, run};

pub(crate) fn complete(books: &mut Books<'_>, report: &Completion) -> Result<Completed, Error> {
    let Some(taken) = take(books, report.lease)? else {
        return match earlier_success(books, report)? {
            Some(Ok(())) => Ok(Completed::Repeated),
            Some(Err(why)) => Err(late(books, report.lease, "complete", why)?),
            None => refuse(books, report.lease, "complete"),
        };
    };
    let card = card(books, &taken)?;
    books.memory.counts(card.queue, card.tenant).depth.running -= 1;
    books.release(&card)?;
    let ending = Ending {
        state: State::Succeeded,
        attempt: taken.tries.attempt,
        run: Some(&taken),
        error: None,
        result: report.result.as_ref(),
    };
    books.end(&card, &ending)?;
    Ok(Completed::Done)
}

/// Tells whether the attempt had succeeded before, and with the same result.
fn earlier_success(books: &Books<'_>, report: &Completion) -> Result<Option<Result<(), LostWhy>>, Error> {
    let lease = report.lease;
    let found = first(books.connection, query!("done/find"), [lease.id.get()], |row| {
        let same = row.get::<_, i64>(0)? == 4
            && row.get::<_, u32>(1)? == lease.attempt
            && row.get::<_, Option<i64>>(2)? == Some(lease.nonce);
        let bytes: Option<Vec<u8>> = row.get(9)?;
        let content_type: Option<String> = row.get(8)?;
        let result = bytes.map(|bytes| Body {
            content_type: content_type.map(Into::into),
            bytes: bytes.into(),
        });
        Ok((same, result))
    })?;
    Ok(match found {
        Some((true, result)) if result == report.result => Some(Ok(())),
        Some((true, _)) => Some(Err(LostWhy::Conflict)),
        _ => None,
    })
}

pub(crate) fn fail(books: &mut Books<'_>, report: &Failure) -> Result<Failed, Error> {
    let error = cut(&report.error, ERROR_BYTES_MAX);
    let Some(taken) = take(books, report.lease)? else {
        let values = params![report.lease.id.get(), report.lease.attempt];
        let earlier = first(books.connection, query!("attempts/find"), values, |row| {
            let same = row.get::<_, i64>(0)? == report.lease.nonce && row.get::<_, i64>(1)? == 2;
            Ok((same, row.get::<_, Option<String>>(2)?))
        })?;
        return match earlier {
            Some((true, was)) if was.as_deref() == Some(error) => Ok(Failed::Repeated),
            Some((true, _)) => Err(late(books, report.lease, "fail", LostWhy::Conflict)?),
            _ => refuse(books, report.lease, "fail"),
        };
    };
    let card = books.card_of(taken.id)?;
    let next = after_failure(
        taken.tries,
        report.terms,
        card.options.backoff,
        books.now_ms,
        rand::random(),
    );
    end_attempt(books, &taken, AttemptEnd::Failed, Some(error))?;
    let counts = books.memory.counts(card.queue, card.tenant);
    counts.depth.running -= 1;
    counts.passed.attempts_failed += 1;
    books.release(&card)?;
    go_on(books, &card, &taken, next, error)?;
    Ok(Failed::Taken(next))
}

/// Takes back a job whose lease ran out.
pub(crate) fn expire(books: &mut Books<'_>, taken: &Run) -> Result<(), Error> {
    let error = "the lease ran out";
    let card = books.card_of(taken.id)?;
    let next = after_expiry(taken.tries);
    end_attempt(books, taken, AttemptEnd::LeaseLost, Some(error))?;
    let counts = books.memory.counts(card.queue, card.tenant);
    counts.depth.running -= 1;
    counts.passed.attempts_failed += 1;
    counts.passed.leases_lost += 1;
    books.release(&card)?;
    books.event(EventKind::LeaseLost, &card, taken.tries.attempt, &EventData::None)?;
    go_on(books, &card, taken, next, error)
}

/// Moves a job on after an attempt that did not succeed.
fn go_on(books: &mut Books<'_>, card: &Card, taken: &Run, next: Next, error: &str) -> Result<(), Error> {
    let attempt = taken.tries.attempt;
    let retry = |run_at_ms| EventData::Retry {
        error: Some(error.to_owned()),
        run_at_ms,
    };
    match next {
        Next::Waiting => {
            books.event(EventKind::Retrying, card, attempt, &retry(books.now_ms))?;
            let pos = books.fresh_id().get();
            books.admit(card, pos, taken.tries)
        }
        Next::Scheduled { at_ms } => {
            books.event(EventKind::Retrying, card, attempt, &retry(at_ms))?;
            books.delay(card, at_ms, taken.tries)
        }
        Next::Failed => {
            let ending = Ending {
                state: State::Failed,
                attempt,
                run: None,
                error: Some(error),
                result: None,
            };
            books.end(card, &ending)
        }
    }
}

pub(crate) fn extend(books: &mut Books<'_>, extension: &Extension) -> Result<i64, Error> {
    let lease = extension.lease;
    let length_ms = extension.length.map(span_ms);
    let values = params![
        lease.id.get(),
        lease.attempt,
        lease.nonce,
        books.now_ms,
        length_ms
    ];
    let until_ms = first(books.connection, query!("running/extend"), values, |row| {
        row.get(0)
    })?;
    until_ms.map_or_else(|| refuse(books, lease, "extend"), Ok)
}

pub(crate) fn progress(books: &mut Books<'_>, report: &ProgressReport) -> Result<(), Error> {
    let Some(running) = running(books, report.lease)? else {
        return refuse(books, report.lease, "progress");
    };
    let id = report.lease.id.get();
    let told: Option<i64> = first(books.connection, query!("progress/event_at"), [id], |row| {
        row.get(0)
    })?;
    let tell = told.is_none_or(|told| (books.now_ms - told).abs() >= span_ms(PROGRESS_EVENT_GAP));
    let progress = Progress {
        at_ms: books.now_ms,
        ..report.progress.clone()
    };
    let told = if tell { books.now_ms } else { told.unwrap_or(0) };
    let values = params![
        id,
        progress.per_mille,
        progress.message,
        progress.data,
        progress.at_ms,
        told
    ];
    run(books.connection, query!("progress/put"), values)?;
    if tell {
        let card = card(books, &running)?;
        books.event(
            EventKind::Progress,
            &card,
            running.tries.attempt,
            &EventData::Progress(progress),
        )?;
    }
    Ok(())
}

pub(crate) fn log(books: &mut Books<'_>, report: &LogReport) -> Result<(), Error> {
    if running(books, report.lease)?.is_none() {
        return refuse(books, report.lease, "log");
    }
    let id = report.lease.id.get();
    let last: Option<u64> = first(books.connection, query!("logs/last"), [id], |row| row.get(0))?;
    let mut number = last.unwrap_or(0);
    for line in &report.lines {
        number += 1;
        let text = cut(line, LOG_LINE_BYTES_MAX);
        let values = params![id, number, books.now_ms, report.lease.attempt, text];
        run(books.connection, query!("logs/insert"), values)?;
    }
    if number > LOG_LINES_MAX {
        run(
            books.connection,
            query!("logs/cut"),
            params![id, number - LOG_LINES_MAX],
        )?;
    }
    Ok(())
}

/// Takes the running attempt of a lease, if it still is.
///
/// Two plain statements: one that deletes and returns makes SQLite build a table in memory each time.
fn take(books: &Books<'_>, lease: Lease) -> Result<Option<Run>, Error> {
    let found = running(books, lease)?;
    if found.is_some() {
        run(books.connection, query!("running/delete"), [lease.id.get()])?;
    }
    Ok(found)
}

/// Finds the running attempt of a lease, if it still is.
fn running(books: &Books<'_>, lease: Lease) -> Result<Option<Run>, Error> {
    let found = first(
        books.connection,
        query!("running/find"),
        [lease.id.get()],
        Run::read,
    )?;
    Ok(found.filter(|found| found.nonce == lease.nonce && found.tries.attempt == lease.attempt))
}

/// Returns the card of a running job, without reading it when there is nothing to know.
fn card(books: &Books<'_>, taken: &Run) -> Result<Card, Error> {
    if !taken.plain {
        return books.card_of(taken.id);
    }
    Ok(Card {
        id: taken.id,
        queue: taken.queue,
        tenant: taken.tenant,
        priority: 0,
        max_retries: 0,
        run_at_ms: None,
        options: JobOptions::default(),
        plain: true,
    })
}

/// Keeps an attempt that is over.
pub(crate) fn end_attempt(
    books: &Books<'_>,
    taken: &Run,
    end: AttemptEnd,
    error: Option<&str>,
) -> Result<(), Error> {
    let values = params![
        taken.id.get(),
        taken.tries.attempt,
        taken.nonce,
        taken.worker,
        taken.started_ms,
        books.now_ms,
        end_code(end),
        error,
    ];
    run(books.connection, query!("attempts/insert"), values)?;
    Ok(())
}

/// The number that the file keeps for the end of an attempt.
pub(crate) fn end_code(end: AttemptEnd) -> i64 {
    match end {
        AttemptEnd::Succeeded => 1,
        AttemptEnd::Failed => 2,
        AttemptEnd::LeaseLost => 3,
        AttemptEnd::Cancelled => 4,
    }
}

/// Refuses the use of a lease that is over, and notes it on the job.
fn refuse<T>(books: &mut Books<'_>, lease: Lease, what: &str) -> Result<T, Error> {
    let values = params![lease.id.get(), lease.attempt];
    let attempt = first(books.connection, query!("attempts/find"), values, |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
    })?;
    let why = match attempt {
        Some((nonce, end)) if nonce == lease.nonce => match end {
            3 => LostWhy::Expired,
            4 => LostWhy::Cancelled,
            _ => LostWhy::Reported,
        },
        _ => {
            let found = first(books.connection, query!("done/find"), [lease.id.get()], |row| {
                Ok((row.get::<_, u32>(1)?, row.get::<_, Option<i64>>(2)?))
            })?;
            match found == Some((lease.attempt, Some(lease.nonce))) {
                true => LostWhy::Reported,
                false => LostWhy::Unknown,
            }
        }
    };
    Err(late(books, lease, what, why)?)
}

/// Notes a late report on its job, if that is there, and returns what the worker is told.
fn late(books: &mut Books<'_>, lease: Lease, what: &str, why: LostWhy) -> Result<Error, Error> {
    let state = state_of(books.connection, lease.id)?;
    if let Some(card) = books.card(lease.id)? {
        let id = lease.id.get();
        let last: Option<u64> = first(books.connection, query!("late_reports/last"), [id], |row| {
            row.get(0)
        })?;
        let number = last.unwrap_or(0) + 1;
        let values = params![id, number, books.now_ms, lease.attempt, what, why.name()];
        run(books.connection, query!("late_reports/insert"), values)?;
        let kept = LATE_REPORTS_MAX as u64;
        if number > kept {
            run(
                books.connection,
                query!("late_reports/cut"),
                params![id, number - kept],
            )?;
        }
        books.memory.counts(card.queue, card.tenant).passed.late_reports += 1;
    }
    Ok(Error::LeaseLost { why, state })
}

/// Cuts a text at a character's border.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
