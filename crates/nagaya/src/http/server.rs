//! The HTTP listener as a component of the server.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use hyper::body::Incoming;
use nagaya_http_kit::server::{self, Observer, Options, Stop};
use nagaya_threads::panic_point;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::debug;

use super::config::HttpConfig;
use super::problem::Problem;
use super::routes::{HttpState, router};
use crate::app::readiness::Ready;
use crate::app::service::{Running, Service, Shutdown};

/// How long to wait after accepting failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
        let (router, options) = (router(&state), options(&state.config));
        let stop = Stop {
            draining: shutdown.draining_token(),
            closing: CancellationToken::new(),
            cut: shutdown.cut_token(),
        };
        let service = move |mut request: hyper::Request<Incoming>, peer: SocketAddr| {
            request.extensions_mut().insert(ConnectInfo(peer));
            let responding = router.clone().oneshot(request);
            async move { responding.await.unwrap_or_else(|never| match never {}) }
        };
        Box::pin(async move {
            ready.ready();
            panic_point("http");
            let cut = server::serve(listener, options, Connections(state), stop, service).await;
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
            state: Arc::clone(&self.state),
        }))
    }
}

fn options(config: &HttpConfig) -> Options {
    Options {
        connections_max: config.connections_max,
        head_timeout: config.head_timeout,
        head_bytes_max: config.head_max.as_usize(),
        streams_max: STREAMS_MAX,
        write_timeout: Some(config.write_timeout),
        accept_pause: ACCEPT_PAUSE,
    }
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

    fn refused(&self, stream: &TcpStream) {
        self.0.metrics.http.connections_refused.inc();
        refuse(stream);
    }
}

/// Counts a connection as open for as long as it lives.
struct OpenConnection(Arc<HttpState>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.metrics.http.connections_open.dec();
    }
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
