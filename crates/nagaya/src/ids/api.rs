//! `/v1/ids/numbers` and `/v1/ids/decode`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use nagaya_ids::decode::{self, parse_id};
use nagaya_ids::mint::Mint;
use nagaya_ids::pool::{Entry, Error, Pool, Report};
use nagaya_ids::server::Stats;
use nagaya_ids::utc;
use serde_json::{Value, json};

use crate::api::AdminState;
use crate::http::Problem;

/// The state that the routes of ids share.
#[derive(Clone)]
pub(crate) struct IdsView {
    pub(crate) mint: Arc<Mint>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) pool: Pool,
    /// When the number in use was first used, Unix milliseconds; 0 without one.
    pub(crate) held_since_ms: Arc<AtomicU64>,
}

impl IdsView {
    pub(crate) async fn report(&self) -> Result<Report, Error> {
        self.pool.report().await
    }

    /// The number in use and its fence.
    pub(crate) fn number(&self) -> Option<(u64, u64)> {
        self.mint.worker()
    }

    pub(crate) fn held_since_ms(&self) -> Option<u64> {
        let since_ms = self.held_since_ms.load(Ordering::Relaxed);
        (since_ms > 0 && self.number().is_some()).then_some(since_ms)
    }

    pub(crate) fn clock_behind_ms(&self) -> i64 {
        self.stats.snapshot(&self.mint).clock_behind_ms
    }

    fn show(&self, entry: &Entry) -> Value {
        let is_mine = self
            .number()
            .is_some_and(|(number, fence)| number == entry.number && entry.fence == Some(fence));
        json!({
            "number": entry.number,
            "name": entry.name,
            "fence": entry.fence,
            "since_ms": self.held_since_ms().filter(|_| is_mine),
            "expires_ms": (entry.expire_at * 1000.0) as u64,
            "remaining_seconds": crate::api::services::rounded(entry.ttl),
            "is_mine": is_mine,
        })
    }
}

pub(crate) fn routes() -> Router<Arc<AdminState>> {
    Router::new()
        .route("/v1/ids/numbers", get(numbers))
        .route("/v1/ids/decode/{id}", get(decode))
}

async fn numbers(State(state): State<Arc<AdminState>>) -> Result<Json<Value>, Problem> {
    let ids = view(&state)?;
    let report = ids.report().await.map_err(|error| {
        let detail = format!("the pool of numbers cannot be read: {}", error.chain());
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    })?;
    let mut held: Vec<&Entry> = report.entries.iter().filter(|entry| entry.using()).collect();
    held.sort_by_key(|entry| entry.number);
    Ok(Json(json!({
        "min": report.min,
        "max": report.max,
        "held": held.iter().map(|entry| ids.show(entry)).collect::<Vec<_>>(),
        "free": report.entries.len() - held.len(),
    })))
}

async fn decode(
    State(state): State<Arc<AdminState>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let ids = view(&state)?;
    let (layout, now_ms) = (ids.mint.layout(), state.clock.unix_ms().unsigned_abs());
    let decoded = parse_id(&id, layout).and_then(|id| decode::decode(id, layout, now_ms));
    let decoded = decoded.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    let parts = decoded.parts;
    Ok(Json(json!({
        "id": decoded.id.to_string(),
        "at_ms": parts.unix_ms,
        "at": utc::rfc3339(parts.unix_ms),
        "worker": parts.worker,
        "sequence": parts.sequence,
    })))
}

fn view(state: &AdminState) -> Result<&IdsView, Problem> {
    let view = state.ids.as_ref().map(|(view, _)| view);
    view.ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "ids are switched off; set `ids.enabled` to true",
        )
    })
}
