//! The machine's clocks, for threads that wait.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nagaya_tiering::clock::Clock;

/// The clocks of the operating system. Time in which the machine slept is not counted, so a thread that
/// waits by this clock waits too long rather than too short. Holders of leases must not use it.
#[derive(Clone, Copy, Debug)]
pub struct WaitClock {
    start: Instant,
}

impl Default for WaitClock {
    #[allow(clippy::disallowed_methods, reason = "this is the clock that is handed in")]
    fn default() -> WaitClock {
        WaitClock {
            start: Instant::now(),
        }
    }
}

impl Clock for WaitClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn unix_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }
}
