//! Reports of workers: success, failure, progress, log lines and lease extensions.

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::error::{Error, LostWhy};
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::limits::{
    ERROR_BYTES_MAX, LATE_REPORTS_MAX, LOG_LINE_BYTES_MAX, LOG_LINES_MAX, PROGRESS_EVENT_GAP,
};
use nagaya_jobs::record::JobOptions;
use nagaya_jobs::request::{
    Completed, Completion, Extension, Failed, Failure, LogReport, ProgressReport, Release, Released,
};
use nagaya_jobs::state::{AttemptEnd, Next, State, after_expiry, after_failure};
use nagaya_jobs::token::Lease;
use nagaya_jobs::view::Progress;
use rusqlite::{Connection, params};

use crate::read::state_of;
use crate::rows::{DoneRow, PastAttemptRow, RunningRow, attempt_end_code, body};
use crate::sql::{first, query, run, scalar};
use crate::write_transaction::{Ending, JobRow, WriteTransaction};

pub(crate) fn complete(tx: &mut WriteTransaction<'_>, report: &Completion) -> Result<Completed, Error> {
    let Some(taken) = take(tx, report.lease)? else {
        return match earlier_success(tx, report)? {
            Some(Ok(())) => Ok(Completed::Repeated),
            Some(Err(why)) => Err(late(tx, report.lease, "complete", why)?),
            None => refuse(tx, report.lease, "complete"),
        };
    };
    let job = job_of_run(tx, &taken)?;
    tx.memory.counts(job.queue, job.tenant).depth.running -= 1;
    tx.release(&job)?;
    let ending = Ending {
        state: State::Succeeded,
        attempt: taken.attempt,
        success: Some(&taken),
        error: None,
        result: report.result.as_ref(),
    };
    tx.end(&job, &ending)?;
    Ok(Completed::Done)
}

/// Returns whether the attempt succeeded before, and whether with the same result.
fn earlier_success(
    tx: &WriteTransaction<'_>,
    report: &Completion,
) -> Result<Option<Result<(), LostWhy>>, Error> {
    let lease = report.lease;
    let found = first(tx.connection, query!(done.find), [lease.id.get()], DoneRow::read)?;
    let found = found.filter(|row| {
        row.state == State::Succeeded && row.attempt == lease.attempt && row.nonce == Some(lease.nonce)
    });
    Ok(match found.map(|row| body(row.content_type, row.result)) {
        Some(result) if result == report.result => Some(Ok(())),
        Some(_) => Some(Err(LostWhy::Conflict)),
        None => None,
    })
}

pub(crate) fn fail(tx: &mut WriteTransaction<'_>, report: &Failure) -> Result<Failed, Error> {
    let error = cut(&report.error, ERROR_BYTES_MAX);
    let Some(taken) = take(tx, report.lease)? else {
        let values = params![report.lease.id.get(), report.lease.attempt];
        let earlier = first(
            tx.connection,
            query!(reports.find_attempt),
            values,
            PastAttemptRow::read,
        )?;
        let earlier = earlier.filter(|row| row.nonce == report.lease.nonce && row.end == AttemptEnd::Failed);
        return match earlier {
            Some(row) if row.error.as_deref() == Some(error) => Ok(Failed::Repeated),
            Some(_) => Err(late(tx, report.lease, "fail", LostWhy::Conflict)?),
            None => refuse(tx, report.lease, "fail"),
        };
    };
    let job = tx.require_job(taken.id)?;
    let next = after_failure(
        taken.tries(),
        report.terms,
        job.options.backoff,
        tx.now_ms,
        rand::random(),
    );
    end_attempt(tx, &taken, AttemptEnd::Failed, Some(error))?;
    let counts = tx.memory.counts(job.queue, job.tenant);
    counts.depth.running -= 1;
    counts.throughput.attempts_failed += 1;
    tx.release(&job)?;
    go_on(tx, &job, &taken, next, error)?;
    Ok(Failed::Taken(next))
}

/// Puts a job back as if its attempt had not begun.
pub(crate) fn release(tx: &mut WriteTransaction<'_>, release: &Release) -> Result<Released, Error> {
    let Some(taken) = take(tx, release.lease)? else {
        return refuse(tx, release.lease, "release");
    };
    let job = tx.require_job(taken.id)?;
    tx.memory.counts(job.queue, job.tenant).depth.running -= 1;
    tx.release(&job)?;
    let tries = taken.tries().given_back();
    let released = Released::after(release.delay, tx.now_ms);
    let run_at_ms = match released {
        Released::Waiting => tx.now_ms,
        Released::Scheduled { at_ms } => at_ms,
    };
    let data = EventData::Retry {
        error: None,
        run_at_ms,
    };
    tx.event(EventKind::Released, &job, taken.attempt, &data)?;
    match released {
        Released::Waiting => {
            let pos = tx.fresh_id().get();
            tx.admit(&job, pos, tries)?;
        }
        Released::Scheduled { at_ms } => tx.delay(&job, at_ms, tries)?,
    }
    Ok(released)
}

