//! A clock that moves only when it is told to.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;

/// Sleeping moves this clock, so nobody waits.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Mutex<Duration>,
}

impl ManualClock {
    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        *self.lock() += by;
    }

    fn lock(&self) -> MutexGuard<'_, Duration> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.lock()
    }

    /// Begins in 2023.
    fn unix_ms(&self) -> i64 {
        1_700_000_000_000 + i64::try_from(self.lock().as_millis()).unwrap_or(0)
    }

    fn sleep(&self, time: Duration) {
        self.advance(time);
    }
}
