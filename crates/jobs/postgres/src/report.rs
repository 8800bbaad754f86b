//! Reports other than success: failure, progress and log lines.

use std::borrow::Cow;
use std::collections::HashSet;

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::error::Error;
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::limits::{ERROR_BYTES_MAX, LOG_LINE_BYTES_MAX, LOG_LINES_MAX, PROGRESS_EVENT_GAP};
use nagaya_jobs::record;
use nagaya_jobs::request::{Failed, Failure, LogReport, ProgressReport};
use nagaya_jobs::state::{AttemptEnd, Next, after_failure};
use nagaya_jobs::view::Progress;

use crate::rows::ProgressedRow;
use crate::sql::{Queries, begin, commit, query};
use crate::stale_report::ReportKind;
use crate::step::{RunningJob, Step};
use crate::store::Inner;

/// Most reports in one transaction.
pub(crate) const BATCH_MAX: usize = 256;

impl Inner {
    pub(crate) async fn fail(&self, reports: Vec<Failure>) -> Result<Vec<Result<Failed, Error>>, Error> {
        let mut answers = Vec::with_capacity(reports.len());
        let mut rest = &reports[..];
        while !rest.is_empty() {
            // Each job once per transaction: a second report on it is judged after the first.
            let mut seen = HashSet::new();
            let fits = |one: &&Failure| seen.len() < BATCH_MAX && seen.insert(one.lease.id);
            let batch = &rest[..rest.iter().take_while(fits).count()];
            rest = &rest[batch.len()..];
            self.fail_batch(batch, &mut answers).await?;
        }
        Ok(answers)
    }

    async fn fail_batch(
        &self,
        batch: &[Failure],
        answers: &mut Vec<Result<Failed, Error>>,
    ) -> Result<(), Error> {
        let mut session = self.hot().await?;
        let now_ms = self.time.now(&session).await?;
        let leases: Vec<_> = batch.iter().map(|one| one.lease).collect();
        let transaction = begin(&mut session).await?;
        let mut step = Step::new(self, &transaction, now_ms);
        let mut taken = step.take_running(&leases).await?;
        let mut nexts: Vec<Option<Next>> = Vec::with_capacity(batch.len());
        for report in batch {
            let at = taken
                .iter()
                .position(|job: &RunningJob| job.position.id == report.lease.id);
            let Some(row) = at.map(|at| taken.swap_remove(at)) else {
                nexts.push(None);
                continue;
            };
            let next = after_failure(
                row.tries(),
                report.terms,
                row.position.options.backoff,
                now_ms,
                rand::random(),
            );
            let error = cut(&report.error, ERROR_BYTES_MAX);
            step.finish_attempt(row, AttemptEnd::Failed, &error, next).await?;
            nexts.push(Some(next));
        }
        let after_commit = step.finish().await?;
        commit(transaction).await?;
        let resolves = after_commit.resolves;
        self.publish(after_commit);
        for (report, next) in batch.iter().zip(nexts) {
            answers.push(match next {
                Some(next) => Ok(Failed::Taken(next)),
                None => {
                    let error = cut(&report.error, ERROR_BYTES_MAX);
                    let what = ReportKind::Fail(&error);
                    self.judge_stale(&session, report.lease, what, now_ms)
                        .await
                        .map(|()| Failed::Repeated)
                }
            });
        }
        drop(session);
        self.resolve_soon(resolves).await;
        Ok(())
    }

    pub(crate) async fn progress(
        &self,
        reports: Vec<ProgressReport>,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let mut session = self.hot().await?;
        let mut answers = Vec::with_capacity(reports.len());
        for report in reports {
            let now_ms = self.time.now(&session).await?;
            answers.push(self.progress_one(&mut session, report, now_ms).await);
        }
        Ok(answers)
    }