/// Takes back a job whose lease expired.
pub(crate) fn expire(tx: &mut WriteTransaction<'_>, taken: &RunningRow) -> Result<(), Error> {
    let error = "the lease ran out";
    let job = tx.require_job(taken.id)?;
    let next = after_expiry(taken.tries());
    end_attempt(tx, taken, AttemptEnd::LeaseLost, Some(error))?;
    let counts = tx.memory.counts(job.queue, job.tenant);
    counts.depth.running -= 1;
    counts.throughput.attempts_failed += 1;
    counts.throughput.leases_lost += 1;
    tx.release(&job)?;
    tx.event(EventKind::LeaseLost, &job, taken.attempt, &EventData::None)?;
    go_on(tx, &job, taken, next, error)
}

/// Applies what follows an attempt that did not succeed.
fn go_on(
    tx: &mut WriteTransaction<'_>,
    job: &JobRow,
    taken: &RunningRow,
    next: Next,
    error: &str,
) -> Result<(), Error> {
    let attempt = taken.attempt;
    let retry = |run_at_ms| EventData::Retry {
        error: Some(error.to_owned()),
        run_at_ms,
    };
    match next {
        Next::Waiting => {
            tx.event(EventKind::Retrying, job, attempt, &retry(tx.now_ms))?;
            let pos = tx.fresh_id().get();
            tx.admit(job, pos, taken.tries())
        }
        Next::Scheduled { at_ms } => {
            tx.event(EventKind::Retrying, job, attempt, &retry(at_ms))?;
            tx.delay(job, at_ms, taken.tries())
        }
        Next::Failed => {
            let ending = Ending {
                state: State::Failed,
                attempt,
                success: None,
                error: Some(error),
                result: None,
            };
            tx.end(job, &ending)
        }
    }
}

pub(crate) fn extend(tx: &mut WriteTransaction<'_>, extension: &Extension) -> Result<i64, Error> {
    let lease = extension.lease;
    let length_ms = extension.length.map(span_ms);
    let values = params![lease.id.get(), lease.attempt, lease.nonce, tx.now_ms, length_ms];
    let until_ms = first(tx.connection, query!(running.extend), values, scalar)?;
    until_ms.map_or_else(|| refuse(tx, lease, "extend"), Ok)
}

pub(crate) fn progress(tx: &mut WriteTransaction<'_>, report: &ProgressReport) -> Result<(), Error> {
    let Some(running) = running(tx, report.lease)? else {
        return refuse(tx, report.lease, "progress");
    };
    let id = report.lease.id.get();
    let last_event_ms: Option<i64> = first(tx.connection, query!(reports.progress_event_at), [id], scalar)?;
    let is_event_due =
        last_event_ms.is_none_or(|last_ms| (tx.now_ms - last_ms).abs() >= span_ms(PROGRESS_EVENT_GAP));
    let progress = Progress {
        at_ms: tx.now_ms,
        ..report.progress.clone()
    };
    let event_ms = if is_event_due {
        tx.now_ms
    } else {
        last_event_ms.unwrap_or(0)
    };
    let values = params![
        id,
        progress.per_mille,
        progress.message,
        progress.data,
        progress.at_ms,
        event_ms
    ];
    run(tx.connection, query!(reports.put_progress), values)?;
    if is_event_due {
        let job = job_of_run(tx, &running)?;
        tx.event(
            EventKind::Progress,
            &job,
            running.attempt,
            &EventData::Progress(progress),
        )?;
    }
    Ok(())
}

pub(crate) fn log(tx: &mut WriteTransaction<'_>, report: &LogReport) -> Result<(), Error> {
    if running(tx, report.lease)?.is_none() {
        return refuse(tx, report.lease, "log");
    }
    let id = report.lease.id.get();
    let last: Option<u64> = first(tx.connection, query!(reports.last_log_line), [id], scalar)?;
    let mut number = last.unwrap_or(0);
    for line in &report.lines {
        number += 1;
        let text = cut(line, LOG_LINE_BYTES_MAX);
        let values = params![id, number, tx.now_ms, report.lease.attempt, text];
        run(tx.connection, query!(reports.insert_log_line), values)?;
    }
    if number > LOG_LINES_MAX {
        run(
            tx.connection,
            query!(reports.cut_log_lines),
            params![id, number - LOG_LINES_MAX],
        )?;
    }
    Ok(())
}

