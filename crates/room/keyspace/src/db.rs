//! The keys that one command may touch.
//!
//! A `Db` is made per command (or per transaction or script) over the locked
//! shards of its keys. It hides where a key lives and what expiry means:
//! an expired key is missing to every reader. Reads take `&self`, so that a
//! command can look at several keys at once; the expired keys that they meet
//! are removed when the command ends. Writes remove theirs at once.
//!
//! Handlers call [`Db::modified`] for every key they changed, as Redis calls
//! signalModifiedKey, and [`Db::notify`] for the event's name.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use nagaya_command_spec::error::CommandError;
use nagaya_connections::subscribers::Subscribers;
use nagaya_connections::tracking::PendingInvalidations;
use nagaya_store::entry::{Entry, SyncFlags};
use nagaya_store::key_table::{KeyTable, Put};
use nagaya_store::rng::with_thread_rng;
use nagaya_store::table::Keyed;
use nagaya_store::value::{Collection, StrRef, Value, ValueKind};

use crate::effects::record::Effects;
use crate::keyspace::{FREE_EFFORT_MAX, Keyspace};
use crate::notify::Events;
use crate::recency::Recency;
use crate::reclaim::Reclaimable;
use crate::residency::shard::ShardResidency;
use crate::residency::tiering::Tiering;
use crate::shard::{KeyLocation, Locked, Shard};
use crate::stats::KeyspaceStats;

/// What happens to a key's expiry when its value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It goes.
    Clear,
    /// It stays.
    Keep,
    /// The key expires then, in Unix milliseconds.
    At(i64),
}

/// What a command's keys depend on beside the data.
#[derive(Clone, Copy, Debug)]
pub struct DbTurn {
    /// When the command begins, in Unix milliseconds.
    pub now_ms: i64,
    /// The events that are published.
    pub notify: Events,
    /// The eviction policy counts how often keys are used, not when.
    pub counts_uses: bool,
    /// The client that the command belongs to, for client-side caching; 0 for none.
    pub client_id: u64,
    /// The database that it has selected.
    pub database: usize,
}

/// A changed key that clients wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyKey {
    pub database: usize,
    pub key: Vec<u8>,
}

/// The keys that one command may touch.
pub struct Db<'s> {
    data: &'s Keyspace,
    pub(crate) subscribers: &'s Subscribers,
    pub(crate) locked: Locked<'s>,
    /// The selected database, and the space that holds its keys.
    database: usize,
    space: usize,
    pub(crate) stats: &'s KeyspaceStats,
    now_ms: i64,
    /// Keys and fields whose expiry is earlier than this are gone.
    pub(crate) expired_before_ms: i64,
    /// Effects are being replayed: no client is notified, and no key expires.
    pub replaying: bool,
    /// What the commands did, for the journal.
    pub effects: Effects,
    /// How uses of keys are counted.
    pub recency: Recency,
    /// The commands of this client do not count as uses of their keys.
    pub no_touch: bool,
    notify: Events,
    /// The cold tier, for which changes are noted.
    pub tiering: Option<&'s Tiering>,
    /// The client that runs the command, for client-side caching; 0 for none.
    pub client_id: u64,
    /// Changes made, as Redis counts them for its persistence.
    pub dirty: u64,
    /// Expired keys that reads have met, with their spaces.
    expired: RefCell<Vec<(usize, Vec<u8>)>>,
    /// Changed keys that blocked clients wait for.
    pub ready: Vec<ReadyKey>,
    /// Messages about changed keys that wait for the end of the command.
    pub changes: Option<Box<PendingInvalidations>>,
    /// The key of the request, when it has exactly one: start, length, and where it lives.
    known: (*const u8, usize, KeyLocation),
}

