//! Which clients may have which key cached.
//!
//! Stripes of their own locks, taken under the shard locks of a command: the
//! table can then be bounded as a whole without taking any further shard.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nagaya_store::hasher::hash_bytes;
use nagaya_store::rng::with_thread_rng;
use nagaya_store::table::{Keyed, Table};
use parking_lot::Mutex;

use crate::tracking::tracker::Tracker;

/// Parts of the table that are locked on their own.
const STRIPES: usize = 64;

pub(crate) struct KeyTable {
    stripes: [Mutex<Table<TrackedKey>>; STRIPES],
    keys: AtomicUsize,
    items: AtomicUsize,
}

/// One pointer wide, as the table wants its items.
struct TrackedKey(Box<Caching>);

/// A key and who may have it.
pub(crate) struct Caching {
    pub(crate) key: Box<[u8]>,
    /// Sorted by the client's number.
    pub(crate) trackers: Vec<Arc<Tracker>>,
}

impl Keyed for TrackedKey {
    fn key(&self) -> &[u8] {
        &self.0.key
    }
}

impl Default for KeyTable {
    fn default() -> KeyTable {
        KeyTable {
            stripes: std::array::from_fn(|_| Mutex::default()),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
        }
    }
}

impl KeyTable {
    /// Remembers that a client may have a key.
    pub(crate) fn remember(&self, key: &[u8], tracker: &Arc<Tracker>) {
        let hash = hash_bytes(key);
        let mut stripe = self.stripe(hash).lock();
        let Some(known) = stripe.find_mut(hash, key) else {
            let caching = Caching {
                key: key.into(),
                trackers: vec![Arc::clone(tracker)],
            };
            stripe.insert_unique(hash, TrackedKey(Box::new(caching)));
            self.keys.fetch_add(1, Ordering::Relaxed);
            self.items.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let by_id = |other: &Arc<Tracker>| other.client.id.cmp(&tracker.client.id);
        match known.0.trackers.binary_search_by(by_id) {
            // The same client may have stopped and begun anew: its old self hears nothing.
            Ok(at) => known.0.trackers[at] = Arc::clone(tracker),
            Err(at) => {
                known.0.trackers.insert(at, Arc::clone(tracker));
                self.items.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Forgets a key; returns who may have it.
    pub(crate) fn take(&self, key: &[u8]) -> Option<Vec<Arc<Tracker>>> {
        let hash = hash_bytes(key);
        let mut stripe = self.stripe(hash).lock();
        let taken = stripe.remove(hash, key)?;
        self.uncount(&taken);
        Some(taken.0.trackers)
    }

    /// Forgets a key chosen at random; returns it with who may have it.
    pub(crate) fn take_random(&self) -> Option<Box<Caching>> {
        let start = with_thread_rng(|rng| rng.below(STRIPES));
        for at in 0..STRIPES {
            let mut stripe = self.stripes[(start + at) % STRIPES].lock();
            let chosen = with_thread_rng(|rng| stripe.random(rng).map(|item| item.0.key.clone()));
            if let Some(key) = chosen
                && let Some(taken) = stripe.remove(hash_bytes(&key), &key)
            {
                self.uncount(&taken);
                return Some(taken.0);
            }
        }
        None
    }

    /// Forgets all keys.
    pub(crate) fn clear(&self) {
        for stripe in &self.stripes {
            let old = std::mem::take(&mut *stripe.lock());
            old.iter().for_each(|item| self.uncount(item));
        }
    }

    /// Returns how many keys are remembered.
    pub(crate) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// Returns how many pairs of a key and a client are remembered.
    pub(crate) fn items(&self) -> usize {
        self.items.load(Ordering::Relaxed)
    }

    /// The stripe of a hash: by its middle bits, since a table uses the low and the topmost ones.
    fn stripe(&self, hash: u64) -> &Mutex<Table<TrackedKey>> {
        &self.stripes[(hash >> 40) as usize % STRIPES]
    }

    fn uncount(&self, taken: &TrackedKey) {
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.items.fetch_sub(taken.0.trackers.len(), Ordering::Relaxed);
    }
}
