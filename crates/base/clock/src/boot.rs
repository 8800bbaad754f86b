//! The clock that leases are measured on.
//!
//! A lease ends by its holder's own clock, so that clock has to go on while the machine is suspended. With
//! one that stops, a resumed holder would use what was given to another one in the meantime. `Instant`
//! stops in suspend on Linux.

use std::ops::{Add, Sub};
use std::time::Duration;

use crate::SystemClock;

/// A moment on one machine's boot clock: the time since its start, suspend included. Moments of two
/// machines, or of two boots, cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(Duration);

impl BootTime {
    /// The start of the machine; earlier than every reading.
    pub const ZERO: BootTime = BootTime(Duration::ZERO);

    /// Returns the moment that was `time` after the start of the machine.
    pub const fn since_boot(time: Duration) -> BootTime {
        BootTime(time)
    }

    pub const fn from_nanos(nanos: u64) -> BootTime {
        BootTime(Duration::from_nanos(nanos))
    }

    pub const fn from_micros(micros: u64) -> BootTime {
        BootTime(Duration::from_micros(micros))
    }

    pub const fn from_millis(millis: u64) -> BootTime {
        BootTime(Duration::from_millis(millis))
    }

    /// Returns the nanoseconds since the start of the machine. A `u64` holds 584 years of them.
    pub fn as_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the microseconds since the start of the machine.
    pub fn as_micros(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }

    /// Returns the milliseconds since the start of the machine.
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

/// A source of boot time.
pub trait BootClock: Send + Sync + 'static {
    fn now(&self) -> BootTime;
}

/// Reads the machine's boot clock.
pub fn boot_now() -> BootTime {
    BootClock::now(&SystemClock)
}
