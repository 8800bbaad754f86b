//! Reads back what was stored: the share of the answers, and how quickly they came.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use nagaya_redis_client::{Client, Options, RedisUrl, reply};
use serde_json::Value;

/// Requests read per batch.
const CHUNK: usize = 200;
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Found {
    /// Answers that are there, of those that should be.
    pub(super) share: f64,
    /// Milliseconds from acceptance to each answer, sorted; empty for serinin, which records no times.
    pub(super) answers_ms: Vec<u64>,
}

impl Found {
    /// The time within which 99 of 100 answers came.
    pub(super) fn p99_ms(&self) -> Option<u64> {
        let at = (self.answers_ms.len() * 99 / 100).min(self.answers_ms.len().saturating_sub(1));
        self.answers_ms.get(at).copied()
    }
}

/// Reads stored requests with this many endpoints each; `skip` is not counted.
pub(super) async fn look(
    redis: SocketAddr,
    ids: &[String],
    endpoints: usize,
    skip: Option<&str>,
) -> anyhow::Result<Found> {
    let url = RedisUrl::single(redis.ip().to_string(), redis.port());
    let client = Client::new(url, Options::default())?;
    let connection = client.connection(b"").await.context("redis cannot be asked")?;
    let mut found = Found::default();
    let mut there = 0;
    for ids in ids.chunks(CHUNK) {
        let commands: Vec<[&[u8]; 2]> = ids.iter().map(|id| [&b"HGETALL"[..], id.as_bytes()]).collect();
        let commands: Vec<&[&[u8]]> = commands.iter().map(|command| &command[..]).collect();
        for frame in connection.pipeline_within(&commands, LIMIT).await? {
            for (field, value) in reply::pairs(&frame) {
                let field = reply::text(field).unwrap_or_default();
                if Some(field.as_str()) == skip {
                    continue;
                }
                if !field.starts_with('_') {
                    there += 1;
                }
                let of = field.strip_prefix("_outcome:");
                if of.is_some() && of != skip {
                    let outcome: Value =
                        serde_json::from_slice(reply::bytes(value).unwrap_or_default()).unwrap_or_default();
                    found.answers_ms.extend(outcome["ms"].as_u64());
                }
            }
        }
    }
    found.answers_ms.sort_unstable();
    found.share = there as f64 / (ids.len() * endpoints).max(1) as f64;
    Ok(found)
}
