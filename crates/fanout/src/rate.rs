//! How many requests a second an endpoint may get.
//!
//! The generic cell rate algorithm: each request moves the time at which the endpoint would be rested by one interval,
//! and one that would move it too far ahead of now is not let through. A tenth of a second's requests may come at once.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Rate {
    interval: Duration,
    /// How far ahead of now the endpoint may be booked.
    ahead_max: Duration,
    rested_at: Mutex<Instant>,
}

impl Rate {
    pub(crate) fn new(per_second: u32, now: Instant) -> Rate {
        let interval = Duration::from_secs(1) / per_second.max(1);
        let burst = (per_second / 10).max(1);
        Rate {
            interval,
            ahead_max: interval * (burst - 1),
            rested_at: Mutex::new(now),
        }
    }

    /// Counts a request in; false if it would be one too many.
    pub(crate) fn enter(&self, now: Instant) -> bool {
        let mut rested_at = self.rested_at.lock();
        let begin = (*rested_at).max(now);
        if begin - now > self.ahead_max {
            return false;
        }
        *rested_at = begin + self.interval;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn let_through(per_second: u32, every: Duration, lasts: Duration) -> usize {
        let start = Instant::now();
        let rate = Rate::new(per_second, start);
        let mut now = start;
        let mut count = 0;
        while now < start + lasts {
            count += usize::from(rate.enter(now));
            now += every;
        }
        count
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_holds_over_time_and_slower_clients_are_not_held_up() {
        let ten = Duration::from_secs(10);
        assert_eq!(let_through(1, 10 * MS, ten), 10);
        assert!((500..=505).contains(&let_through(50, MS, ten)));
        assert!((1000..=1010).contains(&let_through(100, MS, ten)));
        assert_eq!(let_through(50, 25 * MS, ten), 400, "below the rate all pass");
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenth_of_a_second_may_come_at_once() {
        let now = Instant::now();
        let rate = Rate::new(100, now);
        assert_eq!((0..50).filter(|_| rate.enter(now)).count(), 10);
        assert_eq!((0..50).filter(|_| rate.enter(now + 20 * MS)).count(), 2);
    }
}
