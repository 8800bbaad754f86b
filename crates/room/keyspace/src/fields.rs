//! Fields of hashes that expire.
//!
//! A field whose time has come is missing to every command: one that reads a hash
//! first has the due fields taken out ([`Db::expire_fields`]), with their event
//! and their effect; [`Db::write`] and [`Db::write_or_create`] do so by
//! themselves. Shards without such fields are told from others by one look.
//! Fields that nobody asks for are taken out along with expired keys
//! ([`Db::expire_due`]). Unlike keys, fields also go while clients are paused.

use nagaya_store::entry::Entry;
use nagaya_store::hash::Hash;

use crate::db::Db;
use crate::notify::Events;

impl Db<'_> {
    /// Returns whether a moment is past, as expiries of keys and fields are.
    #[inline]
    pub fn is_past(&self, at_ms: i64) -> bool {
        at_ms < self.expired_before_ms
    }

    /// Takes the fields out of a hash whose time has come.
    #[inline]
    pub fn expire_fields(&mut self, key: &[u8]) {
        let before_ms = self.expired_before_ms;
        if self.shard_mut(key).keys.has_due_fields(before_ms) {
            self.expire_fields_of(key);
        }
    }

    #[cold]
    fn expire_fields_of(&mut self, key: &[u8]) {
        let hash = self.peek(key).and_then(|entry| entry.collection::<Hash>());
        let soonest = hash.and_then(Hash::soonest);
        if soonest.is_some_and(|at_ms| self.is_past(at_ms)) {
            self.take_due_fields(key, usize::MAX);
        }
    }

    /// Takes up to `limit` due fields out of the hashes of a held shard; returns how many.
    pub(crate) fn expire_due_fields(&mut self, shard: usize, limit: usize) -> usize {
        let (before_ms, mut removed) = (self.expired_before_ms, 0);
        while removed < limit
            && let Some(key) = self.keys_mut_of(shard).due_hash(before_ms)
        {
            let taken = self.take_due_fields(&key, limit - removed);
            // A key that has expired itself is left to those who remove keys.
            if taken == 0 {
                break;
            }
            removed += taken;
        }
        removed
    }

    fn take_due_fields(&mut self, key: &[u8], limit: usize) -> usize {
        let before_ms = self.expired_before_ms;
        let stamp = self.peek(key).map(Entry::stamp);
        let (Some(stamp), Some(entry)) = (stamp, self.entry_mut(key)) else {
            return 0;
        };
        // Losing fields is no use of the key.
        entry.set_stamp(stamp);
        let Some(hash) = entry.collection_mut::<Hash>() else {
            return 0;
        };
        let fields = hash.take_due(before_ms, limit);
        let is_empty = hash.is_empty();
        if fields.is_empty() {
            return 0;
        }
        self.stats.expired_fields.add(fields.len() as u64);
        self.record_fields_removal(key, &fields);
        self.notify(Events::HASH, "hexpired", key);
        if is_empty {
            self.remove(key);
            self.notify(Events::GENERIC, "del", key);
        }
        self.changed(key, 0);
        self.forget_change();
        fields.len()
    }

    /// Notes for the removal of due fields that a field of a hash now expires at a moment.
    pub fn note_field_expiry(&mut self, key: &[u8], at_ms: i64) {
        let location = self.locate(key);
        let keys = self.keys_mut_of(location.shard);
        keys.note_field_expiry(location.hash, at_ms);
    }
}
