//! `nagaya ids serve`: the id server without the other services.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use nagaya_clock::{Clock, SystemClock};
use nagaya_config::{Listen, Loaded};
use nagaya_ids::lease::{HolderOptions, Timing, TimingOptions, TooLong};
use nagaya_telemetry::metrics::Metrics;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::args::{HolderArgs, ServeArgs};
use super::run::holder_options;
use crate::app::readiness::Readiness;
use crate::app::service::Service;
use crate::app::settings::HouseConfig;
use crate::app::supervisor::Supervisor;
use crate::app::up;
use crate::http::{HttpConfig, HttpServer, HttpState};
use crate::ids::IdsConfig;
use crate::ids::service::{IdsService, Leased, Source};
use crate::ids::target::Target;

/// The effective configuration from flags and settings.
struct Plan {
    ids: IdsConfig,
    house: HouseConfig,
    http: Option<HttpConfig>,
    source: Source,
    target: Option<Target>,
    /// Logged once logging has started.
    warnings: Vec<String>,
}

pub(super) fn serve(loaded: &Loaded, args: ServeArgs) -> anyhow::Result<ExitCode> {
    let plan = Plan::new(loaded, args)?;
    up::until_second_signal(loaded.section(), move |stop| plan.run(stop))
}

impl Plan {
    fn new(loaded: &Loaded, args: ServeArgs) -> anyhow::Result<Plan> {
        let (mut ids, mut house): (IdsConfig, HouseConfig) = (loaded.section(), loaded.section());
        let mut http: HttpConfig = loaded.section();
        ids.check()?;
        ids.listen = args.listen.unwrap_or(ids.listen);
        house.insecure |= args.insecure;
        refuse_open("--listen", ids.listen, &house)?;
        let http = match args.http_listen {
            Some(listen) if http.token.is_none() => {
                refuse_open("--http-listen", listen, &house)?;
                http.listen = listen;
                Some(http)
            }
            Some(listen) => {
                http.listen = listen;
                Some(http)
            }
            None => None,
        };
        let mut warnings = Vec::new();
        let (source, target) = match args.worker_id {
            Some(worker) => {
                let max = ids.layout()?.worker_max();
                ensure!(
                    worker <= max,
                    "--worker-id {worker} does not fit the id layout, whose greatest is {max}"
                );
                (Source::Fixed(worker), None)
            }
            None => {
                let target = Target::choose(loaded, args.pool.redis.as_deref())?;
                let (timing, changes) = timing(&ids, &args.holder)?;
                warnings = changes;
                let options = HolderOptions {
                    timing,
                    ..holder_options(&ids, args.holder)
                };
                let leased = Leased {
                    url: target.url.clone(),
                    options,
                    own_room: None,
                };
                (Source::Leased(Box::new(leased)), Some(target))
            }
        };
        Ok(Plan {
            ids,
            house,
            http,
            source,
            target,
            warnings,
        })
    }

    async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        for warning in &self.warnings {
            warn!("{warning}");
        }
        if let (Some(target), Source::Leased(leased)) = (&self.target, &self.source) {
            target
                .expect_house(&target.holders_pool(&leased.options.timing)?)
                .await?;
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let metrics = Arc::new(Metrics::new(up::VERSION, Arc::clone(&clock)));
        let ids = IdsService::bind(&self.ids, self.source, Arc::clone(&metrics))?;
        let (address, routes) = (ids.address(), ids.routes());
        let mut services: Vec<Box<dyn Service>> = vec![Box::new(ids)];
        let names: &[&str] = match self.http {
            Some(_) => &["ids", "http"],
            None => &["ids"],
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
        let on_ready =
            || info!(memcached = %address, http = http_address.map(tracing::field::display), "ready");
        supervisor.run(stop, on_ready).await
    }
}

fn refuse_open(flag: &str, listen: Listen, house: &HouseConfig) -> anyhow::Result<()> {
    ensure!(
        listen.is_loopback() || house.insecure,
        "{flag} is {listen}, which other machines can reach without credentials; listen on 127.0.0.1 or \
         pass --insecure"
    );
    Ok(())
}

/// The lengths of time that the flags ask for, over the settings.
fn timing(ids: &IdsConfig, args: &HolderArgs) -> Result<(Timing, Vec<String>), TooLong> {
    let timing_options = TimingOptions {
        interval: Some(args.interval.unwrap_or(ids.interval)),
        delay: args.delay.or(ids.delay),
        reserve: Some(args.expire.unwrap_or(ids.expire)),
        use_for: Some(ids.use_for).filter(|_| args.interval.is_none()),
        use_max: Some(args.use_max.unwrap_or(ids.use_max)),
        without_guards: true,
    };
    Timing::from_options(timing_options, Timing::default())
}
