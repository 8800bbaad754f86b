//! Counters of the server, under memcached's names.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::mint::Mint;
use nagaya_clock::BootTime;

/// Counters shared by every way to fetch ids.
#[derive(Debug)]
pub struct Stats {
    started: BootTime,
    version: String,
    curr_connections: AtomicU64,
    total_connections: AtomicU64,
    rejected_connections: AtomicU64,
    cmd_get: AtomicU64,
    get_hits: AtomicU64,
    get_misses: AtomicU64,
}

/// The counters at one moment. The first nine are katsubushi's, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStats {
    pub pid: u32,
    /// Seconds since the start.
    pub uptime: u64,
    /// Seconds since 1970, by the clock that ids are stamped with.
    pub time: u64,
    pub version: String,
    pub curr_connections: u64,
    pub total_connections: u64,
    /// Requests for ids.
    pub cmd_get: u64,
    /// Ids given out.
    pub get_hits: u64,
    /// Requests that got an error instead.
    pub get_misses: u64,
    pub rejected_connections: u64,
    /// The number in use and its fence, if one is held.
    pub worker: Option<(u64, u64)>,
    /// How far the wall clock is ahead of the one that ids are stamped with.
    pub clock_behind_ms: i64,
}

impl Stats {
    /// Makes counters at zero. `version` is reported to clients.
    pub fn new(mint: &Mint, version: impl Into<String>) -> Stats {
        Stats {
            started: mint.clock().boot(),
            version: version.into(),
            curr_connections: AtomicU64::new(0),
            total_connections: AtomicU64::new(0),
            rejected_connections: AtomicU64::new(0),
            cmd_get: AtomicU64::new(0),
            get_hits: AtomicU64::new(0),
            get_misses: AtomicU64::new(0),
        }
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    /// Counts requests and their outcomes.
    pub fn count_gets(&self, counts: GetCounts) {
        if counts != GetCounts::default() {
            self.cmd_get.fetch_add(counts.commands, Relaxed);
            self.get_hits.fetch_add(counts.hits, Relaxed);
            self.get_misses.fetch_add(counts.misses, Relaxed);
        }
    }

    pub fn connection_opened(&self) {
        self.curr_connections.fetch_add(1, Relaxed);
        self.total_connections.fetch_add(1, Relaxed);
    }

    pub fn connection_closed(&self) {
        self.curr_connections.fetch_sub(1, Relaxed);
    }

    pub(super) fn connection_rejected(&self) {
        self.rejected_connections.fetch_add(1, Relaxed);
    }

    /// Reads all counters, each on its own.
    pub fn snapshot(&self, mint: &Mint) -> ServerStats {
        let clock = mint.clock();
        ServerStats {
            pid: std::process::id(),
            uptime: clock.boot().since(self.started).as_secs(),
            time: clock.unix_ms() / 1000,
            version: self.version.clone(),
            curr_connections: self.curr_connections.load(Relaxed),
            total_connections: self.total_connections.load(Relaxed),
            cmd_get: self.cmd_get.load(Relaxed),
            get_hits: self.get_hits.load(Relaxed),
            get_misses: self.get_misses.load(Relaxed),
            rejected_connections: self.rejected_connections.load(Relaxed),
            worker: mint.worker(),
            clock_behind_ms: clock.behind_wall_ms(),
        }
    }
}

/// Requests for ids, collected before they are added to the shared counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetCounts {
    pub commands: u64,
    pub hits: u64,
    pub misses: u64,
}

impl GetCounts {
    /// One request that got `ids` ids.
    pub fn hit(ids: u64) -> GetCounts {
        GetCounts {
            commands: 1,
            hits: ids,
            misses: 0,
        }
    }

    /// One request that got an error.
    pub fn miss() -> GetCounts {
        GetCounts {
            commands: 1,
            hits: 0,
            misses: 1,
        }
    }

    pub(super) fn add(&mut self, more: GetCounts) {
        self.commands += more.commands;
        self.hits += more.hits;
        self.misses += more.misses;
    }
}

impl ServerStats {
    /// Names and values as `stats` lists them.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("pid", self.pid.to_string()),
            ("uptime", self.uptime.to_string()),
            ("time", self.time.to_string()),
            ("version", self.version.clone()),
            ("curr_connections", self.curr_connections.to_string()),
            ("total_connections", self.total_connections.to_string()),
            ("cmd_get", self.cmd_get.to_string()),
            ("get_hits", self.get_hits.to_string()),
            ("get_misses", self.get_misses.to_string()),
            ("rejected_connections", self.rejected_connections.to_string()),
            ("clock_behind_ms", self.clock_behind_ms.to_string()),
        ];
        if let Some((worker, fence)) = self.worker {
            rows.push(("worker_id", worker.to_string()));
            rows.push(("fence", fence.to_string()));
        }
        rows
    }
}
