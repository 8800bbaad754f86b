//! Saved tags leave memory.

use std::sync::atomic::Ordering;

use nagaya_store::entry::{Entry, SyncFlags};
use nagaya_store::hasher::hash_bytes;
use nagaya_store::key_table::KeyTable;
use nagaya_store::rng::with_thread_rng;
use nagaya_store::table::Keyed;

use crate::databases::split_name;
use crate::db::Db;
use crate::hash_tag::hash_tag;
use crate::keyspace::{FREE_EFFORT_MAX, Keyspace};
use crate::reclaim::Reclaimable;
use crate::residency::save::is_key_of;
use crate::residency::shard::ShardResidency;
use crate::residency::tiering::Tiering;
use crate::shard::{Shard, ShardSpaces};

/// Keys looked at to find the coldest of them.
const SAMPLE: usize = 16;
/// The fraction of `maxmemory` that is kept free, so that writes before the next check still fit: one
/// part in this many.
const HEADROOM: u64 = 16;
/// Slack that does not count, and the most that does: one part in this many of `maxmemory`.
const SLACK_FREE: u64 = 5;
const SLACK_MAX: u64 = 4;
/// Tags that one call takes out of memory at most.
const TAGS_PER_CALL_MAX: usize = 1000;

/// Why a tag cannot leave memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionBlocker {
    /// It is not in memory.
    NotResident,
    /// The cold tier lacks changes of it.
    Unsaved,
    /// The settings keep it in memory.
    Pinned,
}

/// What memory has of a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Memory is the truth about it.
    pub resident: bool,
    pub keys: usize,
    /// Keys that have changed since they were last saved, lost ones included.
    pub unsaved: usize,
    /// The cold tier has everything.
    pub saved: bool,
}

/// A tag that could leave memory, and when it was last used.
struct Candidate {
    tag: Vec<u8>,
    used_s: u32,
}

impl Keyspace {
    /// Takes a tag, given its name, out of memory; returns how many keys that were.
    pub fn evict(&self, shard: usize, name: &[u8]) -> Result<usize, EvictionBlocker> {
        let tiering = self.tiering.get().ok_or(EvictionBlocker::NotResident)?;
        let (space, tag) = split_name(name);
        evict_tag(
            &mut self.shards.lock_patiently(shard, space),
            tiering,
            self,
            (space, tag),
        )
    }

    /// Returns the cold tier when tags are moved there to free memory. A policy that removes keys does so as in
    /// Redis, and the cold tier follows.
    pub fn tiering_for_memory(&self) -> Option<&Tiering> {
        let tiering = self.tiering.get()?;
        (!self.memory.removes_keys()).then_some(tiering)
    }

    /// Returns whether more memory is used than there may be.
    ///
    /// With a cold tier it is called enough a little earlier, so that what comes in before the next look
    /// still fits. What the process holds without using it counts, too: not the part that any allocator has,
    /// and no more than leaves most of the memory for data, because evicting would not bring that back.
    pub fn is_out_of_memory(&self, maxmemory: u64) -> bool {
        if maxmemory == 0 {
            return false;
        }
        let used = self.memory.counted_bytes() as u64;
        match self.tiering_for_memory() {
            None => used > maxmemory,
            Some(tiering) => {
                let slack = tiering.slack_bytes().saturating_sub(maxmemory / SLACK_FREE);
                used + slack.min(maxmemory / SLACK_MAX) > maxmemory - maxmemory / HEADROOM
            }
        }
    }

    /// Returns whether more memory is used than the settings allow.
    pub fn is_short_of_memory(&self) -> bool {
        self.is_out_of_memory(self.memory.limit_bytes())
    }

    /// Takes saved tags out of memory, colder ones rather than hotter ones, until memory suffices or no
    /// more are found.
    pub fn evict_until_enough(&self, maxmemory: u64) {
        if maxmemory == 0 || self.tiering_for_memory().is_none() {
            return;
        }
        let shards = self.shards.count();
        let mut shard = with_thread_rng(|rng| rng.below(shards));
        let mut in_vain = 0;
        for _ in 0..TAGS_PER_CALL_MAX {
            if in_vain > 2 * shards || !self.is_out_of_memory(maxmemory) {
                return;
            }
            in_vain = if self.evict_coldest(shard).is_some() {
                0
            } else {
                in_vain + 1
            };
            shard = (shard + 1) % shards;
        }
    }

