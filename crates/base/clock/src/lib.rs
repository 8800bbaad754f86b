//! Time as a dependency that is passed in.
//!
//! Code whose behaviour depends on time takes a clock, so that a test moves time by hand instead of
//! waiting for it. There are three kinds of time:
//! - the wall clock ([`Clock::unix_us`]) for dates that leave the process. It may step;
//! - the steady clock ([`Clock::steady_us`]) for durations and deadlines inside one process. It never goes
//!   back, and stands still while the machine is suspended;
//! - the boot clock ([`BootClock`]) for leases. It never goes back, and counts time in suspend.

mod boot;
mod manual;
mod system;
mod ticks;

use std::time::{Duration, Instant};

pub use boot::{BootClock, BootTime, boot_now};
pub use manual::ManualClock;
pub use system::SystemClock;
pub use ticks::{TickRate, ticks};

/// A wall clock and a steady one.
pub trait Clock: Send + Sync + 'static {
    /// Returns the wall clock as microseconds since the Unix epoch. May step in either direction.
    fn unix_us(&self) -> i64;

    /// Returns the microseconds since a fixed moment before the first call. Never goes back.
    fn steady_us(&self) -> u64;

    /// Returns the wall clock as milliseconds since the Unix epoch.
    #[inline]
    fn unix_ms(&self) -> i64 {
        self.unix_us() / 1000
    }

    /// Returns the steady time. Only differences mean anything.
    #[inline]
    fn steady(&self) -> Duration {
        Duration::from_micros(self.steady_us())
    }

    /// Returns the steady time as an [`Instant`], for interfaces that take one.
    fn now(&self) -> Instant {
        system::start() + self.steady()
    }
}

/// A clock that a thread can wait by.
pub trait Sleep: Clock {
    /// Blocks the thread.
    fn sleep(&self, time: Duration);
}
