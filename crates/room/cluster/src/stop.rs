//! How threads learn that they should end.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nagaya_tiering::clock::Clock;

/// A word that is said once and heard by all who share it.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    shared: Arc<(Mutex<bool>, Condvar)>,
}

impl Stop {
    pub fn tell(&self) {
        *self.told() = true;
        self.shared.1.notify_all();
    }

    pub fn is_told(&self) -> bool {
        *self.told()
    }

    /// Waits for a while, or until it is told; returns whether it is.
    pub fn wait(&self, time: Duration) -> bool {
        let told = self
            .shared
            .1
            .wait_timeout_while(self.told(), time, |is_told| !*is_told);
        *told.unwrap_or_else(PoisonError::into_inner).0
    }

    fn told(&self) -> MutexGuard<'_, bool> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A clock whose sleepers are woken when it is time to stop.
pub(crate) struct StoppableClock {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stop: Stop,
}

impl Clock for StoppableClock {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn unix_ms(&self) -> i64 {
        self.clock.unix_ms()
    }

    fn sleep(&self, time: Duration) {
        self.stop.wait(time);
    }
}
