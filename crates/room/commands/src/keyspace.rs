//! The data of an engine and what surrounds it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::clock::Clock;
use crate::memory::MemoryGauge;
use crate::pause::PauseState;
use crate::reclaim::{Garbage, Reclaimer};
use crate::shard::Shards;
use crate::tiering::{Survey, Tiering};

/// Values whose freeing takes more steps than this are freed by the reclaimer.
pub(crate) const FREE_EFFORT_MAX: usize = 64;

/// All keys of an engine.
pub struct Keyspace {
    pub shards: Shards,
    /// The cold tier, when there is one. Set once, before the first request.
    pub tiering: OnceLock<Tiering>,
    pub memory: MemoryGauge,
    pub pause: PauseState,
    /// What is known of large tags.
    pub survey: Survey,
    pub(crate) clock: Arc<dyn Clock>,
    reclaimer: Box<dyn Reclaimer>,
    /// Values handed to the reclaimer since the start or CONFIG RESETSTAT.
    reclaimed: AtomicU64,
}

impl Keyspace {
    /// Makes `shards` empty shards.
    pub fn new(shards: usize, clock: Arc<dyn Clock>, reclaimer: Box<dyn Reclaimer>) -> Keyspace {
        Keyspace {
            shards: Shards::new(shards),
            tiering: OnceLock::new(),
            memory: MemoryGauge::default(),
            pause: PauseState::default(),
            survey: Survey::default(),
            clock,
            reclaimer,
            reclaimed: AtomicU64::new(0),
        }
    }

    /// Frees values on another thread, counted as `values` of them.
    pub(crate) fn reclaim(&self, garbage: Garbage, values: usize) {
        self.reclaimed.fetch_add(values as u64, Ordering::Relaxed);
        self.reclaimer.reclaim(garbage);
    }

    /// Frees values on another thread, uncounted.
    pub(crate) fn reclaim_uncounted(&self, garbage: Garbage) {
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
