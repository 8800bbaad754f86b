//! Throughput of queues, counted in memory and written at an interval. A crash may lose the last second.

use std::collections::HashMap;

use nagaya_jobs::error::Error;
use nagaya_jobs::queue::Throughput;
use nagaya_postgres_client::Session;
use parking_lot::Mutex;

use crate::sql::{Queries, query};

#[derive(Debug, Default)]
pub(crate) struct ThroughputCounters {
    counts: Mutex<HashMap<i32, Throughput>>,
    /// When jobs of a queue were last claimed.
    claims: Mutex<HashMap<i32, i64>>,
}

impl ThroughputCounters {
    /// Changes the counters of a queue.
    pub(crate) fn count(&self, queue: i32, add: impl FnOnce(&mut Throughput)) {
        let mut counts = self.counts.lock();
        add(counts.entry(queue).or_default());
    }

    pub(crate) fn note_claim(&self, queue: i32, now_ms: i64) {
        let mut claims = self.claims.lock();
        claims.insert(queue, now_ms);
    }

    /// Writes the counts since the last call.
    pub(crate) async fn flush(&self, session: &Session, server: i32) -> Result<(), Error> {
        let claims = std::mem::take(&mut *self.claims.lock());
        if !claims.is_empty() {
            let (queues, times): (Vec<i32>, Vec<i64>) = claims.into_iter().unzip();
            let set = query!(queues.set_claims);
            session.run(set, &[&queues, &times]).await?;
        }
        let counts = std::mem::take(&mut *self.counts.lock());
        if counts.is_empty() {
            return Ok(());
        }
        let queues: Vec<i32> = counts.keys().copied().collect();
        let column = |of: fn(&Throughput) -> u64| -> Vec<i64> {
            let signed = |throughput| i64::try_from(of(throughput)).unwrap_or(i64::MAX);
            counts.values().map(signed).collect()
        };
        let written = session
            .run(
                query!(queues.add_throughput),
                &[
                    &server,
                    &queues,
                    &column(|one| one.enqueued),
                    &column(|one| one.started),
                    &column(|one| one.succeeded),
                    &column(|one| one.failed),
                    &column(|one| one.cancelled),
                    &column(|one| one.attempts_failed),
                    &column(|one| one.leases_lost),
                    &column(|one| one.late_reports),
                ],
            )
            .await;
        if let Err(error) = written {
            let mut now = self.counts.lock();
            for (queue, lost) in counts {
                let one = now.entry(queue).or_default();
                one.enqueued += lost.enqueued;
                one.started += lost.started;
                one.succeeded += lost.succeeded;
                one.failed += lost.failed;
                one.cancelled += lost.cancelled;
                one.attempts_failed += lost.attempts_failed;
                one.leases_lost += lost.leases_lost;
                one.late_reports += lost.late_reports;
            }
            return Err(error);
        }
        Ok(())
    }
}
