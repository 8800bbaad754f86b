//! Client-side caching: telling clients when the keys that they keep change.
//!
//! A tracking client is remembered, under the shard locks of the read, with
//! every key that its read-only commands name ([`table`]); the first change of
//! such a key takes the memory away and sends an invalidation. A client in
//! broadcast mode names prefixes instead and hears of every change under them;
//! the keys that one command, transaction or script changed come in one message
//! per prefix. While no client tracks, this is nearly free: a change costs one relaxed load
//! then, a read a null check.
//!
//! Messages go to the mailbox of the tracking client or of the one it redirects
//! to, and those that a command causes for its own client are held back until
//! that command's reply is on its way ([`PendingInvalidations`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::registry::ClientRegistry;

mod message;
mod table;
mod tracker;

use message::{Invalid, Sender};
use table::KeyTable;
pub use tracker::Tracker;
pub use tracker::TrackerInfo;

type Trackers = HashMap<u64, Arc<Tracker>, ahash::RandomState>;

/// Which client caches which keys.
#[derive(Default)]
pub struct Tracking {
    /// How many clients track; what a change looks at before anything else.
    active: AtomicUsize,
    /// All clients that track. Switching the first on and the last off happens under this lock.
    trackers: Mutex<Trackers>,
    table: KeyTable,
    /// Clients in broadcast mode, by prefix.
    prefixes: RwLock<BTreeMap<Box<[u8]>, Trackers>>,
    prefix_count: AtomicUsize,
}

/// What INFO tells about client-side caching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackingStats {
    pub clients: usize,
    pub keys: usize,
    /// Pairs of a key and a client.
    pub items: usize,
    pub prefixes: usize,
}

/// Invalidations that wait for the end of the command that caused them.
#[derive(Default)]
pub struct PendingInvalidations {
    /// For the client that runs the command.
    own: Vec<SelfInvalidation>,
    /// Keys to broadcast, each with the client that changed it last (0: it expired).
    broadcast: BTreeMap<Box<[u8]>, u64>,
}

/// A message for the client that runs a command.
struct SelfInvalidation {
    tracker: Arc<Tracker>,
    /// Nothing stands for all keys.
    key: Option<Box<[u8]>>,
}

impl PendingInvalidations {
    pub fn join(into: &mut Option<Box<PendingInvalidations>>, more: Box<PendingInvalidations>) {
        match into {
            None => *into = Some(more),
            Some(all) => {
                all.own.extend(more.own);
                all.broadcast.extend(more.broadcast);
            }
        }
    }
}

impl Tracking {
    /// Remembers that a client has read a key. The caller holds the key's shard.
    pub fn remember(&self, key: &[u8], tracker: &Arc<Tracker>) {
        self.table.remember(key, tracker);
    }

