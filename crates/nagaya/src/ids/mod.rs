//! `ids` in the binary: its section, its commands, and its part of the house.
//!
//! What numbers and ids are is the business of `nagaya-ids`; here it is chosen which Redis holds the
//! pool, where ids are served, and what people read on a terminal.

mod config;
mod target;

mod service;

pub(crate) mod api;
mod tools;

pub use config::IdsConfig;
pub(crate) use service::{IdsService, Source};
pub(crate) use tools::{IdsCommand, accept_single_dashes, run};
