//! How long everything takes, that the lengths fit each other, and what follows from them.
//!
//! An agent's workers are dead when its lease L ends, counted on its own clock from the *sending* of
//! its last confirmed heartbeat. A manager gives them away when it has seen the same heartbeat for D
//! on its own clock, counted from the *receipt* of the first answer that showed it. With clocks whose
//! rates are wrong by at most rho, D >= L (1+rho)/(1-rho) makes the second come after the first. The
//! quarantine Q after a new run of Redis follows the same rule.

use std::fmt;
use std::time::Duration;

const MILLION: u64 = 1_000_000;
/// Heartbeats that may fail in a row before workers are stopped.
const HEARTBEATS_LOST_MAX: u32 = 2;

/// Lengths that fit each other; see [`Timing::from_wish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// L: how long workers may run after the last confirmed heartbeat was sent.
    pub lease: Duration,
    /// How often an agent renews its lease.
    pub heartbeat: Duration,
    /// How long a worker may take to end by itself when it has to.
    pub grace: Duration,
    /// Kept between the kill of a worker and the end of the lease: for the kernel to do it, and for
    /// the agent to be scheduled late.
    pub margin: Duration,
    /// D: how long a manager sees the same heartbeat before it declares a death.
    pub death: Duration,
    /// Q: how long nothing is started after a new run of Redis.
    pub quarantine: Duration,
    /// How often a manager looks.
    pub poll: Duration,
    /// rho: how far a clock's rate may be off, in millionths.
    pub drift_ppm: u64,
    /// How long document 000's heartbeat keys are shown; nothing is decided by them.
    pub shown_for: Duration,
}

/// What the user asked for; what is absent has its default or follows from the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    pub lease: Option<Duration>,
    pub heartbeat: Option<Duration>,
    pub grace: Option<Duration>,
    pub death: Option<Duration>,
    pub poll: Option<Duration>,
    pub drift_ppm: Option<u64>,
}

/// Lengths that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTiming {
    #[error(
        "a lease of {lease:?} has no room for three heartbeats of {heartbeat:?} and a grace of {grace:?}"
    )]
    LeaseTooShort {
        lease: Duration,
        heartbeat: Duration,
        grace: Duration,
    },
    #[error(
        "a death after {death:?} comes before the end of a lease of {lease:?}; at least {least:?} is needed"
    )]
    DeathTooEarly {
        death: Duration,
        lease: Duration,
        least: Duration,
    },
}

impl Default for Timing {
    fn default() -> Timing {
        Timing::from_wish(Wish::default()).expect("the defaults fit, as a test shows")
    }
}

impl Timing {
    /// Checks a wish and fills it up.
    pub fn from_wish(wish: Wish) -> Result<Timing, BadTiming> {
        let lease = wish.lease.unwrap_or(Duration::from_secs(5));
        let mut timing = Timing::filled(lease, wish);
        if timing.heartbeat * (HEARTBEATS_LOST_MAX + 1) + timing.stop_budget() > lease {
            let (heartbeat, grace) = (timing.heartbeat, timing.grace);
            return Err(BadTiming::LeaseTooShort {
                lease,
                heartbeat,
                grace,
            });
        }
        let least = timing.stretched();
        timing.quarantine = least;
        timing.death = wish.death.unwrap_or(least);
        if timing.death < least {
            let death = timing.death;
            return Err(BadTiming::DeathTooEarly { death, lease, least });
        }
        Ok(timing)
    }

    /// Fills a wish up without checking it, for the simulator to show what comes of it.
    #[cfg(any(test, feature = "simulator"))]
    pub fn from_unsafe_wish(wish: Wish) -> Timing {
        let lease = wish.lease.unwrap_or(Duration::from_secs(5));
        let mut timing = Timing::filled(lease, wish);
        timing.quarantine = timing.stretched();
        timing.death = wish.death.unwrap_or(timing.quarantine);
        timing
    }

    fn filled(lease: Duration, wish: Wish) -> Timing {
        Timing {
            lease,
            heartbeat: wish.heartbeat.unwrap_or(lease / 5),
            grace: wish.grace.unwrap_or(lease / 5),
            margin: (lease / 20).clamp(Duration::from_millis(20), Duration::from_millis(250)),
            death: Duration::ZERO,
            quarantine: Duration::ZERO,
            poll: wish.poll.unwrap_or(lease / 10),
            drift_ppm: wish.drift_ppm.unwrap_or(500).min(MILLION / 2),
            shown_for: Duration::from_secs(20),
        }
    }

