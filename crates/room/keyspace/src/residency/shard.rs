//! What one shard knows of its tags.
//!
//! Most tags are a single key without braces. Those cost nothing here: that the
//! key is in the table says that the tag is resident, and marks in the key's own
//! block say what its cold copy is worth. When such a key goes and the cold tier
//! still has it, a [`Ghost`] stays until that has followed: a policy that removes
//! keys leaves many of them, so a ghost is little more than a name. Tags with more
//! to tell have a [`Record`]: those whose keys have braces, and those known to be
//! empty.
//!
//! **Invariant:** a tag is resident when it has a record or a ghost, never both, or
//! the key named like the tag is in the table; then memory has all of its keys. Whole tags come and
//! go under the shard's lock, so that is never half true.

mod ghosts;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use nagaya_connections::client::Client;

use crate::hash_tag::hash_tag;
use crate::residency::queue::NameQueue;

/// Tags known to be empty that are remembered per shard.
const EMPTY_TAGS_MAX: usize = 1024;

/// Queued names before the first look for repeats.
const QUEUE_DEDUP_MIN: usize = 4096;

/// The tags of one shard.
#[derive(Default)]
pub struct ShardResidency {
    pub(crate) records: HashMap<Box<[u8]>, Record, ahash::RandomState>,
    ghosts: HashMap<Box<[u8]>, Ghost, ahash::RandomState>,
    /// Tags that have changed since the saver last took them.
    pub(crate) queue: NameQueue,
    /// Names in the queue at which repeats are looked for.
    dedup_at: usize,
    /// When the first of those changed, in Unix milliseconds.
    pub(crate) queued_since_ms: Option<i64>,
    /// Tags that are being read from the cold tier.
    pub(crate) loading: HashMap<Box<[u8]>, Loading, ahash::RandomState>,
    /// Tags that were empty when last seen, longest ago first.
    empty: VecDeque<Box<[u8]>>,
    /// Keys with braces, and records that have some.
    braced_keys: usize,
    records_with_keys: usize,
}

/// A tag whose only key, one without braces, is gone from memory. The key may be back; then it is marked as new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ghost {
    /// The cold tier may have the key and is to be told.
    Queued,
    /// A snapshot that says so is on its way.
    Burying,
    /// The cold tier does not have it.
    Buried,
}

/// A tag that is more than one key without braces.
#[derive(Default)]
pub struct Record {
    /// The hashes of its keys with braces.
    pub(crate) keys: Hashes,
    /// Those of them that have changed since the last snapshot.
    pub(crate) unsaved: Vec<u64>,
    /// Keys that are gone from memory and may still be in the cold tier.
    pub(crate) gone: HashSet<Box<[u8]>, ahash::RandomState>,
    /// Those that the snapshot on its way says are gone.
    pub(crate) burying: Vec<Box<[u8]>>,
    /// A snapshot is on its way.
    pub(crate) saving: bool,
    pub(crate) queued: bool,
}

impl Record {
    /// Notes a changed key. One that goes and comes back again and again is noted as often, so repeats
    /// are dropped from time to time.
    fn note_unsaved(&mut self, hash: u64) {
        if self.unsaved.len() > 2 * self.keys.len() + Hashes::FEW {
            self.unsaved.sort_unstable();
            self.unsaved.dedup();
        }
        self.unsaved.push(hash);
    }

    /// Returns whether the cold tier has everything.
    pub(crate) fn is_saved(&self) -> bool {
        self.unsaved.is_empty() && self.gone.is_empty() && !self.saving
    }

    /// Returns whether nothing would be lost by forgetting it.
    fn is_idle(&self) -> bool {
        self.keys.is_empty() && self.is_saved()
    }
}

/// A load under way.
pub(crate) struct Loading {
    /// Names this load: what another one has read must not be installed.
    pub(crate) token: u64,
    pub(crate) waiters: Vec<Arc<Client>>,
}

/// A set of hashes, small for few of them.
pub(crate) enum Hashes {
    Few(Vec<u64>),
    Many(HashSet<u64, ahash::RandomState>),
}

impl Default for Hashes {
    fn default() -> Self {
        Hashes::Few(Vec::new())
    }
}

impl Hashes {
    const FEW: usize = 64;

    /// Adds a hash; false when it was there.
    pub(crate) fn insert(&mut self, hash: u64) -> bool {
        match self {
            Hashes::Few(few) if few.contains(&hash) => return false,
            Hashes::Few(few) if few.len() < Self::FEW => few.push(hash),
            Hashes::Few(few) => {
                let mut many: HashSet<_, _> = few.drain(..).collect();
                many.insert(hash);
                *self = Hashes::Many(many);
            }
            Hashes::Many(many) => return many.insert(hash),
        }
        true
    }