/// Removes and returns the running attempt of a lease, if it still runs.
///
/// Two plain statements: with DELETE ... RETURNING SQLite builds a table in memory each time.
fn take(tx: &WriteTransaction<'_>, lease: Lease) -> Result<Option<RunningRow>, Error> {
    let found = running(tx, lease)?;
    if found.is_some() {
        run(tx.connection, query!(running.delete), [lease.id.get()])?;
    }
    Ok(found)
}

/// Finds the running attempt of a lease, if it still runs.
fn running(tx: &WriteTransaction<'_>, lease: Lease) -> Result<Option<RunningRow>, Error> {
    let found = first(
        tx.connection,
        query!(running.find),
        [lease.id.get()],
        RunningRow::read,
    )?;
    Ok(found.filter(|found| is_of(found, lease)))
}

fn is_of(running: &RunningRow, lease: Lease) -> bool {
    running.nonce == lease.nonce && running.attempt == lease.attempt
}

/// Returns the fields of a running job. A plain job needs no read.
fn job_of_run(tx: &WriteTransaction<'_>, taken: &RunningRow) -> Result<JobRow, Error> {
    if !taken.plain {
        return tx.require_job(taken.id);
    }
    Ok(JobRow {
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

/// Stores an attempt that is over.
pub(crate) fn end_attempt(
    tx: &WriteTransaction<'_>,
    taken: &RunningRow,
    end: AttemptEnd,
    error: Option<&str>,
) -> Result<(), Error> {
    let values = params![
        taken.id.get(),
        taken.attempt,
        taken.nonce,
        taken.worker,
        taken.started_ms,
        tx.now_ms,
        attempt_end_code(end),
        error,
    ];
    run(tx.connection, query!(reports.insert_attempt), values)?;
    Ok(())
}

/// Rejects the use of a lease that is over, and records it on the job.
fn refuse<T>(tx: &mut WriteTransaction<'_>, lease: Lease, what: &str) -> Result<T, Error> {
    let why = why_over(tx.connection, lease)?;
    Err(late(tx, lease, what, why)?)
}

/// Returns why a lease holds no longer; `None` when it does.
pub(crate) fn lost(connection: &Connection, lease: Lease) -> Result<Option<LostWhy>, Error> {
    let found = first(
        connection,
        query!(running.find),
        [lease.id.get()],
        RunningRow::read,
    )?;
    match found.filter(|found| is_of(found, lease)) {
        Some(_) => Ok(None),
        None => why_over(connection, lease).map(Some),
    }
}

/// Returns why a lease is over that is not of a running attempt.
fn why_over(connection: &Connection, lease: Lease) -> Result<LostWhy, Error> {
    let values = params![lease.id.get(), lease.attempt];
    let attempt = first(
        connection,
        query!(reports.find_attempt),
        values,
        PastAttemptRow::read,
    )?;
    Ok(match attempt {
        Some(row) if row.nonce == lease.nonce => match row.end {
            AttemptEnd::LeaseLost => LostWhy::Expired,
            AttemptEnd::Cancelled => LostWhy::Cancelled,
            AttemptEnd::Succeeded | AttemptEnd::Failed => LostWhy::Reported,
        },
        _ => {
            let found = first(connection, query!(done.find), [lease.id.get()], DoneRow::read)?;
            let is_same = |row: &DoneRow| row.attempt == lease.attempt && row.nonce == Some(lease.nonce);
            if found.as_ref().is_some_and(is_same) {
                LostWhy::Reported
            } else {
                LostWhy::Unknown
            }
        }
    })
}

/// Records a late report on its job, if that exists, and returns the error for the worker.
fn late(tx: &mut WriteTransaction<'_>, lease: Lease, what: &str, why: LostWhy) -> Result<Error, Error> {
    let state = state_of(tx.connection, lease.id)?;
    if let Some(job) = tx.find_job(lease.id)? {
        let id = lease.id.get();
        let last: Option<u64> = first(tx.connection, query!(reports.last_late_report), [id], scalar)?;
        let number = last.unwrap_or(0) + 1;
        let values = params![id, number, tx.now_ms, lease.attempt, what, why.name()];
        run(tx.connection, query!(reports.insert_late_report), values)?;
        let kept = LATE_REPORTS_MAX as u64;
        if number > kept {
            run(
                tx.connection,
                query!(reports.cut_late_reports),
                params![id, number - kept],
            )?;
        }
        tx.memory.counts(job.queue, job.tenant).throughput.late_reports += 1;
    }
    Ok(Error::LeaseLost { why, state })
}

/// Truncates a text at a character boundary.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
