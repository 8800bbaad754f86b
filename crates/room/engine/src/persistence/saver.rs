//! Saves changes to the cold tier and evicts saved tags from memory.
//!
//! One thread visits all shards. It notes the position of the log and takes the
//! changes. Once the cold tier has confirmed all of them, the log up to that
//! position is no longer needed: that is the checkpoint. Before snapshots are
//! committed, the log is made durable up to them, so that the cold tier is never
//! ahead of the log.
//!
//! A round starts when the oldest change is three quarters as old as the cold
//! copy may be, when memory or the log grow too large, or on request. A round
//! that fails leaves its changes unsaved and is repeated.

use std::sync::Arc;
use std::time::Duration;

use nagaya_keyspace::databases::split_name;
use nagaya_keyspace::effects::JournalError;
use nagaya_keyspace::residency::{GENERATION, Taken, Tiering, WalkPlace};
use nagaya_process::{Ground, Lost};
use nagaya_tiering::cold::{ColdError, Committed, Snapshot, Version};
use nagaya_wal::{Log, Position};
use parking_lot::Mutex;

use super::signal::{Signal, Woken};
use crate::engine::Shared;
use crate::memory::{MemoryLook, SlackGauge, give_back, resident_bytes, used_bytes};

/// The saver's nice value: threads that serve clients come first.
const NICE: i32 = 5;
/// Bytes of snapshots that are committed in one transaction at most, and at least where memory is limited.
const COMMIT_BYTES: usize = 8 << 20;
const COMMIT_BYTES_MIN: usize = 1 << 20;
/// Memory of log records that the disk has not confirmed, at most and at least.
const LOG_BYTES_MAX: u64 = 64 << 20;
const LOG_BYTES_MIN: u64 = 8 << 20;
/// The interval at which the saver checks whether a round is due.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// The pause after a failed round: readiness follows the disk within a second.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// The pause between two times that free memory is given back.
const GIVE_BACK_EVERY_MS: i64 = 2_000;
/// How long expired rows stay in the cold tier, in case the clock steps back.
const EXPIRED_MARGIN_MS: i64 = 60_000;
const PURGE_EVERY_MS: i64 = 10_000;
const PURGE_ROWS: usize = 5_000;

/// The metadata entry of the cold tier with the position of the checkpoint.
pub(super) const CHECKPOINT: &str = "checkpoint";

/// When to save and what to evict.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) max_staleness: Duration,
    /// Tags that were not used for this long are evicted; zero switches that off.
    pub(crate) idle_after: Duration,
    /// A longer log, in bytes, starts a round.
    pub(crate) log_bytes_max: u64,
}

/// The saver's state.
pub(crate) struct Saver {
    shared: Arc<Shared>,
    log: Arc<Log>,
    signal: Arc<Signal>,
    ground: Ground,
    rules: Rules,
    /// Where the search for idle tags continues.
    idle_at: WalkPlace,
    purged_at_ms: i64,
    /// Where the search for empty tags continues.
    empty_from: u64,
    functions: super::functions::SavedFunctions,
    databases: super::databases::SavedDatabases,
    slack: Mutex<SlackGauge>,
    /// When free memory was last given back, and whether there was work since.
    gave_back_at_ms: i64,
    may_give_back: bool,
}

/// Snapshots of one shard.
type Batch = Vec<(usize, Taken)>;

