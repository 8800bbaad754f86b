//! Ids as a component of the server: holds a number, makes ids of it, serves them.
//!
//! The memcached listener is bound at once and read from when the first number may be used: a client
//! that comes earlier is not refused, it waits. From then on it is always served, with errors while no
//! number is held. The component is ready while its number may be used, and at no other time.

mod readiness_gate;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use axum::Router;
use nagaya_clock::boot_now;
use nagaya_clock::{Clock, SystemClock};
use nagaya_ids::id_clock::RunningClock;
use nagaya_ids::lease::{Holder, HolderOptions, LeaseStats, Status, pool_options};
use nagaya_ids::metrics::{IdsStats, LeaseNow};
use nagaya_ids::mint::Mint;
use nagaya_ids::permit::{FixedPermit, Permit};
use nagaya_ids::pool::{Error as PoolError, NewPool, Pool};
use nagaya_ids::server::{ListenAddress, Listener, Server, ServerConfig, Stats};
use nagaya_ids_api::IdsApi;
use nagaya_redis_client::{Client, RedisUrl};
use nagaya_telemetry::metrics::Metrics;
use nagaya_threads::panic_point;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::app::readiness::{Readiness, Ready};
use crate::app::service::{Running, Service, Shutdown};
use crate::app::settings::Settings;
use crate::ids::IdsConfig;
use crate::ids::api::IdsView;
use crate::ids::target::house_url;
use crate::ids::tools::run::describe_end;
use crate::room::embedded::BACKROOM_FOLDER;
use readiness_gate::ReadinessGate;

/// Interval of the check whether the number may still be used.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Number of attempts to reach the built-in engine at start before it counts as broken.
const OWN_ROOM_TRIES: u32 = 20;
/// How much longer than the delay of a new number a request for ids waits.
const OPENING_SLACK: Duration = Duration::from_secs(2);

/// The state of the lease under way, once there is one.
type LeaseStatus = watch::Sender<Option<(watch::Receiver<Status>, Arc<LeaseStats>)>>;

/// Where the number comes from.
#[derive(Clone)]
pub(crate) enum Source {
    /// Set in the configuration; its uniqueness is not checked.
    Fixed(u64),
    /// Leased from a pool.
    Leased(Box<Leased>),
}

impl Source {
    /// The number of a server: from the configured Redis, else from the built-in engine.
    pub(crate) fn of_house(
        settings: &Settings,
        data: &Path,
        readiness: &Readiness,
    ) -> anyhow::Result<Source> {
        let config = &settings.ids;
        let (timing, changes) = config.timing()?;
        for change in changes {
            warn!("{change}");
        }
        let options = HolderOptions {
            name: Some(config.node_name(data)),
            state_dir: Some(data.join("ids")),
            timing,
            min_replicas: config.min_replicas,
            ..HolderOptions::default()
        };
        let (url, own_room) = match config.redis_url()? {
            Some(url) => (url, None),
            None => {
                let shared = settings.house.redis.as_ref();
                // Nobody can have used numbers of an engine that has yet to be made.
                let is_new = ["ids", BACKROOM_FOLDER]
                    .iter()
                    .all(|part| !data.join(part).exists());
                let own_room = OwnRoom {
                    readiness: shared.is_none().then(|| readiness.clone()),
                    range: (config.min, config.max),
                    first: NewPool {
                        use_max: config.use_max,
                        unused: shared.is_none() && is_new,
                    },
                };
                let url = match shared {
                    None => house_url(config, data),
                    Some(text) => {
                        let mut url: RedisUrl =
                            text.reveal().parse().context("`house.redis` cannot be used")?;
                        url.namespace = Some(config.house_namespace());
                        url
                    }
                };
                (url, Some(own_room))
            }
        };
        Ok(Source::Leased(Box::new(Leased {
            url,
            options,
            own_room,
        })))
    }
}

#[derive(Clone)]
pub(crate) struct Leased {
    pub(crate) url: RedisUrl,
    pub(crate) options: HolderOptions,
    pub(crate) own_room: Option<OwnRoom>,
}

/// The pool is in an engine of this very process.
#[derive(Clone)]
pub(crate) struct OwnRoom {
    /// To wait for the engine, when it is in this process.
    pub(crate) readiness: Option<Readiness>,
    /// The range of the pool, which the server makes if it is missing.
    pub(crate) range: (u64, u64),
    /// How the pool is made at the start. One that was lost later is made as one that may have users.
    pub(crate) first: NewPool,
}

