//! `/v1/fanout`: endpoints and recent requests.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use nagaya_fanout::{Endpoint, Fanout, Latency, RecentRequest, State as Outcome};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::AdminState;
use crate::api::services::rounded;
use crate::http::{Problem, echo};

const LIMIT_DEFAULT: usize = 50;

#[derive(Debug, Deserialize)]
struct Params {
    limit: Option<usize>,
}

pub(crate) fn routes(state: &Arc<AdminState>) -> Router<Arc<AdminState>> {
    let data = Router::new()
        .route("/v1/fanout/requests", get(requests))
        .route("/v1/fanout/requests/{id}", get(request))
        .route_layer(from_fn_with_state(Arc::clone(state), require_credentials));
    Router::new().route("/v1/fanout", get(overview)).merge(data)
}

/// Refuses requests and their answers to everybody where the fan-out's own listener asks for a token and this one does
/// not.
async fn require_credentials(State(state): State<Arc<AdminState>>, request: Request, next: Next) -> Response {
    let asks_token = state
        .fanout
        .as_ref()
        .is_some_and(|(fanout, _)| fanout.asks_token());
    if state.http_has_token || !asks_token {
        return next.run(request).await;
    }
    let detail = "the fan-out asks for `fanout.token`, so its requests are not shown here to clients without one; set \
                  `http.token` and start again";
    Problem::new(StatusCode::FORBIDDEN, detail)
        .kind("no-server-token")
        .into_response()
}

async fn overview(State(state): State<Arc<AdminState>>) -> Result<Json<Value>, Problem> {
    let fanout = fanout(&state)?;
    let (_, in_progress, jobs) = fanout.in_flight();
    let endpoints = fanout.endpoints();
    let endpoints: Vec<Value> = endpoints.iter().map(|endpoint| show_endpoint(endpoint)).collect();
    let busy = fanout.workers_busy();
    Ok(Json(json!({
        "endpoints": endpoints,
        "in_progress": in_progress,
        "workers_busy": busy,
        "queue": jobs.saturating_sub(busy),
    })))
}

fn show_endpoint(endpoint: &Endpoint) -> Value {
    let counts = endpoint.counts();
    let outcomes: Map<String, Value> = Outcome::ALL
        .iter()
        .map(|state| (state.word().to_owned(), json!(counts.outcome(*state))))
        .collect();
    json!({
        "name": endpoint.name(),
        "url": endpoint.url(),
        "in_flight": endpoint.jobs().0,
        "breaker": endpoint.breaker_word(),
        "outcomes": outcomes,
        "latency_ms": latency(&counts.latency),
    })
}

fn latency(latency: &Latency) -> Option<Value> {
    let quantile = |share| latency.quantile_ms(share).map(rounded);
    Some(json!({"p50": quantile(0.5)?, "p90": quantile(0.9)?, "p99": quantile(0.99)?}))
}

async fn requests(
    State(state): State<Arc<AdminState>>,
    params: Result<Query<Params>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let bad = |rejection: QueryRejection| Problem::new(StatusCode::BAD_REQUEST, rejection.body_text());
    let Query(params) = params.map_err(bad)?;
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT);
    let recent = fanout(&state)?.recent(limit);
    let recent: Vec<Value> = recent.iter().map(show_request).collect();
    Ok(Json(json!({"requests": recent})))
}

fn show_request(request: &RecentRequest) -> Value {
    json!({
        "id": &*request.id,
        "method": request.method,
        "url": request.url,
        "at_ms": request.at_ms,
        "endpoints": request.endpoints,
        "done": request.done,
        "ok": request.ok,
        "finished": request.is_finished,
    })
}

async fn request(
    State(state): State<Arc<AdminState>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let found = fanout(&state)?.read_back(&id).await.map_err(|error| {
        let detail = format!("the store cannot be read: {}", error.chain());
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    })?;
    found.map(Json).ok_or_else(|| {
        let detail = format!("there is no request {}; it has expired or never was", echo(&id));
        Problem::new(StatusCode::NOT_FOUND, detail)
    })
}

fn fanout(state: &AdminState) -> Result<&Fanout, Problem> {
    let fanout = state.fanout.as_ref().map(|(fanout, _)| &**fanout);
    fanout.ok_or_else(|| {
        let detail = "the fan-out is switched off; set `fanout.enabled` to true";
        Problem::new(StatusCode::NOT_FOUND, detail)
    })
}
