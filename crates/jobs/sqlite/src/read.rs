//! Reads jobs: everything about one, or the summary for a listing.

use nagaya_jobs::clock::span;
use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::job::Body;
use nagaya_jobs::record::JobOptions;
use nagaya_jobs::state::{AttemptEnd, State};
use nagaya_jobs::view::{AttemptView, JobSummary, JobView, LateReport, LeaseView, LogLine, Progress};
use rusqlite::{Connection, params};

use crate::deliveries;
use crate::names::Names;
use crate::rows::{
    AttemptRow, BodyRow, DoneRow, LateReportRow, LogLineRow, ProgressRow, RunningRow, StateRow, SummaryRow,
    body, job_id,
};
use crate::sql::{all, first, query, scalar};

/// Returns the state of a job; `None` when it does not exist.
pub(crate) fn state_of(connection: &Connection, id: JobId) -> Result<Option<State>, Error> {
    let row = first(connection, query!(jobs.state), [id.get()], StateRow::read)?;
    Ok(row.map(|row| state_of_row(&row)))
}

/// Returns the state of a job of one tenant; `None` for any other job.
pub(crate) fn state_of_tenants_job(
    connection: &Connection,
    tenant: i64,
    id: JobId,
) -> Result<Option<State>, Error> {
    let row = first(connection, query!(jobs.state), [id.get()], StateRow::read)?;
    Ok(row
        .filter(|row| row.tenant == tenant)
        .map(|row| state_of_row(&row)))
}

fn state_of_row(row: &StateRow) -> State {
    match row.ended {
        Some(ended) => ended,
        None if row.is_running => State::Running,
        None if row.is_delayed => State::Scheduled,
        None => State::Waiting,
    }
}

/// Reads the summary of a job and its options.
pub(crate) fn summary(
    connection: &Connection,
    names: &Names,
    id: JobId,
) -> Result<Option<(JobSummary, JobOptions)>, Error> {
    let Some(row) = first(connection, query!(jobs.summary), [id.get()], SummaryRow::read)? else {
        return Ok(None);
    };
    let options = JobOptions::read(row.options.as_deref())?;
    let mut summary = summary_of(row, &options, names)?;
    if summary.state == State::Waiting && summary.attempt == 0 {
        summary.attempt = ready_attempt(connection, id)?;
    }
    Ok(Some((summary, options)))
}

fn summary_of(row: SummaryRow, options: &JobOptions, names: &Names) -> Result<JobSummary, Error> {
    let state = match (row.ended, row.running_attempt, row.delayed_attempt) {
        (Some(ended), _, _) => ended,
        (None, Some(_), _) => State::Running,
        (None, None, Some(_)) => State::Scheduled,
        (None, None, None) => State::Waiting,
    };
    let attempt = row
        .done_attempt
        .or(row.running_attempt)
        .or(row.delayed_attempt)
        .or(row.held_attempt);
    Ok(JobSummary {
        id: row.id,
        queue: names.queue(row.queue)?,
        tenant: names.tenant(row.tenant)?,
        kind: row.kind,
        tags: options.tags.clone(),
        state,
        priority: row.priority,
        attempt: attempt.unwrap_or(0),
        max_retries: row.max_retries,
        created_at_ms: row.created_ms,
        run_at_ms: row.run_at_ms,
        ended_at_ms: row.ended_ms,
        error: row.error,
    })
}

/// Returns the attempts of a job that is ready again.
fn ready_attempt(connection: &Connection, id: JobId) -> Result<u32, Error> {
    let attempts = all(connection, query!(reports.attempts), [id.get()], AttemptRow::read)?;
    Ok(attempts.last().map_or(0, |attempt| attempt.number))
}

pub(crate) fn view(connection: &Connection, names: &Names, id: JobId) -> Result<Option<JobView>, Error> {
    let Some((summary, options)) = summary(connection, names, id)? else {
        return Ok(None);
    };
    let Some(stored) = first(connection, query!(jobs.body), [id.get()], BodyRow::read)? else {
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
    let late_reports_count = first(connection, query!(reports.last_late_report), [id.get()], scalar)?;
    let log_lines = first(connection, query!(reports.last_log_line), [id.get()], scalar)?;
    Ok(Some(JobView {
        payload: body(stored.content_type, stored.payload).unwrap_or_default(),
        timeout: span(stored.lease_ms),
        backoff: options.backoff,
        idempotency_key: options.idempotency_key,
        unique_key: options.unique_key,
        concurrency: options.concurrency,
        depends_on: options.depends_on,
        pending_dependencies: all(connection, query!(waiting.parents), [id.get()], job_id)?,
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

fn attempts(connection: &Connection, id: JobId) -> Result<Vec<AttemptView>, Error> {
    let rows = all(connection, query!(reports.attempts), [id.get()], AttemptRow::read)?;
    let view = |row: AttemptRow| AttemptView {
        number: row.number,
        worker: row.worker,
        started_at_ms: row.started_ms,
        ended_at_ms: row.ended_ms,
        end: Some(row.end),
        error: row.error,
    };
    Ok(rows.into_iter().map(view).collect())
}

type Done = (Option<AttemptView>, Option<Body>, Option<i64>);

/// Reads the attempt that succeeded, the result, and the time of removal.
fn done(connection: &Connection, id: JobId) -> Result<Done, Error> {
    let Some(row) = first(connection, query!(done.find), [id.get()], DoneRow::read)? else {
        return Ok((None, None, None));
    };
    let success = row
        .worker
        .zip(row.started_ms)
        .map(|(worker, started_at_ms)| AttemptView {
            number: row.attempt,
            worker,
            started_at_ms,
            ended_at_ms: Some(row.ended_ms),
            end: Some(AttemptEnd::Succeeded),
            error: None,
        });
    Ok((success, body(row.content_type, row.result), Some(row.purge_at_ms)))
}

fn progress(connection: &Connection, id: JobId) -> Result<Option<Progress>, Error> {
    let row = first(
        connection,
        query!(reports.progress),
        [id.get()],
        ProgressRow::read,
    )?;
    Ok(row.map(|row| Progress {
        per_mille: row.per_mille,
        message: row.message,
        data: row.data,
        at_ms: row.at_ms,
    }))
}

fn late_reports(connection: &Connection, id: JobId) -> Result<Vec<LateReport>, Error> {
    let rows = all(
        connection,
        query!(reports.late_reports),
        [id.get()],
        LateReportRow::read,
    )?;
    let report = |row: LateReportRow| LateReport {
        at_ms: row.at_ms,
        attempt: row.attempt,
        what: row.what,
        why: row.why,
    };
    Ok(rows.into_iter().map(report).collect())
}

pub(crate) fn log_lines(
    connection: &Connection,
    id: JobId,
    after: u64,
    limit: usize,
) -> Result<Vec<LogLine>, Error> {
    let values = params![id.get(), after, limit];
    let rows = all(connection, query!(reports.log_lines), values, LogLineRow::read)?;
    let line = |row: LogLineRow| LogLine {
        number: row.number,
        at_ms: row.at_ms,
        attempt: row.attempt,
        text: row.text,
    };
    Ok(rows.into_iter().map(line).collect())
}
