//! The clock that ids are stamped with, together with what makes it run.
//!
//! The wall clock is read once, at the start; from then on time passes as the boot clock says.
//! So an administrator, NTP or a leap second that sets the wall clock back cannot make this
//! process repeat a time, and time spent in suspend counts. The price: a wall clock corrected
//! later is followed only by the next process. [`RunningClock::behind_wall_ms`] shows how far
//! off that is. What happens over a restart with a clock set back is the floor's business, not
//! the clock's (see `permit.rs`).

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock::{BootClock, BootTime, IdClock, SystemBootClock};

/// Unix time that never goes back while the process lives.
#[derive(Clone)]
pub struct RunningClock {
    boot: Arc<dyn BootClock>,
    stamp: IdClock,
}

impl RunningClock {
    /// Starts from the system's wall clock. A wall clock set before 1970 reads as 1970.
    pub fn system() -> RunningClock {
        RunningClock::new(Arc::new(SystemBootClock), IdClock::start(&SystemBootClock))
    }

    /// The clock that a lease's ceilings are counted on; the two must be the same.
    pub fn new(boot: Arc<dyn BootClock>, stamp: IdClock) -> RunningClock {
        RunningClock { boot, stamp }
    }

    /// The time for the next id, in nanoseconds since 1970.
    pub fn unix_nanos(&self) -> u64 {
        self.stamp.unix_nanos(self.boot.now())
    }

    pub fn unix_ms(&self) -> u64 {
        self.unix_nanos() / 1_000_000
    }

    /// A reading of the boot clock underneath.
    pub fn boot(&self) -> BootTime {
        self.boot.now()
    }

    /// How far the system's wall clock is ahead of this one; negative when it is behind.
    pub fn behind_wall_ms(&self) -> i64 {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ms = i64::try_from(wall.as_millis()).unwrap_or(i64::MAX);
        wall_ms.saturating_sub_unsigned(self.unix_ms())
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

    use super::*;
    use crate::clock::ManualBootClock;

    #[test]
    fn time_passes_as_the_boot_clock_says() {
        let boot = Arc::new(ManualBootClock::at(BootTime::from_nanos(99)));
        let clock = RunningClock::new(Arc::clone(&boot) as _, IdClock::at(5_000, boot.now()));
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
