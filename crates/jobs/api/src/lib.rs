//! Jobs over REST, gRPC, server-sent events and WebSocket: one router for the HTTP server.
//!
//! [`routes`] builds it from an [`Api`]: the jobs service, its authentication, and its limits.

mod api;
mod auth;
mod config;
mod handlers;

mod call;
mod cursor;
mod problem;
mod traced;
mod wire;

mod feed;
mod grpc;
mod openapi;
mod rest;

mod push;

/// Generated from `proto/nagaya/jobs/v1/jobs.proto`.
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    unreachable_pub,
    reason = "generated code"
)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/nagaya.jobs.v1.rs"));
}

use axum::Router;

pub use api::Api;
pub use auth::{AuthConfig, Permission, PrincipalInfo, REVOCATION_BOUND};
pub use config::ApiConfig;
pub use openapi::text as openapi_text;
pub use push::{PushConfig, PushDelivery};

/// Returns method, path and permission of every REST route.
pub fn rights() -> Vec<(&'static str, &'static str, Permission)> {
    rest::table()
        .iter()
        .map(|route| (route.verb(), route.path, route.permission))
        .collect()
}

/// The matrix of rights: what every caller gets of every route and gRPC method. A test walks it.
pub const RIGHTS: &str = include_str!("rights.txt");

/// Builds all routes. They check tokens themselves and have no fallback.
pub fn routes(api: Api) -> Router {
    rest::router()
        .merge(openapi::router())
        .with_state(api.clone())
        .merge(grpc::router(api))
}
