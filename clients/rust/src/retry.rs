//! How often and after which pauses a call is repeated.

use std::time::Duration;

use rand::Rng;

/// Repetition of a call. The pause doubles from `first` up to `max`, with random jitter between half of that
/// and all of it, so that many clients do not come back at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a call is sent in total; 1 means no repetition.
    pub attempts: u32,
    pub first: Duration,
    pub max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            attempts: 6,
            first: Duration::from_millis(100),
            max: Duration::from_secs(5),
        }
    }
}

impl RetryPolicy {
    /// Sends every call once.
    pub const NONE: RetryPolicy = RetryPolicy {
        attempts: 1,
        first: Duration::ZERO,
        max: Duration::ZERO,
    };

    /// Returns the pause after the nth failure, counted from 1. The server's `Retry-After` counts if it is
    /// longer, up to `max`.
    pub(crate) fn pause(&self, failures: u32, retry_after: Option<Duration>) -> Duration {
        let doubled = self.first.saturating_mul(1 << failures.saturating_sub(1).min(20));
        let whole = doubled.min(self.max);
        let drawn = whole.mul_f64(rand::rng().random_range(0.5..=1.0));
        drawn.max(retry_after.unwrap_or_default().min(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_limit_and_honour_retry_after() {
        let policy = RetryPolicy::default();
        for (failures, most_ms) in [(1, 100), (2, 200), (4, 800), (9, 5_000), (u32::MAX, 5_000)] {
            let pause = policy.pause(failures, None);
            let most = Duration::from_millis(most_ms);
            assert!(pause <= most && pause >= most / 2, "{failures}: {pause:?}");
        }
        assert_eq!(
            policy.pause(1, Some(Duration::from_secs(2))),
            Duration::from_secs(2)
        );
        assert_eq!(policy.pause(1, Some(Duration::from_secs(60))), policy.max);
    }
}
