//! Changes go to the cold tier.
//!
//! The saver takes a shard's queue of changed tags, then snapshots them, some
//! per hold of the lock. A snapshot has **all** unsaved keys of its tag and the
//! log's position at that instant, so that after a crash exactly the records
//! behind that position are to be replayed for the tag. From then on the keys
//! are *saving* until the commit is confirmed; a change meanwhile marks them
//! unsaved again.

use std::sync::atomic::Ordering;

use nagaya_store::entry::{Entry, SyncFlags};
use nagaya_store::hasher::hash_bytes;
use nagaya_store::rdb;
use nagaya_store::table::Keyed;
use nagaya_store::value::ValueKind;
use nagaya_tiering::cold::{Change, Kind, Snapshot, StoredValue};

use crate::databases::{split_name, tag_name};
use crate::db::Db;
use crate::hash_tag::hash_tag;
use crate::keyspace::Keyspace;
use crate::residency::queue::NameQueue;
use crate::residency::tiering::Tiering;
use crate::shard::Shard;

/// Snapshots taken during one hold of a lock, at most: this many tags, and once this many bytes are there.
const TAGS_PER_HOLD: usize = 128;
const BYTES_PER_HOLD: usize = 256 << 10;

/// The memory that a changed key takes in a snapshot beside its own bytes, with that of a tag which has only one:
/// the structures, their allocations, and the room that growing lists have to spare. Of many small keys it is
/// most of what is held.
const CHANGE_OVERHEAD_BYTES: usize = 384;

/// The snapshots of some tags of one shard.
#[derive(Default)]
pub struct Taken {
    pub snapshots: Vec<Snapshot>,
    pub keys: usize,
    /// The memory that they take, about.
    pub bytes: usize,
}

impl Keyspace {
    /// Takes the tags of a shard of a space that have changed, and tells since when.
    pub fn take_changed(&self, shard: usize, space: usize) -> (NameQueue, Option<i64>) {
        let mut shard = self.shards.lock_patiently(shard, space);
        let since_ms = shard.tiers.queued_since_ms.take();
        (std::mem::take(&mut shard.tiers.queue), since_ms)
    }

    /// Returns since when the oldest unsaved change waits to be taken, in Unix milliseconds.
    pub fn changed_since_ms(&self) -> Option<i64> {
        let oldest = |shard| {
            let shard = self.shards.lock_spaces_patiently(shard);
            shard
                .every()
                .filter_map(|shard| shard.tiers.queued_since_ms)
                .min()
        };
        (0..self.shards.count()).filter_map(oldest).min()
    }

    /// Returns how much memory is taken by names of keys that are gone and that the cold tier may still have, about:
    /// saving frees it.
    pub fn ghost_bytes(&self) -> usize {
        let bytes = |shard| {
            let shard = self.shards.lock_spaces_patiently(shard);
            shard
                .every()
                .map(|shard| shard.tiers.ghost_bytes())
                .sum::<usize>()
        };
        (0..self.shards.count()).map(bytes).sum()
    }

    /// Returns how far the cold copy lags behind: the age of the oldest change that it lacks.
    pub fn staleness_ms(&self) -> i64 {
        let Some(tiering) = self.tiering.get() else {
            return 0;
        };
        tiering.staleness_ms(self.changed_since_ms(), self.clock.unix_us() / 1000)
    }

    /// Snapshots tags of a shard of a space until `bytes_max` is reached; `tags` goes on where it stopped.
    pub fn snapshot<'n>(
        &self,
        (shard, space): (usize, usize),
        tags: &mut impl Iterator<Item = &'n [u8]>,
        bytes_max: usize,
        taken: &mut Taken,
    ) -> bool {
        let Some(tiering) = self.tiering.get() else {
            return true;
        };
        while taken.bytes < bytes_max {
            let mut shard = self.shards.lock_patiently(shard, space);
            let begun_at = taken.bytes;
            for _ in 0..TAGS_PER_HOLD {
                let Some(tag) = tags.next() else { return true };
                snapshot_tag(&mut shard, tiering, (space, tag), taken);
                if taken.bytes - begun_at > BYTES_PER_HOLD {
                    break;
                }
            }
        }
        false
    }

    /// Notes that the cold tier has these snapshots.
    pub fn saved(&self, shard: usize, snapshots: &[Snapshot]) {
        let Some(tiering) = self.tiering.get() else { return };
        for some in snapshots.chunks(TAGS_PER_HOLD) {
            // In the filter before it can be evicted.
            some.iter()
                .for_each(|snapshot| tiering.note_cold_tag(&snapshot.tag));
            let mut shard = self.shards.lock_spaces_patiently(shard);
            for snapshot in some {
                let (space, tag) = split_name(&snapshot.tag);
                shard.make(space);
                confirm(shard.space_mut(space), tag, snapshot);
            }
        }
        let keys: usize = snapshots.iter().map(|snapshot| snapshot.changes.len()).sum();
        let counters = &tiering.counters;
        counters
            .saved_tags
            .fetch_add(snapshots.len() as u64, Ordering::Relaxed);
        counters.saved_keys.fetch_add(keys as u64, Ordering::Relaxed);
    }

    /// Notes that the cold tier has refused or lost these snapshots: all of it is unsaved again.
    pub fn not_saved(&self, shard: usize, snapshots: &[Snapshot]) {
        let now_ms = self.clock.unix_us() / 1000;
        for some in snapshots.chunks(TAGS_PER_HOLD) {
            let mut shard = self.shards.lock_spaces_patiently(shard);
            for snapshot in some {
                let (space, tag) = split_name(&snapshot.tag);
                shard.make(space);
                take_back(shard.space_mut(space), tag, snapshot, now_ms);
            }
        }
    }
}

