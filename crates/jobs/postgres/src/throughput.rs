//! What passed through queues, by tenant.
//!
//! Every change counts in its own transaction, as a row of its own, so that a kill loses no count and two changes
//! do not wait for each other. Maintenance adds the rows up.

use std::collections::{BTreeMap, HashMap};

use nagaya_jobs::error::Error;
use nagaya_jobs::queue::Throughput;
use nagaya_jobs::state::State;
use nagaya_postgres_client::Session;
use parking_lot::Mutex;

use crate::sql::{Queries, query};

/// Rows that are added up at a time.
const FOLD_ROWS_MAX: i64 = 10_000;

/// One thing to count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Enqueued,
    Ended(State),
    AttemptFailed,
    LeaseLost,
}

/// The counts of one transaction, by queue and tenant.
#[derive(Debug, Default)]
pub(crate) struct Counts(BTreeMap<(i32, i32), Throughput>);

impl Counts {
    pub(crate) fn add(&mut self, queue: i32, tenant: i32, count: Count) {
        let throughput = self.0.entry((queue, tenant)).or_default();
        match count {
            Count::Enqueued => throughput.enqueued += 1,
            Count::Ended(State::Succeeded) => throughput.succeeded += 1,
            Count::Ended(State::Cancelled) => throughput.cancelled += 1,
            Count::Ended(_) => throughput.failed += 1,
            Count::AttemptFailed => throughput.attempts_failed += 1,
            Count::LeaseLost => throughput.leases_lost += 1,
        }
    }

    /// Returns how many jobs were registered in a queue.
    pub(crate) fn enqueued(&self, queue: i32) -> u64 {
        let of_queue = self.0.iter().filter(|((of, _), _)| *of == queue);
        of_queue.map(|(_, throughput)| throughput.enqueued).sum()
    }

    /// Writes the counts as part of the transaction.
    pub(crate) async fn write(&self, session: &Session) -> Result<(), Error> {
        if self.0.is_empty() {
            return Ok(());
        }
        let queues: Vec<i32> = self.0.keys().map(|(queue, _)| *queue).collect();
        let tenants: Vec<i32> = self.0.keys().map(|(_, tenant)| *tenant).collect();
        let column = |of: fn(&Throughput) -> u64| -> Vec<i64> {
            let signed = |throughput| i64::try_from(of(throughput)).unwrap_or(i64::MAX);
            self.0.values().map(signed).collect()
        };
        session
            .run(
                query!(queues.add_throughput),
                &[
                    &queues,
                    &tenants,
                    &column(|one| one.enqueued),
                    &column(|one| one.started),
                    &column(|one| one.succeeded),
                    &column(|one| one.failed),
                    &column(|one| one.cancelled),
                    &column(|one| one.attempts_failed),
                    &column(|one| one.leases_lost),
                ],
            )
            .await?;
        Ok(())
    }
}

/// Adds up what was counted since the last time.
pub(crate) async fn fold(session: &Session) -> Result<(), Error> {
    session
        .run(query!(queues.fold_throughput), &[&FOLD_ROWS_MAX])
        .await?;
    Ok(())
}

/// When jobs of queues were last claimed. Kept in memory and written at an interval; a crash may lose the last
/// second.
#[derive(Debug, Default)]
pub(crate) struct LastClaims(Mutex<HashMap<i32, i64>>);

impl LastClaims {
    pub(crate) fn note(&self, queue: i32, now_ms: i64) {
        self.0.lock().insert(queue, now_ms);
    }

    pub(crate) async fn flush(&self, session: &Session) -> Result<(), Error> {
        let claims = std::mem::take(&mut *self.0.lock());
        if claims.is_empty() {
            return Ok(());
        }
        let (queues, times): (Vec<i32>, Vec<i64>) = claims.into_iter().unzip();
        session.run(query!(queues.set_claims), &[&queues, &times]).await?;
        Ok(())
    }
}
