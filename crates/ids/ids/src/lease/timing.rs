//! The durations of the lease protocol, and the rules between them.
//!
//! A holder may use its number for `use_for` (U) after it sent its last confirmed renewal, by its
//! own clock. A taker waits `delay` (W) by *its* clock from the receipt of the grant. That W is over
//! only when U is over holds if W >= U (1+rho)/(1-rho), rho being how wrong the rate of a clock may
//! be; the allowed disagreement of two machines' wall clocks comes on top and matters for ids alone.
//! `reserve` (R) keeps numbers from being taken needlessly; nothing unsafe follows from a short one.

use std::time::Duration;

/// The shortest reservation that yaraus accepts.
const RESERVE_MIN: Duration = Duration::from_secs(1);
/// Two renewals may fail before a window ends.
const RENEWALS_PER_WINDOW: u32 = 3;
const MILLION: u64 = 1_000_000;

/// The durations that the user asks for; the others follow from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimingOptions {
    /// yaraus's `-interval`.
    pub interval: Option<Duration>,
    /// yaraus's `-delay`.
    pub delay: Option<Duration>,
    /// yaraus's `-expire`.
    pub reserve: Option<Duration>,
    pub use_for: Option<Duration>,
    /// Accepts yaraus's own limits being broken, as its flag
    /// `-i-am-a-database-removable-specialist` does. The limits of our protocol always hold.
    pub without_guards: bool,
}

/// Durations that fit each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// U: how long a number may be used after the last confirmed renewal was sent.
    pub use_for: Duration,
    /// i: how often to renew, and how often to try again.
    pub interval: Duration,
    /// W: how long to wait before the first use of a number that another holder may still use.
    pub delay: Duration,
    /// R: how long the number stays away from others after each renewal.
    pub reserve: Duration,
    /// rho: how far a clock's rate may be off, in millionths.
    pub drift_ppm: u64,
    /// S: how far two machines' wall clocks may disagree.
    pub skew: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        let mut timing = Timing {
            use_for: Duration::from_secs(3),
            interval: Duration::from_secs(1),
            delay: Duration::ZERO,
            reserve: Duration::from_secs(30),
            drift_ppm: 500,
            skew: Duration::from_millis(500),
        };
        timing.delay = timing.delay_min();
        timing
    }
}

impl Timing {
    /// Returns the shortest safe delay for this use time.
    pub fn delay_min(&self) -> Duration {
        let rho = self.drift_ppm.min(MILLION / 2);
        let nanos = self.use_for.as_nanos() * u128::from(MILLION + rho);
        let nanos = nanos.div_ceil(u128::from(MILLION - rho));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)) + self.skew
    }

    /// Derives durations that fit each other, with a sentence for each that had to be changed.
    pub fn from_options(options: TimingOptions, base: Timing) -> (Timing, Vec<String>) {
        let mut changes = Vec::new();
        let mut correct = |what: &str, from: Duration, to: Duration, why: &str| {
            changes.push(format!("{what} of {from:?} is too {why}; {to:?} is used instead"));
            to
        };
        let mut timing = base;
        timing.reserve = options.reserve.unwrap_or(base.reserve);
        timing.interval = options.interval.unwrap_or(base.interval);
        if !options.without_guards {
            if timing.reserve < RESERVE_MIN {
                timing.reserve = correct("expire", timing.reserve, RESERVE_MIN, "short");
            }
            if timing.interval > timing.reserve / 2 {
                timing.interval = correct("interval", timing.interval, timing.reserve / 2, "long");
            }
        }
        let delay_asked = options.delay.unwrap_or(base.delay);
        if !options.without_guards && delay_asked < timing.interval * 2 {
            timing.delay = correct("delay", delay_asked, timing.interval * 2, "short");
        }
        // From here on: the rules that safety needs.
        let window_min = timing.interval * RENEWALS_PER_WINDOW;
        timing.use_for = options.use_for.unwrap_or_else(|| base.use_for.max(window_min));
        if timing.use_for < window_min {
            let interval = timing.use_for / RENEWALS_PER_WINDOW;
            timing.interval = correct("interval", timing.interval, interval, "long");
        }
        timing.delay = options
            .delay
            .unwrap_or_else(|| timing.delay_min())
            .max(timing.interval * 2);
        if timing.delay < timing.delay_min() {
            timing.delay = correct("delay", timing.delay, timing.delay_min(), "short");
        }
        let reserve_min = timing.use_for + timing.interval;
        if timing.reserve < reserve_min {
            timing.reserve = correct("expire", timing.reserve, reserve_min, "short");
        }
        (timing, changes)
    }

    /// Returns how far ahead of the clock the ceiling is put: as long as ids may be made before the next
    /// renewal has to be confirmed, and the allowed disagreement once more.
    pub fn ceiling_ahead(&self) -> Duration {
        self.use_for + self.skew
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(value: u64) -> Option<Duration> {
        Some(Duration::from_secs(value))
    }

    fn fit(options: TimingOptions) -> (Timing, usize) {
        let (timing, changes) = Timing::from_options(options, Timing::default());
        assert!(timing.delay >= timing.delay_min(), "{timing:?}");
        assert!(timing.interval * 3 <= timing.use_for, "{timing:?}");
        assert!(timing.reserve >= timing.use_for + timing.interval, "{timing:?}");
        (timing, changes.len())
    }

    #[test]
    fn the_defaults_fit_each_other() {
        let (timing, changes) = fit(TimingOptions::default());
        assert_eq!((timing, changes), (Timing::default(), 0));
        // 3 s stretched by 1000 ppm, and half a second.
        assert_eq!(timing.delay.as_millis(), 3_503);
    }

    #[test]
    fn yarauss_flags_are_corrected_as_yaraus_does_and_then_made_safe() {
        let yaraus = TimingOptions {
            interval: secs(1),
            delay: secs(2),
            reserve: secs(1800),
            ..TimingOptions::default()
        };
        let (timing, changes) = fit(yaraus);
        assert_eq!(
            (timing.interval, timing.reserve),
            (Duration::from_secs(1), Duration::from_secs(1800))
        );
        assert_eq!(changes, 1, "the delay alone is too short");
        let short = TimingOptions {
            interval: secs(10),
            reserve: Some(Duration::from_millis(100)),
            ..TimingOptions::default()
        };
        let (timing, changes) = Timing::from_options(short, Timing::default());
        assert_eq!(timing.interval, Duration::from_millis(500));
        assert!(changes.len() >= 2, "{changes:?}");
        fit(short);
    }

    #[test]
    fn a_long_interval_lengthens_the_window_unless_that_was_given() {
        let (timing, _) = fit(TimingOptions {
            interval: secs(4),
            ..TimingOptions::default()
        });
        assert_eq!(timing.use_for, Duration::from_secs(12));
        let (timing, _) = fit(TimingOptions {
            interval: secs(4),
            use_for: secs(6),
            ..TimingOptions::default()
        });
        assert_eq!(timing.interval, Duration::from_secs(2));
    }

    #[test]
    fn without_guards_the_protocols_own_limits_still_hold() {
        let wild = TimingOptions {
            interval: secs(20),
            delay: Some(Duration::ZERO),
            reserve: Some(Duration::ZERO),
            without_guards: true,
            ..TimingOptions::default()
        };
        fit(wild);
    }
}