    /// Removes a hash; false when it was not there.
    fn remove(&mut self, hash: u64) -> bool {
        match self {
            Hashes::Few(few) => {
                let before = few.len();
                few.retain(|&other| other != hash);
                few.len() < before
            }
            Hashes::Many(many) => many.remove(&hash),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Hashes::Few(few) => few.len(),
            Hashes::Many(many) => many.len(),
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        let (few, many) = match self {
            Hashes::Few(few) => (Some(few), None),
            Hashes::Many(many) => (None, Some(many)),
        };
        few.into_iter()
            .flatten()
            .chain(many.into_iter().flatten())
            .copied()
    }
}

impl ShardResidency {
    /// Notes that a key is new in memory.
    #[inline]
    pub fn created(&mut self, key: &[u8], hash: u64) {
        let tag = hash_tag(key);
        if tag.len() != key.len() {
            let keys = &mut self.record(tag).keys;
            if keys.insert(hash) {
                let is_first = keys.len() == 1;
                self.braced_keys += 1;
                self.records_with_keys += usize::from(is_first);
            }
        }
    }

    /// Returns how many tags `keys` keys of this shard have. A tag with keys of both kinds, in braces and
    /// named like it, counts twice: to know better, all of them would have to be looked at.
    pub fn tags(&self, keys: usize) -> usize {
        self.records_with_keys + keys.saturating_sub(self.braced_keys)
    }

    /// Returns how many tags have a record or a ghost.
    pub fn record_count(&self) -> usize {
        self.records.len() + self.ghosts.len()
    }

    /// Takes a record out, with what it says of its keys; or a ghost, which says nothing.
    pub(crate) fn take_record(&mut self, tag: &[u8]) -> Option<Record> {
        self.ghosts.remove(tag);
        let record = self.records.remove(tag)?;
        self.braced_keys -= record.keys.len();
        self.records_with_keys -= usize::from(!record.keys.is_empty());
        Some(record)
    }

    /// Notes that a key has changed for the first time since its last snapshot.
    #[inline]
    pub fn changed(&mut self, key: &[u8], hash: u64, now_ms: i64) {
        let tag = hash_tag(key);
        let own = tag.len() == key.len();
        if own && (self.records.is_empty() || !self.records.contains_key(tag)) {
            return self.enqueue(tag, now_ms);
        }
        let record = self.record(tag);
        if !own {
            record.note_unsaved(hash);
        }
        if !std::mem::replace(&mut record.queued, true) {
            self.enqueue(tag, now_ms);
        }
    }

    /// Notes that a key is gone from memory; `copied` tells that the cold tier may have it.
    #[inline]
    pub fn removed(&mut self, key: &[u8], hash: u64, copied: bool, now_ms: i64) {
        let tag = hash_tag(key);
        let own = tag.len() == key.len();
        if own && !copied {
            return;
        }
        if own && !self.records.contains_key(tag) {
            return self.note_gone(tag, now_ms);
        }
        if !own {
            let keys = &mut self.record(tag).keys;
            if keys.remove(hash) {
                let was_last = keys.is_empty();
                self.braced_keys -= 1;
                self.records_with_keys -= usize::from(was_last);
            }
        }
        let record = self.record(tag);
        if copied {
            record.gone.insert(key.into());
            if !std::mem::replace(&mut record.queued, true) {
                self.enqueue(tag, now_ms);
            }
        } else {
            self.forget_if_idle(tag);
        }
    }

    /// Returns whether a tag has a record or a ghost, which makes it resident.
    #[inline]
    pub fn has_record(&self, tag: &[u8]) -> bool {
        !self.records.is_empty() && self.records.contains_key(tag)
            || !self.ghosts.is_empty() && self.ghosts.contains_key(tag)
    }

    pub(crate) fn record(&mut self, tag: &[u8]) -> &mut Record {
        if !self.records.contains_key(tag) {
            let mut record = Record::default();
            match self.ghosts.remove(tag) {
                Some(Ghost::Queued) => {
                    record.gone.insert(tag.into());
                    record.queued = true;
                }
                Some(Ghost::Burying) => {
                    record.burying.push(tag.into());
                    record.saving = true;
                }
                Some(Ghost::Buried) | None => (),
            }
            self.records.insert(tag.into(), record);
        }
        self.records
            .get_mut(tag)
            .expect("it was found or made just above")
    }

    /// Queues a tag for the saver.
    #[inline]
    pub fn enqueue(&mut self, tag: &[u8], now_ms: i64) {
        self.queue.push(tag);
        self.queued_since_ms.get_or_insert(now_ms);
        if self.queue.len() > self.dedup_at.max(QUEUE_DEDUP_MIN) {
            self.dedup_queue();
        }
    }

    /// Drops repeats: a key that goes and comes back is queued each time.
    #[cold]
    fn dedup_queue(&mut self) {
        let mut seen = HashSet::<&[u8], ahash::RandomState>::default();
        let mut unique = NameQueue::default();
        for name in self.queue.iter().filter(|name| seen.insert(name)) {
            unique.push(name);
        }
        self.dedup_at = 2 * unique.len();
        self.queue = unique;
    }

    /// Forgets a record that says nothing but "empty", though not at once: clients that look for something
    /// that is not there look again.
    pub(crate) fn forget_if_idle(&mut self, tag: &[u8]) {
        if self.records.get(tag).is_some_and(Record::is_idle) {
            self.remember_empty(tag);
        }
    }

