//! Deliveries, secrets and routes over HTTP, served by the jobs service beside its own paths.
//!
//! Authentication is delegated to an [`Authorize`], so that all paths of the service accept the same tokens.

mod auth;
mod deliveries;
mod problem;
mod read;
mod secrets;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use nagaya_jobs::store::JobStore;

pub use auth::{Authorize, Permission, Principal};

use crate::notify::Notifier;

/// State shared by the routes.
#[derive(Clone)]
pub struct Api {
    pub store: Arc<dyn JobStore>,
    pub authorize: Arc<dyn Authorize>,
    pub notifier: Notifier,
}

/// Builds the routes. They check tokens themselves and have no fallback.
pub fn routes(api: Api) -> Router {
    Router::new()
        .route("/v1/deliveries", get(deliveries::list))
        .route("/v1/deliveries/replay", post(deliveries::replay))
        .route("/v1/webhooks/secret", get(secrets::show))
        .route("/v1/webhooks/rotate", post(secrets::rotate))
        .route("/v1/notify/test", post(secrets::test_route))
        .with_state(api)
}
