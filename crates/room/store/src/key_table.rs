//! The keys of one shard.
//!
//! Knows expiry times but not the time: callers pass the clock in, and decide
//! what an expired key means. Keys with an expiry are also noted in a heap of
//! `(deadline, key hash)` hints. A hint whose key is gone or was given another
//! deadline matches nothing and is dropped, so nothing has to find and remove
//! it; when hints outnumber the keys that need one, the heap is rebuilt.
//!
//! Hashes with fields that expire have hints of their own, at or before the
//! moment of their earliest field. A hint that turns out too early is set anew.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::entry::{Entry, SyncFlags};
use crate::hash::Hash;
use crate::hasher::hash_bytes;
use crate::rng::Rng;
use crate::table::{Keyed, Table};
use crate::value::Value;

/// Hints kept beyond those needed before the heap is rebuilt.
const STALE_HINTS_MIN: usize = 1024;

/// What setting a key has met.
pub struct Put {
    /// The entry that was replaced, unless its block could be used again.
    pub old: Option<Entry>,
    /// There was no such key.
    pub is_new: bool,
    /// One of the flags was set already.
    pub was_flagged: bool,
}

/// The keys of one shard.
#[derive(Default)]
pub struct KeyTable {
    table: Table<Entry>,
    deadlines: BinaryHeap<Reverse<(i64, u64)>>,
    volatile: usize,
    field_hints: FieldHints,
}

/// Where hashes with fields that expire are: each has a hint at or before its earliest field.
#[derive(Default)]
struct FieldHints {
    heap: BinaryHeap<Reverse<(i64, u64)>>,
    /// How many hints there may be before the heap is rebuilt.
    rebuild_above: usize,
}

impl KeyTable {
    /// Returns the number of keys, including expired ones that no command has met yet.
    #[inline]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether there is no key.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of keys that have an expiry.
    #[inline]
    pub fn volatile(&self) -> usize {
        self.volatile
    }

    /// Finds a key. `hash` is `hash_bytes(key)`, here and below.
    #[inline]
    pub fn get(&self, hash: u64, key: &[u8]) -> Option<&Entry> {
        self.table.find(hash, key)
    }

    /// Finds a key to change its value. Its expiry is changed through [`KeyTable::set_expiry`] only.
    #[inline]
    pub fn get_mut(&mut self, hash: u64, key: &[u8]) -> Option<&mut Entry> {
        self.table.find_mut(hash, key)
    }

    /// Sets a key to a value and an expiry, and adds flags.
    #[inline]
    pub fn insert(
        &mut self,
        hash: u64,
        key: &[u8],
        value: Value,
        expiry: Option<i64>,
        flags: SyncFlags,
    ) -> Put {
        self.put(hash, Entry::new(key, value, expiry), flags)
    }

    /// Sets a key to a string and an expiry, and adds flags; in place when the sizes allow.
    #[inline]
    pub fn insert_str(
        &mut self,
        hash: u64,
        key: &[u8],
        bytes: &[u8],
        expiry: Option<i64>,
        stamp: u32,
        flags: SyncFlags,
    ) -> Put {
        match self.table.find_mut(hash, key) {
            Some(entry) if entry.string().is_some() && entry.expiry().is_some() == expiry.is_some() => {
                entry.replace_str(bytes);
                entry.set_stamp(stamp);
                if let Some(at) = expiry {
                    entry.set_expiry(Some(at));
                }
                let put = Put {
                    old: None,
                    is_new: false,
                    was_flagged: entry.has_flag(flags),
                };
                entry.set_flag(flags);
                if let Some(at) = expiry {
                    self.note_deadline(at, hash);
                }
                put
            }
            _ => {
                let entry = Entry::from_str(key, bytes, expiry);
                entry.set_stamp(stamp);
                self.put(hash, entry, flags)
            }
        }
    }

    /// Finds a key by its hash and some property, which no other key of that hash has.
    pub fn get_with(&self, hash: u64, is_it: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        self.table.get_with(hash, is_it)
    }

    /// Finds a key by its hash and some property, to change its value.
    pub fn find_with(&mut self, hash: u64, is_it: impl Fn(&Entry) -> bool) -> Option<&mut Entry> {
        self.table.find_with(hash, is_it)
    }

    /// Removes a key found by its hash and some property, and returns its entry.
    pub fn remove_with(&mut self, hash: u64, is_it: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let entry = self.table.remove_with(hash, is_it)?;
        self.volatile -= usize::from(entry.expiry().is_some());
        Some(entry)
    }

