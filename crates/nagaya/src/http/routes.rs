//! What is served where.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use nagaya_clock::Clock;
use nagaya_telemetry::metrics::{CONTENT_TYPE, Metrics};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::HttpConfig;
use super::auth::{require_right, require_some_token, require_token};
use super::observe::observe;
use super::problem::{Problem, echo};
use super::rights::Rights;
use crate::api::console;
use crate::app::readiness::{Component, Readiness, State as Stage};

/// What the handlers share.
pub(crate) struct HttpState {
    pub(crate) config: HttpConfig,
    pub(crate) readiness: Readiness,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) started: Instant,
    /// What the components serve; without fallbacks of its own.
    pub(crate) routes: Router,
    /// The same, but these check tokens and the sizes of bodies themselves.
    pub(crate) self_guarded: Router,
    /// Knows the tokens of the store, where there is one.
    pub(crate) tokens: Option<nagaya_jobs_api::Api>,
    /// What each route needs.
    pub(crate) rights: Rights,
}

/// The answer of `/readyz`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Readyz {
    pub(crate) state: Stage,
    pub(crate) uptime_seconds: u64,
    pub(crate) components: Vec<Component>,
}

/// The answer of `/version`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// Builds the whole router; the outermost layer comes last.
pub(super) fn router(state: &Arc<HttpState>) -> Router {
    let guarded = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/version", get(version))
        .with_state(Arc::clone(state))
        .merge(state.routes.clone())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(state.config.body_max.as_usize()))
        .layer(from_fn_with_state(Arc::clone(state), refuse_large_bodies))
        .layer(from_fn_with_state(Arc::clone(state), require_token));
    let self_guarded = state
        .self_guarded
        .clone()
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(Arc::clone(state), require_some_token));
    let api = guarded
        .merge(self_guarded)
        .layer(from_fn_with_state(Arc::clone(state), require_right));
    let pages = console::routes(api.clone(), &state.config)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(Arc::clone(state), require_right));
    api.merge(pages)
        .layer(from_fn_with_state(Arc::clone(state), observe))
}

/// The process is alive: it answers.
async fn healthz() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// 200 when all components are ready, 503 before and while draining.
async fn readyz(State(state): State<Arc<HttpState>>) -> Response {
    let components = state.readiness.snapshot();
    let overall = Readiness::overall(&components);
    let status = if overall == Stage::Ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let uptime_seconds = (state.clock.now() - state.started).as_secs();
    (
        status,
        Json(Readyz {
            state: overall,
            uptime_seconds,
            components,
        }),
    )
        .into_response()
}

async fn metrics(State(state): State<Arc<HttpState>>) -> Response {
    match state.metrics.render() {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "metrics could not be written");
            let detail = "the metrics could not be written";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail).into_response()
        }
    }
}

async fn version() -> Json<Version> {
    Json(Version {
        name: "nagaya".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

async fn not_found(uri: Uri) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        format!("there is nothing at {}", echo(uri.path())),
    )
}

async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not take {}", echo(uri.path()), echo(method.as_str()));
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
}

/// Refuses by the announced length, before a byte of the body is read. A body without one
/// is counted while it is read.
async fn refuse_large_bodies(State(state): State<Arc<HttpState>>, request: Request, next: Next) -> Response {
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let length = announced
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<u64>().ok());
    let limit = state.config.body_max;
    match length {
        Some(length) if length > limit.0 => {
            let detail = format!("the body has {length} bytes, `http.body_max` allows {limit}");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail).into_response()
        }
        _ => next.run(request).await,
    }
}
