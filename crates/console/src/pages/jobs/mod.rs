//! Jobs: queues, listings, one job with everything about it, and what can be done to them.

mod bulk;
mod deliveries;
mod filter;
mod list;
mod model;
mod one;
mod queue;
mod single;
mod timeline;

use axum::Router;
use axum::routing::get;
use maud::{Markup, html};

/// The path parts are fixed words before ids and names, so nothing that users name can hide a page.
pub(super) fn router() -> Router {
    Router::new()
        .route("/jobs", get(list::show))
        .route("/jobs/bulk/retry", get(bulk::ask_retry).post(bulk::retry))
        .route("/jobs/bulk/cancel", get(bulk::ask_cancel).post(bulk::cancel))
        .route("/jobs/deliveries", get(deliveries::show))
        .route(
            "/jobs/deliveries/replay",
            get(deliveries::ask_replay).post(deliveries::replay),
        )
        .route("/jobs/queues/{queue}", get(queue::show))
        .route(
            "/jobs/queues/{queue}/pause",
            get(queue::ask_pause).post(queue::pause),
        )
        .route(
            "/jobs/queues/{queue}/resume",
            get(queue::ask_resume).post(queue::resume),
        )
        .route("/jobs/{id}", get(one::show))
        .route("/jobs/{id}/retry", get(single::ask_retry).post(single::retry))
        .route("/jobs/{id}/cancel", get(single::ask_cancel).post(single::cancel))
        .route("/jobs/{id}/replay", get(single::ask_replay).post(single::replay))
}

fn queue_link(queue: &str) -> Markup {
    html! { a href={ "/jobs/queues/" (crate::form::encode(queue)) } { (queue) } }
}

fn job_link(id: &str) -> Markup {
    html! { a.mono href={ "/jobs/" (crate::form::encode(id)) } { (id) } }
}
