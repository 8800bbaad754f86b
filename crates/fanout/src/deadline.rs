//! The single deadline of an endpoint's part of a request.
//!
//! It starts when the request is accepted and covers everything: our queues, connecting, the endpoint's
//! processing, reading the body, and the write to the store. A slice at the end is reserved for that write. A
//! response that arrives within the slice would be stored too late, so the fetch ends before it.

use std::time::Duration;

use tokio::time::Instant;

/// The reserve is at most this fraction of the timeout, so that a short timeout is not all reserve.
const RESERVE_DIVISOR: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    accepted: Instant,
    timeout: Duration,
    reserve: Duration,
}

/// When the store accepted the request, by its clock and by ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The store's clock when it wrote the request, in milliseconds; `None` if the store has none.
    pub store_ms: Option<u64>,
    /// Our clock when the confirmation arrived.
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

    /// Returns the time by which a response must be stored.
    pub(crate) fn at(&self) -> Instant {
        self.accepted + self.timeout
    }

    /// Returns the time by which a response must have arrived.
    pub(crate) fn fetch_by(&self) -> Instant {
        self.at() - self.reserve
    }

    /// Returns how long the endpoint may still take. This is what the endpoint is told.
    pub(crate) fn fetch_left(&self, now: Instant) -> Duration {
        self.fetch_by().saturating_duration_since(now)
    }

    pub(crate) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.accepted)
    }

    /// Returns the deadline on the store's own clock, which the store compares when it executes the write. So
    /// a write that was stuck in a frozen store's socket is refused, however late it is executed.
    ///
    /// The store wrote the request before we learned of it, so counting from there is never too generous, and
    /// too strict by at most one round trip. The two clocks need not agree; they only have to run at the same
    /// rate.
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
