//! How long a failed job waits before its next attempt.

use std::time::Duration;

/// A rule for the wait between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// Doubles from `first` up to `max`. Each wait is drawn from its upper half, so that jobs that failed
    /// together do not retry together.
    Exponential { first: Duration, max: Duration },
    /// The same wait each time.
    Fixed { delay: Duration },
    /// At once.
    None,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::Exponential {
            first: Duration::from_secs(5),
            max: Duration::from_secs(3600),
        }
    }
}

impl Backoff {
    /// Returns the wait after the `failures`th failure, counted from 1. `random` lies in 0..1.
    pub fn delay(&self, failures: u32, random: f64) -> Duration {
        match *self {
            Backoff::None => Duration::ZERO,
            Backoff::Fixed { delay } => delay,
            Backoff::Exponential { first, max } => {
                // Doubling 40 times from a millisecond is past 30 years.
                let doublings = failures.saturating_sub(1).min(40);
                let full = first.saturating_mul(1 << doublings.min(31)).min(max);
                let full = if doublings > 31 { max } else { full };
                full.mul_f64(0.5 + 0.5 * random.clamp(0.0, 1.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(backoff: Backoff, random: f64) -> Vec<f64> {
        let of = |failures| backoff.delay(failures, random).as_secs_f64();
        (1..=5).map(of).collect()
    }

    #[test]
    fn exponential_doubles_up_to_its_most() {
        let backoff = Backoff::Exponential {
            first: Duration::from_secs(2),
            max: Duration::from_secs(10),
        };
        assert_eq!(seconds(backoff, 1.0), [2.0, 4.0, 8.0, 10.0, 10.0]);
        assert_eq!(seconds(backoff, 0.0), [1.0, 2.0, 4.0, 5.0, 5.0]);
        assert_eq!(backoff.delay(u32::MAX, 1.0), Duration::from_secs(10));
    }

    #[test]
    fn fixed_and_none_do_not_vary() {
        let fixed = Backoff::Fixed {
            delay: Duration::from_secs(3),
        };
        assert_eq!(seconds(fixed, 0.4), [3.0; 5]);
        assert_eq!(seconds(Backoff::None, 0.4), [0.0; 5]);
    }
}
