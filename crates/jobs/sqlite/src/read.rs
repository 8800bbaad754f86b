//! Reading jobs: everything about one, or a line for a listing.

use bytes::Bytes;
use nagaya_jobs::clock::span;
use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::job::Body;
use nagaya_jobs::record::JobOptions;
use nagaya_jobs::state::{AttemptEnd, State};
use nagaya_jobs::view::{AttemptView, JobSummary, JobView, LateReport, LeaseView, LogLine, Progress};
use nagaya_sqlite_client::strange_value;
use rusqlite::{Connection, Row};

use crate::deliveries;
use crate::names::Names;
use crate::sql::{all, first, query};
use crate::write_transaction::{RunningRow, job_id};

/// Returns the state of a job; nothing when it is not there.
pub(crate) fn state_of(connection: &Connection, id: JobId) -> Result<Option<State>, Error> {
    let place = first(connection, query!(jobs.state), [id.get()], |row| {
        let ended: Option<i64> = row.get(4)?;
        match (ended, row.get(3)?, row.get(5)?) {
            (Some(code), _, _) => ended_state(4, code),
            (None, true, _) => Ok(State::Running),
            (None, false, true) => Ok(State::Scheduled),
            (None, false, false) => Ok(State::Waiting),
        }
    })?;
    Ok(place)
}

/// Reads the number that the file keeps for an ending.
pub(crate) fn ended_state(column: usize, code: i64) -> rusqlite::Result<State> {
    match code {
        4 => Ok(State::Succeeded),
        5 => Ok(State::Failed),
        6 => Ok(State::Cancelled),
        _ => Err(strange_value(column, "state")),
    }
}

/// A line of a listing and the options that came with it.
pub(crate) fn summary(
    connection: &Connection,
    names: &Names,
    id: JobId,
) -> Result<Option<(JobSummary, JobOptions)>, Error> {
    let row = first(connection, query!(jobs.summary), [id.get()], |row| {
        let options: Option<String> = row.get(7)?;
        Ok((summary_row(row, names)?, options))
    })?;
    let Some((mut summary, options)) = row else {
        return Ok(None);
    };
    let options = JobOptions::read(options.as_deref())?;
    summary.tags.clone_from(&options.tags);
    if summary.state == State::Waiting && summary.attempt == 0 {
        summary.attempt = ready_attempt(connection, id)?;
    }
    Ok(Some((summary, options)))
}

fn summary_row(row: &Row<'_>, names: &Names) -> rusqlite::Result<JobSummary> {
    let running: Option<u32> = row.get(8)?;
    let run_at_ms: Option<i64> = row.get(9)?;
    let delayed: Option<u32> = row.get(10)?;
    let ended: Option<i64> = row.get(11)?;
    let done: Option<u32> = row.get(12)?;
    let held: Option<u32> = row.get(15)?;
    let state = match (ended, running, delayed) {
        (Some(code), _, _) => ended_state(11, code)?,
        (None, Some(_), _) => State::Running,
        (None, None, Some(_)) => State::Scheduled,
        (None, None, None) => State::Waiting,
    };
    Ok(JobSummary {
        id: job_id(row, 0)?,
        queue: names.queue(row, 1)?,
        tenant: names.tenant(row, 2)?,
        kind: row.get(3)?,
        tags: Vec::new(),
        state,
        priority: row.get(4)?,
        attempt: done.or(running).or(delayed).or(held).unwrap_or(0),
        max_retries: row.get(6)?,
        created_at_ms: row.get(5)?,
        run_at_ms,
        ended_at_ms: row.get(13)?,
        error: row.get(14)?,
    })
}

/// Returns the attempts of a job that is ready once more.
fn ready_attempt(connection: &Connection, id: JobId) -> Result<u32, Error> {
    let last = all(connection, query!(reports.attempts), [id.get()], |row| row.get(0))?;
    Ok(last.last().copied().unwrap_or(0))
}

