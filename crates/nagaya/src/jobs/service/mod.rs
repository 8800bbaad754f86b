//! Jobs as a component of the server: opens the store, runs the service, hands out the routes.
//!
//! At shutdown, waiting workers get empty answers and streams are ended first, so that the HTTP server can
//! drain; then what is under way is finished, and the store is closed.

mod config;
mod deliver;
mod stats;

use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use nagaya_jobs::clock::SystemClock;
use nagaya_jobs::service::Jobs;
use nagaya_jobs::store::JobStore;
use nagaya_jobs_api::{Api, AuthConfig, PushConfig, PushDelivery};
use nagaya_jobs_postgres::PgStore;
use nagaya_jobs_sqlite::SqliteJobs;
use nagaya_telemetry::metrics::Metrics;
use nagaya_threads::vital;
use tokio_util::sync::CancellationToken;

use crate::app::data_dir::DataDir;
use crate::app::readiness::Ready;
use crate::app::service::{Running, Service, Shutdown};
use crate::app::settings::Settings;
pub use config::JobsConfig;
use deliver::Outgoing;
pub use deliver::{NotifyConfig, WebhooksConfig};
use stats::StatsReader;

/// The jobs' part of the data folder, and the file in it.
const FOLDER: &str = "jobs";
const FILE: &str = "jobs.sqlite";

/// The store, open, and the service on it.
pub(crate) struct JobsService {
    jobs: Jobs,
    api: Api,
    outgoing: Outgoing,
    gauges: StatsReader,
    push: PushConfig,
    closing: CancellationToken,
    place: &'static str,
}

impl JobsService {
    /// Opens the store; call it within the runtime.
    pub(crate) async fn open(
        settings: &Settings,
        data: Option<&DataDir>,
        metrics: &Metrics,
    ) -> anyhow::Result<JobsService> {
        let (config, house, http) = (&settings.jobs, &settings.house, &settings.http);
        let (store, place): (Arc<dyn JobStore>, _) = match config.postgres_url(house)? {
            Some(url) => {
                let options = nagaya_jobs_postgres::Options {
                    hot_connections_max: config.connections,
                    cool_connections_max: config.connections,
                    ..nagaya_jobs_postgres::Options::default()
                };
                let store = PgStore::open(&url, options).await;
                (
                    Arc::new(store.context("the jobs' PostgreSQL cannot be used")?),
                    "PostgreSQL",
                )
            }
            None => {
                let data = data.context("jobs without PostgreSQL need a data folder")?;
                let folder = data.path().join(FOLDER);
                std::fs::create_dir_all(&folder)
                    .with_context(|| format!("cannot make {}", folder.display()))?;
                let path = folder.join(FILE);
                let options = nagaya_jobs_sqlite::Options {
                    ground: data.ground().clone(),
                    ..nagaya_jobs_sqlite::Options::default()
                };
                let store = SqliteJobs::open(&path, &options, Arc::new(SystemClock));
                let store = store.with_context(|| format!("jobs cannot be kept in {}", path.display()))?;
                (Arc::new(store), "SQLite")
            }
        };
        let push = config.push()?;
        let jobs = Jobs::start(store, config.service())
            .await
            .context("jobs cannot be served")?;
        let auth = AuthConfig {
            server_token: http.token.as_ref().map(|token| token.reveal().to_owned()),
            // The settings allow this only on loopback or with `house.insecure`.
            open: http.token.is_none(),
        };
        let closing = CancellationToken::new();
        let api = Api::new(jobs.clone(), auth, config.api(), closing.clone());
        let outgoing = Outgoing::new(&jobs, &settings.webhooks, &settings.notify)?;
        let gauges = outgoing.gauges();
        let read = gauges.clone();
        metrics.register(move || read.read());
        Ok(JobsService {
            jobs,
            api,
            outgoing,
            gauges,
            push,
            closing,
            place,
        })
    }

    /// Returns the API handle that authenticates requests for other routes.
    pub(crate) fn api(&self) -> Api {
        self.api.clone()
    }

    /// Returns the service itself.
    pub(crate) fn jobs(&self) -> Jobs {
        self.jobs.clone()
    }

    /// Returns the routes. The HTTP listener serves them; they check tokens themselves.
    pub(crate) fn routes(&self) -> Router {
        nagaya_jobs_api::routes(self.api.clone()).merge(self.outgoing.routes(&self.api))
    }
}

impl Service for JobsService {
    fn name(&self) -> &'static str {
        "jobs"
    }

    fn run(self: Box<Self>, shutdown: Shutdown, ready: Ready) -> Running {
        Box::pin(async move {
            let JobsService {
                jobs,
                api,
                outgoing,
                gauges,
                push,
                closing,
                place,
            } = *self;
            let outgoing = tokio::spawn(vital(
                "jobs deliveries",
                outgoing.run(jobs.clone(), closing.child_token()),
            ));
            let gauges = tokio::spawn(vital("jobs gauges", gauges.run(closing.child_token())));
            let push = PushDelivery::new(jobs.clone(), push);
            let push = tokio::spawn(vital("jobs push rounds", push.run(closing.child_token())));
            ready.set_detail(format!("in {place}"));
            ready.ready();
            shutdown.draining().await;
            jobs.release_waiting_workers();
            closing.cancel();
            shutdown.stopped().await;
            let ended = async {
                api.drained().await;
                push.await.context("pushing jobs ended badly")?;
                outgoing.await.context("deliveries ended badly")?;
                gauges.await.context("counting jobs ended badly")?;
                jobs.stop().await;
                jobs.store().close().await;
                anyhow::Ok(())
            };
            tokio::select! {
                ended = ended => ended.map(|()| Vec::new()),
                () = shutdown.cut() => Ok(vec!["jobs were not closed in time; nothing acknowledged is lost".to_owned()]),
            }
        })
    }
}
