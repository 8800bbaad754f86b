//! What can be typed under `nagaya fanout`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use nagaya_config::{Listen, Raw, Value};

const SERVE_EXAMPLES: &str = "\
Examples:
  nagaya fanout serve --serinin-config serinin_config.json
  nagaya fanout serve -storetype redis -handler 16 -worker 96 -monitor 5 \\
      --serinin-config serinin_config.json
  nagaya fanout serve --endpoint a=http://127.0.0.1:10001 \\
      --endpoint b=http://127.0.0.1:10002 --redis redis://127.0.0.1

  curl 'http://127.0.0.1:7401/any/path?q=1'
  curl 'http://127.0.0.1:7401/requests/ID?wait=all'

SIGHUP reads the endpoints again. Ctrl-C or SIGTERM stops it: requests under
way are finished or marked first. Flags may have one dash, as serinin has
them.";

const GET_EXAMPLES: &str = "\
Examples:
  nagaya fanout get 0b0f8b1e-6a3c-4f3b-9a57-0d6a2f7c1e11
  nagaya fanout get --wait all --timeout 2s ID ID
  nagaya fanout get --wait dst1,dst2 ID

Exit code 0 when every request was found, else 1.";

#[derive(Subcommand)]
pub(crate) enum FanoutCommand {
    /// Take requests and fan them out, without the other services
    #[command(after_long_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Read requests back as JSON
    #[command(after_long_help = GET_EXAMPLES)]
    Get(GetArgs),
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Take serinin's own config file as it is [default: serinin_config.json here, if no endpoint is named]
    #[arg(long, value_name = "FILE", conflicts_with = "endpoint")]
    pub(super) serinin_config: Option<PathBuf>,
    /// An endpoint (may be given several times)
    #[arg(long, value_name = "NAME=URL", value_parser = endpoint)]
    pub(super) endpoint: Vec<(String, String)>,
    /// Keep answers in this Redis
    #[arg(long, value_name = "URL")]
    pub(super) redis: Option<String>,
    /// Take requests here [default: fanout.listen]
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen)]
    pub(super) listen: Option<Listen>,
    /// Serve metrics and health here
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen)]
    pub(super) http_listen: Option<Listen>,
    /// How many requests may be between arrival and reply
    #[arg(long, value_name = "N")]
    pub(super) handler: Option<usize>,
    /// How many endpoints may be asked at once
    #[arg(long, value_name = "N")]
    pub(super) worker: Option<usize>,
    /// Where answers are kept, by our name or serinin's
    #[arg(long, value_name = "NAME")]
    pub(super) storetype: Option<String>,
    /// Log serinin's counters every so many seconds
    #[arg(long, value_name = "N")]
    pub(super) monitor: Option<u64>,
    /// Make request ids from this number instead of random ones
    #[arg(long, value_name = "N")]
    pub(super) worker_id: Option<u64>,
    /// Let other machines in without credentials
    #[arg(long)]
    pub(super) insecure: bool,
}

#[derive(Args)]
pub(crate) struct GetArgs {
    /// Requests, by their ids
    #[arg(required = true, value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// Wait for all answers, so many, or these endpoints
    #[arg(long, value_name = "all|N|NAME,..")]
    pub(super) wait: Option<String>,
    /// Wait this long at most
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(super) timeout: String,
    /// Where requests are taken [default: fanout.listen of the settings]
    #[arg(long)]
    pub(super) url: Option<String>,
    /// Trust the certificates of this PEM file [default: http.ca]
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
}

fn endpoint(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, url)) if !name.is_empty() => Ok((name.to_owned(), url.to_owned())),
        _ => Err("must look like NAME=URL".to_owned()),
    }
}

fn listen(text: &str) -> Result<Listen, String> {
    let raw = Raw::Words(text.to_owned());
    Listen::read(&raw).ok_or_else(|| format!("must be {}", Listen::KIND.replace('`', "")))
}