    /// Returns whether changes wait for being saved.
    pub fn has_unsaved(&self) -> bool {
        self.tiering.get().is_some_and(|tiering| tiering.is_saving()) || self.changed_since_ms().is_some()
    }

    /// Takes the coldest of some random saved tags of a shard out of memory; returns how many keys that
    /// were, or nothing when none of them could go or a slow script holds the shard.
    fn evict_coldest(&self, shard: usize) -> Option<usize> {
        let tiering = self.tiering.get()?;
        let mut spaces = self.shards.lock_all_spaces(shard).ok()?;
        let space = random_space(&spaces)?;
        let shard = spaces.space_mut(space);
        let coldest = coldest(shard, tiering, u32::MAX)?;
        evict_tag(shard, tiering, self, (space, &coldest.tag)).ok()
    }

    /// Takes saved tags of a shard of a space that have not been used since `idle_since_s` out of memory, among
    /// those at `cursor`; returns where to go on.
    pub fn evict_idle(&self, (shard, space): (usize, usize), cursor: u64, idle_since_s: u32) -> u64 {
        let Some(tiering) = self.tiering.get() else {
            return 0;
        };
        let mut shard = self.shards.lock_patiently(shard, space);
        let mut idle = Vec::new();
        let next = shard.keys.scan(cursor, |entry| {
            if entry.stamp() < idle_since_s && !entry.has_flag(SyncFlags::UNSAVED.and(SyncFlags::SAVING)) {
                idle.push(hash_tag(entry.key()).to_vec());
            }
        });
        for tag in idle {
            if used_s(&shard, &tag) < idle_since_s {
                evict_tag(&mut shard, tiering, self, (space, &tag)).ok();
            }
        }
        next
    }
}

impl Keyspace {
    /// Returns about how many tags are in memory; nothing without a cold tier, where they are not counted, or
    /// while a slow script holds the shards.
    pub fn tags_in_memory(&self) -> Option<u64> {
        self.tiering.get()?;
        let counts = (0..self.shards.count()).map(|number| {
            let spaces = self.shards.lock_all_spaces(number).ok()?;
            let tags = spaces
                .every()
                .map(|shard| shard.tiers.tags(shard.keys.len()) as u64);
            Some(tags.sum::<u64>())
        });
        counts.sum()
    }

    /// Returns what memory has of a tag, given its name. The caller holds no shard.
    pub fn residency(&self, name: &[u8]) -> Residency {
        let (space, tag) = split_name(name);
        let shard = self.shards.lock_patiently(self.shards.shard_of_tag(name), space);
        residency(&shard, tag)
    }
}

impl Db<'_> {
    /// Returns the names of a tag's keys that are in memory.
    pub fn keys_of_tag(&self, tag: &[u8]) -> Vec<Vec<u8>> {
        let shard = self.held(self.data().shards.shard_of_tag(tag));
        entries(&shard.keys, &shard.tiers, tag)
            .map(|entry| entry.key().to_vec())
            .collect()
    }

    /// Returns what memory has of a tag.
    pub fn residency(&self, tag: &[u8]) -> Residency {
        residency(self.held(self.data().shards.shard_of_tag(tag)), tag)
    }
}

pub(crate) fn residency(shard: &Shard, tag: &[u8]) -> Residency {
    let record = shard.tiers.records.get(tag);
    let mut found = Residency {
        resident: shard.tiers.has_record(tag),
        saved: record.is_none_or(|record| record.is_saved()) && !shard.tiers.is_gone_unsaved(tag),
        unsaved: record.map_or(0, |record| record.gone.len()) + usize::from(shard.tiers.is_gone_unsaved(tag)),
        keys: 0,
    };
    for entry in entries(&shard.keys, &shard.tiers, tag) {
        found.resident = true;
        found.keys += 1;
        found.unsaved += usize::from(entry.has_flag(SyncFlags::UNSAVED));
        found.saved &= !entry.has_flag(SyncFlags::UNSAVED.and(SyncFlags::SAVING));
    }
    found
}

/// Picks a space at random, each as often as it has keys in a shard; nothing when none has.
fn random_space(spaces: &ShardSpaces) -> Option<usize> {
    let keys = || spaces.every().map(|shard| shard.keys.len());
    let total: usize = keys().sum();
    let mut at = with_thread_rng(|rng| rng.below(total.max(1)));
    let found = keys().position(|keys| match at.checked_sub(keys) {
        Some(rest) => {
            at = rest;
            false
        }
        None => true,
    });
    found.filter(|_| total > 0)
}

