//! Counters of one server process.
//!
//! The store counts jobs and their endings ([`crate::queue::Throughput`]), the same for every server. This
//! module has what only this process sees: how calls were batched, and how long jobs took.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::id::JobId;
use crate::request::ClaimedJob;
use crate::token::Lease;

/// Upper bounds of the buckets, in milliseconds: from an interactive job to one that takes an hour.
const BOUNDS_MS: [u64; 17] = [
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 60_000, 300_000, 1_800_000, 3_600_000,
];
/// Starts kept in each of two generations. An attempt that is never reported is dropped after this many others
/// have begun.
const STARTS_MAX: usize = 32_768;

/// The calls that are batched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Enqueue,
    Claim,
    Complete,
    Fail,
    Release,
    Extend,
    Progress,
    Log,
}

impl Call {
    pub const ALL: [Call; 8] = [
        Call::Enqueue,
        Call::Claim,
        Call::Complete,
        Call::Fail,
        Call::Release,
        Call::Extend,
        Call::Progress,
        Call::Log,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Call::Enqueue => "enqueue",
            Call::Claim => "claim",
            Call::Complete => "complete",
            Call::Fail => "fail",
            Call::Release => "release",
            Call::Extend => "extend",
            Call::Progress => "progress",
            Call::Log => "log",
        }
    }
}

/// How many batches and items of a call went to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallStats {
    pub call: Call,
    pub batches: u64,
    pub items: u64,
}

/// Counts by upper bound in seconds, the last one unbounded; and the sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    pub buckets: Vec<(f64, u64)>,
    pub seconds: f64,
}

/// A snapshot of the counters.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceStats {
    pub calls: Vec<CallStats>,
    /// From registration to the beginning of the first attempt, including the delay of scheduled jobs.
    pub until_start: Times,
    /// From claim to report, of attempts that were claimed and reported here.
    pub run: Times,
    /// Positions of the log that this server has not passed to its waiting readers.
    pub log_lag: u64,
    pub log_head: u64,
}

#[derive(Default)]
pub(super) struct Counts {
    batches: [AtomicU64; Call::ALL.len()],
    items: [AtomicU64; Call::ALL.len()],
    until_start: Histogram,
    run: Histogram,
    starts: Mutex<Starts>,
}

/// When attempts began, in two generations, which bounds the memory.
#[derive(Default)]
struct Starts {
    young: HashMap<JobId, (u32, Instant)>,
    old: HashMap<JobId, (u32, Instant)>,
}

impl Counts {
    pub(super) fn sent(&self, call: Call, items: usize) {
        self.batches[call as usize].fetch_add(1, Ordering::Relaxed);
        self.items[call as usize].fetch_add(items as u64, Ordering::Relaxed);
    }

    pub(super) fn started<'a>(&self, jobs: impl Iterator<Item = &'a ClaimedJob>) {
        let now = Instant::now();
        let mut starts = self.starts.lock();
        for job in jobs {
            if job.lease.attempt == 1 {
                let length_ms = i64::try_from(job.lease_length.as_millis()).unwrap_or(i64::MAX);
                let waited_ms = job.lease_until_ms.saturating_sub(length_ms) - job.created_at_ms;
                let waited_ms = u64::try_from(waited_ms).unwrap_or(0);
                self.until_start.note(Duration::from_millis(waited_ms));
            }
            starts.insert(job.lease, now);
        }
    }

    /// Records the duration of attempts that began here.
    pub(super) fn reported(&self, leases: &[Lease]) {
        let now = Instant::now();
        let mut starts = self.starts.lock();
        for lease in leases {
            if let Some(began) = starts.remove(*lease) {
                self.run.note(now.duration_since(began));
            }
        }
    }

    pub(super) fn read(&self, log_head: u64, log_read: u64) -> ServiceStats {
        let call = |call: Call| CallStats {
            call,
            batches: self.batches[call as usize].load(Ordering::Relaxed),
            items: self.items[call as usize].load(Ordering::Relaxed),
        };
        ServiceStats {
            calls: Call::ALL.into_iter().map(call).collect(),
            until_start: self.until_start.read(),
            run: self.run.read(),
            log_lag: log_head.saturating_sub(log_read),
            log_head,
        }
    }
}

impl Starts {
    fn insert(&mut self, lease: Lease, at: Instant) {
        if self.young.len() >= STARTS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(lease.id, (lease.attempt, at));
    }

    fn remove(&mut self, lease: Lease) -> Option<Instant> {
        let found = self
            .young
            .remove(&lease.id)
            .or_else(|| self.old.remove(&lease.id));
        found
            .filter(|(attempt, _)| *attempt == lease.attempt)
            .map(|(_, at)| at)
    }
}

/// Counts the batches of one call.
#[derive(Clone)]
pub(super) struct Meter {
    pub(super) call: Call,
    pub(super) counts: Arc<Counts>,
}

impl Meter {
    pub(super) fn sent(&self, items: usize) {
        self.counts.sent(self.call, items);
    }
}

#[derive(Default)]
struct Histogram {
    counts: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    fn note(&self, time: Duration) {
        let bucket = BOUNDS_MS.partition_point(|bound_ms| Duration::from_millis(*bound_ms) < time);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(time_us, Ordering::Relaxed);
    }

    fn read(&self) -> Times {
        let ends = BOUNDS_MS.iter().map(|bound_ms| *bound_ms as f64 / 1_000.0);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        Times {
            buckets: ends.chain([f64::INFINITY]).zip(counts).collect(),
            seconds: self.sum_us.load(Ordering::Relaxed) as f64 / 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(id: i64, attempt: u32) -> Lease {
        Lease {
            id: JobId::new(id).unwrap(),
            attempt,
            nonce: 0,
        }
    }

    #[test]
    fn a_time_falls_into_the_bucket_that_ends_with_it() {
        let histogram = Histogram::default();
        for ms in [0, 1, 3, 4_000_000] {
            histogram.note(Duration::from_millis(ms));
        }
        let times = histogram.read();
        let filled: Vec<(f64, u64)> = times
            .buckets
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(filled, [(0.001, 2), (0.005, 1), (f64::INFINITY, 1)]);
        assert_eq!(times.seconds, 4_000.004);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_an_attempt_ends_with_its_own_report() {
        let counts = Counts::default();
        counts.starts.lock().insert(lease(1, 2), Instant::now());
        tokio::time::advance(Duration::from_millis(40)).await;
        counts.reported(&[lease(1, 1), lease(9, 1)]);
        assert_eq!(counts.run.read().seconds, 0.0, "not of this attempt");
        counts.starts.lock().insert(lease(1, 2), Instant::now());
        tokio::time::advance(Duration::from_millis(40)).await;
        counts.reported(&[lease(1, 2), lease(1, 2)]);
        assert_eq!(counts.run.read().seconds, 0.04, "counted once");
    }

    #[test]
    fn starts_without_an_end_have_a_bound() {
        let mut starts = Starts::default();
        let now = Instant::now();
        for id in 1..=i64::try_from(STARTS_MAX).unwrap() * 3 {
            starts.insert(lease(id, 1), now);
        }
        assert!(starts.young.len() + starts.old.len() <= 2 * STARTS_MAX);
        assert!(starts.remove(lease(1, 1)).is_none());
        assert!(
            starts
                .remove(lease(i64::try_from(STARTS_MAX).unwrap() + 1, 1))
                .is_some()
        );
    }
}
