//! Keeps a failure that occurs a thousand times a second from flooding the log.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Minimum time between two log lines about the same failure.
const EVERY: Duration = Duration::from_secs(1);

/// Rate limiter for one log line.
#[derive(Debug, Default)]
pub(crate) struct LogLimiter {
    state: Mutex<(Option<Instant>, u64)>,
}

impl LogLimiter {
    /// Counts the failure. Returns the number of failures since the last line if a new line is due.
    pub(crate) fn due(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        let (last, count) = &mut *state;
        *count += 1;
        if last.is_some_and(|last| now.saturating_duration_since(last) < EVERY) {
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_is_told_and_the_rest_once_a_second() {
        let log_limiter = LogLimiter::default();
        let now = Instant::now();
        assert_eq!(log_limiter.due(now), Some(1));
        assert_eq!(log_limiter.due(now), None);
        assert_eq!(log_limiter.due(now + EVERY / 2), None);
        assert_eq!(log_limiter.due(now + EVERY), Some(3));
    }
}
