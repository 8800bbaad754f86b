//! Starts and stops a proxy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nagaya_commands::clock::SystemClock;
use nagaya_commands::config::Config as TableConfig;
use nagaya_commands::executor::Core;
use nagaya_commands::reclaim::ReclaimInline;
use nagaya_commands::server::Server;
use nagaya_commands::table::registry;
use nagaya_redis_client::{Client, Options, Topology};
use nagaya_tiering::protocol::Tokens;
use rustls::ClientConfig;

use super::acceptor::{self, Listener};
use super::aim::{Reach, Rules};
use super::config::Config;
use super::ears::Ears;
use super::error::Error;
use super::inbox::Inbox;
use super::metrics::Metrics;
use super::refresher::Refresher;
use super::script_guard::Book;
use super::worker::Worker;

/// What the threads of a proxy share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    /// An engine without data: it knows connections, users, settings and the command table.
    pub(crate) server: Server,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) metrics: Metrics,
    pub(crate) refresher: Refresher,
    pub(crate) tokens: Tokens,
    /// Clients' scripts, guarded.
    pub(crate) scripts: Book,
    /// What the workers listen to.
    pub(crate) ears: Ears,
    pub(crate) connections: AtomicUsize,
    pub(crate) next_client_id: AtomicU64,
    /// Nodes that the first worker has a connection to.
    pub(crate) open_nodes: AtomicUsize,
}

impl Shared {
    /// What requests are held to.
    pub(crate) fn rules(&self) -> Rules {
        Rules {
            require_hash_tag: self.config.require_hash_tag,
            reach: match (&self.config.tiering, &self.config.redis.topology) {
                (Some(_), _) => Reach::OneTag,
                (None, Topology::Cluster { .. }) => Reach::OneSlot,
                (None, _) => Reach::Anywhere,
            },
        }
    }

    /// How long sent bytes may stay unacknowledged: no longer than a command may take.
    pub(crate) fn unheard_limit(&self) -> Duration {
        let allowance = self.config.tiering.as_ref().map(|tiering| tiering.allowance);
        allowance.unwrap_or(self.config.reply_limit)
    }
}

/// A proxy that is bound to its address and does not serve yet.
pub struct Service {
    listeners: Vec<Listener>,
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    shared: Arc<Shared>,
    client: Client,
}

/// A running proxy. Dropping it stops it.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    acceptor_wake: Arc<Inbox>,
    inboxes: Vec<Arc<Inbox>>,
    threads: Vec<JoinHandle<()>>,
}

/// A view of a proxy that outlives it.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Returns the number of clients.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Returns the number of nodes that requests can be sent to now.
    pub fn open_nodes(&self) -> usize {
        self.shared.open_nodes.load(Ordering::Relaxed)
    }

    /// Returns the engine without data: users, settings, counters of commands that were answered here.
    pub fn server(&self) -> &Server {
        &self.shared.server
    }
}

