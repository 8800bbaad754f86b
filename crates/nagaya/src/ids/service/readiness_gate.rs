//! Requests for ids that come before the first number may be used.
//!
//! A number that another process may have used is held back for some seconds. The server is up meanwhile;
//! requests for ids over HTTP or gRPC wait for the number instead of failing.

use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tokio::sync::watch;

/// Needs no number and is always served.
const STATS_PATH: &str = "/stats";

/// Delays requests until the first number may be used.
#[derive(Clone, Debug)]
pub(super) struct ReadinessGate {
    ready: watch::Receiver<bool>,
    /// How long a request waits before it fails for lack of a number.
    limit: Duration,
}

impl ReadinessGate {
    pub(super) fn new(limit: Duration) -> (watch::Sender<bool>, ReadinessGate) {
        let (sender, ready) = watch::channel(false);
        (sender, ReadinessGate { ready, limit })
    }

    /// Returns the routes with the gate in front.
    pub(super) fn guard(self, routes: Router) -> Router {
        routes.layer(from_fn_with_state(self, wait))
    }
}

async fn wait(State(mut gate): State<ReadinessGate>, request: Request, next: Next) -> Response {
    if request.uri().path() != STATS_PATH {
        let ready = gate.ready.wait_for(|ready| *ready);
        // After a timeout the handler itself returns the error.
        let _ = tokio::time::timeout(gate.limit, ready).await;
    }
    next.run(request).await
}
