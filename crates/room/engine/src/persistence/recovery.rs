//! Recovery after a crash: applies the changes that the cold tier lacks.
//!
//! The log is read from the last checkpoint on. A tag is loaded when the first
//! record names it; records that its cold copy has already are left out, the
//! others are applied. No client is served before that is done. It does not take
//! long: everything older is in the cold tier and is loaded on demand.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nagaya_exec::executor::Executor;
use nagaya_exec::replay::{EffectOn, ReplayError};
use nagaya_exec::server::Server;
use nagaya_keyspace::effects::EffectBuf;
use nagaya_tiering::cold::{ColdError, ColdTier};
use nagaya_wal::{OpenError, Recovery};

use super::saver::{CHECKPOINT, RoundError, Saver};
use super::{databases, functions};

/// The interval of progress messages in the log.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Records between two checks of memory and clock.
const CHECK_EVERY: u64 = 1024;

/// Why the data could not be recovered.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    #[error(transparent)]
    Log(#[from] OpenError),
    #[error(transparent)]
    Cold(#[from] ColdError),
    #[error("the record that ends at position {position} of the write-ahead log cannot be replayed")]
    Replay {
        position: u64,
        #[source]
        source: ReplayError,
    },
    #[error("database {database} has keys, and `room.databases` is {count}: set it to what it was, or more")]
    TooFewDatabases { database: usize, count: usize },
    #[error("memory ran out while the write-ahead log was replayed, and saving failed")]
    Save(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What was replayed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Replayed {
    pub(crate) records: u64,
    pub(crate) effects: u64,
    pub(crate) tags: usize,
}

/// Applies the log to memory and the cold tier. `position` shows the progress.
pub(crate) fn replay(
    server: &Server,
    saver: &mut Saver,
    recovery: &mut Recovery,
    position: &Arc<AtomicU64>,
) -> Result<Replayed, RecoveryError> {
    let Some(tiering) = server.keyspace.tiering.get() else {
        return Ok(Replayed::default());
    };
    let stats = Executor::new_stats(server);
    let mut core = Executor::new(server, &stats);
    restore_functions(&mut core, &*tiering.cold)?;
    let swapped = databases::restore(&server.keyspace.databases, &*tiering.cold)?;
    let mut replay = Replay {
        server,
        saved: HashMap::default(),
        swapped,
        failure: None,
    };
    let mut done = Replayed::default();
    let mut told_us = server.clock.steady_us();
    let total = recovery.bytes_total();
    loop {
        let read = recovery.bytes_read();
        let Some((end, record)) = recovery.next_record()? else {
            break;
        };
        let applied = core.apply_effects(record, &mut |on| replay.wants(on, end.0));
        if let Some(error) = replay.failure.take() {
            return Err(error.into());
        }
        let applied = match applied {
            Ok(applied) => applied,
            // The saved functions may be newer than this record: what it deletes is gone already.
            Err(ReplayError::Refused { command, reply }) if command.starts_with("function") => {
                tracing::debug!(command, reply, "a change of functions was not needed any more");
                0
            }
            Err(source) => {
                return Err(RecoveryError::Replay {
                    position: end.0,
                    source,
                });
            }
        };
        while let Some(flush) = tiering.flush_pending() {
            tiering.wipe(&flush)?;
            let totals = tiering.cold.totals()?;
            let keys =
                databases::keys_of_spaces(&*tiering.cold, totals.keys, server.keyspace.databases.count())?;
            tiering.wiped_to(&flush, totals, &keys);
        }
        position.store(end.0, Ordering::Release);
        done.records += 1;
        done.effects += applied as u64;
        if done.records % CHECK_EVERY == 0 {
            core.begin_batch();
            replay.keep_memory(saver)?;
            let now_us = server.clock.steady_us();
            if now_us - told_us > PROGRESS_EVERY.as_micros() as u64 {
                told_us = now_us;
                let percent = read * 100 / total.max(1);
                tracing::info!(percent, records = done.records, "replaying the write-ahead log");
            }
        }
    }
    done.tags = replay.saved.len();
    Ok(done)
}

/// Reads the log position of the cold tier's checkpoint.
pub fn checkpoint(cold: &dyn ColdTier) -> Result<u64, ColdError> {
    let fact = cold.fact(CHECKPOINT)?;
    let position = fact
        .and_then(|bytes| bytes.try_into().ok())
        .map(u64::from_le_bytes);
    Ok(position.unwrap_or(0))
}

struct Replay<'s> {
    server: &'s Server,
    /// The log positions of the cold copies of tags in memory.
    saved: HashMap<Box<[u8]>, u64, ahash::RandomState>,
    /// The log position up to which the databases have exchanged their spaces already.
    swapped: u64,
    failure: Option<ColdError>,
}

impl Replay<'_> {
    /// Returns whether an effect has to be applied, and makes its tag resident if so.
    fn wants(&mut self, on: EffectOn<'_>, end: u64) -> bool {
        let tag = match on {
            EffectOn::Tag(tag) => tag,
            EffectOn::Databases => return self.swapped < end,
            EffectOn::Everything => return true,
        };
        if let Some(saved) = self.saved.get(tag) {
            return *saved < end;
        }
        match self.server.keyspace.load_to_replay(tag, end) {
            Ok(saved) => {
                if saved < end {
                    self.saved.insert(tag.into(), saved);
                }
                saved < end
            }
            Err(error) => {
                self.failure.get_or_insert(error);
                false
            }
        }
    }

    /// Saves and evicts tags when the log loads more than fits into memory.
    fn keep_memory(&mut self, saver: &mut Saver) -> Result<(), RecoveryError> {
        if !self.server.keyspace.is_short_of_memory() {
            return Ok(());
        }
        let save = |failure: RoundError| RecoveryError::Save(Box::new(failure));
        saver.round().map_err(save)?;
        self.server
            .keyspace
            .evict_until_enough(self.server.config().maxmemory);
        // An evicted tag is looked up again when the log names it.
        self.saved.clear();
        Ok(())
    }
}

fn restore_functions(core: &mut Executor<'_>, cold: &dyn ColdTier) -> Result<(), RecoveryError> {
    let Some((position, dump)) = functions::load(cold)? else {
        return Ok(());
    };
    let mut record = EffectBuf::default();
    record.push(&[b"FUNCTION", b"RESTORE", &dump, b"FLUSH"]);
    core.apply_effects(record.as_bytes(), &mut |_| true)
        .map_err(|source| RecoveryError::Replay { position, source })?;
    Ok(())
}
