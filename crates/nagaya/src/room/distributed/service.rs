//! The roles of a room on real engines, as a component: any of server, collector and task.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use nagaya_cluster::metrics::TiersStats;
use nagaya_cluster::proxy::{self, Error};
use nagaya_cluster::workers::{
    AccessConfig, AccessLog, ColdKeyService, ColdTierSink, Collector, CollectorConfig, CollectorSink,
    EvictConfig, LoadConfig, LoadPool, TagService, Tasks, TasksConfig,
};
use nagaya_redis_client::{Client, Options, RedisUrl};
use nagaya_telemetry::metrics::Metrics;
use nagaya_tiering::loader::{Loader, LoaderConfig};
use nagaya_tiering::saver::SaverConfig;
use tokio::runtime::Handle;

use super::health;
use super::open::{Backends, Tiers};
use crate::app::readiness::Ready;
use crate::app::service::{Running, Service, Shutdown};
use crate::room::api::EngineBackend;

/// The shortest time that a command waits for a tag to be loaded: a large one takes a while.
const LOAD_LEAST: Duration = Duration::from_secs(1);
/// How long a shard stays assigned to a task process without heartbeats.
const SHARD_LEASE: Duration = Duration::from_secs(10);
/// Maximum number of servers that send access news.
const SENDERS_MAX: usize = 1_000;

/// Which roles a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Roles {
    /// Clients are served.
    pub(crate) serves: bool,
    /// News of used tags is taken from servers, at this address.
    pub(crate) collects_at: Option<SocketAddr>,
    /// Changed tags are saved and idle ones evicted.
    pub(crate) keeps: bool,
}

/// What was opened and bound; threads start with [`Service::run`].
pub(crate) struct TieredRoom {
    tiers: Tiers,
    backends: Backends,
    roles: Roles,
    front: Option<Front>,
    collector: Option<Collector>,
    accesses: Arc<AccessLog>,
    metrics: Arc<Metrics>,
}

struct Front {
    service: proxy::Service,
    loads: Arc<LoadPool>,
}

impl TieredRoom {
    /// Opens the tiers and binds what the roles listen on. Takes as long as PostgreSQL does.
    pub(crate) async fn open(
        backends: Backends,
        roles: Roles,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<TieredRoom> {
        let runtime = Handle::current();
        let opened = tokio::task::spawn_blocking(move || {
            let tiers = backends.open("nagaya-room", runtime.clone())?;
            let accesses = accesses(&backends, &tiers, runtime)?;
            let front = if roles.serves {
                Some(Front::bind(&backends, &tiers, &accesses)?)
            } else {
                None
            };
            anyhow::Ok((backends, tiers, accesses, front))
        });
        let (backends, tiers, accesses, front) = opened.await.context("opening the tiers was cut off")??;
        let collector = match roles.collects_at {
            Some(listen) => {
                let config = CollectorConfig {
                    listen,
                    password: backends.room.password.clone(),
                    senders_max: SENDERS_MAX,
                };
                let bound = Collector::bind(config, Arc::clone(&accesses)).await;
                Some(bound.with_context(|| format!("cannot listen on {listen} for news of used tags"))?)
            }
            None => None,
        };
        Ok(TieredRoom {
            tiers,
            backends,
            roles,
            front,
            collector,
            accesses,
            metrics,
        })
    }

    /// Returns the backend for the admin API.
    pub(crate) fn inside(&self) -> anyhow::Result<EngineBackend> {
        let options = Options {
            client_name: "nagaya-house".to_owned(),
            ..Options::default()
        };
        let redis = Client::new(self.backends.redis.clone(), options)?;
        Ok(EngineBackend::Tiered {
            redis: Box::new(redis),
            cold: Arc::clone(&self.tiers.cold),
        })
    }

    /// Where Redis clients connect.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.front.as_ref().map(|front| front.service.address())
    }

    /// Where servers send news of used tags.
    pub(crate) fn collector_address(&self) -> Option<SocketAddr> {
        self.collector
            .as_ref()
            .and_then(|collector| collector.address().ok())
    }
}

