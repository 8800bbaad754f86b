//! The job store on one SQLite file.
//!
//! One thread writes and joins many calls into shared commits. Others read, each on its own connection. One
//! runs checkpoints. A commit that has returned is synced to the disk. One server at a time opens the file.

mod check;
mod checkpoint;
mod claim;
mod deliveries;
mod enqueue;
mod error;
mod events;
mod explain;
mod list;
mod maintenance;
mod memory;
mod migrate;
mod names;
mod open;
mod operator;
mod queues;
mod read;
mod readers;
mod report;
mod rows;
mod schedules;
mod sql;
mod store;
mod tenants;
mod write_transaction;
mod writer;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use nagaya_jobs::clock::Clock;
use nagaya_jobs::error::Error;
use parking_lot::Mutex;

use checkpoint::Checkpoints;
use memory::Memory;
use readers::Readers;
use writer::Writer;

pub use error::OpenError;
pub use open::Options;

/// A job store in a SQLite file.
pub struct SqliteJobs {
    inner: Arc<Inner>,
}

struct Inner {
    writer: Writer,
    readers: Readers,
    checkpoints: Arc<Checkpoints>,
    checkpointer: Mutex<Option<JoinHandle<()>>>,
    clock: Arc<dyn Clock>,
    /// Held until the store is closed.
    lock: Mutex<Option<File>>,
}

impl SqliteJobs {
    /// Opens or creates the file, upgrades its schema and starts the threads.
    pub fn open(
        path: impl AsRef<Path>,
        options: &Options,
        clock: Arc<dyn Clock>,
    ) -> Result<SqliteJobs, OpenError> {
        let path = path.as_ref();
        let failed = |error: std::io::Error| OpenError::failed(path, Error::Failed(error.into()));
        let lock = open::lock(path)?;
        let connection = open::writer(path, options)?;
        let memory = Memory::load(&connection).map_err(|error| OpenError::failed(path, error))?;
        let checkpoints = Arc::new(Checkpoints::default());
        let checkpointer = checkpoints.start(open::checkpointer(path)?).map_err(failed)?;
        let readers = Readers::start(path, options)?;
        options.ground.watch(path).map_err(failed)?;
        let store = writer::Store {
            connection,
            memory,
            ground: options.ground.clone(),
        };
        let writer = Writer::start(store, Arc::clone(&clock), Arc::clone(&checkpoints));
        let inner = Inner {
            writer: writer.map_err(failed)?,
            readers,
            checkpoints,
            checkpointer: Mutex::new(Some(checkpointer)),
            clock,
            lock: Mutex::new(Some(lock)),
        };
        Ok(SqliteJobs {
            inner: Arc::new(inner),
        })
    }
}

impl Inner {
    /// Finishes calls in progress and ends the threads. Blocks until then.
    fn shut(&self) {
        self.writer.close();
        self.readers.close();
        self.checkpoints.close();
        if let Some(thread) = self.checkpointer.lock().take() {
            thread.join().ok();
        }
        self.lock.lock().take();
    }
}

impl Drop for SqliteJobs {
    fn drop(&mut self) {
        self.inner.shut();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagaya_jobs::clock::ManualClock;
    use nagaya_jobs::suite::{Case, Harness, START_MS};

    fn with_store(case: Case) {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(START_MS));
        let path = folder.path().join("jobs.db");
        let store = SqliteJobs::open(&path, &Options::default(), clock.clone()).unwrap();
        let harness = Harness {
            store: Arc::new(store),
            clock,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(case(harness));
    }

    nagaya_jobs::jobstore_suite!(with_store);

    #[test]
    fn a_second_server_is_kept_off_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let open = || SqliteJobs::open(&path, &Options::default(), Arc::new(ManualClock::at(START_MS)));
        let first = open().unwrap();
        assert!(matches!(open(), Err(OpenError::InUse { .. })));
        drop(first);
        open().unwrap();
    }
}
