//! `nagaya jobs serve`: an API server without the other services.
//!
//! Any number of them may stand behind a load balancer when they share a PostgreSQL; on SQLite it is one.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use nagaya_clock::{Clock, SystemClock};
use nagaya_config::Flag;
use nagaya_telemetry::metrics::Metrics;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::app::data_dir::DataDir;
use crate::app::ground_watch;
use crate::app::readiness::Readiness;
use crate::app::service::Service;
use crate::app::settings::{self, Settings};
use crate::app::supervisor::Supervisor;
use crate::app::up;
use crate::cli::GlobalArgs;
use crate::http::{HttpServer, HttpState};
use crate::jobs::JobsService;

pub(crate) const SERVE_EXAMPLES: &str = "\
Examples:
  nagaya jobs serve
  nagaya jobs serve --postgres postgres://jobs@db/jobs --listen 0.0.0.0:7400
  nagaya jobs serve --data /var/lib/nagaya --set jobs.events_retention=30d

REST is under /v1 (described by /openapi.json), gRPC is nagaya.jobs.v1, both on
one port. On PostgreSQL any number of servers may share the jobs; without it
they are kept in a file of the data folder, by one server.";

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Serve HTTP and gRPC here [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// Keep jobs in this PostgreSQL [default: in the data folder]
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Keep data in this folder [default: ./nagaya-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Let other machines in without credentials
    #[arg(long)]
    insecure: bool,
    /// Set any setting (may be given several times)
    #[arg(long, value_name = "KEY=VALUE", value_parser = crate::cli::key_and_value)]
    set: Vec<(String, String)>,
}

impl ServeArgs {
    fn flags(self) -> impl Iterator<Item = Flag> {
        let flag = |name: &str, key: &str, value: String| Flag {
            name: name.to_owned(),
            key: key.to_owned(),
            value,
        };
        let own = [
            ("--listen", "http.listen", self.listen),
            ("--postgres", "jobs.postgres", self.postgres),
            ("--data", "house.data", self.data),
            (
                "--insecure",
                "house.insecure",
                self.insecure.then(|| "true".to_owned()),
            ),
        ];
        let set = self
            .set
            .into_iter()
            .map(move |(key, value)| flag("--set", &key, value));
        let own = own
            .into_iter()
            .filter_map(move |(name, key, value)| Some(flag(name, key, value?)));
        set.chain(own)
    }
}

pub(crate) fn serve(global: &GlobalArgs, mut flags: Vec<Flag>, args: ServeArgs) -> anyhow::Result<ExitCode> {
    flags.extend(args.flags());
    let settings = Settings::new(&settings::load(global, flags)?)?;
    up::until_second_signal(settings.telemetry.clone(), move |stop| run(settings, stop))
}

async fn run(settings: Settings, stop: CancellationToken) -> anyhow::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Arc::new(Metrics::new(up::VERSION, Arc::clone(&clock)));
    // Servers that share a PostgreSQL need no folder of their own.
    let data = match settings.jobs.postgres_url(&settings.house)? {
        Some(_) => None,
        None => Some(DataDir::claim(&settings.house.data)?),
    };
    let readiness = Readiness::new(&["jobs", "http"]);
    let jobs = JobsService::open(&settings, data.as_ref(), &metrics).await?;
    let state = HttpState {
        config: settings.http.clone(),
        readiness: readiness.clone(),
        metrics,
        started: clock.now(),
        clock,
        routes: axum::Router::new(),
        self_guarded: jobs.routes(),
        tokens: Some(jobs.api()),
        rights: Default::default(),
    };
    let http = HttpServer::bind(Arc::new(state)).await?;
    let address = http.address().context("cannot tell the HTTP address")?;
    let mut data = data;
    if let Some(data) = &mut data {
        data.keep();
    }
    let services: Vec<Box<dyn Service>> = vec![Box::new(jobs), Box::new(http)];
    let ground = data
        .as_ref()
        .map(|data| data.ground().clone())
        .unwrap_or_default();
    let watched = ground_watch::watch(ground, readiness.clone(), vec!["jobs"]);
    let supervisor = Supervisor::new(services, readiness, settings.house.drain_timeout);
    tokio::select! {
        ended = supervisor.run(stop, || info!(http = %address, "ready")) => ended,
        () = watched => unreachable!("it never ends"),
    }
}
