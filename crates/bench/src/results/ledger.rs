//! When each job was sent off, and when its result was there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use nagaya_clock::{Clock, SystemClock};

/// Polling interval while waiting for results.
const LOOK: Duration = Duration::from_millis(5);

/// Jobs are numbered from 0; the number is payload and result.
pub(super) struct Ledger {
    from: Instant,
    /// Nanoseconds since `from`; 0 while not yet sent.
    sent_ns: Vec<AtomicU64>,
    /// Nanoseconds until the first report of the result; 0 while there is none.
    took_ns: Vec<AtomicU64>,
    arrived: AtomicU64,
}

impl Ledger {
    pub(super) fn new(jobs: usize) -> Ledger {
        let zeros = || (0..jobs).map(|_| AtomicU64::new(0)).collect();
        Ledger {
            from: SystemClock.now(),
            sent_ns: zeros(),
            took_ns: zeros(),
            arrived: AtomicU64::new(0),
        }
    }

    fn now_ns(&self) -> u64 {
        let since = SystemClock.now() - self.from;
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    pub(super) fn sent(&self, job: usize) {
        self.sent_ns[job].store(self.now_ns(), Ordering::Relaxed);
    }

    /// Records the first report of a job's result; later ones are duplicates.
    pub(super) fn arrive(&self, job: usize) {
        let (Some(sent), Some(took)) = (self.sent_ns.get(job), self.took_ns.get(job)) else {
            return;
        };
        let waited = self.now_ns().saturating_sub(sent.load(Ordering::Relaxed)).max(1);
        let first = took.compare_exchange(0, waited, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() {
            self.arrived.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn arrived(&self) -> usize {
        usize::try_from(self.arrived.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Waits until this many results have arrived.
    pub(super) async fn wait_for(&self, jobs: usize, limit: Duration) -> anyhow::Result<()> {
        let until = SystemClock.now() + limit;
        while self.arrived() < jobs {
            if SystemClock.now() > until {
                bail!("only {} of {jobs} results came within {limit:?}", self.arrived());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// The waits of the jobs that a test lets through, in milliseconds, shortest first.
    pub(super) fn waits_ms(&self, wanted: impl Fn(usize) -> bool) -> Vec<f64> {
        let took = self.took_ns.iter().map(|took| took.load(Ordering::Relaxed));
        let wanted = took.enumerate().filter(|(job, took)| *took > 0 && wanted(*job));
        let mut waits: Vec<f64> = wanted.map(|(_, took)| took as f64 / 1e6).collect();
        waits.sort_by(f64::total_cmp);
        waits
    }
}

/// The wait that a share of the jobs did not exceed; nothing without jobs.
pub(super) fn percentile(waits: &[f64], share: f64) -> Option<f64> {
    let place = ((waits.len() as f64 * share) as usize).min(waits.len().saturating_sub(1));
    waits.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_arrives_once() {
        let ledger = Ledger::new(2);
        ledger.sent(1);
        ledger.arrive(1);
        ledger.arrive(1);
        ledger.arrive(9);
        assert_eq!((ledger.arrived(), ledger.waits_ms(|_| true).len()), (1, 1));
        assert!(ledger.waits_ms(|job| job == 0).is_empty());
    }

    #[test]
    fn percentiles_are_of_sorted_waits() {
        let waits: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(
            (percentile(&waits, 0.5), percentile(&waits, 0.99)),
            (Some(51.0), Some(100.0))
        );
        assert_eq!(percentile(&[], 0.5), None);
    }
}