/// The bound listener and the id generator, which has no number yet.
pub(crate) struct IdsService {
    listener: Listener,
    address: SocketAddr,
    server_config: ServerConfig,
    source: Source,
    mint: Arc<Mint>,
    stats: Arc<Stats>,
    opened: watch::Sender<bool>,
    readiness_gate: ReadinessGate,
    held_since_ms: Arc<AtomicU64>,
    /// The state of the lease under way, for the metrics.
    status: LeaseStatus,
}

impl IdsService {
    pub(crate) fn bind(
        config: &IdsConfig,
        source: Source,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<IdsService> {
        let listen = config.listen;
        let bound = Listener::bind(&ListenAddress::Tcp(listen.0));
        let bound = bound.and_then(|listener| match listener.tcp_address() {
            Some(address) => Ok((listener, address)),
            None => Err(std::io::ErrorKind::AddrNotAvailable.into()),
        });
        let (listener, address) = bound.map_err(|error| {
            anyhow!(
                "cannot listen on {listen} for memcached clients: {error}; choose another address with \
                 --ids-listen"
            )
        })?;
        let (clock, waits) = match &source {
            Source::Fixed(_) => (RunningClock::system(), Duration::ZERO),
            Source::Leased(leased) => {
                let HolderOptions {
                    clock,
                    id_clock,
                    timing,
                    ..
                } = &leased.options;
                (RunningClock::new(Arc::clone(clock), *id_clock), timing.delay)
            }
        };
        let layout = config.layout()?;
        for warning in layout.check(clock.unix_ms()).context("[ids] cannot make ids")? {
            warn!("{warning}");
        }
        let mint = Arc::new(Mint::new(layout, clock).with_wait_max(config.wait_max));
        let stats = Arc::new(Stats::new(&mint, env!("CARGO_PKG_VERSION")));
        let (opened, readiness_gate) = ReadinessGate::new(waits + OPENING_SLACK);
        let server_config = ServerConfig {
            connections_max: config.connections_max,
            idle_timeout: config.idle_timeout,
            ..ServerConfig::default()
        };
        let status = LeaseStatus::default();
        register(
            &metrics,
            &mint,
            &stats,
            matches!(source, Source::Fixed(_)),
            &status,
        );
        Ok(IdsService {
            listener,
            address,
            server_config,
            source,
            mint,
            stats,
            opened,
            readiness_gate,
            held_since_ms: Arc::default(),
            status,
        })
    }

    /// Returns the state for the admin routes; `None` when the number is set in the configuration.
    pub(crate) fn view(&self) -> anyhow::Result<Option<IdsView>> {
        let Source::Leased(leased) = &self.source else {
            return Ok(None);
        };
        let client = Client::new(leased.url.clone(), pool_options(&leased.options.timing))?;
        Ok(Some(IdsView {
            mint: Arc::clone(&self.mint),
            stats: Arc::clone(&self.stats),
            pool: Pool::new(Arc::new(client))?,
            held_since_ms: Arc::clone(&self.held_since_ms),
        }))
    }

    /// Where memcached clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the id generator, for other components.
    pub(crate) fn mint(&self) -> Arc<Mint> {
        Arc::clone(&self.mint)
    }

    /// Returns the HTTP and gRPC routes. The HTTP listener serves them.
    pub(crate) fn routes(&self) -> Router {
        let api = IdsApi {
            mint: Arc::clone(&self.mint),
            stats: Arc::clone(&self.stats),
        };
        let routes = nagaya_ids_api::router(api.clone())
            .merge(nagaya_ids_api::katsubushi_router(api.clone()))
            .merge(nagaya_ids_api::grpc_router(api));
        self.readiness_gate.clone().guard(routes)
    }
}

impl Service for IdsService {
    fn name(&self) -> &'static str {
        "ids"
    }

