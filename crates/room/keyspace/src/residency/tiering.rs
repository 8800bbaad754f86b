//! The cold tier behind an engine, and what is known about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc;

use nagaya_connections::client::{Client, Message};
use nagaya_connections::cold_query::NumberedQuery;
use nagaya_tiering::cold::{ColdTier, Totals, Version};
use nagaya_tiering::filter::{Existence, Filter};
use parking_lot::Mutex;

use crate::residency::cursors::Cursors;

/// A tag to be read from the cold tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadOrder {
    pub tag: Box<[u8]>,
    pub shard: usize,
    /// Names this load: what another one has read must not be installed.
    pub(crate) token: u64,
}

/// The generation of every residency: one process owns the cold tier, so nothing has to tell them apart.
pub const GENERATION: u64 = 1;

/// Tells how far the write-ahead log has got.
pub type LogEnd = Box<dyn Fn() -> u64 + Send + Sync>;

/// Something for those who read the cold tier.
pub enum ColdRequest {
    Load(LoadOrder),
    /// A question of a client.
    Ask(NumberedQuery, Arc<Client>),
    /// Whoever takes this takes no more.
    End,
}

/// The cold tier behind an engine, and what is known about it.
pub struct Tiering {
    pub cold: Arc<dyn ColdTier>,
    pub(super) log_end: LogEnd,
    /// Tags that the cold tier may have; a tag that is not in it is surely not there.
    pub(super) filter: Filter,
    /// Every tag of the cold tier is in the filter. Until then it is asked about all of them.
    pub(super) filter_is_whole: AtomicBool,
    /// Something may be in the cold tier and not in memory.
    pub(super) any_cold: AtomicBool,
    /// Keys that are in the cold tier and not in memory.
    pub(super) cold_keys: AtomicI64,
    pub(super) loads: mpsc::Sender<ColdRequest>,
    pub(super) next_token: AtomicU64,
    /// The log's position at the latest FLUSHALL, and at the latest that the cold tier has followed.
    /// What was saved before the former does not exist any more.
    pub(super) flushed_at: AtomicU64,
    pub(super) wiped_at: AtomicU64,
    /// Snapshots are on their way to the cold tier.
    pub(super) saving: AtomicBool,
    /// Since when the oldest change in them has waited, in Unix milliseconds; 0 when there is none.
    pub(super) saving_since_ms: AtomicI64,
    /// When the cold tier last had everything, in Unix milliseconds.
    pub(super) saved_at_ms: AtomicI64,
    /// Memory that the process holds and nothing of ours uses: the allocator's gaps, caches of libraries.
    pub(super) slack_bytes: AtomicU64,
    /// Clients that wait for memory, and for the saver to have gone round.
    pub(super) starved: Mutex<Vec<Arc<Client>>>,
    pub(super) wait_for_save: Mutex<Vec<Arc<Client>>>,
    /// Everything up to this position of the log is in the cold tier.
    pub(super) checkpoint: AtomicU64,
    pub cursors: Cursors,
    /// Wakes whoever saves, when memory runs out.
    pub save_soon: Box<dyn Fn() + Send + Sync>,
    /// Keys whose names begin with one of these never leave memory.
    pub pinned: Vec<Vec<u8>>,
    /// Keys without braces are refused.
    pub require_hash_tag: bool,
    pub counters: Counters,
}

/// What has happened so far.
#[derive(Default)]
pub struct Counters {
    /// Commands that found their tags in memory or nowhere.
    pub loads: AtomicU64,
    pub loads_failed: AtomicU64,
    pub load_keys: AtomicU64,
    pub evicted_tags: AtomicU64,
    pub evicted_keys: AtomicU64,
    pub saved_tags: AtomicU64,
    pub saved_keys: AtomicU64,
    /// Requests that had to wait for a load.
    pub waits: AtomicU64,
    /// How long loads took: their number up to each of [`LOAD_BOUNDS_US`], each without the ones before,
    /// and beyond; and the sum.
    pub load_times: [AtomicU64; LOAD_BOUNDS_US.len() + 1],
    pub load_us: AtomicU64,
}

