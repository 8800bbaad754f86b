//! A stop signal for threads.

use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::{Clock, Sleep};
use parking_lot::{Condvar, Mutex};

/// A signal that is set once and seen by all its clones.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    shared: Arc<(Mutex<bool>, Condvar)>,
}

impl Stop {
    pub fn set(&self) {
        *self.shared.0.lock() = true;
        self.shared.1.notify_all();
    }

    pub fn is_set(&self) -> bool {
        *self.shared.0.lock()
    }

    /// Waits for a time, or until the signal is set; returns whether it is.
    pub fn wait(&self, time: Duration) -> bool {
        let mut is_set = self.shared.0.lock();
        self.shared.1.wait_while_for(&mut is_set, |is_set| !*is_set, time);
        *is_set
    }
}

/// A clock whose sleeps end early when the stop signal is set.
pub(crate) struct StoppableClock {
    pub(crate) clock: Arc<dyn Sleep>,
    pub(crate) stop: Stop,
}

impl Clock for StoppableClock {
    fn unix_us(&self) -> i64 {
        self.clock.unix_us()
    }

    fn steady_us(&self) -> u64 {
        self.clock.steady_us()
    }
}

impl Sleep for StoppableClock {
    fn sleep(&self, time: Duration) {
        self.stop.wait(time);
    }
}
