//! Totals over the whole tier, changed in the same transaction as the rows they count.

use nagaya_postgres_client::{Error, Session, scalar};
use nagaya_sql::block;
use nagaya_tiering::cold::{Totals, Version};

use super::error::Failure;
use super::rows::{NewestRow, StoredTotals};

const ADD: &str = block(include_str!("queries/totals.sql"), "add");
const GET: &str = block(include_str!("queries/totals.sql"), "get");
const NEWEST: &str = block(include_str!("queries/totals.sql"), "newest");
const DISK: &str = block(include_str!("queries/totals.sql"), "disk");

/// Totals, or how a transaction changes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TotalsDelta {
    pub(super) tags: i64,
    pub(super) keys: i64,
    pub(super) tombstones: i64,
    /// Bytes of names and payloads of the keys.
    pub(super) bytes: i64,
}

impl TotalsDelta {
    /// Counts a row with this name and this payload, or a tombstone when it has none.
    pub(super) fn add_row(&mut self, key: &[u8], payload: Option<&[u8]>) {
        match payload {
            Some(payload) => {
                self.keys += 1;
                self.bytes += (key.len() + payload.len()) as i64;
            }
            None => self.tombstones += 1,
        }
    }

    pub(super) fn add(&mut self, other: TotalsDelta) {
        self.tags += other.tags;
        self.keys += other.keys;
        self.tombstones += other.tombstones;
        self.bytes += other.bytes;
    }

    pub(super) fn negated(self) -> TotalsDelta {
        TotalsDelta {
            tags: -self.tags,
            keys: -self.keys,
            tombstones: -self.tombstones,
            bytes: -self.bytes,
        }
    }
}

/// Prepares [`add`], so that it can be sent together with the statements around it.
pub(super) async fn prepare(session: &Session) -> Result<(), Error> {
    session.prepare(ADD).await?;
    Ok(())
}

/// Adds what a transaction changed; its last statement. `newest` in columns, zeros when nothing was saved.
pub(super) async fn add(session: &Session, change: TotalsDelta, newest: (i64, i64)) -> Result<(), Error> {
    if change == TotalsDelta::default() && newest == (0, 0) {
        return Ok(());
    }
    session
        .execute(
            ADD,
            &[
                &change.tags,
                &change.keys,
                &change.tombstones,
                &change.bytes,
                &newest.0,
                &newest.1,
            ],
        )
        .await?;
    Ok(())
}

pub(super) async fn stored(session: &Session) -> Result<TotalsDelta, Error> {
    let row = session.query_one(GET, &[]).await?;
    Ok(StoredTotals::read(&row).into())
}

/// Returns the highest version that any tag was saved with.
pub(super) async fn newest(session: &Session) -> Result<Version, Failure> {
    let row = session.query_opt(NEWEST, &[]).await?;
    let newest = row.as_ref().map(NewestRow::read).map(|row| Version {
        generation: row.newest_generation,
        snap: row.newest_snap,
    });
    Ok(newest.unwrap_or_default())
}

pub(super) async fn totals(session: &Session) -> Result<Totals, Failure> {
    let sums = stored(session).await?;
    let disk = session.query_one(DISK, &[]).await?;
    Ok(Totals {
        tags: sums.tags.unsigned_abs(),
        keys: sums.keys.unsigned_abs(),
        tombstones: sums.tombstones.unsigned_abs(),
        bytes: sums.bytes.unsigned_abs(),
        disk_bytes: scalar::<i64>(&disk).unsigned_abs(),
    })
}
