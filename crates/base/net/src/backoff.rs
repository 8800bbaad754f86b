//! Pauses between retries.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Pauses that double up to a cap, each shortened by up to half at random, so that many clients of a
/// restarted server do not all connect at once.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    cap: Duration,
    next: Duration,
    draws: u64,
    random: RandomState,
}

impl Backoff {
    pub fn new(first: Duration, cap: Duration) -> Backoff {
        Backoff {
            first,
            cap,
            next: first,
            draws: 0,
            random: RandomState::new(),
        }
    }

    /// Returns the wait before the next try.
    pub fn next_wait(&mut self) -> Duration {
        let full = self.next.min(self.cap);
        self.next = (full * 2).min(self.cap);
        self.draws += 1;
        // RandomState is seeded by the system, which is random enough to spread clients out.
        let draw = self.random.hash_one(self.draws) % 1000;
        full - full * u32::try_from(draw).unwrap_or(0) / 2000
    }

    /// Starts again at the first pause, after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_keep_at_least_half() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(350));
        for full in [100, 200, 350, 350] {
            let wait = backoff.next_wait();
            let full = Duration::from_millis(full);
            assert!(wait <= full && wait >= full / 2, "{wait:?} of {full:?}");
        }
        backoff.reset();
        assert!(backoff.next_wait() <= Duration::from_millis(100));
    }
}
