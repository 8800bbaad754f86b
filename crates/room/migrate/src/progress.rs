use std::sync::atomic::{AtomicU64, Ordering};

/// How far a run is, for the bar that shows it.
#[derive(Debug, Default)]
pub struct Progress {
    bytes: AtomicU64,
    keys: AtomicU64,
}

impl Progress {
    /// Returns how many bytes of the file have been read.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns how many keys are done.
    pub fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_keys(&self, keys: u64) {
        self.keys.fetch_add(keys, Ordering::Relaxed);
    }
}
