//! The keys of an engine: shards and their locks, expiry, effects, residency of tags.
//!
//! Suggested reading order: [`shard`] cuts the data by hash tag and locks it,
//! [`databases`] tells which part of it is whose, [`db`] is what one command sees,
//! [`effects`] records what commands did,
//! [`residency`] moves tags between memory and the cold tier. [`keyspace`] holds
//! the data and what surrounds it together.

pub mod databases;
pub mod db;
pub mod effects;
mod expire;
mod fields;
pub mod figures;
mod flush;
pub mod hash_tag;
pub mod keyspace;
pub mod memory;
pub mod notify;
pub mod pause;
pub mod recency;
pub mod reclaim;
pub mod residency;
pub mod shard;
pub mod stats;
mod swap;
pub mod victim;
