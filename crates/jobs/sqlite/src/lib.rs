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
        open::renew_leases(&connection, clock.unix_ms()).map_err(|error| OpenError::failed(path, error))?;
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
    use nagaya_jobs::store::JobStore;
    use nagaya_jobs::suite::{Case, Harness, START_MS};

    fn with_store(case: Case) {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(START_MS));
        let path = folder.path().join("jobs.db");
        let open = {
            let clock = Arc::clone(&clock);
            move || -> Arc<dyn JobStore> {
                Arc::new(SqliteJobs::open(&path, &Options::default(), clock.clone()).unwrap())
            }
        };
        let store = open();
        let harness = Harness {
            second: Arc::clone(&store),
            store,
            clock,
            reopen: Arc::new(move || {
                let store = open();
                Box::pin(async move { store })
            }),
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

    #[test]
    fn a_file_of_the_version_before_opens_with_all_that_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let connection = rusqlite::Connection::open(&path).unwrap();
        migrate::SCHEMA.to(&connection, &path, 1).unwrap();
        let rows = format!(
            "INSERT INTO tenants VALUES (1, 'shop', 1, 0);
             INSERT INTO queues (num, name, settings, created_ms) VALUES (1, 'mail', '{{}}', 0);
             INSERT INTO counters VALUES (1, 1, 0, 1, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0);
             INSERT INTO jobs VALUES (7, 1, 1, 'k', 0, 0, NULL, 2000, 5, 0, NULL, NULL, x'31');
             INSERT INTO jobs VALUES (8, 1, 1, 'k', 0, 0, NULL, 2000, 5, 0, NULL, NULL, x'32');
             INSERT INTO ready VALUES (1, 1, 0, 7, 7, 0, 6);
             INSERT INTO running VALUES (8, 1, 1, 1, 6, 99, 'w', {START_MS}, 2000, {START_MS} + 2000, 1);
             INSERT INTO idempotency VALUES (1, 1, 'key', 7, {START_MS} + 1000000);
             INSERT INTO deliveries VALUES (1, 7, 1, 1, 1, 5, 1, '{{\"url\":\"http://x.test/\"}}', 1, 0, 0, 0);
             INSERT INTO schedules VALUES (1, 'nightly', '@daily', 'UTC', 'once', 0,
                 '{{\"tenant\":\"shop\",\"queue\":\"mail\",\"payload\":\"MQ==\",\"priority\":0,\"options\":{{}}}}', NULL, NULL, 0);"
        );
        connection.execute_batch(&rows).unwrap();
        drop(connection);
        let clock = Arc::new(ManualClock::at(START_MS + 5_000));
        let store = SqliteJobs::open(&path, &Options::default(), clock).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            use nagaya_jobs::shares::DeliveryClaim;
            use nagaya_jobs::store::{DeliveryQueue, JobReader, Maintenance, QueueAdmin, Schedules};
            use nagaya_jobs::{JobId, QueueName, State, TenantId, Visibility};
            let ids = vec![JobId::new(7).unwrap(), JobId::new(8).unwrap()];
            assert_eq!(
                store.sweep_expired(9).await.unwrap().rows,
                0,
                "its lease has a grace"
            );
            let states = store.states(ids).await.unwrap();
            assert_eq!(states, [Some(State::Waiting), Some(State::Running)]);
            let shop = Visibility::of_tenant(TenantId::new("shop").unwrap());
            let mail = QueueName::new("mail").unwrap();
            let counted = nagaya_jobs::queue::Counted::All;
            let queue = store.queue(mail, shop, counted).await.unwrap().unwrap();
            assert_eq!((queue.depth.ready, queue.throughput.enqueued), (1, 2));
            let claim = DeliveryClaim::of(9, std::time::Duration::from_secs(9));
            let due = store.claim_deliveries(claim).await.unwrap();
            assert_eq!(due.len(), 1);
            assert_eq!(store.schedules(None).await.unwrap()[0].refused, None);
        });
    }
}
