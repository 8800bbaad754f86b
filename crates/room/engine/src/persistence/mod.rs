//! The cold tier and the write-ahead log behind the engine: opening them,
//! recovery after a crash, and the threads that serve them.

mod databases;
mod functions;
mod grounded_files;
mod journal;
mod loader;
mod recovery;
mod saver;
mod signal;
mod walker;
mod witness;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use nagaya_keyspace::effects::JournalError;
use nagaya_keyspace::residency::Tiering;
use nagaya_process::Ground;
use nagaya_tiering::cold::{ColdError, ColdTier};
use nagaya_wal::{Files, Log, LogError, Options, OsFiles, Position, SyncMode};

pub use databases::saved_databases;
pub use recovery::{RecoveryError, checkpoint};

use crate::config::{Fsync, RoomConfig};
use crate::engine::Shared;
use crate::error::Error;
use grounded_files::GroundedFiles;
use journal::LogJournal;
use saver::{Rules, Saver};
use signal::Signal;
use witness::{Identified, WITNESS_FOLDER, Witness};

/// Tags read per call while the filter is filled.
const FILTER_PAGE: usize = 10_000;

/// Where an engine keeps its data.
pub struct Storage {
    pub cold: Arc<dyn ColdTier>,
    /// The folder of the write-ahead log, for this engine alone.
    pub log_dir: PathBuf,
    /// The file system that the log is on.
    pub files: Arc<dyn Files>,
    /// The places that must not be lost while the engine runs. It adds the log's folder.
    pub ground: Ground,
    /// The folder with the engine's identity, which outlives restarts that lose nothing; none gives every run a new
    /// one.
    pub identity: Option<PathBuf>,
}

impl Storage {
    /// Keeps the log in a folder of this machine.
    pub fn new(cold: Arc<dyn ColdTier>, log_dir: PathBuf) -> Storage {
        Storage {
            cold,
            log_dir,
            files: Arc::new(OsFiles),
            ground: Ground::default(),
            identity: None,
        }
    }

    /// Keeps the engine's identity in a folder, which the log must be of.
    pub fn identified_in(self, folder: PathBuf) -> Storage {
        Storage {
            identity: Some(folder),
            ..self
        }
    }

    /// Watches these places, too.
    pub fn on(self, ground: Ground) -> Storage {
        Storage { ground, ..self }
    }
}

/// The write-ahead log and the threads between memory and the cold tier.
pub(crate) struct Persistence {
    pub(crate) log: Arc<Log>,
    signal: Arc<Signal>,
    saver: JoinHandle<()>,
    readers: Vec<JoinHandle<()>>,
    walker: JoinHandle<()>,
    filter: JoinHandle<()>,
}