    fn run(self: Box<Self>, shutdown: Shutdown, ready: Ready) -> Running {
        Box::pin(async move {
            let Self {
                listener,
                server_config,
                source,
                mint,
                stats,
                opened,
                held_since_ms,
                status,
                ..
            } = *self;
            // What an earlier run has left holds the lock of the name.
            mint.set_permit(None);
            status.send_replace(None);
            let mut front = Front {
                unstarted: Some((listener, server_config)),
                server: None,
                mint,
                stats,
                opened,
                ready,
                held_since_ms,
            };
            match source {
                Source::Fixed(worker) => {
                    front.use_number(Arc::new(FixedPermit::new(worker)))?;
                    front.ready.ready();
                    shutdown.draining().await;
                    front.close().await;
                    shutdown.stopped().await;
                    Ok(Vec::new())
                }
                Source::Leased(leased) => lease(*leased, front, &status, &shutdown).await,
            }
        })
    }

    fn again(&self) -> Option<Box<dyn Service>> {
        Some(Box::new(IdsService {
            listener: self.listener.try_clone().ok()?,
            address: self.address,
            server_config: self.server_config.clone(),
            source: self.source.clone(),
            mint: Arc::clone(&self.mint),
            stats: Arc::clone(&self.stats),
            opened: self.opened.clone(),
            readiness_gate: self.readiness_gate.clone(),
            held_since_ms: Arc::clone(&self.held_since_ms),
            status: self.status.clone(),
        }))
    }
}

/// Holds a number until shutdown; returns the work that was aborted.
async fn lease(
    leased: Leased,
    mut front: Front,
    shown: &LeaseStatus,
    shutdown: &Shutdown,
) -> anyhow::Result<Vec<String>> {
    let client = Client::new(leased.url, pool_options(&leased.options.timing))?;
    let pool = Pool::new(Arc::new(client))?;
    if let Some(room) = &leased.own_room {
        let engine = async {
            if let Some(readiness) = &room.readiness {
                readiness.is_ready("backroom").await;
            }
        };
        tokio::select! {
            () = engine => (),
            () = shutdown.stopped() => return Ok(Vec::new()),
        }
        make_first_pool(&pool, room).await?;
    }
    let holder = Holder::start(pool.clone(), leased.options)?;
    shown.send_replace(Some((holder.status(), holder.stats())));
    let mut status = holder.status();
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        let now = status.borrow_and_update().clone();
        if let (Status::Seeking { trouble: Some(_) }, Some(room)) = (&now, &leased.own_room) {
            // A client has flushed the engine. The holder reports a failure as well.
            let again = NewPool {
                unused: false,
                ..room.first
            };
            if let Err(error) = make_missing_pool(&pool, room.range, again).await {
                tracing::debug!(error = format!("{error:#}"), "pool not made");
            }
        }
        let is_open = matches!(now, Status::Open(_));
        front.follow(now)?;
        if is_open {
            panic_point("ids");
        }
        tokio::select! {
            () = shutdown.draining() => break,
            // The holder publishes its end before its task returns.
            Ok(()) = status.changed() => (),
            _ = looks.tick() => (),
        }
    }
    front.close().await;
    shutdown.stopped().await;
    front.mint.set_permit(None);
    tokio::select! {
        end = holder.stop() => {
            info!(end = describe_end(&end), "number is no longer used");
            Ok(Vec::new())
        }
        () = shutdown.cut() => Ok(vec!["the number was not given back; it stays reserved for a while".to_owned()]),
    }
}

