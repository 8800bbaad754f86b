//! `nagaya jobs notify`: the routes by which administrators are told.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use nagaya_config::Loaded;
use serde_json::json;

use super::connect::{ConnectArgs, connect};

#[derive(Subcommand)]
pub(crate) enum NotifyCommand {
    /// Send a test message by a route
    Test(TestArgs),
}

#[derive(Args)]
pub(crate) struct TestArgs {
    /// The route: mail or chat
    #[arg(value_name = "ROUTE")]
    route: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(super) async fn notify(loaded: &Loaded, command: NotifyCommand) -> anyhow::Result<ExitCode> {
    let NotifyCommand::Test(args) = command;
    let client = connect(loaded, &args.connect)?;
    let route = json!({ "route": args.route });
    client.post("/v1/notify/test", &route).await?;
    eprintln!("the route {} took a test message", args.route);
    Ok(ExitCode::SUCCESS)
}
