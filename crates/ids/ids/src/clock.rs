//! The clock that leases are measured on.
//!
//! A lease ends by its holder's own clock, so that clock has to go on while the machine sleeps:
//! one that stops in suspend would let a woken holder use a number that was given away meanwhile.
//! `Instant` is such a clock on Linux, which is why it is not used here.

use std::ops::{Add, Sub};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A moment on the boot clock: the time since this machine started, suspend included. Moments of
/// two machines, or of two boots, have nothing to do with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(Duration);

impl BootTime {
    /// The moment the machine started; earlier than every reading.
    pub const ZERO: BootTime = BootTime(Duration::ZERO);

    pub const fn from_nanos(nanos: u64) -> BootTime {
        BootTime(Duration::from_nanos(nanos))
    }

    /// Nanoseconds since the start of the machine; a `u64` holds 584 years of them.
    pub fn as_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// How much later this is than `earlier`; zero if it is not later.
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

/// The kernel's own boot clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemBootClock;

impl BootClock for SystemBootClock {
    fn now(&self) -> BootTime {
        let time = clock_gettime(ClockId::Boottime);
        // Neither part is ever negative on this clock.
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        BootTime(Duration::new(seconds, nanos))
    }
}

/// The clock that stamps ids: wall time once at the start, the boot clock from there on. So steps of
/// the wall clock while we run are not seen, in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdClock {
    unix_ms: u64,
    at: BootTime,
}

impl IdClock {
    /// Reads the wall clock once.
    pub fn start(clock: &dyn BootClock) -> IdClock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        IdClock::at(unix_ms, clock.now())
    }

    /// A clock that shows `unix_ms` at a moment of the boot clock.
    pub fn at(unix_ms: u64, at: BootTime) -> IdClock {
        IdClock { unix_ms, at }
    }

    /// Unix milliseconds at `now`.
    pub fn unix_ms(&self, now: BootTime) -> u64 {
        self.unix_nanos(now) / 1_000_000
    }

    /// Unix nanoseconds at `now`, to tell how much of a millisecond is left.
    pub fn unix_nanos(&self, now: BootTime) -> u64 {
        let since = now.as_nanos().saturating_sub(self.at.as_nanos());
        self.unix_ms.saturating_mul(1_000_000).saturating_add(since)
    }
}

/// A boot clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualBootClock(Mutex<BootTime>);

impl ManualBootClock {
    pub fn at(start: BootTime) -> ManualBootClock {
        ManualBootClock(Mutex::new(start))
    }

    /// Lets time pass; there is no way back.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock().expect("no code panics while it holds the clock");
        *now = *now + by;
    }
}

impl BootClock for ManualBootClock {
    fn now(&self) -> BootTime {
        *self.0.lock().expect("no code panics while it holds the clock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_boot_clock_goes_forward() {
        let first = SystemBootClock.now();
        assert!(first > BootTime::ZERO);
        assert!(SystemBootClock.now() >= first);
    }

    #[test]
    fn a_manual_boot_clock_moves_only_by_hand() {
        let clock = ManualBootClock::at(BootTime::from_nanos(5));
        clock.advance(Duration::from_nanos(7));
        assert_eq!(clock.now().as_nanos(), 12);
        assert_eq!(BootTime::ZERO.since(clock.now()), Duration::ZERO);
    }
}
