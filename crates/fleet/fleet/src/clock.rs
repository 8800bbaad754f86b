//! The clock that leases are measured on: the boot clock, which advances while the machine is suspended. With
//! a clock that stops in suspend, an agent would resume with workers that were reassigned meanwhile.

use std::ops::{Add, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A moment on one machine's boot clock. Moments of two machines cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(Duration);

impl BootTime {
    pub const ZERO: BootTime = BootTime(Duration::ZERO);

    pub const fn from_millis(millis: u64) -> BootTime {
        BootTime(Duration::from_millis(millis))
    }

    pub const fn from_micros(micros: u64) -> BootTime {
        BootTime(Duration::from_micros(micros))
    }

    pub fn as_micros(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }

    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns how much later this is than `earlier`; zero if it is not later.
    pub fn since(self, earlier: BootTime) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for BootTime {
    type Output = BootTime;

    fn add(self, by: Duration) -> BootTime {
        BootTime(self.0.saturating_add(by))
    }
}

impl Sub<Duration> for BootTime {
    type Output = BootTime;

    fn sub(self, by: Duration) -> BootTime {
        BootTime(self.0.saturating_sub(by))
    }
}

/// Reads the kernel's boot clock.
pub fn boot_now() -> BootTime {
    let time = clock_gettime(ClockId::Boottime);
    // Neither part is ever negative on this clock.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    BootTime(Duration::new(seconds, nanos))
}

/// Unix milliseconds by the wall clock, for display only.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_goes_forward() {
        let first = boot_now();
        assert!(first > BootTime::ZERO && boot_now() >= first);
        assert_eq!(BootTime::ZERO.since(first), Duration::ZERO);
    }
}
