//! The memcached server: text and binary protocol on one port, an id per key.
//!
//! A few threads, each with its own poller; a connection stays with its thread. The first
//! thread accepts and hands the connections to all threads in turn. The requests of one read are
//! answered with one write. All memory that a client can occupy is limited by [`ServerConfig`].

mod binary;
mod connection;
mod event_loop;
mod stats;
mod text;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

pub use nagaya_reactor::{Address as ListenAddress, Listener};
use nagaya_reactor::{Inbox, Transport};

use crate::mint::Mint;
use event_loop::EventLoop;
pub use stats::{GetCounts, ServerStats, Stats};

/// The limits of the memcached server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// How many threads serve connections.
    pub threads: usize,
    /// A connection that completes no request for this long is closed; zero: never.
    pub idle_timeout: Duration,
    /// Connections above this number get an error and are closed.
    pub connections_max: usize,
    /// The longest text command; a longer one ends the connection.
    pub line_bytes_max: usize,
    /// The most keys, and so ids, in one text `get`.
    pub keys_max: usize,
    /// The longest body of a binary request; a longer one ends the connection unread.
    pub body_bytes_max: usize,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            threads: std::thread::available_parallelism().map_or(1, |count| count.get().min(4)),
            idle_timeout: Duration::from_secs(600),
            connections_max: 10_000,
            line_bytes_max: 64 << 10,
            keys_max: 4096,
            body_bytes_max: 4096,
        }
    }
}

/// State shared by the serving threads.
struct Shared {
    config: ServerConfig,
    mint: Arc<Mint>,
    stats: Arc<Stats>,
    /// Connections open now, over all threads.
    open: AtomicUsize,
    stop: AtomicBool,
}

/// A running server. Dropping it stops it as [`Server::stop`] does.
pub struct Server {
    shared: Arc<Shared>,
    /// New connections for each thread.
    inboxes: Vec<Arc<Inbox<Transport>>>,
    threads: Vec<JoinHandle<()>>,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Starts to serve `listeners`. `stats` is shared with the other ways to fetch ids.
    pub fn start(
        listeners: Vec<Listener>,
        config: ServerConfig,
        mint: Arc<Mint>,
        stats: Arc<Stats>,
    ) -> io::Result<Server> {
        let addresses = listeners.iter().filter_map(Listener::tcp_address).collect();
        let shared = Arc::new(Shared {
            config,
            mint,
            stats,
            open: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let count = shared.config.threads.max(1);
        let inboxes = (0..count)
            .map(|_| Inbox::new().map(Arc::new))
            .collect::<io::Result<Vec<_>>>()?;
        let mut server = Server {
            shared,
            inboxes,
            threads: Vec::with_capacity(count),
            addresses,
        };
        let mut listeners = Some(listeners);
        for own in 0..count {
            // Only the first thread gets the listeners.
            let listeners = listeners.take().unwrap_or_default();
            let shared = Arc::clone(&server.shared);
            let event_loop = EventLoop::new(shared, own, server.inboxes.clone(), listeners)?;
            let thread = nagaya_threads::spawn(format!("ids-{own}"), move || event_loop.run())?;
            server.threads.push(thread);
        }
        Ok(server)
    }

    /// Returns the TCP addresses listened on, with the ports the system chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops accepting, answers what has been received, closes every connection and waits for
    /// the threads. Returns how many connections were still open.
    pub fn stop(mut self) -> usize {
        let open = self.shared.open.load(Ordering::Relaxed);
        self.end();
        open
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.inboxes.iter().for_each(|inbox| inbox.wake());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the id server has panicked");
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
