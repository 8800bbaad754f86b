//! `nagaya fleet manager`: a manager without the other services.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use nagaya_clock::{Clock, SystemClock};
use nagaya_config::Loaded;
use nagaya_fleet::manager::ManagerOptions;
use nagaya_fleet::timing::{Timing, TimingOptions};
use nagaya_telemetry::metrics::Metrics;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::args::{ManagerArgs, TimingArgs};
use crate::app::readiness::Readiness;
use crate::app::service::Service;
use crate::app::settings::HouseConfig;
use crate::app::supervisor::Supervisor;
use crate::app::up;
use crate::fleet::FleetConfig;
use crate::fleet::service::{FleetService, guard, http_parts};
use crate::fleet::target::Target;
use crate::http::{HttpConfig, HttpServer, HttpState};

/// The effective configuration from flags and settings.
struct Plan {
    target: Target,
    options: ManagerOptions,
    fleet: FleetConfig,
    house: HouseConfig,
    http: Option<HttpConfig>,
    wait_ready: bool,
}

pub(super) fn run(loaded: &Loaded, args: ManagerArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan::new(loaded, args)?;
    up::until_second_signal(loaded.section(), move |stop| plan.run(stop))
}

/// The lengths of time that the flags ask for, over the settings.
pub(super) fn timing_options(config: &FleetConfig, args: &TimingArgs) -> TimingOptions {
    let set = config.timing_options();
    // Lengths that belong to another lease are not carried over.
    let kept = args.lease.is_none();
    TimingOptions {
        lease: args.lease.or(set.lease),
        heartbeat: args.heartbeat.or(set.heartbeat.filter(|_| kept)),
        grace: args.grace.or(set.grace.filter(|_| kept)),
        death: args.death.or(set.death.filter(|_| kept)),
        poll: args.poll.or(set.poll.filter(|_| kept)),
        drift_ppm: args.drift_ppm.or(set.drift_ppm),
    }
}

impl Plan {
    fn new(loaded: &Loaded, args: ManagerArgs) -> anyhow::Result<Plan> {
        let (mut fleet, mut house): (FleetConfig, HouseConfig) = (loaded.section(), loaded.section());
        let mut http: HttpConfig = loaded.section();
        let target = Target::choose(loaded, &args.store)?;
        fleet.rebalance &= !args.no_rebalance;
        fleet.moves_at_once = args.moves_at_once.unwrap_or(fleet.moves_at_once);
        fleet.per_zone_max = args.per_zone_max.or(fleet.per_zone_max);
        fleet.brake_percent = args.brake_percent.unwrap_or(fleet.brake_percent);
        fleet.source_interval = args.source_interval.unwrap_or(fleet.source_interval);
        let mut options = fleet.manager(args.name)?;
        options.timing = Timing::from_options(timing_options(&fleet, &args.timing))
            .context("the lengths of time do not fit each other")?;
        if let Some(source) = &args.source {
            options.source = Some(fleet.prepare_source(source).context("--source cannot be used")?);
        }
        house.insecure |= args.insecure;
        let http = args.http_listen.map(|listen| {
            http.listen = listen;
            http
        });
        if let Some(http) = &http {
            ensure!(
                http.listen.is_loopback() || http.token.is_some() || house.insecure,
                "--http-listen is {}, which other machines can reach, and `http.token` is not set; set it, \
                 listen on 127.0.0.1, or pass --insecure",
                http.listen
            );
        }
        Ok(Plan {
            target,
            options,
            fleet,
            house,
            http,
            wait_ready: args.wait_ready,
        })
    }

    async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        self.target.expect_house().await?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let metrics = Arc::new(Metrics::new(up::VERSION, Arc::clone(&clock)));
        let store = self.target.store().open()?;
        let token = self.http.as_ref().and_then(|http| http.token.clone());
        let webhook = guard(&self.fleet.webhook_secret, &token);
        let fleet = FleetService::new(store, self.options, webhook);
        let handle = fleet.handle();
        let routes = http_parts(&fleet, &metrics);
        let mut services: Vec<Box<dyn Service>> = vec![Box::new(fleet)];
        let names: &[&str] = match self.http {
            Some(_) => &["fleet", "http"],
            None => &["fleet"],
        };
        let readiness = Readiness::new(names);
        let mut http_address = None;
        if let Some(config) = self.http {
            let state = HttpState {
                config,
                readiness: readiness.clone(),
                metrics,
                started: clock.now(),
                clock,
                routes,
                self_guarded: axum::Router::new(),
                tokens: None,
                rights: Default::default(),
            };
            let http = HttpServer::bind(Arc::new(state)).await?;
            http_address = Some(http.address().context("cannot tell the HTTP address")?);
            services.push(Box::new(http));
        }
        let supervisor = Supervisor::new(services, readiness, self.house.drain_timeout);
        let wait_ready = self.wait_ready;
        let on_ready = move || {
            let first = handle.status().borrow().is_first_manager;
            info!(
                is_first_manager = first,
                http = http_address.map(tracing::field::display),
                "ready"
            );
            if wait_ready {
                // A closed standard output is no error here.
                let _ = writeln!(io::stdout(), "{}", json!({"is_first_manager": first}));
            }
        };
        supervisor.run(stop, on_ready).await
    }
}
