//! The cold tier in a PostgreSQL that many processes share.
//!
//! Every writer of a tag's keys locks the tag's row first, several tags in the order
//! of their bytes, and reads after that in a statement of its own: so it sees what
//! the one before it has committed, two commits never wait for each other in a
//! circle, and a snapshot is compared with the row that it is written under.
//!
//! Calls block and must not be made from a task of an async runtime; the driver
//! runs on threads of its own.

mod check;
mod error;
mod json;
mod list;
mod load;
mod miss_filter;
mod open;
mod remove;
mod rows;
mod save;
mod totals;

use std::time::Duration;

use nagaya_postgres_client::{Pool, Session};
use nagaya_tiering::cold::{
    Access, Claimed, ColdError, ColdTier, Committed, Finding, KeyRow, Loaded, Snapshot, Status, TagRow,
    Totals, Version,
};
use tokio::runtime::Runtime;
use tokio::time::Instant;

pub use error::OpenError;
pub use open::Options;

use error::{Failure, cold_error};
use miss_filter::MissFilter;

/// How often a transaction is retried after a conflict with another.
const CONFLICTS_MAX: u32 = 5;

/// A cold tier in a PostgreSQL database.
pub struct PostgresCold {
    pool: Pool,
    miss_filter: MissFilter,
    decode: bool,
    /// There until dropped.
    runtime: Option<Runtime>,
}

impl PostgresCold {
    /// Connects and brings the schema up to date, also when others do the same at this moment.
    pub fn open(url: &str, options: Options) -> Result<PostgresCold, OpenError> {
        open::open(url, options)
    }

    /// Brings a database that is not in use to another schema, for a program older than this one.
    /// Going down loses what the older schema has no place for; schema 0 loses everything.
    pub fn migrate_to(url: &str, schema: u32) -> Result<(), OpenError> {
        open::migrate_to(url, schema)
    }

    /// Removes keys without a tag and recounts keys and bytes of all tags: the remedy for what a check
    /// finds wrong with them. Reads every row and blocks writers meanwhile.
    pub fn recount(&self) -> Result<(), ColdError> {
        self.run(async |session| check::recount(session).await)
    }

    /// Runs work on a connection, and again after a conflict with another transaction, which undid all of it.
    fn run<T>(&self, work: impl AsyncFn(&Session) -> Result<T, Failure>) -> Result<T, ColdError> {
        let runtime = self
            .runtime
            .as_ref()
            .expect("a tier has a runtime until it is dropped");
        runtime.block_on(async {
            let mut tries = 0;
            loop {
                let connection = self.pool.get().await.map_err(Failure::from).map_err(cold_error)?;
                let failure = match work(&connection).await {
                    Ok(done) => return Ok(done),
                    Err(failure) => failure,
                };
                // A transaction may be open on it, which ends with its connection.
                connection.spoil();
                tries += 1;
                if !failure.is_conflict() || tries > CONFLICTS_MAX {
                    return Err(cold_error(failure));
                }
            }
        })
    }
}

impl Drop for PostgresCold {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting here could block a thread that must not.
            runtime.shutdown_background();
        }
    }
}

impl ColdTier for PostgresCold {
    fn generations(&self, tags: &[&[u8]]) -> Result<Vec<Option<u64>>, ColdError> {
        let asked: Vec<usize> = (0..tags.len())
            .filter(|&at| !self.miss_filter.is_certain(tags[at]))
            .collect();
        let mut generations = vec![None; tags.len()];
        if asked.is_empty() {
            return Ok(generations);
        }
        let names: Vec<&[u8]> = asked.iter().map(|&at| tags[at]).collect();
        let found = self.run(async |session| load::generations(session, &names).await)?;
        for (at, generation) in asked.into_iter().zip(found) {
            generations[at] = generation;
        }
        Ok(generations)
    }

    fn claim(&self, tag: &[u8], base: Option<u64>) -> Result<Claimed, ColdError> {
        if base.is_none() && self.miss_filter.is_certain(tag) {
            return Ok(Claimed::NoRow);
        }
        self.run(async |session| load::claim(session, &self.miss_filter, tag, base).await)
    }

    fn read(&self, tags: &[&[u8]]) -> Result<Vec<Option<Loaded>>, ColdError> {
        self.run(async |session| load::read(session, tags).await)
    }

    fn ensure(&self, tags: &[&[u8]]) -> Result<(), ColdError> {
        let wait = self.make_rows(tags)?;
        let runtime = self
            .runtime
            .as_ref()
            .expect("a tier has a runtime until it is dropped");
        runtime.block_on(async { tokio::time::sleep(wait).await });
        Ok(())
    }

    fn make_rows(&self, tags: &[&[u8]]) -> Result<Duration, ColdError> {
        let fresh = self.run(async |session| save::ensure(session, &self.miss_filter, tags).await)?;
        Ok(fresh.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        }))
    }

    fn commit(&self, snapshots: &[Snapshot], now_ms: i64) -> Result<Vec<Committed>, ColdError> {
        let decode = self.decode;
        self.run(async |session| save::commit(session, snapshots, decode, now_ms).await)
    }

    fn set_status(&self, tags: &[&[u8]], status: Status) -> Result<(), ColdError> {
        self.run(async |session| save::set_status(session, tags, status).await)
    }

    fn note_access(&self, accesses: &[Access]) -> Result<(), ColdError> {
        self.run(async |session| save::note_access(session, accesses).await)
    }

    fn tag(&self, tag: &[u8]) -> Result<Option<TagRow>, ColdError> {
        self.run(async |session| list::tag(session, tag).await)
    }

    fn tags_after(&self, tag: Option<&[u8]>, limit: usize) -> Result<Vec<TagRow>, ColdError> {
        self.run(async |session| list::tags_after(session, tag, limit).await)
    }

    fn keys_after(&self, after: Option<(&[u8], &[u8])>, limit: usize) -> Result<Vec<KeyRow>, ColdError> {
        self.run(async |session| list::keys_after(session, after, limit).await)
    }

    fn erase(&self, tag: &[u8]) -> Result<u64, ColdError> {
        self.run(async |session| remove::erase(session, tag).await)
    }

    fn wipe(&self, up_to: Version) -> Result<(), ColdError> {
        self.run(async |session| remove::wipe(session, up_to).await)
    }

    fn purge(&self, expired_before_ms: i64, buried_before_ms: i64, limit: usize) -> Result<usize, ColdError> {
        self.run(async |session| remove::purge(session, expired_before_ms, buried_before_ms, limit).await)
    }

    fn forget_empty(&self, up_to: Version, from: u64, limit: usize) -> Result<(usize, u64), ColdError> {
        self.run(async |session| remove::forget_empty(session, up_to, from, limit).await)
    }

    fn newest(&self) -> Result<Version, ColdError> {
        self.run(async |session| totals::newest(session).await)
    }

    fn totals(&self) -> Result<Totals, ColdError> {
        self.run(async |session| totals::totals(session).await)
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, ColdError> {
        self.run(async |session| list::fact(session, name).await)
    }

    fn set_fact(&self, name: &str, value: &[u8]) -> Result<(), ColdError> {
        self.run(async |session| list::set_fact(session, name, value).await)
    }

    fn check(&self) -> Result<Vec<Finding>, ColdError> {
        self.run(async |session| check::check(session).await)
    }
}
