//! Sessions, ACL checks, dispatch, transactions and scripts.
//!
//! Suggested reading order: [`executor`] is what one thread keeps between
//! commands and [`server`] what all threads share; [`dispatch`] takes a request
//! of a [`session`] through its checks, locks the shards of its keys and calls
//! the handler that [`entry`] pairs with the command, with a [`ctx::Ctx`].
//! [`blocked`] runs the commands of clients that waited for a key.

pub mod config;
pub mod ctx;
pub mod dispatch;
pub mod entry;
pub mod executor;
pub mod server;
pub mod session;

pub mod admission;
mod batch;
pub mod blocked;
pub mod closing;
pub mod cold_ask;
mod connection;
pub mod deferred;
mod eviction;
pub mod help;
mod journal;
pub mod latency;
pub mod monitor;
mod paused;
pub mod rates;
mod redact;
pub mod redis_version;
pub mod replay;
mod residency_check;
pub mod scripts;
pub mod settings;
pub mod slowlog;
pub mod stats;
pub mod subscriptions;
pub mod tracking;
pub mod transaction;
pub mod users;
