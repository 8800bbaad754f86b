//! How many calls to an endpoint may be made besides the first ones: retries, and hedges.
//!
//! Every call earns a part of an extra one, and ten are kept at most. So an endpoint that is down or slow gets a few more
//! requests, not twice as many, and a single failure among good calls is made up for at once.

use std::sync::atomic::{AtomicU32, Ordering};

/// Extra calls that are kept at most.
const KEPT_MAX: u32 = 10;

#[derive(Debug)]
pub(crate) struct Budget {
    /// Calls that earn an extra one.
    calls: u32,
    earned: AtomicU32,
}

impl Budget {
    /// Allows one extra call for each `calls`.
    pub(crate) fn new(calls: u32) -> Budget {
        Budget {
            calls,
            earned: AtomicU32::new(KEPT_MAX * calls),
        }
    }

    /// Counts a first call.
    pub(crate) fn earn(&self) {
        let add = |earned: u32| (earned < KEPT_MAX * self.calls).then_some(earned + 1);
        // Whether it is full makes no difference.
        let _ = self
            .earned
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Takes an extra call from what was earned; false if there is none.
    pub(crate) fn take(&self) -> bool {
        let take = |earned: u32| earned.checked_sub(self.calls);
        self.earned
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_calls_are_a_part_of_the_calls() {
        for calls in [10, 20] {
            let budget = Budget::new(calls);
            let mut taken = 0;
            for _ in 0..1000 {
                budget.earn();
                taken += u32::from(budget.take());
            }
            assert!(
                (1000 / calls..=1000 / calls + KEPT_MAX).contains(&taken),
                "{taken}"
            );
        }
    }

    #[test]
    fn what_is_kept_has_an_end() {
        let budget = Budget::new(10);
        (0..10_000).for_each(|_| budget.earn());
        assert_eq!((0..100).filter(|_| budget.take()).count(), 10);
    }
}
