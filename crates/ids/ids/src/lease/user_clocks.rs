//! The clocks that a number's user reads, as far as its holder can tell.

use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::{BootClock, Clock};

use crate::id_clock::IdClock;
use crate::lease::holder::{HolderOptions, Usage};
use crate::lease::state_dir::Saved;

/// How far a wall clock may fall behind without counting as set back: it is read beside the boot clock, not
/// together with it.
const OFFSET_TOLERANCE_MS: u64 = 10;

/// What stamps ids with a number: the mint of this process by its own clock, or a command by the wall clock.
pub(super) struct UserClocks {
    usage: Usage,
    boot: Arc<dyn BootClock>,
    id_clock: IdClock,
    wall: Arc<dyn Clock>,
    skew: Duration,
    /// The highest wall clock seen while a command may have the number.
    pub(super) high_ms: u64,
}

impl UserClocks {
    pub(super) fn new(options: &HolderOptions) -> UserClocks {
        UserClocks {
            usage: options.usage,
            boot: Arc::clone(&options.clock),
            id_clock: options.id_clock,
            wall: Arc::clone(&options.wall),
            skew: options.timing.skew,
            high_ms: 0,
        }
    }

    /// Returns the clock that the user stamps ids with, and the highest that it has shown.
    pub(super) fn read_ms(&self) -> (u64, u64) {
        match self.usage {
            Usage::Ids => {
                let now_ms = self.id_clock.unix_ms(self.boot.now());
                (now_ms, now_ms)
            }
            Usage::Command => (self.wall_ms(), self.wall_ms().max(self.high_ms)),
        }
    }

    pub(super) fn wall_ms(&self) -> u64 {
        u64::try_from(self.wall.unix_ms()).unwrap_or(0)
    }

    /// Returns how far the wall clock is ahead of the boot clock; 0 means that it was never looked at.
    pub(super) fn offset_ms(&self, wall_ms: u64) -> u64 {
        wall_ms.saturating_sub(self.boot.now().as_millis()).max(1)
    }

    /// Returns whether the wall clock was set back since a command had the number.
    pub(super) fn was_set_back(&self, saved: &Saved) -> bool {
        self.offset_ms(self.wall_ms()) + OFFSET_TOLERANCE_MS < saved.offset_ms
    }

    /// Returns how far a command's clock may be ahead of what is seen here.
    pub(super) fn skew_ms(&self) -> u64 {
        u64::try_from(self.skew.as_millis()).unwrap_or(u64::MAX)
    }
}