impl Front {
    fn bind(backends: &Backends, tiers: &Tiers, accesses: &Arc<AccessLog>) -> anyhow::Result<Front> {
        let loader = Loader::new(
            Arc::new(tiers.hot.clone()),
            Arc::clone(&tiers.cold),
            Arc::clone(&tiers.clock),
            LoaderConfig::default(),
        );
        let config = LoadConfig {
            threads: backends.tiers.loaders,
            cold_wait: backends.tiers.cold_wait,
            ..LoadConfig::default()
        };
        let loads =
            LoadPool::start(loader, Arc::clone(&tiers.clock), config).context("cannot start threads")?;
        let loads = Arc::new(loads);
        let cold_keys = ColdKeyService::start(
            tiers.hot.clone(),
            Arc::clone(&tiers.cold),
            Arc::clone(&tiers.clock),
        );
        let tag_admin = TagService::new(
            tiers.hot.clone(),
            Arc::clone(&tiers.cold),
            Arc::clone(&tiers.clock),
            Arc::clone(&loads),
        );
        let room = &backends.room;
        let plain = proxy::Config::new(room.listen.0, backends.redis.clone());
        let config = proxy::Config {
            redis_version: room
                .redis_version
                .as_ref()
                .map_or(plain.redis_version.clone(), |told| told.0.clone()),
            password: room
                .password
                .as_ref()
                .map(|password| password.reveal().to_owned()),
            acl_file: room.acl_file.clone(),
            enable_debug_command: room.enable_debug_command.word(),
            io_threads: usize::try_from(room.io_threads).unwrap_or(0).max(1),
            max_clients: room.max_clients,
            output_bytes_max: usize::try_from(room.output_buffer_max.0).unwrap_or(usize::MAX),
            reply_limit: backends.tiers.allowance,
            allow_split_mset: backends.tiers.split_mset,
            require_hash_tag: room.require_hash_tag,
            hidden: backends.hidden.clone(),
            tiering: Some(proxy::Tiering {
                lease: backends.tiers.lease,
                margin: backends.tiers.lease / 10,
                allowance: backends.tiers.allowance,
                load_wait: backends.tiers.cold_wait.max(LOAD_LEAST),
                loads: Arc::clone(&loads) as _,
                accesses: Arc::clone(accesses) as _,
                cold_keys: Arc::new(cold_keys.context("cannot start threads")?),
                tag_admin: Arc::new(tag_admin),
            }),
            ..plain
        };
        let service = match proxy::Service::bind(config) {
            Ok(service) => service,
            Err(Error::Bind { address, source }) => {
                return Err(anyhow!(
                    "cannot listen on {address} for Redis clients: {source}; choose another address with \
                     --room-listen"
                ));
            }
            Err(error) => return Err(error).context("room"),
        };
        Ok(Front { service, loads })
    }
}

/// Starts the delivery of access news.
fn accesses(backends: &Backends, tiers: &Tiers, runtime: Handle) -> anyhow::Result<Arc<AccessLog>> {
    let (clock, config) = (Arc::clone(&tiers.clock), AccessConfig::default());
    let log = match backends.tiers.collector {
        None => {
            let cold = Arc::clone(&tiers.cold);
            AccessLog::start(ColdTierSink { cold }, clock, config)
        }
        Some(collector) => {
            let mut url = RedisUrl::single(collector.0.ip().to_string(), collector.0.port());
            url.password = backends.room.password.clone();
            let options = Options {
                client_name: "nagaya-room".to_owned(),
                ..Options::default()
            };
            let client = Client::new(url, options).context("`tiers.collector` cannot be used")?;
            AccessLog::start(CollectorSink { client, runtime }, clock, config)
        }
    };
    Ok(Arc::new(log.context("cannot start threads")?))
}