    /// Returns whether any client tracks.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed) > 0
    }

    /// Invalidates a key that `by` changed (0: it expired) in a command of the client `runs`. The
    /// caller holds the key's shard.
    pub fn changed(
        &self,
        clients: &ClientRegistry,
        key: &[u8],
        by: u64,
        runs: u64,
        changes: &mut Option<Box<PendingInvalidations>>,
    ) {
        if self.prefix_count.load(Ordering::Relaxed) > 0 && self.is_broadcast(key) {
            let changes = changes.get_or_insert_default();
            changes.broadcast.insert(key.into(), by);
        }
        let Some(trackers) = self.table.take(key) else {
            return;
        };
        let keys = [key];
        let mut sender = Sender::new(clients, Invalid::Keys(&keys));
        for tracker in trackers {
            let own = tracker.client.id == runs;
            if !tracker.wants_keys() || (own && tracker.is_noloop()) {
                continue;
            }
            if own {
                let changes = changes.get_or_insert_default();
                let key = Some(key.into());
                changes.own.push(SelfInvalidation { tracker, key });
            } else {
                sender.send(&tracker);
            }
        }
    }

    /// Invalidates everything because of a flush by the client `runs`. The caller holds all shards.
    pub fn flushed(
        &self,
        clients: &ClientRegistry,
        runs: u64,
        changes: &mut Option<Box<PendingInvalidations>>,
    ) {
        let mut sender = Sender::new(clients, Invalid::Everything);
        for tracker in self.trackers.lock().values() {
            if tracker.client.id == runs {
                let changes = changes.get_or_insert_default();
                let tracker = Arc::clone(tracker);
                changes.own.push(SelfInvalidation { tracker, key: None });
            } else {
                sender.send(tracker);
            }
        }
        self.table.clear();
    }

    /// Sends what waited for the end of a command.
    pub fn send(&self, clients: &ClientRegistry, changes: &PendingInvalidations) {
        for SelfInvalidation { tracker, key } in &changes.own {
            match key {
                Some(key) => Sender::new(clients, Invalid::Keys(&[key])).send(tracker),
                None => Sender::new(clients, Invalid::Everything).send(tracker),
            }
        }
        if changes.broadcast.is_empty() {
            return;
        }
        for (prefix, trackers) in self.prefixes.read().iter() {
            let under = changes
                .broadcast
                .iter()
                .filter(|(key, _)| key.starts_with(prefix));
            let under: Vec<(&[u8], u64)> = under.map(|(key, by)| (&**key, *by)).collect();
            let keys: Vec<&[u8]> = under.iter().map(|(key, _)| *key).collect();
            if keys.is_empty() {
                continue;
            }
            let mut sender = Sender::new(clients, Invalid::Keys(&keys));
            for (id, tracker) in trackers {
                if !tracker.is_noloop() {
                    sender.send(tracker);
                    continue;
                }
                let others = under.iter().filter(|(_, by)| by != id);
                let others: Vec<&[u8]> = others.map(|(key, _)| *key).collect();
                if !others.is_empty() {
                    Sender::new(clients, Invalid::Keys(&others)).send(tracker);
                }
            }
        }
    }

    /// Tells those who remembered a key that it changed somewhere else.
    pub fn changed_elsewhere(&self, clients: &ClientRegistry, key: &[u8]) {
        let Some(trackers) = self.table.take(key) else {
            return;
        };
        let keys = [key];
        let mut sender = Sender::new(clients, Invalid::Keys(&keys));
        let wanting = trackers.iter().filter(|tracker| tracker.wants_keys());
        wanting.for_each(|tracker| sender.send(tracker));
    }

    /// Broadcasts keys that changed somewhere else to those of the clients that `is_meant` names.
    pub fn broadcast_elsewhere(
        &self,
        clients: &ClientRegistry,
        keys: &[&[u8]],
        is_meant: impl Fn(u64) -> bool,
    ) {
        for (prefix, trackers) in self.prefixes.read().iter() {
            let under = keys.iter().filter(|key| key.starts_with(prefix));
            let under: Vec<&[u8]> = under.copied().collect();
            if under.is_empty() {
                continue;
            }
            let mut sender = Sender::new(clients, Invalid::Keys(&under));
            let meant = trackers.iter().filter(|(id, _)| is_meant(**id));
            meant.for_each(|(_, tracker)| sender.send(tracker));
        }
    }

    /// Tells those of the clients that `is_meant` names that nothing they keep is valid any more.
    pub fn lost_elsewhere(&self, clients: &ClientRegistry, is_meant: impl Fn(u64) -> bool) {
        let mut sender = Sender::new(clients, Invalid::Everything);
        let trackers = self.trackers.lock();
        let meant = trackers.iter().filter(|(id, _)| is_meant(**id));
        meant.for_each(|(_, tracker)| sender.send(tracker));
    }

    /// Forgets keys until no more than `keys_max` (0: any number) are left, `evictions_max` at most;
    /// clients that may have one of them cached are told.
    pub fn trim(&self, clients: &ClientRegistry, keys_max: usize, evictions_max: usize) {
        if keys_max == 0 {
            return;
        }
        for _ in 0..evictions_max {
            if self.table.keys() <= keys_max {
                return;
            }
            let Some(forgotten) = self.table.take_random() else {
                return;
            };
            let keys = [&*forgotten.key];
            let mut sender = Sender::new(clients, Invalid::Keys(&keys));
            let wanting = forgotten.trackers.iter().filter(|tracker| tracker.wants_keys());
            wanting.for_each(|tracker| sender.send(tracker));
        }
    }

    fn is_broadcast(&self, key: &[u8]) -> bool {
        self.prefixes.read().keys().any(|prefix| key.starts_with(prefix))
    }

    pub fn enroll(&self, tracker: &Arc<Tracker>) {
        let mut trackers = self.trackers.lock();
        trackers.insert(tracker.client.id, Arc::clone(tracker));
        self.active.store(trackers.len(), Ordering::Relaxed);
    }

    pub fn dismiss(&self, tracker: &Arc<Tracker>, prefixes: &BTreeSet<Vec<u8>>) {
        tracker.switch_off();
        for prefix in prefixes {
            self.remove_prefix(prefix, tracker.client.id);
        }
        let mut trackers = self.trackers.lock();
        trackers.remove(&tracker.client.id);
        self.active.store(trackers.len(), Ordering::Relaxed);
        // A change is not looked up any more, so what is remembered would only grow old. A client that
        // wants to track meanwhile waits for the lock, so nothing of its is lost.
        if trackers.is_empty() {
            self.table.clear();
        }
    }

    pub fn add_prefix(&self, prefix: &[u8], tracker: &Arc<Tracker>) {
        let mut prefixes = self.prefixes.write();
        let trackers = prefixes.entry(prefix.into()).or_default();
        trackers.insert(tracker.client.id, Arc::clone(tracker));
        self.prefix_count.store(prefixes.len(), Ordering::Relaxed);
    }

    fn remove_prefix(&self, prefix: &[u8], id: u64) {
        let mut prefixes = self.prefixes.write();
        if let Some(trackers) = prefixes.get_mut(prefix) {
            trackers.remove(&id);
            if trackers.is_empty() {
                prefixes.remove(prefix);
            }
        }
        self.prefix_count.store(prefixes.len(), Ordering::Relaxed);
    }
}

impl Tracking {
    /// Returns what INFO tells about client-side caching.
    pub fn stats(&self) -> TrackingStats {
        TrackingStats {
            clients: self.active.load(Ordering::Relaxed),
            keys: self.table.keys(),
            items: self.table.items(),
            prefixes: self.prefix_count.load(Ordering::Relaxed),
        }
    }

    /// Returns how a client tracks, for CLIENT LIST; nothing when it does not.
    pub fn info_of(&self, client: u64) -> Option<TrackerInfo> {
        self.trackers.lock().get(&client).map(|tracker| tracker.info())
    }
}
