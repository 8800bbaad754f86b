//! How fast the store takes items, and how many may wait by that.
//!
//! Beyond its capacity a server that accepts everything makes everybody wait, and callers who give up and try again
//! add to the load. So calls are refused early: by the time that the items before them will take, not by their number.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The limits on what waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct PaceBounds {
    /// Items of a full batch.
    pub(super) items_max: usize,
    /// Most items that wait, however fast the store is.
    pub(super) waiting_max: usize,
    /// Most time that an item waits.
    pub(super) wait_max: Duration,
}

/// The time that the store takes for one item, as large batches have shown.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Nanoseconds; 0 while unknown.
    per_item_ns: AtomicU64,
}

impl Pace {
    /// Records a batch. Small ones say nothing: most of their time is the same for any size.
    pub(super) fn note(&self, bounds: PaceBounds, items: usize, took: Duration) {
        if items * 2 < bounds.items_max {
            return;
        }
        let new_ns = u64::try_from(took.as_nanos() / items.max(1) as u128).unwrap_or(u64::MAX);
        let old_ns = self.per_item_ns.load(Ordering::Relaxed);
        let smooth_ns = match old_ns {
            0 => new_ns,
            _ => old_ns - old_ns / 4 + new_ns / 4,
        };
        self.per_item_ns.store(smooth_ns.max(1), Ordering::Relaxed);
    }

    /// Returns how many items may wait. Always two batches: with fewer the store would be idle between them.
    pub(super) fn limit(&self, bounds: PaceBounds) -> usize {
        let per_item_ns = self.per_item_ns.load(Ordering::Relaxed);
        if per_item_ns == 0 {
            return bounds.waiting_max;
        }
        let in_time = bounds.wait_max.as_nanos() / u128::from(per_item_ns);
        let in_time = usize::try_from(in_time).unwrap_or(usize::MAX);
        in_time.max(bounds.items_max * 2).min(bounds.waiting_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: PaceBounds = PaceBounds {
        items_max: 1_000,
        waiting_max: 8_000,
        wait_max: Duration::from_millis(100),
    };

    #[test]
    fn as_many_wait_as_the_store_takes_in_time() {
        let pace = Pace::default();
        assert_eq!(pace.limit(BOUNDS), 8_000, "nothing is known");
        pace.note(BOUNDS, 1_000, Duration::from_millis(25));
        assert_eq!(pace.limit(BOUNDS), 4_000);
        for _ in 0..40 {
            pace.note(BOUNDS, 1_000, Duration::from_millis(1));
        }
        assert_eq!(pace.limit(BOUNDS), 8_000, "memory has its bound too");
        for _ in 0..40 {
            pace.note(BOUNDS, 1_000, Duration::from_secs(1));
        }
        assert_eq!(pace.limit(BOUNDS), 2_000, "batches stay full");
    }

    #[test]
    fn small_batches_say_nothing_of_the_pace() {
        let pace = Pace::default();
        pace.note(BOUNDS, 1, Duration::from_millis(5));
        assert_eq!(pace.limit(BOUNDS), 8_000);
    }
}