impl Service for TieredRoom {
    fn name(&self) -> &'static str {
        "room"
    }

    fn run(self: Box<Self>, shutdown: Shutdown, ready: Ready) -> Running {
        Box::pin(async move {
            let TieredRoom {
                tiers,
                backends,
                roles,
                front,
                collector,
                accesses,
                metrics,
            } = *self;
            let loads = front.as_ref().map(|front| Arc::clone(&front.loads));
            let watched = tiers.clone();
            let started = tokio::task::spawn_blocking(move || start(tiers, &backends, roles, front));
            let (proxy, tasks) = started.await.context("the room's start was cut off")??;
            let tasks = tasks.map(Arc::new);
            let handle = proxy.as_ref().map(proxy::Proxy::handle);
            let figures = StatsReader {
                handle,
                tasks: tasks.clone(),
                loads,
                accesses: Arc::clone(&accesses),
            };
            metrics.register(move || figures.read());
            let collecting = collector.map(|collector| {
                let shutdown = shutdown.clone();
                tokio::spawn(collector.run(async move { shutdown.stopped().await }))
            });
            tokio::select! {
                () = health::watch(watched, &ready) => (),
                () = shutdown.stopped() => (),
            }
            if let Some(collecting) = collecting {
                collecting.await.context("the collector could not be stopped")?;
            }
            let ended = tokio::task::spawn_blocking(move || {
                let open = proxy.map_or(0, proxy::Proxy::stop);
                // The metrics keep a reference. The threads end with the process, and shards are released by
                // their lease.
                drop(tasks);
                drop(accesses);
                open
            });
            let open = ended.await.context("the room could not be stopped")?;
            tracing::debug!(connections = open, "room has stopped");
            Ok(Vec::new())
        })
    }
}

fn start(
    tiers: Tiers,
    backends: &Backends,
    roles: Roles,
    front: Option<Front>,
) -> anyhow::Result<(Option<proxy::Proxy>, Option<Tasks>)> {
    let tasks = if roles.keeps {
        let memory = backends.tiers.memory_max.0;
        let config = TasksConfig {
            name: worker_name(),
            save: SaverConfig {
                max_staleness: backends.room.max_staleness,
                ..SaverConfig::default()
            },
            evict: EvictConfig {
                idle_after: backends.idle_after(),
                every: backends
                    .idle_after()
                    .clamp(Duration::from_secs(1), Duration::from_secs(10)),
                memory_percent: backends.tiers.memory_percent,
                memory_bytes: (memory > 0).then_some(memory),
                ..EvictConfig::default()
            },
            savers: backends.tiers.savers,
            shard_lease: SHARD_LEASE,
        };
        Some(Tasks::start(tiers.hot, tiers.cold, tiers.clock, config).context("cannot start threads")?)
    } else {
        None
    };
    let proxy = front
        .map(|front| front.service.start().context("room"))
        .transpose()?;
    Ok((proxy, tasks))
}

/// A name that no other process has.
fn worker_name() -> String {
    let host = hostname::get().unwrap_or_default();
    let drawn = RandomState::new().build_hasher().finish();
    format!("{}-{}-{drawn:016x}", host.to_string_lossy(), std::process::id())
}

/// Reads the statistics for a scrape.
struct StatsReader {
    handle: Option<proxy::Handle>,
    tasks: Option<Arc<Tasks>>,
    loads: Option<Arc<LoadPool>>,
    accesses: Arc<AccessLog>,
}

impl StatsReader {
    fn read(&self) -> TiersStats {
        let mut figures = TiersStats::default();
        if let Some(handle) = &self.handle {
            let metrics = handle.metrics();
            figures.connections = handle.connections() as u64;
            figures.nodes_open = handle.open_nodes() as u64;
            figures.commands = metrics.commands.get();
            figures.redirects = metrics.redirects.get();
            figures.retries = metrics.retries.get();
            figures.lost = metrics.lost.get();
            figures.late = metrics.late.get();
            figures.touches = metrics.touches.get();
            figures.leases_granted = metrics.leases_granted.get();
            figures.registrations = metrics.registrations.get();
            figures.waits = metrics.waits.get();
        }
        if let Some(loads) = &self.loads {
            let loads = loads.stats();
            figures.loaded = loads.loaded;
            figures.loads_failed = loads.failed;
            figures.loads_waiting = loads.waiting;
        }
        if let Some(tasks) = &self.tasks {
            let tasks = tasks.stats();
            figures.shards = tasks.shards;
            figures.saved = tasks.saves;
            figures.saves_refused = tasks.refused;
            figures.evicted = tasks.evicted;
            figures.nodes_full = tasks.nodes_full;
            figures.task_errors = tasks.save_errors + tasks.evict_errors;
            figures.staleness = tasks.staleness;
        }
        let accesses = self.accesses.stats();
        figures.news_delivered = accesses.delivered;
        figures.news_dropped = accesses.dropped;
        figures
    }
}
