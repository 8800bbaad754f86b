//! Statistics of the room.

use nagaya_redis_client::{Client, reply};
use nagaya_telemetry::history::Now;
use serde_json::{Value, json};

use super::engine_handle::{EngineBackend, EngineHandle};
use crate::api::services::{count, rate, rounded};

/// The metric names under which both forms of the room count the same things.
struct Names {
    mode: &'static str,
    clients: &'static str,
    commands: &'static str,
    loads: &'static str,
    evictions: &'static str,
    saves: &'static str,
    staleness: &'static str,
}

const EMBEDDED: Names = Names {
    mode: "embedded",
    clients: "nagaya_room_connections_open",
    commands: "nagaya_room_commands_total",
    loads: "nagaya_room_load_seconds",
    evictions: "nagaya_room_evicted_tags_total",
    saves: "nagaya_room_saved_keys_total",
    staleness: "nagaya_room_staleness_seconds",
};

const TIERED: Names = Names {
    mode: "tiered",
    clients: "nagaya_tiers_connections",
    commands: "nagaya_tiers_commands_total",
    loads: "nagaya_tiers_loads_total",
    evictions: "nagaya_tiers_evictions_total",
    saves: "nagaya_tiers_saves_total",
    staleness: "nagaya_tiers_staleness_seconds",
};

/// Values that only one form has, or that each form determines in its own way.
#[derive(Default)]
struct Sizes {
    memory_bytes: Option<u64>,
    memory_limit_bytes: Option<u64>,
    keys: Option<u64>,
    tags_hot: Option<u64>,
    tags_cold: Option<u64>,
    hit_ratio: Option<f64>,
    disk_bytes: Option<u64>,
    is_kept: bool,
}

impl EngineHandle {
    /// Returns the statistics for `/v1/house`.
    pub(crate) async fn stats(&self, now: &Now) -> Value {
        self.all_stats(now).await.0
    }

    /// Returns the statistics for `/v1/room`.
    pub(super) async fn detailed_stats(&self, now: &Now) -> Value {
        let (mut stats, sizes) = self.all_stats(now).await;
        let names = self.names();
        stats["evictions_per_second"] = json!(rate(now, names.evictions));
        stats["saved_per_second"] = json!(rate(now, names.saves));
        stats["disk_bytes"] = json!(sizes.disk_bytes);
        stats["persist"] = json!(sizes.is_kept);
        stats
    }

    fn names(&self) -> &'static Names {
        match self.backend {
            EngineBackend::Embedded(_) => &EMBEDDED,
            EngineBackend::Tiered { .. } => &TIERED,
        }
    }

    async fn all_stats(&self, now: &Now) -> (Value, Sizes) {
        let names = self.names();
        let sizes = match &self.backend {
            EngineBackend::Embedded(engine) => {
                let server = engine.get().map(|engine| engine.server());
                embedded(
                    now,
                    server.is_some_and(|server| server.keyspace.tiering.get().is_some()),
                )
            }
            EngineBackend::Tiered { redis, .. } => self.tiered(redis).await,
        };
        let staleness = now.value(names.staleness).filter(|_| sizes.is_kept);
        let stats = json!({
            "mode": names.mode,
            "memory_bytes": sizes.memory_bytes,
            "memory_limit_bytes": sizes.memory_limit_bytes,
            "keys": sizes.keys,
            "tags_hot": sizes.tags_hot,
            "tags_cold": sizes.tags_cold,
            "clients": count(now, names.clients),
            "commands_per_second": rate(now, names.commands),
            "hit_ratio": sizes.hit_ratio.map(rounded),
            "loads_per_second": rate(now, names.loads),
            "staleness_seconds": staleness.map(rounded),
        });
        (stats, sizes)
    }

    async fn tiered(&self, redis: &Client) -> Sizes {
        let memory = redis_memory(redis);
        let size: [&[u8]; 1] = [b"DBSIZE"];
        let (memory, keys, totals) =
            tokio::join!(memory, self.try_call(&size), self.cold(|cold| cold.totals()));
        let totals = totals.and_then(Result::ok);
        let (used, limit) = memory.unzip();
        Sizes {
            memory_bytes: used,
            memory_limit_bytes: limit.filter(|limit| *limit > 0),
            keys: keys.ok().as_ref().and_then(reply::unsigned),
            tags_cold: totals.map(|totals| totals.tags),
            disk_bytes: totals.map(|totals| totals.disk_bytes),
            is_kept: true,
            ..Sizes::default()
        }
    }
}

fn embedded(now: &Now, is_kept: bool) -> Sizes {
    let tags_hot = count(now, "nagaya_room_tags");
    let tags_on_disk = count(now, "nagaya_room_cold_tags").filter(|_| is_kept);
    let ratio = |hits: Option<f64>, misses: Option<f64>| {
        let (hits, misses) = (hits?, misses?);
        (hits + misses > 0.0).then(|| hits / (hits + misses))
    };
    let names = ("nagaya_room_hits_total", "nagaya_room_misses_total");
    let recent = ratio(now.growth(names.0), now.growth(names.1));
    Sizes {
        memory_bytes: count(now, "nagaya_room_memory_used_bytes"),
        memory_limit_bytes: count(now, "nagaya_room_memory_limit_bytes"),
        keys: count(now, "nagaya_room_keys"),
        tags_hot,
        // What is in memory has its copy on disk, but for the last seconds.
        tags_cold: tags_on_disk.map(|tags| tags.saturating_sub(tags_hot.unwrap_or(0))),
        hit_ratio: recent.or_else(|| ratio(now.value(names.0), now.value(names.1))),
        disk_bytes: count(now, "nagaya_room_cold_bytes").filter(|_| is_kept),
        is_kept,
    }
}

/// Returns the memory used by all primaries and their limit; `None` when one of them reports none.
async fn redis_memory(redis: &Client) -> Option<(u64, u64)> {
    let (mut used, mut limit) = (0, 0);
    for primary in redis.primaries().await.ok()? {
        let connection = redis.dedicated_to(&primary.server).await.ok()?;
        let info = connection.call(&[b"INFO", &b"memory"[..]]).await.ok()?;
        let info = reply::text(&info)?;
        let field = |name: &str| reply::info_field(&info, name)?.parse::<u64>().ok();
        used += field("used_memory")?;
        limit += field("maxmemory")?;
    }
    Some((used, limit))
}