/// Upper bounds of the times that loads are counted by, in microseconds.
pub const LOAD_BOUNDS_US: [u64; 10] = [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000];

impl Tiering {
    /// Puts a cold tier behind an engine. `totals` says how much it has; the filter is empty until
    /// [`Tiering::filter_is_whole`] says otherwise.
    pub fn new(
        cold: Arc<dyn ColdTier>,
        log_end: LogEnd,
        loads: mpsc::Sender<ColdRequest>,
        totals: Totals,
        save_soon: Box<dyn Fn() + Send + Sync>,
    ) -> Tiering {
        Tiering {
            cold,
            log_end,
            filter: Filter::with_room_for(totals.tags as usize),
            filter_is_whole: AtomicBool::new(totals.tags == 0),
            any_cold: AtomicBool::new(totals.keys > 0),
            cold_keys: AtomicI64::new(totals.keys as i64),
            loads,
            next_token: AtomicU64::new(1),
            flushed_at: AtomicU64::new(0),
            wiped_at: AtomicU64::new(0),
            slack_bytes: AtomicU64::new(0),
            saving: AtomicBool::new(false),
            saving_since_ms: AtomicI64::new(0),
            saved_at_ms: AtomicI64::new(0),
            starved: Mutex::default(),
            wait_for_save: Mutex::default(),
            checkpoint: AtomicU64::new(0),
            cursors: Cursors::default(),
            save_soon,
            pinned: Vec::new(),
            require_hash_tag: false,
            counters: Counters::default(),
        }
    }

    /// Tells whether anything may be in the cold tier and not in memory.
    #[inline]
    pub fn is_any_cold(&self) -> bool {
        self.any_cold.load(Ordering::Relaxed)
    }

    /// Tells those who read the cold tier that they are done, `readers` of them.
    pub fn end_loads(&self, readers: usize) {
        (0..readers).for_each(|_| {
            self.loads.send(ColdRequest::End).ok();
        });
    }

    /// Notes how long it took to load some tags together.
    pub fn note_load_time(&self, tags: usize, spent_us: u64) {
        let bucket = LOAD_BOUNDS_US.partition_point(|&bound| bound < spent_us);
        let tags = tags as u64;
        self.counters.load_times[bucket].fetch_add(tags, Ordering::Relaxed);
        self.counters
            .load_us
            .fetch_add(spent_us * tags, Ordering::Relaxed);
    }

    /// Returns how many keys are in the cold tier and not in memory.
    pub fn cold_keys(&self) -> u64 {
        self.cold_keys.load(Ordering::Relaxed).max(0) as u64
    }

    /// Notes that the cold tier has dropped expired keys, which were not in memory.
    pub fn note_purged(&self, keys: u64) {
        self.cold_keys.fetch_sub(keys as i64, Ordering::Relaxed);
    }

    /// Notes a tag that the cold tier has.
    pub fn note_cold_tag(&self, tag: &[u8]) {
        self.filter.insert(tag);
    }

    /// Says that every tag of the cold tier has been noted.
    pub fn filter_is_whole(&self) {
        self.filter_is_whole.store(true, Ordering::Release);
    }

    /// Tells whether the cold tier may have a tag.
    #[inline]
    pub fn may_be_cold(&self, tag: &[u8]) -> bool {
        self.is_any_cold() && (!self.filter_is_whole.load(Ordering::Acquire) || self.may_be_saved(tag))
    }

    /// Tells whether the cold tier may have a row of a tag. Until the filter is whole, it says so of all.
    pub fn may_be_saved(&self, tag: &[u8]) -> bool {
        self.filter.ask(tag) == Existence::Maybe
    }

    /// Returns how far the log has got.
    pub fn log_end(&self) -> u64 {
        (self.log_end)()
    }

    /// Returns the version of a snapshot taken now. The caller holds the shard.
    pub(super) fn version(&self) -> Version {
        Version {
            generation: GENERATION,
            snap: (self.log_end)(),
        }
    }

