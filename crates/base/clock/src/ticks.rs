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

    fn measure() -> TickRate {
        const SPAN: Duration = Duration::from_millis(2);
        let (started, from) = reading();
        let (ended, to) = loop {
            let (now, count) = reading();
            if now - started >= SPAN {
                break (now, count);
            }
            std::hint::spin_loop();
        };
        let ns = (ended - started).as_nanos() as u64;
        TickRate {
            ns_per_tick_shifted: (ns << 24) / (to - from).max(1),
        }
    }
}

/// Reads clock and counter at the same moment. The thread may be stopped between the two, so the closest of some
/// readings counts.
#[allow(clippy::disallowed_methods, reason = "this is the clock")]
fn reading() -> (Instant, u64) {
    const TRIES: usize = 4;
    let once = || {
        let (before, now, after) = (ticks(), Instant::now(), ticks());
        (after.saturating_sub(before), now, before)
    };
    let mut best = once();
    for _ in 1..TRIES {
        let next = once();
        if next.0 < best.0 {
            best = next;
        }
    }
    let (width, now, before) = best;
    (now, before + width / 2)
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
    fn ticks_measure_what_the_clock_measures() {
        let rate = TickRate::get();
        // The clock is read inside of one pair of counts and outside of another, so that a thread that is stopped
        // anywhere in between changes nothing.
        let outer = ticks();
        let started = Instant::now();
        let inner = ticks();
        while started.elapsed() < Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        let inner_ns = rate.ns_between(inner, ticks());
        let clock_ns = started.elapsed().as_nanos() as u64;
        let outer_ns = rate.ns_between(outer, ticks());
        assert!(inner_ns * 99 / 100 <= clock_ns, "{inner_ns} within {clock_ns}");
        assert!(outer_ns * 101 / 100 >= clock_ns, "{outer_ns} around {clock_ns}");
        assert_eq!(rate.ns_between(5, 4), 0);
    }
}
