//! The cold tier behind an engine, and what is known about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc;

use nagaya_connections::client::{Client, Message};
use nagaya_connections::cold_query::NumberedQuery;
use nagaya_tiering::cold::{ColdError, ColdTier, Totals, Version};
use nagaya_tiering::filter::{Existence, Filter};
use parking_lot::Mutex;

use crate::databases::{DATABASES_MAX, names_of, split_name};
use crate::residency::cursors::Cursors;

/// A tag to be read from the cold tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadOrder {
    /// The tag's name in the cold tier.
    pub tag: Box<[u8]>,
    pub shard: usize,
    /// Names this load: what another one has read must not be installed.
    pub(crate) token: u64,
}

/// The generation of every residency: one process owns the cold tier, so nothing has to tell them apart.
pub const GENERATION: u64 = 1;

/// Returns the end of the write-ahead log.
pub type LogEnd = Box<dyn Fn() -> u64 + Send + Sync>;

/// A request to the threads that read the cold tier.
pub enum ColdRequest {
    Load(LoadOrder),
    /// A query of a client.
    Ask(NumberedQuery, Arc<Client>),
    /// The thread that receives this ends.
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
    /// What is known of each space.
    pub(super) spaces: Box<[ColdSpace]>,
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
    /// Clients that wait for memory, and those that wait for the next save to end.
    pub(super) starved: Mutex<Vec<Arc<Client>>>,
    pub(super) wait_for_save: Mutex<Vec<Arc<Client>>>,
    /// Everything up to this position of the log is in the cold tier.
    pub(super) checkpoint: AtomicU64,
    pub cursors: Cursors,
    /// Wakes the saver when memory runs out.
    pub save_soon: Box<dyn Fn() + Send + Sync>,
    /// Keys whose names begin with one of these never leave memory.
    pub pinned: Vec<Vec<u8>>,
    /// Keys without braces are refused.
    pub require_hash_tag: bool,
    pub counters: Counters,
}

/// What is known of the keys of one space in the cold tier.
#[derive(Default)]
pub(super) struct ColdSpace {
    /// Keys that are in the cold tier and not in memory.
    pub(super) keys: AtomicI64,
    /// As [`Tiering::flushed_at`] and [`Tiering::wiped_at`], for FLUSHDB of this space.
    flushed_at: AtomicU64,
    wiped_at: AtomicU64,
}

/// What the cold tier has yet to forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// The only space that it is about; nothing for all of them.
    pub space: Option<usize>,
    /// What was saved later stays.
    pub up_to: Version,
}

impl Flush {
    /// Returns whether what was saved of a space with a version is to be forgotten.
    pub fn covers(&self, space: usize, saved: Version) -> bool {
        self.space.is_none_or(|own| own == space) && saved <= self.up_to
    }
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
        let spaces: Box<[ColdSpace]> = (0..DATABASES_MAX).map(|_| ColdSpace::default()).collect();
        spaces[0].keys.store(totals.keys as i64, Ordering::Relaxed);
        Tiering {
            cold,
            log_end,
            filter: Filter::with_room_for(totals.tags as usize),
            filter_is_whole: AtomicBool::new(totals.tags == 0),
            any_cold: AtomicBool::new(totals.keys > 0),
            spaces,
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

    /// Returns whether anything may be in the cold tier and not in memory.
    #[inline]
    pub fn is_any_cold(&self) -> bool {
        self.any_cold.load(Ordering::Relaxed)
    }

    /// Ends the threads that read the cold tier, `readers` of them.
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
        (0..self.spaces.len()).map(|space| self.cold_keys_of(space)).sum()
    }

    /// Returns how many keys of a space are in the cold tier and not in memory.
    pub fn cold_keys_of(&self, space: usize) -> u64 {
        self.spaces[space].keys.load(Ordering::Relaxed).max(0) as u64
    }

    /// Notes how many keys of each space are in the cold tier and not in memory.
    pub fn set_cold_keys(&self, keys_of_spaces: &[u64]) {
        for (space, keys) in self.spaces.iter().zip(keys_of_spaces) {
            space.keys.store(*keys as i64, Ordering::Relaxed);
        }
    }

    /// Notes that the cold tier has dropped expired keys of a tag, which were not in memory.
    pub fn note_purged(&self, name: &[u8], keys: u64) {
        let (space, _) = split_name(name);
        self.spaces[space].keys.fetch_sub(keys as i64, Ordering::Relaxed);
    }

    /// Notes the name of a tag that the cold tier has.
    pub fn note_cold_tag(&self, tag: &[u8]) {
        self.filter.insert(tag);
    }

