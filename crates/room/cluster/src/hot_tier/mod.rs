//! The tiering protocol as scripts on Redis.
//!
//! Suggested reading order: the names of keys, the scripts with their wrappers, what a run is, then the
//! batches of many tags, and the tier itself.

pub mod keys;
pub mod run;
pub mod scripts;

mod nodes;

mod batch;

mod hot;

mod doctor;
mod memory;
mod tag_info;

pub use hot::{Limits, RedisHotTier, TierPart};
pub use memory::NodeMemory;
pub use tag_info::TagInfo;
