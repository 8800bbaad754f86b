//! The command table and its handlers, free of sockets, threads and runtimes.
//!
//! Suggested reading order: a request is looked up in [`table`], admitted and
//! run by [`dispatch`], which locks the shards of its keys ([`shard`]) and
//! calls the handler with a [`ctx::Ctx`]; the handler works on a [`db::Db`] and
//! writes its reply. Family files hold nothing but commands.

pub mod table;

mod collection;
pub mod pubsub;
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
mod scripting;
mod set;
mod stream;
mod string;
mod transaction;
mod zset;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

// What the proxy takes from the layers below, under the names it uses.
pub use nagaya_clock as clock;
pub use nagaya_command_spec::{glob, key_positions as keyfind, spec};
pub use nagaya_exec::{config, dispatch, server};
pub use nagaya_keyspace::reclaim;

/// A connection, from both sides.
pub mod client {
    pub use nagaya_connections::client::{Client as ClientShared, Mailbox, Message};
    pub use nagaya_exec::session::Session as Client;
}

/// One thread's way into the engine.
pub mod executor {
    pub use nagaya_exec::executor::Executor as Core;
}
