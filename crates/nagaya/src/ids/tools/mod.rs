//! `nagaya ids`: the commands.

mod args;
mod single_dash;

mod admin;
mod examine;
pub(super) mod run;
mod serve;

use std::process::ExitCode;

use nagaya_config::Flag;

pub(crate) use args::IdsCommand;
pub(crate) use single_dash::accept_single_dashes;

use crate::app::settings;
use crate::cli::GlobalArgs;

/// Runs one of the commands under `nagaya ids`.
pub(crate) fn run(global: &GlobalArgs, flags: Vec<Flag>, command: IdsCommand) -> anyhow::Result<ExitCode> {
    let loaded = settings::load(global, flags)?;
    match command {
        IdsCommand::Init(args) => admin::init(&loaded, &args),
        IdsCommand::Run(args) => run::run(&loaded, args),
        IdsCommand::Serve(args) => serve::serve(&loaded, args),
        IdsCommand::Stats(args) => admin::stats(&loaded, &args),
        IdsCommand::List(args) => admin::list(&loaded, &args),
        IdsCommand::Release(args) => admin::release(&loaded, &args),
        IdsCommand::Decode(args) => examine::decode(&loaded, &args),
        IdsCommand::Audit(args) => examine::audit(&loaded, args),
    }
}
