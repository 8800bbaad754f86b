//! Time, as something that is handed in.
//!
//! Rules that depend on time take a [`Clock`], so that a test moves time by hand instead of
//! waiting for it. Lengths of time are measured with [`Clock::now`], which never goes back;
//! [`Clock::unix_ms`] is for dates that leave the process (stored, shown, compared with
//! other machines) and may jump when the system's clock is set.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// The monotonic time: only differences between two of them mean anything.
    fn now(&self) -> Instant;

    /// Milliseconds since the Unix epoch, by the wall clock.
    fn unix_ms(&self) -> u64;
}

/// The clocks of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is where the injected clock reads the real one"
    )]
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// A wall clock set before 1970 reads as 0.
    fn unix_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock {
    start: Instant,
    time: Mutex<ManualTime>,
}

#[derive(Debug)]
struct ManualTime {
    elapsed: Duration,
    unix_ms: u64,
}

impl ManualClock {
    /// A clock whose wall time begins at `unix_ms`.
    pub fn at_unix_ms(unix_ms: u64) -> ManualClock {
        let time = Mutex::new(ManualTime {
            elapsed: Duration::ZERO,
            unix_ms,
        });
        ManualClock {
            start: SystemClock.now(),
            time,
        }
    }

    /// Lets time pass on both clocks.
    pub fn advance(&self, by: Duration) {
        let mut time = self.lock();
        time.elapsed += by;
        time.unix_ms += u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    }

    /// Sets the wall clock alone, forward or back, as an administrator or NTP may.
    pub fn set_unix_ms(&self, unix_ms: u64) {
        self.lock().unix_ms = unix_ms;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ManualTime> {
        self.time
            .lock()
            .expect("no code panics while it holds the manual clock")
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.start + self.lock().elapsed
    }

    fn unix_ms(&self) -> u64 {
        self.lock().unix_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let clock = ManualClock::at_unix_ms(1_000);
        let before = clock.now();
        assert_eq!(clock.now(), before);
        clock.advance(Duration::from_millis(250));
        assert_eq!(clock.now() - before, Duration::from_millis(250));
        assert_eq!(clock.unix_ms(), 1_250);
        clock.set_unix_ms(7);
        assert_eq!(
            (clock.unix_ms(), clock.now() - before),
            (7, Duration::from_millis(250))
        );
    }

    #[test]
    fn the_system_clock_is_past_2020_and_does_not_go_back() {
        let first = SystemClock.now();
        assert!(SystemClock.now() >= first);
        assert!(SystemClock.unix_ms() > 1_577_836_800_000);
    }
}
