//! Answers for the routes of services that are switched off.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::any;

use super::AdminState;
use crate::http::Problem;

/// 404 with the setting that switches the service on, for each that is off.
pub(super) fn routes(state: &AdminState) -> Router {
    let services: [(bool, &[&str], &'static str); 4] = [
        (
            state.jobs.is_some(),
            &[
                "/v1/jobs",
                "/v1/queues",
                "/v1/deliveries",
                "/v1/events",
                "/v1/tokens",
            ],
            "jobs are switched off; set `jobs.enabled` to true",
        ),
        (
            state.fanout.is_some(),
            &["/v1/fanout"],
            "the fan-out is switched off; set `fanout.enabled` to true",
        ),
        (
            state.ids.is_some(),
            &["/v1/ids"],
            "ids are switched off; set `ids.enabled` to true",
        ),
        (
            state.fleet.is_some(),
            &["/v1/fleet"],
            "the fleet is switched off; set `fleet.enabled` to true",
        ),
    ];
    let mut routes = Router::new();
    for (is_there, paths, detail) in services {
        if is_there {
            continue;
        }
        let say = move || async move { Problem::new(StatusCode::NOT_FOUND, detail) };
        for path in paths {
            routes = routes
                .route(path, any(say))
                .route(&format!("{path}/{{*rest}}"), any(say));
        }
    }
    routes
}