    /// Notes that the filter has every tag of the cold tier.
    pub fn filter_is_whole(&self) {
        self.filter_is_whole.store(true, Ordering::Release);
    }

    /// Returns whether the cold tier may have a tag.
    #[inline]
    pub fn may_be_cold(&self, tag: &[u8]) -> bool {
        self.is_any_cold() && (!self.filter_is_whole.load(Ordering::Acquire) || self.may_be_saved(tag))
    }

    /// Returns whether the cold tier may have a row of a tag. Until the filter is whole, it says so of all.
    pub fn may_be_saved(&self, tag: &[u8]) -> bool {
        self.filter.ask(tag) == Existence::Maybe
    }

    /// Returns the position of the log's end.
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
        for space in &self.spaces {
            space.keys.store(0, Ordering::Relaxed);
        }
        self.flushed_at.store((self.log_end)().max(1), Ordering::Release);
    }

    /// Notes that everything of a space is gone. The caller holds every shard and has logged it.
    pub fn space_flushed(&self, space: usize) {
        let space = &self.spaces[space];
        space.keys.store(0, Ordering::Relaxed);
        space.flushed_at.store((self.log_end)().max(1), Ordering::Release);
    }

    /// Returns whether what was saved of a space with a version is from before its latest FLUSHDB or FLUSHALL.
    pub fn is_void(&self, space: usize, saved: Version) -> bool {
        let of_space = self.spaces[space].flushed_at.load(Ordering::Acquire);
        saved.snap <= self.flushed_at.load(Ordering::Acquire).max(of_space)
    }

    /// Returns whether the cold tier has yet to forget a space that was flushed. All that it has of the space is void
    /// then: it forgets before anything is saved again.
    pub fn is_flush_pending(&self, space: usize) -> bool {
        let space = &self.spaces[space];
        space.flushed_at.load(Ordering::Acquire) > space.wiped_at.load(Ordering::Acquire)
    }

    /// Returns what the cold tier is to forget next, if there was a FLUSHALL or FLUSHDB.
    pub fn flush_pending(&self) -> Option<Flush> {
        let pending = |flushed: &AtomicU64, wiped: &AtomicU64, space| {
            let snap = flushed.load(Ordering::Acquire);
            (snap > wiped.load(Ordering::Acquire)).then_some(Flush {
                space,
                up_to: Version {
                    generation: GENERATION,
                    snap,
                },
            })
        };
        let mut spaces = self.spaces.iter().enumerate();
        pending(&self.flushed_at, &self.wiped_at, None)
            .or_else(|| spaces.find_map(|(at, space)| pending(&space.flushed_at, &space.wiped_at, Some(at))))
    }

    /// Makes the cold tier forget something, and notes that it has.
    pub fn wipe(&self, flush: &Flush) -> Result<(), ColdError> {
        match flush.space {
            None => self.cold.wipe(flush.up_to)?,
            Some(space) => self.cold.wipe_some(&names_of(space), flush.up_to)?,
        }
        let wiped_at = match flush.space {
            None => &self.wiped_at,
            Some(space) => &self.spaces[space].wiped_at,
        };
        wiped_at.store(flush.up_to.snap, Ordering::Release);
        Ok(())
    }

    /// Notes how many keys of each space a wiped cold tier still has, while nothing of what was flushed is in
    /// memory: a flush that is replayed leaves what was saved after it.
    pub fn wiped_to(&self, flush: &Flush, left: Totals, keys_of_spaces: &[u64]) {
        self.any_cold.store(left.keys > 0, Ordering::Release);
        match flush.space {
            None => {
                self.filter_is_whole.store(left.tags == 0, Ordering::Release);
                self.set_cold_keys(keys_of_spaces);
            }
            Some(space) => {
                let keys = keys_of_spaces.get(space).copied().unwrap_or(0);
                self.spaces[space].keys.store(keys as i64, Ordering::Relaxed);
            }
        }
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

    /// Lets a client wait until the next save has ended.
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

    /// Notes that the cold tier has everything up to a position, and resumes the requests that wait for that.
    pub fn reached(&self, position: u64, now_ms: i64) {
        self.checkpoint.fetch_max(position, Ordering::AcqRel);
        self.saved_at_ms.store(now_ms, Ordering::Release);
        self.wake_waiting();
    }

    /// Resumes the requests that wait for a save.
    pub fn wake_waiting(&self) {
        let waiting = std::mem::take(&mut *self.wait_for_save.lock());
        for client in waiting {
            client.deliver(Message::Resume(None));
        }
    }

    /// Resumes the requests that wait for memory.
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