/// Makes the pool at the start. An engine in this very process is asked several times: a busy machine may keep
/// it from answering the first time.
async fn make_first_pool(pool: &Pool, room: &OwnRoom) -> anyhow::Result<()> {
    for _ in 1..OWN_ROOM_TRIES {
        match make_missing_pool(pool, room.range, room.first).await {
            Ok(()) => return Ok(()),
            // A Redis elsewhere may come later; until then no number is found, and this is tried again.
            Err(error) if room.readiness.is_none() => {
                warn!(error = format!("{error:#}"), "pool not made yet");
                return Ok(());
            }
            Err(error) => tracing::debug!(error = format!("{error:#}"), "pool not made at first"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    make_missing_pool(pool, room.range, room.first).await
}

async fn make_missing_pool(pool: &Pool, (min, max): (u64, u64), new: NewPool) -> anyhow::Result<()> {
    match pool.range().await {
        Ok(_) => Ok(()),
        Err(PoolError::NotInitialized { .. }) => match pool.init(min, max, new).await {
            // Another process created it first.
            Ok(()) | Err(PoolError::AlreadyInitialized { .. }) => Ok(()),
            Err(error) => Err(anyhow!("the pool could not be made: {}", error.chain())),
        },
        Err(error) => Err(anyhow!("the pool could not be read: {}", error.chain())),
    }
}

/// The parts that serve clients.
struct Front {
    /// Until the first number may be used.
    unstarted: Option<(Listener, ServerConfig)>,
    server: Option<Server>,
    mint: Arc<Mint>,
    stats: Arc<Stats>,
    opened: watch::Sender<bool>,
    ready: Ready,
    held_since_ms: Arc<AtomicU64>,
}

impl Front {
    /// Applies a change of the holder's status.
    fn follow(&mut self, status: Status) -> anyhow::Result<()> {
        match status {
            Status::Open(window) => {
                let (number, fence) = (window.worker(), window.fence());
                if self.mint.worker() != Some((number, fence)) {
                    info!(number, fence, "ids are made with this number");
                    self.use_number(window.clone())?;
                }
                match window.check(boot_now()) {
                    Ok(_) => {
                        self.ready.ready();
                        self.ready.set_detail(format!("number {number}, fence {fence}"));
                    }
                    Err(stop) => {
                        self.ready.failed();
                        self.ready
                            .set_detail(format!("number {number}, fence {fence}: {stop}"));
                    }
                }
            }
            Status::Waiting {
                number,
                fence,
                opens_after,
            } => {
                self.mint.set_permit(None);
                self.ready.failed();
                let left = opens_after.since(boot_now()).as_secs_f64();
                self.ready.set_detail(format!(
                    "number {number}, fence {fence}, to be used in {left:.1} s"
                ));
            }
            Status::Seeking { trouble } => {
                self.mint.set_permit(None);
                self.ready.failed();
                self.ready
                    .set_detail(trouble.unwrap_or_else(|| "no number yet".to_owned()));
            }
            Status::Ended(end) => bail!("no number: {}", describe_end(&end)),
        }
        Ok(())
    }

    /// Makes ids with a number from now on, and begins to serve if it is the first.
    fn use_number(&mut self, permit: Arc<dyn Permit>) -> anyhow::Result<()> {
        self.mint.set_permit(Some(permit));
        self.held_since_ms
            .store(SystemClock.unix_ms().unsigned_abs(), Ordering::Relaxed);
        self.opened.send_replace(true);
        if let Some((listener, config)) = self.unstarted.take() {
            let (mint, stats) = (Arc::clone(&self.mint), Arc::clone(&self.stats));
            let server = Server::start(vec![listener], config, mint, stats);
            self.server = Some(server.context("cannot start the memcached server")?);
        }
        Ok(())
    }

    /// Answers what memcached clients have sent, and closes their connections.
    async fn close(&mut self) {
        self.unstarted = None;
        if let Some(server) = self.server.take() {
            match tokio::task::spawn_blocking(|| server.stop()).await {
                Ok(open) => tracing::debug!(connections = open, "memcached server has stopped"),
                Err(error) => warn!(%error, "memcached server could not be stopped"),
            }
        }
    }
}

/// Registers the metrics, once for all runs.
fn register(metrics: &Metrics, mint: &Arc<Mint>, stats: &Arc<Stats>, is_fixed: bool, status: &LeaseStatus) {
    let (mint, stats, status) = (Arc::clone(mint), Arc::clone(stats), status.clone());
    metrics.register(move || {
        let stats = stats.snapshot(&mint);
        let window_left = |status: &watch::Receiver<Status>| match &*status.borrow() {
            Status::Open(window) if !window.is_ended() => window.until().since(boot_now()),
            _ => Duration::ZERO,
        };
        let lease = status
            .borrow()
            .as_ref()
            .map(|(status, stats)| LeaseNow::of(stats, window_left(status)));
        IdsStats {
            connections: stats.curr_connections,
            connections_refused: stats.rejected_connections,
            requests: stats.cmd_get,
            requests_failed: stats.get_misses,
            issued: stats.get_hits,
            worker: stats.worker,
            usable: is_fixed || lease.is_some_and(|lease| !lease.window_left.is_zero()),
            clock_behind_ms: stats.clock_behind_ms,
            lease,
        }
    });
}
