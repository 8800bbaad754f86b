//! Whether clients are paused, and until when (CLIENT PAUSE).

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

/// Whether clients are paused, and which. While a pause lasts no expired key is removed, so that
/// nothing changes.
#[derive(Default)]
pub struct PauseState {
    mode: AtomicU8,
    until_ms: AtomicI64,
}

/// Which requests wait; the larger one is the stricter one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PauseMode {
    /// Those that may change data.
    Writes = 1,
    All = 2,
}

impl PauseState {
    /// Returns whether a pause was ordered; it may be over.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.mode.load(Ordering::Relaxed) != 0
    }

    /// Returns which requests wait now, having ended a pause that is over.
    pub fn mode_at(&self, now_ms: i64) -> Option<PauseMode> {
        if self.is_on() && self.until_ms.load(Ordering::Relaxed) <= now_ms {
            self.end();
        }
        match self.mode.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(PauseMode::Writes),
            _ => Some(PauseMode::All),
        }
    }

    /// Begins or lengthens a pause; the stricter of two counts.
    pub fn begin(&self, mode: PauseMode, until_ms: i64) {
        self.until_ms.fetch_max(until_ms, Ordering::Relaxed);
        self.mode.fetch_max(mode as u8, Ordering::Relaxed);
    }

    /// Ends the pause.
    pub fn end(&self) {
        self.mode.store(0, Ordering::Relaxed);
        self.until_ms.store(0, Ordering::Relaxed);
    }
}