    /// Asks the processor to fetch what a lookup of this hash will touch first.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.table.prefetch(hash);
    }

    /// Visits about `wanted` keys that lie next to each other in a random place.
    pub fn sample(&self, rng: &mut Rng, wanted: usize, visit: impl FnMut(&Entry)) {
        self.table.sample(rng, wanted, visit);
    }

    /// Removes a key and returns its entry.
    #[inline]
    pub fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Entry> {
        let entry = self.table.remove(hash, key)?;
        self.volatile -= usize::from(entry.expiry().is_some());
        Some(entry)
    }

    /// Sets or clears the expiry of a key; false when there is no such key.
    pub fn set_expiry(&mut self, hash: u64, key: &[u8], expiry: Option<i64>) -> bool {
        let Some(entry) = self.table.find_mut(hash, key) else {
            return false;
        };
        self.volatile -= usize::from(entry.expiry().is_some());
        self.volatile += usize::from(expiry.is_some());
        entry.set_expiry(expiry);
        if let Some(at) = expiry {
            self.note_deadline(at, hash);
        }
        true
    }

    /// Takes one key whose time has come out of the keyspace; call until it returns nothing or the
    /// caller's budget is spent.
    pub fn take_due(&mut self, now_ms: i64) -> Option<Entry> {
        loop {
            let &Reverse((at, hash)) = self.deadlines.peek()?;
            if at >= now_ms {
                return None;
            }
            self.deadlines.pop();
            // Any key with these hash bits and this deadline will do: it is due as well.
            if let Some(entry) = self.table.remove_with(hash, |entry| entry.expiry() == Some(at)) {
                self.volatile -= 1;
                return Some(entry);
            }
        }
    }

    /// Returns whether a hash may have fields that expire before `before_ms`.
    #[inline]
    pub fn has_due_fields(&self, before_ms: i64) -> bool {
        let first = self.field_hints.heap.peek();
        first.is_some_and(|Reverse((at, _))| *at < before_ms)
    }

    /// Notes that a field of a hash expires at `at_ms`, unless another one does before.
    pub fn note_field_expiry(&mut self, hash: u64, at_ms: i64) {
        let hints = &mut self.field_hints;
        hints.heap.push(Reverse((at_ms, hash)));
        if hints.heap.len() > hints.rebuild_above.max(STALE_HINTS_MIN) {
            let all = self.table.iter().filter_map(|entry| {
                let at_ms = soonest_of(entry)?;
                Some(Reverse((at_ms, hash_bytes(entry.key()))))
            });
            hints.heap = all.collect();
            hints.rebuild_above = 2 * hints.heap.len() + STALE_HINTS_MIN;
            // The key being changed may not be in the table yet.
            hints.heap.push(Reverse((at_ms, hash)));
        }
    }

    /// Returns a key whose hash has fields that expire before `before_ms`. It is found again until they are
    /// taken out.
    pub fn due_hash(&mut self, before_ms: i64) -> Option<Vec<u8>> {
        loop {
            let &Reverse((at, hash)) = self.field_hints.heap.peek()?;
            if at >= before_ms {
                return None;
            }
            let is_due = |entry: &Entry| soonest_of(entry).is_some_and(|soonest| soonest < before_ms);
            if let Some(entry) = self.table.get_with(hash, is_due) {
                return Some(entry.key().to_vec());
            }
            self.field_hints.heap.pop();
            // The table compares only a part of the hash; another key's moment would be too late for this one.
            let is_it = |entry: &Entry| hash_bytes(entry.key()) == hash && soonest_of(entry).is_some();
            let later = self.table.get_with(hash, is_it);
            if let Some(at) = later.and_then(soonest_of) {
                self.field_hints.heap.push(Reverse((at, hash)));
            }
        }
    }

    /// Visits some keys; returns the cursor to continue from, 0 at the end. The guarantees are SCAN's.
    pub fn scan(&self, cursor: u64, visit: impl FnMut(&Entry)) -> u64 {
        self.table.scan(cursor, visit)
    }

    /// Returns all keys, in no particular order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.table.iter()
    }

    /// Returns a key chosen at random.
    pub fn random(&self, rng: &mut Rng) -> Option<&Entry> {
        self.table.random(rng)
    }

    /// Takes everything out, so that the caller can free it on another thread.
    pub fn take_all(&mut self) -> KeyTable {
        std::mem::take(self)
    }

    /// Returns the bytes of the table and the deadline hints, without the entries.
    pub fn overhead_bytes(&self) -> usize {
        let hints = self.deadlines.capacity() + self.field_hints.heap.capacity();
        self.table.mem_bytes() + hints * size_of::<(i64, u64)>()
    }

    fn put(&mut self, hash: u64, mut entry: Entry, flags: SyncFlags) -> Put {
        entry.set_flag(flags);
        if let Some(at) = entry.expiry() {
            self.volatile += 1;
            self.note_deadline(at, hash);
        }
        if let Some(at) = soonest_of(&entry) {
            self.note_field_expiry(hash, at);
        }
        let Some(slot) = self.table.find_mut(hash, entry.key()) else {
            self.table.insert_unique(hash, entry);
            return Put {
                old: None,
                is_new: true,
                was_flagged: false,
            };
        };
        let was_flagged = slot.has_flag(flags);
        entry.take_marks(slot);
        let old = std::mem::replace(slot, entry);
        self.volatile -= usize::from(old.expiry().is_some());
        Put {
            old: Some(old),
            is_new: false,
            was_flagged,
        }
    }

    fn note_deadline(&mut self, at: i64, hash: u64) {
        self.deadlines.push(Reverse((at, hash)));
        if self.deadlines.len() > 2 * self.volatile + STALE_HINTS_MIN {
            let hints = self
                .table
                .iter()
                .filter_map(|entry| entry.expiry().map(|at| Reverse((at, hash_bytes(entry.key())))));
            self.deadlines = hints.collect();
            // The key being changed may not be in the table yet.
            self.deadlines.push(Reverse((at, hash)));
        }
    }
}

