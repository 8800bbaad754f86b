//! Settings of the running engine, as CONFIG GET and SET see them.
//!
//! What a setting is called and which values it takes is in the table of
//! `settings.rs`; here is where their values live.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nagaya_store::limits::EncodingLimits;

use crate::redis_version::RedisVersion;

/// One consistent set of settings. Readers hold a snapshot; CONFIG SET makes a new one.
#[derive(Clone, Debug)]
pub struct Config {
    pub limits: EncodingLimits,
    /// How many databases there are.
    pub databases: usize,
    /// Classes of keyspace events to publish.
    pub notify: nagaya_keyspace::notify::Events,
    /// Longest string value, in bytes.
    pub proto_max_bulk_len: usize,
    /// New users and selectors may use every channel.
    pub acl_pubsub_default_all: bool,
    /// Where ACL LOAD and ACL SAVE keep the users.
    pub acl_file: Option<PathBuf>,
    /// Every change of a user is saved to the file at once, as if ACL SAVE followed.
    pub acl_saves_itself: bool,
    /// Most bytes that keys may take; 0 for no bound.
    pub maxmemory: u64,
    /// Which keys go when that is not enough, as Redis names it.
    pub maxmemory_policy: &'static str,
    /// Keys looked at to find one that should go.
    pub maxmemory_samples: usize,
    /// Most bytes that all connections' buffers may take; negative: percent of `maxmemory`.
    pub maxmemory_clients: i64,
    /// Commands that take at least this many microseconds are logged; negative: none.
    pub slowlog_log_slower_than: i64,
    pub slowlog_max_len: usize,
    /// Events that take at least this many milliseconds are kept for LATENCY; 0: none.
    pub latency_monitor_threshold: i64,
    /// Durations of commands are counted per command.
    pub latency_tracking: bool,
    pub latency_tracking_info_percentiles: Vec<f64>,
    /// Milliseconds after which a running script lets other clients be told that the server is busy.
    pub busy_reply_threshold: i64,
    /// Seconds after which an idle connection is closed; 0: never.
    pub timeout: u32,
    pub maxclients: u32,
    /// The default user's password; empty for none.
    pub requirepass: String,
    /// How often CONFIG SET has set `requirepass`. Each time counts, the same value included: ACL SETUSER may
    /// have given `default` another password since.
    pub requirepass_sets: u64,
    /// Most bytes of requests that a connection may have sent ahead.
    pub client_query_buffer_limit: usize,
    /// Bounds on unread replies: of plain connections, replicas, and subscribers.
    pub client_output_buffer_limit: [OutputLimit; 3],
    pub acllog_max_len: usize,
    pub tracking_table_max_keys: usize,
    /// How hard expired keys are looked for, from 1 to 10.
    pub active_expire_effort: u32,
    /// Replicas that a write needs. There are none, so that any number but 0 refuses writes, unless the lag
    /// that they may have is 0 too.
    pub min_replicas_to_write: u32,
    pub min_replicas_max_lag: u32,
    /// What is done is kept on disk.
    pub persists: bool,
    /// When a write is safe on the disk: `always`, `everysec` or `no`.
    pub appendfsync: &'static str,
    /// The data is on Redis servers; this process only passes requests on.
    pub data_on_redis: bool,
    /// Who may use DEBUG and MODULE: `no` for nobody, `local` for connections of this machine, or `yes`.
    pub enable_debug_command: &'static str,
    pub enable_module_command: &'static str,
    /// The release of Redis that clients are told.
    pub redis_version: RedisVersion,
    /// Where the engine listens, as CONFIG GET reports it.
    pub port: u16,
    pub bind: String,
    /// Settings without effect that CONFIG GET reports, where they differ from their defaults.
    pub without_effect: BTreeMap<&'static str, String>,
}

/// How much may wait for a client that does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// Bytes at which the connection is closed at once; 0: never.
    pub hard_bytes: u64,
    /// Bytes at which it is closed after `soft_seconds`; 0: never.
    pub soft_bytes: u64,
    pub soft_seconds: u64,
}

impl Config {
    /// Returns how many bytes all connections together may take; nothing when there is no bound.
    pub fn client_bytes_max(&self) -> Option<usize> {
        let bytes = match self.maxmemory_clients {
            0 => return None,
            percent if percent < 0 => self.maxmemory / 100 * percent.unsigned_abs(),
            bytes => bytes.unsigned_abs(),
        };
        // A percentage of no limit is none.
        (bytes > 0).then_some(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Returns the bounds on the unread replies of a connection.
    pub fn output_limit(&self, is_subscribed: bool) -> OutputLimit {
        self.client_output_buffer_limit[usize::from(is_subscribed) * 2]
    }

    /// Returns how long a command may take before any log wants to know of it, in nanoseconds.
    pub fn slow_ns(&self) -> u64 {
        let logged =
            u64::try_from(self.slowlog_log_slower_than).map_or(u64::MAX, |us| us.saturating_mul(1_000));
        let kept = match self.latency_monitor_threshold {
            ms if ms > 0 => (ms as u64).saturating_mul(1_000_000),
            _ => u64::MAX,
        };
        logged.min(kept)
    }
}

impl Default for Config {
    fn default() -> Self {
        let output_limit = |hard_mib: u64, soft_mib: u64, soft_seconds| OutputLimit {
            hard_bytes: hard_mib << 20,
            soft_bytes: soft_mib << 20,
            soft_seconds,
        };
        Config {
            limits: EncodingLimits::default(),
            databases: 16,
            notify: nagaya_keyspace::notify::Events::default(),
            proto_max_bulk_len: 512 * 1024 * 1024,
            acl_pubsub_default_all: false,
            acl_file: None,
            acl_saves_itself: false,
            maxmemory: 0,
            maxmemory_policy: "noeviction",
            maxmemory_samples: 5,
            maxmemory_clients: 0,
            slowlog_log_slower_than: 10_000,
            slowlog_max_len: 128,
            latency_monitor_threshold: 0,
            latency_tracking: true,
            latency_tracking_info_percentiles: vec![50.0, 99.0, 99.9],
            busy_reply_threshold: 5000,
            timeout: 0,
            maxclients: 10_000,
            requirepass: String::new(),
            requirepass_sets: 0,
            client_query_buffer_limit: 1 << 30,
            client_output_buffer_limit: [
                output_limit(0, 0, 0),
                output_limit(256, 64, 60),
                output_limit(32, 8, 60),
            ],
            acllog_max_len: 128,
            tracking_table_max_keys: 1_000_000,
            active_expire_effort: 1,
            min_replicas_to_write: 0,
            min_replicas_max_lag: 10,
            persists: false,
            appendfsync: "everysec",
            data_on_redis: false,
            enable_debug_command: "no",
            enable_module_command: "no",
            redis_version: RedisVersion::default(),
            port: 6380,
            bind: "127.0.0.1".to_owned(),
            without_effect: BTreeMap::new(),
        }
    }
}
