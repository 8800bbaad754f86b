//! Evicts idle tags, and the coldest ones when a node's memory runs out.
//!
//! All nodes are processed in parallel, since an eviction mostly waits until no earlier lease can be alive.
//! Below the high-water mark the age of a tag decides. Above it the coldest tags are evicted at any age, as
//! many as should bring the node some way below the mark.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use nagaya_clock::Sleep;
use nagaya_tiering::cold::ColdTier;
use nagaya_tiering::error::TieringError;
use nagaya_tiering::evictor;
use nagaya_tiering::hot::HotTier;

use super::stats::TaskCounters;
use crate::hot_tier::{NodeMemory, RedisHotTier};
use crate::stop::{Stop, StoppableClock};

/// Where eviction of a full node aims at, in percent of its mark: low enough that not every round is full.
const LOW_PERCENT: u64 = 95;
/// Most tags that one round evicts from a full node: a round takes seconds, and the next one sees the effect.
const PRESSED_TAGS_MAX: usize = 10_000;

/// When tags are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictConfig {
    /// How long a tag is unused before it is evicted.
    pub idle_after: Duration,
    /// How often to look.
    pub every: Duration,
    /// Most idle tags that one round evicts from a node.
    pub batch_tags: usize,
    /// Where a node is full, in percent of its own limit. Nodes without a limit are not.
    pub memory_percent: u64,
    /// Where a node is full, in bytes, for nodes whose own limit is higher or missing.
    pub memory_bytes: Option<u64>,
}

impl Default for EvictConfig {
    fn default() -> EvictConfig {
        EvictConfig {
            idle_after: Duration::from_secs(3600),
            every: Duration::from_secs(10),
            batch_tags: 1000,
            memory_percent: 80,
            memory_bytes: None,
        }
    }
}

impl EvictConfig {
    /// Returns the high-water mark of a node.
    fn mark(&self, memory: &NodeMemory) -> Option<u64> {
        let own = memory.max_bytes.map(|max| max / 100 * self.memory_percent);
        match (own, self.memory_bytes) {
            (Some(own), Some(bytes)) => Some(own.min(bytes)),
            (own, bytes) => own.or(bytes),
        }
    }
}

pub(crate) struct Evictor {
    pub(crate) cold: Arc<dyn ColdTier>,
    pub(crate) clock: Arc<dyn Sleep>,
    pub(crate) config: EvictConfig,
    pub(crate) counters: Arc<TaskCounters>,
    pub(crate) stop: Stop,
}

impl Evictor {
    /// Evicts from each node once; returns whether one of them is still full.
    pub(crate) fn round(&self, tier: &RedisHotTier) -> bool {
        let parts = match tier.parts() {
            Ok(parts) => parts,
            Err(error) => {
                self.note_error(&error.into());
                return false;
            }
        };
        let full = thread::scope(|scope| {
            let evict = |part: &crate::hot_tier::TierPart| {
                let tier = part.tier.until(self.stop.clone());
                scope.spawn(move || self.evict(&tier))
            };
            let running: Vec<_> = parts.iter().map(evict).collect();
            let ended = running
                .into_iter()
                .map(|thread| thread.join().unwrap_or(Ok(false)));
            let full = ended.filter(|ended| match ended {
                Ok(is_full) => *is_full,
                Err(error) => {
                    self.note_error(error);
                    false
                }
            });
            full.count()
        });
        self.counters.nodes_full.store(full as u64, Ordering::Relaxed);
        full > 0
    }

    /// Evicts from one node; returns whether it was full.
    fn evict(&self, tier: &RedisHotTier) -> Result<bool, TieringError> {
        let needed = self.tags_to_free(tier)?;
        let tags = match needed {
            // Evictions of tags in use are called off, so recently touched ones are left out.
            Some(count) => tier.coldest(count, tier.limits().lease)?,
            None => tier.coldest(self.config.batch_tags, self.config.idle_after)?,
        };
        let clock = StoppableClock {
            clock: self.clock.clone(),
            stop: self.stop.clone(),
        };
        let tag_evictor = evictor::Evictor::new(Arc::new(tier.clone()), self.cold.clone(), Arc::new(clock));
        let names: Vec<&[u8]> = tags.iter().map(Vec::as_slice).collect();
        let report = tag_evictor.evict(&names)?;
        self.counters.note_evict(report);
        if needed.is_some() {
            self.counters.pressed.fetch_add(report.evicted, Ordering::Relaxed);
        }
        Ok(needed.is_some())
    }

    /// Returns how many tags to evict from a full node; none if it has enough memory.
    fn tags_to_free(&self, tier: &RedisHotTier) -> Result<Option<usize>, TieringError> {
        let Some(memory) = tier.memory()?.pop() else {
            return Ok(None);
        };
        let Some(mark) = self.config.mark(&memory).filter(|mark| memory.used_bytes > *mark) else {
            return Ok(None);
        };
        let excess = memory.used_bytes - mark / 100 * LOW_PERCENT;
        let residents = tier.residents()?.max(1);
        let bytes_per_tag = (memory.used_bytes / residents).max(1);
        let count = usize::try_from(excess.div_ceil(bytes_per_tag)).unwrap_or(PRESSED_TAGS_MAX);
        Ok(Some(count.clamp(1, PRESSED_TAGS_MAX)))
    }

    fn note_error(&self, error: &TieringError) {
        if self.stop.is_set() {
            return;
        }
        self.counters.evict_errors.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, "a round of evictions failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(max_bytes: Option<u64>, memory_bytes: Option<u64>, mark: Option<u64>) {
        let config = EvictConfig {
            memory_percent: 80,
            memory_bytes,
            ..EvictConfig::default()
        };
        let memory = NodeMemory {
            server: nagaya_redis_client::Endpoint::Unix("s".into()),
            used_bytes: 0,
            max_bytes,
        };
        assert_eq!(config.mark(&memory), mark);
    }

    #[test]
    fn the_lower_of_both_marks_counts() {
        check(None, None, None);
        check(Some(1000), None, Some(800));
        check(None, Some(500), Some(500));
        check(Some(1000), Some(500), Some(500));
        check(Some(1000), Some(900), Some(800));
    }
}
