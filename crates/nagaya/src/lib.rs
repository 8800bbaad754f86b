//! The binary `nagaya`: command line, wiring, signals and exit codes.
//!
//! It is a library only so that its tests can reach the settings and the generated pages; no crate depends on
//! it. This is the one crate that chooses which components run.

mod cli;

mod app;

mod api;
mod http;

mod fanout;
mod fleet;
mod ids;
mod jobs;
mod room;

mod config_command;
mod demo;
pub mod docs;
mod status;
mod token;
mod watchdog;

pub use app::{readiness, service, settings};
pub use cli::{command_line, run};
pub use http::{Needs, RIGHTS, Right, rights};
