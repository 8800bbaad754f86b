//! How often calls to an endpoint may be tried again.
//!
//! Every call earns a tenth of a retry, and ten of them are kept at most. So an endpoint that is down gets a tenth more
//! requests than without retries, not twice as many, and a single failure among good calls is tried again at once.

use std::sync::atomic::{AtomicU32, Ordering};

/// Calls that earn one retry.
const CALLS: u32 = 10;
/// What is kept at most, in calls.
const KEPT_MAX: u32 = 10 * CALLS;

#[derive(Debug)]
pub(crate) struct Retries {
    /// For one call.
    pub(crate) max: u32,
    earned: AtomicU32,
}

impl Retries {
    pub(crate) fn new(max: u32) -> Retries {
        Retries {
            max,
            earned: AtomicU32::new(KEPT_MAX),
        }
    }

    /// Counts a first try.
    pub(crate) fn earn(&self) {
        let add = |earned: u32| (earned < KEPT_MAX).then_some(earned + 1);
        // Whether it is full makes no difference.
        let _ = self
            .earned
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Takes a retry from what was earned; false if there is none.
    pub(crate) fn take(&self) -> bool {
        let take = |earned: u32| earned.checked_sub(CALLS);
        self.earned
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_tenth_of_the_calls() {
        let retries = Retries::new(1);
        let mut taken = 0;
        for _ in 0..1000 {
            retries.earn();
            taken += u32::from(retries.take());
        }
        assert!((100..=110).contains(&taken), "{taken}");
    }

    #[test]
    fn what_is_kept_has_an_end() {
        let retries = Retries::new(1);
        (0..10_000).for_each(|_| retries.earn());
        assert_eq!((0..100).filter(|_| retries.take()).count(), 10);
    }
}
