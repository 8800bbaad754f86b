//! Starts and stops the engine.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use nagaya_clock::SystemClock;
use nagaya_commands::table::registry;
use nagaya_config::Listen;
use nagaya_exec::config::Config;
use nagaya_exec::executor::Executor;
use nagaya_exec::redis_version::RedisVersion;
use nagaya_exec::server::Server;
use nagaya_reactor::{Listener, Poller, Waker};
use nagaya_threads::{Account, on_account};
use parking_lot::Mutex;
use rustls::ServerConfig;

use crate::acceptor;
use crate::config::RoomConfig;
use crate::error::Error;
use crate::event_loop::{EventLoop, WAKE};
use crate::inbox::Inbox;
use crate::memory::{account_bytes, hold_little};
use crate::persistence::{Persistence, Storage};
use crate::reclaimer::BackgroundReclaimer;

/// State that the threads of an engine share besides the data.
pub(crate) struct Shared {
    pub(crate) server: Server,
    pub(crate) connections: AtomicUsize,
    pub(crate) next_client_id: AtomicU64,
    pub(crate) output_bytes_max: usize,
    /// The reason of a failing save, while saving fails.
    pub(crate) failure: Mutex<Option<String>>,
    stopping: AtomicBool,
}

impl Shared {
    /// Returns whether the engine is about to end.
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
    /// Where users are kept when the settings name no file.
    users_file: Option<PathBuf>,
    account: Account,
}

/// A running engine. Dropping it stops it.
pub struct Engine {
    shared: OwnedShared,
    stop: Arc<AtomicBool>,
    acceptor_waker: Arc<Waker>,
    inboxes: Vec<Arc<Inbox>>,
    threads: Vec<JoinHandle<()>>,
    addresses: Vec<String>,
    tcp: SocketAddr,
    account: Account,
    persistence: Option<Persistence>,
}

/// The state, freed on the account on which it was made.
struct OwnedShared {
    shared: Option<Arc<Shared>>,
    account: Account,
}

impl std::ops::Deref for OwnedShared {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        self.shared.as_ref().expect("taken only when dropped")
    }
}

impl Drop for OwnedShared {
    fn drop(&mut self) {
        let _stay = on_account(self.account);
        drop(self.shared.take());
    }
}

impl Bound {
    /// Binds the addresses of the settings; the error names the one that failed.
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
            users_file: None,
            account: Account::Room,
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