impl Persistence {
    /// Opens the log, replays it, and starts the threads. No client may be served before this.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        config: &RoomConfig,
        storage: Storage,
    ) -> Result<Persistence, Error> {
        let Storage {
            cold,
            log_dir,
            files,
            ground,
            identity,
        } = storage;
        let files = Arc::new(GroundedFiles {
            files,
            ground: ground.clone(),
        });
        let cold_error = |source: ColdError| Error::Recovery(source.into());
        let totals = cold.totals().map_err(cold_error)?;
        let newest = cold.newest().map_err(cold_error)?;
        let checkpoint = recovery::checkpoint(&*cold).map_err(cold_error)?;
        let options = Options {
            mode: sync_mode(config.fsync),
            buffer_bytes_max: saver::log_bytes(config.max_memory.0),
            start_at_least: Position(newest.snap.max(checkpoint)),
            ..Options::default()
        };
        let opened = Log::open(&log_dir, &options, files);
        let (log, mut recovery) = opened.map_err(|source| Error::Recovery(source.into()))?;
        // A log that is not in a folder of this machine, as in tests, has no place to lose.
        if log_dir.exists() {
            ground.watch(&log_dir).map_err(Error::Ground)?;
        }
        let told = Arc::downgrade(shared);
        ground.on_loss(move |lost| {
            if let Some(shared) = told.upgrade() {
                let reason = lost.to_string();
                shared.server.fail_journal(JournalError { reason });
            }
        });
        let log = Arc::new(log);
        let held = Arc::clone(&log);
        let probe = Box::new(move || held.held_bytes());
        // Set once, here.
        shared.server.keyspace.memory.log_probe.set(probe).ok();
        if checkpoint > 0 {
            let skipped = recovery.skip_to(Position(checkpoint));
            skipped.map_err(|source| Error::Recovery(source.into()))?;
        }
        let signal = Arc::new(Signal::default());
        // The position of memory while the log is replayed; after that, it is the end of the log.
        let replayed = Arc::new(AtomicU64::new(checkpoint));
        let (loads, orders) = mpsc::channel();
        let log_end = {
            let (log, replayed) = (Arc::clone(&log), Arc::clone(&replayed));
            Box::new(move || match replayed.load(Ordering::Acquire) {
                u64::MAX => log.end().0,
                position => position,
            })
        };
        let wake = Arc::clone(&signal);
        let save_soon = Box::new(move || wake.save_soon());
        let mut tiering = Tiering::new(Arc::clone(&cold), log_end, loads, totals, save_soon);
        tiering.pinned = config.pinned_prefixes();
        tiering.require_hash_tag = config.require_hash_tag;
        let count = shared.server.keyspace.databases.count();
        let keys = databases::keys_of_spaces(&*cold, totals.keys, count).map_err(cold_error)?;
        tiering.set_cold_keys(&keys);
        (1..count)
            .filter(|space| keys[*space] > 0)
            .for_each(|space| shared.server.keyspace.databases.note_used(space));
        tiering.reached(checkpoint, shared.server.clock.unix_us() / 1000);
        if shared.server.keyspace.tiering.set(tiering).is_err() {
            unreachable!("an engine starts once");
        }
        let rules = Rules {
            max_staleness: config.max_staleness,
            idle_after: config.idle_after,
            log_bytes_max: config.log_max.0,
        };
        let mut saver = Saver::new(
            Arc::clone(shared),
            Arc::clone(&log),
            Arc::clone(&signal),
            ground.clone(),
            rules,
        );
        let done = recovery::replay(&shared.server, &mut saver, &mut recovery, &replayed);
        let done = done.map_err(Error::Recovery)?;
        let reached = replayed.swap(u64::MAX, Ordering::AcqRel);
        let witness = match identity {
            Some(folder) => keep_identity(shared, &folder, reached)?,
            None => None,
        };
        if done.records > 0 || recovery.torn_tail().is_some() {
            tracing::info!(
                records = done.records,
                effects = done.effects,
                tags = done.tags,
                "the write-ahead log has been replayed"
            );
        }
        shared.server.set_journal(Arc::new(LogJournal {
            log: Arc::clone(&log),
            ground,
            witness,
            last: AtomicU64::new(reached),
        }));
        let (questions, walker) = walker::start(shared).map_err(Error::Thread)?;
        let readers = loader::start(shared, orders, &questions).map_err(Error::Thread)?;
        let filter = start_filter(shared, cold).map_err(Error::Thread)?;
        let saver = nagaya_threads::spawn("nagaya-save", move || saver.run()).map_err(Error::Thread)?;
        Ok(Persistence {
            log,
            signal,
            saver,
            readers,
            walker,
            filter,
        })
    }

    /// Saves everything and ends the threads. No client is served any more.
    pub(crate) fn stop(self, shared: &Shared) -> Result<(), LogError> {
        self.signal.end();
        if let Some(tiering) = shared.server.keyspace.tiering.get() {
            tiering.end_loads(self.readers.len());
        }
        let threads = self
            .readers
            .into_iter()
            .chain([self.walker, self.saver, self.filter]);
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a persistence thread panicked");
            }
        }
        self.log.close()
    }
}

/// Gives the engine the identity of its folder, if the log that was read proves it, else a new one.
fn keep_identity(shared: &Shared, folder: &Path, reached: u64) -> Result<Option<Witness>, Error> {
    let Identified { identity, witness } =
        witness::identify(folder, Path::new(WITNESS_FOLDER), reached).map_err(Error::Identity)?;
    *shared.server.run_id.lock() = identity.clone();
    *shared.server.replication_id.lock() = identity;
    Ok(witness)
}

/// Starts to add every tag of the cold tier to the filter, while the engine serves clients.
fn start_filter(shared: &Arc<Shared>, cold: Arc<dyn ColdTier>) -> std::io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    nagaya_threads::spawn("nagaya-filter", move || {
        if let Err(error) = fill_filter(&shared, &*cold) {
            tracing::error!(%error, "could not list the tags: every absent key is looked up in the cold tier");
        }
    })
}

fn fill_filter(shared: &Shared, cold: &dyn ColdTier) -> Result<(), ColdError> {
    let Some(tiering) = shared.server.keyspace.tiering.get() else {
        return Ok(());
    };
    let mut last: Option<Vec<u8>> = None;
    while !shared.is_stopping() {
        let mut page = cold.tags_after(last.as_deref(), FILTER_PAGE)?;
        page.iter().for_each(|row| tiering.note_cold_tag(&row.tag));
        match page.pop() {
            Some(row) => last = Some(row.tag),
            None => {
                tiering.filter_is_whole();
                return Ok(());
            }
        }
    }
    Ok(())
}

fn sync_mode(fsync: Fsync) -> SyncMode {
    match fsync {
        Fsync::Always => SyncMode::Always,
        Fsync::EverySec => SyncMode::EverySecond,
        Fsync::No => SyncMode::No,
    }
}