/// Why a round ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RoundError {
    #[error(transparent)]
    Cold(#[from] ColdError),
    #[error(transparent)]
    Log(#[from] nagaya_wal::LogError),
    #[error(transparent)]
    Lost(#[from] Lost),
}

impl Saver {
    pub(crate) fn new(
        shared: Arc<Shared>,
        log: Arc<Log>,
        signal: Arc<Signal>,
        ground: Ground,
        rules: Rules,
    ) -> Saver {
        Saver {
            shared,
            log,
            signal,
            ground,
            rules,
            idle_at: WalkPlace::default(),
            purged_at_ms: 0,
            empty_from: 0,
            functions: super::functions::SavedFunctions::default(),
            databases: super::databases::SavedDatabases::default(),
            slack: Mutex::default(),
            gave_back_at_ms: 0,
            may_give_back: true,
        }
    }

    /// Saves until the end is requested, then once more.
    pub(crate) fn run(&mut self) {
        // Threads that serve clients come first. Without the permission for it, the saver runs as they do.
        rustix::process::setpriority_process(None, NICE).ok();
        loop {
            let woken = self.signal.wait(CHECK_EVERY);
            self.heal();
            if woken != Woken::TimeIsUp || self.is_due() {
                self.may_give_back = true;
                let result = self.round();
                self.note_health(&result);
                self.release_log();
                if let Err(error) = result {
                    tracing::error!(error = &error as &dyn std::error::Error, "saving failed");
                    self.signal.wait_for_end(RETRY_AFTER);
                    // Requests that wait for this save must not wait for a retry.
                    self.tiering().wake_waiting();
                }
            }
            if woken == Woken::End {
                return;
            }
            self.note_memory();
            self.bound_log();
            self.relieve_memory();
            self.evict_idle();
            self.purge();
            self.give_back();
        }
    }

    fn is_due(&self) -> bool {
        let now_ms = self.shared.server.clock.unix_us() / 1000;
        let due_ms = (self.rules.max_staleness * 3 / 4).as_millis() as i64;
        let oldest = self.shared.server.keyspace.changed_since_ms();
        oldest.is_some_and(|since_ms| now_ms - since_ms >= due_ms)
            || self.log.bytes_on_disk() > self.rules.log_bytes_max
            || self.tiering().flush_pending().is_some()
            || self.has_many_ghosts()
            // The latest round has failed: whether the next one does is what readiness waits for.
            || self.shared.failure.lock().is_some()
    }

    /// Returns whether keys that a policy has removed still take much of the memory that is to hold others.
    fn has_many_ghosts(&self) -> bool {
        /// The part of `maxmemory` that is much: one in this many.
        const MUCH: u64 = 32;
        let keyspace = &self.shared.server.keyspace;
        let maxmemory = self.shared.server.config().maxmemory;
        keyspace.memory.removes_keys() && maxmemory > 0 && keyspace.ghost_bytes() as u64 > maxmemory / MUCH
    }

    /// Saves everything that has changed.
    pub(crate) fn round(&mut self) -> Result<(), RoundError> {
        let shared = Arc::clone(&self.shared);
        let server = &shared.server;
        let Some(tiering) = server.keyspace.tiering.get() else {
            return Ok(());
        };
        let end = tiering.log_end();
        tiering.set_saving(true);
        let mut result = self
            .functions
            .save(server, tiering, end)
            .map_err(RoundError::from);
        result = result.and(self.databases.save(server, tiering, &self.log));
        let mut batch = Batch::new();
        let mut bytes = 0;
        let commit_bytes = commit_bytes(server.config().maxmemory);
        let shards = server.keyspace.shards.count();
        let spaces = server.keyspace.databases.spaces();
        let parts = spaces.flat_map(|space| (0..shards).map(move |shard| (shard, space)));
        for (shard, space) in parts {
            let (names, since_ms) = server.keyspace.take_changed(shard, space);
            since_ms.inspect(|since_ms| tiering.note_saving_since(*since_ms));
            let mut names = names.iter();
            loop {
                let mut taken = Taken::default();
                let done =
                    server
                        .keyspace
                        .snapshot((shard, space), &mut names, commit_bytes - bytes, &mut taken);
                bytes += taken.bytes;
                batch.push((shard, taken));
                server.keyspace.memory.note_saving(bytes);
                if bytes >= commit_bytes {
                    result = result.and(self.commit(tiering, std::mem::take(&mut batch)));
                    bytes = 0;
                }
                if done {
                    break;
                }
            }
        }
        result = result.and(self.commit(tiering, batch));
        server.keyspace.memory.note_saving(0);
        tiering.set_saving(false);
        result?;
        // What the cold tier has confirmed counts only if it is where the next start looks for it.
        self.ground.check()?;
        if end > tiering.checkpoint() {
            tiering.cold.set_fact(CHECKPOINT, &end.to_le_bytes())?;
        }
        tiering.reached(end, server.clock.unix_us() / 1000);
        Ok(())
    }

    /// Removes the part of the log that the checkpoint makes unnecessary.
    fn release_log(&self) {
        if let Err(error) = self.log.release(Position(self.tiering().checkpoint())) {
            tracing::warn!(%error, "a log segment stays");
        }
    }

    /// Commits snapshots of several shards together.
    fn commit(&self, tiering: &Tiering, mut batch: Batch) -> Result<(), RoundError> {
        let server = &self.shared.server;
        while let Some(flush) = tiering.flush_pending() {
            if let Err(error) = tiering.wipe(&flush) {
                let taken = batch.iter();
                taken.for_each(|(shard, taken)| server.keyspace.not_saved(*shard, &taken.snapshots));
                return Err(error.into());
            }
            // The snapshots were taken before a FLUSHALL or FLUSHDB, which has removed their keys.
            let is_gone = |snapshot: &Snapshot| flush.covers(split_name(&snapshot.tag).0, snapshot.version);
            for (_, taken) in &mut batch {
                taken.snapshots.retain(|snapshot| !is_gone(snapshot));
            }
        }
        let mut shards = Vec::new();
        let mut snapshots = Vec::new();
        for (shard, taken) in batch {
            if !taken.snapshots.is_empty() {
                shards.push((shard, taken.snapshots.len()));
                snapshots.extend(taken.snapshots);
            }
        }
        if snapshots.is_empty() {
            return Ok(());
        }
        let result = self.write(tiering, &snapshots);
        self.note_memory();
        let mut rest = snapshots.as_slice();
        for (shard, count) in shards {
            let (of_shard, after) = rest.split_at(count);
            rest = after;
            match &result {
                Ok(()) => server.keyspace.saved(shard, of_shard),
                Err(_) => server.keyspace.not_saved(shard, of_shard),
            }
        }
        // Requests that wait for memory need not wait for the rest of the round.
        self.relieve_memory();
        result
    }

    fn write(&self, tiering: &Tiering, snapshots: &[Snapshot]) -> Result<(), RoundError> {
        self.ground.check()?;
        let newest = snapshots.iter().map(|snapshot| snapshot.version.snap).max();
        self.log.sync(Position(newest.unwrap_or(0)))?;
        let now_ms = self.shared.server.clock.unix_us() / 1000;
        let new = snapshots.iter().map(|snapshot| snapshot.tag.as_slice());
        let new: Vec<&[u8]> = new.filter(|tag| !tiering.may_be_saved(tag)).collect();
        if !new.is_empty() {
            tiering.cold.ensure(&new)?;
        }
        let committed = tiering.cold.commit(snapshots, now_ms)?;
        let refused = snapshots.iter().zip(committed);
        let refused: Vec<Snapshot> = refused
            .filter(|(_, committed)| *committed == Committed::Refused)
            .map(|(snapshot, _)| snapshot.clone())
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        // The filter took a new tag for an old one; or only a cached count has changed since the
        // last snapshot, and that is refused again, rightly.
        let tags: Vec<&[u8]> = refused.iter().map(|snapshot| snapshot.tag.as_slice()).collect();
        tiering.cold.ensure(&tags)?;
        tiering.cold.commit(&refused, now_ms)?;
        Ok(())
    }

    /// Evicts saved tags while memory is short, and resumes the requests that wait for it.
    fn relieve_memory(&self) {
        let server = &self.shared.server;
        server.keyspace.evict_until_enough(server.config().maxmemory);
        self.tiering().wake_starved();
    }

    /// Bounds the memory of the log by the setting in force: a small room must not have a large log beside it.
    fn bound_log(&self) {
        let maxmemory = self.shared.server.config().maxmemory;
        self.log.set_buffer_bytes_max(log_bytes(maxmemory));
    }

    /// Measures the memory that the room holds beyond what it has allocated.
    fn note_memory(&self) {
        let server = &self.shared.server;
        if server.config().maxmemory > 0 {
            let look = MemoryLook {
                resident: resident_bytes(),
                used: used_bytes(),
                used_by_room: server.keyspace.memory.used_and_peak().0,
            };
            let slack = self.slack.lock().note(look);
            self.tiering().note_slack(slack as u64);
        }
    }

    /// Examines some keys and evicts tags that were not used for long.
    fn evict_idle(&mut self) {
        const STEPS: usize = 1_000;
        if self.rules.idle_after.is_zero() {
            return;
        }
        let server = &self.shared.server;
        let now_s = server.clock.unix_us() / 1_000_000;
        let since_s = now_s.saturating_sub_unsigned(self.rules.idle_after.as_secs());
        let Ok(since_s) = u32::try_from(since_s) else {
            return;
        };
        let mut at = self.idle_at;
        for _ in 0..STEPS {
            let part = (at.shard, at.space);
            at.cursor = server.keyspace.evict_idle(part, at.cursor, since_s);
            if at.cursor != 0 {
                continue;
            }
            at.shard = (at.shard + 1) % server.keyspace.shards.count();
            if at.shard == 0 {
                at.space = (at.space + 1) % server.keyspace.databases.spaces().len();
                if at.space == 0 {
                    break;
                }
            }
        }
        self.idle_at = at;
    }

    /// Gives memory back that rounds have left behind.
    fn give_back(&mut self) {
        let now_ms = self.shared.server.clock.unix_us() / 1000;
        if self.may_give_back && (now_ms - self.gave_back_at_ms).abs() >= GIVE_BACK_EVERY_MS {
            self.gave_back_at_ms = now_ms;
            self.may_give_back = false;
            give_back();
        }
    }

    /// Removes rows of the cold tier that have expired.
    fn purge(&mut self) {
        let now_ms = self.shared.server.clock.unix_us() / 1000;
        if now_ms - self.purged_at_ms < PURGE_EVERY_MS {
            return;
        }
        self.purged_at_ms = now_ms;
        let before_ms = now_ms - EXPIRED_MARGIN_MS;
        // A row may look expired because the change of its expiry is not saved yet.
        if self.tiering().saved_at_ms() < before_ms {
            return;
        }
        match self.purge_rows(before_ms, now_ms) {
            // The limit was reached: there may be more.
            Ok(removed) if removed >= PURGE_ROWS => self.purged_at_ms = 0,
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "expired rows stay in the cold tier"),
        }
    }

    /// Removes some obsolete rows. One process and its log decide what is newer, so tombstones are obsolete
    /// once they are written, and empty tags once the log begins after them.
    fn purge_rows(&mut self, expired_before_ms: i64, now_ms: i64) -> Result<usize, ColdError> {
        let shared = Arc::clone(&self.shared);
        let Some(tiering) = shared.server.keyspace.tiering.get() else {
            return Ok(0);
        };
        let tell = &mut |tag: &[u8], keys| tiering.note_purged(tag, keys);
        let removed = tiering
            .cold
            .purge_telling(expired_before_ms, now_ms, PURGE_ROWS, tell)?;
        let checkpoint = Version {
            generation: GENERATION,
            snap: tiering.checkpoint(),
        };
        let (_, next) = tiering
            .cold
            .forget_empty(checkpoint, self.empty_from, PURGE_ROWS)?;
        self.empty_from = next;
        Ok(removed)
    }

    /// Tries to repair a failed log. Writes are accepted again only once everything is saved that was
    /// executed without being logged. A lost data folder does not heal.
    fn heal(&mut self) {
        let server = &self.shared.server;
        if self.ground.check().is_err() {
            return;
        }
        if let nagaya_wal::State::Failed(failure) = self.log.state() {
            server.fail_journal(JournalError {
                reason: failure.to_string(),
            });
            if self.log.try_heal().is_err() {
                return;
            }
        }
        if server.journal_failure().is_some() && self.round().is_ok() {
            self.shared.server.journal_works_again();
            tracing::info!("the write-ahead log works again, writes are taken");
        }
    }

    /// Publishes the reason of a failure for readiness and status.
    fn note_health(&self, result: &Result<(), RoundError>) {
        let failure = result.as_ref().err().map(ToString::to_string);
        *self.shared.failure.lock() = failure;
    }

    fn tiering(&self) -> &Tiering {
        let tiering = self.shared.server.keyspace.tiering.get();
        tiering.expect("the saver starts with a cold tier")
    }
}

/// Returns how many bytes of snapshots are committed in one transaction.
fn commit_bytes(maxmemory: u64) -> usize {
    match maxmemory {
        0 => COMMIT_BYTES,
        _ => usize::try_from(maxmemory / 32)
            .map_or(COMMIT_BYTES, |part| part.clamp(COMMIT_BYTES_MIN, COMMIT_BYTES)),
    }
}

/// Returns how much memory the log's unconfirmed records may take.
pub(super) fn log_bytes(maxmemory: u64) -> u64 {
    match maxmemory {
        0 => LOG_BYTES_MAX,
        _ => (maxmemory / 8).clamp(LOG_BYTES_MIN, LOG_BYTES_MAX),
    }
}
