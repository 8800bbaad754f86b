//! The pages, a module for each part of the server.

mod charts;
mod fanout;
mod fleet;
mod ids;
mod jobs;
mod overview;
mod room;
mod service;
mod sign_in;

use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};

use crate::failure::Failure;

/// What a handler returns; a failure becomes a page by itself.
pub(crate) type Shown = Result<Response, Failure>;

pub(crate) fn router() -> Router {
    Router::new()
        .route("/", get(overview::show))
        .route("/sign-in", get(sign_in::form).post(sign_in::sign_in))
        .route("/sign-out", post(sign_in::sign_out))
        // Served before it gets here; the route is what makes the path ours.
        .route("/assets/{name}", get(async || ()))
        .merge(room::router())
        .merge(fanout::router())
        .merge(ids::router())
        .merge(fleet::router())
        .merge(jobs::router())
}
