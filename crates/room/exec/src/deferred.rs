//! Work on keys that has to wait for a slow script to end.
//!
//! No thread waits for a shard that a slow script holds. Requests are refused; but
//! some work cannot be: a connection that ends leaves its waits and watches, and
//! a change may have made a key ready just before the script began. It is left
//! here, for whichever thread begins a batch first once the script has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nagaya_connections::blocking::Wait;
use nagaya_keyspace::db::ReadyKey;
use parking_lot::Mutex;

use crate::session::Watch;

/// Something to be done when the keys can be had again.
pub enum Deferred {
    /// Serve the clients that wait for a key.
    Serve(ReadyKey),
    /// Take an ended wait out of its keys' queues.
    Forget(Arc<Wait>),
    /// Take a watch off its keys.
    Unwatch(Box<Watch>),
}

/// All that is to be done later. No longer than the waits, watches and changed keys of the moment.
#[derive(Default)]
pub struct DeferredWork {
    any: AtomicBool,
    work: Mutex<Vec<Deferred>>,
}

impl DeferredWork {
    /// Leaves something for later.
    pub fn put(&self, work: Deferred) {
        let mut all = self.work.lock();
        all.push(work);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Returns whether there is anything; costs one load.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Takes everything.
    pub fn take(&self) -> Vec<Deferred> {
        let mut all = self.work.lock();
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *all)
    }
}