    fn remember_empty(&mut self, tag: &[u8]) {
        self.empty.push_back(tag.into());
        if self.empty.len() <= EMPTY_TAGS_MAX {
            return;
        }
        let Some(oldest) = self.empty.pop_front() else {
            return;
        };
        if self.records.get(&oldest).is_some_and(Record::is_idle) {
            self.records.remove(&oldest);
        } else if self.ghosts.get(&oldest) == Some(&Ghost::Buried) {
            self.ghosts.remove(&oldest);
            if self.ghosts.capacity() > 8 * EMPTY_TAGS_MAX && self.ghosts.len() < self.ghosts.capacity() / 4 {
                self.ghosts.shrink_to(2 * self.ghosts.len());
            }
        }
    }

    /// Forgets everything; returns the clients that waited for loads.
    pub fn clear(&mut self) -> Vec<Arc<Client>> {
        let cleared = std::mem::take(self);
        cleared
            .loading
            .into_values()
            .flat_map(|loading| loading.waiters)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagaya_store::hasher::hash_bytes;

    fn queued(tiers: &ShardResidency) -> Vec<&[u8]> {
        tiers.queue.iter().collect()
    }

    #[test]
    fn a_key_without_braces_needs_no_record() {
        let mut tiers = ShardResidency::default();
        tiers.created(b"k", hash_bytes(b"k"));
        tiers.changed(b"k", hash_bytes(b"k"), 5);
        tiers.removed(b"k", hash_bytes(b"k"), false, 6);
        assert!(!tiers.has_record(b"k"));
        assert_eq!(
            (queued(&tiers), tiers.queued_since_ms),
            (vec![&b"k"[..]], Some(5))
        );
    }

    #[test]
    fn a_key_that_the_cold_tier_has_is_remembered_when_it_goes() {
        let mut tiers = ShardResidency::default();
        tiers.removed(b"k", hash_bytes(b"k"), true, 5);
        tiers.removed(b"k", hash_bytes(b"k"), true, 6);
        assert!(tiers.has_record(b"k") && tiers.is_gone_unsaved(b"k"));
        assert_eq!(queued(&tiers), [b"k"]);
        assert!(tiers.bury(b"k", false) && !tiers.bury(b"k", false));
        // It comes, is saved and goes again before the cold tier has followed.
        tiers.removed(b"k", hash_bytes(b"k"), true, 7);
        tiers.buried(b"k");
        assert!(tiers.is_gone_unsaved(b"k"));
        assert!(tiers.bury(b"k", false));
        tiers.buried(b"k");
        assert!(tiers.has_record(b"k") && !tiers.is_gone_unsaved(b"k"));
    }

    #[test]
    fn a_tag_with_several_changed_keys_is_queued_once() {
        let mut tiers = ShardResidency::default();
        for key in [&b"{u}a"[..], b"{u}b", b"u"] {
            tiers.created(key, hash_bytes(key));
            tiers.changed(key, hash_bytes(key), 1);
        }
        assert_eq!(queued(&tiers), [b"u"]);
        let record = &tiers.records[&b"u"[..]];
        assert_eq!((record.keys.len(), record.unsaved.len()), (2, 2));
    }

    #[test]
    fn tags_are_counted_as_keys_come_and_go() {
        let mut tiers = ShardResidency::default();
        for key in [&b"{u}a"[..], b"{u}b", b"{u}a", b"{v}a"] {
            tiers.created(key, hash_bytes(key));
        }
        assert_eq!(tiers.tags(5), 4, "two in braces and two keys without");
        tiers.removed(b"{v}a", hash_bytes(b"{v}a"), true, 0);
        assert_eq!(tiers.tags(4), 3);
        tiers.take_record(b"u");
        assert_eq!(tiers.tags(2), 2);
    }

    #[test]
    fn empty_tags_are_forgotten_when_there_are_too_many() {
        let mut tiers = ShardResidency::default();
        for number in 0..3 * EMPTY_TAGS_MAX {
            let tag = number.to_string();
            tiers.record(tag.as_bytes());
            tiers.forget_if_idle(tag.as_bytes());
        }
        assert_eq!(tiers.records.len(), EMPTY_TAGS_MAX);
    }

    #[test]
    fn a_key_that_comes_and_goes_does_not_fill_the_queue() {
        let mut tiers = ShardResidency::default();
        for round in 0..100_000 {
            for key in [&b"k"[..], b"{u}k"] {
                tiers.created(key, 1);
                tiers.changed(key, 1, round);
                tiers.removed(key, 1, false, round);
            }
        }
        assert!(tiers.queue.len() <= QUEUE_DEDUP_MIN + 1);
        assert_eq!(tiers.queued_since_ms, Some(0));
        assert!(tiers.records[&b"u"[..]].unsaved.len() < 200);
    }

    #[test]
    fn hashes_are_a_set_at_any_size() {
        let mut hashes = Hashes::default();
        for hash in (0..200).chain(0..200) {
            hashes.insert(hash);
        }
        assert_eq!(hashes.len(), 200);
        assert!((0..199).all(|hash| hashes.remove(hash)));
        assert_eq!(hashes.iter().collect::<Vec<_>>(), [199]);
    }
}
