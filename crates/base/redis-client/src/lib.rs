//! A client of any Redis: single, with sentinels, or a cluster.
//!
//! It speaks the protocol itself, over `nagaya-resp`. A general client hides which connection carried
//! a command and reconnects by itself. Here a [`Connection`] is one socket, from its first byte to its
//! last, because a `WAIT` proves something only about the writes of its own socket (see
//! [`Connection::write_and_wait`]).
//!
//! Suggested reading order: the URL, one connection, scripts and confirmed writes, then the client
//! that finds and replaces connections, and the subscriber.

mod url;

mod wire;

mod connection;

mod script;

mod confirm;

mod client;

mod subscriber;

mod discover;
mod error;

pub mod reply;
pub mod slot;

pub use client::{Client, Options, Primary};
pub use confirm::{Confirmed, Need};
pub use connection::{Connection, Run};
pub use discover::SlotRange;
pub use error::{Error, Fault, ServerError};
pub use nagaya_net::Backoff;
pub use nagaya_resp::Frame;
pub use script::Script;
pub use subscriber::{Event, Subscriber, Topics};
pub use url::{Endpoint, ParseError, RedisUrl, Topology};