impl Service {
    /// Takes the address of the settings, or says why it cannot be had. The servers are not asked yet.
    pub fn bind(config: Config) -> Result<Service, Error> {
        let mut listeners = vec![Listener::tcp(config.listen, None)?];
        let address = listeners[0].address().unwrap_or(config.listen);
        let mut tls_address = None;
        if let Some(tls) = &config.tls_listen {
            let listener = Listener::tcp(tls.address, Some(Arc::clone(&tls.config)))?;
            tls_address = listener.address();
            listeners.push(listener);
        }
        if let Some(path) = &config.unix_socket {
            listeners.push(Listener::unix(path)?);
        }
        let tls = match config.redis.tls {
            false => None,
            true => Some(nagaya_redis_client::tls::config(config.redis.ca.as_deref()).map_err(Error::Tls)?),
        };
        let options = Options {
            connect_limit: config.connect_limit,
            reply_limit: config.reply_limit,
            client_name: "nagaya-room-layout".to_owned(),
        };
        let client = Client::new(config.redis.clone(), options).map_err(Error::Redis)?;
        let settings = TableConfig {
            requirepass: config.password.clone().unwrap_or_default(),
            maxclients: config.max_clients,
            // Whole seconds, as CONFIG GET tells it; a part of one is not for ever.
            timeout: config.idle_timeout.as_millis().div_ceil(1000) as u32,
            port: address.port(),
            bind: address.ip().to_string(),
            ..TableConfig::default()
        };
        let server = Server::new(
            registry(),
            1,
            settings,
            Arc::new(SystemClock::default()),
            Box::new(ReclaimInline),
        );
        Ok(Service {
            listeners,
            address,
            tls_address,
            shared: Arc::new(Shared {
                config,
                server,
                tls,
                metrics: Metrics::default(),
                refresher: Refresher::default(),
                tokens: Tokens::default(),
                scripts: Book::default(),
                ears: Ears::default(),
                connections: AtomicUsize::new(0),
                next_client_id: AtomicU64::new(1),
                open_nodes: AtomicUsize::new(0),
            }),
            client,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns where clients connect through TLS.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    pub fn handle(&self) -> Handle {
        Handle {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Starts the threads.
    pub fn start(self) -> Result<Proxy, Error> {
        let mut proxy = Proxy {
            shared: self.shared,
            address: self.address,
            stop: Arc::default(),
            acceptor_wake: Arc::new(Inbox::new().map_err(Error::Poll)?),
            inboxes: Vec::new(),
            threads: Vec::new(),
        };
        for number in 0..proxy.shared.config.io_threads.max(1) {
            proxy.start_worker(number)?;
        }
        let (shared, inboxes, client) = (Arc::clone(&proxy.shared), proxy.inboxes.clone(), self.client);
        let every = shared.config.refresh_every;
        proxy.spawn("room-layout".to_owned(), move || {
            shared.refresher.run(&client, every, &inboxes)
        })?;
        let (shared, inboxes) = (Arc::clone(&proxy.shared), proxy.inboxes.clone());
        let (wake, stop, listeners) = (
            Arc::clone(&proxy.acceptor_wake),
            Arc::clone(&proxy.stop),
            self.listeners,
        );
        proxy.spawn("room-accept".to_owned(), move || {
            acceptor::run(&shared, &listeners, &inboxes, &wake, &stop);
        })?;
        Ok(proxy)
    }

    /// Serves until `shutdown` returns, then closes all connections.
    pub fn run(self, shutdown: impl FnOnce()) -> Result<(), Error> {
        let proxy = self.start()?;
        shutdown();
        proxy.stop();
        Ok(())
    }
}

impl Proxy {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn handle(&self) -> Handle {
        Handle {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Stops accepting, closes all connections and waits for the threads; returns how many clients were
    /// connected.
    pub fn stop(mut self) -> usize {
        self.end()
    }

    fn end(&mut self) -> usize {
        let open = self.shared.connections.load(Ordering::Relaxed);
        self.stop.store(true, Ordering::SeqCst);
        self.acceptor_wake.wake();
        self.inboxes.iter().for_each(|inbox| inbox.wake());
        self.shared.refresher.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the proxy panicked");
            }
        }
        open
    }

    fn start_worker(&mut self, number: usize) -> Result<(), Error> {
        let inbox = Arc::new(Inbox::new().map_err(Error::Poll)?);
        let (shared, stop, own) = (
            Arc::clone(&self.shared),
            Arc::clone(&self.stop),
            Arc::clone(&inbox),
        );
        self.inboxes.push(inbox);
        self.spawn(format!("room-io-{number}"), move || {
            let stats = Core::new_stats(&shared.server);
            let core = Core::new(&shared.server, &stats);
            match Worker::new(&shared, core, own, stop) {
                Ok(mut worker) => worker.run(),
                Err(error) => tracing::error!(%error, "could not set up a worker"),
            }
        })
    }

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread = std::thread::Builder::new().name(name).spawn(work);
        self.threads.push(thread.map_err(Error::Thread)?);
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end();
    }
}
