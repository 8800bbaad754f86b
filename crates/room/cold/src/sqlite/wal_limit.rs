//! Keeps SQLite's write-ahead log from growing without bound.
//!
//! SQLite copies the log into the database by itself every
//! [`AUTOCHECKPOINT_PAGES`], but starts over at its beginning only when no reader
//! is inside it at that instant. Under steady reads that instant may not come.
//! When the file passes its bound, the writer waits a moment for the readers and
//! empties it. A reader that does not end (a long export) is not waited for at
//! each commit: the next try comes when the file has grown by another quarter.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::rows::CheckpointRow;

/// Pages in the log after which SQLite copies them into the database: 64 MiB. Fewer would write pages
/// that change often again and again, more would slow down the reads that search the log.
pub(super) const AUTOCHECKPOINT_PAGES: u32 = 16_384;
/// Size to which SQLite cuts the file when it starts over.
pub(super) const KEPT_BYTES: u64 = 64 << 20;
/// How long readers are waited for.
const PATIENCE: Duration = Duration::from_millis(200);

pub(super) struct WalLimit {
    path: PathBuf,
    bytes_max: u64,
    busy_timeout: Duration,
    /// Size at which to try next.
    try_at_bytes: u64,
}

impl WalLimit {
    pub(super) fn new(database: &Path, bytes_max: u64, busy_timeout: Duration) -> WalLimit {
        WalLimit {
            path: path_of(database),
            bytes_max,
            busy_timeout,
            try_at_bytes: bytes_max,
        }
    }

    /// Empties the log if it is too large. Called between transactions.
    pub(super) fn hold(&mut self, connection: &Connection) {
        let bytes = std::fs::metadata(&self.path).map_or(0, |file| file.len());
        if bytes <= self.bytes_max {
            self.try_at_bytes = self.bytes_max;
            return;
        }
        if bytes < self.try_at_bytes {
            return;
        }
        self.try_at_bytes = match self.empty(connection) {
            Ok(true) => self.bytes_max,
            Ok(false) => bytes + self.bytes_max / 4,
            Err(error) => {
                tracing::warn!(%error, bytes, "cold tier could not empty its write-ahead log");
                bytes + self.bytes_max / 4
            }
        };
    }

    /// Empties the log; returns whether it could.
    pub(super) fn empty(&self, connection: &Connection) -> rusqlite::Result<bool> {
        connection.busy_timeout(PATIENCE)?;
        let row = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], CheckpointRow::read);
        connection.busy_timeout(self.busy_timeout)?;
        Ok(!row?.busy)
    }
}

/// Returns where SQLite keeps the write-ahead log of a database.
pub(super) fn path_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}
