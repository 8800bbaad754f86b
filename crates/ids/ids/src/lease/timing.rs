//! The durations of the lease protocol, and the rules between them.
//!
//! A holder may use its number for `use_for` (U) after it sent its last confirmed renewal, by its
//! own clock. Holders of one pool may have unlike U, but none above `use_max` (B), which is the same in
//! the settings of all of them and in the pool's record. A taker waits W by *its* clock from the receipt of
//! the grant, for the longest use that the former holder may have had, never for its own. That W is over
//! only when any U is over holds if W >= B (1+rho)/(1-rho), rho being how wrong the rate of a clock may
//! be; the allowed disagreement of two machines' wall clocks comes on top and matters for ids alone.
//! `reserve` (R) keeps numbers from being taken needlessly; nothing unsafe follows from a short one.

use std::time::Duration;

/// The shortest reservation that yaraus accepts.
const RESERVE_MIN: Duration = Duration::from_secs(1);
/// Two renewals may fail before a window ends.
const RENEWALS_PER_WINDOW: u32 = 3;
const MILLION: u64 = 1_000_000;

/// The longest use time in a pool whose settings name no other, and the least that they may name.
pub const USE_MAX_STANDARD: Duration = Duration::from_secs(5);
/// The longest use time that any settings may allow.
pub const USE_MAX_CAP: Duration = Duration::from_secs(60);

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
    /// The longest use time of the pool.
    pub use_max: Option<Duration>,
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
    /// B: how long any holder of the pool may use its number after its last confirmed renewal.
    pub use_max: Duration,
    /// The greatest `use_max` that any process may have, for pools that were forgotten.
    pub use_cap: Duration,
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
            use_max: USE_MAX_STANDARD,
            use_cap: USE_MAX_CAP,
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
    /// Returns the shortest safe delay in a pool with this `use_max`.
    pub fn delay_min(&self) -> Duration {
        self.wait_out(self.use_max)
    }

    /// Returns how long to wait by the own clock until a use of this length by another's clock is over.
    pub fn wait_out(&self, use_for: Duration) -> Duration {
        let rho = self.drift_ppm.min(MILLION / 2);
        let nanos = use_for.as_nanos() * u128::from(MILLION + rho);
        let nanos = nanos.div_ceil(u128::from(MILLION - rho));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)) + self.skew
    }

    /// Derives durations that fit each other, with a sentence for each that had to be changed. A use time
    /// above the pool's is refused: others would not wait for it.
    pub fn from_options(options: TimingOptions, base: Timing) -> Result<(Timing, Vec<String>), TooLong> {
        let mut changes = Vec::new();
        let mut correct = |what: &str, from: Duration, to: Duration, why: &str| {
            changes.push(format!("{what} of {from:?} is too {why}; {to:?} is used instead"));
            to
        };
        let mut timing = base;
        timing.use_max = options.use_max.unwrap_or(base.use_max);
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
        if timing.use_for > timing.use_max {
            let largest = timing.use_max / RENEWALS_PER_WINDOW;
            return Err(TooLong {
                use_for: timing.use_for,
                use_max: timing.use_max,
                remedy: format!("the largest interval is {largest:?}"),
            });
        }
        timing.delay = options
            .delay
            .unwrap_or_else(|| timing.delay_min())
            .max(timing.interval * 2);
        if timing.delay < timing.delay_min() {
            timing.delay = correct("delay", timing.delay, timing.delay_min(), "short");
        }
        let reserve_min = timing.use_max + timing.interval;
        if timing.reserve < reserve_min {
            timing.reserve = correct("expire", timing.reserve, reserve_min, "short");
        }
        Ok((timing, changes))
    }

    /// Returns how far ahead of the clock the ceiling is put: as long as ids may be made before the next
    /// renewal has to be confirmed, and the allowed disagreement once more.
    pub fn ceiling_ahead(&self) -> Duration {
        self.use_for + self.skew
    }
}

/// A use time that the other holders of the pool would not wait for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "these lengths let the number be used for {use_for:?}, and the pool's longest (use_max) is {use_max:?}: {remedy}; \
     or raise use_max for all processes of the pool"
)]
pub struct TooLong {
    pub use_for: Duration,
    pub use_max: Duration,
    /// The values that fit.
    pub remedy: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(value: u64) -> Option<Duration> {
        Some(Duration::from_secs(value))
    }

    fn fit(options: TimingOptions) -> (Timing, usize) {
        let (timing, changes) = Timing::from_options(options, Timing::default()).unwrap();
        assert!(timing.delay >= timing.delay_min(), "{timing:?}");
        assert!(timing.interval * 3 <= timing.use_for, "{timing:?}");
        assert!(timing.use_for <= timing.use_max, "{timing:?}");
        assert!(timing.reserve >= timing.use_max + timing.interval, "{timing:?}");
        (timing, changes.len())
    }

    #[test]
    fn the_defaults_fit_each_other() {
        let (timing, changes) = fit(TimingOptions::default());
        assert_eq!((timing, changes), (Timing::default(), 0));
        // The pool's 5 s, not the own 3 s, stretched by 1000 ppm, and half a second.
        assert_eq!(timing.delay.as_millis(), 5_505);
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
        let (timing, changes) = Timing::from_options(short, Timing::default()).unwrap();
        assert_eq!(timing.interval, Duration::from_millis(500));
        assert!(changes.len() >= 2, "{changes:?}");
        fit(short);
    }

    #[test]
    fn a_long_interval_lengthens_the_window_unless_that_was_given() {
        let (timing, _) = fit(TimingOptions {
            interval: secs(4),
            use_max: secs(12),
            ..TimingOptions::default()
        });
        assert_eq!(timing.use_for, Duration::from_secs(12));
        let (timing, _) = fit(TimingOptions {
            interval: secs(4),
            use_for: Some(Duration::from_millis(4_500)),
            ..TimingOptions::default()
        });
        assert_eq!(timing.interval, Duration::from_millis(1_500));
    }

    #[test]
    fn a_use_time_above_the_pools_is_refused_with_the_largest_that_fits() {
        let long = TimingOptions {
            interval: secs(2),
            ..TimingOptions::default()
        };
        let refused = Timing::from_options(long, Timing::default())
            .unwrap_err()
            .to_string();
        assert!(refused.contains("largest interval is 1.666"), "{refused}");
        let raised = TimingOptions {
            use_max: secs(10),
            ..long
        };
        assert_eq!(fit(raised).0.use_for, Duration::from_secs(6));
    }

    #[test]
    fn the_wait_comes_from_the_pools_bound_and_not_from_the_own_use() {
        let short = TimingOptions {
            interval: Some(Duration::from_millis(100)),
            use_for: Some(Duration::from_millis(300)),
            ..TimingOptions::default()
        };
        let (timing, _) = fit(short);
        assert_eq!(timing.delay, Timing::default().wait_out(USE_MAX_STANDARD));
        assert!(timing.wait_out(USE_MAX_CAP) > USE_MAX_CAP);
    }

    #[test]
    fn without_guards_the_protocols_own_limits_still_hold() {
        let wild = TimingOptions {
            interval: secs(20),
            use_for: secs(4),
            delay: Some(Duration::ZERO),
            reserve: Some(Duration::ZERO),
            without_guards: true,
            ..TimingOptions::default()
        };
        fit(wild);
    }
}
