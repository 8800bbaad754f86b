//! The binary `nagaya`: command line, wiring, signals and exit codes.
//!
//! It is a library only so that its tests can reach the settings and the generated pages;
//! nobody depends on it. This is the one crate that chooses which components run.

mod banner;
mod cli;
mod config_command;
mod console;
mod data_dir;
mod demo;
pub mod docs;
mod fanout;
mod fleet;
mod house;
mod http;
mod ids;
mod jobs;
mod jobs_tools;
pub mod readiness;
mod room;
mod room_tools;
pub mod service;
pub mod settings;
mod signals;
mod status;
mod supervisor;
mod terminal;
mod tiers;
mod token;
mod up;

pub use cli::{command_line, run};
