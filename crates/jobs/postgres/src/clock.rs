//! The database's clock, which all servers of one database share.
//!
//! Reading it costs a round trip, so its offset from the local monotonic clock is sampled at an interval. The
//! error is at most half a round trip, whatever the local wall clock says.

use std::sync::Arc;
use std::time::Duration;

use nagaya_jobs::clock::{Clock, span_ms};
use nagaya_jobs::error::Error;
use nagaya_postgres_client::Session;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::sql::{Queries, query};

/// How long a sample is used. Clocks drift by less than a tenth of a millisecond in that time.
const SAMPLE_TTL: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(crate) enum Time {
    Database(Arc<Mutex<Option<ClockSample>>>),
    /// A test's clock.
    Given(Arc<dyn Clock>),
}

#[derive(Clone, Copy)]
pub(crate) struct ClockSample {
    at: Instant,
    unix_ms: i64,
}

impl Time {
    pub(crate) fn database() -> Time {
        Time::Database(Arc::default())
    }

    /// Returns a steady time, which nobody sets.
    pub(crate) fn steady_ms(&self) -> i64 {
        match self {
            Time::Given(clock) => clock.steady_ms(),
            Time::Database(_) => i64::try_from(nagaya_clock::boot_now().as_millis()).unwrap_or(i64::MAX),
        }
    }

    /// Returns the time, Unix milliseconds. Takes a new sample when the last one is too old.
    pub(crate) async fn now(&self, session: &Session) -> Result<i64, Error> {
        let sample = match self {
            Time::Given(clock) => return Ok(clock.unix_ms()),
            Time::Database(sample) => sample,
        };
        let last = *sample.lock();
        if let Some(now_ms) = last.and_then(ClockSample::now_ms) {
            return Ok(now_ms);
        }
        let sent = Instant::now();
        let unix_ms = session.scalar(query!(metadata.now), &[]).await?;
        let fresh = ClockSample::taken(sent, unix_ms);
        *sample.lock() = Some(fresh);
        Ok(fresh.unix_ms + span_ms(fresh.at.elapsed()))
    }
}

impl ClockSample {
    /// Makes a sample of the answer to a query that was sent at `sent`. Assumes the server read its clock at
    /// the midpoint of the round trip.
    fn taken(sent: Instant, unix_ms: i64) -> ClockSample {
        ClockSample {
            at: sent + sent.elapsed() / 2,
            unix_ms,
        }
    }

    /// Returns the time by this sample; `None` when it is too old.
    fn now_ms(self) -> Option<i64> {
        let age = self.at.elapsed();
        (age < SAMPLE_TTL).then(|| self.unix_ms + span_ms(age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Years away from the local clock, which is not used.
    const FAR_AWAY_MS: i64 = 4_000_000_000_000;

    #[tokio::test(start_paused = true)]
    async fn time_goes_on_from_the_databases_answer_whatever_our_wall_clock_says() {
        let sample = ClockSample::taken(Instant::now(), FAR_AWAY_MS);
        assert_eq!(sample.now_ms(), Some(FAR_AWAY_MS));
        tokio::time::advance(Duration::from_millis(700)).await;
        assert_eq!(sample.now_ms(), Some(FAR_AWAY_MS + 700));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_half_a_round_trip_old() {
        let sent = Instant::now();
        tokio::time::advance(Duration::from_millis(40)).await;
        assert_eq!(
            ClockSample::taken(sent, FAR_AWAY_MS).now_ms(),
            Some(FAR_AWAY_MS + 20)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_measurement_ends_so_that_a_clock_that_was_set_is_noticed() {
        let sample = ClockSample::taken(Instant::now(), FAR_AWAY_MS);
        tokio::time::advance(SAMPLE_TTL).await;
        assert_eq!(sample.now_ms(), None);
    }
}
