//! `ids` in the binary: its settings, its commands, and its component of `nagaya up`.
//!
//! `nagaya-ids` makes the ids; this module chooses the Redis of the pool, serves ids and prints for the
//! terminal.

mod config;
mod target;

mod service;

pub(crate) mod api;
mod tools;

pub use config::IdsConfig;
pub(crate) use service::{IdsService, Source};
pub(crate) use tools::{IdsCommand, accept_single_dashes, run};
