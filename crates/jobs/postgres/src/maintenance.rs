//! Periodic work: expired leases, due jobs, dependents, retention. Rows are taken with SKIP LOCKED, so that
//! several servers share the work.

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::request::{NextTimes, SweepResult};
use nagaya_jobs::state::{AttemptEnd, State, after_expiry};
use nagaya_postgres_client::Session;

use crate::rows::{NextTimesRow, PositionRow, ReleasedRow, ResolvingRow, RunningRow};
use crate::sql::{Queries, begin, commit, query};
use crate::step::{Ending, RunningJob, Step, state_of};
use crate::store::Inner;
use crate::throughput;

/// Most rows in one transaction, whatever the limit of the call.
const BATCH_MAX: usize = 1_000;
/// The error of an attempt whose lease expired.
const LEASE_EXPIRED: &str = "the lease ran out";

fn swept(rows: usize, limit: usize) -> SweepResult {
    SweepResult {
        rows,
        more: rows >= limit,
    }
}

fn bound(limit: usize) -> (usize, i64) {
    let limit = limit.min(BATCH_MAX);
    (limit, i64::try_from(limit).unwrap_or(i64::MAX))
}

impl Inner {
    pub(crate) async fn sweep_expired(&self, limit: usize) -> Result<SweepResult, Error> {
        let (limit, rows_max) = bound(limit);
        let mut session = self.hot().await?;
        if let Err(error) = self.last_claims.flush(&session).await {
            tracing::debug!(%error, "the times of the last claims will be written later");
        }
        if let Err(error) = throughput::fold(&session).await {
            tracing::debug!(%error, "throughput will be added up later");
        }
        let now_ms = self.look_at_clock(&session).await?;
        let transaction = begin(&mut session).await?;
        let rows = transaction
            .all(
                query!(running.take_expired),
                &[&now_ms, &rows_max],
                RunningRow::read,
            )
            .await?;
        let count = rows.len();
        let mut step = Step::new(self, &transaction, now_ms);
        for row in rows {
            let job = RunningJob::of(row)?;
            let next = after_expiry(job.tries());
            step.finish_attempt(job, AttemptEnd::LeaseLost, LEASE_EXPIRED, next)
                .await?;
        }
        let after_commit = step.finish().await?;
        commit(transaction).await?;
        let resolves = after_commit.resolves;
        self.publish(after_commit);
        drop(session);
        self.resolve_soon(resolves).await;
        Ok(swept(count, limit))
    }

    pub(crate) async fn move_due(&self, limit: usize) -> Result<SweepResult, Error> {
        let (limit, rows_max) = bound(limit);
        let mut session = self.hot().await?;
        let now_ms = self.time.now(&session).await?;
        let transaction = begin(&mut session).await?;
        let rows = transaction
            .all(query!(waiting.take_due), &[&now_ms, &rows_max], PositionRow::read)
            .await?;
        let mut step = Step::new(self, &transaction, now_ms);
        for row in &rows {
            step.place(row.position()?, now_ms).await?;
        }
        let after_commit = step.finish().await?;
        commit(transaction).await?;
        self.publish(after_commit);
        Ok(swept(rows.len(), limit))
    }

    pub(crate) async fn resolve_dependents(&self, limit: usize) -> Result<SweepResult, Error> {
        let (limit, rows_max) = bound(limit);
        let mut session = self.hot().await?;
        let mut rows = 0;
        loop {
            let now_ms = self.time.now(&session).await?;
            let transaction = begin(&mut session).await?;
            let parents = transaction
                .all(query!(waiting.lock_resolving), &[&rows_max], ResolvingRow::read)
                .await?;
            if parents.is_empty() {
                break;
            }
            let mut step = Step::new(self, &transaction, now_ms);
            let mut resolved = Vec::with_capacity(parents.len());
            for row in &parents {
                let Some(parent) = JobId::new(row.id) else {
                    continue;
                };
                resolved.push(parent.get());
                rows += match row.state.map(state_of) {
                    Some(State::Succeeded) => release_dependents(&mut step, &transaction, parent).await?,
                    Some(_) => cancel_dependents(&mut step, &transaction, parent).await?,
                    // The job runs again: its dependents wait for its next ending.
                    None => 0,
                };
            }
            transaction
                .run(query!(waiting.delete_resolving), &[&resolved])
                .await?;
            // A cancelled dependent may be a dependency of others: the next iteration finds it.
            let after_commit = step.finish().await?;
            commit(transaction).await?;
            self.publish(after_commit);
            if rows >= limit {
                break;
            }
        }
        Ok(swept(rows, limit))
    }

    pub(crate) async fn purge(&self, limit: usize) -> Result<SweepResult, Error> {
        let (limit, rows_max) = bound(limit);
        let session = self.cool().await?;
        let now_ms = self.time.now(&session).await?;
        let jobs: i64 = session.scalar(query!(done.purge), &[&now_ms, &rows_max]).await?;
        let keys: i64 = session
            .scalar(query!(keys.purge_idempotency), &[&now_ms, &rows_max])
            .await?;
        // Endings whose dependents were not resolved because a server died after the commit.
        session
            .run(query!(waiting.insert_resolving_all_ended), &[&rows_max])
            .await?;
        let jobs = usize::try_from(jobs).unwrap_or(0);
        let keys = usize::try_from(keys).unwrap_or(0);
        Ok(SweepResult {
            rows: jobs + keys,
            more: jobs >= limit || keys >= limit,
        })
    }

    pub(crate) async fn next_times(&self) -> Result<NextTimes, Error> {
        let session = self.cool().await?;
        let row = session
            .one(query!(waiting.next_times), &[], NextTimesRow::read)
            .await?;
        Ok(NextTimes {
            due_ms: row.due_ms,
            lease_ms: row.lease_ms,
            schedule_ms: row.schedule_ms,
            delivery_ms: row.delivery_ms,
            purge_ms: row.purge_ms,
        })
    }
}

async fn release_dependents(step: &mut Step<'_>, session: &Session, parent: JobId) -> Result<usize, Error> {
    let rows = session
        .all(
            query!(waiting.release_dependents),
            &[&parent.get()],
            ReleasedRow::read,
        )
        .await?;
    for row in &rows {
        if row.pending == 0 {
            step.place(row.position()?, row.run_at_ms).await?;
        }
    }
    Ok(rows.len())
}

async fn cancel_dependents(step: &mut Step<'_>, session: &Session, parent: JobId) -> Result<usize, Error> {
    let rows = session
        .all(
            query!(waiting.take_dependents),
            &[&parent.get()],
            PositionRow::read,
        )
        .await?;
    let children: Vec<i64> = rows.iter().map(|row| row.id).collect();
    if !children.is_empty() {
        session
            .run(query!(waiting.insert_revivals), &[&parent.get(), &children])
            .await?;
    }
    for row in &rows {
        let ending = Ending {
            state: State::Cancelled,
            success: None,
            error: Some(format!(
                "job {parent}, on which this one depends, did not succeed"
            )),
            result: None,
        };
        step.end(row.position()?, ending).await?;
    }
    Ok(rows.len())
}
