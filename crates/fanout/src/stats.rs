//! Counters, as plain atomics: written by every job, read by scrapes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::outcome::State;

/// Upper bounds of the latency buckets in milliseconds; finer around the usual timeouts.
pub const BOUNDS_MS: [u64; 13] = [1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 500, 1_000, 5_000];

/// A latency histogram.
#[derive(Debug, Default)]
pub struct Latency {
    counts: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
}

impl Latency {
    pub(crate) fn record(&self, took: Duration) {
        let bound = |ms: u64| took > Duration::from_millis(ms);
        let bucket = BOUNDS_MS.partition_point(|ms| bound(*ms));
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Returns the count of each bucket with its upper bound in seconds.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS_MS
            .iter()
            .map(|ms| *ms as f64 / 1000.0)
            .chain([f64::INFINITY]);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        bounds.zip(counts).collect()
    }

    /// Estimates a quantile in milliseconds by linear interpolation within its bucket. `None` before the
    /// first observation; beyond the last bound, that bound.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return None;
        }
        let rank = share * total as f64;
        let (mut low, mut below) = (0.0, 0.0);
        for (bound, count) in BOUNDS_MS.iter().zip(counts) {
            let (bound, count) = (*bound as f64, count as f64);
            if below + count >= rank && count > 0.0 {
                return Some(low + (bound - low) * ((rank - below) / count).clamp(0.0, 1.0));
            }
            (low, below) = (bound, below + count);
        }
        Some(low)
    }

    /// Returns the number of observations.
    pub(crate) fn count(&self) -> u64 {
        self.counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }

    pub fn seconds(&self) -> f64 {
        self.sum_us.load(Ordering::Relaxed) as f64 / 1e6
    }
}

/// The counters of one endpoint.
#[derive(Debug, Default)]
pub struct EndpointCounts {
    outcomes: [AtomicU64; State::ALL.len()],
    /// From acceptance of the request to the end of the fetch.
    pub latency: Latency,
}

impl EndpointCounts {
    pub(crate) fn count(&self, state: State) {
        self.outcomes[state as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn outcome(&self, state: State) -> u64 {
        self.outcomes[state as usize].load(Ordering::Relaxed)
    }
}

/// Why a request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// All handlers were busy.
    Busy,
    /// Every endpoint would have been shed.
    Shed,
    /// The store did not accept it.
    Store,
    /// No id could be assigned.
    NoId,
    /// It came from this process itself.
    Loop,
    /// It was malformed or not allowed.
    Bad,
}

impl RejectReason {
    pub const ALL: [RejectReason; 6] = [
        RejectReason::Busy,
        RejectReason::Shed,
        RejectReason::Store,
        RejectReason::NoId,
        RejectReason::Loop,
        RejectReason::Bad,
    ];

    /// Returns the label in metrics.
    pub fn word(self) -> &'static str {
        match self {
            RejectReason::Busy => "busy",
            RejectReason::Shed => "shed",
            RejectReason::Store => "store",
            RejectReason::NoId => "no_id",
            RejectReason::Loop => "loop",
            RejectReason::Bad => "bad",
        }
    }
}

/// The counters for all endpoints together.
#[derive(Debug, Default)]
pub struct Counts {
    pub accepted: AtomicU64,
    rejected: [AtomicU64; RejectReason::ALL.len()],
    /// Writes to the store: of requests, and of answers.
    pub records: AtomicU64,
    pub batches: AtomicU64,
    /// Answers in those batches.
    pub answers: AtomicU64,
    pub store_failures: AtomicU64,
    pub store_latency: Latency,
    /// Endpoints contacted and their outcomes, including endpoints no longer configured.
    pub jobs: AtomicU64,
    outcomes: [AtomicU64; State::ALL.len()],
}

impl Counts {
    pub(crate) fn reject(&self, why: RejectReason) {
        self.rejected[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn rejected(&self, why: RejectReason) -> u64 {
        self.rejected[why as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, state: State) {
        self.outcomes[state as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn outcome(&self, state: State) -> u64 {
        self.outcomes[state as usize].load(Ordering::Relaxed)
    }
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_the_bucket_that_ends_at_or_above_them() {
        let latency = Latency::default();
        for us in [1, 1000, 1001, 200_000, 200_001, 60_000_000] {
            latency.record(Duration::from_micros(us));
        }
        let buckets = latency.buckets();
        let count = |bound: f64| buckets.iter().find(|(end, _)| *end == bound).unwrap().1;
        assert_eq!((count(0.001), count(0.002)), (2, 1));
        assert_eq!((count(0.2), count(0.3), count(f64::INFINITY)), (1, 1, 1));
    }

    #[test]
    fn quantiles_are_estimated_within_their_bucket() {
        let latency = Latency::default();
        assert_eq!(latency.quantile_ms(0.5), None);
        (0..90).for_each(|_| latency.record(Duration::from_micros(1500)));
        (0..10).for_each(|_| latency.record(Duration::from_millis(40)));
        assert_eq!(latency.quantile_ms(0.9), Some(2.0));
        assert_eq!(latency.quantile_ms(0.95), Some(35.0));
        latency.record(Duration::from_secs(60));
        assert_eq!(latency.quantile_ms(1.0), Some(5000.0), "further is not known");
    }
}
