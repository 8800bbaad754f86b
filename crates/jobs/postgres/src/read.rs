//! Jobs as readers see them.

use std::collections::HashMap;

use nagaya_jobs::clock::span;
use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::job::Body;
use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::record::JobOptions;
use nagaya_jobs::state::{AttemptEnd, State};
use nagaya_jobs::view::{AttemptView, JobSummary, JobView, LateReport, LeaseView, LogLine, Progress};
use nagaya_postgres_client::{Row, Session};

use crate::rows::{
    AttemptRow, JobRow, LateReportRow, LogLineRow, ProgressRow, SummaryColumns, job_id, unsigned, unsigned_32,
};
use crate::sql::{Queries, query};
use crate::step::{end_of, state_of};
use crate::store::Inner;

impl Inner {
    pub(crate) async fn states(&self, ids: Vec<JobId>) -> Result<Vec<Option<State>>, Error> {
        let session = self.cool().await?;
        self.states_with(&session, &ids).await
    }

    pub(crate) async fn read(&self, ids: Vec<JobId>) -> Result<Vec<Option<JobView>>, Error> {
        let session = self.cool().await?;
        let numbers: Vec<i64> = ids.iter().map(|id| id.get()).collect();
        let rows = session.all(query!(jobs.read), &[&numbers], JobRow::read).await?;
        let mut views = HashMap::new();
        for row in rows {
            let view = self.view(&session, row).await?;
            views.insert(view.summary.id, view);
        }
        Ok(ids.iter().map(|id| views.get(id).cloned()).collect())
    }

    async fn view(&self, session: &Session, mut row: JobRow) -> Result<JobView, Error> {
        let (summary, options) = self.summary(session, row.take_summary()).await?;
        let id = summary.id;
        let lease = match (row.worker, row.started_ms, row.lease_until_ms) {
            (Some(worker), Some(started_at_ms), Some(until_ms)) => Some(LeaseView {
                worker,
                started_at_ms,
                until_ms,
            }),
            _ => None,
        };
        let mut attempts = past_attempts(session, id).await?;
        if let (State::Succeeded, Some(worker), Some(started_at_ms)) =
            (summary.state, row.success_worker, row.success_started_ms)
        {
            attempts.push(AttemptView {
                number: summary.attempt,
                worker,
                started_at_ms,
                ended_at_ms: summary.ended_at_ms,
                end: Some(AttemptEnd::Succeeded),
                error: None,
            });
        }
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
        let (late_reports, late_reports_count) = late_reports(session, id).await?;
        Ok(JobView {
            payload: body(row.content_type, row.payload).unwrap_or_default(),
            timeout: span(row.lease_ms),
            backoff: options.backoff,
            idempotency_key: options.idempotency_key,
            unique_key: options.unique_key,
            concurrency: options.concurrency,
            depends_on: options.depends_on,
            pending_dependencies: row.pending.into_iter().filter_map(JobId::new).collect(),
            webhook: options.webhook,
            retention: options.retention,
            trace: options.trace,
            lease,
            attempts,
            progress: self.progress_of(session, id).await?,
            log_lines: unsigned(row.log_lines),
            result: body(row.result_type, row.result),
            purge_at_ms: row.purge_at_ms,
            late_reports,
            late_reports_count,
            deliveries: self.deliveries_of(session, id).await?,
            summary,
        })
    }

    /// Makes the line of a listing.
    pub(crate) async fn summary(
        &self,
        session: &Session,
        row: SummaryColumns,
    ) -> Result<(JobSummary, JobOptions), Error> {
        let options = JobOptions::read(row.options.as_deref())?;
        let state = match (row.ended, row.running_attempt, row.run_at_ms) {
            (Some(code), _, _) => state_of(code),
            (None, Some(_), _) => State::Running,
            (None, None, Some(_)) => State::Scheduled,
            (None, None, None) => State::Waiting,
        };
        let summary = JobSummary {
            id: job_id(row.id)?,
            queue: self.names.queue_of(session, row.queue).await?.name.clone(),
            tenant: self.names.tenant_of(session, row.tenant).await?.name.clone(),
            kind: row.kind,
            priority: -row.rank,
            created_at_ms: row.created_ms,
            max_retries: unsigned_32(row.max_retries),
            tags: options.tags.clone(),
            state,
            attempt: row.attempt.map_or(0, unsigned_32),
            run_at_ms: row.run_at_ms.filter(|_| state == State::Scheduled),
            ended_at_ms: row.ended_ms,
            error: row.error,
        };
        Ok((summary, options))
    }

    async fn progress_of(&self, session: &Session, id: JobId) -> Result<Option<Progress>, Error> {
        let row = session
            .first(query!(reports.progress), &[&id.get()], ProgressRow::read)
            .await?;
        Ok(row.map(|row| Progress {
            per_mille: row.per_mille.and_then(|parts| u16::try_from(parts).ok()),
            message: row.message,
            data: row.data,
            at_ms: row.at_ms,
        }))
    }

    pub(crate) async fn log_lines(&self, id: JobId, after: u64, limit: usize) -> Result<Vec<LogLine>, Error> {
        let session = self.cool().await?;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit.min(PAGE_MAX)).unwrap_or(i64::MAX);
        let read = |row: &Row| {
            let row = LogLineRow::read(row);
            LogLine {
                number: unsigned(row.number),
                at_ms: row.at_ms,
                attempt: unsigned_32(row.attempt),
                text: row.text,
            }
        };
        session
            .all(query!(reports.log_lines), &[&id.get(), &after, &limit], read)
            .await
    }
}

async fn past_attempts(session: &Session, id: JobId) -> Result<Vec<AttemptView>, Error> {
    let read = |row: &Row| {
        let row = AttemptRow::read(row);
        AttemptView {
            number: unsigned_32(row.number),
            worker: row.worker,
            started_at_ms: row.started_ms,
            ended_at_ms: Some(row.ended_ms),
            end: Some(end_of(row.ending)),
            error: row.error,
        }
    };
    session.all(query!(reports.attempts), &[&id.get()], read).await
}

async fn late_reports(session: &Session, id: JobId) -> Result<(Vec<LateReport>, u64), Error> {
    let rows = session
        .all(query!(reports.late_reports), &[&id.get()], LateReportRow::read)
        .await?;
    let count = rows.last().map_or(0, |row| row.number);
    let report = |row: LateReportRow| LateReport {
        at_ms: row.at_ms,
        attempt: unsigned_32(row.attempt),
        what: row.what,
        why: row.why,
    };
    Ok((rows.into_iter().map(report).collect(), unsigned(count)))
}

/// Makes a body of its two columns; `None` without bytes.
fn body(content_type: Option<String>, bytes: Option<Vec<u8>>) -> Option<Body> {
    bytes.map(|bytes| Body {
        content_type: content_type.map(Into::into),
        bytes: bytes.into(),
    })
}
