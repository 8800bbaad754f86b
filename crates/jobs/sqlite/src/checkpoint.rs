//! Checkpoints: copies the write-ahead log into the database, on its own thread and connection.
//!
//! A commit that does this itself delays its callers by tens of milliseconds. Here it runs concurrently, after
//! enough changes and when the writer is idle. The log restarts once all of it is copied and no reader uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

/// Changed rows after which a checkpoint runs: about 16 MB of log.
const ROWS: u64 = 30_000;
/// How long fewer changes wait for a checkpoint.
const QUIET: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct Checkpoints {
    /// Rows changed since the last checkpoint.
    rows: AtomicU64,
    closed: Mutex<bool>,
    wake: Condvar,
}

impl Checkpoints {
    /// Records a commit.
    pub(crate) fn committed(&self, rows: u64) {
        let before = self.rows.fetch_add(rows, Ordering::Relaxed);
        if before < ROWS && before + rows >= ROWS {
            self.wake.notify_one();
        }
    }

    pub(crate) fn close(&self) {
        *self.closed.lock() = true;
        self.wake.notify_all();
    }

    pub(crate) fn start(self: &Arc<Self>, connection: Connection) -> std::io::Result<JoinHandle<()>> {
        let checkpoints = Arc::clone(self);
        nagaya_threads::spawn("jobs-checkpoint", move || checkpoints.serve(&connection))
    }

    fn serve(&self, connection: &Connection) {
        loop {
            {
                let mut closed = self.closed.lock();
                if *closed {
                    break;
                }
                if self.rows.load(Ordering::Relaxed) < ROWS {
                    self.wake.wait_for(&mut closed, QUIET);
                }
            }
            if self.rows.swap(0, Ordering::Relaxed) > 0 {
                copy(connection, "PRAGMA wal_checkpoint(PASSIVE)");
            }
        }
        // All other connections are closed: truncate the log.
        copy(connection, "PRAGMA wal_checkpoint(TRUNCATE)");
    }
}

fn copy(connection: &Connection, pragma: &str) {
    if let Err(error) = connection.query_row(pragma, [], |_| Ok(())) {
        tracing::warn!(%error, "checkpoint of the job store failed");
    }
}
