//! The command table and its handlers, free of sockets, threads and runtimes.
//!
//! Suggested reading order: a request is looked up in [`table`], admitted and
//! run by [`dispatch`], which locks the shards of its keys ([`shard`]) and
//! calls the handler with a [`ctx::Ctx`]; the handler works on a [`db::Db`] and
//! writes its reply. Family files hold nothing but commands.

pub mod command_table;
pub mod entry;
pub mod spec;
pub mod table;

mod acl;
mod batch;
pub mod client;
pub mod clients;
pub mod clock;
pub mod config;
mod connection;
pub mod ctx;
pub mod db;
pub mod dispatch;
pub mod effects;
pub mod error;
pub mod executor;
mod expire;
mod journal;
pub mod replay;
pub mod server;
pub mod shard;
mod victim;

mod blocking;
pub mod client_shared;
mod client_tracking;
mod cold_ask;
pub mod cold_query;
pub mod counter;
mod eviction;
pub mod glob;
mod help;
pub mod keyfind;
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
pub mod subscribers;
pub mod tiering;
pub mod tracking;

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
