//! `/v1/room`: the room's figures, its tags, and what can be done to one.

mod bytes;
mod engine_handle;
mod export;
mod handlers;
mod lists;
mod stats;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::api::AdminState;
use crate::http::Problem;

pub(crate) use engine_handle::{EngineBackend, EngineHandle};
pub(crate) use export::EXPORTS_MAX;

pub(crate) fn routes(state: &Arc<AdminState>) -> Router<Arc<AdminState>> {
    let data = Router::new()
        .route("/v1/room/tags", get(handlers::tags))
        .route("/v1/room/tags/{tag}", get(handlers::tag).delete(handlers::erase))
        .route("/v1/room/tags/{tag}/warm", post(handlers::warm))
        .route("/v1/room/tags/{tag}/evict", post(handlers::evict))
        .route("/v1/room/tags/{tag}/export", get(export::export))
        .route_layer(from_fn_with_state(Arc::clone(state), require_credentials));
    Router::new()
        .route("/v1/room", get(handlers::overview))
        .merge(data)
}

/// Refuses the room's data to everybody where Redis clients need a password and HTTP clients need nothing: the password
/// would be none.
async fn require_credentials(State(state): State<Arc<AdminState>>, request: Request, next: Next) -> Response {
    if state.http_has_token || !state.room.asks_password().await {
        return next.run(request).await;
    }
    let detail = "the room asks Redis clients for a password, so its data is not shown to HTTP clients without one; \
                  set `http.token` and start again";
    Problem::new(StatusCode::FORBIDDEN, detail)
        .kind("no-server-token")
        .into_response()
}
