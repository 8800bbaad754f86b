//! Pushes the jobs of a queue to the HTTP endpoint in its settings.
//!
//! [`PushDelivery`] claims like any worker and calls the endpoint with each job (see
//! [`nagaya_client::Endpoint`] for the call and the meaning of the response). The lease is extended for as
//! long as a call is open. When the lease is lost or the job is cancelled, the call is dropped. Settings are
//! read every few seconds; a queue whose endpoint changes finishes its open calls with the old one.
//!
//! Every server of a store may run it. They share the jobs as workers do, and each enforces the queue's
//! concurrency on its own.

mod attempt;
mod runner;

use std::collections::HashMap;
use std::time::Duration;

use nagaya_client::{Endpoint, Secret};
use nagaya_jobs::queue::{Counted, Push};
use nagaya_jobs::service::Jobs;
use nagaya_jobs::{Error, QueueName, Visibility};
use nagaya_threads::vital;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use runner::Runner;

/// Configuration of push delivery.
#[derive(Clone, Debug)]
pub struct PushConfig {
    /// Signing secrets, the newest first during a rotation. Without any, calls are not signed.
    pub secrets: Vec<Secret>,
    /// How often the settings of queues are read.
    pub poll_interval: Duration,
    /// How long an endpoint may take to respond.
    pub timeout: Duration,
    /// How long open calls may take to finish at shutdown.
    pub drain: Duration,
}

impl Default for PushConfig {
    fn default() -> PushConfig {
        PushConfig {
            secrets: Vec::new(),
            poll_interval: Duration::from_secs(2),
            timeout: Duration::from_secs(15 * 60),
            drain: Duration::from_secs(10),
        }
    }
}

/// The component: one runner per queue with an endpoint.
pub struct PushDelivery {
    jobs: Jobs,
    config: PushConfig,
    runners: HashMap<QueueName, (Push, CancellationToken)>,
    tasks: TaskTracker,
    /// Ends open calls when the drain time is over.
    cut: CancellationToken,
}

impl PushDelivery {
    pub fn new(jobs: Jobs, config: PushConfig) -> PushDelivery {
        PushDelivery {
            jobs,
            config,
            runners: HashMap::new(),
            tasks: TaskTracker::new(),
            cut: CancellationToken::new(),
        }
    }

    /// Delivers until shutdown. Then finishes open calls and abandons those that take too long; their jobs
    /// are retried.
    pub async fn run(mut self, shutdown: CancellationToken) {
        // Ends everything with this future, however it ends.
        let _cut = self.cut.clone().drop_guard();
        loop {
            if let Err(error) = self.sync_runners().await {
                tracing::warn!(%error, "queue settings could not be read, push continues with the old ones");
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = tokio::time::sleep(self.config.poll_interval) => (),
            }
        }
        for (_, stop) in self.runners.values() {
            stop.cancel();
        }
        self.tasks.close();
        if tokio::time::timeout(self.config.drain, self.tasks.wait())
            .await
            .is_err()
        {
            self.cut.cancel();
            self.tasks.wait().await;
        }
    }

    /// Starts, replaces and stops runners to match the settings.
    async fn sync_runners(&mut self) -> Result<(), Error> {
        let queues = self
            .jobs
            .store()
            .queues(Visibility::everything(), Counted::Nothing)
            .await?;
        let mut wanted: HashMap<QueueName, Push> = queues
            .into_iter()
            .filter_map(|queue| Some((queue.name, queue.settings.push?)))
            .collect();
        self.runners.retain(|queue, (push, stop)| {
            let stays = wanted.get(queue) == Some(push);
            if stays {
                wanted.remove(queue);
            } else {
                stop.cancel();
            }
            stays
        });
        for (queue, push) in wanted {
            match self.endpoint(&push) {
                Ok(endpoint) => self.start(queue, push, endpoint),
                Err(error) => tracing::warn!(%queue, %error, "invalid push endpoint of a queue"),
            }
        }
        Ok(())
    }

    fn endpoint(&self, push: &Push) -> Result<Endpoint, nagaya_client::Error> {
        let mut endpoint = Endpoint::new(&push.url)?.timeout(self.config.timeout);
        for (name, value) in &push.headers {
            endpoint = endpoint.header(name, value)?;
        }
        let secrets = self.config.secrets.iter().cloned();
        Ok(secrets.fold(endpoint, Endpoint::secret))
    }