impl Tiering {
    fn staleness_ms(&self, queued_since_ms: Option<i64>, now_ms: i64) -> i64 {
        let saving_ms = self.saving_since_ms.load(Ordering::Acquire);
        let saving_ms = (saving_ms > 0).then_some(saving_ms);
        let oldest_ms = saving_ms.into_iter().chain(queued_since_ms).min();
        oldest_ms.map_or(0, |oldest_ms| (now_ms - oldest_ms).max(0))
    }
}

impl Db<'_> {
    /// Like [`Keyspace::staleness_ms`], for a command that holds every shard.
    pub fn staleness_ms(&self) -> i64 {
        let queued_ms = self
            .held_everywhere()
            .filter_map(|shard| shard.tiers.queued_since_ms);
        let queued_ms = queued_ms.min();
        self.tiering
            .map_or(0, |tiering| tiering.staleness_ms(queued_ms, self.now_ms()))
    }
}

fn snapshot_tag(shard: &mut Shard, tiering: &Tiering, (space, tag): (usize, &[u8]), taken: &mut Taken) {
    let Shard { keys, tiers, .. } = shard;
    let mut changes = Vec::new();
    let mut take = |entry: &mut Entry| {
        if entry.has_flag(SyncFlags::UNSAVED) {
            entry.clear_flag(SyncFlags::UNSAVED);
            entry.set_flag(SyncFlags::SAVING.and(SyncFlags::COPIED));
            let rest = rest_of(entry);
            taken.bytes += CHANGE_OVERHEAD_BYTES + entry.key().len() + rest.payload.len();
            changes.push(Change {
                key: entry.key().to_vec(),
                value: Some(rest),
            });
        }
    };
    if hash_tag(tag).len() == tag.len()
        && let Some(entry) = keys.get_mut(hash_bytes(tag), tag)
    {
        take(entry);
    }
    if let Some(record) = tiers.records.get_mut(tag) {
        record.queued = false;
        for hash in std::mem::take(&mut record.unsaved) {
            if let Some(entry) = keys.find_with(hash, |entry| is_key_of(entry, tag, hash)) {
                take(entry);
            }
        }
        for key in std::mem::take(&mut record.gone) {
            // One that has come back is among the changed keys, or waits for the next snapshot.
            if keys.get(hash_bytes(&key), &key).is_none() {
                taken.bytes += CHANGE_OVERHEAD_BYTES + key.len();
                changes.push(Change {
                    key: key.to_vec(),
                    value: None,
                });
                record.burying.push(key);
            }
        }
        record.saving = !changes.is_empty();
    }
    if tiers.bury(tag, keys.get(hash_bytes(tag), tag).is_some()) {
        taken.bytes += CHANGE_OVERHEAD_BYTES + tag.len();
        changes.push(Change {
            key: tag.to_vec(),
            value: None,
        });
    }
    if changes.is_empty() {
        tiers.forget_if_idle(tag);
        return;
    }
    taken.keys += changes.len();
    taken.snapshots.push(Snapshot {
        tag: tag_name(space, tag).into_owned(),
        version: tiering.version(),
        changes,
        read_at_ms: None,
        written_at_ms: None,
    });
}

/// Returns whether an entry found by its hash is that key of the tag.
pub(crate) fn is_key_of(entry: &Entry, tag: &[u8], hash: u64) -> bool {
    let key = entry.key();
    hash_tag(key) == tag && hash_bytes(key) == hash
}

pub(crate) fn rest_of(entry: &Entry) -> StoredValue {
    StoredValue {
        kind: match entry.kind() {
            ValueKind::String => Kind::String,
            ValueKind::List => Kind::List,
            ValueKind::Set => Kind::Set,
            ValueKind::Zset => Kind::SortedSet,
            ValueKind::Hash => Kind::Hash,
            ValueKind::Stream => Kind::Stream,
        },
        payload: rdb::dump_value(entry.value()),
        expires_at_ms: entry.expiry(),
    }
}

fn confirm(shard: &mut Shard, tag: &[u8], snapshot: &Snapshot) {
    let Shard { keys, tiers, .. } = shard;
    for change in &snapshot.changes {
        if let Some(entry) = keys.get_mut(hash_bytes(&change.key), &change.key) {
            entry.clear_flag(SyncFlags::SAVING);
        }
    }
    if let Some(record) = tiers.records.get_mut(tag) {
        record.saving = false;
        record.burying.clear();
        tiers.forget_if_idle(tag);
    }
    tiers.buried(tag);
}

fn take_back(shard: &mut Shard, tag: &[u8], snapshot: &Snapshot, now_ms: i64) {
    let Shard { keys, tiers, .. } = shard;
    for change in &snapshot.changes {
        let hash = hash_bytes(&change.key);
        match keys.get_mut(hash, &change.key) {
            Some(entry) => {
                entry.clear_flag(SyncFlags::SAVING);
                // A key that was gone and is back is new, but the cold tier may still have the old one.
                entry.set_flag(SyncFlags::COPIED);
                if !entry.has_flag(SyncFlags::UNSAVED) {
                    entry.set_flag(SyncFlags::UNSAVED);
                    tiers.changed(&change.key, hash, now_ms);
                }
                tiers.not_buried(&change.key);
            }
            // Gone since: then it is among the lost keys already, or it was lost in this very snapshot.
            None => tiers.removed(&change.key, hash, true, now_ms),
        }
    }
    if let Some(record) = tiers.records.get_mut(tag) {
        record.saving = false;
        record.burying.clear();
    }
}
