//! Work on keys that has to wait for a slow script to end.
//!
//! Nobody waits for a shard that a slow script holds. Requests are refused; but
//! some work cannot be: a connection that ends leaves its waits and watches, and
//! a change may have made a key ready just before the script began. It is left
//! here, for whichever thread begins a batch first once the script has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::blocking::Wait;
use crate::client::Watch;

/// Something to be done when the keys can be had again.
pub(crate) enum Postponed {
    /// Serve those who wait for a key.
    Serve(Vec<u8>),
    /// Take an ended wait out of its keys' queues.
    Forget(Arc<Wait>),
    /// Take a watch off its keys.
    Unwatch(Box<Watch>),
}

/// All that is to be done later. No longer than the waits, watches and changed keys of the moment.
#[derive(Default)]
pub(crate) struct PostponedWork {
    any: AtomicBool,
    work: Mutex<Vec<Postponed>>,
}

impl PostponedWork {
    /// Leaves something for later.
    pub(crate) fn put(&self, work: Postponed) {
        let mut all = self.work.lock();
        all.push(work);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Tells whether there is anything; costs one load.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Takes everything.
    pub(crate) fn take(&self) -> Vec<Postponed> {
        let mut all = self.work.lock();
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *all)
    }
}