    fn start(&mut self, queue: QueueName, push: Push, endpoint: Endpoint) {
        tracing::info!(%queue, url = push.url, concurrency = push.concurrency, "pushing jobs to an endpoint");
        let stop = CancellationToken::new();
        let runner = Runner::new(self.jobs.clone(), queue.clone(), endpoint, push.concurrency);
        let running = runner.run(stop.clone(), self.cut.clone());
        self.tasks.spawn(vital("jobs push", running));
        self.runners.insert(queue, (push, stop));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use axum::body::Bytes;
    use axum::http::{HeaderMap, StatusCode};
    use axum::routing::post;
    use nagaya_jobs::clock::SystemClock;
    use nagaya_jobs::job::Body;
    use nagaya_jobs::queue::QueueSettings;
    use nagaya_jobs::service::{Config, WaitFor};
    use nagaya_jobs::view::JobView;
    use nagaya_jobs::{JobId, NewJob, State, TenantId};
    use nagaya_jobs_sqlite::{Options, SqliteJobs};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    struct Bench {
        jobs: Jobs,
        queue: QueueName,
        shutdown: CancellationToken,
        delivering: tokio::task::JoinHandle<()>,
        _folder: tempfile::TempDir,
    }

    /// A queue whose jobs are pushed to the given endpoint.
    async fn with_endpoint(router: Router, concurrency: u32) -> Bench {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.sqlite");
        let store = SqliteJobs::open(file, &Options::default(), Arc::new(SystemClock)).unwrap();
        let jobs = Jobs::start(Arc::new(store), Config::default()).await.unwrap();
        let queue = QueueName::new("mail").unwrap();
        let settings = QueueSettings {
            push: Some(Push {
                url,
                headers: vec![("x-app".to_owned(), "shop".to_owned())],
                concurrency,
            }),
            max_retries: 0,
            ..QueueSettings::default()
        };
        jobs.store().put_queue(queue.clone(), settings).await.unwrap();
        let shutdown = CancellationToken::new();
        let push = PushDelivery::new(jobs.clone(), PushConfig::default());
        let delivering = tokio::spawn(push.run(shutdown.clone()));
        Bench {
            jobs,
            queue,
            shutdown,
            delivering,
            _folder: folder,
        }
    }

    impl Bench {
        async fn enqueue(&self, payload: &str, timeout: Option<Duration>) -> JobId {
            let payload = Body::json(payload.to_owned());
            let mut job = NewJob::new(TenantId::default_tenant(), self.queue.clone(), payload);
            job.timeout = timeout;
            self.jobs.enqueue(vec![job]).await.unwrap().remove(0).unwrap().id
        }

        async fn ended(&self, id: JobId) -> JobView {
            let ids = [id];
            let ended = self.jobs.wait_until_ended(&ids, WaitFor::All, PATIENCE);
            ended.await.unwrap();
            self.jobs.store().read(vec![id]).await.unwrap().remove(0).unwrap()
        }

        async fn stop(self) {
            self.shutdown.cancel();
            tokio::time::timeout(PATIENCE, self.delivering)
                .await
                .unwrap()
                .unwrap();
            self.jobs.stop().await;
        }
    }

    /// A number is returned as the status; anything else is echoed.
    async fn answer(body: Bytes) -> (StatusCode, Bytes) {
        let status = std::str::from_utf8(&body).unwrap().parse().ok();
        (
            status.map_or(StatusCode::OK, |status| StatusCode::from_u16(status).unwrap()),
            body,
        )
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_endpoints_answer_ends_the_job() {
        let bench = with_endpoint(Router::new().route("/", post(answer)), 2).await;
        let (good, bad) = (
            bench.enqueue("{\"a\":1}", None).await,
            bench.enqueue("422", None).await,
        );
        let (good, bad) = (bench.ended(good).await, bench.ended(bad).await);
        assert_eq!(good.summary.state, State::Succeeded);
        assert_eq!(good.result, Some(Body::json("{\"a\":1}")));
        assert_eq!(good.attempts[0].worker, "push");
        assert_eq!(bad.summary.state, State::Failed);
        assert!(bad.summary.error.unwrap().contains("422"));
        bench.stop().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_call_tells_the_job_and_its_token_and_the_lease_outlives_it() {
        let seen: Arc<Mutex<Option<HeaderMap>>> = Arc::default();
        let (gate, keep) = (Arc::new(tokio::sync::Notify::new()), Arc::clone(&seen));
        let open = Arc::clone(&gate);
        let slow = async move |headers: HeaderMap| {
            *keep.lock().unwrap() = Some(headers);
            open.notified().await;
            "done"
        };
        let bench = with_endpoint(Router::new().route("/", post(slow)), 1).await;
        let id = bench.enqueue("1", Some(Duration::from_secs(1))).await;
        // Longer than the lease: without extensions the job would be taken back.
        let lease_until = async |bench: &Bench| {
            let job = bench
                .jobs
                .store()
                .read(vec![id])
                .await
                .unwrap()
                .remove(0)
                .unwrap();
            job.lease.map(|lease| lease.until_ms)
        };
        let first = loop {
            if let Some(until) = lease_until(&bench).await {
                break until;
            }
            tokio::task::yield_now().await;
        };
        while lease_until(&bench)
            .await
            .is_some_and(|until| until < first + 1_000)
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        gate.notify_one();
        let job = bench.ended(id).await;
        assert_eq!((job.summary.state, job.attempts.len()), (State::Succeeded, 1));
        let headers = seen.lock().unwrap().take().unwrap();
        assert_eq!(headers["nagaya-job-id"], id.to_string().as_str());
        assert_eq!(headers["x-app"], "shop");
        let token = headers["nagaya-job-token"].to_str().unwrap();
        assert_eq!(bench.jobs.lease(token, Some(id)).unwrap().attempt, 1);
        bench.stop().await;
    }
}
