//! A write-ahead log: records go in, and those that were reported durable come back.
//!
//! The records are opaque bytes. The log keeps them in order, in checksummed segment files;
//! [`Log::append`] only copies into memory, [`Log::commit`] waits for the disk as the
//! [`SyncMode`] asks, and [`Log::release`] lets go of segments that a checkpoint has made
//! needless. What a crash may lose, and how a torn end is distinguished from damage, is in `open.rs`;
//! what happens when the disk refuses is in `writer.rs`; threads and locks are in `log.rs`.
//!
//! One process uses a folder at a time: the caller holds the lock of its data folder.

mod position;

mod options;

mod error;

mod format;

mod files;

mod segment;

mod open;

mod recovery;

mod shared;

mod tail;

mod writer;

mod log;

mod flusher;

mod inspect;

mod salvage;

#[cfg(any(test, feature = "faults"))]
pub mod faults;

pub use error::{Damage, DiskOperation, Failure, LogError, OpenError};
pub use files::{File, Files, OsFiles, ReadOnlyFiles};
pub use format::RECORD_BYTES_MAX;
pub use inspect::{Inspection, discard, inspect};
pub use log::Log;
pub use open::{TornReason, TornTail};
pub use options::{Options, SyncMode};
pub use position::Position;
pub use recovery::Recovery;
pub use salvage::{Salvaged, salvage};
pub use shared::{Segment, State};
