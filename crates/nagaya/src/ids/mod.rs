//! `ids` in the binary: its section, its commands, and its part of the house.
//!
//! What numbers and ids are is the business of `nagaya-ids`; here it is chosen which Redis holds the
//! pool, where ids are served, and what people read on a terminal.

mod config;
mod target;

mod args;
mod single_dash;

mod admin;
mod examine;
mod run;
mod serve;

mod opening;
mod service;

use std::process::ExitCode;

use nagaya_config::Flag;

pub(crate) use args::IdsCommand;
pub use config::IdsConfig;
pub(crate) use service::{IdsService, Source};
pub(crate) use single_dash::accept_single_dashes;

use crate::cli::GlobalArgs;
use crate::settings;

/// Runs one of the commands under `nagaya ids`.
pub(crate) fn run(global: &GlobalArgs, flags: Vec<Flag>, command: IdsCommand) -> anyhow::Result<ExitCode> {
    let loaded = settings::load(global, flags)?;
    match command {
        IdsCommand::Init(args) => admin::init(&loaded, &args),
        IdsCommand::Run(args) => run::run(&loaded, args),
        IdsCommand::Serve(args) => serve::serve(&loaded, args),
        IdsCommand::Stats(args) => admin::stats(&loaded, &args),
        IdsCommand::List(args) => admin::list(&loaded, &args),
        IdsCommand::Decode(args) => examine::decode(&loaded, &args),
        IdsCommand::Audit(args) => examine::audit(&loaded, args),
    }
}
