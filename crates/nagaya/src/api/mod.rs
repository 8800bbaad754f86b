//! The admin API: version, state of the services, and their metrics over the last hours.
//!
//! Handlers read what the services maintain anyway: their metrics, their handles, and the room through its own
//! commands. It is served beside the services' own routes and behind the same token.

mod history;
mod overview;
pub(crate) mod services;

mod disabled;

pub(crate) mod console;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use nagaya_clock::Clock;
use nagaya_fanout::Fanout;
use nagaya_fleet::manager::ManagerHandle;
use nagaya_jobs::service::Jobs;
use nagaya_telemetry::history::{History, Now, Readings};
use nagaya_telemetry::metrics::Metrics;
use tokio::sync::Semaphore;

use crate::app::readiness::Readiness;
use crate::ids::api::IdsView;
use crate::room::api::EngineHandle;
use crate::{fanout, ids, room};

/// Time limit for reading all metrics; handlers then use the previous reading.
const READ_LIMIT: Duration = Duration::from_secs(2);
/// Maximum number of concurrent readers. Each one occupies a blocking thread.
pub(crate) const READERS_MAX: usize = 4;

/// The shared state of the handlers.
pub(crate) struct AdminState {
    pub(crate) readiness: Readiness,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) started: Instant,
    pub(crate) http: SocketAddr,
    pub(crate) http_has_token: bool,
    pub(crate) http_scheme: &'static str,
    pub(crate) fanout_scheme: &'static str,
    pub(crate) room: EngineHandle,
    pub(crate) jobs: Option<Jobs>,
    pub(crate) fanout: Option<(Arc<Fanout>, SocketAddr)>,
    pub(crate) ids: Option<(IdsView, SocketAddr)>,
    pub(crate) fleet: Option<ManagerHandle>,
    /// Locked briefly, never while metrics are read.
    pub(crate) history: Mutex<History>,
    /// The last complete reading.
    pub(crate) latest: Mutex<Readings>,
    /// With [`READERS_MAX`] permits.
    pub(crate) readers: Arc<Semaphore>,
    /// With [`EXPORTS_MAX`](crate::room::api::EXPORTS_MAX) permits.
    pub(crate) exports: Arc<Semaphore>,
}

impl AdminState {
    /// The routes, without fallbacks of their own.
    pub(crate) fn routes(self: &Arc<AdminState>) -> Router {
        let mut routes = overview::routes()
            .merge(history::routes())
            .merge(room::api::routes(self));
        if self.fanout.is_some() {
            routes = routes.merge(fanout::api::routes(self));
        }
        if self.ids.is_some() {
            routes = routes.merge(ids::api::routes());
        }
        routes.with_state(Arc::clone(self)).merge(disabled::routes(self))
    }

    /// Adds a point to the history every few seconds. Never ends.
    pub(crate) async fn keep_history(self: Arc<AdminState>) {
        history::keep(self).await;
    }

    /// Returns the current metrics together with an earlier reading, for rates.
    pub(crate) async fn now(self: &Arc<AdminState>) -> Now {
        let readings = self.readings().await;
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.now(self.clock.unix_ms().unsigned_abs(), readings)
    }

    /// Reads all metrics. Runs on a blocking thread, because a slow script may hold the room. If it exceeds
    /// [`READ_LIMIT`], returns the previous reading.
    async fn readings(self: &Arc<AdminState>) -> Readings {
        let state = Arc::clone(self);
        let reading = async {
            let permit = Arc::clone(&state.readers).acquire_owned().await.ok()?;
            let read = tokio::task::spawn_blocking(move || {
                let text = state.metrics.render();
                drop(permit);
                text
            });
            read.await.ok()
        };
        match tokio::time::timeout(READ_LIMIT, reading).await {
            Ok(Some(Ok(text))) => {
                let readings = Readings::parse(&text);
                *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = readings.clone();
                readings
            }
            Ok(Some(Err(error))) => {
                tracing::error!(%error, "metrics could not be written");
                Readings::default()
            }
            Ok(None) | Err(_) => {
                let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
                latest.clone()
            }
        }
    }
}
