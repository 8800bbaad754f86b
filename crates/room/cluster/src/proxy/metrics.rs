//! Counters of a proxy.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start, written by the workers.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests that clients sent.
    pub commands: Counter,
    /// MOVED and ASK that were followed.
    pub redirects: Counter,
    /// Commands that were retried because they surely had not run.
    pub retries: Counter,
    /// Commands whose connection was lost before the reply.
    pub lost: Counter,
    /// Connections to servers that were opened.
    pub connects: Counter,
    /// Layouts that were read.
    pub layouts: Counter,
    pub touches: Counter,
    pub leases_granted: Counter,
    pub registrations: Counter,
    pub loads: Counter,
    /// Commands that had to wait for their tag.
    pub waits: Counter,
    /// Replies that came too late to be delivered.
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
