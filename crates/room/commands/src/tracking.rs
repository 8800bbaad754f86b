//! Client-side caching: telling clients when the keys that they keep change.
//!
//! A tracking client is remembered, under the shard locks of the read, with
//! every key that its read-only commands name ([`table`]); the first change of
//! such a key takes the memory away and sends an invalidation. A client in
//! broadcast mode names prefixes instead and hears of every change under them;
//! the keys that one command, transaction or script changed come in one message
//! per prefix. Nobody pays while nobody tracks: a change costs one relaxed load
//! then, a read a null check.
//!
//! Messages go to the mailbox of the tracking client or of the one it redirects
//! to, and those that a command causes for its own client are held back until
//! that command's reply is on its way ([`Changes`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nagaya_resp::Args;
use parking_lot::{Mutex, RwLock};

use crate::client::Client;
use crate::clients::Clients;
use crate::command_table::Command;
use crate::dispatch::Core;
use crate::keyfind::each_key;
use crate::server::Server;
use crate::spec::{Category, READONLY};

mod message;
mod table;
#[cfg(test)]
mod tests;
mod tracker;

use message::{Invalid, Sender};
use table::KeyTable;
pub(crate) use tracker::Tracker;
pub use tracker::TrackerInfo;

/// Most keys forgotten after one command while there are more than the limit allows.
const EVICTIONS_PER_COMMAND: usize = 100;

type Trackers = HashMap<u64, Arc<Tracker>, ahash::RandomState>;

/// Who caches what.
#[derive(Default)]
pub(crate) struct Tracking {
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

/// How a client tracks, kept by its own thread. A client that does not track has none.
pub(crate) struct ClientTracking {
    pub(crate) tracker: Arc<Tracker>,
    pub(crate) mode: Mode,
    /// CLIENT CACHING was called for the next command.
    pub(crate) caching: bool,
    /// What the client hears of in broadcast mode.
    pub(crate) prefixes: BTreeSet<Vec<u8>>,
    /// While a script runs: whether it has read anything.
    pub(crate) script_reads: Option<bool>,
}

/// Which reads of a client are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Every,
    /// Those that CLIENT CACHING YES announces.
    OptIn,
    /// All but those that CLIENT CACHING NO announces.
    OptOut,
    /// None: changes are broadcast by prefix.
    Broadcast,
}

/// Invalidations that wait for the end of the command that caused them.
#[derive(Default)]
pub(crate) struct Changes {
    /// For the client that runs the command.
    own: Vec<Own>,
    /// Keys to broadcast, each with the client that changed it last (0: nobody, it expired).
    broadcast: BTreeMap<Box<[u8]>, u64>,
}

/// A message for the client that runs a command.
struct Own {
    tracker: Arc<Tracker>,
    /// Nothing stands for all keys.
    key: Option<Box<[u8]>>,
}

impl Changes {
    fn join(into: &mut Option<Box<Changes>>, more: Box<Changes>) {
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
    /// Tells whether anybody tracks.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed) > 0
    }

