//! `fleet` in the binary: its section, its commands, and its part of the house.
//!
//! What is decided and how is the business of `nagaya-fleet`; here it is chosen which Redis holds the
//! fleet, where its API is served, and what people read on a terminal.

mod config;
mod target;

mod args;
mod examples;

mod agent;
mod manager;

mod look;
mod operate;
mod simulate;

mod service;

use std::process::ExitCode;

use nagaya_config::Flag;

pub(crate) use args::FleetCommand;
pub use config::FleetConfig;
pub(crate) use service::FleetService;

use crate::cli::GlobalArgs;
use crate::settings;

/// Runs one of the commands under `nagaya fleet`.
pub(crate) fn run(global: &GlobalArgs, flags: Vec<Flag>, command: FleetCommand) -> anyhow::Result<ExitCode> {
    let loaded = settings::load(global, flags)?;
    match command {
        FleetCommand::Manager(args) => manager::run(&loaded, args),
        FleetCommand::Agent(args) => agent::run(&loaded, args),
        FleetCommand::List(args) => look::list(&loaded, &args),
        FleetCommand::Plan(args) => look::plan(&loaded, &args),
        FleetCommand::Events(args) => look::events(&loaded, &args),
        FleetCommand::Relocate(args) => operate::relocate(&loaded, &args),
        FleetCommand::Drain(args) => operate::drain(&loaded, &args),
        FleetCommand::Ask(args) => operate::ask(&loaded, &args),
        FleetCommand::Confirm(args) => operate::confirm(&loaded, &args),
        FleetCommand::Simulate(args) => simulate::run(&loaded, &args),
    }
}
