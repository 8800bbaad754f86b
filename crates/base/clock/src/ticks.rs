//! The processor's time stamp counter: a few nanoseconds where a clock call costs tens.
#![allow(unsafe_code, reason = "reading the counter is an intrinsic")]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns a count that rises evenly with time; [`TickRate`] turns differences into nanoseconds.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 processor has the instruction, and it touches no memory.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        steady_ns()
    }
}

/// The duration of a tick.
#[derive(Clone, Copy, Debug)]
pub struct TickRate {
    /// Nanoseconds per tick, times 2^24.
    ns_per_tick_shifted: u64,
}

impl TickRate {
    /// Returns the rate, which is measured once per process: the first call takes two milliseconds.
    pub fn get() -> TickRate {
        static RATE: OnceLock<TickRate> = OnceLock::new();
        *RATE.get_or_init(TickRate::measure)
    }

    /// Returns the nanoseconds between two counts; zero when the second is from a core that lags.
    #[inline]
    pub fn ns_between(self, from: u64, to: u64) -> u64 {
        let ticks = u128::from(to.saturating_sub(from));
        ((ticks * u128::from(self.ns_per_tick_shifted)) >> 24) as u64
    }

    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    fn measure() -> TickRate {
        const SPAN: Duration = Duration::from_millis(2);
        let (started, from) = (Instant::now(), ticks());
        while started.elapsed() < SPAN {
            std::hint::spin_loop();
        }
        let (elapsed, to) = (started.elapsed(), ticks());
        let ns = elapsed.as_nanos() as u64;
        TickRate {
            ns_per_tick_shifted: (ns << 24) / (to - from).max(1),
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[allow(clippy::disallowed_methods, reason = "this is the clock")]
fn steady_ns() -> u64 {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    STARTED.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "compared with the clock itself")]
    fn ticks_measure_about_what_the_clock_measures() {
        let rate = TickRate::get();
        let (started, from) = (Instant::now(), ticks());
        while started.elapsed() < Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        let least = started.elapsed();
        let ns = rate.ns_between(from, ticks());
        // A busy machine may stop the thread anywhere: what passed on the clock is the measure.
        let most = started.elapsed();
        let possible = least.as_nanos() as u64 * 9 / 10..most.as_nanos() as u64 * 10;
        assert!(possible.contains(&ns), "{ns} is not in {possible:?}");
        assert_eq!(rate.ns_between(5, 4), 0);
    }
}
