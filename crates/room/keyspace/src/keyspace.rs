//! The data of an engine and what surrounds it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use nagaya_clock::Clock;

use crate::databases::Databases;
use crate::memory::MemoryGauge;
use crate::pause::PauseState;
use crate::reclaim::{Reclaimable, Reclaimer};
use crate::residency::statistics::TagStatistics;
use crate::residency::tiering::Tiering;
use crate::shard::Shards;

/// Values whose freeing takes more steps than this are freed by the reclaimer.
pub const FREE_EFFORT_MAX: usize = 64;

/// All keys of an engine.
pub struct Keyspace {
    pub shards: Shards,
    pub databases: Databases,
    /// The cold tier, when there is one. Set once, before the first request.
    pub tiering: OnceLock<Tiering>,
    pub memory: MemoryGauge,
    pub pause: PauseState,
    /// What is known of large tags.
    pub tag_statistics: TagStatistics,
    pub clock: Arc<dyn Clock>,
    reclaimer: Box<dyn Reclaimer>,
    /// Values handed to the reclaimer since the start or CONFIG RESETSTAT.
    reclaimed: AtomicU64,
}

impl Keyspace {
    /// Makes `shards` empty shards for so many databases.
    pub fn new(
        shards: usize,
        databases: usize,
        clock: Arc<dyn Clock>,
        reclaimer: Box<dyn Reclaimer>,
    ) -> Keyspace {
        Keyspace {
            shards: Shards::new(shards),
            databases: Databases::new(databases),
            tiering: OnceLock::new(),
            memory: MemoryGauge::default(),
            pause: PauseState::default(),
            tag_statistics: TagStatistics::default(),
            clock,
            reclaimer,
            reclaimed: AtomicU64::new(0),
        }
    }

    /// Frees values on another thread, counted as `values` of them.
    pub fn reclaim(&self, garbage: Reclaimable, values: usize) {
        self.reclaimed.fetch_add(values as u64, Ordering::Relaxed);
        self.reclaimer.reclaim(garbage);
    }

    /// Frees values on another thread, uncounted.
    pub fn reclaim_uncounted(&self, garbage: Reclaimable) {
        self.reclaimer.reclaim(garbage);
    }

    /// Returns how many values were handed to the reclaimer.
    pub fn reclaimed(&self) -> u64 {
        self.reclaimed.load(Ordering::Relaxed)
    }

    /// Sets the counters back to zero (CONFIG RESETSTAT).
    pub fn reset_stats(&self) {
        self.reclaimed.store(0, Ordering::Relaxed);
        self.memory.reset_peak();
    }
}
