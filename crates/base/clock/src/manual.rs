//! A clock for tests.

use std::time::Duration;

use parking_lot::Mutex;

use crate::{BootClock, BootTime, Clock, Sleep};

/// A clock that stands still until a test moves it. Sleeping moves it, so no test waits.
#[derive(Debug)]
pub struct ManualClock(Mutex<ManualTime>);

#[derive(Debug)]
struct ManualTime {
    /// The steady time, which is the boot time too.
    steady: Duration,
    unix_us: i64,
}

impl Default for ManualClock {
    /// Begins in November 2023.
    fn default() -> ManualClock {
        ManualClock::at_unix_ms(1_700_000_000_000)
    }
}

impl ManualClock {
    /// Makes a clock whose wall time begins at `unix_ms` and whose steady time begins at zero.
    pub fn at_unix_ms(unix_ms: i64) -> ManualClock {
        ManualClock(Mutex::new(ManualTime {
            steady: Duration::ZERO,
            unix_us: unix_ms * 1000,
        }))
    }

    /// Lets time pass on all clocks.
    pub fn advance(&self, by: Duration) {
        let mut time = self.0.lock();
        time.steady += by;
        let by_us = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        time.unix_us = time.unix_us.saturating_add(by_us);
    }

    /// Sets the wall clock alone, forward or back, as an administrator or NTP may.
    pub fn set_unix_ms(&self, unix_ms: i64) {
        self.0.lock().unix_us = unix_ms * 1000;
    }
}

impl Clock for ManualClock {
    fn unix_us(&self) -> i64 {
        self.0.lock().unix_us
    }

    fn steady_us(&self) -> u64 {
        self.0.lock().steady.as_micros() as u64
    }
}

impl Sleep for ManualClock {
    fn sleep(&self, time: Duration) {
        self.advance(time);
    }
}

impl BootClock for ManualClock {
    fn now(&self) -> BootTime {
        BootTime::since_boot(self.0.lock().steady)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let clock = ManualClock::at_unix_ms(1_000);
        let before = Clock::now(&clock);
        assert_eq!(Clock::now(&clock), before);
        clock.advance(Duration::from_micros(250_500));
        assert_eq!(Clock::now(&clock) - before, Duration::from_micros(250_500));
        assert_eq!((clock.unix_ms(), clock.unix_us()), (1_250, 1_250_500));
        clock.sleep(Duration::from_nanos(7));
        assert_eq!(BootClock::now(&clock).as_nanos(), 250_500_007);
        assert_eq!(BootTime::ZERO.since(BootClock::now(&clock)), Duration::ZERO);
    }

    #[test]
    fn a_step_of_the_wall_clock_leaves_the_others_alone() {
        let clock = ManualClock::at_unix_ms(1_000);
        clock.advance(Duration::from_millis(250));
        clock.set_unix_ms(7);
        assert_eq!((clock.unix_ms(), clock.steady_us()), (7, 250_000));
    }
}
