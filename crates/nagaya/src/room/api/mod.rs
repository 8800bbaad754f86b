//! `/v1/room`: the room's figures, its tags, and what can be done to one.

mod bytes;
mod engine_handle;
mod handlers;
mod lists;
mod stats;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::api::AdminState;

pub(crate) use engine_handle::{EngineBackend, EngineHandle};

pub(crate) fn routes() -> Router<Arc<AdminState>> {
    Router::new()
        .route("/v1/room", get(handlers::overview))
        .route("/v1/room/tags", get(handlers::tags))
        .route("/v1/room/tags/{tag}", get(handlers::tag).delete(handlers::erase))
        .route("/v1/room/tags/{tag}/warm", post(handlers::warm))
        .route("/v1/room/tags/{tag}/evict", post(handlers::evict))
        .route("/v1/room/tags/{tag}/export", get(handlers::export))
}
