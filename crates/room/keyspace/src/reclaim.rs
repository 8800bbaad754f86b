//! Frees large values off the request path.

use nagaya_store::entry::Entry;
use nagaya_store::key_table::KeyTable;

/// Takes values that are too large to free while a client waits.
pub trait Reclaimer: Send + Sync {
    /// Frees the values, some time, somewhere else.
    fn reclaim(&self, garbage: Reclaimable);
}

/// Something large to be dropped off the request path.
pub enum Reclaimable {
    Entry(Entry),
    Keys(KeyTable),
}

/// Frees at once; for tests and tools.
pub struct ReclaimInline;

impl Reclaimer for ReclaimInline {
    fn reclaim(&self, garbage: Reclaimable) {
        drop(garbage);
    }
}
