//! A server on a free port.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::future::BoxFuture;
use nagaya_deliver::api::{self as deliver, Authorize};
use nagaya_deliver::notify::{self, Notifier};
use nagaya_jobs::clock::SystemClock;
use nagaya_jobs::service::{Config, Jobs};
use nagaya_jobs::store::JobStore;
use nagaya_jobs_api::proto::jobs_client::JobsClient;
use nagaya_jobs_api::{Api, ApiConfig, AuthConfig, Need, routes};
use nagaya_jobs_postgres::PgStore;
use nagaya_jobs_sqlite::{Options, SqliteJobs};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::client::{Client, Door};

/// A house of jobs; ends with the test's runtime.
pub(crate) struct House {
    pub(crate) address: SocketAddr,
    pub(crate) jobs: Jobs,
    pub(crate) closing: CancellationToken,
    _folder: Option<TempDir>,
}

impl House {
    pub(crate) async fn start() -> House {
        let auth = AuthConfig {
            house_token: None,
            open: true,
        };
        House::with(auth, ApiConfig::default(), Config::default()).await
    }

    pub(crate) async fn with(auth: AuthConfig, api: ApiConfig, config: Config) -> House {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.sqlite");
        let store = SqliteJobs::open(path, &Options::default(), Arc::new(SystemClock)).unwrap();
        House {
            _folder: Some(folder),
            ..House::over(Arc::new(store), auth, api, config).await
        }
    }

    /// A house of the same kind over a database of its own.
    pub(crate) async fn on_postgres(url: &str) -> House {
        let store = PgStore::open(&url.parse().unwrap(), nagaya_jobs_postgres::Options::default()).await;
        let auth = AuthConfig {
            house_token: None,
            open: true,
        };
        House::over(
            Arc::new(store.unwrap()),
            auth,
            ApiConfig::default(),
            Config::default(),
        )
        .await
    }

    async fn over(store: Arc<dyn JobStore>, auth: AuthConfig, api: ApiConfig, config: Config) -> House {
        let jobs = Jobs::start(store, config).await.unwrap();
        let closing = CancellationToken::new();
        let api = Api::new(jobs.clone(), auth, api, closing.clone());
        let routes = routes(api.clone()).merge(outgoing(&jobs, api));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        House {
            address,
            jobs,
            closing,
            _folder: None,
        }
    }

    /// Where it is reached: REST and gRPC share a port.
    pub(crate) fn door(&self) -> Door {
        Door {
            rest: self.address,
            grpc: self.address,
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.door().client()
    }

    pub(crate) async fn grpc(&self) -> JobsClient<Channel> {
        self.door().grpc().await
    }
}

/// Deliveries and notices, which the document of this interface describes as well.
fn outgoing(jobs: &Jobs, api: Api) -> axum::Router {
    let store = Arc::clone(jobs.store());
    nagaya_deliver::api::routes(nagaya_deliver::api::Api {
        notifier: Notifier::new(Arc::clone(&store), notify::Config::default()).unwrap(),
        authorize: Arc::new(Doorkeeper(api)),
        store,
    })
}

/// Asks this interface who somebody is.
struct Doorkeeper(Api);

impl Authorize for Doorkeeper {
    fn authorize<'a>(
        &'a self,
        headers: &'a HeaderMap,
        need: deliver::Need,
    ) -> BoxFuture<'a, Result<deliver::Caller, Response>> {
        let need = match need {
            deliver::Need::Read => Need::Read,
            deliver::Need::Enqueue => Need::Enqueue,
            deliver::Need::Admin => Need::Admin,
        };
        Box::pin(async move {
            let visitor = self.0.admit(headers, need).await?;
            Ok(deliver::Caller {
                tenant: visitor.tenant,
                is_admin: visitor.is_admin,
                queues: visitor.queues,
            })
        })
    }
}
