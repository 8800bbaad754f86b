//! Limits per target: a bounded concurrency, and pauses after failures.
//!
//! A target is a scheme, a host and a port, for each tenant by itself: what one tenant's deliveries meet there says
//! nothing of another's. After [`FAILURES_MAX`] failures in a row it rests, longer each
//! time. Then one delivery at a time probes it, and each success doubles the concurrency, so that a
//! recovering target is not flooded with the backlog.

use std::collections::HashMap;
use std::time::Duration;

use nagaya_jobs::shares::TenantTarget;

/// Failures in a row after which a target rests.
const FAILURES_MAX: u32 = 5;
const FIRST_REST: Duration = Duration::from_secs(5);
const REST_MAX: Duration = Duration::from_secs(5 * 60);
/// Longest pause that a target may ask for itself; the delay of a single delivery may be longer.
const ASKED_REST_MAX: Duration = Duration::from_secs(3600);
/// Targets tracked at most; idle and resting ones are dropped first.
const TARGETS_MAX: usize = 100_000;

/// Whether a delivery may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Go,
    /// The concurrency limit is reached.
    Busy,
    /// The target rests for this much longer.
    Resting {
        rest: Duration,
    },
}

#[derive(Debug)]
struct Target {
    in_flight: usize,
    /// The current concurrency limit.
    width: usize,
    failures: u32,
    rests: u32,
    /// On the caller's clock.
    rests_until: Duration,
}

/// All targets.
#[derive(Debug)]
pub struct Targets {
    width_max: usize,
    targets: HashMap<TenantTarget, Target>,
}

impl Targets {
    pub fn new(width_max: usize) -> Targets {
        Targets {
            width_max: width_max.max(1),
            targets: HashMap::new(),
        }
    }

    /// Asks for permission to send to a target. [`Admission::Go`] must be followed by [`Targets::done`] or
    /// [`Targets::cancel`].
    pub fn ask(&mut self, name: &TenantTarget, now: Duration) -> Admission {
        if self.targets.len() >= TARGETS_MAX && !self.targets.contains_key(name) {
            self.targets
                .retain(|_, target| target.in_flight > 0 || target.failures > 0);
        }
        let width_max = self.width_max;
        let target = self.targets.entry(name.clone()).or_insert_with(|| Target {
            in_flight: 0,
            width: width_max,
            failures: 0,
            rests: 0,
            rests_until: Duration::ZERO,
        });
        // No pause is longer than this. A longer one means that the clock was set back.
        target.rests_until = target.rests_until.min(now + ASKED_REST_MAX);
        if now < target.rests_until {
            let rest = target.rests_until - now;
            return Admission::Resting { rest };
        }
        if target.in_flight >= target.width {
            return Admission::Busy;
        }
        target.in_flight += 1;
        Admission::Go
    }

    /// Returns the targets that may have less than the full width now, and how many more may go to each, up to a number
    /// of targets. Those that rest are left out: what is due for them is taken and put off until they have rested.
    pub fn rooms(&self, now: Duration, limit: usize) -> Vec<(TenantTarget, usize)> {
        let is_narrow = |target: &Target| target.in_flight > 0 || target.width < self.width_max;
        let narrow = self
            .targets
            .iter()
            .filter(|(_, target)| now >= target.rests_until && is_narrow(target));
        let rooms =
            narrow.map(|(name, target)| (name.clone(), target.width.saturating_sub(target.in_flight)));
        rooms.take(limit).collect()
    }

    /// Returns a permission that was not used.
    pub fn cancel(&mut self, name: &TenantTarget) {
        if let Some(target) = self.targets.get_mut(name) {
            target.in_flight = target.in_flight.saturating_sub(1);
        }
    }

    /// Records the result. `rest` is the pause that the target asked for.
    pub fn done(&mut self, name: &TenantTarget, is_well: bool, rest: Option<Duration>, now: Duration) {
        let width_max = self.width_max;
        let Some(target) = self.targets.get_mut(name) else {
            return;
        };
        target.in_flight = target.in_flight.saturating_sub(1);
        if let Some(rest) = rest {
            target.rests_until = target.rests_until.max(now + rest.min(ASKED_REST_MAX));
            target.width = 1;
        }
        if is_well {
            target.failures = 0;
            target.rests = 0;
            target.width = (target.width * 2).min(width_max);
            return;
        }
        target.failures += 1;
        if target.failures >= FAILURES_MAX {
            let rest = FIRST_REST.saturating_mul(1 << target.rests.min(10)).min(REST_MAX);
            target.rests_until = target.rests_until.max(now + rest);
            target.rests += 1;
            target.width = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagaya_jobs::TenantId;

    fn at(target: &str) -> TenantTarget {
        TenantTarget {
            tenant: TenantId::default_tenant(),
            target: target.into(),
        }
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const fn resting(seconds: u64) -> Admission {
        Admission::Resting { rest: s(seconds) }
    }

    #[test]
    fn no_more_go_at_a_time_than_may() {
        let mut targets = Targets::new(2);
        assert_eq!(targets.ask(&at("a"), s(0)), Admission::Go);
        assert_eq!(targets.ask(&at("a"), s(0)), Admission::Go);
        assert_eq!(targets.ask(&at("a"), s(0)), Admission::Busy);
        assert_eq!(targets.ask(&at("b"), s(0)), Admission::Go, "others are others");
        targets.done(&at("a"), true, None, s(0));
        assert_eq!(targets.ask(&at("a"), s(0)), Admission::Go);
    }

    #[test]
    fn a_dead_target_rests_and_is_probed_by_one() {
        let mut targets = Targets::new(8);
        for _ in 0..FAILURES_MAX {
            assert_eq!(targets.ask(&at("a"), s(0)), Admission::Go);
            targets.done(&at("a"), false, None, s(0));
        }
        assert_eq!(targets.ask(&at("a"), s(4)), resting(1));
        assert_eq!(targets.ask(&at("a"), s(5)), Admission::Go);
        assert_eq!(
            targets.ask(&at("a"), s(5)),
            Admission::Busy,
            "one probe at a time"
        );
        targets.done(&at("a"), false, None, s(5));
        assert_eq!(targets.ask(&at("a"), s(14)), resting(1), "longer this time");
        assert_eq!(targets.ask(&at("a"), s(15)), Admission::Go);
        targets.done(&at("a"), true, None, s(15));
        let admitted = (0..8)
            .filter(|_| targets.ask(&at("a"), s(15)) == Admission::Go)
            .count();
        assert_eq!(admitted, 2, "not flooded when it comes back");
    }

    #[test]
    fn a_target_that_asks_for_rest_gets_it() {
        let mut targets = Targets::new(8);
        targets.ask(&at("a"), s(0));
        targets.done(&at("a"), false, Some(s(30)), s(0));
        assert_eq!(targets.ask(&at("a"), s(29)), resting(1));
        assert_eq!(targets.ask(&at("a"), s(30)), Admission::Go);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_make_a_rest_endless() {
        let mut targets = Targets::new(8);
        targets.ask(&at("a"), s(1_000_000));
        targets.done(&at("a"), false, Some(s(30)), s(1_000_000));
        assert_eq!(targets.ask(&at("a"), s(0)), resting(3600));
        assert_eq!(targets.ask(&at("a"), s(3600)), Admission::Go);
    }
}
