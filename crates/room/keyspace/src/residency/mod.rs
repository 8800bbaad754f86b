//! Which tags are in memory, which have changed, and how they come and go.
//!
//! The tiering protocol of `nagaya-tiering` in its embedded form: the shard's lock
//! stands for the scripts, one process for the leases. What is left of the
//! protocol is this:
//!
//! - *Touch*: before a command runs, the tags of its keys must be resident; a
//!   tag that is not is loaded first while the client waits (`load.rs`).
//! - *Register*: a command that gets a key to change it marks it unsaved and
//!   queues its tag, under the lock, before the change (`db.rs`).
//! - *Save*: a snapshot takes all unsaved keys of a tag under the lock, with the
//!   position of the write-ahead log as its version (`save.rs`).
//! - *Evict*: a tag leaves memory under the lock, only when all of it is saved
//!   and no snapshot is on its way (`evict.rs`).
//!
//! Nothing here starts a thread or reads a file: loads are ordered through a
//! channel, and the engine's threads call the rest.

pub mod ask;
pub mod cursors;
pub mod evict;
pub mod load;
pub mod queue;
pub mod save;
pub mod shard;
pub mod statistics;
pub mod survey;
pub mod tiering;
pub mod walk;

pub use ask::reply_to;
pub use cursors::{Cursors, Found};
pub use evict::{EvictionBlocker, Residency};
pub use queue::NameQueue;
pub use save::Taken;
pub use shard::ShardResidency;
pub use statistics::{TagStatistics, WalkPlace};
pub use survey::{KeyFigures, TagError, TagFigures, TagOrder, TagPlace};
pub use tiering::{ColdRequest, Counters, Flush, GENERATION, LOAD_BOUNDS_US, LoadOrder, LogEnd, Tiering};
pub use walk::Walk;
