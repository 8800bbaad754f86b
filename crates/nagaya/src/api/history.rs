//! `GET /v1/house/history`, and the task that records it.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use nagaya_telemetry::history::{POINTS_MAX, STEP_SECONDS};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::{MissedTickBehavior, interval};

use super::AdminState;
use crate::http::{Problem, echo};

/// Maximum number of series in one response.
const SERIES_MAX: usize = 50;
const MINUTES_DEFAULT: u64 = 60;

#[derive(Debug, Deserialize)]
struct Params {
    series: Option<String>,
    minutes: Option<u64>,
}

pub(super) fn routes() -> Router<Arc<AdminState>> {
    Router::new().route("/v1/house/history", get(history))
}

/// Reads all metrics every step, the first time at once.
pub(super) async fn keep(state: Arc<AdminState>) {
    let mut steps = interval(Duration::from_secs(STEP_SECONDS));
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        steps.tick().await;
        let readings = state.readings().await;
        let mut history = state.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.push(state.clock.unix_ms().unsigned_abs(), readings);
    }
}

async fn history(
    State(state): State<Arc<AdminState>>,
    params: Result<Query<Params>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let bad = |detail: String| Problem::new(StatusCode::BAD_REQUEST, detail);
    let Query(params) = params.map_err(|rejection| bad(rejection.body_text()))?;
    let history = state.history.lock().unwrap_or_else(PoisonError::into_inner);
    let to_ms = history.to_ms();
    let Some(series) = params.series.filter(|series| !series.is_empty()) else {
        return Ok(Json(
            json!({"step_seconds": STEP_SECONDS, "to_ms": to_ms, "names": history.names()}),
        ));
    };
    let names: Vec<&str> = series.split(',').map(str::trim).collect();
    if names.len() > SERIES_MAX {
        return Err(bad(format!("one answer has {SERIES_MAX} series at most")));
    }
    let steps_max = POINTS_MAX as u64;
    let points = params
        .minutes
        .unwrap_or(MINUTES_DEFAULT)
        .saturating_mul(60 / STEP_SECONDS);
    let points = usize::try_from(points.clamp(1, steps_max)).unwrap_or(POINTS_MAX);
    let mut shown = Map::new();
    for name in names {
        let found = history.points(name, points).ok_or_else(|| {
            let detail = format!(
                "there is no series {}; GET /v1/house/history lists all",
                echo(name)
            );
            Problem::new(StatusCode::NOT_FOUND, detail)
        })?;
        shown.insert(name.to_owned(), json!(found));
    }
    Ok(Json(
        json!({"step_seconds": STEP_SECONDS, "to_ms": to_ms, "series": shown}),
    ))
}
