//! What a proxy counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start, written by the workers and read by anybody.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests that clients sent.
    pub commands: Counter,
    /// MOVED and ASK that were followed.
    pub redirects: Counter,
    /// Commands that were sent again because they surely had not run.
    pub retries: Counter,
    /// Commands whose connection broke under them.
    pub lost: Counter,
    /// Connections to servers that were opened.
    pub connects: Counter,
    /// Layouts that were taken over.
    pub layouts: Counter,
    pub touches: Counter,
    pub leases_granted: Counter,
    pub registrations: Counter,
    pub loads: Counter,
    /// Commands that had to wait for their tag.
    pub waits: Counter,
    /// Replies that came too late to be told as such.
    pub late: Counter,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
