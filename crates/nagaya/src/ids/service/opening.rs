//! Requests for ids that come before the first number may be used.
//!
//! A number that another process may have had is waited for, some seconds. The house is up meanwhile,
//! and whoever asks for ids over HTTP or gRPC waits with it instead of being told to come again.

use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tokio::sync::watch;

/// Answers at any time: it needs no number.
const STATS_PATH: &str = "/stats";

/// Tells when the first number may be used.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    opened: watch::Receiver<bool>,
    /// How long a request waits before it gets the error of those who have no number.
    limit: Duration,
}

impl Opening {
    pub(super) fn new(limit: Duration) -> (watch::Sender<bool>, Opening) {
        let (sender, opened) = watch::channel(false);
        (sender, Opening { opened, limit })
    }

    /// Makes these routes wait.
    pub(super) fn guard(self, routes: Router) -> Router {
        routes.layer(from_fn_with_state(self, wait))
    }
}

async fn wait(State(mut opening): State<Opening>, request: Request, next: Next) -> Response {
    if request.uri().path() != STATS_PATH {
        let opened = opening.opened.wait_for(|opened| *opened);
        // Whatever came of it, the handler knows what to say.
        let _ = tokio::time::timeout(opening.limit, opened).await;
    }
    next.run(request).await
}
