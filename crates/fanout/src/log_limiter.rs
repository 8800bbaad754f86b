//! Keeps a failure that comes a thousand times a second from filling the log.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Between two lines about the same thing.
const EVERY: Duration = Duration::from_secs(1);

/// One thing that may be complained about.
#[derive(Debug, Default)]
pub(crate) struct LogLimiter {
    state: Mutex<(Option<Instant>, u64)>,
}

impl LogLimiter {
    /// Counts the failure; says how many there were since the last line if it is time for one.
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
