//! Knowing without a query that a tag has no row, in many processes at once.
//!
//! A server that is asked for an unknown tag would read PostgreSQL twice (the base of
//! a load, and the claim that finds no row), so a walk over absent names costs two
//! reads each. A filter of all tags in memory answers most of them, but other processes
//! make rows too, and a wrong "absent" loses data: the load would install an empty tag
//! beside a row that holds values.
//!
//! What makes "absent" certain is a bound on how far a filter may be behind, the
//! *lag*, which every process that shares the database knows:
//!
//! 1. A filter is refreshed by reading the tags that were made since the last read. It
//!    says "absent" only for [`TRUST`] of the lag after such a read was *sent*, and
//!    "ask" after that. The bits are looked at first and the clock second.
//! 2. A process that makes a row, or finds one that was never saved, waits for the lag after
//!    the row was certainly there, and only then takes the first snapshot. That wait is
//!    [`ColdTier::ensure`](nagaya_tiering::cold::ColdTier::ensure), which comes before the
//!    first snapshot anyway.
//! 3. A process that finds a row that was never saved waits the same time before claiming it.
//!
//! So when a filter says "absent" at a time *t*, every row that it does not know was
//! made less than the lag before *t*, and until *t* no process has taken a snapshot under
//! that row or moved its generation: it is a row of generation 1 with nothing in it,
//! and a load that goes on without it is one that read just before the row was made.
//! The tiering protocol allows exactly that: a snapshot taken later is of this load's
//! residency or of a later one, and has generation 1 like the row.
//!
//! Waiting is done on each process's own steady clock. Two such clocks may differ in
//! speed by a quarter; the date does not matter. A process that is stopped waits
//! longer, which is safe, and trusts its filter less, because it reads its clock last.
//!
//! Which rows are new cannot be told by a sequence: numbers are given before commits
//! and become visible in another order. A row carries its transaction instead. A read
//! notes the oldest transaction still under way; every row of an earlier one was
//! visible to it. The next read begins there. A standby that becomes the primary may
//! give numbers of transactions once more, but never a timeline; on a new one the
//! filter is rebuilt.
//!
//! Rows that are removed stay in the filter until it is rebuilt; that only costs
//! queries.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use nagaya_postgres_client::{Error, Pool, Session, scalar};
use nagaya_sql::block;
use nagaya_tiering::filter::{Existence, Filter};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

use super::error::Failure;
use super::rows::{KnownTag, TransactionHorizon, sql_limit};
use super::totals;

const HORIZON: &str = block(include_str!("queries/miss_filter.sql"), "horizon");
const MADE_SINCE: &str = block(include_str!("queries/miss_filter.sql"), "made_since");
const LIST_FIRST: &str = block(include_str!("queries/miss_filter.sql"), "list_first");
const LIST_AFTER: &str = block(include_str!("queries/miss_filter.sql"), "list_after");
const KNOWN: &str = block(include_str!("queries/tags.sql"), "known");

/// The fraction of the lag for which a filter is trusted. The rest allows for clocks that run at other speeds.
const TRUST: (u32, u32) = (3, 4);
/// Refreshes per lag: with three quarters of it trusted, two may fail in a row.
const REFRESHES: u32 = 5;
/// Longest pause after a failed refresh, so that the filter is trusted again soon.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Tags listed per query while a filter is built.
const PAGE: usize = 20_000;
/// Rows whose age a process remembers. Beyond that it forgets all, which costs one extra wait per row.
const SEEN_MAX: usize = 100_000;

/// Answers for tags without rows, and tracks rows that other processes may not know yet.
pub(super) struct MissFilter {
    lag: Duration,
    filter: Arc<SharedFilter>,
    /// Rows that were never saved, and since when they were certainly there.
    seen: Mutex<HashMap<Vec<u8>, Instant>>,
}

/// A filter and until when its "absent" is certain.
pub(super) struct SharedFilter {
    lag: Duration,
    current: Mutex<Current>,
}

#[derive(Clone)]
struct Current {
    filter: Arc<Filter>,
    /// `None` before the first build is complete.
    until: Option<Instant>,
}

impl MissFilter {
    pub(super) fn new(lag: Duration) -> MissFilter {
        let current = Current {
            filter: Arc::new(Filter::with_room_for(0)),
            until: None,
        };
        MissFilter {
            lag,
            filter: Arc::new(SharedFilter {
                lag,
                current: Mutex::new(current),
            }),
            seen: Mutex::default(),
        }
    }

    pub(super) fn filter(&self) -> Arc<SharedFilter> {
        self.filter.clone()
    }

    /// Returns whether a process that shares the database may keep a filter.
    pub(super) fn is_used(&self) -> bool {
        !self.lag.is_zero()
    }

    /// Returns whether the tag certainly has no row that matters at some time during this call.
    pub(super) fn is_certain(&self, tag: &[u8]) -> bool {
        self.filter.is_certain(tag)
    }

