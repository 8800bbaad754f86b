//! Accepts connections within limits, and lets them finish at shutdown.
//!
//! Each connection is a task. It ends when the client closes it, when the client is too slow with the head of a
//! request or takes nothing of a response, or at shutdown: a request that has begun (even if only half of its
//! head has arrived) is answered then, and idle connections are closed. HTTP/1.1 and HTTP/2 without TLS are told
//! apart by the first bytes.

mod write_timeout;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use write_timeout::WriteTimeout;

/// How long connections stay open after the listener has closed, so that requests which were sent before are read
/// and answered; longer than a packet takes on a local network.
const SETTLE: Duration = Duration::from_millis(20);

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Open connections, upgraded ones included.
    pub connections_max: usize,
    /// How long the head of a request may take. HTTP/2 connections are pinged this often.
    pub head_timeout: Duration,
    pub head_bytes_max: usize,
    /// Concurrent requests of one HTTP/2 connection.
    pub streams_max: u32,
    /// How long a client may take nothing of a response before its connection is closed.
    pub write_timeout: Option<Duration>,
    /// How long to wait after accepting failed, which mostly means that the process is out of file descriptors:
    /// trying again at once would only burn CPU.
    pub accept_pause: Duration,
}

/// The three steps of a shutdown.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Cancelled by the caller: accept no more connections.
    pub draining: CancellationToken,
    /// Cancelled by the server after the listener has closed: connections end after the request they are at.
    pub closing: CancellationToken,
    /// Cancelled by the caller: the time is up, close what is open.
    pub cut: CancellationToken,
}

/// Connections that were open at the cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// All of them: idle ones had been closed before, so these have at least sent a part of a request.
    pub connections: usize,
    /// Those with a request that was not answered yet.
    pub answering: usize,
}

/// Is told of connections.
pub trait Observer: Clone + Send + Sync + 'static {
    /// Dropped when the connection ends, also if it was upgraded.
    type Guard: Send + Unpin + 'static;

    fn opened(&self) -> Self::Guard;

    /// A connection beyond the limit, which is closed next. A few bytes may be written without waiting.
    fn refused(&self, stream: &TcpStream);
}

impl Observer for () {
    type Guard = ();

    fn opened(&self) {}

    fn refused(&self, _: &TcpStream) {}
}

/// Serves until `stop.draining`, then until all connections have ended or `stop.cut`.
pub async fn serve<O, S, F, B>(
    listener: TcpListener,
    options: Options,
    observer: O,
    stop: Stop,
    service: S,
) -> Cut
where
    O: Observer,
    S: Fn(Request<Incoming>, SocketAddr) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let acceptor = Acceptor {
        builder: Arc::new(builder(&options)),
        options,
        observer,
        stop,
        service,
        connections: TaskTracker::new(),
        open: Arc::default(),
        cut: Arc::default(),
        cut_answering: Arc::default(),
    };
    acceptor.accept_until_draining(listener).await;
    acceptor.connections.close();
    acceptor.connections.wait().await;
    Cut {
        connections: acceptor.cut.load(Ordering::Relaxed),
        answering: acceptor.cut_answering.load(Ordering::Relaxed),
    }
}

/// What serving a connection needs; clones share it.
#[derive(Clone)]
struct Acceptor<O, S> {
    builder: Arc<Builder<TokioExecutor>>,
    options: Options,
    observer: O,
    stop: Stop,
    service: S,
    connections: TaskTracker,
    /// Open connections, upgraded ones included.
    open: Arc<AtomicUsize>,
    cut: Arc<AtomicUsize>,
    cut_answering: Arc<AtomicUsize>,
}

impl<O, S, F, B> Acceptor<O, S>
where
    O: Observer,
    S: Fn(Request<Incoming>, SocketAddr) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    async fn accept_until_draining(&self, listener: TcpListener) {
        loop {
            tokio::select! {
                biased;
                () = self.stop.draining.cancelled() => break,
                accepted = listener.accept() => self.admit(accepted).await,
            }
        }
        // Clients whose connection the kernel has completed already take it for accepted.
        while let Ok(Ok(accepted)) = tokio::time::timeout(Duration::ZERO, listener.accept()).await {
            self.admit(Ok(accepted)).await;
        }
        drop(listener);
        tokio::time::sleep(SETTLE).await;
        self.stop.closing.cancel();
    }

    async fn admit(&self, accepted: io::Result<(TcpStream, SocketAddr)>) {
        match accepted {
            Ok((stream, peer)) if self.open.load(Ordering::Relaxed) < self.options.connections_max => {
                debug!(%peer, "connection opened");
                let open = (self.observer.opened(), Counted::new(&self.open));
                self.connections.spawn(self.clone().handle(stream, peer, open));
            }
            Ok((stream, peer)) => {
                debug!(%peer, "connection refused, the limit is reached");
                self.observer.refused(&stream);
            }
            Err(error) => {
                warn!(%error, "accepting a connection failed");
                tokio::time::sleep(self.options.accept_pause).await;
            }
        }
    }

    async fn handle(self, stream: TcpStream, peer: SocketAddr, open: (O::Guard, Counted)) {
        prepare(&stream, peer, self.options.write_timeout);
        // An upgraded connection outlives this task and counts as open for as long.
        let stream = WriteTimeout::new(stream, self.options.write_timeout, open);
        // hyper times the head of every request but the first bytes, by which it tells the protocols apart; until
        // a first request has arrived the time is watched here.
        let (seen_request, answering) = (Arc::new(AtomicBool::new(false)), Arc::<AtomicUsize>::default());
        let service = service_fn({
            let (seen_request, answering) = (Arc::clone(&seen_request), Arc::clone(&answering));
            let service = self.service;
            move |request| {
                seen_request.store(true, Ordering::Relaxed);
                let (counted, response) = (Counted::new(&answering), service(request, peer));
                async move {
                    let response = response.await;
                    drop(counted);
                    Ok::<_, Infallible>(response)
                }
            }
        });
        let connection = self
            .builder
            .serve_connection_with_upgrades(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let first_head = tokio::time::sleep(self.options.head_timeout);
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
                () = self.stop.cut.cancelled() => {
                    self.cut.fetch_add(1, Ordering::Relaxed);
                    if answering.load(Ordering::Relaxed) > 0 {
                        self.cut_answering.fetch_add(1, Ordering::Relaxed);
                    }
                    break;
                }
                () = self.stop.closing.cancelled(), if !closing => {
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
}

/// Sets the socket's options.
fn prepare(stream: &TcpStream, peer: SocketAddr, write_timeout: Option<Duration>) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%peer, %error, "cannot switch off delayed sending");
    }
    let Some(limit) = write_timeout else {
        return;
    };
    let limit_ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    // Data that a vanished peer does not acknowledge fills no buffer for a long time, so that no write waits.
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(stream, limit_ms) {
        debug!(%peer, %error, "cannot limit how long data may stay unacknowledged");
    }
}

fn builder(options: &Options) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.head_timeout)
        .max_buf_size(options.head_bytes_max);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(options.head_timeout)
        .keep_alive_timeout(options.head_timeout)
        .max_concurrent_streams(options.streams_max)
        .max_header_list_size(u32::try_from(options.head_bytes_max).unwrap_or(u32::MAX));
    builder
}

/// Counts as one for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Counted {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
