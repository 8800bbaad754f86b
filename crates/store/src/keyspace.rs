//! The keys of one shard.
//!
//! Knows expiry times but not the time: callers pass the clock in, and decide
//! what an expired key means. Keys with an expiry are also noted in a heap of
//! `(deadline, key hash)` hints. A hint whose key is gone or was given another
//! deadline matches nothing and is dropped, so nothing has to find and remove
//! it; when hints outnumber the keys that need one, the heap is built anew.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::entry::Entry;
use crate::rng::Rng;
use crate::table::{Keyed, Table};
use crate::value::Value;

/// Hints kept beyond those needed before the heap is rebuilt.
const STALE_HINTS_MIN: usize = 1024;

/// The keys of one shard.
#[derive(Default)]
pub struct Keyspace {
    table: Table<Entry>,
    deadlines: BinaryHeap<Reverse<(i64, u64)>>,
    volatile: usize,
}

impl Keyspace {
    /// Returns the number of keys, expired ones that nobody has met yet included.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Tells whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of keys that have an expiry.
    pub fn volatile(&self) -> usize {
        self.volatile
    }

    /// Finds a key. `hash` is `hash_bytes(key)`, here and below.
    #[inline]
    pub fn get(&self, hash: u64, key: &[u8]) -> Option<&Entry> {
        self.table.find(hash, key)
    }

    /// Finds a key to change its value. Its expiry is changed through [`Keyspace::set_expiry`] only.
    #[inline]
    pub fn get_mut(&mut self, hash: u64, key: &[u8]) -> Option<&mut Entry> {
        self.table.find_mut(hash, key)
    }

    /// Sets a key to a value and an expiry, and returns the entry it replaced.
    pub fn insert(&mut self, hash: u64, key: &[u8], value: Value, expiry: Option<i64>) -> Option<Entry> {
        let entry = Entry::new(key, value, expiry);
        self.put(hash, entry)
    }

    /// Sets a key to a string and an expiry; in place when the sizes allow.
    ///
    /// Returns the entry it replaced when that one held a collection worth freeing elsewhere.
    #[inline]
    pub fn insert_str(
        &mut self,
        hash: u64,
        key: &[u8],
        bytes: &[u8],
        expiry: Option<i64>,
        stamp: u32,
    ) -> Option<Entry> {
        match self.table.find_mut(hash, key) {
            Some(entry) if entry.string().is_some() && entry.expiry().is_some() == expiry.is_some() => {
                entry.replace_str(bytes);
                entry.set_stamp(stamp);
                if let Some(at) = expiry {
                    entry.set_expiry(Some(at));
                    self.note_deadline(at, hash);
                }
                None
            }
            _ => {
                let entry = Entry::from_str(key, bytes, expiry);
                entry.set_stamp(stamp);
                self.put(hash, entry)
            }
        }
    }

    /// Removes a key and returns its entry.
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

    /// Visits some keys; returns the cursor to go on from, 0 at the end. The guarantees are SCAN's.
    pub fn scan(&self, cursor: u64, visit: impl FnMut(&Entry)) -> u64 {
        self.table.scan(cursor, visit)
    }

    /// Returns all keys, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.table.iter()
    }

    /// Returns a key chosen at random.
    pub fn random(&self, rng: &mut Rng) -> Option<&Entry> {
        self.table.random(rng)
    }

    /// Takes everything out, to be freed wherever the caller likes.
    pub fn take_all(&mut self) -> Keyspace {
        std::mem::take(self)
    }

    /// Returns the bytes of the table and the deadline hints, without the entries.
    pub fn overhead_bytes(&self) -> usize {
        self.table.mem_bytes() + self.deadlines.capacity() * size_of::<(i64, u64)>()
    }

    fn put(&mut self, hash: u64, entry: Entry) -> Option<Entry> {
        if let Some(at) = entry.expiry() {
            self.volatile += 1;
            self.note_deadline(at, hash);
        }
        let old = match self.table.find_mut(hash, entry.key()) {
            Some(slot) => Some(std::mem::replace(slot, entry)),
            None => {
                self.table.insert_unique(hash, entry);
                None
            }
        };
        self.volatile -= usize::from(old.as_ref().is_some_and(|old| old.expiry().is_some()));
        old
    }

    fn note_deadline(&mut self, at: i64, hash: u64) {
        self.deadlines.push(Reverse((at, hash)));
        if self.deadlines.len() > 2 * self.volatile + STALE_HINTS_MIN {
            let hints = self.table.iter().filter_map(|entry| {
                entry
                    .expiry()
                    .map(|at| Reverse((at, crate::hasher::hash_bytes(entry.key()))))
            });
            self.deadlines = hints.collect();
            // The key being changed may not be in the table yet.
            self.deadlines.push(Reverse((at, hash)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hasher::hash_bytes;

    fn set(keys: &mut Keyspace, key: &str, expiry: Option<i64>) {
        keys.insert_str(hash_bytes(key.as_bytes()), key.as_bytes(), b"v", expiry, 0);
    }

    #[test]
    fn due_keys_come_out_in_order_and_only_when_due() {
        let mut keys = Keyspace::default();
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
        let mut keys = Keyspace::default();
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
        let mut keys = Keyspace::default();
        for at in 0..100_000 {
            set(&mut keys, "k", Some(1_000_000 + at));
        }
        assert!(keys.deadlines.len() <= 2 * STALE_HINTS_MIN);
        assert!(keys.take_due(1_099_999).is_none());
        assert!(keys.take_due(1_100_000).is_some());
    }

    #[test]
    fn volatile_counts_through_every_way_of_writing() {
        let mut keys = Keyspace::default();
        set(&mut keys, "a", Some(1));
        set(&mut keys, "a", None);
        assert_eq!(keys.volatile(), 0);
        set(&mut keys, "a", Some(1));
        let hash = hash_bytes(b"a");
        keys.insert(hash, b"a", Value::List(Box::default()), Some(2));
        assert_eq!(keys.volatile(), 1);
        keys.remove(hash, b"a");
        assert_eq!(keys.volatile(), 0);
    }
}
