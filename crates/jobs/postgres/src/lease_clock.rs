//! Keeps leases when the database's clock is set, and when no server was there to be asked.
//!
//! Leases end by the database's clock, which all servers share. A server that sees it step, compared with its own
//! steady clock, gives the leases that seem to have ended because of it their own length again, up to a minute; and
//! shortens those that would stand too long. Others that see the same step find nothing left to mend. So a step
//! costs no lease, and makes none longer than by a minute.

use nagaya_jobs::clock::{GRACE_MAX, Reading, span_ms};
use nagaya_jobs::error::Error;
use nagaya_postgres_client::Session;
use parking_lot::Mutex;

use crate::sql::{Queries, query};
use crate::store::Inner;

/// How long after a step leases are mended: other servers may go on for a second by a reading from before it.
const MEND_MS: i64 = 3_000;
/// Without a look at the leases for so long, no server was running.
const DOWN_MS: i64 = 2_000;
/// Readings of two servers differ by less than this.
const SKEW_MS: i64 = 1_000;

/// The clock at the last look at the leases.
#[derive(Debug, Default)]
pub(crate) struct LeaseClock(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    read: Option<Reading>,
    /// Until when leases are mended, on the steady clock.
    mends_until_ms: Option<i64>,
}

impl LeaseClock {
    /// Returns whether the clock was set a moment ago.
    fn look(&self, read: Reading) -> bool {
        let mut seen = self.0.lock();
        let before = seen.read.replace(read);
        if let Some(step_ms) = before.and_then(|before| read.step_since(before)) {
            tracing::warn!(
                step_ms,
                "the database's clock was set; leases of jobs go on as before"
            );
            seen.mends_until_ms = Some(read.steady_ms + MEND_MS);
        }
        seen.mends_until_ms
            .is_some_and(|until_ms| read.steady_ms < until_ms)
    }
}

impl Inner {
    /// Looks at the clock before expired leases are taken back. Returns the time.
    pub(crate) async fn look_at_clock(&self, session: &Session) -> Result<i64, Error> {
        let now_ms = self.time.now(session).await?;
        let read = Reading {
            unix_ms: now_ms,
            steady_ms: self.time.steady_ms(),
        };
        if self.lease_clock.look(read) {
            self.mend_leases(session, now_ms).await?;
        }
        session.run(query!(running.set_alive), &[&now_ms]).await?;
        Ok(now_ms)
    }

    /// Gives holders of leases time to be heard when no server was there for a while. Called at the start.
    pub(crate) async fn renew_leases(&self, session: &Session) -> Result<(), Error> {
        let now_ms = self.time.now(session).await?;
        self.lease_clock.look(Reading {
            unix_ms: now_ms,
            steady_ms: self.time.steady_ms(),
        });
        let alive_ms: Option<i64> = session.first_scalar(query!(running.alive), &[]).await?;
        let was_down = alive_ms.is_none_or(|alive_ms| (now_ms - alive_ms).abs() > DOWN_MS);
        if was_down {
            self.mend_leases(session, now_ms).await?;
            session.run(query!(running.set_alive), &[&now_ms]).await?;
        }
        Ok(())
    }

    async fn mend_leases(&self, session: &Session, now_ms: i64) -> Result<(), Error> {
        session
            .run(query!(running.shift_back), &[&now_ms, &SKEW_MS])
            .await?;
        session
            .run(query!(running.grace), &[&now_ms, &span_ms(GRACE_MAX)])
            .await?;
        Ok(())
    }
}
