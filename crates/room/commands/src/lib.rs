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
mod closing;
pub mod config;
mod connection;
pub mod ctx;
pub mod dispatch;
pub mod executor;
mod journal;
pub mod replay;
pub mod server;
mod subscriptions;

mod client_tracking;
mod cold_ask;
mod eviction;
mod help;
mod latency;
mod members;
mod monitor;
mod paused;
mod postponed;
pub mod pubsub;
mod rates;
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
pub use nagaya_clock as clock;
pub use nagaya_command_spec::{glob, key_positions as keyfind, spec};
pub use nagaya_keyspace::{effects, reclaim, shard};
