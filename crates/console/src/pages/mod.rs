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

/// Every page with the methods that it takes.
pub const PATHS: &[(&str, &[&str])] = &[
    ("/", &["GET"]),
    ("/sign-in", &["GET", "POST"]),
    ("/sign-out", &["POST"]),
    ("/assets/{name}", &["GET"]),
    ("/room", &["GET"]),
    ("/room/tags/{tag}", &["GET"]),
    ("/room/tags/{tag}/warm", &["POST"]),
    ("/room/tags/{tag}/evict", &["POST"]),
    ("/room/tags/{tag}/erase", &["GET", "POST"]),
    ("/room/tags/{tag}/export", &["GET"]),
    ("/fanout", &["GET"]),
    ("/fanout/{id}", &["GET"]),
    ("/ids/numbers", &["GET"]),
    ("/fleet", &["GET"]),
    ("/fleet/plan", &["GET", "POST"]),
    ("/fleet/instances/{name}/drain", &["GET", "POST"]),
    ("/fleet/instances/{name}/undrain", &["POST"]),
    ("/fleet/workers/{id}/move", &["GET", "POST"]),
    ("/fleet/confirm", &["GET", "POST"]),
    ("/jobs", &["GET"]),
    ("/jobs/bulk/retry", &["GET", "POST"]),
    ("/jobs/bulk/cancel", &["GET", "POST"]),
    ("/jobs/deliveries", &["GET"]),
    ("/jobs/deliveries/replay", &["GET", "POST"]),
    ("/jobs/queues/{queue}", &["GET"]),
    ("/jobs/queues/{queue}/pause", &["GET", "POST"]),
    ("/jobs/queues/{queue}/resume", &["GET", "POST"]),
    ("/jobs/{id}", &["GET"]),
    ("/jobs/{id}/retry", &["GET", "POST"]),
    ("/jobs/{id}/cancel", &["GET", "POST"]),
    ("/jobs/{id}/replay", &["GET", "POST"]),
];

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