    /// Records that these tags have rows that were never saved. Returns when every process knows of all of them,
    /// or `None` if that is now.
    pub(super) fn seen(&self, unsaved: &[&[u8]]) -> Option<Instant> {
        if !self.is_used() {
            return None;
        }
        let now = Instant::now();
        let mut seen = self.seen.lock();
        if seen.len() + unsaved.len() > SEEN_MAX {
            seen.clear();
        }
        let since = unsaved
            .iter()
            .map(|tag| *seen.entry(tag.to_vec()).or_insert(now))
            .max()?;
        Some(since + self.lag).filter(|until| *until > now)
    }

    /// Returns when every process knows of a tag whose row was never saved, or `None` for other tags.
    pub(super) async fn known_to_all_at(
        &self,
        session: &Session,
        tag: &[u8],
    ) -> Result<Option<Instant>, Failure> {
        let row = session.query_opt(KNOWN, &[&&[tag][..]]).await?;
        let is_saved = row.map(|row| KnownTag::read(&row).is_saved);
        if is_saved != Some(false) {
            return Ok(None);
        }
        Ok(Some(self.seen(&[tag]).unwrap_or_else(Instant::now)))
    }
}

impl SharedFilter {
    fn is_certain(&self, tag: &[u8]) -> bool {
        let current = self.current().clone();
        let Some(until) = current.until else {
            return false;
        };
        current.filter.ask(tag) == Existence::Absent && Instant::now() < until
    }

    /// Publishes a filter that has every tag made before a read that was sent at this time.
    fn put(&self, filter: &Arc<Filter>, sent: Instant) {
        *self.current() = Current {
            filter: filter.clone(),
            until: Some(sent + self.lag * TRUST.0 / TRUST.1),
        };
    }

    fn distrust(&self) {
        self.current().until = None;
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock()
    }
}

/// Builds the filter and keeps it fresh until its runtime ends.
pub(super) async fn keep_up(pool: Pool, shared: Arc<SharedFilter>) {
    let mut known: Option<Known> = None;
    loop {
        let mut pause = shared.lag / REFRESHES;
        let step = match &mut known {
            Some(known) if !known.filter.wants_rebuild() => known.refresh(&pool, &shared).await,
            _ => build(&pool, &shared, &mut known).await,
        };
        match step {
            Ok(Step::Fresh) => (),
            Ok(Step::Replaced) => {
                tracing::info!("the cold tier has another primary; its filter is rebuilt");
                shared.distrust();
                known = None;
            }
            Err(error) => {
                tracing::debug!(error = error.chain(), "the cold tier's filter is not fresh");
                pause = pause.min(RETRY_AFTER);
            }
        }
        sleep(pause).await;
    }
}

enum Step {
    Fresh,
    /// Another server answers, and numbers transactions its own way.
    Replaced,
}

/// A filter with all tags but some of those that were made at or after a horizon.
struct Known {
    filter: Arc<Filter>,
    from: TransactionHorizon,
}

impl Known {
    /// Adds the tags that were made since the last refresh.
    async fn refresh(&mut self, pool: &Pool, shared: &SharedFilter) -> Result<Step, Error> {
        let session = pool.get().await?;
        let sent = Instant::now();
        let horizon = horizon(&session).await?;
        if horizon.timeline != self.from.timeline || horizon.next < self.from.oldest {
            return Ok(Step::Replaced);
        }
        let from = self.from.oldest.to_string();
        for row in session.query(MADE_SINCE, &[&from]).await? {
            self.filter.insert(scalar(&row));
        }
        self.from = horizon;
        shared.put(&self.filter, sent);
        Ok(Step::Fresh)
    }
}

/// Lists all tags into a new filter. One that is there is kept fresh meanwhile.
async fn build(pool: &Pool, shared: &SharedFilter, known: &mut Option<Known>) -> Result<Step, Error> {
    let (from, count) = {
        let session = pool.get().await?;
        let from = horizon(&session).await?;
        (from, totals::stored(&session).await?.tags)
    };
    let count = usize::try_from(count).unwrap_or_default();
    let filter = Arc::new(Filter::with_room_for(count + count / 4));
    let mut last: Option<Vec<u8>> = None;
    loop {
        let session = pool.get().await?;
        let limit = sql_limit(PAGE);
        let page = match &last {
            None => session.query(LIST_FIRST, &[&limit]).await?,
            Some(tag) => session.query(LIST_AFTER, &[tag, &limit]).await?,
        };
        drop(session);
        page.iter().for_each(|row| filter.insert(scalar(row)));
        match page.last() {
            Some(row) => last = Some(scalar(row)),
            None => break,
        }
        if let Some(known) = known
            && let Step::Replaced = known.refresh(pool, shared).await?
        {
            return Ok(Step::Replaced);
        }
    }
    let mut built = Known { filter, from };
    let step = built.refresh(pool, shared).await?;
    *known = Some(built);
    Ok(step)
}

async fn horizon(session: &Session) -> Result<TransactionHorizon, Error> {
    let row = session.query_one(HORIZON, &[]).await?;
    Ok(TransactionHorizon::read(&row))
}
