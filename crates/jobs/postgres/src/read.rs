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

use crate::error::damaged;
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
        let rows = session.rows(query!(jobs.read), &[&numbers]).await?;
        let mut views = HashMap::new();
        for row in &rows {
            let view = self.view(&session, row).await?;
            views.insert(view.summary.id, view);
        }
        Ok(ids.iter().map(|id| views.get(id).cloned()).collect())
    }

    async fn view(&self, session: &Session, row: &Row) -> Result<JobView, Error> {
        let (summary, options) = self.summary(session, row).await?;
        let id = summary.id;
        let body = |kind: usize, bytes: usize| {
            row.get::<_, Option<Vec<u8>>>(bytes).map(|bytes| Body {
                content_type: row.get::<_, Option<&str>>(kind).map(Into::into),
                bytes: bytes.into(),
            })
        };
        let lease = row.get::<_, Option<String>>(20).map(|worker| LeaseView {
            worker,
            started_at_ms: row.get(21),
            until_ms: row.get(22),
        });
        let mut attempts = past_attempts(session, id).await?;
        if let (State::Succeeded, Some(worker)) = (summary.state, row.get::<_, Option<String>>(26)) {
            attempts.push(AttemptView {
                number: summary.attempt,
                worker,
                started_at_ms: row.get(27),
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
        let pending: Vec<i64> = row.get(30);
        Ok(JobView {
            payload: body(16, 17).unwrap_or_default(),
            timeout: span(row.get(18)),
            backoff: options.backoff,
            idempotency_key: options.idempotency_key,
            unique_key: options.unique_key,
            concurrency: options.concurrency,
            depends_on: options.depends_on,
            pending_dependencies: pending.into_iter().filter_map(JobId::new).collect(),
            webhook: options.webhook,
            retention: options.retention,
            trace: options.trace,
            lease,
            attempts,
            progress: self.progress_of(session, id).await?,
            log_lines: u64::try_from(row.get::<_, i64>(29)).unwrap_or(0),
            result: body(23, 24),
            purge_at_ms: row.get(25),
            late_reports,
            late_reports_count,
            deliveries: self.deliveries_of(session, id).await?,
            summary,
        })
    }

    /// Reads the first columns of a job's row, those of a listing.
    pub(crate) async fn summary(
        &self,
        session: &Session,
        row: &Row,
    ) -> Result<(JobSummary, JobOptions), Error> {
        let options = JobOptions::read(row.get(7))?;
        let number = |column: usize| {
            row.get::<_, Option<i32>>(column)
                .map(|one| u32::try_from(one).unwrap_or(0))
        };
        let ended: Option<i16> = row.get(11);
        let run_at_ms: Option<i64> = row.get(9);
        let state = match (ended, number(8), run_at_ms) {
            (Some(code), _, _) => state_of(code),
            (None, Some(_), _) => State::Running,
            (None, None, Some(_)) => State::Scheduled,
            (None, None, None) => State::Waiting,
        };
        let attempt = number(12)
            .or(number(8))
            .or(number(10))
            .or(number(15))
            .or(number(19));
        let summary = JobSummary {
            id: JobId::new(row.get(0)).ok_or_else(|| damaged("a job id is not positive"))?,
            queue: self.names.queue_of(session, row.get(1)).await?.name.clone(),
            tenant: self.names.tenant_of(session, row.get(2)).await?.name.clone(),
            kind: row.get(3),
            priority: -row.get::<_, i16>(4),
            created_at_ms: row.get(5),
            max_retries: u32::try_from(row.get::<_, i32>(6)).unwrap_or(0),
            tags: options.tags.clone(),
            state,
            attempt: attempt.unwrap_or(0),
            run_at_ms: run_at_ms.filter(|_| state == State::Scheduled),
            ended_at_ms: row.get(13),
            error: row.get(14),
        };
        Ok((summary, options))
    }

    async fn progress_of(&self, session: &Session, id: JobId) -> Result<Option<Progress>, Error> {
        let row = session.row_opt(query!(reports.progress), &[&id.get()]).await?;
        Ok(row.map(|row| Progress {
            per_mille: row
                .get::<_, Option<i16>>(0)
                .and_then(|parts| u16::try_from(parts).ok()),
            message: row.get(1),
            data: row.get(2),
            at_ms: row.get(3),
        }))
    }

    pub(crate) async fn log_lines(&self, id: JobId, after: u64, limit: usize) -> Result<Vec<LogLine>, Error> {
        let session = self.cool().await?;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit.min(PAGE_MAX)).unwrap_or(i64::MAX);
        let rows = session
            .rows(query!(reports.log_lines), &[&id.get(), &after, &limit])
            .await?;
        let line = |row: &Row| LogLine {
            number: u64::try_from(row.get::<_, i64>(0)).unwrap_or(0),
            at_ms: row.get(1),
            attempt: u32::try_from(row.get::<_, i32>(2)).unwrap_or(0),
            text: row.get(3),
        };
        Ok(rows.iter().map(line).collect())
    }
}

async fn past_attempts(session: &Session, id: JobId) -> Result<Vec<AttemptView>, Error> {
    let rows = session.rows(query!(reports.attempts), &[&id.get()]).await?;
    let view = |row: &Row| AttemptView {
        number: u32::try_from(row.get::<_, i32>(0)).unwrap_or(0),
        worker: row.get(1),
        started_at_ms: row.get(2),
        ended_at_ms: Some(row.get(3)),
        end: Some(end_of(row.get(4))),
        error: row.get(5),
    };
    Ok(rows.iter().map(view).collect())
}

async fn late_reports(session: &Session, id: JobId) -> Result<(Vec<LateReport>, u64), Error> {
    let rows = session.rows(query!(reports.late_reports), &[&id.get()]).await?;
    let count = rows.last().map_or(0, |row| row.get::<_, i64>(0));
    let report = |row: &Row| LateReport {
        at_ms: row.get(1),
        attempt: u32::try_from(row.get::<_, i32>(2)).unwrap_or(0),
        what: row.get(3),
        why: row.get(4),
    };
    Ok((
        rows.iter().map(report).collect(),
        u64::try_from(count).unwrap_or(0),
    ))
}
