//! Settings of a log.

use std::time::Duration;

use crate::position::Position;

/// When records reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// [`Log::commit`](crate::Log::commit) returns after the disk has confirmed; callers that
    /// come together share one confirmation.
    Always,
    /// [`Log::commit`](crate::Log::commit) returns after the system has the bytes: they survive
    /// the process. The disk gets them within [`Options::sync_every`] and the time its
    /// confirmation takes.
    EverySecond,
    /// As before, but the system writes them to the disk when it likes; the disk confirms
    /// only full segments and the closing of the log.
    No,
}

/// The settings of a log. All but the mode and the memory stay as they are while it is open.
#[derive(Clone, Debug)]
pub struct Options {
    /// When records reach the disk; see [`Log::set_mode`](crate::Log::set_mode).
    pub mode: SyncMode,
    /// A segment takes no further record once it would grow past this. A longer record gets
    /// a segment of its own.
    pub segment_bytes: u64,
    /// How much memory the records may take that are not yet safe. An append that finds no
    /// room waits for the disk. See [`Log::set_buffer_bytes_max`](crate::Log::set_buffer_bytes_max).
    pub buffer_bytes_max: u64,
    /// The flusher writes at once when this much waits for it.
    pub write_bytes: usize,
    /// The longest time that a record which nobody commits stays in memory only.
    pub write_every: Duration,
    /// The pace of [`SyncMode::EverySecond`].
    pub sync_every: Duration,
    /// New positions start here at the lowest, even when the files end earlier: a checkpoint
    /// kept elsewhere may know higher positions than a log whose files were lost.
    pub start_at_least: Position,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: SyncMode::EverySecond,
            segment_bytes: 64 << 20,
            buffer_bytes_max: 64 << 20,
            write_bytes: 1 << 20,
            write_every: Duration::from_millis(50),
            sync_every: Duration::from_secs(1),
            start_at_least: Position::ZERO,
        }
    }
}
