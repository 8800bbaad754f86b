//! Accepts connections within limits, and lets them finish at shutdown.
//!
//! Each connection is a task. It ends when the client closes it, when the client is too slow with the head of a
//! request or takes nothing of a response, when a newcomer needs its place, or at shutdown: a request that has
//! begun (even if only half of its head has arrived) is answered then, and idle connections are closed. HTTP/1.1
//! and HTTP/2 are told apart by the first bytes, in TLS by its handshake.
//!
//! Every request of every listener passes [`front`] before its service sees it.

mod body;
mod front;
mod places;
mod refusal;
mod spare;
mod tls;
mod write_timeout;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

pub use body::{BodyControl, BodyError, BodyLimits, Kept, RequestBody};
pub use front::{ClientAddress, Connection};
pub use tls::Tls;

use crate::hosts::HostRule;
use crate::proxies::Proxies;
use front::Front;
use places::{Place, Places};
use refusal::{all_taken, no_files, refuse};
use spare::{Spare, is_out_of_files};
use write_timeout::WriteTimeout;

/// How long connections stay open after the listener has closed, so that requests which were sent before are read
/// and answered; longer than a packet takes on a local network.
const SETTLE: Duration = Duration::from_millis(20);

/// Places beyond the limit, for probes.
const RESERVE: usize = 8;

/// How long a client that was not heard yet has for its request when its connection is given up.
const LAST_CHANCE: Duration = Duration::from_millis(20);
/// How long a connection that is given up may take to close.
const GIVE_UP_PAUSE: Duration = Duration::from_millis(1);
/// How long the request of a client that is refused is waited for; mostly it is there already.
const HEAD_PAUSE: Duration = Duration::from_millis(2);
/// The same where others do not wait meanwhile.
const HEAD_PAUSE_MAX: Duration = Duration::from_millis(100);
/// Clients beyond the limit that are told so at the same time; further ones only see the connection close.
const REFUSALS_MAX: usize = 64;
/// Clients that are refused because there is no file descriptor before room is looked for again.
const TOLD_MAX: usize = 32;

/// How much of its requests an HTTP/2 connection may send ahead of their readers: the protocol's own default. It is
/// memory that every connection may use.
const WINDOW_BYTES: u32 = 65_535;

/// Limits of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The section of the listener's settings, by which refusals name them.
    pub section: &'static str,
    /// Open connections, upgraded ones included.
    pub connections_max: usize,
    /// Those of one address; 0 for half of all.
    pub connections_per_address: usize,
    /// How long the head of a request may take. HTTP/2 connections are pinged this often.
    pub head_timeout: Duration,
    pub head_bytes_max: usize,
    pub body: BodyLimits,
    /// Concurrent requests of one HTTP/2 connection.
    pub streams_max: u32,
    /// How long a client may take nothing of a response before its connection is closed.
    pub write_timeout: Option<Duration>,
    /// How long to wait after accepting failed, which mostly means that the process is out of file descriptors:
    /// trying again at once would only burn CPU.
    pub accept_pause: Duration,
    /// Paths that are answered when all places are taken.
    pub probes: &'static [&'static str],
    pub hosts: HostRule,
    pub proxies: Proxies,
    /// Plain HTTP without it.
    pub tls: Option<Tls>,
}

impl Options {
    fn places(&self) -> places::Limits {
        places::Limits {
            all: self.connections_max,
            per_address: match self.connections_per_address {
                0 => (self.connections_max / 2).max(1),
                given => given,
            },
            reserve: if self.probes.is_empty() { 0 } else { RESERVE },
        }
    }
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

    /// A connection beyond the limit was answered 503.
    fn refused(&self);

    /// A connection that waited for its client was closed, because a newcomer needed its place.
    fn displaced(&self);
}

impl Observer for () {
    type Guard = ();

    fn opened(&self) {}

    fn refused(&self) {}

    fn displaced(&self) {}
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
    S: Fn(Request<RequestBody>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let acceptor = Acceptor {
        builder: Arc::new(builder(&options)),
        places: Places::new(options.places()),
        front: Arc::new(Front::new(&options)),
        options: Arc::new(options),
        observer,
        stop,
        service,
        connections: TaskTracker::new(),
        refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
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
    options: Arc<Options>,
    front: Arc<Front>,
    places: Arc<Places>,
    observer: O,
    stop: Stop,
    service: S,
    connections: TaskTracker,
    refusals: Arc<Semaphore>,
    cut: Arc<AtomicUsize>,
    cut_answering: Arc<AtomicUsize>,
}

impl<O, S, F, B> Acceptor<O, S>
where
    O: Observer,
    S: Fn(Request<RequestBody>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    async fn accept_until_draining(&self, listener: TcpListener) {
        let mut spare = Spare::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.stop.draining.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(error) if is_out_of_files(&error) => self.make_room(&listener, &mut spare).await,
                Err(error) => {
                    warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(self.options.accept_pause).await;
                }
            }
        }
        // Clients whose connection the kernel has completed already take it for accepted.
        while let Ok(Ok((stream, peer))) = tokio::time::timeout(Duration::ZERO, listener.accept()).await {
            self.admit(stream, peer);
        }
        drop(listener);
        tokio::time::sleep(SETTLE).await;
        self.stop.closing.cancel();
    }

