//! The engine as a component of the server.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, anyhow};
use nagaya_cold::sqlite::SqliteCold;
use nagaya_commands::table;
use nagaya_engine::metrics::{CommandStats, RoomStats, TierStats};
use nagaya_engine::{Bound, Engine, EngineStats, Error, RoomConfig, Storage};
use nagaya_exec::config::Config;
use nagaya_exec::server::Server;
use nagaya_exec::settings::Setting;
use nagaya_keyspace::residency::LOAD_BOUNDS_US;
use nagaya_process::Ground;
use nagaya_telemetry::metrics::Metrics;
use nagaya_threads::Account;

use crate::app::data_dir::DataDir;
use crate::app::readiness::Ready;
use crate::app::service::{Running, Service, Shutdown};

/// The room's part of the data folder; in it, the cold tier's file and the log's folder.
pub(crate) const ROOM_FOLDER: &str = "room";
pub(crate) const COLD_FILE: &str = "cold.sqlite";
pub(crate) const LOG_FOLDER: &str = "log";
/// ACL users, when the settings name no file for them.
pub(crate) const USERS_FILE: &str = "users.acl";

/// The part of the data folder for the engine that the server itself uses, and its socket there.
pub(crate) const BACKROOM_FOLDER: &str = "backroom";
const BACKROOM_SOCKET: &str = "redis.sock";
/// Memory for pages of the cold tier's file, at most.
const COLD_CACHE_BYTES: u64 = 16 << 20;

/// The engine's listeners, bound; its threads start with [`Service::run`].
pub(crate) struct RoomService {
    name: &'static str,
    bound: Bound,
    /// Nothing for an engine that only the server uses.
    metrics: Option<Arc<Metrics>>,
    /// Where the data is kept.
    folder: PathBuf,
    ground: Ground,
    /// Set once the engine runs.
    inside: Arc<OnceLock<EngineStats>>,
    /// The engine's run outlives restarts that lose nothing, so that leases in it need not wait.
    keeps_identity: bool,
    /// Settings of Redis that are set once the engine runs.
    settings: Vec<(&'static Setting, String)>,
}

/// The socket of the engine that the server itself uses.
pub(crate) fn backroom_socket(data_dir: &Path) -> PathBuf {
    data_dir.join(BACKROOM_FOLDER).join(BACKROOM_SOCKET)
}

impl RoomService {
    /// An engine for the server itself, on a socket in the data folder: what the services keep there is neither
    /// visible to clients of the room nor flushed by them.
    pub(crate) fn backroom(data: &DataDir) -> anyhow::Result<RoomService> {
        let folder = data.path().join(BACKROOM_FOLDER);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let config = RoomConfig {
            unix_socket: Some(backroom_socket(data.path())),
            io_threads: 1,
            shards: 16,
            ..RoomConfig::default()
        };
        let bound = Bound::on_socket_only(config).context("the server's own engine")?;
        let bound = bound.on_account(Account::Backroom);
        Ok(RoomService {
            name: "backroom",
            bound,
            metrics: None,
            folder,
            ground: data.ground().clone(),
            inside: Arc::default(),
            keeps_identity: true,
            settings: Vec::new(),
        })
    }

    pub(crate) fn bind(
        config: RoomConfig,
        metrics: Arc<Metrics>,
        data: &DataDir,
    ) -> anyhow::Result<RoomService> {
        match Bound::bind(config) {
            Ok(bound) => Ok(RoomService {
                name: "room",
                bound,
                metrics: Some(metrics),
                folder: data.path().join(ROOM_FOLDER),
                ground: data.ground().clone(),
                inside: Arc::default(),
                keeps_identity: false,
                settings: Vec::new(),
            }),
            Err(Error::Bind { address, source }) => Err(anyhow!(
                "cannot listen on {address} for Redis clients: {source}; choose another address with --room-listen"
            )),
            Err(error) => Err(error).context("room"),
        }
    }

    /// Sets settings of Redis, in order, once the engine runs.
    pub(crate) fn with_settings(self, settings: Vec<(&'static Setting, String)>) -> RoomService {
        RoomService { settings, ..self }
    }

    /// Returns the slot for the engine's view, which is set once the engine runs.
    pub(crate) fn inside(&self) -> Arc<OnceLock<EngineStats>> {
        Arc::clone(&self.inside)
    }

    /// Where Redis clients connect.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.bound.tcp_address()
    }
}

impl Service for RoomService {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(self: Box<Self>, shutdown: Shutdown, ready: Ready) -> Running {
        Box::pin(async move {
            let Self {
                bound,
                metrics,
                folder,
                ground,
                inside,
                keeps_identity,
                settings,
                ..
            } = *self;
            let persists = bound.config().persist;
            let under = ground.clone();
            let start = tokio::task::spawn_blocking(move || start(bound, &folder, &under, keeps_identity));
            let engine = start.await.context("the engine's start was cut off")??;
            for (setting, value) in settings {
                let set = |config: &mut Config| setting.set(config, value.as_bytes());
                let set = engine.server().try_update_config(set);
                set.map_err(|reason| anyhow!("`{}` cannot be {value}: {reason}", setting.name))?;
            }
            let stats = engine.stats();
            let view = stats.clone();
            if let Some(metrics) = metrics {
                metrics.register(move || read(&view));
            }
            // Set once, here.
            inside.set(stats.clone()).ok();
            ready.ready();
            tokio::select! {
                () = shutdown.stopped() => {}
                () = watch_health(stats.clone(), &ready) => {}
                () = asked_to_end(stats) => {
                    // Uses the regular shutdown, so that all components drain and stop in order.
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)
                        .context("SHUTDOWN could not be passed on")?;
                    shutdown.stopped().await;
                }
            }
            let open = tokio::task::spawn_blocking(|| Engine::stop(engine)).await;
            let open = open.context("the engine could not be stopped")?;
            tracing::debug!(connections = open, "room has stopped");
            if persists && let Some(lost) = ground.lost() {
                return Err(lost.clone().into());
            }
            Ok(Vec::new())
        })
    }
}

