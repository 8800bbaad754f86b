//! The fan-out as a component of the server.

mod monitor;
mod reload;
mod stats;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use nagaya_clock::SystemClock;
use nagaya_fanout::{Access, Fanout, FanoutConfig, IdSource, RequestIdKind, Server, StoreKind, open_store};
use nagaya_ids::mint::Mint;
use nagaya_redis_client::RedisUrl;
use nagaya_telemetry::metrics::Metrics;
use nagaya_threads::panic_point;
use tokio_util::sync::CancellationToken;

pub(crate) use reload::{Reload, reload_from_settings};

use crate::app::banner::reachable;
use crate::app::readiness::{Readiness, Ready};
use crate::app::service::{Running, Service, Shutdown};
use crate::app::settings::Settings;
use crate::http::{HttpConfig, ReloadingTls, TlsFiles, beside_reloads};

/// The listener, bound, and the service behind it.
pub(crate) struct FanoutService {
    fanout: Arc<Fanout>,
    server: Server,
    tls: Option<ReloadingTls>,
    address: SocketAddr,
    reload: Reload,
    monitor: Option<Duration>,
    /// To wait for the room, where answers are kept there.
    room: Option<Readiness>,
}

impl FanoutService {
    /// The fan-out of a server, unless it is switched off.
    pub(crate) async fn of_house(
        settings: &Settings,
        room: SocketAddr,
        mint: Option<Arc<Mint>>,
        readiness: &Readiness,
        reload: Reload,
        metrics: &Metrics,
    ) -> anyhow::Result<Option<FanoutService>> {
        if !settings.fanout.enabled {
            return Ok(None);
        }
        let config = settings.fanout.clone();
        let room = reachable(room);
        let mut url = RedisUrl::single(room.ip().to_string(), room.port());
        url.password = settings.room.password.clone();
        let ids = match (config.request_id, mint) {
            (RequestIdKind::Minted, Some(mint)) => IdSource::Minted(mint),
            (RequestIdKind::Minted | RequestIdKind::Uuid, _) => IdSource::Uuid,
        };
        let is_embedded = config.store == StoreKind::Embedded;
        let mut service =
            FanoutService::bind(config, &settings.http, Some(url), ids, reload, metrics).await?;
        service.room = is_embedded.then(|| readiness.clone());
        Ok(Some(service))
    }

    pub(super) async fn bind(
        config: FanoutConfig,
        http: &HttpConfig,
        house: Option<RedisUrl>,
        ids: IdSource,
        reload: Reload,
        metrics: &Metrics,
    ) -> anyhow::Result<FanoutService> {
        let listen = config.listen;
        let tls = TlsFiles::of("fanout", &config.tls_cert, &config.tls_key, &config.tls_client_ca);
        let tls = tls.map(TlsFiles::open).transpose()?;
        let access = Access {
            hosts: http.hosts.clone(),
            proxies: http.proxies()?,
            tls: tls.as_ref().map(|tls| tls.tls.clone()),
        };
        let store = open_store(&config, house, Arc::new(SystemClock))?;
        let fanout = Arc::new(Fanout::new(config, store, ids)?);
        let server = Server::bind(Arc::clone(&fanout), listen.0).await.map_err(|error| {
            anyhow!("cannot listen on {listen} for requests to fan out: {error}; choose another address with --fanout-listen")
        })?;
        let server = server.with_access(access);
        let address = server
            .address()
            .context("cannot tell the address of the fan-out")?;
        let read = Arc::clone(&fanout);
        metrics.register(move || stats::read(&read));
        Ok(FanoutService {
            fanout,
            server,
            tls,
            address,
            reload,
            monitor: None,
            room: None,
        })
    }

    /// Logs serinin's counters this often.
    pub(super) fn monitored(mut self, every: Option<Duration>) -> FanoutService {
        self.monitor = every;
        self
    }

    /// Returns the service behind the listener.
    pub(crate) fn fanout(&self) -> Arc<Fanout> {
        Arc::clone(&self.fanout)
    }

    /// Where requests are taken.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Service for FanoutService {
    fn name(&self) -> &'static str {
        "fanout"
    }

    fn run(self: Box<Self>, shutdown: Shutdown, ready: Ready) -> Running {
        Box::pin(async move {
            let Self {
                fanout,
                server,
                tls,
                reload,
                monitor,
                room,
                ..
            } = *self;
            if let Some(room) = room {
                tokio::select! {
                    () = room.is_ready("room") => (),
                    () = shutdown.draining() => return Ok(Vec::new()),
                }
            }
            ready.ready();
            panic_point("fanout");
            ready.set_detail(match fanout.endpoints().iter().len() {
                0 => "no endpoints yet; name them in [fanout.endpoints]".to_owned(),
                endpoints => format!("{endpoints} endpoints, store {}", fanout.store().kind()),
            });
            let (draining, cut) = (CancellationToken::new(), CancellationToken::new());
            let told = async {
                shutdown.draining().await;
                draining.cancel();
                shutdown.cut().await;
                cut.cancel();
                std::future::pending::<()>().await;
            };
            let monitored = async {
                match monitor {
                    Some(every) => monitor::run(&fanout, every).await,
                    None => std::future::pending().await,
                }
            };
            let cut = tokio::select! {
                cut = beside_reloads(tls, server.run(draining.clone(), cut.clone())) => cut,
                () = told => unreachable!("it tells and then waits for ever"),
                () = reload::on_hangup(&fanout, &reload) => unreachable!("it never ends"),
                () = monitored => unreachable!("it never ends"),
            };
            let mut words = Vec::new();
            if cut.connections > 0 {
                words.push(format!(
                    "{} connections with unanswered requests",
                    cut.connections
                ));
            }
            if cut.requests > 0 {
                words.push(format!("{} requests, marked as stopped", cut.requests));
            }
            Ok(words)
        })
    }

    fn again(&self) -> Option<Box<dyn Service>> {
        Some(Box::new(FanoutService {
            fanout: Arc::clone(&self.fanout),
            server: self.server.try_clone().ok()?,
            address: self.address,
            tls: self.tls.clone(),
            reload: self.reload.clone(),
            monitor: self.monitor,
            room: self.room.clone(),
        }))
    }
}
