//! `nagaya fleet`: the commands.

pub(super) mod args;
mod examples;

mod agent;
mod manager;

mod list;
mod operate;
#[cfg(feature = "simulator")]
mod simulate;

use std::process::ExitCode;

use nagaya_config::Flag;

pub(crate) use args::FleetCommand;

use crate::app::settings;
use crate::cli::GlobalArgs;

/// Runs one of the commands under `nagaya fleet`.
pub(crate) fn run(global: &GlobalArgs, flags: Vec<Flag>, command: FleetCommand) -> anyhow::Result<ExitCode> {
    let loaded = settings::load(global, flags)?;
    match command {
        FleetCommand::Manager(args) => manager::run(&loaded, args),
        FleetCommand::Agent(args) => agent::run(&loaded, args),
        FleetCommand::List(args) => list::list(&loaded, &args),
        FleetCommand::Plan(args) => list::plan(&loaded, &args),
        FleetCommand::Events(args) => list::events(&loaded, &args),
        FleetCommand::Relocate(args) => operate::relocate(&loaded, &args),
        FleetCommand::Drain(args) => operate::drain(&loaded, &args),
        FleetCommand::Ask(args) => operate::ask(&loaded, &args),
        FleetCommand::Confirm(args) => operate::confirm(&loaded, &args),
        #[cfg(feature = "simulator")]
        FleetCommand::Simulate(args) => simulate::run(&loaded, &args),
    }
}
