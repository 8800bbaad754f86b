//! The clock that ids are stamped with.
//!
//! The wall clock is read once, at the start; from then on time passes as the boot clock says. So an
//! administrator, NTP or a leap second that sets the wall clock back cannot make this process repeat a
//! time, and time spent in suspend counts. The price: a wall clock that is corrected later is followed only
//! by the next process. [`RunningClock::behind_wall_ms`] shows the difference. A restart with a clock that
//! was set back is the concern of the floor (see `permit.rs`).

use std::sync::Arc;

use nagaya_clock::{BootClock, BootTime, Clock, SystemClock};

/// Maps boot time to the Unix time of ids: the wall clock is read once, and the boot clock counts from
/// there. Steps of the wall clock while the process runs have no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdClock {
    unix_ms: u64,
    at: BootTime,
}

impl IdClock {
    /// Reads the wall clock once.
    pub fn start(clock: &dyn BootClock) -> IdClock {
        IdClock::at(SystemClock.unix_ms().unsigned_abs(), clock.now())
    }

    /// Makes a clock that shows `unix_ms` at a moment of the boot clock.
    pub fn at(unix_ms: u64, at: BootTime) -> IdClock {
        IdClock { unix_ms, at }
    }

    /// Returns the Unix milliseconds at `now`.
    pub fn unix_ms(&self, now: BootTime) -> u64 {
        self.unix_nanos(now) / 1_000_000
    }

    /// Returns the Unix nanoseconds at `now`, which show how much of a millisecond is left.
    pub fn unix_nanos(&self, now: BootTime) -> u64 {
        let since = now.as_nanos().saturating_sub(self.at.as_nanos());
        self.unix_ms.saturating_mul(1_000_000).saturating_add(since)
    }
}

/// Unix time that never goes back while the process lives.
#[derive(Clone)]
pub struct RunningClock {
    boot: Arc<dyn BootClock>,
    stamp: IdClock,
}

impl RunningClock {
    /// Starts from the system's wall clock. A wall clock set before 1970 reads as 1970.
    pub fn system() -> RunningClock {
        RunningClock::new(Arc::new(SystemClock), IdClock::start(&SystemClock))
    }

    /// Combines the two clocks. A lease must count its ceilings on the same ones.
    pub fn new(boot: Arc<dyn BootClock>, stamp: IdClock) -> RunningClock {
        RunningClock { boot, stamp }
    }

    /// Returns the time for the next id, in nanoseconds since 1970.
    pub fn unix_nanos(&self) -> u64 {
        self.stamp.unix_nanos(self.boot.now())
    }

    pub fn unix_ms(&self) -> u64 {
        self.unix_nanos() / 1_000_000
    }

    /// Returns a reading of the boot clock underneath.
    pub fn boot(&self) -> BootTime {
        self.boot.now()
    }

    /// Returns how far the system's wall clock is ahead of this one; negative when it is behind.
    pub fn behind_wall_ms(&self) -> i64 {
        SystemClock.unix_ms().saturating_sub_unsigned(self.unix_ms())
    }
}

impl std::fmt::Debug for RunningClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RunningClock").field(&self.unix_ms()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nagaya_clock::ManualClock;

    use super::*;

    #[test]
    fn time_passes_as_the_boot_clock_says() {
        let boot = Arc::new(ManualClock::default());
        boot.advance(Duration::from_nanos(99));
        let clock = RunningClock::new(Arc::clone(&boot) as _, IdClock::at(5_000, BootClock::now(&*boot)));
        assert_eq!(clock.unix_ms(), 5_000);
        boot.advance(Duration::from_micros(1_999));
        assert_eq!((clock.unix_ms(), clock.unix_nanos()), (5_001, 5_001_999_000));
    }

    #[test]
    fn the_system_clock_starts_at_the_wall_clock() {
        let clock = RunningClock::system();
        assert!(clock.behind_wall_ms().abs() < 1_000, "{clock:?}");
    }
}
