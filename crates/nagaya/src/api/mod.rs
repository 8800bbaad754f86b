//! The house's own REST: what it is, how its services are, and what they were in the last hours.
//!
//! Everything here reads what the services keep anyway: their metrics, their handles, and the room through
//! its own commands. It is served beside the services' own routes and behind the same token.

mod history;
mod overview;
pub(crate) mod services;

mod absent;

pub(crate) mod console;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use nagaya_fanout::Fanout;
use nagaya_fleet::manager::ManagerHandle;
use nagaya_jobs::service::Jobs;
use nagaya_telemetry::Clock;
use nagaya_telemetry::history::{History, Now, Readings};
use nagaya_telemetry::metrics::Metrics;
use tokio::sync::Semaphore;

use crate::app::readiness::Readiness;
use crate::ids::api::IdsView;
use crate::room::api::RoomDoor;
use crate::{fanout, ids, room};

/// How long reading the metrics may take.
const READ_LIMIT: Duration = Duration::from_secs(2);
/// How many may read them at once: each holds a thread.
pub(crate) const READERS_MAX: usize = 4;

/// All that the routes look at.
pub(crate) struct House {
    pub(crate) readiness: Readiness,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) started: Instant,
    pub(crate) http: SocketAddr,
    pub(crate) room: RoomDoor,
    pub(crate) jobs: Option<Jobs>,
    pub(crate) fanout: Option<(Arc<Fanout>, SocketAddr)>,
    pub(crate) ids: Option<(IdsView, SocketAddr)>,
    pub(crate) fleet: Option<ManagerHandle>,
    /// Locked for moments, never while metrics are read.
    pub(crate) history: Mutex<History>,
    /// What was read last.
    pub(crate) latest: Mutex<Readings>,
    /// With [`READERS_MAX`] permits.
    pub(crate) readers: Arc<Semaphore>,
}

impl House {
    /// The routes, without fallbacks of their own.
    pub(crate) fn routes(self: &Arc<House>) -> Router {
        let mut routes = overview::routes()
            .merge(history::routes())
            .merge(room::api::routes());
        if self.fanout.is_some() {
            routes = routes.merge(fanout::api::routes());
        }
        if self.ids.is_some() {
            routes = routes.merge(ids::api::routes());
        }
        routes.with_state(Arc::clone(self)).merge(absent::routes(self))
    }

    /// Adds a point to the history every few seconds. Never ends.
    pub(crate) async fn keep_history(self: Arc<House>) {
        history::keep(self).await;
    }

    /// The metrics of this moment, and what they were a little earlier.
    pub(crate) async fn now(self: &Arc<House>) -> Now {
        let readings = self.readings().await;
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.now(self.clock.unix_ms(), readings)
    }

    /// Reads all metrics. On a thread that may wait: a slow script may hold the room. While that takes too
    /// long, the latest ones that were read stand in.
    async fn readings(self: &Arc<House>) -> Readings {
        let house = Arc::clone(self);
        let reading = async {
            let permit = Arc::clone(&house.readers).acquire_owned().await.ok()?;
            let read = tokio::task::spawn_blocking(move || {
                let text = house.metrics.render();
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
