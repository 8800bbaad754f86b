//! `nagaya token revoke`.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use nagaya_config::Loaded;

use super::list::tokens;
use super::{PATH, TENANT};
use crate::jobs::tools::connect::{ConnectArgs, connect};

#[derive(Args)]
pub(crate) struct RevokeArgs {
    /// The token's name
    #[arg(value_name = "NAME")]
    name: String,
    /// Whom it speaks for
    #[arg(long, value_name = "TENANT", default_value = TENANT)]
    tenant: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(super) async fn revoke(loaded: &Loaded, args: RevokeArgs) -> anyhow::Result<ExitCode> {
    let client = connect(loaded, &args.connect)?;
    let known = tokens(&client).await?;
    let is_known = known
        .iter()
        .any(|token| token.tenant == args.tenant && token.name == args.name);
    // A name of the list needs no encoding: the server takes letters, digits and `._:-`.
    if !is_known {
        bail!(
            "tenant {} has no token {}; `nagaya token list` shows all",
            args.tenant,
            args.name
        );
    }
    client
        .delete(&format!("{PATH}/{}/{}", args.tenant, args.name))
        .await?;
    eprintln!("revoked");
    Ok(ExitCode::SUCCESS)
}
