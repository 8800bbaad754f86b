//! In-memory values and the keyspace of one shard.
//!
//! Pure data structures: no I/O, no clock, no protocol. Small collections live
//! in Redis's own compact byte formats, so that a DUMP of them is a copy.

pub mod limits;
pub mod rng;

pub mod hasher;
pub mod table;

mod compact_vec;
pub mod listpack;

pub mod blob;
pub mod intset;

pub mod list;

pub mod hash;
pub mod set;

pub mod rank_tree;
pub mod zset;

pub mod stream;

pub mod geo;
pub mod hll;

pub mod entry;
pub mod key_table;
pub mod value;

pub mod rdb;