/// Returns when the earliest field of a hash expires.
#[inline]
fn soonest_of(entry: &Entry) -> Option<i64> {
    entry.collection::<Hash>()?.soonest()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::EncodingLimits;

    fn set_hash(keys: &mut KeyTable, key: &str, at_ms: i64) {
        let mut hash = Hash::new();
        for field in [b"f", b"g"] {
            hash.set(field, b"v", &EncodingLimits::default());
        }
        hash.set_expiry(b"f", Some(at_ms));
        let value = Value::Hash(Box::new(hash));
        keys.insert(
            hash_bytes(key.as_bytes()),
            key.as_bytes(),
            value,
            None,
            SyncFlags::NONE,
        );
    }

    #[test]
    fn hashes_with_due_fields_are_found_until_those_are_gone() {
        let mut keys = KeyTable::default();
        set_hash(&mut keys, "late", 30);
        set_hash(&mut keys, "early", 10);
        set_hash(&mut keys, "gone", 5);
        keys.remove(hash_bytes(b"gone"), b"gone");
        assert!(!keys.has_due_fields(5) && keys.due_hash(10).is_none());
        for _ in 0..2 {
            assert_eq!(keys.due_hash(11).as_deref(), Some(&b"early"[..]));
        }
        let entry = keys.get_mut(hash_bytes(b"early"), b"early").unwrap();
        let hash = entry.collection_mut::<Hash>().unwrap();
        hash.set_expiry(b"g", Some(20));
        hash.take_due(11, 9);
        assert!(keys.due_hash(20).is_none());
        assert_eq!(keys.due_hash(25).as_deref(), Some(&b"early"[..]));
        keys.remove(hash_bytes(b"early"), b"early");
        assert_eq!(keys.due_hash(99).as_deref(), Some(&b"late"[..]));
    }

    #[test]
    fn hints_of_fields_stay_bounded_when_hashes_come_and_go() {
        let mut keys = KeyTable::default();
        for at in 0..100_000 {
            set_hash(&mut keys, "k", 1_000_000 + at);
        }
        assert!(keys.field_hints.heap.len() <= 2 * STALE_HINTS_MIN);
        assert!(keys.due_hash(1_099_999).is_none());
        assert!(keys.due_hash(1_100_000).is_some());
    }

    fn set(keys: &mut KeyTable, key: &str, expiry: Option<i64>) {
        keys.insert_str(
            hash_bytes(key.as_bytes()),
            key.as_bytes(),
            b"v",
            expiry,
            0,
            SyncFlags::NONE,
        );
    }

    #[test]
    fn due_keys_come_out_in_order_and_only_when_due() {
        let mut keys = KeyTable::default();
        set(&mut keys, "late", Some(30));
        set(&mut keys, "early", Some(10));
        set(&mut keys, "never", None);
        assert!(keys.take_due(10).is_none());
        assert_eq!(keys.take_due(11).unwrap().key(), b"early");
        assert_eq!(keys.take_due(31).unwrap().key(), b"late");
        assert!(keys.take_due(i64::MAX).is_none());
        assert_eq!((keys.len(), keys.volatile()), (1, 0));
    }

    #[test]
    fn a_key_given_a_new_deadline_ignores_the_old_one() {
        let mut keys = KeyTable::default();
        let hash = hash_bytes(b"k");
        set(&mut keys, "k", Some(10));
        keys.set_expiry(hash, b"k", Some(50));
        assert!(keys.take_due(40).is_none());
        keys.set_expiry(hash, b"k", None);
        assert!(keys.take_due(100).is_none());
        assert_eq!((keys.len(), keys.volatile()), (1, 0));
    }

    #[test]
    fn hints_stay_bounded_when_one_key_is_set_again_and_again() {
        let mut keys = KeyTable::default();
        for at in 0..100_000 {
            set(&mut keys, "k", Some(1_000_000 + at));
        }
        assert!(keys.deadlines.len() <= 2 * STALE_HINTS_MIN);
        assert!(keys.take_due(1_099_999).is_none());
        assert!(keys.take_due(1_100_000).is_some());
    }

    #[test]
    fn volatile_counts_through_every_way_of_writing() {
        let mut keys = KeyTable::default();
        set(&mut keys, "a", Some(1));
        set(&mut keys, "a", None);
        assert_eq!(keys.volatile(), 0);
        set(&mut keys, "a", Some(1));
        let hash = hash_bytes(b"a");
        keys.insert(hash, b"a", Value::List(Box::default()), Some(2), SyncFlags::NONE);
        assert_eq!(keys.volatile(), 1);
        keys.remove(hash, b"a");
        assert_eq!(keys.volatile(), 0);
    }
}
