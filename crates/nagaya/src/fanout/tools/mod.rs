//! `nagaya fanout`: the commands.

mod args;

mod get;
mod serve;

use std::process::ExitCode;

use nagaya_config::Flag;

pub(crate) use args::FanoutCommand;

use crate::app::settings;
use crate::cli::GlobalArgs;

/// Runs one of the commands under `nagaya fanout`.
pub(crate) fn run(global: &GlobalArgs, flags: Vec<Flag>, command: FanoutCommand) -> anyhow::Result<ExitCode> {
    let loaded = settings::load(global, flags.clone())?;
    match command {
        FanoutCommand::Serve(args) => serve::serve(&loaded, args, global, flags),
        FanoutCommand::Get(args) => get::get(&loaded, &args),
    }
}
