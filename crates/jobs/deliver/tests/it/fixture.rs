//! A store with a clock that tests advance, and deliverers on it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use nagaya_deliver::guard::{Allow, Client, Limits, Resolve};
use nagaya_deliver::webhook::{Config, Deliverer};
use nagaya_jobs::clock::{Clock, ManualClock};
use nagaya_jobs::delivery::{DeliveryFilter, DeliveryView, Webhook};
use nagaya_jobs::job::Body;
use nagaya_jobs::request::{ClaimRequest, Completion};
use nagaya_jobs::store::JobStore;
use nagaya_jobs::suite::START_MS;
use nagaya_jobs::{JobId, NewJob, QueueName, TenantId};
use nagaya_jobs_sqlite::{Options, SqliteJobs};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A lease length that differs from every delay, so that a delivery due this late is known to be in flight.
pub(crate) const LEASE: Duration = Duration::from_millis(61_007);
/// Upper bound for every wait, in real time.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn JobStore>,
    pub(crate) clock: Arc<ManualClock>,
    _folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(START_MS));
        let path = folder.path().join("jobs.db");
        let store = SqliteJobs::open(path, &Options::default(), clock.clone()).unwrap();
        Fixture {
            store: Arc::new(store),
            clock,
            _folder: folder,
        }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.unix_ms()
    }

    /// Registers a job in the queue `q` with a webhook.
    pub(crate) async fn register(&self, webhook: Webhook) -> JobId {
        self.register_for(TenantId::default_tenant(), webhook).await
    }

    pub(crate) async fn register_for(&self, tenant: TenantId, webhook: Webhook) -> JobId {
        let queue = QueueName::new("q").unwrap();
        let mut job = NewJob::new(tenant, queue, Body::json("{}"));
        job.kind = Some("k".into());
        job.webhook = Some(webhook);
        let answers = self.store.enqueue(vec![job]).await.unwrap();
        answers.into_iter().next().unwrap().unwrap().id
    }

    /// Completes all jobs of the queue `q` with a result.
    pub(crate) async fn finish_all(&self, result: Body) {
        loop {
            let request = ClaimRequest {
                worker: "w".into(),
                queues: vec![QueueName::new("q").unwrap()],
                tenant: None,
                max: 1000,
                lease: None,
            };
            let claimed = self.store.claim(vec![request]).await.unwrap().remove(0);
            if claimed.is_empty() {
                return;
            }
            let report = |job: nagaya_jobs::request::ClaimedJob| Completion {
                lease: job.lease,
                result: Some(result.clone()),
            };
            let reports = claimed.into_iter().map(report).collect();
            self.store.complete(reports).await.unwrap();
        }
    }

    /// A job that succeeded and whose result is to be sent.
    pub(crate) async fn ended(&self, url: &str) -> JobId {
        self.ended_with(Webhook::to(url), r#"{"sum": 1.10}"#).await
    }

    pub(crate) async fn ended_with(&self, webhook: Webhook, result: &str) -> JobId {
        let id = self.register(webhook).await;
        self.finish_all(Body::json(result.as_bytes().to_vec())).await;
        id
    }

    pub(crate) async fn delivery(&self, job: JobId) -> DeliveryView {
        let filter = DeliveryFilter {
            job: Some(job),
            ..DeliveryFilter::default()
        };
        let page = self.store.deliveries(filter, None, 10).await.unwrap();
        page.items.into_iter().next().expect("a delivery")
    }

    /// Waits until a job's delivery matches, without advancing the clock.
    pub(crate) async fn delivery_that(
        &self,
        job: JobId,
        wish: impl Fn(&DeliveryView) -> bool,
    ) -> DeliveryView {
        eventually("the delivery", async || {
            Some(self.delivery(job).await).filter(|view| wish(view))
        })
        .await
    }

    /// Waits until a job's delivery matches, advancing the clock to its next attempt whenever nothing is in
    /// flight.
    pub(crate) async fn delivery_in_time(
        &self,
        job: JobId,
        wish: impl Fn(&DeliveryView) -> bool,
    ) -> DeliveryView {
        eventually("the delivery", async || {
            let view = self.delivery(job).await;
            if wish(&view) {
                return Some(view);
            }
            let wait_ms = view.delivery.next_try_at_ms - self.now_ms();
            if wait_ms > 0 && wait_ms != LEASE.as_millis() as i64 {
                self.clock.set(view.delivery.next_try_at_ms);
            }
            None
        })
        .await
    }

    pub(crate) fn deliverer(&self, client: Client) -> Running {
        self.deliverer_with(client, config())
    }

    pub(crate) fn deliverer_with(&self, client: Client, config: Config) -> Running {
        let deliverer = Arc::new(Deliverer::new(Arc::clone(&self.store), client, config));
        let stop = CancellationToken::new();
        Running {
            task: tokio::spawn(Arc::clone(&deliverer).run(stop.clone())),
            deliverer,
            stop,
        }
    }
}

pub(crate) fn config() -> Config {
    Config {
        lease: LEASE,
        idle_poll: Duration::from_millis(5),
        ..Config::default()
    }
}

/// A running deliverer.
pub(crate) struct Running {
    pub(crate) deliverer: Arc<Deliverer>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

pub(crate) fn limits() -> Limits {
    Limits {
        total: Duration::from_secs(5),
        ..Limits::default()
    }
}

/// A client that may reach 127.0.0.1.
pub(crate) fn client() -> Client {
    Client::new(Allow::parse(["127.0.0.1"]).unwrap(), limits(), None).unwrap()
}

/// Resolves every name.
pub(crate) struct Answers<F>(pub(crate) F);

impl<F: Fn(&str) -> Vec<IpAddr> + Send + Sync + 'static> Resolve for Answers<F> {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        let found = (self.0)(host);
        Box::pin(async move {
            if found.is_empty() {
                Err(std::io::Error::other("no such name"))
            } else {
                Ok(found)
            }
        })
    }
}

/// Polls until there is an answer.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(answer) => answer,
        Err(_) => panic!("{what} did not come to be in {PATIENCE:?}"),
    }
}
