//! What must be done now and then: expired leases, due times, dependents, retention. Rows are taken with SKIP
//! LOCKED, so that several servers at it share the work.

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::request::{NextTimes, SweepResult};
use nagaya_jobs::state::{AttemptEnd, State, after_expiry};
use nagaya_postgres_client::Session;

use crate::sql::{Queries, begin, commit, query};
use crate::step::{Ending, Step, position, running, state_of};
use crate::store::Inner;

/// Most rows in one transaction, whatever is asked for.
const BATCH_MAX: usize = 1_000;
/// What an attempt whose lease ran out is said to have failed with.
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
        if let Err(error) = self.throughput.flush(&session, self.server).await {
            tracing::debug!(%error, "counts of jobs are written later");
        }
        let now_ms = self.time.now(&session).await?;
        let transaction = begin(&mut session).await?;
        let rows = transaction
            .rows(query!(running.take_expired), &[&now_ms, &rows_max])
            .await?;
        let mut step = Step::new(self, &transaction, now_ms);
        for row in &rows {
            let row = running(row)?;
            let next = after_expiry(row.tries());
            step.finish_attempt(row, AttemptEnd::LeaseLost, LEASE_EXPIRED, next)
                .await?;
        }
        let after_commit = step.finish().await?;
        commit(transaction).await?;
        let resolves = after_commit.resolves;
        self.publish(after_commit);
        drop(session);
        self.resolve_soon(resolves).await;
        Ok(swept(rows.len(), limit))
    }

    pub(crate) async fn move_due(&self, limit: usize) -> Result<SweepResult, Error> {
        let (limit, rows_max) = bound(limit);
        let mut session = self.hot().await?;
        let now_ms = self.time.now(&session).await?;
        let transaction = begin(&mut session).await?;
        let rows = transaction
            .rows(query!(waiting.take_due), &[&now_ms, &rows_max])
            .await?;
        let mut step = Step::new(self, &transaction, now_ms);
        for row in &rows {
            step.place(position(row)?, now_ms).await?;
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
                .rows(query!(waiting.lock_resolving), &[&rows_max])
                .await?;
            if parents.is_empty() {
                break;
            }
            let mut step = Step::new(self, &transaction, now_ms);
            let mut resolved = Vec::with_capacity(parents.len());
            for row in &parents {
                let Some(parent) = JobId::new(row.get(0)) else {
                    continue;
                };
                resolved.push(parent.get());
                rows += match row.get::<_, Option<i16>>(1).map(state_of) {
                    Some(State::Succeeded) => release_dependents(&mut step, &transaction, parent).await?,
                    Some(_) => cancel_dependents(&mut step, &transaction, parent).await?,
                    // It runs again: they wait for its next ending.
                    None => 0,
                };
            }
            transaction
                .run(query!(waiting.delete_resolving), &[&resolved])
                .await?;
            // Cancelling some may be an ending that others wait for: the next turn of the loop finds it.
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
        let jobs = session.row(query!(done.purge), &[&now_ms, &rows_max]).await?;
        let keys = session
            .row(query!(keys.purge_idempotency), &[&now_ms, &rows_max])
            .await?;
        // Endings that nobody was told of, should a server have died between a commit and its look.
        session
            .run(query!(waiting.insert_resolving_all_ended), &[&rows_max])
            .await?;
        let jobs = usize::try_from(jobs.get::<_, i64>(0)).unwrap_or(0);
        let keys = usize::try_from(keys.get::<_, i64>(0)).unwrap_or(0);
        Ok(SweepResult {
            rows: jobs + keys,
            more: jobs >= limit || keys >= limit,
        })
    }

    pub(crate) async fn next_times(&self) -> Result<NextTimes, Error> {
        let session = self.cool().await?;
        let row = session.row(query!(waiting.next_times), &[]).await?;
        Ok(NextTimes {
            due_ms: row.get(0),
            lease_ms: row.get(1),
            schedule_ms: row.get(2),
            delivery_ms: row.get(3),
            purge_ms: row.get(4),
        })
    }
}

async fn release_dependents(step: &mut Step<'_>, session: &Session, parent: JobId) -> Result<usize, Error> {
    let rows = session
        .rows(query!(waiting.release_dependents), &[&parent.get()])
        .await?;
    for row in &rows {
        if row.get::<_, i32>(8) == 0 {
            let run_at_ms: i64 = row.get(9);
            step.place(position(row)?, run_at_ms).await?;
        }
    }
    Ok(rows.len())
}

async fn cancel_dependents(step: &mut Step<'_>, session: &Session, parent: JobId) -> Result<usize, Error> {
    let rows = session
        .rows(query!(waiting.take_dependents), &[&parent.get()])
        .await?;
    for row in &rows {
        let ending = Ending {
            state: State::Cancelled,
            success: None,
            error: Some(format!(
                "job {parent}, on which this one depends, did not succeed"
            )),
            result: None,
        };
        step.end(position(row)?, ending).await?;
    }
    Ok(rows.len())
}
