//! Starts and stops a proxy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use nagaya_clock::SystemClock;
use nagaya_commands::table::registry;
use nagaya_exec::config::Config as TableConfig;
use nagaya_exec::executor::Executor;
use nagaya_exec::server::Server;
use nagaya_keyspace::reclaim::ReclaimInline;
use nagaya_reactor::{Listener, Waker};
use nagaya_redis_client::{Client, Options};
use nagaya_tiering::protocol::Tokens;

use super::acceptor;
use super::config::Config;
use super::env::Shared;
use super::error::Error;
use super::inbox::Inbox;
use super::metrics::Metrics;
use super::model::key_count::KeyCount;
use super::model::listeners::ListenerCounts;
use super::model::script_guard::ScriptCache;
use super::refresher::Refresher;
use super::worker::Worker;

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
    acceptor_waker: Arc<Waker>,
    inboxes: Vec<Arc<Inbox>>,
    threads: Vec<JoinHandle<()>>,
}

/// A handle to the counters of a proxy. It may outlive the proxy.
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

    /// Returns the engine without data: users, settings, and counters of commands that are answered here.
    pub fn server(&self) -> &Server {
        &self.shared.server
    }
}

/// Returns the settings of the engine without data, as CONFIG GET shows them.
fn settings(config: &Config, address: SocketAddr) -> TableConfig {
    TableConfig {
        requirepass: config.password.clone().unwrap_or_default(),
        maxclients: config.max_clients,
        // Whole seconds, as in CONFIG GET. Rounded up: 0 would mean no limit.
        timeout: config.idle_timeout.as_millis().div_ceil(1000) as u32,
        port: address.port(),
        bind: address.ip().to_string(),
        acl_file: config.acl_file.clone(),
        enable_debug_command: config.enable_debug_command,
        redis_version: config.redis_version.clone(),
        data_on_redis: true,
        // Whether and when is for the servers behind this one to say.
        persists: true,
        ..TableConfig::default()
    }
}

impl Service {
    /// Binds the addresses of the configuration. The servers are not contacted yet.
    pub fn bind(config: Config) -> Result<Service, Error> {
        let listen =
            |address, tls| Listener::tcp(address, tls).map_err(|source| Error::Bind { address, source });
        let mut listeners = vec![listen(config.listen, None)?];
        let address = listeners[0].tcp_address().unwrap_or(config.listen);
        let mut tls_address = None;
        if let Some(tls) = &config.tls_listen {
            let listener = listen(tls.address, Some(Arc::clone(&tls.config)))?;
            tls_address = listener.tcp_address();
            listeners.push(listener);
        }
        if let Some(path) = &config.unix_socket {
            let bound = Listener::unix(path).map_err(|source| Error::BindUnix {
                path: path.to_owned(),
                source,
            });
            listeners.push(bound?);
        }
        let tls = if config.redis.tls {
            let ca = config.redis.ca.as_deref();
            Some(Arc::new(nagaya_net::tls::client_config(ca).map_err(Error::Tls)?))
        } else {
            None
        };
        let options = Options {
            connect_limit: config.connect_limit,
            reply_limit: config.reply_limit,
            client_name: "nagaya-room-layout".to_owned(),
        };
        let client = Client::new(config.redis.clone(), options).map_err(Error::Redis)?;
        let settings = settings(&config, address);
        let server = Server::new(
            registry(),
            1,
            settings,
            Arc::new(SystemClock),
            Box::new(ReclaimInline),
        );
        server.load_users_at_start().map_err(Error::Users)?;
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
                scripts: ScriptCache::default(),
                listeners: ListenerCounts::default(),
                key_count: KeyCount::default(),
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
            acceptor_waker: Arc::new(Waker::new().map_err(Error::Poll)?),
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
        let (waker, stop, listeners) = (
            Arc::clone(&proxy.acceptor_waker),
            Arc::clone(&proxy.stop),
            self.listeners,
        );
        proxy.spawn("room-accept".to_owned(), move || {
            acceptor::run(&shared, &listeners, &inboxes, &waker, &stop);
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
        self.acceptor_waker.wake();
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
            let stats = Executor::new_stats(&shared.server);
            let core = Executor::new(&shared.server, &stats);
            // Without this worker the clients that the acceptor hands to it would never be answered.
            let worker = Worker::new(&shared, core, &own, stop);
            worker.expect("a worker can be set up").run();
        })
    }

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread = nagaya_threads::spawn(name, work);
        self.threads.push(thread.map_err(Error::Thread)?);
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end();
    }
}
