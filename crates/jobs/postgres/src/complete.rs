//! Reports of success. Most jobs end in one statement for the whole call. Jobs with unique keys, concurrency
//! keys or webhooks need a transaction. The rest are repeats, and reports that came too late.

use std::collections::{HashMap, HashSet};

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::error::Error;
use nagaya_jobs::event::EventKind;
use nagaya_jobs::id::JobId;
use nagaya_jobs::request::{Completed, Completion};
use nagaya_jobs::state::State;
use nagaya_jobs::token::Lease;
use nagaya_postgres_client::{Connection, Session};

use crate::flags;
use crate::rows::CompletedRow;
use crate::sql::{Queries, begin, commit, query};
use crate::stale_report::ReportKind;
use crate::step::{Ending, RunningJob, Step};
use crate::store::Inner;

/// Most reports in one statement.
const BATCH_MAX: usize = 512;

impl Inner {
    pub(crate) async fn complete(
        &self,
        reports: Vec<Completion>,
    ) -> Result<Vec<Result<Completed, Error>>, Error> {
        let mut session = self.hot().await?;
        self.names.refresh(&session).await?;
        let mut answers = Vec::with_capacity(reports.len());
        let mut resolves = false;
        let mut rest = &reports[..];
        while !rest.is_empty() {
            // Each job once per batch: a second report on it is judged after the first.
            let mut seen = HashSet::new();
            let fits = |one: &&Completion| seen.len() < BATCH_MAX && seen.insert(one.lease.id);
            let batch = &rest[..rest.iter().take_while(fits).count()];
            rest = &rest[batch.len()..];
            self.complete_batch(&mut session, batch, &mut resolves, &mut answers)
                .await?;
        }
        // Needs its own connection, and a task that holds one must not wait for another.
        drop(session);
        self.resolve_soon(resolves).await;
        Ok(answers)
    }

    async fn complete_batch(
        &self,
        session: &mut Connection,
        batch: &[Completion],
        resolves: &mut bool,
        answers: &mut Vec<Result<Completed, Error>>,
    ) -> Result<(), Error> {
        let now_ms = self.time.now(session).await?;
        let mut done = self.complete_plain(session, batch, now_ms, resolves).await?;
        let rest: Vec<&Completion> = batch.iter().filter(|one| !done.contains(&one.lease.id)).collect();
        // The jobs above have ended; their answers must not be lost with this error.
        let failed = match self.complete_special(session, &rest, now_ms, resolves).await {
            Ok(more) => {
                done.extend(more);
                None
            }
            Err(error) => Some(error),
        };
        for report in batch {
            answers.push(match &failed {
                _ if done.contains(&report.lease.id) => Ok(Completed::Done),
                Some(error) => Err(error.again()),
                None => {
                    let what = ReportKind::Complete(report.result.as_ref());
                    let judged = self.judge_stale(session, report.lease, what, now_ms).await;
                    judged.map(|()| Completed::Repeated)
                }
            });
        }
        Ok(())
    }

    /// Ends the jobs whose leases are valid and that need nothing else. Returns their ids.
    async fn complete_plain(
        &self,
        session: &Session,
        reports: &[Completion],
        now_ms: i64,
        resolves: &mut bool,
    ) -> Result<HashSet<JobId>, Error> {
        let mut queues = self.names.queues();
        queues.sort_by_key(|queue| queue.id);
        // In the order of ids, which the statement searches.
        let mut reports: Vec<&Completion> = reports.iter().collect();
        reports.sort_by_key(|one| one.lease.id);
        let plain: Vec<_> = queues
            .iter()
            .filter(|queue| queue.settings.webhook.is_none())
            .collect();
        let queue_ids: Vec<i32> = plain.iter().map(|queue| queue.id).collect();
        let kept: Vec<i64> = plain
            .iter()
            .map(|queue| span_ms(queue.settings.retention.succeeded))
            .collect();
        let ids: Vec<i64> = reports.iter().map(|one| one.lease.id.get()).collect();
        let nonces: Vec<i64> = reports.iter().map(|one| one.lease.nonce).collect();
        let attempts: Vec<i32> = reports
            .iter()
            .map(|one| i32::try_from(one.lease.attempt).unwrap_or(i32::MAX))
            .collect();
        let types: Vec<Option<&str>> = reports
            .iter()
            .map(|one| one.result.as_ref().and_then(|body| body.content_type.as_deref()))
            .collect();
        let results: Vec<Option<&[u8]>> = reports
            .iter()
            .map(|one| one.result.as_ref().map(|body| body.bytes.as_ref()))
            .collect();
        let rows = session
            .all(
                query!(running.complete),
                &[
                    &now_ms,
                    &ids,
                    &nonces,
                    &attempts,
                    &types,
                    &results,
                    &queue_ids,
                    &kept,
                    &flags::SPECIAL,
                ],
                CompletedRow::read,
            )
            .await?;
        let mut done = HashSet::with_capacity(rows.len());
        let mut ended = Vec::with_capacity(rows.len());
        for row in &rows {
            if let Some(id) = JobId::new(row.id) {
                done.insert(id);
                ended.push((id, EventKind::Succeeded));
            }
        }
        if let Some(row) = rows.first() {
            self.notify_logged(row.head);
            self.notify_ended(&ended);
            *resolves |= row.resolving > 0;
        }
        Ok(done)
    }

    /// Ends jobs with unique keys, concurrency keys or webhooks. Returns those that were still running.
    async fn complete_special(
        &self,
        session: &mut Connection,
        reports: &[&Completion],
        now_ms: i64,
        resolves: &mut bool,
    ) -> Result<Vec<JobId>, Error> {
        if reports.is_empty() {
            return Ok(Vec::new());
        }
        let leases: Vec<Lease> = reports.iter().map(|one| one.lease).collect();
        let transaction = begin(session).await?;
        let mut step = Step::new(self, &transaction, now_ms);
        let mut taken: HashMap<JobId, RunningJob> = step
            .take_running(&leases)
            .await?
            .into_iter()
            .map(|row| (row.position.id, row))
            .collect();
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        let mut ended = Vec::with_capacity(taken.len());
        for report in reports {
            let Some(row) = taken.remove(&report.lease.id) else {
                continue;
            };
            step.release_slot(&row.position)?;
            let ending = Ending {
                state: State::Succeeded,
                success: Some(row.clone()),
                error: None,
                result: report.result.clone(),
            };
            step.end(row.position, ending).await?;
            ended.push(report.lease.id);
        }
        let after_commit = step.finish().await?;
        commit(transaction).await?;
        *resolves |= after_commit.resolves;
        self.publish(after_commit);
        Ok(ended)
    }
}
