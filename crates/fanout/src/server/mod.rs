//! The listener: connections in, requests to the service, and an orderly end.

mod events;
mod handler;
mod problem;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Either, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::service::Fanout;

/// What a client gets: a whole body, or events as they come.
type Reply = Response<Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>>;

/// After an accept failed, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long requests that were sent before the listener closed may take to be seen.
const SETTLE: Duration = Duration::from_millis(20);
const STREAMS_MAX: u32 = 1000;
/// Longest head of a request. Queries are handed on, so they may be long.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The listener, bound.
pub struct Server {
    fanout: Arc<Fanout>,
    listener: TcpListener,
}

/// What had to be cut at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Connections with a request unanswered.
    pub connections: usize,
    /// Requests whose endpoints were marked as stopped.
    pub requests: usize,
}

impl Server {
    pub async fn bind(fanout: Arc<Fanout>, address: SocketAddr) -> io::Result<Server> {
        let listener = TcpListener::bind(address).await?;
        Ok(Server { fanout, listener })
    }

    /// The bound address, with the port the system chose if it was asked to.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `draining`, then until everything under way is finished, or `cut` comes; then what is
    /// unfinished is marked as such.
    pub async fn run(self, draining: CancellationToken, cut: CancellationToken) -> Cut {
        let front = Front {
            builder: Arc::new(builder(&self.fanout)),
            fanout: self.fanout,
            connections: TaskTracker::new(),
            cut_off: Arc::default(),
            cut: cut.clone(),
        };
        front.accept(self.listener, &draining).await;
        front.connections.close();
        front.connections.wait().await;
        Cut {
            connections: front.cut_off.load(Ordering::Relaxed),
            requests: front.fanout.drain(cut.cancelled()).await,
        }
    }
}

#[derive(Clone)]
struct Front {
    fanout: Arc<Fanout>,
    builder: Arc<Builder<TokioExecutor>>,
    connections: TaskTracker,
    cut_off: Arc<AtomicUsize>,
    cut: CancellationToken,
}

impl Front {
    async fn accept(&self, listener: TcpListener, draining: &CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = draining.cancelled() => break,
                accepted = listener.accept() => self.admit(accepted).await,
            }
        }
        // Clients that the kernel has connected already were accepted in their own eyes.
        while let Ok(Ok(accepted)) = tokio::time::timeout(Duration::ZERO, listener.accept()).await {
            self.admit(Ok(accepted)).await;
        }
        drop(listener);
        sleep(SETTLE).await;
        self.fanout.closing.cancel();
    }

    async fn admit(&self, accepted: io::Result<(TcpStream, SocketAddr)>) {
        match accepted {
            Ok((stream, _)) if self.connections.len() < self.fanout.config.connections_max => {
                self.connections.spawn(self.clone().serve(stream));
            }
            // Closed at once: whoever opens so many does not read what is said.
            Ok((_, peer)) => tracing::debug!(%peer, "connection refused, the limit is reached"),
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    async fn serve(self, stream: TcpStream) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot switch off delayed sending");
        }
        let (fanout, busy) = (Arc::clone(&self.fanout), Arc::new(AtomicUsize::new(0)));
        // hyper times the head of every request but the first bytes, by which it tells the protocols
        // apart; until a first request has arrived we watch the time ourselves.
        let seen_request = Arc::new(AtomicBool::new(false));
        let service = service_fn({
            let (busy, seen_request) = (Arc::clone(&busy), Arc::clone(&seen_request));
            move |request| {
                seen_request.store(true, Ordering::Relaxed);
                let (fanout, open) = (Arc::clone(&fanout), Open::count(&busy));
                async move {
                    let reply = handler::handle(&fanout, request).await;
                    drop(open);
                    Ok::<_, Infallible>(reply)
                }
            }
        });
        let connection = self.builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let first_head = sleep(self.fanout.config.head_timeout);
        tokio::pin!(first_head);
        let (mut closing, mut waiting) = (false, true);
        loop {
            tokio::select! {
                biased;
                result = connection.as_mut() => {
                    if let Err(error) = result {
                        tracing::debug!(error, "connection failed");
                    }
                    break;
                }
                () = self.cut.cancelled() => {
                    if busy.load(Ordering::Relaxed) > 0 {
                        self.cut_off.fetch_add(1, Ordering::Relaxed);
                    }
                    break;
                }
                () = self.fanout.closing.cancelled(), if !closing => {
                    closing = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = first_head.as_mut(), if waiting => {
                    waiting = false;
                    if !seen_request.load(Ordering::Relaxed) {
                        break;
                    }
                }
            }
        }
    }
}

/// Counts a request as open for as long as it lives.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn count(open: &Arc<AtomicUsize>) -> Open {
        open.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(open))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn builder(fanout: &Fanout) -> Builder<TokioExecutor> {
    let head_timeout = fanout.config.head_timeout;
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(head_timeout)
        .keep_alive_timeout(head_timeout)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32);
    builder
}
