//! The configuration of a proxy.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nagaya_exec::redis_version::RedisVersion;
use nagaya_redis_client::RedisUrl;
use nagaya_tiering::access::Use;
use nagaya_tiering::cold::Kind;
use rustls::ServerConfig;

use super::tag_admin::TagAdmin;

/// How a proxy serves its clients and talks to the servers behind it.
#[derive(Clone)]
pub struct Config {
    /// Where clients connect; port 0 takes a free one.
    pub listen: SocketAddr,
    /// A unix socket for clients on this machine, besides the address above.
    pub unix_socket: Option<PathBuf>,
    /// A second address for clients with TLS.
    pub tls_listen: Option<TlsListen>,
    /// How long a client may be idle before its connection is closed; zero: without limit.
    pub idle_timeout: Duration,
    /// The servers: one, those of a Sentinel, or a Cluster.
    pub redis: RedisUrl,
    /// The password of the default user. None: clients need not authenticate.
    pub password: Option<String>,
    /// Where users are read from at the start and by ACL LOAD, and written to by ACL SAVE. It must exist.
    pub acl_file: Option<PathBuf>,
    /// Who may use DEBUG, as Redis's `enable-debug-command` says it.
    pub enable_debug_command: &'static str,
    /// The release of Redis that clients are told.
    pub redis_version: RedisVersion,
    /// Threads that serve connections.
    pub io_threads: usize,
    /// Most clients at a time; further ones get an error and are closed.
    pub max_clients: u32,
    /// Unread reply bytes of a client before its connection is closed.
    pub output_bytes_max: usize,
    /// Requests of one client that may be under way; more are not read until some are answered.
    pub pipeline_max: usize,
    /// For opening a connection to a server, TLS and login included.
    pub connect_limit: Duration,
    /// For each reply of a server. A connection that takes longer is given up.
    pub reply_limit: Duration,
    /// How long a command that surely did not run is retried before its client gets the error.
    pub retry_for: Duration,
    /// How often the layout of a cluster is read without a hint that it has changed.
    pub refresh_every: Duration,
    /// Let MSET write keys of several tags, tag by tag: other clients may see a part of it.
    pub allow_split_mset: bool,
    /// Refuse keys without a hash tag in braces.
    pub require_hash_tag: bool,
    /// Prefixes of keys of other services on the same servers. KEYS, SCAN and RANDOMKEY leave them out.
    pub hidden: Vec<Vec<u8>>,
    /// The tiering protocol. None: every tag is resident.
    pub tiering: Option<Tiering>,
}

impl Config {
    /// Returns a configuration without tiers and with the usual limits.
    pub fn new(listen: SocketAddr, redis: RedisUrl) -> Config {
        Config {
            listen,
            unix_socket: None,
            tls_listen: None,
            idle_timeout: Duration::ZERO,
            redis,
            password: None,
            acl_file: None,
            enable_debug_command: "no",
            // The oldest release that the servers may be of.
            redis_version: RedisVersion::new(7, 0, 15),
            io_threads: 1,
            max_clients: 10_000,
            output_bytes_max: 1 << 30,
            pipeline_max: 16 << 10,
            connect_limit: Duration::from_secs(2),
            reply_limit: Duration::from_secs(2),
            retry_for: Duration::from_secs(5),
            refresh_every: Duration::from_secs(30),
            allow_split_mset: false,
            require_hash_tag: false,
            hidden: Vec::new(),
            tiering: None,
        }
    }
}

/// The address for clients with TLS, and its certificate.
#[derive(Clone)]
pub struct TlsListen {
    pub address: SocketAddr,
    pub config: Arc<ServerConfig>,
}

/// The parts of the tiering protocol outside of the proxy.
#[derive(Clone)]
pub struct Tiering {
    /// L: how long a lease runs from the sending of its touch. Every server of one hot tier uses the same.
    pub lease: Duration,
    /// How much earlier a server stops using a lease, because clocks drift.
    pub margin: Duration,
    /// M: the longest delay of a command. Replies later than this after the lease's end are errors.
    pub allowance: Duration,
    /// How long a command waits for its tag to be loaded.
    pub load_wait: Duration,
    pub loads: Arc<dyn Loads>,
    pub accesses: Arc<dyn Accesses>,
    pub cold_keys: Arc<dyn ColdKeys>,
    pub tag_admin: Arc<dyn TagAdmin>,
}

/// Loads tags into memory.
pub trait Loads: Send + Sync {
    /// Starts a load, or joins the one under way, and returns at once; `done` is called from any thread.
    fn load(&self, tag: &[u8], done: LoadDone);
}

/// Called with the result of a load, or why the tag cannot be loaded now.
pub type LoadDone = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Records accesses to tags.
pub trait Accesses: Send + Sync {
    /// Notes that a tag was used a short while ago. Never blocks; it may drop the note.
    fn note(&self, tag: &[u8], used: Use);
}

/// Lists keys that nodes do not know.
pub trait ColdKeys: Send + Sync {
    /// Lists about `count` keys that are only in the cold tier, from a cursor, which is 0 at the start;
    /// returns the next cursor, 0 at the end.
    fn scan(&self, cursor: u64, count: usize, kinds: Kinds, done: ScanDone);

    /// Counts the keys of both tiers without reserved ones.
    fn count(&self, done: CountDone);
}

/// Which types of keys are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    All,
    Only(Kind),
    /// Keys of an unknown type: there are none.
    None,
}

/// Called with the next cursor and the keys.
pub type ScanDone = Box<dyn FnOnce(Result<(u64, Vec<Vec<u8>>), String>) + Send>;

/// Called with the number of keys.
pub type CountDone = Box<dyn FnOnce(Result<u64, String>) + Send>;