pub(crate) fn view(connection: &Connection, names: &Names, id: JobId) -> Result<Option<JobView>, Error> {
    let Some((summary, options)) = summary(connection, names, id)? else {
        return Ok(None);
    };
    let body = first(connection, query!(jobs.body), [id.get()], |row| {
        Ok((row.get(1)?, body(row, 2, 3)?))
    })?;
    let Some((lease_ms, payload)) = body else {
        return Ok(None);
    };
    let mut attempts = attempts(connection, id)?;
    let running = first(connection, query!(running.find), [id.get()], RunningRow::read)?;
    let lease = running.map(|run| LeaseView {
        worker: run.worker,
        started_at_ms: run.started_ms,
        until_ms: run.lease_until_ms,
    });
    if let Some(lease) = &lease {
        attempts.push(AttemptView {
            number: summary.attempt,
            worker: lease.worker.clone(),
            started_at_ms: lease.started_at_ms,
            ended_at_ms: None,
            end: None,
            error: None,
        });
    }
    let (success, result, purge_at_ms) = done(connection, id)?;
    attempts.extend(success);
    let late_reports_count = first(connection, query!(reports.last_late_report), [id.get()], |row| {
        row.get(0)
    })?;
    let log_lines = first(connection, query!(reports.last_log_line), [id.get()], |row| {
        row.get(0)
    })?;
    Ok(Some(JobView {
        payload: payload.unwrap_or_default(),
        timeout: span(lease_ms),
        backoff: options.backoff,
        idempotency_key: options.idempotency_key,
        unique_key: options.unique_key,
        concurrency: options.concurrency,
        depends_on: options.depends_on,
        pending_dependencies: all(connection, query!(waiting.parents), [id.get()], |row| {
            job_id(row, 0)
        })?,
        webhook: options.webhook,
        retention: options.retention,
        trace: options.trace,
        lease,
        attempts,
        progress: progress(connection, id)?,
        log_lines: log_lines.unwrap_or(0),
        result,
        purge_at_ms,
        late_reports: late_reports(connection, id)?,
        late_reports_count: late_reports_count.unwrap_or(0),
        deliveries: deliveries::of_job(connection, names, id)?,
        summary,
    }))
}

/// Reads bytes and their type; nothing for no bytes.
pub(crate) fn body(row: &Row<'_>, content_type: usize, bytes: usize) -> rusqlite::Result<Option<Body>> {
    let content_type: Option<String> = row.get(content_type)?;
    let bytes: Option<Vec<u8>> = row.get(bytes)?;
    Ok(bytes.map(|bytes| Body {
        content_type: content_type.map(Into::into),
        bytes: Bytes::from(bytes),
    }))
}

fn attempts(connection: &Connection, id: JobId) -> Result<Vec<AttemptView>, Error> {
    let rows = all(connection, query!(reports.attempts), [id.get()], |row| {
        let end = match row.get::<_, i64>(4)? {
            1 => AttemptEnd::Succeeded,
            2 => AttemptEnd::Failed,
            3 => AttemptEnd::LeaseLost,
            4 => AttemptEnd::Cancelled,
            _ => return Err(strange_value(4, "end")),
        };
        Ok(AttemptView {
            number: row.get(0)?,
            worker: row.get(1)?,
            started_at_ms: row.get(2)?,
            ended_at_ms: row.get(3)?,
            end: Some(end),
            error: row.get(5)?,
        })
    })?;
    Ok(rows)
}

type Done = (Option<AttemptView>, Option<Body>, Option<i64>);

/// Reads the attempt that succeeded, the result, and when the job goes.
fn done(connection: &Connection, id: JobId) -> Result<Done, Error> {
    let row = first(connection, query!(done.find), [id.get()], |row| {
        let worker: Option<String> = row.get(3)?;
        let started: Option<i64> = row.get(4)?;
        let ended_at_ms = row.get(5)?;
        let number = row.get(1)?;
        let success = worker.zip(started).map(|(worker, started_at_ms)| AttemptView {
            number,
            worker,
            started_at_ms,
            ended_at_ms,
            end: Some(AttemptEnd::Succeeded),
            error: None,
        });
        Ok((success, body(row, 8, 9)?, row.get(6)?))
    })?;
    Ok(row.unwrap_or_default())
}

fn progress(connection: &Connection, id: JobId) -> Result<Option<Progress>, Error> {
    let row = first(connection, query!(reports.progress), [id.get()], |row| {
        Ok(Progress {
            per_mille: row.get(0)?,
            message: row.get(1)?,
            data: row.get(2)?,
            at_ms: row.get(3)?,
        })
    })?;
    Ok(row)
}

fn late_reports(connection: &Connection, id: JobId) -> Result<Vec<LateReport>, Error> {
    let rows = all(connection, query!(reports.late_reports), [id.get()], |row| {
        Ok(LateReport {
            at_ms: row.get(0)?,
            attempt: row.get(1)?,
            what: row.get(2)?,
            why: row.get(3)?,
        })
    })?;
    Ok(rows)
}

pub(crate) fn log_lines(
    connection: &Connection,
    id: JobId,
    after: u64,
    limit: usize,
) -> Result<Vec<LogLine>, Error> {
    let rows = all(
        connection,
        query!(reports.log_lines),
        rusqlite::params![id.get(), after, limit],
        |row| {
            Ok(LogLine {
                number: row.get(0)?,
                at_ms: row.get(1)?,
                attempt: row.get(2)?,
                text: row.get(3)?,
            })
        },
    )?;
    Ok(rows)
}
