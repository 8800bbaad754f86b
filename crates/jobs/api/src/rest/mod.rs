//! REST under `/v1`: one table of routes, from which the router and the OpenAPI document are generated.

mod events;
mod jobs;
mod latency;
mod outgoing;
mod queues;
mod search;
mod table;
mod tenants;
mod work;
mod ws;

use axum::Router;

pub(crate) use events::subscribe;
pub(crate) use jobs::{cancel_one, check_reason, page_limit, readable_queue, retry_one, seen};
pub(crate) use table::{Answer, Param, Route, Used, table, used};
pub(crate) use work::{cut, log_lines};

use crate::api::Api;

/// Builds the router from the table.
pub(crate) fn router() -> Router<Api> {
    let ours = table()
        .into_iter()
        .filter_map(|route| Some((route.path, route.mount?)));
    ours.fold(Router::new(), |router, (path, mount)| router.route(path, mount()))
}