/// Picks the saved tag that was not used for the longest time, among some random ones.
fn coldest(shard: &Shard, tiering: &Tiering, used_before_s: u32) -> Option<Candidate> {
    let mut best: Option<Candidate> = None;
    with_thread_rng(|rng| {
        shard.keys.sample(rng, SAMPLE, |entry| {
            let least = best.as_ref().map_or(used_before_s, |best| best.used_s);
            if entry.stamp() >= least || entry.has_flag(SyncFlags::UNSAVED.and(SyncFlags::SAVING)) {
                return;
            }
            let tag = hash_tag(entry.key());
            let used_s = if shard.tiers.has_record(tag) {
                used_s(shard, tag)
            } else {
                entry.stamp()
            };
            if used_s < least && can_go(shard, tiering, tag).is_ok() {
                best = Some(Candidate {
                    tag: tag.to_vec(),
                    used_s,
                });
            }
        });
    });
    best
}

/// Returns when a tag was last used, in Unix seconds.
fn used_s(shard: &Shard, tag: &[u8]) -> u32 {
    entries(&shard.keys, &shard.tiers, tag)
        .map(Entry::stamp)
        .max()
        .unwrap_or(0)
}

/// Returns the keys of a tag that are in memory.
pub(crate) fn entries<'s>(
    keys: &'s KeyTable,
    tiers: &'s ShardResidency,
    tag: &'s [u8],
) -> impl Iterator<Item = &'s Entry> {
    let own = (hash_tag(tag).len() == tag.len())
        .then(|| keys.get(hash_bytes(tag), tag))
        .flatten();
    let braced = tiers
        .records
        .get(tag)
        .into_iter()
        .flat_map(|record| record.keys.iter());
    let braced = braced.filter_map(move |hash| keys.get_with(hash, |entry| is_key_of(entry, tag, hash)));
    own.into_iter().chain(braced)
}

fn can_go(shard: &Shard, tiering: &Tiering, tag: &[u8]) -> Result<(), EvictionBlocker> {
    let record = shard.tiers.records.get(tag);
    if record.is_some_and(|record| !record.is_saved()) || shard.tiers.is_gone_unsaved(tag) {
        return Err(EvictionBlocker::Unsaved);
    }
    let mut any = shard.tiers.has_record(tag);
    for entry in entries(&shard.keys, &shard.tiers, tag) {
        any = true;
        if entry.has_flag(SyncFlags::UNSAVED.and(SyncFlags::SAVING)) {
            return Err(EvictionBlocker::Unsaved);
        }
        if tiering.name_is_pinned(entry.key()) {
            return Err(EvictionBlocker::Pinned);
        }
    }
    if any {
        Ok(())
    } else {
        Err(EvictionBlocker::NotResident)
    }
}

fn evict_tag(
    shard: &mut Shard,
    tiering: &Tiering,
    data: &Keyspace,
    (space, tag): (usize, &[u8]),
) -> Result<usize, EvictionBlocker> {
    can_go(shard, tiering, tag)?;
    let Shard { keys, tiers, .. } = shard;
    let mut removed = 0;
    let mut discard = |entry: Option<Entry>| {
        let Some(entry) = entry else { return };
        removed += 1;
        if entry.free_effort() > FREE_EFFORT_MAX {
            data.reclaim_uncounted(Reclaimable::Entry(entry));
        }
    };
    if hash_tag(tag).len() == tag.len() {
        discard(keys.remove(hash_bytes(tag), tag));
    }
    if let Some(record) = tiers.take_record(tag) {
        for hash in record.keys.iter() {
            discard(keys.remove_with(hash, |entry| is_key_of(entry, tag, hash)));
        }
    }
    if removed > 0 {
        tiering.any_cold.store(true, Ordering::Release);
        let cold = &tiering.spaces[space];
        cold.keys.fetch_add(removed as i64, Ordering::Relaxed);
        tiering.counters.evicted_tags.fetch_add(1, Ordering::Relaxed);
        tiering
            .counters
            .evicted_keys
            .fetch_add(removed as u64, Ordering::Relaxed);
    }
    Ok(removed)
}
