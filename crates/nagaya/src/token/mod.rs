//! `nagaya token`: credentials for people and programs, through the REST interface of a running server.
//!
//! The server keeps only a hash of each, so a token is shown once and cannot be read again.

mod create;
mod list;
mod random;
mod revoke;

use std::process::ExitCode;

use clap::Subcommand;
use nagaya_config::Flag;

use crate::app::settings;
use crate::cli::GlobalArgs;
use crate::jobs::tools::block_on;

/// Where the server has its tokens.
const PATH: &str = "/v1/tokens";
/// The tenant of requests that name none.
const TENANT: &str = "default";

const CREATE_EXAMPLES: &str = "\
Examples:
  nagaya token create grafana                       may look at everything
  nagaya token create web --tenant shop --scope enqueue --scope read
  nagaya token create resizer --scope work --queue resize --expires 30d
  export NAGAYA_TOKEN=$(nagaya token create deploy --scope admin)

Scopes: enqueue registers, cancels and retries jobs; work claims jobs and
reports on them; read looks; metrics reads /metrics and nothing else; admin
does everything, for all tenants. Without --scope it is read. A token of the tenant default that is not bound to queues
reads everything, others only what is their tenant's.

The token is printed on standard output, once; the server keeps only its hash.";

const LIST_EXAMPLES: &str = "\
Examples:
  nagaya token list
  nagaya token list --json | jq -r '.tokens[].name'";

const REVOKE_EXAMPLES: &str = "\
Examples:
  nagaya token revoke grafana
  nagaya token revoke web --tenant shop

On other servers that share the jobs' PostgreSQL it may work 5 seconds longer.";

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it, this once
    #[command(after_long_help = CREATE_EXAMPLES)]
    Create(create::CreateArgs),
    /// Print a random token for `http.token` or `fanout.token`; needs no server
    Random,
    /// List all tokens; what they are is not shown
    #[command(after_long_help = LIST_EXAMPLES)]
    List(list::ListArgs),
    /// Make a token worthless
    #[command(after_long_help = REVOKE_EXAMPLES)]
    Revoke(revoke::RevokeArgs),
}

pub(crate) fn run(global: &GlobalArgs, flags: Vec<Flag>, command: TokenCommand) -> anyhow::Result<ExitCode> {
    if matches!(command, TokenCommand::Random) {
        return random::random();
    }
    let loaded = settings::load(global, flags)?;
    match command {
        TokenCommand::Random => random::random(),
        TokenCommand::Create(args) => block_on(create::create(&loaded, args)),
        TokenCommand::List(args) => block_on(list::list(&loaded, args)),
        TokenCommand::Revoke(args) => block_on(revoke::revoke(&loaded, args)),
    }
}
