//! `fleet` in the binary: its settings, its commands, and its component of `nagaya up`.
//!
//! `nagaya-fleet` makes the decisions; this module chooses the Redis, serves the API and prints for the
//! terminal.

mod config;
mod target;

mod service;

mod tools;

pub use config::FleetConfig;
pub(crate) use service::FleetService;
pub(crate) use tools::{FleetCommand, run};
