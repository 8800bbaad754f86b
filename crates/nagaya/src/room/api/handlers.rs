//! The handlers.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use nagaya_keyspace::hash_tag::hash_tag;
use nagaya_keyspace::residency::TagPlace;
use nagaya_redis_client::reply;
use nagaya_tiering::cold::{ColdError, ColdTier, TagRow};
use serde::Deserialize;
use serde_json::{Value, json};

use super::lists::{ListedTag, key_at_rest, key_in_memory, key_json, parse_tags};
use super::{EngineBackend, EngineHandle, bytes};
use crate::api::AdminState;
use crate::http::{Problem, echo};

/// Keys listed of one tag.
const KEYS_LISTED: usize = 200;
/// Tags whose rows take more are listed without the sizes of their keys, which would all have to be read.
const SIZED_BYTES_MAX: u64 = 8 << 20;
const LIMIT_TOP: usize = 20;
const LIMIT_PREFIX: usize = 50;
/// How long empty pages are skipped before an empty one is returned.
const SEARCH_LIMIT: Duration = Duration::from_millis(300);
/// Keys removed by one command when a tag has to be erased key by key.
const ERASE_AT_ONCE: usize = 500;

type Answer = Result<Json<Value>, Problem>;

#[derive(Debug, Deserialize)]
pub(super) struct Params {
    by: Option<String>,
    prefix: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

pub(super) async fn overview(State(state): State<Arc<AdminState>>) -> Json<Value> {
    let now = state.now().await;
    Json(state.room.detailed_stats(&now).await)
}

pub(super) async fn tags(
    State(state): State<Arc<AdminState>>,
    params: Result<Query<Params>, QueryRejection>,
) -> Answer {
    let Query(params) = params.map_err(|rejection| bad(rejection.body_text()))?;
    let (cursor, tags) = match (params.by.as_deref(), &params.prefix) {
        (Some(_), Some(_)) => return Err(bad("`by` and `prefix` do not go together")),
        (Some("hottest") | None, None) => top(&state.room, b"HOTTEST", params.limit).await?,
        (Some("biggest"), None) => top(&state.room, b"BIGGEST", params.limit).await?,
        (Some(other), None) => {
            let other = echo(other);
            return Err(bad(format!("`by` must be hottest or biggest, not {other}")));
        }
        (None, Some(prefix)) => {
            let cursor = params.cursor.as_deref().filter(|cursor| !cursor.is_empty());
            let cursor = cursor.map(|cursor| {
                bytes::from_cursor(cursor).ok_or_else(|| bad("`cursor` is not one that was given here"))
            });
            let limit = params.limit.unwrap_or(LIMIT_PREFIX);
            search(&state, prefix.as_bytes(), limit, cursor.transpose()?).await?
        }
    };
    let tags: Vec<Value> = tags.iter().map(|tag| Value::from(tag.to_json())).collect();
    let cursor = cursor.map(|cursor| bytes::as_cursor(&cursor));
    Ok(Json(json!({"tags": tags, "cursor": cursor})))
}

type Page = (Option<Vec<u8>>, Vec<ListedTag>);

async fn top(room: &EngineHandle, order: &[u8], limit: Option<usize>) -> Result<Page, Problem> {
    let limit = limit.unwrap_or(LIMIT_TOP).max(1).to_string();
    list(room, &[b"ROOM.TAGS", order, b"LIMIT", limit.as_bytes()]).await
}

async fn search(
    state: &AdminState,
    prefix: &[u8],
    limit: usize,
    mut cursor: Option<Vec<u8>>,
) -> Result<Page, Problem> {
    let limit = limit.max(1).to_string();
    let until = state.clock.now() + SEARCH_LIMIT;
    loop {
        let mut args = vec![&b"ROOM.TAGS"[..], b"PREFIX", prefix, b"LIMIT", limit.as_bytes()];
        if let Some(cursor) = &cursor {
            args.extend([&b"CURSOR"[..], cursor]);
        }
        let (next, tags) = list(&state.room, &args).await?;
        if next.is_none() || !tags.is_empty() || state.clock.now() >= until {
            return Ok((next, tags));
        }
        cursor = next;
    }
}

async fn list(room: &EngineHandle, args: &[&[u8]]) -> Result<Page, Problem> {
    let frame = room.call(args).await?;
    parse_tags(&frame).ok_or_else(|| {
        let detail = "the room's reply to ROOM.TAGS is not understood";
        Problem::new(StatusCode::BAD_GATEWAY, detail)
    })
}

/// A tag with some of its keys.
struct Detail {
    tag: ListedTag,
    saved_ms: Option<i64>,
    keys: Vec<Value>,
}

pub(super) async fn tag(State(state): State<Arc<AdminState>>, uri: Uri) -> Answer {
    let tag = tag_of(&uri)?;
    let detail = match &state.room.backend {
        EngineBackend::Embedded(_) => detail_inside(&state.room, &tag).await?,
        EngineBackend::Tiered { .. } => detail_tiered(&state.room, &tag).await?,
    };
    let detail = detail.ok_or_else(|| nowhere(&tag))?;
    let mut shown = detail.tag.to_json();
    shown.insert("saved_ms".to_owned(), json!(detail.saved_ms));
    shown.insert("keys_total".to_owned(), json!(detail.tag.keys));
    shown.insert("keys_listed".to_owned(), json!(detail.keys));
    Ok(Json(Value::from(shown)))
}

async fn detail_inside(room: &EngineHandle, tag: &[u8]) -> Result<Option<Detail>, Problem> {
    let tag = tag.to_vec();
    let asked = room.inside(move |server| {
        let Some((stats, row)) = server.keyspace.tag_figures(&tag)? else {
            return Ok(None);
        };
        let keys = match (stats.place, server.keyspace.tiering.get()) {
            (TagPlace::Disk, Some(tiering)) => keys_at_rest(&*tiering.cold, &tag, row.as_ref())?,
            _ => {
                let (keys, _) = server.keyspace.tag_keys_in_memory(&tag, KEYS_LISTED)?;
                keys.iter().map(key_in_memory).collect()
            }
        };
        Ok(Some(Detail {
            tag: stats.into(),
            saved_ms: row.and_then(|row| row.saved_at_ms),
            keys,
        }))
    });
    asked.await.unwrap_or(Ok(None))
}

async fn detail_tiered(room: &EngineHandle, tag: &[u8]) -> Result<Option<Detail>, Problem> {
    let status = room.call(&[b"ROOM.STATUS", tag]).await?;
    let status = reply::pairs(&status);
    let field = |name: &str| {
        let named = |(key, _): &&(&_, &_)| reply::bytes(key) == Some(name.as_bytes());
        status.iter().find(named).map(|(_, value)| *value)
    };
    let number = |name: &str| field(name).and_then(reply::unsigned).unwrap_or(0);
    let name = tag.to_vec();
    let asked = room.cold(move |cold| {
        let row = cold.tag(&name)?;
        let keys = keys_at_rest(cold, &name, row.as_ref())?;
        Ok((row, keys))
    });
    let (row, keys) = asked.await.unwrap_or(Ok((None, Vec::new())))?;
    let (hot, at_rest) = (number("hot_keys"), row.as_ref().map_or(0, |row| row.keys));
    if hot.max(at_rest) == 0 {
        return Ok(None);
    }
    let place = match (hot > 0, at_rest > 0) {
        (true, true) => TagPlace::Both,
        (true, false) => TagPlace::Memory,
        (false, _) => TagPlace::Disk,
    };
    let is_dirty = field("status").and_then(reply::bytes) == Some(b"need_synced");
    Ok(Some(Detail {
        tag: ListedTag {
            tag: tag.to_vec(),
            keys: if hot > 0 { hot } else { at_rest },
            bytes: row.as_ref().map_or(0, |row| row.bytes),
            idle_seconds: None,
            place: place.name().to_owned(),
            is_dirty,
        },
        saved_ms: row.and_then(|row| row.saved_at_ms),
        keys,
    }))
}

/// The first keys that the cold tier has of a tag.
fn keys_at_rest(cold: &dyn ColdTier, tag: &[u8], row: Option<&TagRow>) -> Result<Vec<Value>, ColdError> {
    if row.is_none_or(|row| row.bytes <= SIZED_BYTES_MAX) {
        let read = cold.read(&[tag])?.into_iter().next().flatten();
        let rows = read.map(|loaded| loaded.rows).unwrap_or_default();
        return Ok(rows.iter().take(KEYS_LISTED).map(key_at_rest).collect());
    }
    let keys = cold.keys_after(Some((tag, b"")), KEYS_LISTED)?;
    let own = keys.into_iter().take_while(|key| key.tag == tag);
    Ok(own
        .map(|key| key_json(&key.key, key.kind.name(), None, key.expires_at_ms))
        .collect())
}

pub(super) async fn warm(State(state): State<Arc<AdminState>>, uri: Uri) -> Answer {
    let tag = tag_of(&uri)?;
    state.room.call(&[b"ROOM.WARM", &tag]).await?;
    let keys = keys_in_memory(&state.room, &tag).await?;
    Ok(changed(&tag, keys))
}

pub(super) async fn evict(State(state): State<Arc<AdminState>>, uri: Uri) -> Answer {
    let tag = tag_of(&uri)?;
    let keys = state.room.call_apart(&[b"ROOM.EVICT", &tag]).await?;
    Ok(changed(&tag, reply::unsigned(&keys).unwrap_or(0)))
}

pub(super) async fn erase(State(state): State<Arc<AdminState>>, uri: Uri) -> Answer {
    let tag = tag_of(&uri)?;
    let room = &state.room;
    if let Some(names) = names_without_cold_tier(room, &tag).await? {
        let mut removed = 0;
        for some in names.chunks(ERASE_AT_ONCE) {
            let args: Vec<&[u8]> = std::iter::once(&b"UNLINK"[..])
                .chain(some.iter().map(Vec::as_slice))
                .collect();
            removed += reply::unsigned(&room.call(&args).await?).unwrap_or(0);
        }
        return Ok(changed(&tag, removed));
    }
    let keys = room.call(&[b"ROOM.ERASE", &tag]).await?;
    Ok(changed(&tag, reply::unsigned(&keys).unwrap_or(0)))
}

/// The keys of a tag where there is no cold tier, and so no command that knows them.
async fn names_without_cold_tier(room: &EngineHandle, tag: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Problem> {
    let tag = tag.to_vec();
    let asked = room.inside(move |server| {
        if server.keyspace.tiering.get().is_some() {
            return Ok(None);
        }
        let (keys, _) = server.keyspace.tag_keys_in_memory(&tag, usize::MAX)?;
        Ok(Some(keys.into_iter().map(|key| key.key).collect()))
    });
    asked.await.unwrap_or(Ok(None))
}

async fn keys_in_memory(room: &EngineHandle, tag: &[u8]) -> Result<u64, Problem> {
    let name = tag.to_vec();
    let inside = room.inside(move |server| {
        Ok(server
            .keyspace
            .tag_in_memory(&name)?
            .map_or(0, |found| found.keys))
    });
    if let Some(keys) = inside.await {
        return keys;
    }
    let status = room.call(&[b"ROOM.STATUS", tag]).await?;
    let hot = reply::pairs(&status)
        .into_iter()
        .find(|(name, _)| reply::bytes(name) == Some(b"hot_keys"));
    Ok(hot.and_then(|(_, keys)| reply::unsigned(keys)).unwrap_or(0))
}

/// The tag in a path, which may be any bytes: `/v1/room/tags/TAG[/...]`.
pub(super) fn tag_of(uri: &Uri) -> Result<Vec<u8>, Problem> {
    let part = uri.path().split('/').nth(4).unwrap_or_default();
    let tag = bytes::unescaped(part).ok_or_else(|| bad("the tag in the path is not escaped well"))?;
    // What is told here is of database 0; the names of other databases' tags are no tags.
    Ok(hash_tag(&tag).to_vec())
}

fn changed(tag: &[u8], keys: u64) -> Json<Value> {
    let mut object = serde_json::Map::new();
    bytes::put(&mut object, "tag", tag);
    object.insert("keys".to_owned(), json!(keys));
    Json(Value::from(object))
}

pub(super) fn nowhere(tag: &[u8]) -> Problem {
    let tag = echo(&String::from_utf8_lossy(tag));
    Problem::new(StatusCode::NOT_FOUND, format!("there is no tag {tag}"))
}

fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, detail)
}
