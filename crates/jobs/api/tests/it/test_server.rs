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
use nagaya_jobs_api::{Api, ApiConfig, AuthConfig, Permission, routes};
use nagaya_jobs_postgres::PgStore;
use nagaya_jobs_sqlite::{Options, SqliteJobs};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::client::{Client, Endpoints};

/// A jobs server; ends with the test's runtime.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) jobs: Jobs,
    pub(crate) closing: CancellationToken,
    _folder: Option<TempDir>,
}

impl TestServer {
    pub(crate) async fn start() -> TestServer {
        let auth = AuthConfig {
            server_token: None,
            open: true,
        };
        TestServer::with(auth, ApiConfig::default(), Config::default()).await
    }

    pub(crate) async fn with(auth: AuthConfig, api: ApiConfig, config: Config) -> TestServer {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.sqlite");
        let store = SqliteJobs::open(path, &Options::default(), Arc::new(SystemClock)).unwrap();
        TestServer {
            _folder: Some(folder),
            ..TestServer::over(Arc::new(store), auth, api, config).await
        }
    }

    /// The same server on a PostgreSQL database.
    pub(crate) async fn on_postgres(url: &str) -> TestServer {
        let store = PgStore::open(&url.parse().unwrap(), nagaya_jobs_postgres::Options::default()).await;
        let auth = AuthConfig {
            server_token: None,
            open: true,
        };
        TestServer::over(
            Arc::new(store.unwrap()),
            auth,
            ApiConfig::default(),
            Config::default(),
        )
        .await
    }

    async fn over(store: Arc<dyn JobStore>, auth: AuthConfig, api: ApiConfig, config: Config) -> TestServer {
        let jobs = Jobs::start(store, config).await.unwrap();
        let closing = CancellationToken::new();
        let api = Api::new(jobs.clone(), auth, api, closing.clone());
        let routes = routes(api.clone()).merge(outgoing(&jobs, api));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        TestServer {
            address,
            jobs,
            closing,
            _folder: None,
        }
    }

    /// Returns its addresses: REST and gRPC share a port.
    pub(crate) fn endpoints(&self) -> Endpoints {
        Endpoints {
            rest: self.address,
            grpc: self.address,
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.endpoints().client()
    }

    pub(crate) async fn grpc(&self) -> JobsClient<Channel> {
        self.endpoints().grpc().await
    }
}

/// Deliveries and notifications, which the OpenAPI document describes as well.
fn outgoing(jobs: &Jobs, api: Api) -> axum::Router {
    let store = Arc::clone(jobs.store());
    nagaya_deliver::api::routes(nagaya_deliver::api::Api {
        notifier: Notifier::new(Arc::clone(&store), notify::Config::default()).unwrap(),
        authorize: Arc::new(ApiAuthorize(api)),
        store,
    })
}

/// Authenticates callers through the API under test.
struct ApiAuthorize(Api);

impl Authorize for ApiAuthorize {
    fn authorize<'a>(
        &'a self,
        headers: &'a HeaderMap,
        permission: deliver::Permission,
    ) -> BoxFuture<'a, Result<deliver::Principal, Response>> {
        let permission = match permission {
            deliver::Permission::Read => Permission::Read,
            deliver::Permission::Enqueue => Permission::Enqueue,
            deliver::Permission::Admin => Permission::Admin,
        };
        Box::pin(async move {
            let principal = self.0.admit(headers, permission).await?;
            Ok(deliver::Principal {
                tenant: principal.tenant,
                is_admin: principal.is_admin,
                queues: principal.queues,
            })
        })
    }
}
