//! `nagaya status`: shows the state of a running server, once or repeatedly.

mod ask;
mod report;
mod services;
mod units;
mod watch;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use nagaya_config::{Flag, Secret};
use serde_json::Value;

pub(crate) use ask::{Answer, get_within};

use crate::app::settings;
use crate::app::terminal;
use crate::cli::GlobalArgs;
use crate::http::{HttpConfig, Readyz, Version};
use crate::jobs::tools::connect::{token, url};
use report::Report;

pub(crate) const EXAMPLES: &str = "\
Examples:
  nagaya status
  nagaya status --watch                drawn anew every two seconds
  nagaya status --watch 10 | tee log   a block every ten seconds
  nagaya status --url http://127.0.0.1:8080 --json

Each service has a line: its state, where it listens, and its figures. Rates
are those of the last seconds. A server that asks for a token shows little
without it; set http.token in the settings, or NAGAYA_TOKEN to one that
may look.

Exit code 0 when every component is ready, 1 otherwise.";

#[derive(Args)]
pub(crate) struct StatusArgs {
    /// Where the server listens [default: $NAGAYA_URL, or http.listen]
    #[arg(long)]
    url: Option<String>,
    /// Trust the certificates of this PEM file [default: http.ca]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Ask again every so many seconds until Ctrl-C [default: 2]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = seconds)]
    watch: Option<Duration>,
}

/// Which server is asked.
#[derive(Clone)]
struct Target {
    url: String,
    token: Option<Secret>,
    ca: Option<PathBuf>,
}

pub(crate) fn status(global: &GlobalArgs, flags: Vec<Flag>, args: StatusArgs) -> anyhow::Result<ExitCode> {
    let config: HttpConfig = settings::load(global, flags)?.section();
    let target = Target {
        url: url(args.url, &config),
        token: token(&config),
        ca: args.ca.or(config.ca),
    };
    if let Some(every) = args.watch {
        return watch::watch(target, every, args.json);
    }
    let report = target.ask()?;
    let text = if args.json {
        format!("{:#}\n", report.to_json())
    } else {
        report.to_table(terminal::stdout())
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(exit_code(&report))
}

fn exit_code(report: &Report) -> ExitCode {
    if report.is_ready() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

impl Target {
    /// Asks everything that there is to know; fields that an older server or one with another token does not
    /// return are left out.
    fn ask(&self) -> anyhow::Result<Report> {
        let url = self.url.trim_end_matches('/');
        let get = |path: &str| ask::get(url, path, self.token.as_ref(), self.ca.as_deref());
        let readyz: Readyz = match get("/readyz")? {
            Answer {
                status: 200 | 503,
                body,
            } => serde_json::from_str(&body).with_context(|| format!("what runs at {url} is not nagaya"))?,
            answer => bail!(
                "{url}/readyz answered {}; is it nagaya that runs there?",
                answer.status
            ),
        };
        let version = match get("/version")? {
            Answer { status: 200, body } => Some(serde_json::from_str::<Version>(&body)?.version),
            _ => None,
        };
        let house = match get("/v1/house")? {
            Answer { status: 200, body } => serde_json::from_str::<Value>(&body).ok(),
            _ => None,
        };
        Ok(Report {
            url: url.to_owned(),
            version,
            readyz,
            house,
        })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .filter(|seconds| (0.1..=86_400.0).contains(seconds));
    let seconds = seconds.ok_or("must be a number of seconds, from 0.1 to 86400")?;
    Ok(Duration::from_secs_f64(seconds))
}
