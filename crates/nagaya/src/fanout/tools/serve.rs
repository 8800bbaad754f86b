//! `nagaya fanout serve`: the fan-out without the other services.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use nagaya_clock::{Clock, SystemClock};
use nagaya_config::{Flag, Loaded, Raw, Secret, Value};
use nagaya_fanout::serinin::{self, Imported, Overrides};
use nagaya_fanout::{EndpointConfig, FanoutConfig, IdSource, NodeChoice, RequestIdKind, StoreKind};
use nagaya_ids::id_clock::RunningClock;
use nagaya_ids::mint::Mint;
use nagaya_ids::permit::FixedPermit;
use nagaya_telemetry::metrics::Metrics;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::args::ServeArgs;
use crate::app::access;
use crate::app::readiness::Readiness;
use crate::app::service::Service;
use crate::app::settings::{self, HouseConfig, IdsConfig};
use crate::app::supervisor::Supervisor;
use crate::app::up;
use crate::cli::GlobalArgs;
use crate::fanout::{FanoutService, Reload, check_credentials};
use crate::http::{HttpConfig, HttpServer, HttpState};

/// Practically unlimited: serinin waits forever when its file sets no limit.
const FOR_EVER: Duration = Duration::from_secs(365 * 86_400);

/// The effective configuration from flags and settings.
struct Plan {
    config: FanoutConfig,
    drain_timeout: Duration,
    http: Option<HttpConfig>,
    /// Names and proxies, which all listeners share.
    shared: HttpConfig,
    ids: IdSource,
    monitor: Option<Duration>,
    reload: Reload,
    /// Logged once logging has started.
    warnings: Vec<String>,
}

pub(super) fn serve(
    loaded: &Loaded,
    mut args: ServeArgs,
    global: &GlobalArgs,
    flags: Vec<Flag>,
) -> anyhow::Result<ExitCode> {
    if names_no_endpoints(&args, &loaded.section()) && Path::new(SERININ_CONFIG).exists() {
        args.serinin_config = Some(SERININ_CONFIG.into());
    }
    let plan = Plan::new(loaded, args, global.clone(), flags)?;
    up::until_second_signal(loaded.section(), move |stop| plan.run(stop))
}

impl Plan {
    fn new(loaded: &Loaded, args: ServeArgs, global: GlobalArgs, flags: Vec<Flag>) -> anyhow::Result<Plan> {
        let mut house: HouseConfig = loaded.section();
        house.insecure |= args.insecure;
        let shared: HttpConfig = loaded.section();
        shared.check()?;
        let http = args.http_listen.map(|listen| HttpConfig {
            listen,
            ..shared.clone()
        });
        let monitor = args
            .monitor
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs);
        let ids = id_source(
            &loaded.section::<FanoutConfig>(),
            &loaded.section(),
            args.worker_id,
        )?;
        let imported = configure(&args, loaded.section())?;
        let mut config = imported.config;
        let mut warnings = imported.warnings;
        if imported.listens_to_all && args.listen.is_none() {
            if house.insecure || config.token.is_some() {
                config.listen.0.set_ip([0, 0, 0, 0].into())
            } else {
                warnings.push(format!(
                    "\"addr\" names no host; only this machine is let in, at {}, unless --insecure is given",
                    config.listen
                ))
            }
        }
        ensure!(
            config.listen.is_loopback() || house.insecure || config.token.is_some(),
            "{} can be reached by other machines without credentials; set `fanout.token`, listen on 127.0.0.1 \
             or pass --insecure",
            config.listen
        );
        if let Some(http) = &http {
            ensure!(
                http.listen.is_loopback() || house.insecure || http.token.is_some(),
                "--http-listen is {}, which other machines can reach without credentials; set `http.token`, \
                 listen on 127.0.0.1 or pass --insecure",
                http.listen
            );
        }
        ensure!(
            !config.endpoints.0.is_empty(),
            "there are no endpoints; name them with --endpoint, in [fanout.endpoints] or with --serinin-config"
        );
        let drain_timeout = match (&args.serinin_config, imported.shutdown_timeout) {
            (Some(_), given) => given.unwrap_or(FOR_EVER),
            (None, _) => house.drain_timeout,
        };
        let reload: Reload =
            Arc::new(move || Ok(configure(&args, settings::load(&global, flags.clone())?.section())?.config));
        Ok(Plan {
            config,
            drain_timeout,
            http,
            shared,
            ids,
            monitor,
            reload,
            warnings,
        })
    }

    async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        for warning in &self.warnings {
            warn!("{warning}");
        }
        access::raise_descriptor_limit_for(&self.config);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let metrics = Arc::new(Metrics::new(up::VERSION, Arc::clone(&clock)));
        let fanout =
            FanoutService::bind(self.config, &self.shared, None, self.ids, self.reload, &metrics).await?;
        let fanout = fanout.monitored(self.monitor);
        let address = fanout.address();
        let names: &[&str] = match self.http {
            Some(_) => &["fanout", "http"],
            None => &["fanout"],
        };
        let readiness = Readiness::new(names);
        let mut services: Vec<Box<dyn Service>> = vec![Box::new(fanout)];
        let mut http_address = None;
        if let Some(config) = self.http {
            let state = HttpState {
                config,
                readiness: readiness.clone(),
                metrics,
                started: clock.now(),
                clock,
                routes: Default::default(),
                self_guarded: axum::Router::new(),
                tokens: None,
                rights: Default::default(),
            };
            let http = HttpServer::bind(Arc::new(state)).await?;
            http_address = Some(http.address().context("cannot tell the HTTP address")?);
            services.push(Box::new(http));
        }
        let supervisor = Supervisor::new(services, readiness, self.drain_timeout);
        let on_ready = || info!(fanout = %address, http = http_address.map(tracing::field::display), "ready");
        supervisor.run(stop, on_ready).await
    }
}

