//! Sums over the whole tier, moved along with what they sum up.

use nagaya_postgres_client::{Error, Row, Session};
use nagaya_sql::block;
use nagaya_tiering::cold::{Totals, Version};

use super::error::Failure;
use super::rows::{unsigned, version_at};

const ADD: &str = block(include_str!("queries/totals.sql"), "add");
const GET: &str = block(include_str!("queries/totals.sql"), "get");
const NEWEST: &str = block(include_str!("queries/totals.sql"), "newest");
const DISK: &str = block(include_str!("queries/totals.sql"), "disk");

/// Sums, or how a transaction changes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) tags: i64,
    pub(super) keys: i64,
    pub(super) tombstones: i64,
    /// Bytes of names and payloads of the keys.
    pub(super) bytes: i64,
}

impl Sums {
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

    pub(super) fn add(&mut self, other: Sums) {
        self.tags += other.tags;
        self.keys += other.keys;
        self.tombstones += other.tombstones;
        self.bytes += other.bytes;
    }

    pub(super) fn negated(self) -> Sums {
        Sums {
            tags: -self.tags,
            keys: -self.keys,
            tombstones: -self.tombstones,
            bytes: -self.bytes,
        }
    }

    /// Reads the sums of a tag's rows: keys, bytes and tombstones from a column on.
    pub(super) fn of_tag(row: &Row, column: usize) -> Sums {
        Sums {
            tags: 0,
            keys: row.get(column),
            bytes: row.get(column + 1),
            tombstones: row.get(column + 2),
        }
    }

    /// Reads the sums of many tags from the first four columns.
    pub(super) fn of_many(row: &Row) -> Sums {
        Sums {
            tags: row.get(0),
            keys: row.get(1),
            tombstones: row.get(2),
            bytes: row.get(3),
        }
    }
}

/// Adds what a transaction changed; its last statement. `newest` in columns, zeros when nothing was saved.
pub(super) async fn add(session: &Session, change: Sums, newest: (i64, i64)) -> Result<(), Error> {
    if change == Sums::default() && newest == (0, 0) {
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

pub(super) async fn sums(session: &Session) -> Result<Sums, Error> {
    Ok(Sums::of_many(&session.query_one(GET, &[]).await?))
}

/// Returns the highest version that any tag was saved with.
pub(super) async fn newest(session: &Session) -> Result<Version, Failure> {
    let row = session.query_opt(NEWEST, &[]).await?;
    Ok(row.map_or(Version::default(), |row| version_at(&row, 0)))
}

pub(super) async fn totals(session: &Session) -> Result<Totals, Failure> {
    let sums = sums(session).await?;
    let disk = session.query_one(DISK, &[]).await?;
    Ok(Totals {
        tags: sums.tags.unsigned_abs(),
        keys: sums.keys.unsigned_abs(),
        tombstones: sums.tombstones.unsigned_abs(),
        bytes: sums.bytes.unsigned_abs(),
        disk_bytes: unsigned(&disk, 0),
    })
}
