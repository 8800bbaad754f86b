//! The command table and its handlers, free of sockets, threads and runtimes.
//!
//! Suggested reading order: a request is looked up in [`table`], admitted and
//! run by [`dispatch`], which locks the shards of its keys ([`shard`]) and
//! calls the handler with a [`ctx::Ctx`]; the handler works on a [`db::Db`] and
//! writes its reply. Family files hold nothing but commands.

pub mod entry;
pub mod table;

mod admission;
mod batch;
pub mod client;
pub mod clock;
mod closing;
pub mod config;
mod connection;
pub mod ctx;
pub mod db;
pub mod dispatch;
pub mod effects;
pub mod executor;
mod expire;
mod journal;
pub mod replay;
pub mod server;
pub mod shard;
mod subscriptions;
mod victim;

mod client_tracking;
mod cold_ask;
pub mod counter;
mod eviction;
mod help;
pub mod keyspace;
mod latency;
mod members;
mod memory;
mod monitor;
mod notify;
mod pause;
mod paused;
mod postponed;
pub mod pubsub;
mod rates;
mod recency;
pub mod reclaim;
mod redact;
mod residency_check;
mod serving;
mod settings;
mod slowlog;
pub mod stats;
pub mod tiering;

mod admin;
mod bitmap;
pub mod compat;
mod function;
mod geo;
mod hash;
mod hll;
mod keys;
mod list;
pub mod scripting;
mod set;
mod stream;
mod string;
mod transaction;
mod transaction_state;
mod zset;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

// Names that the engine and the proxy still take from here.
pub use nagaya_command_spec::{glob, key_positions as keyfind, spec};
