//! REST under `/v1`: one table of routes, from which the router and the OpenAPI document are generated.

mod events;
mod jobs;
mod latency;
mod leases;
mod many;
mod outgoing;
mod queues;
mod table;
mod tenants;
mod version;
mod work;
mod ws;

use axum::Router;

pub(crate) use jobs::check_reason;
pub(crate) use table::{Answer, Param, Route, Used, table, used};
pub(crate) use version::VERSION;
pub(crate) use work::{cut, log_lines};

use crate::api::Api;

/// Builds the router from the table.
pub(crate) fn router() -> Router<Api> {
    let ours = table()
        .into_iter()
        .filter_map(|route| Some((route.path, route.mount?)));
    ours.fold(Router::new(), |router, (path, mount)| router.route(path, mount()))
}