    /// Notes that everything is gone. The caller holds every shard and has logged it.
    pub fn flushed(&self) {
        let Ok(()) = self.filter.rebuild::<std::convert::Infallible>(0, []);
        self.filter_is_whole.store(true, Ordering::Release);
        self.any_cold.store(false, Ordering::Release);
        self.cold_keys.store(0, Ordering::Relaxed);
        self.flushed_at.store((self.log_end)().max(1), Ordering::Release);
    }

    /// Tells whether what was saved with a version is from before the latest FLUSHALL.
    pub fn is_void(&self, saved: Version) -> bool {
        saved.snap <= self.flushed_at.load(Ordering::Acquire)
    }

    /// Returns the version up to which the cold tier is to be wiped, if there was a FLUSHALL.
    pub fn flush_pending(&self) -> Option<Version> {
        let snap = self.flushed_at.load(Ordering::Acquire);
        (snap > self.wiped_at.load(Ordering::Acquire)).then_some(Version {
            generation: GENERATION,
            snap,
        })
    }

    /// Notes that the cold tier has been wiped.
    pub fn flush_done(&self, up_to: Version) {
        self.wiped_at.store(up_to.snap, Ordering::Release);
    }

    /// Notes what a wiped cold tier still has, while nothing is in memory: a FLUSHALL that is replayed leaves
    /// what was saved after it.
    pub fn wiped_to(&self, left: Totals) {
        self.filter_is_whole.store(left.tags == 0, Ordering::Release);
        self.any_cold.store(left.keys > 0, Ordering::Release);
        self.cold_keys.store(left.keys as i64, Ordering::Relaxed);
    }

    /// Notes how much memory the process holds beyond what is allocated.
    pub fn note_slack(&self, bytes: u64) {
        self.slack_bytes.store(bytes, Ordering::Relaxed);
    }

    pub fn slack_bytes(&self) -> u64 {
        self.slack_bytes.load(Ordering::Relaxed)
    }

    /// Notes whether snapshots are on their way.
    pub fn set_saving(&self, saving: bool) {
        self.saving.store(saving, Ordering::Release);
        self.saving_since_ms.store(0, Ordering::Release);
    }

    /// Notes since when changes wait that were just taken.
    pub fn note_saving_since(&self, since_ms: i64) {
        let known_ms = self.saving_since_ms.load(Ordering::Acquire);
        if known_ms == 0 || since_ms < known_ms {
            self.saving_since_ms.store(since_ms, Ordering::Release);
        }
    }

    pub(super) fn is_saving(&self) -> bool {
        self.saving.load(Ordering::Acquire)
    }

    /// Lets a client wait until memory has been freed, or a moment has passed.
    pub fn wait_for_memory(&self, client: &Arc<Client>) {
        self.starved.lock().push(Arc::clone(client));
    }

    /// Lets a client wait until the saver has gone round once more.
    pub(super) fn wait_for_save(&self, client: &Arc<Client>) {
        self.wait_for_save.lock().push(Arc::clone(client));
    }

    /// Returns the position of the log up to which the cold tier has everything.
    pub fn checkpoint(&self) -> u64 {
        self.checkpoint.load(Ordering::Acquire)
    }

    /// Returns when the cold tier last had everything, in Unix milliseconds.
    pub fn saved_at_ms(&self) -> i64 {
        self.saved_at_ms.load(Ordering::Acquire)
    }

    /// Notes that the cold tier has everything up to a position, and lets those go on who wait for that.
    pub fn reached(&self, position: u64, now_ms: i64) {
        self.checkpoint.fetch_max(position, Ordering::AcqRel);
        self.saved_at_ms.store(now_ms, Ordering::Release);
        self.wake_waiting();
    }

    /// Lets those look again who wait for a save.
    pub fn wake_waiting(&self) {
        let waiting = std::mem::take(&mut *self.wait_for_save.lock());
        for client in waiting {
            client.deliver(Message::Resume(None));
        }
    }

    /// Lets those go on who wait for memory.
    pub fn wake_starved(&self) {
        let starved = std::mem::take(&mut *self.starved.lock());
        for client in starved {
            client.deliver(Message::Resume(None));
        }
    }

    pub(super) fn name_is_pinned(&self, key: &[u8]) -> bool {
        self.pinned.iter().any(|prefix| key.starts_with(prefix))
    }
}