    async fn progress_one(
        &self,
        session: &mut nagaya_postgres_client::Connection,
        report: ProgressReport,
        now_ms: i64,
    ) -> Result<(), Error> {
        let lease = report.lease;
        let attempt = i32::try_from(lease.attempt).unwrap_or(i32::MAX);
        let clean = |text: Option<String>| text.map(|text| cut(&text, text.len()).into_owned());
        let progress = Progress {
            at_ms: now_ms,
            per_mille: report.progress.per_mille,
            message: clean(report.progress.message),
            data: clean(report.progress.data),
        };
        let per_mille = progress.per_mille.and_then(|parts| i16::try_from(parts).ok());
        let transaction = begin(session).await?;
        let row = transaction
            .first(
                query!(reports.put_progress),
                &[
                    &now_ms,
                    &lease.id.get(),
                    &lease.nonce,
                    &attempt,
                    &per_mille,
                    &progress.message,
                    &progress.data,
                    &span_ms(PROGRESS_EVENT_GAP),
                ],
                ProgressedRow::read,
            )
            .await?;
        let Some(row) = row else {
            drop(transaction);
            return Err(self.refuse(session, lease, ReportKind::Progress, now_ms).await);
        };
        let mut step = Step::new(self, &transaction, now_ms);
        if row.is_event_due {
            let position = row.position()?;
            let data = record::write_event_data(&EventData::Progress(progress));
            step.event(&position, EventKind::Progress, data).await?;
        }
        let after_commit = step.finish().await?;
        commit(transaction).await?;
        self.publish(after_commit);
        Ok(())
    }

    pub(crate) async fn log(&self, reports: Vec<LogReport>) -> Result<Vec<Result<(), Error>>, Error> {
        let session = self.hot().await?;
        let mut answers = Vec::with_capacity(reports.len());
        for report in reports {
            let now_ms = self.time.now(&session).await?;
            let attempt = i32::try_from(report.lease.attempt).unwrap_or(i32::MAX);
            let newest = report
                .lines
                .len()
                .saturating_sub(usize::try_from(LOG_LINES_MAX).unwrap_or(usize::MAX));
            let skipped = i64::try_from(newest).unwrap_or(0);
            let lines: Vec<Cow<'_, str>> = report.lines[newest..]
                .iter()
                .map(|line| cut(line, LOG_LINE_BYTES_MAX))
                .collect();
            let kept = i64::try_from(LOG_LINES_MAX).unwrap_or(i64::MAX);
            let stored: Option<i64> = session
                .first_scalar(
                    query!(reports.insert_log_lines),
                    &[
                        &now_ms,
                        &report.lease.id.get(),
                        &report.lease.nonce,
                        &attempt,
                        &lines,
                        &skipped,
                        &kept,
                    ],
                )
                .await?;
            answers.push(match stored {
                Some(_) => Ok(()),
                None => Err(self.refuse(&session, report.lease, ReportKind::Log, now_ms).await),
            });
        }
        Ok(answers)
    }

    /// Returns the error for a report that cannot be a repeat.
    pub(crate) async fn refuse(
        &self,
        session: &nagaya_postgres_client::Session,
        lease: nagaya_jobs::token::Lease,
        what: ReportKind<'_>,
        now_ms: i64,
    ) -> Error {
        match self.judge_stale(session, lease, what, now_ms).await {
            Err(error) => error,
            Ok(()) => Error::LeaseLost {
                why: nagaya_jobs::error::LostWhy::Reported,
                state: None,
            },
        }
    }

    /// Resolves dependents at once; maintenance retries what fails here.
    pub(crate) async fn resolve_soon(&self, resolves: bool) {
        if resolves && let Err(error) = self.resolve_dependents(BATCH_MAX).await {
            tracing::debug!(%error, "dependents will be resolved later");
        }
    }
}

/// Truncates a text at a character boundary, and replaces NUL, which PostgreSQL does not allow in texts.
fn cut(text: &str, bytes_max: usize) -> Cow<'_, str> {
    let text = &text[..text.floor_char_boundary(bytes_max)];
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}
