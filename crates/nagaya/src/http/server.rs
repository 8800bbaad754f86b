//! The HTTP listener as a component of the server.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use axum::body::Body;
use axum::extract::ConnectInfo;
use nagaya_http_kit::hosts::HostRule;
use nagaya_http_kit::proxies::Proxies;
use nagaya_http_kit::server::{
    self, BodyLimits, ClientAddress, Connection, Observer, Options, RequestBody, Stop, Tls,
};
use nagaya_threads::panic_point;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::config::HttpConfig;
use super::routes::{HttpState, router};
use super::tls::{ReloadingTls, TlsFiles, beside_reloads};
use crate::app::readiness::Ready;
use crate::app::service::{Running, Service, Shutdown};

/// How long to wait after accepting failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How many HTTP/2 requests one connection may have open.
const STREAMS_MAX: u32 = 200;

/// So many bytes of a body earn its sender another second.
const BODY_BYTES_PER_SECOND: u64 = 10_000;

/// What is answered when all connections are in use.
const PROBES: &[&str] = &["/healthz", "/readyz", "/metrics"];

/// The HTTP listener by itself, bound before what it is to serve exists.
pub(crate) struct HttpListener {
    listener: TcpListener,
    tls: Option<ReloadingTls>,
}

impl HttpListener {
    /// Binds the listener; call it within the runtime.
    pub(crate) async fn bind(config: &HttpConfig) -> anyhow::Result<HttpListener> {
        config.check()?;
        let tls = TlsFiles::of("http", &config.tls_cert, &config.tls_key, &config.tls_client_ca);
        let tls = tls.map(TlsFiles::open).transpose()?;
        let listen = config.listen;
        let listener = TcpListener::bind(listen.0).await.map_err(|error| {
            anyhow!("cannot listen on {listen} for HTTP: {error}; choose another address with --http-listen")
        })?;
        Ok(HttpListener { listener, tls })
    }

    /// The bound address, with the port the system chose if it was asked to.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The HTTP listener, bound but not yet accepting.
pub(crate) struct HttpServer {
    listener: TcpListener,
    tls: Option<ReloadingTls>,
    state: Arc<HttpState>,
}

impl HttpServer {
    /// Binds the listener; call it within the runtime.
    pub(crate) async fn bind(state: Arc<HttpState>) -> anyhow::Result<HttpServer> {
        let listener = HttpListener::bind(&state.config).await?;
        Ok(HttpServer::on(listener, state))
    }

    /// Serves on a listener that is bound already.
    pub(crate) fn on(listener: HttpListener, state: Arc<HttpState>) -> HttpServer {
        HttpServer {
            listener: listener.listener,
            tls: listener.tls,
            state,
        }
    }

    /// The bound address, with the port the system chose if it was asked to.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Service for HttpServer {
    fn name(&self) -> &'static str {
        "http"
    }

    fn run(self: Box<Self>, shutdown: Shutdown, ready: Ready) -> Running {
        let HttpServer { listener, tls, state } = *self;
        let router = router(&state);
        let offered = tls.as_ref().map(|tls| tls.tls.clone());
        let stop = Stop {
            draining: shutdown.draining_token(),
            closing: CancellationToken::new(),
            cut: shutdown.cut_token(),
        };
        let service = move |mut request: hyper::Request<RequestBody>| {
            if let Some(client) = client(&request) {
                request.extensions_mut().insert(ConnectInfo(client));
            }
            let responding = router.clone().oneshot(request.map(Body::new));
            async move { responding.await.unwrap_or_else(|never| match never {}) }
        };
        Box::pin(async move {
            let options = options(&state.config, offered)?;
            ready.ready();
            panic_point("http");
            let serving = server::serve(listener, options, Connections(state), stop, service);
            let cut = beside_reloads(tls, serving).await;
            Ok(match cut.connections {
                0 => Vec::new(),
                1 => vec!["1 connection with an unfinished request".to_owned()],
                cut => vec![format!("{cut} connections with unfinished requests")],
            })
        })
    }

    fn again(&self) -> Option<Box<dyn Service>> {
        let listener = self.listener.as_fd().try_clone_to_owned().ok()?;
        Some(Box::new(HttpServer {
            listener: TcpListener::from_std(listener.into()).ok()?,
            tls: self.tls.clone(),
            state: Arc::clone(&self.state),
        }))
    }
}

/// The client, as far as proxies are believed, with the port of the connection.
fn client(request: &hyper::Request<RequestBody>) -> Option<SocketAddr> {
    let connection = request.extensions().get::<Connection>()?;
    let ClientAddress(client) = request.extensions().get::<ClientAddress>()?;
    Some(SocketAddr::new(*client, connection.peer.port()))
}

fn options(config: &HttpConfig, tls: Option<Tls>) -> anyhow::Result<Options> {
    let proxies: Proxies = config.proxies()?;
    Ok(Options {
        section: "http",
        connections_max: config.connections_max,
        connections_per_address: config.connections_per_address,
        head_timeout: config.head_timeout,
        head_bytes_max: config.head_max.as_usize(),
        body: BodyLimits {
            timeout: config.body_timeout,
            bytes_per_second: BODY_BYTES_PER_SECOND,
            held_max: config.bodies_max.as_usize(),
        },
        streams_max: STREAMS_MAX,
        write_timeout: Some(config.write_timeout),
        accept_pause: ACCEPT_PAUSE,
        probes: PROBES,
        hosts: HostRule {
            names: config.hosts.clone(),
            asks_token: config.token.is_some(),
            is_loopback: config.listen.is_loopback(),
            takes_links: true,
        },
        proxies,
        tls,
    })
}

/// Counts connections in the metrics.
#[derive(Clone)]
struct Connections(Arc<HttpState>);

impl Observer for Connections {
    type Guard = OpenConnection;

    fn opened(&self) -> OpenConnection {
        self.0.metrics.http.connections_open.inc();
        OpenConnection(Arc::clone(&self.0))
    }

    fn refused(&self) {
        self.0.metrics.http.connections_refused.inc();
    }

    fn displaced(&self) {
        self.0.metrics.http.connections_displaced.inc();
    }
}

/// Counts a connection as open for as long as it lives.
struct OpenConnection(Arc<HttpState>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.metrics.http.connections_open.dec();
    }
}