/// Opens the data and starts the engine on it. May take a while when there is much to replay.
fn start(bound: Bound, folder: &Path, ground: &Ground, keeps_identity: bool) -> anyhow::Result<Engine> {
    if !bound.config().persist {
        return bound.start(None).context("room");
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let bound = bound.keeping_users_in(folder.join(USERS_FILE));
    let max_memory = bound.config().max_memory.0;
    let mut options = nagaya_cold::sqlite::Options {
        decode: bound.config().decode,
        // Mapped pages of the file would count as memory of this process, and so do cached ones: the system
        // keeps what is used often in its own cache.
        mmap_bytes: 0,
        cache_bytes: COLD_CACHE_BYTES,
        ..Default::default()
    };
    if max_memory > 0 {
        options.cache_bytes = (max_memory / 32).clamp(1 << 20, options.cache_bytes);
    }
    let cold = SqliteCold::open(folder.join(COLD_FILE), options).context("room")?;
    ground
        .watch(&folder.join(COLD_FILE))
        .with_context(|| format!("cannot watch {}", folder.display()))?;
    let mut storage = Storage::new(Arc::new(cold), folder.join(LOG_FOLDER)).on(ground.clone());
    if keeps_identity {
        storage = storage.identified_in(folder.to_owned());
    }
    bound.start(Some(storage)).context("room")
}

/// Reports the room as failed while writes are refused or saving fails. Never returns.
async fn watch_health(stats: EngineStats, ready: &Ready) {
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let mut was_well = true;
    loop {
        looks.tick().await;
        let is_well = stats.failure().is_none();
        if is_well != was_well {
            was_well = is_well;
            if is_well { ready.ready() } else { ready.failed() }
        }
    }
}

/// Waits for a client's SHUTDOWN.
async fn asked_to_end(stats: EngineStats) {
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    let mut looks = tokio::time::interval(LOOK_EVERY);
    while !stats.shutdown_requested() {
        looks.tick().await;
    }
}

/// Reads the engine's counters for a scrape.
fn read(stats: &EngineStats) -> RoomStats {
    let server = stats.server();
    let every = table::all()
        .iter()
        .flat_map(|command| std::iter::once(command).chain(&command.subcommands));
    RoomStats {
        connections: stats.connections() as u64,
        connections_refused: stats.connections_refused(),
        keys: server.keyspace.shards.keys() as u64,
        hits: server.sum(|stats| stats.keyspace.hits.get()),
        misses: server.sum(|stats| stats.keyspace.misses.get()),
        expired: server.sum(|stats| stats.keyspace.expired_keys.get()),
        used_bytes: server.keyspace.memory.used_and_peak().0 as u64,
        limit_bytes: Some(server.config().maxmemory).filter(|limit| *limit > 0),
        tags: server.keyspace.tags_in_memory(),
        commands: every
            .map(|command| CommandStats {
                name: &command.full_name,
                calls: server.sum(|stats| stats.commands[command.number].calls.get()),
                failed: server.sum(|stats| stats.commands[command.number].failed.get()),
            })
            .collect(),
        tiers: read_tiers(server),
    }
}

fn read_tiers(server: &Server) -> TierStats {
    let Some(tiering) = server.keyspace.tiering.get() else {
        return TierStats::default();
    };
    let counters = &tiering.counters;
    // Other metrics show a tier that does not answer.
    let totals = tiering.cold.totals().unwrap_or_default();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let bounds = LOAD_BOUNDS_US.iter().map(|&us| us as f64 / 1e6).chain([f64::MAX]);
    TierStats {
        cold_keys: tiering.cold_keys(),
        cold_tags: totals.tags,
        cold_bytes: totals.disk_bytes,
        log_bytes: server.journal_bytes(),
        staleness_ms: server.keyspace.staleness_ms() as u64,
        load_waits: count(&counters.waits),
        loads_failed: count(&counters.loads_failed),
        evicted_tags: count(&counters.evicted_tags),
        saved_keys: count(&counters.saved_keys),
        load_times: bounds.zip(counters.load_times.iter().map(count)).collect(),
        load_seconds: count(&counters.load_us) as f64 / 1e6,
    }
}
