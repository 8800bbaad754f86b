//! State shared by all handlers.

use std::ops::Deref;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use nagaya_jobs::service::Jobs;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{Auth, AuthConfig, Permission, Principal, PrincipalInfo};
use crate::config::ApiConfig;
use crate::handlers::JobsHandlers;
use crate::problem::Problem;

/// The API over one store. Clones share its state.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

/// The state that handlers reach through an [`Api`].
pub struct Inner {
    pub(crate) handlers: JobsHandlers,
    pub(crate) auth: Auth,
    pub(crate) config: ApiConfig,
    /// Ends streams and long waits, so that their clients reconnect to another server.
    pub(crate) closing: CancellationToken,
    /// Tracks the tasks of streams.
    pub(crate) streams: TaskTracker,
}

impl Deref for Api {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Api {
    /// Combines the service, its authentication and its limits. When `closing` is cancelled, streams and
    /// waits for results end; the service itself ends waiting claims.
    pub fn new(jobs: Jobs, auth: AuthConfig, config: ApiConfig, closing: CancellationToken) -> Api {
        let auth = Auth::new(jobs.store().clone(), auth);
        let handlers = JobsHandlers::new(jobs);
        Api(Arc::new(Inner {
            handlers,
            auth,
            config,
            closing,
            streams: TaskTracker::new(),
        }))
    }

    /// Authenticates a request and checks its permission. Returns the response to send if either fails.
    pub async fn admit(
        &self,
        headers: &HeaderMap,
        permission: Permission,
    ) -> Result<PrincipalInfo, Response> {
        match self.auth.principal(headers, permission).await {
            Ok(principal) => Ok(PrincipalInfo::from(&*principal)),
            Err(problem) => Err(problem.into_response()),
        }
    }

    /// Returns whether a request carries a token that somebody has, whatever it allows.
    pub async fn knows(&self, headers: &HeaderMap) -> bool {
        self.auth.knows(headers).await
    }

    /// Returns whether any token exists. It may be some seconds late.
    pub async fn has_tokens(&self) -> bool {
        self.auth.has_tokens().await
    }

    /// Runs a call that may take long, as long as the caller's token is valid.
    pub(crate) async fn while_valid<T, E>(
        &self,
        principal: &Principal,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Problem>
    where
        Problem: From<E>,
    {
        tokio::select! {
            done = call => Ok(done?),
            problem = self.auth.until_invalid(principal) => Err(problem),
        }
    }

    /// Waits until all streams have ended. Call it after `closing` was cancelled.
    pub async fn drained(&self) {
        self.streams.close();
        self.streams.wait().await;
    }
}
