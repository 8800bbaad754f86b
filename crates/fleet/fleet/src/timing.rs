//! The timing parameters, the conditions between them, and the bounds that follow.
//!
//! An agent's workers are dead when its lease L ends, measured on its own clock from the *sending* of its
//! last confirmed heartbeat. A manager reassigns them when it has seen the same heartbeat for D on its own
//! clock, measured from the *receipt* of the first reply that showed it. With clock rates off by at most rho,
//! D >= L (1+rho)/(1-rho) makes the second event follow the first. The quarantine Q after a new run of Redis
//! follows the same rule.

use std::fmt;
use std::time::Duration;

const MILLION: u64 = 1_000_000;
/// Heartbeats that may fail in a row before workers are stopped.
const HEARTBEATS_LOST_MAX: u32 = 2;

/// A consistent set of durations; see [`Timing::from_options`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// L: how long workers may run after the last confirmed heartbeat was sent.
    pub lease: Duration,
    /// How often an agent renews its lease.
    pub heartbeat: Duration,
    /// How long a worker may take to end on its own after a stop order.
    pub grace: Duration,
    /// Time between the kill of a worker and the end of the lease. Covers the kernel's work and a late
    /// wake-up of the agent.
    pub margin: Duration,
    /// D: how long a manager must see the same heartbeat before it declares a death.
    pub death: Duration,
    /// Q: how long nothing is started after a new run of Redis.
    pub quarantine: Duration,
    /// How often a manager reads the fleet.
    pub poll: Duration,
    /// rho: how far a clock's rate may be off, in millionths.
    pub drift_ppm: u64,
    /// Time to live of document 000's heartbeat keys. No decision depends on them.
    pub shown_for: Duration,
}

/// The durations that the user set. Absent ones get their default or follow from the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimingOptions {
    pub lease: Option<Duration>,
    pub heartbeat: Option<Duration>,
    pub grace: Option<Duration>,
    pub death: Option<Duration>,
    pub poll: Option<Duration>,
    pub drift_ppm: Option<u64>,
}

/// Why a set of durations is inconsistent.
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
        Timing::from_options(TimingOptions::default()).expect("the defaults fit, as a test shows")
    }
}

impl Timing {
    /// Completes the options and checks them.
    pub fn from_options(options: TimingOptions) -> Result<Timing, BadTiming> {
        let lease = options.lease.unwrap_or(Duration::from_secs(5));
        let mut timing = Timing::filled(lease, options);
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
        timing.death = options.death.unwrap_or(least);
        if timing.death < least {
            let death = timing.death;
            return Err(BadTiming::DeathTooEarly { death, lease, least });
        }
        Ok(timing)
    }

    /// Completes the options without checking them. For the simulator, which shows the consequences.
    #[cfg(any(test, feature = "simulator"))]
    pub fn from_unchecked_options(options: TimingOptions) -> Timing {
        let lease = options.lease.unwrap_or(Duration::from_secs(5));
        let mut timing = Timing::filled(lease, options);
        timing.quarantine = timing.stretched();
        timing.death = options.death.unwrap_or(timing.quarantine);
        timing
    }

    fn filled(lease: Duration, options: TimingOptions) -> Timing {
        Timing {
            lease,
            heartbeat: options.heartbeat.unwrap_or(lease / 5),
            grace: options.grace.unwrap_or(lease / 5),
            margin: (lease / 20).clamp(Duration::from_millis(20), Duration::from_millis(250)),
            death: Duration::ZERO,
            quarantine: Duration::ZERO,
            poll: options.poll.unwrap_or(lease / 10),
            drift_ppm: options.drift_ppm.unwrap_or(500).min(MILLION / 2),
            shown_for: Duration::from_secs(20),
        }
    }

    /// Returns how long before the end of the lease stopping begins.
    pub fn stop_budget(&self) -> Duration {
        self.grace + self.margin
    }

    /// L (1+rho)/(1-rho): the length of the slowest clock's lease on the fastest clock.
    fn stretched(&self) -> Duration {
        stretch(self.lease, self.drift_ppm)
    }

    /// Returns what all instances of an app must have in common, as text: lease in milliseconds and drift in
    /// millionths.
    pub fn agreement(&self) -> String {
        format!("{}ms/{}ppm", self.lease.as_millis(), self.drift_ppm)
    }

    /// Extends the waits to cover instances with this agreement, whatever lease this process was configured
    /// with. Any other text changes nothing.
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

    /// Returns the bounds that follow from the durations.
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

/// The bounds that follow from the durations; printed at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Longest time without a running copy after the crash of an instance, not counting the worker's start.
    pub after_crash: Duration,
    /// The same if Redis failed over meanwhile.
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
        let long = TimingOptions {
            lease: Some(Duration::from_secs(60)),
            ..TimingOptions::default()
        };
        let (own, long) = (Timing::default(), Timing::from_options(long).unwrap());
        let waiting = own.waiting_for(&long.agreement());
        assert_eq!((waiting.death, waiting.quarantine), (long.death, long.quarantine));
        assert_eq!(own.waiting_for(&own.agreement()), own);
        assert_eq!(long.waiting_for(&own.agreement()), long);
        assert_eq!(own.waiting_for(""), own);
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let secs = |value| Some(Duration::from_secs(value));
        let early = TimingOptions {
            lease: secs(5),
            death: secs(5),
            ..TimingOptions::default()
        };
        assert!(matches!(
            Timing::from_options(early),
            Err(BadTiming::DeathTooEarly { .. })
        ));
        let slow = TimingOptions {
            lease: secs(5),
            heartbeat: secs(2),
            ..TimingOptions::default()
        };
        assert!(matches!(
            Timing::from_options(slow),
            Err(BadTiming::LeaseTooShort { .. })
        ));
    }
}
