//! `fleet` in the binary: its section, its commands, and its part of the house.
//!
//! What is decided and how is the business of `nagaya-fleet`; here it is chosen which Redis holds the
//! fleet, where its API is served, and what people read on a terminal.

mod config;
mod target;

mod service;

mod tools;

pub use config::FleetConfig;
pub(crate) use service::FleetService;
pub(crate) use tools::{FleetCommand, run};
