//! Counters of the thread that works on keys.
//!
//! A thread alone writes its own set, so an increment is a plain load and
//! store; readers sum over the threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer and any number of readers.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter. Only the owning thread may call this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// Returns the count.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the count back to zero (CONFIG RESETSTAT; an increment under way may win).
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// What one thread did with keys.
#[derive(Default)]
pub struct KeyspaceStats {
    pub hits: Counter,
    pub misses: Counter,
    pub expired_keys: Counter,
    /// Fields of hashes that expired.
    pub expired_fields: Counter,
    pub evicted_keys: Counter,
    /// Changes of keys; CONFIG RESETSTAT leaves them.
    pub changes: Counter,
}

impl KeyspaceStats {
    /// Sets the counters back to zero.
    pub fn reset(&self) {
        let counters = [
            &self.hits,
            &self.misses,
            &self.expired_keys,
            &self.expired_fields,
            &self.evicted_keys,
        ];
        counters.into_iter().for_each(Counter::reset);
    }
}
