//! `nagaya up`: everything from the settings to the exit code.
//!
//! The order matters: settings are checked before anything is touched, the data folder is
//! locked before a port is bound, and all ports are bound before anything runs. Whatever
//! fails on the way leaves nothing behind.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use nagaya_clock::{Clock, SystemClock};
use nagaya_config::Flag;
use nagaya_fanout::StoreKind;
use nagaya_process::Signals;
use nagaya_telemetry::metrics::Metrics;
use nagaya_telemetry::{LogFormat, Telemetry, TelemetryConfig};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::api::{AdminState, READERS_MAX};
use crate::app::access;
use crate::app::banner::{Banner, Fleet};
use crate::app::data_dir::DataDir;
use crate::app::ground_watch;
use crate::app::readiness::Readiness;
use crate::app::service::Service;
use crate::app::service_manager;
use crate::app::settings::{self, HouseConfig, Settings};
use crate::app::supervisor::Supervisor;
use crate::app::terminal;
use crate::cli::GlobalArgs;
use crate::fanout::{self, FanoutService};
use crate::fleet::FleetService;
use crate::http::{HttpConfig, HttpListener, HttpServer, HttpState, scheme};
use crate::ids::{IdsService, Source};
use crate::jobs::JobsService;
use crate::room::api::EXPORTS_MAX;
use crate::room::api::{EngineBackend, EngineHandle};
use crate::room::distributed::{Backends, Roles, TieredRoom};
use crate::room::embedded::RoomService;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Trace export blocks one worker while another must send; fewer than two would deadlock.
const WORKERS_MIN: usize = 2;

pub(crate) fn up(global: &GlobalArgs, flags: Vec<Flag>) -> anyhow::Result<ExitCode> {
    let settings = Settings::new(&settings::load(global, flags.clone())?)?;
    let reload = fanout::reload_from_settings(global.clone(), flags);
    let config = settings::config_file(global).and_then(|path| path.canonicalize().ok());
    until_second_signal(settings.telemetry.clone(), move |stop| {
        run(settings, config, reload, stop)
    })
}

/// Runs components with logging; the first signal asks them to stop, a second one ends the process.
pub(crate) fn until_second_signal<R>(
    telemetry: TelemetryConfig,
    components: impl FnOnce(CancellationToken) -> R,
) -> anyhow::Result<ExitCode>
where
    R: Future<Output = anyhow::Result<()>>,
{
    let workers = std::thread::available_parallelism()
        .map_or(WORKERS_MIN, usize::from)
        .max(WORKERS_MIN);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let mut signals = Signals::listen_for_stop().context("cannot listen for signals")?;
        let stop = CancellationToken::new();
        let second_signal = async {
            let name = signals.next_name().await;
            info!(signal = name, "stopping");
            stop.cancel();
            signals.next_name().await
        };
        tokio::select! {
            result = logged(&telemetry, components(stop.clone())) => result.map(|()| ExitCode::SUCCESS),
            name = second_signal => {
                warn!(signal = name, "told twice, ending at once");
                std::process::exit(1);
            }
        }
    })
}

async fn logged(
    config: &TelemetryConfig,
    components: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let telemetry = Telemetry::start(config)?;
    let result = components.await;
    let flushed = tokio::task::spawn_blocking(|| telemetry.shutdown()).await;
    result.and(flushed.context("telemetry could not be shut down"))
}