/// The file that serinin reads when it is told nothing else.
const SERININ_CONFIG: &str = "serinin_config.json";

fn names_no_endpoints(args: &ServeArgs, config: &FanoutConfig) -> bool {
    args.serinin_config.is_none() && args.endpoint.is_empty() && config.endpoints.0.is_empty()
}

/// The section with the flags over it, or serinin's file in its place.
fn configure(args: &ServeArgs, base: FanoutConfig) -> anyhow::Result<Imported> {
    let mut imported = match &args.serinin_config {
        Some(file) => from_serinin(file, args, base)?,
        None => Imported {
            config: from_flags(args, base)?,
            listens_to_all: false,
            shutdown_timeout: None,
            warnings: Vec::new(),
        },
    };
    let config = &mut imported.config;
    config.listen = args.listen.unwrap_or(config.listen);
    if let Some(url) = &args.redis {
        config.store = StoreKind::Redis;
        config.redis = Some(Secret::new(url.as_str()));
    }
    config.check()?;
    check_credentials(config)?;
    Ok(imported)
}

fn from_serinin(file: &Path, args: &ServeArgs, base: FanoutConfig) -> anyhow::Result<Imported> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read serinin's config file {}", file.display()))?;
    let overrides = Overrides {
        handlers: args.handler,
        workers: args.worker,
        store_type: args.storetype.clone(),
    };
    Ok(serinin::import(
        &file.display().to_string(),
        &text,
        base,
        &overrides,
    )?)
}

fn from_flags(args: &ServeArgs, mut config: FanoutConfig) -> anyhow::Result<FanoutConfig> {
    for (name, url) in &args.endpoint {
        config
            .endpoints
            .0
            .insert(name.clone(), EndpointConfig::at(url.as_str()));
    }
    let given = |count: Option<usize>| count.filter(|count| *count > 0);
    config.handlers = given(args.handler).unwrap_or(config.handlers);
    config.workers = given(args.worker).unwrap_or(config.workers);
    match args.storetype.as_deref() {
        None | Some("") => (),
        Some("memcache") => config.store = StoreKind::Memcached,
        Some("binmemcache") => {
            config.store = StoreKind::Memcached;
            config.memcached_nodes = NodeChoice::Jump;
        }
        Some("gocache") => config.store = StoreKind::Memory,
        Some(name) => {
            config.store = StoreKind::read(&Raw::Words(name.to_owned()))
                .with_context(|| format!("--storetype {name} is not known"))?;
        }
    }
    Ok(config)
}

/// Random ids, or those of a number given by hand: a leased one needs `nagaya up`.
fn id_source(config: &FanoutConfig, ids: &IdsConfig, worker: Option<u64>) -> anyhow::Result<IdSource> {
    let Some(worker) = worker else {
        ensure!(
            config.request_id == RequestIdKind::Uuid,
            "`fanout.request_id` is \"minted\"; give the number with --worker-id, or let `nagaya up` lease one"
        );
        return Ok(IdSource::Uuid);
    };
    let layout = ids.layout()?;
    let max = layout.worker_max();
    ensure!(
        worker <= max,
        "--worker-id {worker} does not fit the id layout, whose greatest is {max}"
    );
    let mint = Mint::new(layout, RunningClock::system()).with_wait_max(ids.wait_max);
    mint.set_permit(Some(Arc::new(FixedPermit::new(worker))));
    Ok(IdSource::Minted(Arc::new(mint)))
}
