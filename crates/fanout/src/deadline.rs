//! The one deadline of an endpoint's part of a request.
//!
//! It runs from the acceptance of the request and spans everything: waiting in our queues, connecting,
//! the endpoint's own time, reading the body, and the write to the store. A slice at its end is kept for
//! that write: an answer that comes in the slice could only be stored too late, so it is not waited for.

use std::time::Duration;

use tokio::time::Instant;

/// A part of the time at most: a short timeout must not be all reserve.
const RESERVE_DIVISOR: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    accepted: Instant,
    timeout: Duration,
    reserve: Duration,
}

/// When the store took the request, by its clock and by ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The store's own clock when it wrote the request, in milliseconds; nothing if it told none.
    pub store_ms: Option<u64>,
    /// Our clock when we knew of it.
    pub known_at: Instant,
}

impl Deadline {
    pub(crate) fn new(accepted: Instant, timeout: Duration, reserve: Duration) -> Deadline {
        Deadline {
            accepted,
            timeout,
            reserve: reserve.min(timeout / RESERVE_DIVISOR),
        }
    }

    /// When an answer must be stored.
    pub(crate) fn at(&self) -> Instant {
        self.accepted + self.timeout
    }

    /// When an answer must be here.
    pub(crate) fn fetch_by(&self) -> Instant {
        self.at() - self.reserve
    }

    /// How long the endpoint may take from now on; what it is told.
    pub(crate) fn fetch_left(&self, now: Instant) -> Duration {
        self.fetch_by().saturating_duration_since(now)
    }

    pub(crate) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.accepted)
    }

    /// The deadline on the store's own clock, which the store compares when it runs the write: a write
    /// that lay in a frozen store's socket is then refused however late it runs.
    ///
    /// The store wrote the request before we knew of it, so counting from there is never too generous,
    /// and too strict by one round trip at most. The two clocks need not agree, only go equally fast.
    pub(crate) fn on_stores_clock(&self, receipt: &Receipt) -> Option<u64> {
        let left = self.at().saturating_duration_since(receipt.known_at);
        Some(receipt.store_ms? + u64::try_from(left.as_millis()).unwrap_or(u64::MAX / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn an_answer_has_the_whole_time_but_the_slice_for_the_store() {
        let start = Instant::now();
        let deadline = Deadline::new(start, 200 * MS, 5 * MS);
        assert_eq!(deadline.fetch_by(), start + 195 * MS);
        assert_eq!(deadline.at(), start + 200 * MS);
        assert_eq!(deadline.fetch_left(start + 194 * MS), MS);
        assert_eq!(deadline.fetch_left(start + 300 * MS), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn the_slice_is_a_quarter_of_a_short_time_at_most() {
        let start = Instant::now();
        assert_eq!(Deadline::new(start, 8 * MS, 5 * MS).fetch_by(), start + 6 * MS);
        assert_eq!(Deadline::new(start, Duration::ZERO, 5 * MS).fetch_by(), start);
    }

    #[tokio::test(start_paused = true)]
    async fn the_stores_clock_counts_from_when_we_knew_of_the_request() {
        let start = Instant::now();
        let deadline = Deadline::new(start, 200 * MS, 5 * MS);
        let receipt = |store_ms, after| Receipt {
            store_ms,
            known_at: start + after,
        };
        assert_eq!(
            deadline.on_stores_clock(&receipt(Some(1_000), 20 * MS)),
            Some(1_180)
        );
        assert_eq!(
            deadline.on_stores_clock(&receipt(Some(1_000), 300 * MS)),
            Some(1_000)
        );
        assert_eq!(deadline.on_stores_clock(&receipt(None, MS)), None);
    }
}