    /// Listens nowhere: for a tool that reads the data while no client may connect.
    pub fn nowhere(config: RoomConfig) -> Bound {
        Bound {
            listeners: Vec::new(),
            addresses: Vec::new(),
            tcp: SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0)),
            config,
            users_file: None,
            account: Account::Room,
        }
    }

    /// Keeps the users in this file, and saves them with every change, if the settings name no other.
    #[must_use]
    pub fn keeping_users_in(mut self, file: PathBuf) -> Bound {
        self.users_file = Some(file);
        self
    }

    /// Counts the engine's memory on another account than the room's.
    pub fn on_account(self, account: Account) -> Bound {
        Bound { account, ..self }
    }

    /// Returns the plain TCP address.
    pub fn tcp_address(&self) -> SocketAddr {
        self.tcp
    }

    /// Returns the settings.
    pub fn config(&self) -> &RoomConfig {
        &self.config
    }

    /// Recovers from the storage what must be in memory, and starts the threads. Without storage, the data
    /// ends with the engine.
    pub fn start(self, storage: Option<Storage>) -> Result<Engine, Error> {
        let Bound {
            listeners,
            addresses,
            tcp,
            config,
            users_file,
            account,
        } = self;
        let _stay = on_account(account);
        hold_little();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // Half of the cores: the clients of an embedded engine mostly run on the same machine.
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
        let clock = Arc::new(SystemClock);
        let settings = server_settings(&config, tcp, storage.is_some(), users_file);
        let shared = Arc::new(Shared {
            server: Server::new(registry(), shards, settings, clock, Box::new(reclaimer)),
            connections: AtomicUsize::new(0),
            next_client_id: AtomicU64::new(1),
            output_bytes_max: config.output_buffer_max.as_usize(),
            failure: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        shared.server.load_users_at_start().map_err(Error::Users)?;
        // Set once, here.
        let probe = Box::new(move || account_bytes(account));
        shared.server.keyspace.memory.probe.set(probe).ok();
        let shared = OwnedShared {
            shared: Some(shared),
            account,
        };
        let mut engine = Engine {
            shared,
            stop: Arc::default(),
            acceptor_waker: Arc::new(Waker::new().map_err(Error::Poll)?),
            inboxes: Vec::new(),
            threads: vec![free_thread],
            addresses,
            tcp,
            account,
            persistence: None,
        };
        if let Some(storage) = storage {
            engine.persistence = Some(Persistence::start(&engine.shared, &config, storage)?);
        }
        for number in 0..io_threads {
            engine.start_io_thread(number)?;
        }
        engine.start_acceptor(listeners)?;
        Ok(engine)
    }
}

/// Returns the settings that CONFIG shows.
fn server_settings(
    config: &RoomConfig,
    tcp: SocketAddr,
    persists: bool,
    users_file: Option<PathBuf>,
) -> Config {
    Config {
        requirepass: config
            .password
            .as_ref()
            .map_or(String::new(), |password| password.reveal().to_owned()),
        maxclients: config.max_clients,
        databases: config.databases as usize,
        // Whole seconds, as CONFIG GET shows it. Rounded up, because 0 would mean no timeout.
        timeout: config.idle_timeout.as_millis().div_ceil(1000) as u32,
        port: tcp.port(),
        bind: tcp.ip().to_string(),
        maxmemory: config.max_memory.0,
        persists,
        appendfsync: config.fsync.word(),
        enable_debug_command: config.enable_debug_command.word(),
        redis_version: config
            .redis_version
            .as_ref()
            .map_or_else(RedisVersion::default, |told| told.0.clone()),
        acl_saves_itself: config.acl_file.is_none(),
        acl_file: config.acl_file.clone().or(users_file),
        ..Config::default()
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
    pub fn stats(&self) -> EngineStats {
        EngineStats {
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
        let _stay = on_account(self.account);
        let open = self.shared.connections.load(Ordering::Relaxed);
        self.stop.store(true, Ordering::SeqCst);
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.acceptor_waker.wake();
        self.inboxes.iter().for_each(|inbox| inbox.wake());
        // The reclaiming thread, first in the list, ends with the last user of the shared state.
        for thread in self.threads.drain(..).skip(1) {
            if thread.join().is_err() {
                tracing::error!("an engine thread panicked");
            }
        }
        if let Some(persistence) = self.persistence.take()
            && let Err(error) = persistence.stop(&self.shared)
        {
            tracing::error!(%error, "could not close the write-ahead log");
        }
        open
    }

    fn start_io_thread(&mut self, number: usize) -> Result<(), Error> {
        let inbox = Arc::new(Inbox::new().map_err(Error::Poll)?);
        let poller = Poller::new().map_err(Error::Poll)?;
        inbox.watch(&poller, WAKE).map_err(Error::Poll)?;
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        let own = Arc::clone(&inbox);
        let thread = nagaya_threads::spawn(format!("nagaya-io-{number}"), move || {
            let stats = Executor::new_stats(&shared.server);
            let mut core = Executor::new(&shared.server, &stats);
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
        let thread = nagaya_threads::spawn("nagaya-accept", move || {
            acceptor::run(&shared, &listeners, &inboxes, &waker, &stop);
        });
        self.threads.push(thread.map_err(Error::Thread)?);
        Ok(())
    }
}

/// The engine's counters.
#[derive(Clone)]
pub struct EngineStats {
    shared: Arc<Shared>,
}

impl EngineStats {
    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Returns how many connections were rejected.
    pub fn connections_refused(&self) -> u64 {
        self.shared
            .server
            .subscribers
            .clients
            .rejected
            .load(Ordering::Relaxed)
    }

    /// Returns whether a client has sent SHUTDOWN.
    pub fn shutdown_requested(&self) -> bool {
        self.shared.server.shutdown_requested.load(Ordering::Relaxed)
    }

    /// Returns why writes are refused or saving fails, as long as it is so.
    pub fn failure(&self) -> Option<String> {
        let refused = self.shared.server.journal_failure().map(|failure| failure.reason);
        refused.or_else(|| self.shared.failure.lock().clone())
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

/// Builds the TLS settings of the listener from the files that the settings name.
pub fn tls_config(config: &RoomConfig) -> Result<Arc<ServerConfig>, Error> {
    let cert_path = config
        .tls_cert
        .as_deref()
        .unwrap_or(Path::new("tls_cert (not set)"));
    let key_path = config
        .tls_key
        .as_deref()
        .unwrap_or(Path::new("tls_key (not set)"));
    let config = nagaya_net::tls::server_config(cert_path, key_path, config.tls_client_ca.as_deref())?;
    Ok(Arc::new(config))
}
