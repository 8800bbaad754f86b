//! Totals over the whole tier, changed in the same transaction as the rows they count.

use nagaya_sql::block;
use nagaya_tiering::cold::Version;
use rusqlite::{Connection, Result, params};

use super::rows::TotalsRow;

const ADD: &str = block(include_str!("queries/totals.sql"), "add");
const RAISE_NEWEST: &str = block(include_str!("queries/totals.sql"), "raise_newest");
const GET: &str = block(include_str!("queries/totals.sql"), "get");

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
    pub(super) fn add_row(&mut self, key: &[u8], payload_bytes: Option<i64>) {
        self.count_row(key, payload_bytes, 1);
    }

    /// Subtracts what [`TotalsDelta::add_row`] counted.
    pub(super) fn remove_row(&mut self, key: &[u8], payload_bytes: Option<i64>) {
        self.count_row(key, payload_bytes, -1);
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

    fn count_row(&mut self, key: &[u8], payload_bytes: Option<i64>, sign: i64) {
        match payload_bytes {
            Some(payload_bytes) => {
                self.keys += sign;
                self.bytes += sign * (key.len() as i64 + payload_bytes);
            }
            None => self.tombstones += sign,
        }
    }
}

/// Adds what a transaction changed.
pub(super) fn add(connection: &Connection, change: TotalsDelta) -> Result<()> {
    if change != TotalsDelta::default() {
        let values = params![change.tags, change.keys, change.tombstones, change.bytes];
        connection.prepare_cached(ADD)?.execute(values)?;
    }
    Ok(())
}

/// Raises the newest saved version.
pub(super) fn raise_newest(connection: &Connection, version: Version) -> Result<()> {
    let values = params![version.generation, version.snap];
    connection.prepare_cached(RAISE_NEWEST)?.execute(values)?;
    Ok(())
}

/// Reads the totals and the newest version.
pub(super) fn get(connection: &Connection) -> Result<(TotalsDelta, Version)> {
    let row = connection.prepare_cached(GET)?.query_row([], TotalsRow::read)?;
    let sums = TotalsDelta {
        tags: row.tags,
        keys: row.keys,
        tombstones: row.tombstones,
        bytes: row.bytes,
    };
    let newest = Version {
        generation: row.newest_generation,
        snap: row.newest_snap,
    };
    Ok((sums, newest))
}
