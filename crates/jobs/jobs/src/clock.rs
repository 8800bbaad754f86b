//! Time as an argument.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The clock of a store. All servers of one store go by one clock, so that a lease means the same to all.
pub trait Clock: Send + Sync + 'static {
    /// Returns the wall clock, Unix milliseconds. An administrator may set it.
    fn unix_ms(&self) -> i64;

    /// Returns the milliseconds since some moment, by a clock that nobody sets. Only differences mean anything.
    fn steady_ms(&self) -> i64;
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn steady_ms(&self) -> i64 {
        i64::try_from(nagaya_clock::boot_now().as_millis()).unwrap_or(i64::MAX)
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock {
    unix_ms: AtomicI64,
    steady_ms: AtomicI64,
}

impl ManualClock {
    pub fn at(unix_ms: i64) -> ManualClock {
        ManualClock {
            unix_ms: AtomicI64::new(unix_ms),
            steady_ms: AtomicI64::new(0),
        }
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        self.unix_ms.fetch_add(span_ms(by), Ordering::SeqCst);
        self.steady_ms.fetch_add(span_ms(by), Ordering::SeqCst);
    }

    /// Sets the wall clock, forward or back, as an administrator may. No time passes.
    pub fn set(&self, unix_ms: i64) {
        self.unix_ms.store(unix_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn unix_ms(&self) -> i64 {
        self.unix_ms.load(Ordering::SeqCst)
    }

    fn steady_ms(&self) -> i64 {
        self.steady_ms.load(Ordering::SeqCst)
    }
}

/// Differences between the clocks up to this are drift and the error of readings, milliseconds.
const DRIFT_MS: i64 = 1_000;

/// A reading of both clocks of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub unix_ms: i64,
    pub steady_ms: i64,
}

impl Reading {
    pub fn of(clock: &dyn Clock) -> Reading {
        Reading {
            unix_ms: clock.unix_ms(),
            steady_ms: clock.steady_ms(),
        }
    }

    /// Returns by how many milliseconds the wall clock was set between two readings; `None` when it was not.
    pub fn step_since(self, earlier: Reading) -> Option<i64> {
        let passed_ms = self.steady_ms - earlier.steady_ms;
        let step_ms = self.unix_ms - earlier.unix_ms - passed_ms;
        (step_ms.abs() > DRIFT_MS).then_some(step_ms)
    }
}

/// Longest time that a lease gets when its end passed while no server was there to be asked.
pub const GRACE_MAX: Duration = Duration::from_secs(60);

/// Returns a length of time in whole milliseconds.
pub fn span_ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX / 4)
}

/// Returns the length of time of a number of milliseconds; zero for a negative number.
pub fn span(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_told_from_time_that_passed() {
        let clock = ManualClock::at(1_000_000);
        let first = Reading::of(&clock);
        clock.advance(Duration::from_secs(3_600));
        let second = Reading::of(&clock);
        assert_eq!(second.step_since(first), None);
        clock.set(clock.unix_ms() + 900);
        assert_eq!(Reading::of(&clock).step_since(second), None, "drift");
        clock.set(first.unix_ms);
        clock.advance(Duration::from_secs(5));
        assert_eq!(Reading::of(&clock).step_since(second), Some(-3_600_000));
    }
}