async fn run(
    settings: Settings,
    config: Option<PathBuf>,
    reload: fanout::Reload,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    for warning in settings.warnings() {
        warn!("{warning}");
    }
    access::raise_descriptor_limit(&settings);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Arc::new(Metrics::new(VERSION, Arc::clone(&clock)));
    let mut data = DataDir::claim(&settings.house.data)?;

    let manages = settings.fleet.enabled;
    let backends = Backends::of(&settings)?;
    let is_embedded = backends.is_none();
    let needs_backroom = settings.house.redis.is_none()
        && ((settings.ids.enabled && settings.ids.redis.is_none())
            || (manages && settings.fleet.redis.is_none()));
    let names = [
        Some("room"),
        needs_backroom.then_some("backroom"),
        settings.ids.enabled.then_some("ids"),
        manages.then_some("fleet"),
        settings.jobs.enabled.then_some("jobs"),
        settings.fanout.enabled.then_some("fanout"),
        Some("http"),
    ];
    let names: Vec<&str> = names.into_iter().flatten().collect();
    let readiness = Readiness::new(&names);
    let states = readiness.clone();
    metrics.register(move || states.stats());
    let (room, room_address, inside): (Box<dyn Service>, _, _) = match backends {
        None => {
            let room = RoomService::bind(settings.room.clone(), Arc::clone(&metrics), &data)?;
            let (address, inside) = (room.address(), EngineBackend::Embedded(room.inside()));
            (Box::new(room), address, inside)
        }
        Some(backends) => {
            let roles = Roles {
                serves: true,
                collects_at: None,
                keeps: true,
            };
            let room = TieredRoom::open(backends, roles, Arc::clone(&metrics)).await?;
            let address = room.address().context("the room has no address")?;
            let inside = room.inside()?;
            (Box::new(room), address, inside)
        }
    };
    let engine_handle = EngineHandle::new(room_address, settings.room.password.clone(), inside)?;
    let ids = if settings.ids.enabled {
        let source = Source::of_house(&settings, data.path(), &readiness)?;
        Some(IdsService::bind(&settings.ids, source, Arc::clone(&metrics))?)
    } else {
        None
    };
    let ids_address = ids.as_ref().map(IdsService::address);
    let ids_view = ids.as_ref().map(IdsService::view).transpose()?.flatten();
    let fleet = if manages {
        Some(FleetService::of_house(&settings, data.path(), &readiness)?)
    } else {
        None
    };
    let mut routes = ids.as_ref().map(IdsService::routes).unwrap_or_default();
    if let Some(fleet) = &fleet {
        fleet.register(&metrics);
        routes = routes.merge(fleet.routes());
    }
    let mint = ids.as_ref().map(IdsService::mint);
    let fanout = FanoutService::of_house(&settings, room_address, mint, &readiness, reload, &metrics).await?;
    let fanout_address = fanout.as_ref().map(FanoutService::address);
    let listener = HttpListener::bind(&settings.http).await?;
    // Creates a file, so every port must be bound before.
    let jobs = if settings.jobs.enabled {
        Some(JobsService::open(&settings, Some(&data), &metrics).await?)
    } else {
        None
    };
    let address = listener.address().context("cannot tell the HTTP address")?;
    let admin = Arc::new(AdminState {
        readiness: readiness.clone(),
        metrics: Arc::clone(&metrics),
        clock: Arc::clone(&clock),
        started: clock.now(),
        http: address,
        http_has_token: settings.http.token.is_some(),
        http_scheme: settings.http.scheme(),
        fanout_scheme: scheme(settings.fanout.tls_cert.is_some()),
        room: engine_handle,
        jobs: jobs.as_ref().map(JobsService::jobs),
        fanout: fanout.as_ref().map(|fanout| (fanout.fanout(), fanout.address())),
        ids: ids_view.zip(ids_address),
        fleet: fleet.as_ref().map(FleetService::handle),
        history: Default::default(),
        latest: Default::default(),
        readers: Arc::new(Semaphore::new(READERS_MAX)),
        exports: Arc::new(Semaphore::new(EXPORTS_MAX)),
    });
    let state = HttpState {
        config: settings.http.clone(),
        readiness: readiness.clone(),
        metrics,
        started: admin.started,
        clock,
        routes: routes.merge(admin.routes()),
        self_guarded: jobs.as_ref().map(JobsService::routes).unwrap_or_default(),
        tokens: jobs.as_ref().map(JobsService::api),
        rights: Default::default(),
    };
    let http = HttpServer::on(listener, Arc::new(state));
    let backroom = if needs_backroom {
        Some(RoomService::backroom(&data)?)
    } else {
        None
    };
    data.keep();
    data.announce(room_address)
        .context("cannot write to the data folder")?;

    let mut services: Vec<Box<dyn Service>> = vec![room];
    services.extend(backroom.map(|backroom| Box::new(backroom) as Box<dyn Service>));
    services.extend(ids.map(|ids| Box::new(ids) as Box<dyn Service>));
    services.extend(fleet.map(|fleet| Box::new(fleet) as Box<dyn Service>));
    services.extend(jobs.map(|jobs| Box::new(jobs) as Box<dyn Service>));
    services.extend(fanout.map(|fanout| Box::new(fanout) as Box<dyn Service>));
    services.push(Box::new(http));
    let watched = readiness.clone();
    let supervisor = Supervisor::new(services, readiness, settings.house.drain_timeout).restarting();
    let on_ready = || match settings.telemetry.log_format {
        LogFormat::Json => {
            let ids = ids_address.map(tracing::field::display);
            let fanout = fanout_address.map(tracing::field::display);
            info!(version = VERSION, room = %room_address, http = %address, ids, fanout, data = %data.path().display(), "ready")
        }
        LogFormat::Text => {
            let program = std::env::args().next().unwrap_or_else(|| "nagaya".to_owned());
            let http_is_default = address == HttpConfig::default().listen.0;
            let fleet = match (manages, &settings.fleet.redis, &settings.house.redis) {
                (false, _, _) => Fleet::Off,
                (true, None, None) => Fleet::InData,
                (true, _, _) => Fleet::Elsewhere,
            };
            let banner = Banner {
                room: room_address,
                room_has_password: settings.room.password.is_some(),
                http_has_token: settings.http.token.is_some(),
                fanout_has_token: settings.fanout.token.is_some(),
                config: config.as_deref(),
                http: address,
                http_scheme: settings.http.scheme(),
                fanout_scheme: scheme(settings.fanout.tls_cert.is_some()),
                open: access::lines(&settings),
                http_is_default,
                ids: ids_address,
                fanout: fanout_address.map(|fanout| (fanout, settings.fanout.endpoints.0.len())),
                fleet,
                jobs: settings.jobs.enabled,
                data_is_default: settings.house.data == HouseConfig::default().data,
                data: data.path(),
                program: &program,
            };
            eprint!("{}", banner.render(terminal::stderr()));
        }
    };
    let keepers = keepers(&settings, is_embedded, needs_backroom)?;
    tokio::select! {
        ended = supervisor.run(stop, || { on_ready(); service_manager::ready() }) => ended,
        () = ground_watch::watch(data.ground().clone(), watched, keepers) => unreachable!("it never ends"),
        () = admin.keep_history() => unreachable!("it never ends"),
    }
}

/// Returns the components that keep files in the data folder, directly or in an engine that does.
fn keepers(
    settings: &Settings,
    room_is_embedded: bool,
    has_backroom: bool,
) -> anyhow::Result<Vec<&'static str>> {
    let room = room_is_embedded && settings.room.persist;
    let fanout = room && settings.fanout.enabled && settings.fanout.store == StoreKind::Embedded;
    let fleet = has_backroom && settings.fleet.redis.is_none();
    let jobs = settings.jobs.enabled && settings.jobs.postgres_url(&settings.house)?.is_none();
    let keepers = [
        room.then_some("room"),
        has_backroom.then_some("backroom"),
        // The proof that a number was held is a file, wherever the number comes from.
        settings.ids.enabled.then_some("ids"),
        fleet.then_some("fleet"),
        jobs.then_some("jobs"),
        fanout.then_some("fanout"),
    ];
    Ok(keepers.into_iter().flatten().collect())
}