    /// Without a file descriptor for a connection, its client would wait for as long as it likes to. The connection
    /// that has waited longest for its own client is closed instead; if all are in use, the client is told.
    async fn make_room(&self, listener: &TcpListener, spare: &mut Spare) {
        if spare.is_warning_due() {
            warn!("the process has no file descriptor left for a connection; raise the limit (`ulimit -n`)");
        }
        if self.places.give_up_any() {
            // Its task closes it.
            return tokio::time::sleep(GIVE_UP_PAUSE).await;
        }
        let mut told = 0;
        spare.release();
        while told < TOLD_MAX
            && let Ok(Ok((stream, peer))) = tokio::time::timeout(Duration::ZERO, listener.accept()).await
        {
            debug!(%peer, "connection refused, there are no file descriptors");
            self.observer.refused();
            if self.options.tls.is_none() {
                refuse(stream, no_files(), HEAD_PAUSE).await;
            }
            told += 1;
        }
        if told == 0 || !spare.take() {
            tokio::time::sleep(self.options.accept_pause).await;
            spare.take();
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        let address = peer.ip().to_canonical();
        match self.places.enter(address, self.options.proxies.trust(address)) {
            Some(place) => {
                debug!(%peer, "connection opened");
                let guard = self.observer.opened();
                self.connections
                    .spawn(self.clone().handle(stream, peer, place, guard));
            }
            None => {
                debug!(%peer, "connection refused, the limit is reached");
                self.observer.refused();
                let permit = Arc::clone(&self.refusals).try_acquire_owned();
                if self.options.tls.is_none()
                    && let Ok(permit) = permit
                {
                    let problem = all_taken(self.options.section);
                    self.connections.spawn(async move {
                        refuse(stream, problem, HEAD_PAUSE_MAX).await;
                        drop(permit);
                    });
                }
            }
        }
    }

    async fn handle(self, stream: TcpStream, peer: SocketAddr, place: Place, guard: O::Guard) {
        prepare(&stream, peer, self.options.write_timeout);
        let own = stream
            .local_addr()
            .map_or(IpAddr::from([0, 0, 0, 0]), |own| own.ip());
        let connection = Connection {
            peer,
            own,
            is_tls: self.options.tls.is_some(),
        };
        let Some(tls) = &self.options.tls else {
            return self.run(stream, connection, place, guard).await;
        };
        let shaking_hands = tls.acceptor().accept(stream);
        let timeout = self.options.head_timeout;
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(timeout, shaking_hands) => shaken,
            () = place.given_up.cancelled() => return self.observer.displaced(),
            () = self.stop.cut.cancelled() => return,
        };
        match shaken {
            Ok(Ok(stream)) => self.run(stream, connection, place, guard).await,
            Ok(Err(error)) => debug!(%peer, %error, "the TLS handshake failed"),
            Err(_) => debug!(%peer, "the TLS handshake took too long"),
        }
    }

    fn count_cut(&self, answering: &AtomicUsize) {
        self.cut.fetch_add(1, Ordering::Relaxed);
        if answering.load(Ordering::Relaxed) > 0 {
            self.cut_answering.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn run<T>(self, stream: T, connection: Connection, place: Place, guard: O::Guard)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (peer, given_up) = (connection.peer, place.given_up.clone());
        let activity = Arc::clone(&place.activity);
        // hyper times the head of every request but the first bytes, by which it tells the protocols apart; until
        // a first request has arrived the time is watched here.
        let (seen_request, answering) = (Arc::new(AtomicBool::new(false)), Arc::<AtomicUsize>::default());
        let service = service_fn({
            let (seen_request, answering) = (Arc::clone(&seen_request), Arc::clone(&answering));
            let (front, service) = (Arc::clone(&self.front), self.service.clone());
            let (activity, is_reserve) = (Arc::clone(&place.activity), place.is_reserve);
            move |request: Request<Incoming>| {
                seen_request.store(true, Ordering::Relaxed);
                let counted = Counted::new(&answering);
                let (front, service) = (Arc::clone(&front), service.clone());
                let answered = front.pass(request, connection, Arc::clone(&activity), is_reserve, service);
                async move {
                    let response = answered.await;
                    drop(counted);
                    Ok::<_, Infallible>(response)
                }
            }
        });
        // An upgraded connection outlives this task and has its place for as long.
        let stream = WriteTimeout::new(stream, self.options.write_timeout, (guard, place));
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
                    self.count_cut(&answering);
                    break;
                }
                () = displaced(&given_up, &seen_request), if !closing => {
                    debug!(%peer, "connection given up for a newcomer");
                    self.observer.displaced();
                    if activity.is_waiting() {
                        break;
                    }
                    closing = true;
                    connection.as_mut().graceful_shutdown();
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

/// Returns when a connection has to make room. A client that was never heard may have sent its request just now, and has
/// a moment for it.
async fn displaced(given_up: &CancellationToken, seen_request: &AtomicBool) {
    given_up.cancelled().await;
    if !seen_request.load(Ordering::Relaxed) {
        tokio::time::sleep(LAST_CHANCE).await;
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
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
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