impl<'s> Db<'s> {
    /// Opens locked shards for a command of the client `turn.client_id`.
    #[inline]
    pub fn new(
        data: &'s Keyspace,
        subscribers: &'s Subscribers,
        locked: Locked<'s>,
        stats: &'s KeyspaceStats,
        turn: &DbTurn,
    ) -> Db<'s> {
        let mut db = Db {
            data,
            subscribers,
            locked,
            database: 0,
            space: 0,
            stats,
            now_ms: turn.now_ms,
            expired_before_ms: turn.now_ms,
            replaying: false,
            effects: Effects::default(),
            recency: Recency::at(turn.now_ms, turn.counts_uses),
            no_touch: false,
            notify: turn.notify,
            tiering: data.tiering.get(),
            client_id: turn.client_id,
            dirty: 0,
            expired: RefCell::default(),
            ready: Vec::new(),
            changes: None,
            known: (std::ptr::null(), 0, KeyLocation { hash: 0, shard: 0 }),
        };
        // Only now, under the locks, do the databases keep their spaces.
        db.select(turn.database);
        db
    }

    /// Selects another database for what follows.
    #[inline]
    pub fn select(&mut self, database: usize) {
        self.database = database;
        let space = self.data.databases.space(database);
        if space != self.space {
            self.use_space(space);
        }
    }

    /// Selects the database that has a space.
    pub fn enter_space(&mut self, space: usize) {
        if space != self.space {
            self.database = self.data.databases.database_of(space);
            self.use_space(space);
        }
    }

    #[cold]
    fn use_space(&mut self, space: usize) {
        self.space = space;
        self.locked.enter(space);
        self.data.databases.note_used(space);
    }

    /// Returns the number of the selected database.
    #[inline]
    pub fn database(&self) -> usize {
        self.database
    }

    /// Returns the space of the selected database.
    #[inline]
    pub fn space(&self) -> usize {
        self.space
    }

    /// Returns the data that the locked shards are part of.
    #[inline]
    pub fn data(&self) -> &'s Keyspace {
        self.data
    }

    /// Makes the database one to replay on: it is `now_ms`, and no key expires.
    pub fn replay_at(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.expired_before_ms = i64::MIN;
        self.replaying = true;
    }

    /// Returns where a key of the request lives, which saves looking for it again and again.
    ///
    /// The request's bytes stay where they are while its command runs, so a key at the same address and
    /// of the same length is the same key.
    #[inline]
    pub fn cache_location(&mut self, key: &[u8], location: KeyLocation) {
        self.known = (key.as_ptr(), key.len(), location);
    }

    /// Returns the time at which the command (or the transaction or script around it) began, in Unix
    /// milliseconds.
    #[inline]
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Finds a key to read its value; counts as a use of it.
    #[inline]
    pub fn entry(&self, key: &[u8]) -> Option<&Entry> {
        match self.live(key) {
            Some(entry) => {
                if !self.no_touch {
                    entry.set_stamp(self.recency.used(entry.stamp()));
                }
                self.stats.hits.add(1);
                Some(entry)
            }
            None => {
                self.stats.misses.add(1);
                if self.notify.has(Events::MISS) {
                    self.notify(Events::MISS, "keymiss", key);
                }
                None
            }
        }
    }

    /// Finds a key without any trace: neither a use nor a hit or miss.
    #[inline]
    pub fn peek(&self, key: &[u8]) -> Option<&Entry> {
        self.live(key)
    }

    /// Finds a key to change its value (not its expiry: see [`Db::set_expiry`]).
    #[inline]
    pub fn entry_mut(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let location = self.locate(key);
        self.drop_if_expired(key, location);
        let Shard { keys, tiers, .. } = self.locked.get_mut(location.shard, self.space);
        let entry = keys.get_mut(location.hash, key)?;
        if !self.no_touch {
            entry.set_stamp(self.recency.used(entry.stamp()));
        }
        if self.tiering.is_some() && !entry.has_flag(SyncFlags::UNSAVED) {
            entry.set_flag(SyncFlags::UNSAVED);
            tiers.changed(key, location.hash, self.now_ms);
        }
        Some(entry)
    }

    /// Returns whether a key exists; not a use of it.
    #[inline]
    pub fn exists(&self, key: &[u8]) -> bool {
        self.live(key).is_some()
    }

    /// Returns the type of a key's value; not a use of it.
    #[inline]
    pub fn kind(&self, key: &[u8]) -> Option<ValueKind> {
        self.live(key).map(Entry::kind)
    }

    /// Reads a string.
    #[inline]
    pub fn string(&self, key: &[u8]) -> Result<Option<StrRef<'_>>, CommandError> {
        match self.entry(key) {
            None => Ok(None),
            Some(entry) => entry.string().map(Some).ok_or(CommandError::WrongType),
        }
    }

    /// Reads a collection of one type.
    #[inline]
    pub fn read<T: Collection>(&self, key: &[u8]) -> Result<Option<&T>, CommandError> {
        match self.entry(key) {
            None => Ok(None),
            Some(entry) => entry.collection().map(Some).ok_or(CommandError::WrongType),
        }
    }

    /// Finds a collection of one type to change it. A caller that takes the last element out calls
    /// [`Db::remove_if_empty`].
    #[inline]
    pub fn write<T: Collection>(&mut self, key: &[u8]) -> Result<Option<&mut T>, CommandError> {
        if T::KIND == ValueKind::Hash {
            self.expire_fields(key);
        }
        match self.entry_mut(key) {
            None => Ok(None),
            Some(entry) => entry.collection_mut().map(Some).ok_or(CommandError::WrongType),
        }
    }

    /// Finds a collection of one type to change it, made empty when the key is missing.
    pub fn write_or_create<T: Collection>(&mut self, key: &[u8]) -> Result<&mut T, CommandError> {
        if T::KIND == ValueKind::Hash {
            self.expire_fields(key);
        }
        let location = self.locate(key);
        self.drop_if_expired(key, location);
        let missing = self
            .locked
            .get(location.shard, self.space)
            .keys
            .get(location.hash, key)
            .is_none();
        if missing {
            let value = Box::<T>::default().into_value();
            self.put(key, location, |keys, marks| {
                keys.insert(location.hash, key, value, None, marks)
            });
            self.notify(Events::NEW, "new", key);
        }
        let (recency, no_touch) = (self.recency, self.no_touch);
        let Shard { keys, tiers, .. } = self.locked.get_mut(location.shard, self.space);
        let entry = keys.get_mut(location.hash, key);
        let entry = entry.expect("the key was found or made just above, and its shard is ours");
        if missing {
            entry.set_stamp(recency.fresh());
        } else if !no_touch {
            entry.set_stamp(recency.used(entry.stamp()));
        }
        if self.tiering.is_some() && !entry.has_flag(SyncFlags::UNSAVED) {
            entry.set_flag(SyncFlags::UNSAVED);
            tiers.changed(key, location.hash, self.now_ms);
        }
        entry.collection_mut().ok_or(CommandError::WrongType)
    }

    /// Sets a key by `put` and notes the change for the cold tier.
    #[inline]
    fn put(
        &mut self,
        key: &[u8],
        location: KeyLocation,
        put: impl FnOnce(&mut KeyTable, SyncFlags) -> Put,
    ) -> Option<Entry> {
        let Shard { keys, tiers, .. } = self.locked.get_mut(location.shard, self.space);
        if self.tiering.is_none() {
            return put(keys, SyncFlags::NONE).old;
        }
        let put = put(keys, SyncFlags::UNSAVED);
        if put.is_new {
            tiers.created(key, location.hash);
        }
        if !put.was_flagged {
            tiers.changed(key, location.hash, self.now_ms);
        }
        put.old
    }

    /// Finds a string to change its bytes in place, made empty when the key is missing.
    pub fn string_mut_or_create(&mut self, key: &[u8]) -> Result<&mut Vec<u8>, CommandError> {
        if self.entry_mut(key).is_none() {
            self.set_str(key, b"", Expiry::Clear);
        }
        let entry = self.entry_mut(key).expect("the key was found or made just above");
        entry.string_mut().ok_or(CommandError::WrongType)
    }

    /// Sets a key to a string, whatever it held.
    #[inline]
    pub fn set_str(&mut self, key: &[u8], bytes: &[u8], expiry: Expiry) {
        let location = self.locate(key);
        let at = self.expiry_for(key, location, expiry);
        if self.notify.has(Events::NEW) && !self.exists(key) {
            self.notify(Events::NEW, "new", key);
        }
        let stamp = match self.recency {
            Recency::Seconds(now_s) => now_s,
            recency => {
                let keys = &self.locked.get(location.shard, self.space).keys;
                recency.replaced(keys.get(location.hash, key).map(Entry::stamp))
            }
        };
        let old = self.put(key, location, |keys, marks| {
            keys.insert_str(location.hash, key, bytes, at, stamp, marks)
        });
        if let Some(old) = old {
            self.replaced(key, old);
        }
    }

    /// Sets a key to a value, whatever it held.
    pub fn set(&mut self, key: &[u8], value: Value, expiry: Expiry) {
        let location = self.locate(key);
        let at = self.expiry_for(key, location, expiry);
        if self.notify.has(Events::NEW) && !self.exists(key) {
            self.notify(Events::NEW, "new", key);
        }
        let old = self.put(key, location, |keys, marks| {
            keys.insert(location.hash, key, value, at, marks)
        });
        if let Some(entry) = self
            .locked
            .get(location.shard, self.space)
            .keys
            .get(location.hash, key)
        {
            entry.set_stamp(self.recency.replaced(old.as_ref().map(Entry::stamp)));
        }
        if let Some(old) = old {
            self.replaced(key, old);
        }
    }

    /// Frees the entry that a key had before. One that had expired unnoticed was missing to the command.
    #[inline]
    fn replaced(&mut self, key: &[u8], old: Entry) {
        if self.tells_effects() && self.is_expired(&old) {
            self.record_removal(key);
        }
        self.discard(old);
    }

    /// Removes a key; returns whether it was there. Large values are freed on another thread.
    #[inline]
    pub fn remove(&mut self, key: &[u8]) -> bool {
        match self.take(key) {
            Some(entry) => {
                self.discard(entry);
                true
            }
            None => false,
        }
    }

    /// Removes a key and returns its value with its expiry (RENAME).
    #[inline]
    pub fn take(&mut self, key: &[u8]) -> Option<Entry> {
        let location = self.locate(key);
        self.drop_if_expired(key, location);
        let entry = self
            .locked
            .get_mut(location.shard, self.space)
            .keys
            .remove(location.hash, key)?;
        self.note_removed(&entry, location);
        Some(entry)
    }

    /// Notes for the cold tier that a key is gone.
    #[inline]
    fn note_removed(&mut self, entry: &Entry, location: KeyLocation) {
        if self.tiering.is_some() {
            let tiers = &mut self.locked.get_mut(location.shard, self.space).tiers;
            tiers.removed(
                entry.key(),
                location.hash,
                entry.has_flag(SyncFlags::COPIED),
                self.now_ms,
            );
        }
    }

    /// Removes a key whose collection has become empty, with its `del` event; returns whether it did.
    /// Streams stay.
    pub fn remove_if_empty<T: Collection>(&mut self, key: &[u8]) -> bool {
        let empty = self
            .peek(key)
            .and_then(Entry::collection::<T>)
            .is_some_and(Collection::is_empty);
        if empty {
            self.remove(key);
            self.notify(Events::GENERIC, "del", key);
        }
        empty
    }

    /// Returns when a key expires; outer nothing when the key is missing.
    #[inline]
    pub fn expiry(&self, key: &[u8]) -> Option<Option<i64>> {
        self.live(key).map(Entry::expiry)
    }

    /// Sets or clears the expiry of a key; false when it is missing.
    #[inline]
    pub fn set_expiry(&mut self, key: &[u8], at_ms: Option<i64>) -> bool {
        let location = self.locate(key);
        self.drop_if_expired(key, location);
        let Shard { keys, tiers, .. } = self.locked.get_mut(location.shard, self.space);
        if self.tiering.is_some()
            && let Some(entry) = keys.get_mut(location.hash, key)
            && !entry.has_flag(SyncFlags::UNSAVED)
        {
            entry.set_flag(SyncFlags::UNSAVED);
            tiers.changed(key, location.hash, self.now_ms);
        }
        keys.set_expiry(location.hash, key, at_ms)
    }

    /// Frees an entry, on another thread when that takes long.
    #[inline]
    pub fn discard(&self, entry: Entry) {
        if entry.free_effort() > FREE_EFFORT_MAX {
            self.data.reclaim(Reclaimable::Entry(entry), 1);
        }
    }

    /// Notifies watching transactions, blocked clients and client-side caches of a changed key.
    #[inline]
    pub fn modified(&mut self, key: &[u8]) {
        self.changed(key, self.client_id);
    }

    /// Like [`Db::modified`], for a change by the client `by`; 0 when the key expired.
    #[inline]
    pub(crate) fn changed(&mut self, key: &[u8], by: u64) {
        self.dirty += 1;
        self.touch(key);
        if self.subscribers.tracking.is_active() && !self.replaying {
            let (subscribers, runs) = (self.subscribers, self.client_id);
            subscribers
                .tracking
                .changed(&subscribers.clients, key, by, runs, &mut self.changes);
        }
    }

    /// Notifies the transactions that watch a key and the clients that wait for it.
    #[inline]
    pub(crate) fn touch(&mut self, key: &[u8]) {
        let location = self.locate(key);
        let shard = self.locked.get_mut(location.shard, self.space);
        if !shard.watchers.is_empty()
            && let Some(flags) = shard.watchers.get(key)
        {
            flags.iter().for_each(|flag| flag.store(true, Ordering::Release));
        }
        if !shard.waiters.is_empty() && shard.waiters.contains_key(key) {
            self.ready.push(ReadyKey {
                database: self.database,
                key: key.to_vec(),
            });
        }
    }

    /// Publishes a keyspace event, when its class is switched on.
    #[inline]
    pub fn notify(&self, class: Events, event: &str, key: &[u8]) {
        if self.notify.has(class) {
            self.publish_event(event, key);
        }
    }

    fn publish_event(&self, event: &str, key: &[u8]) {
        if self.notify.has(Events::KEYSPACE) {
            let channel = [format!("__keyspace@{}__:", self.database).as_bytes(), key].concat();
            self.subscribers.pubsub.publish(&channel, event.as_bytes());
        }
        if self.notify.has(Events::KEYEVENT) {
            let channel = format!("__keyevent@{}__:{event}", self.database);
            self.subscribers.pubsub.publish(channel.as_bytes(), key);
        }
    }

    /// Returns the number of keys of the selected database. Needs every shard, like all that follow.
    pub fn len(&self) -> usize {
        self.every_shard(|shard| self.locked.get(shard, self.space).keys.len())
            .sum()
    }

    /// Returns the number of keys, those that are not in memory included.
    pub fn len_everywhere(&self) -> usize {
        self.len()
            + self
                .tiering
                .map_or(0, |tiering| tiering.cold_keys_of(self.space) as usize)
    }

    /// Returns whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Visits every live key.
    pub fn for_each(&self, mut visit: impl FnMut(&Entry)) {
        for shard in 0..self.data.shards.count() {
            let live = self
                .locked
                .get(shard, self.space)
                .keys
                .iter()
                .filter(|entry| !self.is_expired(entry));
            live.for_each(&mut visit);
        }
    }

    /// Visits some live keys; returns SCAN's next cursor.
    ///
    /// The cursor's low byte is the shard, the rest that shard's own cursor.
    pub fn scan(&self, cursor: u64, mut visit: impl FnMut(&Entry)) -> u64 {
        let (mut shard, inner) = ((cursor & 0xff) as usize, cursor >> 8);
        if shard >= self.data.shards.count() {
            return 0;
        }
        let next = self.locked.get(shard, self.space).keys.scan(inner, |entry| {
            if self.is_expired(entry) {
                self.expired.borrow_mut().push((self.space, entry.key().to_vec()));
            } else {
                visit(entry);
            }
        });
        if next != 0 {
            return next << 8 | shard as u64;
        }
        shard += 1;
        if shard == self.data.shards.count() {
            0
        } else {
            shard as u64
        }
    }

    /// Returns a live key chosen at random.
    pub fn random_key(&self) -> Option<Vec<u8>> {
        let total = self.len();
        // Expired keys are met and skipped; when nearly all are expired, giving up after many tries
        // and taking whatever comes is what Redis does too.
        for attempt in 0..100 {
            let mut at = with_thread_rng(|rng| rng.below(total));
            for shard in 0..self.data.shards.count() {
                let keys = &self.locked.get(shard, self.space).keys;
                if at >= keys.len() {
                    at -= keys.len();
                    continue;
                }
                let entry = with_thread_rng(|rng| keys.random(rng))?;
                if !self.is_expired(entry) || attempt == 99 {
                    return Some(entry.key().to_vec());
                }
                self.expired.borrow_mut().push((self.space, entry.key().to_vec()));
                break;
            }
        }
        None
    }

    /// Removes the expired keys that reads have met. Called once the handler is done.
    #[inline]
    pub fn purge_expired(&mut self) {
        if self.expired.get_mut().is_empty() {
            return;
        }
        // During a pause expired keys are missing, but stay until it ends.
        if self.data.pause.is_on() {
            self.expired.get_mut().clear();
            return;
        }
        let home = self.database;
        for (space, key) in std::mem::take(self.expired.get_mut()) {
            self.enter_space(space);
            let location = self.locate(&key);
            self.drop_if_expired(&key, location);
        }
        self.select(home);
    }

    /// Removes up to `limit` keys and fields of the held shards whose time has come; returns how many.
    pub fn expire_due(&mut self, shard: usize, limit: usize) -> usize {
        let mut removed = 0;
        while removed < limit {
            let Some(entry) = self.locked.get_mut(shard, self.space).keys.take_due(self.now_ms) else {
                break;
            };
            let location = KeyLocation {
                hash: entry.hash(),
                shard,
            };
            self.expired_entry(entry, location);
            removed += 1;
        }
        removed + self.expire_due_fields(shard, limit - removed)
    }

    /// Returns the keys of a held shard.
    pub fn keys_of(&self, shard: usize) -> &KeyTable {
        &self.locked.get(shard, self.space).keys
    }

    pub(crate) fn keys_mut_of(&mut self, shard: usize) -> &mut KeyTable {
        &mut self.locked.get_mut(shard, self.space).keys
    }

    /// Finds a key even when it has expired and was not removed yet.
    pub fn peek_expired(&self, key: &[u8]) -> Option<&Entry> {
        let location = self.locate(key);
        self.locked
            .get(location.shard, self.space)
            .keys
            .get(location.hash, key)
    }

    #[inline]
    pub fn shard_mut(&mut self, key: &[u8]) -> &mut crate::shard::Shard {
        let location = self.locate(key);
        self.locked.get_mut(location.shard, self.space)
    }

    /// Returns the held shards of all spaces, when all are held.
    pub(crate) fn held_everywhere(&self) -> impl Iterator<Item = &Shard> {
        self.locked.every()
    }

    /// Returns a held shard.
    #[inline]
    pub fn held(&self, shard: usize) -> &Shard {
        self.locked.get(shard, self.space)
    }

    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> usize {
        self.locate(key).shard
    }

    #[inline]
    pub fn tiers_of(&self, key: &[u8]) -> &ShardResidency {
        &self.locked.get(self.locate(key).shard, self.space).tiers
    }

    pub fn tiers_mut(&mut self, key: &[u8]) -> &mut ShardResidency {
        &mut self.shard_mut(key).tiers
    }

    fn every_shard<R>(&self, read: impl Fn(usize) -> R) -> impl Iterator<Item = R> {
        (0..self.data.shards.count()).map(read)
    }

    #[inline]
    fn live(&self, key: &[u8]) -> Option<&Entry> {
        let location = self.locate(key);
        let entry = self
            .locked
            .get(location.shard, self.space)
            .keys
            .get(location.hash, key)?;
        if self.is_expired(entry) {
            self.expired.borrow_mut().push((self.space, key.to_vec()));
            return None;
        }
        Some(entry)
    }

    #[inline]
    fn is_expired(&self, entry: &Entry) -> bool {
        entry.expiry().is_some_and(|at| at < self.expired_before_ms)
    }

    #[inline]
    pub(crate) fn drop_if_expired(&mut self, key: &[u8], location: KeyLocation) {
        let keys = &mut self.locked.get_mut(location.shard, self.space).keys;
        if keys.volatile() == 0 {
            return;
        }
        let before_ms = self.expired_before_ms;
        let expired = keys
            .get(location.hash, key)
            .and_then(Entry::expiry)
            .is_some_and(|at| at < before_ms);
        if expired && let Some(entry) = keys.remove(location.hash, key) {
            self.expired_entry(entry, location);
        }
    }

    fn expired_entry(&mut self, entry: Entry, location: KeyLocation) {
        self.stats.expired_keys.add(1);
        self.note_removed(&entry, location);
        let key = entry.key().to_vec();
        self.discard(entry);
        self.notify(Events::EXPIRED, "expired", &key);
        self.changed(&key, 0);
        self.forget_change();
        self.record_removal(&key);
    }

    #[inline]
    fn expiry_for(&mut self, key: &[u8], location: KeyLocation, expiry: Expiry) -> Option<i64> {
        match expiry {
            Expiry::Clear => None,
            Expiry::At(at) => Some(at),
            Expiry::Keep => {
                self.drop_if_expired(key, location);
                self.locked
                    .get(location.shard, self.space)
                    .keys
                    .get(location.hash, key)
                    .and_then(Entry::expiry)
            }
        }
    }

    #[inline]
    pub(crate) fn locate(&self, key: &[u8]) -> KeyLocation {
        let (start, length, location) = self.known;
        if std::ptr::eq(start, key.as_ptr()) && length == key.len() {
            return location;
        }
        self.data.shards.locate(key)
    }
}
