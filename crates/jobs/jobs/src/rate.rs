//! A rate limit whose whole state is one number.
//!
//! Each job that starts moves the *horizon* ahead by its share of the period. Jobs may start while the horizon
//! is less than one period ahead of now. So a whole period's worth may start in a burst, and over time no more
//! than the rate does.

use std::time::Duration;

/// At most this many jobs start in any period, plus one burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub jobs: u32,
    pub per: Duration,
}

/// What a limit allows now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    pub jobs: usize,
    /// The horizon after they started, Unix microseconds.
    pub horizon_us: i64,
    /// When the next one may start, Unix milliseconds; now or earlier when it may at once.
    pub next_at_ms: i64,
}

impl Rate {
    /// Returns how many of `wanted` jobs may start.
    pub fn allow(&self, horizon_us: i64, now_ms: i64, wanted: usize) -> Allowed {
        let now_us = now_ms.saturating_mul(1_000);
        let period_us = i64::try_from(self.per.as_micros()).unwrap_or(i64::MAX / 4).max(1);
        let step_us = (period_us / i64::from(self.jobs.max(1))).max(1);
        // A clock that went back must not lock the queue for longer than a period.
        let horizon_us = horizon_us.clamp(now_us, now_us.saturating_add(period_us));
        let room = (now_us + period_us - horizon_us) / step_us;
        let jobs = usize::try_from(room).unwrap_or(0).min(wanted);
        let horizon_us = horizon_us + step_us * i64::try_from(jobs).unwrap_or(0);
        let next_us = horizon_us + step_us - period_us;
        Allowed {
            jobs,
            horizon_us,
            next_at_ms: next_us.div_euclid(1_000) + i64::from(next_us.rem_euclid(1_000) > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN_A_SECOND: Rate = Rate {
        jobs: 10,
        per: Duration::from_secs(1),
    };

    #[test]
    fn a_burst_is_one_period_then_the_rate_holds() {
        let first = TEN_A_SECOND.allow(0, 1_000_000, 100);
        assert_eq!((first.jobs, first.next_at_ms), (10, 1_000_100));
        let none = TEN_A_SECOND.allow(first.horizon_us, 1_000_099, 100);
        assert_eq!(none.jobs, 0);
        let one = TEN_A_SECOND.allow(none.horizon_us, 1_000_100, 100);
        assert_eq!(one.jobs, 1);
    }

    #[test]
    fn over_a_long_time_no_more_than_the_rate_starts() {
        let (mut horizon, mut started) = (0, 0);
        for now_ms in (1_000_000..1_060_000).step_by(7) {
            let allowed = TEN_A_SECOND.allow(horizon, now_ms, 3);
            horizon = allowed.horizon_us;
            started += allowed.jobs;
        }
        assert!((590..=611).contains(&started), "{started}");
    }

    #[test]
    fn a_clock_that_goes_back_locks_nothing_for_longer_than_a_period() {
        let late = TEN_A_SECOND.allow(0, 9_000_000, 10);
        let back = TEN_A_SECOND.allow(late.horizon_us, 1_000_000, 10);
        assert_eq!((back.jobs, back.next_at_ms), (0, 1_000_100));
    }
}
