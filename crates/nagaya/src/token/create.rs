//! `nagaya token create`.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use nagaya_config::{Loaded, with_unit};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::list::tokens;
use super::{PATH, TENANT};
use crate::jobs::tools::connect::{ConnectArgs, connect};

#[derive(Args)]
pub(crate) struct CreateArgs {
    /// A name for people, unique within the tenant
    #[arg(value_name = "NAME")]
    name: String,
    /// Whom it speaks for
    #[arg(long, value_name = "TENANT", default_value = TENANT)]
    tenant: String,
    /// What it allows (may be given several times)
    #[arg(long, value_name = "SCOPE", default_value = "read")]
    scope: Vec<ScopeArg>,
    /// Only this queue (may be given several times) [default: all]
    #[arg(long, value_name = "NAME")]
    queue: Vec<String>,
    /// How long it works, such as 12h or 30d [default: until revoked]
    #[arg(long, value_name = "LENGTH", value_parser = with_unit::<Duration>)]
    expires: Option<Duration>,
    /// Make a token of the same name worthless
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum ScopeArg {
    Enqueue,
    Work,
    Read,
    Metrics,
    Admin,
}

pub(super) async fn create(loaded: &Loaded, args: CreateArgs) -> anyhow::Result<ExitCode> {
    #[derive(Deserialize)]
    struct Made {
        token: String,
    }
    let client = connect(loaded, &args.connect)?;
    let known = tokens(&client).await?;
    let is_taken = known
        .iter()
        .any(|token| token.tenant == args.tenant && token.name == args.name);
    if is_taken && !args.replace {
        bail!(
            "tenant {} has a token {} already; choose another name, or --replace it",
            args.tenant,
            args.name
        );
    }
    let mut wish = json!({ "tenant": args.tenant, "name": args.name, "scopes": scopes(&args.scope) });
    if !args.queue.is_empty() {
        wish["queues"] = json!(args.queue);
    }
    if let Some(length) = args.expires {
        wish["expires_at"] = json!(time_after(length)?);
    }
    let made: Made = serde_json::from_value(client.post(PATH, &wish).await?)
        .context("the server's answer holds no token")?;
    writeln!(io::stdout(), "{}", made.token)?;
    let url = client.url();
    eprint!(
        "\nThis is the only time it is shown. Use it as\n\n  export NAGAYA_TOKEN=...          for the commands of nagaya\n  \
         curl -H 'Authorization: Bearer ...' {url}/v1/jobs\n\nRevoke it with `nagaya token revoke {}{}`.\n",
        args.name,
        match args.tenant.as_str() {
            TENANT => String::new(),
            tenant => format!(" --tenant {tenant}"),
        }
    );
    Ok(ExitCode::SUCCESS)
}

/// Each scope once: the server takes no more than there are.
fn scopes(asked: &[ScopeArg]) -> Vec<ScopeArg> {
    let all = ScopeArg::value_variants().iter();
    all.copied().filter(|scope| asked.contains(scope)).collect()
}

fn time_after(length: Duration) -> anyhow::Result<String> {
    let at = SystemTime::now().checked_add(length);
    let at = at.and_then(|at| jiff::Timestamp::try_from(at).ok());
    let at = at.context("--expires is further away than any calendar goes")?;
    Ok(format!("{at:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_given_twice_is_sent_once() {
        use ScopeArg::{Admin, Read};
        assert_eq!(scopes(&[Admin, Read, Read]), [Read, Admin]);
    }

    #[test]
    fn an_expiry_beyond_the_calendar_is_refused() {
        assert!(time_after(Duration::from_secs(60)).is_ok());
        assert!(time_after(Duration::MAX).is_err());
    }
}
