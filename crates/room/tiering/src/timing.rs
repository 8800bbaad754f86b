//! How long to wait until no earlier command can still take effect.
//!
//! A lease lives for L from the sending of its touch, and a command runs within M of
//! its sending. So what was announced by some moment has happened D = L + M later.
//! That depends on M, which a stalled node breaks: it runs old commands when it resumes.
//! A waiting process therefore measures its own round trips, and begins the delay again
//! after one that took longer than the allowance.

use std::time::Duration;

/// How long leases and commands live in a hot tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timing {
    /// D: the lease, plus the longest delay of a command, plus drift of clocks.
    pub settle: Duration,
    /// M: the longest delay of a command.
    pub allowance: Duration,
}

/// A call's time, on the caller's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RoundTrip {
    pub sent: Duration,
    pub received: Duration,
}

impl RoundTrip {
    pub(crate) fn is_slow(self, timing: Timing) -> bool {
        self.received.saturating_sub(self.sent) > timing.allowance && timing.settle > Duration::ZERO
    }
}

/// A delay after which everything announced before it has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SafetyDelay {
    pub since: Duration,
}

impl SafetyDelay {
    /// Begins the delay again after a slow round trip that was made meanwhile.
    pub fn extend_after(&mut self, trip: RoundTrip, timing: Timing) {
        if trip.is_slow(timing) {
            self.since = self.since.max(trip.received);
        }
    }

    /// Returns whether a command sent at this time takes effect after the delay.
    pub fn is_over(self, sent: Duration, timing: Timing) -> bool {
        sent.saturating_sub(self.since) >= timing.settle
    }

    /// Returns how much of the delay is left.
    pub fn left(self, now: Duration, timing: Timing) -> Duration {
        (self.since + timing.settle).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    const TIMING: Timing = Timing {
        settle: ms(100),
        allowance: ms(20),
    };

    #[test]
    fn a_wait_is_over_after_the_whole_of_it() {
        let delay = SafetyDelay { since: ms(50) };
        assert!(!delay.is_over(ms(149), TIMING));
        assert!(delay.is_over(ms(150), TIMING));
        assert_eq!(delay.left(ms(149), TIMING), ms(1));
        assert!(delay.is_over(ms(10), Timing::default()), "no leases, no delay");
    }

    #[test]
    fn a_slow_round_trip_starts_the_wait_again() {
        let mut delay = SafetyDelay { since: ms(0) };
        delay.extend_after(
            RoundTrip {
                sent: ms(60),
                received: ms(80),
            },
            TIMING,
        );
        assert!(delay.is_over(ms(100), TIMING));
        delay.extend_after(
            RoundTrip {
                sent: ms(60),
                received: ms(81),
            },
            TIMING,
        );
        assert!(!delay.is_over(ms(180), TIMING));
        assert!(delay.is_over(ms(181), TIMING));
    }
}