    /// How long before the end of the lease stopping begins.
    pub fn stop_budget(&self) -> Duration {
        self.grace + self.margin
    }

    /// L (1+rho)/(1-rho): how long the slowest clock's lease can take on the fastest clock.
    fn stretched(&self) -> Duration {
        stretch(self.lease, self.drift_ppm)
    }

    /// What all instances of an app have to have in common, as text: lease in milliseconds and drift
    /// in millionths.
    pub fn agreement(&self) -> String {
        format!("{}ms/{}ppm", self.lease.as_millis(), self.drift_ppm)
    }

    /// Waits at least as long as instances with this agreement may run on, whatever this process was
    /// told about leases. A text that is none changes nothing.
    pub fn waiting_for(mut self, agreement: &str) -> Timing {
        let read = || {
            let (lease_ms, drift_ppm) = agreement.strip_suffix("ppm")?.split_once("ms/")?;
            Some((
                Duration::from_millis(lease_ms.parse().ok()?),
                drift_ppm.parse::<u64>().ok()?.min(MILLION / 2),
            ))
        };
        if let Some((lease, drift_ppm)) = read() {
            let least = stretch(lease, drift_ppm.max(self.drift_ppm));
            self.death = self.death.max(least);
            self.quarantine = self.quarantine.max(least);
        }
        self
    }

    /// What the lengths promise.
    pub fn bounds(&self) -> Bounds {
        let after_crash = self.death + self.heartbeat + self.poll;
        Bounds {
            after_crash,
            after_failover: after_crash + self.quarantine,
            drift_ppm: self.drift_ppm,
        }
    }
}

fn stretch(lease: Duration, drift_ppm: u64) -> Duration {
    let nanos = lease.as_nanos() * u128::from(MILLION + drift_ppm);
    let nanos = nanos.div_ceil(u128::from(MILLION - drift_ppm));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// What the lengths promise; printed at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Longest time without a copy after the crash of an instance, plus the start of the worker.
    pub after_crash: Duration,
    /// The same when Redis failed over meanwhile.
    pub after_failover: Duration,
    pub drift_ppm: u64,
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "dark at most {:.1} s after a crash and {:.1} s after a failover of Redis, plus the worker's start; \
             two copies at once: never, given clock rates within {} ppm, agents that get to run within their \
             margin, and a Redis whose old primary is dead or cannot collect the required replicas",
            self.after_crash.as_secs_f64(),
            self.after_failover.as_secs_f64(),
            self.drift_ppm,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_and_fail_over_in_under_ten_seconds() {
        let timing = Timing::default();
        assert!(timing.bounds().after_crash < Duration::from_secs(10));
        assert!(timing.death > timing.lease && timing.quarantine > timing.lease);
        let printed = timing.bounds().to_string();
        assert!(printed.starts_with("dark at most 6.5 s"), "{printed}");
    }

    #[test]
    fn a_manager_waits_for_the_leases_that_the_instances_have() {
        let long = Wish {
            lease: Some(Duration::from_secs(60)),
            ..Wish::default()
        };
        let (own, long) = (Timing::default(), Timing::from_wish(long).unwrap());
        let waiting = own.waiting_for(&long.agreement());
        assert_eq!((waiting.death, waiting.quarantine), (long.death, long.quarantine));
        assert_eq!(own.waiting_for(&own.agreement()), own);
        assert_eq!(long.waiting_for(&own.agreement()), long);
        assert_eq!(own.waiting_for(""), own);
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let secs = |value| Some(Duration::from_secs(value));
        let early = Wish {
            lease: secs(5),
            death: secs(5),
            ..Wish::default()
        };
        assert!(matches!(
            Timing::from_wish(early),
            Err(BadTiming::DeathTooEarly { .. })
        ));
        let slow = Wish {
            lease: secs(5),
            heartbeat: secs(2),
            ..Wish::default()
        };
        assert!(matches!(
            Timing::from_wish(slow),
            Err(BadTiming::LeaseTooShort { .. })
        ));
    }
}