    /// Invalidates a key that `by` changed (0: it expired) in a command of the client `runs`. The
    /// caller holds the key's shard.
    pub(crate) fn changed(
        &self,
        clients: &Clients,
        key: &[u8],
        by: u64,
        runs: u64,
        changes: &mut Option<Box<Changes>>,
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
                changes.own.push(Own { tracker, key });
            } else {
                sender.send(&tracker);
            }
        }
    }

    /// Invalidates everything because of a flush by the client `runs`. The caller holds all shards.
    pub(crate) fn flushed(&self, clients: &Clients, runs: u64, changes: &mut Option<Box<Changes>>) {
        let mut sender = Sender::new(clients, Invalid::Everything);
        for tracker in self.trackers.lock().values() {
            if tracker.client.id == runs {
                let changes = changes.get_or_insert_default();
                let tracker = Arc::clone(tracker);
                changes.own.push(Own { tracker, key: None });
            } else {
                sender.send(tracker);
            }
        }
        self.table.clear();
    }

    /// Sends what waited for the end of a command.
    fn send(&self, clients: &Clients, changes: &Changes) {
        for Own { tracker, key } in &changes.own {
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

    /// Forgets keys until no more than `keys_max` (0: any number) are left, `evictions_max` at most;
    /// whoever may have one of them cached is told.
    fn trim(&self, clients: &Clients, keys_max: usize, evictions_max: usize) {
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

    pub(crate) fn enroll(&self, tracker: &Arc<Tracker>) {
        let mut trackers = self.trackers.lock();
        trackers.insert(tracker.client.id, Arc::clone(tracker));
        self.active.store(trackers.len(), Ordering::Relaxed);
    }

    fn dismiss(&self, tracker: &Arc<Tracker>, prefixes: &BTreeSet<Vec<u8>>) {
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

    pub(crate) fn add_prefix(&self, prefix: &[u8], tracker: &Arc<Tracker>) {
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

impl Server {
    /// Returns what INFO tells about client-side caching.
    pub fn tracking_stats(&self) -> TrackingStats {
        TrackingStats {
            clients: self.tracking.active.load(Ordering::Relaxed),
            keys: self.tracking.table.keys(),
            items: self.tracking.table.items(),
            prefixes: self.tracking.prefix_count.load(Ordering::Relaxed),
        }
    }

    /// Returns how a client tracks, for CLIENT LIST; nothing when it does not.
    pub fn tracker_info(&self, client: u64) -> Option<TrackerInfo> {
        self.tracking
            .trackers
            .lock()
            .get(&client)
            .map(|tracker| tracker.info())
    }
}

impl Core<'_> {
    /// Takes over the invalidations that wait for the end of the current command.
    #[inline]
    pub(crate) fn keep_changes(&mut self, changes: Option<Box<Changes>>) {
        if let Some(changes) = changes {
            Changes::join(&mut self.changes, changes);
        }
    }

    /// Sends the invalidations that waited for the end of a command. No shard is held.
    #[inline]
    pub(crate) fn send_changes(&mut self) {
        if let Some(changes) = self.changes.take() {
            self.server.tracking.send(&self.server.clients, &changes);
        }
    }

    /// Remembers the keys that a tracking client has just read. The keys' shards are still held, so no
    /// change can slip in between.
    pub(crate) fn track_reads(&mut self, client: &mut Client, command: &Command, args: &Args<'_>) {
        let Some(tracking) = &mut client.tracking else {
            return;
        };
        if is_script(command) {
            // All declared keys of a script count as read, once it has read anything.
            if tracking.script_reads.take() != Some(true) {
                return;
            }
        } else if !command.spec.flags.has(READONLY) {
            return;
        } else if let Some(reads) = &mut tracking.script_reads {
            *reads = true;
            return;
        }
        let wanted = match tracking.mode {
            Mode::Every => true,
            Mode::OptIn => tracking.caching,
            Mode::OptOut => !tracking.caching,
            Mode::Broadcast => false,
        };
        if !wanted {
            return;
        }
        let shared = &self.server.tracking;
        // Arguments whose keys cannot be told made the command fail: it read nothing.
        let found = each_key(command.spec, args, |at, _| {
            shared.table.remember(&args[at], &tracking.tracker)
        });
        if found.is_ok() {
            let keys_max = self.config.tracking_table_max_keys;
            shared.trim(&self.server.clients, keys_max, EVICTIONS_PER_COMMAND);
        }
    }

    /// Forgets tracked keys until the table fits a limit that was lowered.
    pub(crate) fn trim_tracking(&self) {
        let keys_max = self.config.tracking_table_max_keys;
        self.server
            .tracking
            .trim(&self.server.clients, keys_max, usize::MAX);
    }
}

/// Notes that a tracking client's script begins.
pub(crate) fn begin_call(client: &mut Client, command: &Command) {
    if let Some(tracking) = &mut client.tracking
        && is_script(command)
    {
        tracking.script_reads = Some(false);
    }
}

/// Ends what CLIENT CACHING announced: it holds for one command, or one transaction.
pub(crate) fn end_request(client: &mut Client, command: Option<&Command>) {
    let in_transaction = client.transaction.is_some();
    let Some(tracking) = &mut client.tracking else {
        return;
    };
    let is_client = command.is_some_and(|command| command.full_name.starts_with("client|"));
    if !in_transaction && !is_client {
        tracking.caching = false;
    }
}

/// Stops a client's tracking (CLIENT TRACKING OFF, RESET, disconnect).
pub(crate) fn disable(server: &Server, client: &mut Client) {
    if let Some(tracking) = client.tracking.take() {
        server.tracking.dismiss(&tracking.tracker, &tracking.prefixes);
    }
}

fn is_script(command: &Command) -> bool {
    command.spec.acl.has(Category::SCRIPTING)
}
