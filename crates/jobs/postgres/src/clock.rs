//! The database's clock, by which all servers of one database go.
//!
//! Asked for each call it would cost a round trip, so its distance from our own running clock is measured now and
//! then: at most half a round trip off, whatever our own wall clock says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nagaya_jobs::clock::{Clock, span_ms};
use nagaya_jobs::error::Error;
use nagaya_postgres_client::Session;
use tokio::time::Instant;

use crate::sql::{Queries, query};

/// How long a measurement holds. Clocks of one machine room drift by less than a tenth of a millisecond in it.
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

    /// Returns the time, Unix milliseconds, after a round trip when the last one is too old.
    pub(crate) async fn now(&self, session: &Session) -> Result<i64, Error> {
        let sample = match self {
            Time::Given(clock) => return Ok(clock.unix_ms()),
            Time::Database(sample) => sample,
        };
        let last = *sample.lock().expect("no holder of this lock can panic");
        if let Some(now_ms) = last.and_then(ClockSample::now_ms) {
            return Ok(now_ms);
        }
        let sent = Instant::now();
        let row = session.row(query!(metadata.now), &[]).await?;
        let fresh = ClockSample::taken(sent, row.get(0));
        *sample.lock().expect("no holder of this lock can panic") = Some(fresh);
        Ok(fresh.unix_ms + span_ms(fresh.at.elapsed()))
    }
}

impl ClockSample {
    /// The answer to a question that was sent at `sent` and has just come: read half way, for want of better.
    fn taken(sent: Instant, unix_ms: i64) -> ClockSample {
        ClockSample {
            at: sent + sent.elapsed() / 2,
            unix_ms,
        }
    }

    /// The time by this measurement; nothing when it is too old.
    fn now_ms(self) -> Option<i64> {
        let age = self.at.elapsed();
        (age < SAMPLE_TTL).then(|| self.unix_ms + span_ms(age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The database's clock is years away from ours, which nothing here looks at.
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
