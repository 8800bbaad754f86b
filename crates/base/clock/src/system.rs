//! The clocks of the operating system.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::{BootClock, BootTime, Clock, Sleep};

/// The clocks of the operating system. A wall clock set before 1970 reads as 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Returns the moment that this process's steady time is counted from: the first reading.
#[allow(clippy::disallowed_methods, reason = "this is the clock that is passed in")]
pub(crate) fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

impl Clock for SystemClock {
    #[inline]
    fn unix_us(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_micros() as i64
    }

    #[inline]
    fn steady_us(&self) -> u64 {
        start().elapsed().as_micros() as u64
    }

    #[allow(clippy::disallowed_methods, reason = "this is the clock that is passed in")]
    fn now(&self) -> Instant {
        Instant::now()
    }
}

impl Sleep for SystemClock {
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

impl BootClock for SystemClock {
    fn now(&self) -> BootTime {
        let time = clock_gettime(ClockId::Boottime);
        // Neither part is ever negative on this clock.
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        BootTime::since_boot(Duration::new(seconds, nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_clocks_do_not_go_back_and_the_wall_clock_is_past_2020() {
        let (steady_us, now) = (SystemClock.steady_us(), Clock::now(&SystemClock));
        assert!(SystemClock.steady_us() >= steady_us);
        assert!(Clock::now(&SystemClock) >= now);
        assert!(SystemClock.unix_ms() > 1_577_836_800_000);
        assert!(SystemClock.unix_us() / 1000 >= SystemClock.unix_ms() - 1000);
    }

    #[test]
    fn the_boot_clock_goes_forward() {
        let first = BootClock::now(&SystemClock);
        assert!(first > BootTime::ZERO);
        assert!(BootClock::now(&SystemClock) >= first);
    }
}
