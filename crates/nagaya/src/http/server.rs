//! Accepts connections within limits, and lets them finish at the end.
//!
//! Each connection is a task. It ends when the client goes, when the client is too slow
//! with the head of a request or takes nothing of an answer, or at shutdown: then a request that has begun (even if only
//! half of its head has arrived) is answered, and idle connections are closed. HTTP/1.1
//! and HTTP/2 without TLS are told apart by the first bytes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;
use tracing::{debug, warn};

use super::config::HttpConfig;
use super::problem::Problem;
use super::routes::{HttpState, router};
use super::stall::Stalling;
use crate::app::readiness::Ready;
use crate::app::service::{Running, Service, Shutdown};

/// How long to wait after accepting failed, which mostly means that the process is out of
/// file descriptors: trying at once would only burn CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long connections stay open after the listener has closed, so that requests which
/// were sent before are read and answered instead of taken for silence.
const SETTLE: Duration = Duration::from_millis(20);

/// How many HTTP/2 requests one connection may have open.
const STREAMS_MAX: u32 = 200;

/// The HTTP listener by itself, bound before what it is to serve exists.
pub(crate) struct HttpListener(TcpListener);

impl HttpListener {
    /// Binds the listener; call it within the runtime.
    pub(crate) async fn bind(config: &HttpConfig) -> anyhow::Result<HttpListener> {
        let listen = config.listen;
        let listener = TcpListener::bind(listen.0).await.map_err(|error| {
            anyhow!("cannot listen on {listen} for HTTP: {error}; choose another address with --http-listen")
        })?;
        Ok(HttpListener(listener))
    }

    /// The bound address, with the port the system chose if it was asked to.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// The HTTP listener, bound but not yet accepting.
pub(crate) struct HttpServer {
    listener: TcpListener,
    state: Arc<HttpState>,
}

/// What serving a connection takes; clones share it.
#[derive(Clone)]
struct Front {
    router: Router,
    builder: Arc<Builder<TokioExecutor>>,
    state: Arc<HttpState>,
    connections: TaskTracker,
    /// Tells connections to close after the request they are at.
    closing: CancellationToken,
    /// How many connections are open, WebSockets among them.
    open: Arc<AtomicUsize>,
    /// How many connections were cut off with a request unfinished.
    cut: Arc<AtomicUsize>,
    shutdown: Shutdown,
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
            listener: listener.0,
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
        let HttpServer { listener, state } = *self;
        let front = Front {
            router: router(&state),
            builder: Arc::new(connection_builder(&state)),
            state,
            connections: TaskTracker::new(),
            closing: CancellationToken::new(),
            open: Arc::default(),
            cut: Arc::default(),
            shutdown,
        };
        Box::pin(async move {
            ready.ready();
            front.accept_until_draining(listener).await;
            Ok(front.drain().await)
        })
    }
}

impl Front {
    async fn accept_until_draining(&self, listener: TcpListener) {
        loop {
            tokio::select! {
                biased;
                () = self.shutdown.draining() => break,
                accepted = listener.accept() => self.admit(accepted).await,
            }
        }
        // Clients that the kernel has connected already were accepted in their own eyes.
        while let Ok(Ok(accepted)) = tokio::time::timeout(Duration::ZERO, listener.accept()).await {
            self.admit(Ok(accepted)).await;
        }
        drop(listener);
        tokio::time::sleep(SETTLE).await;
        self.closing.cancel();
    }

    async fn admit(&self, accepted: io::Result<(TcpStream, SocketAddr)>) {
        match accepted {
            Ok((stream, peer)) if self.open.load(Ordering::Relaxed) < self.state.config.connections_max => {
                debug!(%peer, "connection opened");
                let open = OpenConnection::count(&self.state, &self.open);
                self.connections.spawn(self.clone().serve(stream, peer, open));
            }
            Ok((stream, peer)) => {
                debug!(%peer, "connection refused, the limit is reached");
                self.state.metrics.http.connections_refused.inc();
                refuse(&stream);
            }
            Err(error) => {
                warn!(%error, "accepting a connection failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    async fn serve(self, stream: TcpStream, peer: SocketAddr, open: OpenConnection) {
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%peer, %error, "cannot switch off delayed sending");
        }
        let limit = self.state.config.write_timeout;
        let limit_ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        // What a peer that has vanished does not acknowledge fills no buffer for a long time.
        if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(&stream, limit_ms) {
            debug!(%peer, %error, "cannot limit how long data may stay unacknowledged");
        }
        // A WebSocket outlives this task and counts as open for as long.
        let stream = Stalling::new(stream, limit, open);
        // hyper times the head of every request but the first bytes, by which it tells the
        // protocols apart; until a first request has arrived we watch the time ourselves.
        let seen_request = Arc::new(AtomicBool::new(false));
        let service = {
            let (router, seen_request) = (self.router, Arc::clone(&seen_request));
            service_fn(move |mut request: hyper::Request<Incoming>| {
                seen_request.store(true, Ordering::Relaxed);
                request.extensions_mut().insert(ConnectInfo(peer));
                router.clone().oneshot(request)
            })
        };
        let connection = self
            .builder
            .serve_connection_with_upgrades(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let first_head = tokio::time::sleep(self.state.config.head_timeout);
        tokio::pin!(first_head);
        let (mut closing, mut waiting) = (false, true);
        loop {
            tokio::select! {
                biased;
                result = connection.as_mut() => {
                    if let Err(error) = result {
                        debug!(%peer, error, "connection failed");
                    }
                    break;
                }
                () = self.shutdown.cut() => {
                    self.cut.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                () = self.closing.cancelled(), if !closing => {
                    closing = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = first_head.as_mut(), if waiting => {
                    waiting = false;
                    if !seen_request.load(Ordering::Relaxed) {
                        debug!(%peer, "no request came in time");
                        break;
                    }
                }
            }
        }
    }

    /// Waits until every connection has ended, by itself or cut off; returns what was cut.
    async fn drain(self) -> Vec<String> {
        self.connections.close();
        self.connections.wait().await;
        match self.cut.load(Ordering::Relaxed) {
            0 => Vec::new(),
            1 => vec!["1 connection with an unfinished request".to_owned()],
            cut => vec![format!("{cut} connections with unfinished requests")],
        }
    }
}

/// Counts a connection as open for as long as it lives.
struct OpenConnection {
    state: Arc<HttpState>,
    open: Arc<AtomicUsize>,
}

impl OpenConnection {
    fn count(state: &Arc<HttpState>, open: &Arc<AtomicUsize>) -> OpenConnection {
        state.metrics.http.connections_open.inc();
        open.fetch_add(1, Ordering::Relaxed);
        OpenConnection {
            state: Arc::clone(state),
            open: Arc::clone(open),
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.state.metrics.http.connections_open.dec();
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn connection_builder(state: &HttpState) -> Builder<TokioExecutor> {
    let config = &state.config;
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(config.head_timeout)
        .max_buf_size(config.head_max.as_usize());
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(config.head_timeout)
        .keep_alive_timeout(config.head_timeout)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(config.head_max.0).unwrap_or(u32::MAX));
    builder
}

/// Tells a client why it is not served. The few bytes fit the socket's empty buffer; if
/// they do not, the client only sees the connection close.
fn refuse(stream: &TcpStream) {
    let detail = "all connections that `http.connections_max` allows are in use; try again later";
    let body = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).body();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\nconnection: close\r\nretry-after: 1\r\n\r\n{body}",
        body.len()
    );
    if let Err(error) = stream.try_write(answer.as_bytes()) {
        debug!(%error, "a refused client could not be told");
    }
}
