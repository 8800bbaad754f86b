//! Starts and stops the engine.

use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use nagaya_commands::clock::SystemClock;
use nagaya_commands::config::Config;
use nagaya_commands::executor::Core;
use nagaya_commands::server::Server;
use nagaya_commands::table::registry;
use nagaya_config::Listen;
use nagaya_reactor::{Listener, Poller, Waker};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::acceptor;
use crate::config::RoomConfig;
use crate::error::Error;
use crate::event_loop::{EventLoop, WAKE};
use crate::inbox::Inbox;
use crate::memory::used_bytes;
use crate::reclaimer::BackgroundReclaimer;
use crate::tiers::{Storage, Tiers};

/// What the threads of an engine share beside the data.
pub(crate) struct Shared {
    pub(crate) server: Server,
    pub(crate) connections: AtomicUsize,
    pub(crate) next_client_id: AtomicU64,
    pub(crate) output_bytes_max: usize,
    /// Why saving fails, while it does.
    pub(crate) trouble: Mutex<Option<String>>,
    stopping: AtomicBool,
}

impl Shared {
    /// Tells whether the engine is about to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn max_clients(&self) -> usize {
        self.server.config().maxclients as usize
    }
}

/// The engine's listeners, bound and not yet served.
pub struct Bound {
    listeners: Vec<Listener>,
    addresses: Vec<String>,
    tcp: SocketAddr,
    config: RoomConfig,
}

/// A running engine. Dropping it stops it.
pub struct Engine {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    acceptor_waker: Arc<Waker>,
    inboxes: Vec<Arc<Inbox>>,
    threads: Vec<JoinHandle<()>>,
    addresses: Vec<String>,
    tcp: SocketAddr,
    tiers: Option<Tiers>,
}

impl Bound {
    /// Takes the addresses of the settings, or says which one could not be had.
    pub fn bind(config: RoomConfig) -> Result<Bound, Error> {
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        let listener = bind_tcp(config.listen, None)?;
        let local = listener.tcp_address().unwrap_or(config.listen.0);
        addresses.push(local.to_string());
        listeners.push(listener);
        if let Some(address) = &config.tls_listen {
            let tls = tls_config(&config)?;
            let listener = bind_tcp(*address, Some(tls))?;
            let local = listener.tcp_address().unwrap_or(address.0);
            addresses.push(format!("{local} (TLS)"));
            listeners.push(listener);
        }
        if let Some(path) = &config.unix_socket {
            listeners.push(bind_unix(path)?);
            addresses.push(path.display().to_string());
        }
        Ok(Bound {
            listeners,
            addresses,
            tcp: local,
            config,
        })
    }

    /// Listens on the unix socket of the settings and nowhere else.
    pub fn on_socket_only(config: RoomConfig) -> Result<Bound, Error> {
        let mut bound = Bound::nowhere(config);
        if let Some(path) = bound.config.unix_socket.clone() {
            bound.listeners.push(bind_unix(&path)?);
            bound.addresses.push(path.display().to_string());
        }
        Ok(bound)
    }

    /// Listens nowhere: for a tool that needs what is in the data and lets nobody else at it.
    pub fn nowhere(config: RoomConfig) -> Bound {
        Bound {
            listeners: Vec::new(),
            addresses: Vec::new(),
            tcp: SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0)),
            config,
        }
    }

    /// Returns the plain TCP address.
    pub fn tcp_address(&self) -> SocketAddr {
        self.tcp
    }

    /// Returns the settings.
    pub fn config(&self) -> &RoomConfig {
        &self.config
    }

    /// Brings back what the storage has, as far as it must be in memory, and starts the threads. Without
    /// storage, nothing outlives the engine.
    pub fn start(self, storage: Option<Storage>) -> Result<Engine, Error> {
        let Bound {
            listeners,
            addresses,
            tcp,
            config,
        } = self;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // One thread serves two cores best when the clients share the machine.
        let io_threads = if config.io_threads > 0 {
            config.io_threads as usize
        } else {
            (cores / 2).clamp(1, 8)
        };
        let shards = if config.shards > 0 {
            config.shards as usize
        } else {
            (io_threads * 16).clamp(16, 256)
        };
        let (reclaimer, free_thread) = BackgroundReclaimer::start().map_err(Error::Thread)?;
        let clock = Arc::new(SystemClock::default());
        let settings = Config {
            requirepass: config
                .password
                .as_ref()
                .map_or(String::new(), |password| password.reveal().to_owned()),
            maxclients: config.max_clients,
            // Whole seconds, as CONFIG GET tells it; a part of one is not for ever.
            timeout: config.idle_timeout.as_millis().div_ceil(1000) as u32,
            port: tcp.port(),
            bind: tcp.ip().to_string(),
            maxmemory: config.max_memory.0,
            ..Config::default()
        };
        let shared = Arc::new(Shared {
            server: Server::new(registry(), shards, settings, clock, Box::new(reclaimer)),
            connections: AtomicUsize::new(0),
            next_client_id: AtomicU64::new(1),
            output_bytes_max: config.output_buffer_max.as_usize(),
            trouble: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        // Set once, here.
        shared.server.keyspace.memory.probe.set(used_bytes).ok();
        let mut engine = Engine {
            shared,
            stop: Arc::default(),
            acceptor_waker: Arc::new(Waker::new().map_err(Error::Poll)?),
            inboxes: Vec::new(),
            threads: vec![free_thread],
            addresses,
            tcp,
            tiers: None,
        };
        if let Some(storage) = storage {
            engine.tiers = Some(Tiers::start(&engine.shared, &config, storage)?);
        }
        for number in 0..io_threads {
            engine.start_io_thread(number)?;
        }
        engine.start_acceptor(listeners)?;
        Ok(engine)
    }
}

impl Engine {
    /// Returns where clients can connect, as text for people.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Returns the plain TCP address.
    pub fn tcp_address(&self) -> SocketAddr {
        self.tcp
    }

    /// Returns a view of the engine's counters that outlives it.
    pub fn figures(&self) -> Figures {
        Figures {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Returns the state behind the sockets: settings, counters, data.
    pub fn server(&self) -> &Server {
        &self.shared.server
    }

    /// Stops accepting, closes all connections and waits for the threads; returns how many connections
    /// were open.
    pub fn stop(mut self) -> usize {
        self.end()
    }

    fn end(&mut self) -> usize {
        let open = self.shared.connections.load(Ordering::Relaxed);
        self.stop.store(true, Ordering::SeqCst);
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.acceptor_waker.wake();
        self.inboxes.iter().for_each(|inbox| inbox.wake());
        // The freeing thread, first in the list, ends with the last user of the shared state.
        for thread in self.threads.drain(..).skip(1) {
            if thread.join().is_err() {
                tracing::error!("an engine thread panicked");
            }
        }
        if let Some(tiers) = self.tiers.take()
            && let Err(error) = tiers.stop(&self.shared)
        {
            tracing::error!(%error, "the write-ahead log did not end well");
        }
        open
    }

    fn start_io_thread(&mut self, number: usize) -> Result<(), Error> {
        let inbox = Arc::new(Inbox::new().map_err(Error::Poll)?);
        let poller = Poller::new().map_err(Error::Poll)?;
        inbox.watch(&poller, WAKE).map_err(Error::Poll)?;
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        let own = Arc::clone(&inbox);
        let thread = nagaya_reactor::spawn(format!("nagaya-io-{number}"), move || {
            let stats = Core::new_stats(&shared.server);
            let mut core = Core::new(&shared.server, &stats);
            let event_loop = Rc::new(EventLoop::new(&shared, poller, own, stop, number == 0));
            core.scripts.pump = Some(Rc::clone(&event_loop) as _);
            event_loop.run(&mut core);
        });
        self.threads.push(thread.map_err(Error::Thread)?);
        self.inboxes.push(inbox);
        Ok(())
    }

    fn start_acceptor(&mut self, listeners: Vec<Listener>) -> Result<(), Error> {
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        let (waker, inboxes) = (Arc::clone(&self.acceptor_waker), self.inboxes.clone());
        let thread = nagaya_reactor::spawn("nagaya-accept".to_owned(), move || {
            acceptor::run(&shared, &listeners, &inboxes, &waker, &stop);
        });
        self.threads.push(thread.map_err(Error::Thread)?);
        Ok(())
    }
}

/// The engine's counters.
#[derive(Clone)]
pub struct Figures {
    shared: Arc<Shared>,
}

impl Figures {
    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Returns how many connections were turned away.
    pub fn connections_refused(&self) -> u64 {
        self.shared
            .server
            .subscribers
            .clients
            .rejected
            .load(Ordering::Relaxed)
    }

    /// Tells whether a client has asked for the end (SHUTDOWN).
    pub fn shutdown_requested(&self) -> bool {
        self.shared.server.shutdown_requested.load(Ordering::Relaxed)
    }

    /// Tells why writes are refused or saving fails, while that is so.
    pub fn trouble(&self) -> Option<String> {
        let refused = self.shared.server.journal_failure().map(|failure| failure.reason);
        refused.or_else(|| self.shared.trouble.lock().clone())
    }

    /// Returns the state that the commands work on: keys and command counters.
    pub fn server(&self) -> &Server {
        &self.shared.server
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
    }
}

fn bind_tcp(address: Listen, tls: Option<Arc<ServerConfig>>) -> Result<Listener, Error> {
    Listener::tcp(address.0, tls).map_err(|source| Error::Bind {
        address: address.to_string(),
        source,
    })
}

fn bind_unix(path: &Path) -> Result<Listener, Error> {
    Listener::unix(path).map_err(|source| Error::Bind {
        address: path.display().to_string(),
        source,
    })
}

/// Builds what clients are shown through TLS, from the files that the settings name.
pub fn tls_config(config: &RoomConfig) -> Result<Arc<ServerConfig>, Error> {
    let cert_path = config
        .tls_cert
        .as_deref()
        .unwrap_or(Path::new("tls_cert (not set)"));
    let key_path = config
        .tls_key
        .as_deref()
        .unwrap_or(Path::new("tls_key (not set)"));
    let chain = certificates(cert_path)?;
    let pem = read(key_path)?;
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| Error::TlsContent {
        path: key_path.to_owned(),
        what: "private key",
    })?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?;
    let builder = match &config.tls_client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = rustls::RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(Error::Tls)?;
            }
            let verifier =
                rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .build()
                    .map_err(|_| Error::TlsContent {
                        path: path.clone(),
                        what: "certificate authority",
                    })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    builder
        .with_single_cert(chain, key)
        .map(Arc::new)
        .map_err(Error::Tls)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let pem = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(Error::TlsContent {
            path: path.to_owned(),
            what: "certificate",
        }),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::TlsFile {
        path: path.to_owned(),
        source,
    })
}
