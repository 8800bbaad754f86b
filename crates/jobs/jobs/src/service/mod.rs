//! The job service: many callers, one store.
//!
//! [`Jobs`] is the handle that REST, gRPC, workers and webhooks share. Calls of many clients are joined into
//! batches, workers wait for jobs without polling, readers follow the log, and maintenance runs beside them.
//! Any number of servers may do so on one store.

mod batcher;
mod claims;
mod event_reader;
mod leases;
pub mod maintenance;
mod pace;
mod stats;
mod wakeups;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use claims::Claimed;
pub use event_reader::{Follower, Step, WaitFor};
pub use leases::LeaseWatch;
pub use stats::{Call, CallStats, ServiceStats, Times};

use crate::error::{Error, LostWhy};
use crate::event::EventFilter;
use crate::id::JobId;
use crate::job::NewJob;
use crate::limits::Limits;
use crate::request::{
    ClaimRequest, Completed, Completion, Enqueued, Extension, Failed, Failure, Listener, LogReport,
    ProgressReport, Release, Released,
};
use crate::state::{Next, State};
use crate::store::{JobQueue, JobStore, StoreControl};
use crate::token::{Lease, SECRET_BYTES, SECRET_METADATA, TokenKey};
use batcher::{Batcher, Bounds};
use claims::Claims;
use event_reader::EventReader;
use maintenance::MaintenanceTasks;
use stats::{Counts, Meter};
use wakeups::Wakeups;

/// Watched leases are looked at once in so many polls: cancellations are told of, so this is for those that got lost.
const LEASE_LOOK_POLLS: u32 = 10;

/// Settings of the service.
#[derive(Clone, Debug)]
pub struct Config {
    pub limits: Limits,
    /// Most registrations per commit.
    pub enqueue_batch_max: usize,
    /// Most claims and most reports per commit.
    pub report_batch_max: usize,
    /// Most bytes per commit, unless a single call has more.
    pub batch_bytes_max: usize,
    /// How many batches may wait before calls fail as busy.
    pub batches_waiting_max: usize,
    /// Most time that registrations wait for the store, by its pace, before further ones fail as busy.
    pub enqueue_wait_max: Duration,
    /// Most claims that wait at a time.
    pub waiting_claims_max: usize,
    /// Longest interval at which waiting workers and readers poll without a notification.
    pub poll: Duration,
    /// How long events are kept.
    pub events_retention: Duration,
    /// Whether this server runs maintenance. All may; one is enough.
    pub upkeep: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            limits: Limits::default(),
            enqueue_batch_max: 1_024,
            report_batch_max: 512,
            batch_bytes_max: 1 << 20,
            batches_waiting_max: 8,
            enqueue_wait_max: Duration::from_millis(100),
            waiting_claims_max: 10_000,
            poll: Duration::from_millis(500),
            events_retention: Duration::from_secs(7 * 24 * 3600),
            upkeep: true,
        }
    }
}

/// The handle. Cheap to clone; the tasks behind it end with [`Jobs::stop`].
#[derive(Clone)]
pub struct Jobs {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn JobStore>,
    config: Config,
    key: TokenKey,
    wakeups: Arc<Wakeups>,
    claims: Claims,
    event_reader: EventReader,
    maintenance: MaintenanceTasks,
    counts: Arc<Counts>,
    enqueues: Batcher<NewJob, Enqueued>,
    completions: Batcher<Completion, Completed>,
    failures: Batcher<Failure, Failed>,
    releases: Batcher<Release, Released>,
    extensions: Batcher<Extension, i64>,
    progress: Batcher<ProgressReport, ()>,
    logs: Batcher<LogReport, ()>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl Jobs {
    /// Starts the tasks around a store. Reads the secret of its tokens, or creates it.
    pub async fn start(store: Arc<dyn JobStore>, config: Config) -> Result<Jobs, Error> {
        let key = token_key(&*store).await?;
        let head = store.log_bounds().await?.head;
        let wakeups = Arc::new(Wakeups::new(head));
        store.set_listener(Arc::clone(&wakeups) as Arc<dyn Listener>);
        let shutdown = CancellationToken::new();
        let tasks = TaskTracker::new();
        let counts = Arc::new(Counts::default());
        let batchers = Batchers {
            store: store.clone(),
            config: &config,
            counts: &counts,
            tasks: &tasks,
        };
        let inner = Inner {
            enqueues: batchers.enqueues(),
            completions: batchers.completions(),
            failures: batchers.failures(),
            releases: batchers.releases(),
            extensions: batchers.extensions(),
            progress: batchers.progress(),
            logs: batchers.logs(),
            claims: Claims::start(store.clone(), &wakeups, &config, &counts, &shutdown, &tasks),
            event_reader: EventReader::start(store.clone(), &wakeups, &config, &shutdown, &tasks),
            maintenance: MaintenanceTasks::start(&store, &config, &shutdown, &tasks),
            counts,
            store,
            config,
            key,
            wakeups,
            shutdown,
            tasks,
        };
        Ok(Jobs {
            inner: Arc::new(inner),
        })
    }

    /// The store itself, for calls that need no batching.
    pub fn store(&self) -> &Arc<dyn JobStore> {
        &self.inner.store
    }

    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// Returns the token of an attempt.
    pub fn token(&self, lease: Lease) -> String {
        self.inner.key.mint(lease)
    }

    /// Verifies a token. It must belong to the given job, if any.
    pub fn lease(&self, token: &str, id: Option<JobId>) -> Result<Lease, Error> {
        let lease = self.inner.key.verify(token);
        lease
            .filter(|lease| id.is_none_or(|id| id == lease.id))
            .ok_or(Error::LeaseLost {
                why: LostWhy::Unknown,
                state: None,
            })
    }

    /// Registers jobs. Each is checked against the limits first.
    pub async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Enqueued, Error>>, Error> {
        let limits = self.inner.config.limits;
        let checked: Vec<Result<(), Error>> = jobs.iter().map(|job| job.check(&limits)).collect();
        let fine = jobs
            .into_iter()
            .zip(&checked)
            .filter(|(_, checked)| checked.is_ok());
        let fine: Vec<NewJob> = fine.map(|(job, _)| job).collect();
        let mut answers = if fine.is_empty() {
            Vec::new().into_iter()
        } else {
            self.inner.enqueues.submit(fine).await?.into_iter()
        };
        let mut scheduled = false;
        let merged = checked.into_iter().map(|checked| {
            let answer = checked.and_then(|()| answers.next().unwrap_or(Err(Error::Busy)));
            scheduled |= matches!(&answer, Ok(enqueued) if enqueued.state == State::Scheduled);
            answer
        });
        let merged = merged.collect();
        if scheduled {
            self.inner.maintenance.wake_due_mover();
        }
        Ok(merged)
    }

    /// Claims jobs for a worker; waits for the first one up to `wait`. When the caller disconnects while the
    /// store answers, the jobs become ready again.
    pub async fn claim(&self, request: ClaimRequest, wait: Duration) -> Result<Vec<Claimed>, Error> {
        let jobs = self.inner.claims.claim(request, wait).await?;
        let token = |job: crate::request::ClaimedJob| Claimed {
            token: self.token(job.lease),
            job,
        };
        Ok(jobs.into_iter().map(token).collect())
    }

    pub async fn complete(&self, reports: Vec<Completion>) -> Result<Vec<Result<Completed, Error>>, Error> {
        let bytes_max = self.inner.config.limits.result_bytes_max;
        for result in reports.iter().filter_map(|report| report.result.as_ref()) {
            let bytes = result.bytes.len();
            if bytes > bytes_max {
                return Err(Error::TooLarge {
                    what: "result",
                    bytes,
                    bytes_max,
                });
            }
            result.check("result")?;
        }
        self.record_reports(reports.iter().map(|report| report.lease));
        self.inner.completions.submit(reports).await
    }

    pub async fn fail(&self, reports: Vec<Failure>) -> Result<Vec<Result<Failed, Error>>, Error> {
        self.record_reports(reports.iter().map(|report| report.lease));
        let answers = self.inner.failures.submit(reports).await?;
        let later =
            |answer: &Result<Failed, Error>| matches!(answer, Ok(Failed::Taken(Next::Scheduled { .. })));
        if answers.iter().any(later) {
            self.inner.maintenance.wake_due_mover();
        }
        Ok(answers)
    }

    /// Gives jobs back; their attempts do not count.
    pub async fn release(&self, releases: Vec<Release>) -> Result<Vec<Result<Released, Error>>, Error> {
        let answers = self.inner.releases.submit(releases).await?;
        let later = |answer: &Result<Released, Error>| matches!(answer, Ok(Released::Scheduled { .. }));
        if answers.iter().any(later) {
            self.inner.maintenance.wake_due_mover();
        }
        Ok(answers)
    }

    /// Watches leases for their holder.
    pub fn watch_leases(&self, leases: impl IntoIterator<Item = Lease>) -> LeaseWatch {
        let interval = self.inner.config.poll * LEASE_LOOK_POLLS;
        LeaseWatch::new(self.inner.store.clone(), &self.inner.wakeups, leases, interval)
    }

    fn record_reports(&self, leases: impl Iterator<Item = Lease>) {
        self.inner.counts.reported(&leases.collect::<Vec<_>>());
    }

    pub async fn extend(&self, extensions: Vec<Extension>) -> Result<Vec<Result<i64, Error>>, Error> {
        self.inner.extensions.submit(extensions).await
    }

    pub async fn progress(&self, reports: Vec<ProgressReport>) -> Result<Vec<Result<(), Error>>, Error> {
        self.inner.progress.submit(reports).await
    }

    pub async fn log(&self, reports: Vec<LogReport>) -> Result<Vec<Result<(), Error>>, Error> {
        self.inner.logs.submit(reports).await
    }

    /// Waits until one or all of several jobs have ended, up to `wait`. Returns their states then; `None` for those
    /// that do not exist, which count as ended.
    pub async fn wait_until_ended(
        &self,
        ids: &[JobId],
        until: WaitFor,
        wait: Duration,
    ) -> Result<Vec<Option<State>>, Error> {
        self.inner
            .event_reader
            .wait_until_ended(&*self.inner.store, ids, until, wait)
            .await
    }

    /// Follows the log from a position.
    pub fn follow(&self, after: u64, filter: EventFilter) -> Follower {
        Follower::new(
            self.inner.store.clone(),
            &self.inner.wakeups,
            after,
            filter,
            self.inner.config.poll,
        )
    }

    /// Resolves when there may be new deliveries to webhooks. For one caller at a time.
    pub async fn deliveries_made(&self) {
        self.inner.wakeups.deliveries.notified().await;
    }

    /// Lets maintenance look for due jobs at once: one may be due earlier than before.
    pub fn wake_due_mover(&self) {
        self.inner.maintenance.wake_due_mover();
    }

    /// Returns how many workers wait for jobs of a queue on this server.
    pub fn waiting_workers(&self, queue: &crate::QueueName) -> usize {
        self.inner.wakeups.waiting_workers(queue)
    }

    /// Returns what this server has counted since its start.
    pub fn stats(&self) -> ServiceStats {
        let (head, read) = self.inner.wakeups.log_positions();
        self.inner.counts.read(head, read)
    }

    /// Answers all waiting claims, and lets none wait from now on: their connections are about to be closed.
    pub fn release_waiting_workers(&self) {
        self.inner.wakeups.draining.cancel();
    }

    /// Ends all waits, finishes calls in progress, and ends the tasks. The store stays open.
    pub async fn stop(&self) {
        self.inner.shutdown.cancel();
        self.inner.enqueues.close();
        self.inner.completions.close();
        self.inner.failures.close();
        self.inner.releases.close();
        self.inner.extensions.close();
        self.inner.progress.close();
        self.inner.logs.close();
        self.inner.wakeups.close();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

/// Reads the secret that all servers of a store share, or creates it.
async fn token_key(store: &dyn StoreControl) -> Result<TokenKey, Error> {
    let fresh = TokenKey::random().secret().to_vec();
    let secret = store
        .metadata_or_insert(SECRET_METADATA.to_owned(), fresh)
        .await?;
    let secret: [u8; SECRET_BYTES] = secret.try_into().map_err(|_| Error::Damaged {
        what: "the secret of the tokens".into(),
    })?;
    Ok(TokenKey::new(secret))
}

/// Creates the batchers with their limits.
struct Batchers<'a> {
    store: Arc<dyn JobQueue>,
    config: &'a Config,
    counts: &'a Arc<Counts>,
    tasks: &'a TaskTracker,
}

impl Batchers<'_> {
    fn meter(&self, call: Call) -> Meter {
        Meter {
            call,
            counts: Arc::clone(self.counts),
        }
    }

    fn bounds(&self, items_max: usize) -> Bounds {
        Bounds {
            items_max,
            bytes_max: self.config.batch_bytes_max,
            waiting_max: items_max * self.config.batches_waiting_max,
            wait_max: Duration::MAX,
        }
    }

    fn reports(&self) -> Bounds {
        self.bounds(self.config.report_batch_max)
    }

    fn enqueues(&self) -> Batcher<NewJob, Enqueued> {
        let store = Arc::clone(&self.store);
        // Only what is new is refused early: a report that is not taken would cost work that is done.
        let bounds = Bounds {
            wait_max: self.config.enqueue_wait_max,
            ..self.bounds(self.config.enqueue_batch_max)
        };
        Batcher::start(bounds, self.meter(Call::Enqueue), self.tasks, move |jobs| {
            let store = Arc::clone(&store);
            async move { store.enqueue(jobs).await }
        })
    }

    fn completions(&self) -> Batcher<Completion, Completed> {
        let store = Arc::clone(&self.store);
        Batcher::start(
            self.reports(),
            self.meter(Call::Complete),
            self.tasks,
            move |reports| {
                let store = Arc::clone(&store);
                async move { store.complete(reports).await }
            },
        )
    }

    fn failures(&self) -> Batcher<Failure, Failed> {
        let store = Arc::clone(&self.store);
        Batcher::start(
            self.reports(),
            self.meter(Call::Fail),
            self.tasks,
            move |reports| {
                let store = Arc::clone(&store);
                async move { store.fail(reports).await }
            },
        )
    }

    fn releases(&self) -> Batcher<Release, Released> {
        let store = Arc::clone(&self.store);
        Batcher::start(
            self.reports(),
            self.meter(Call::Release),
            self.tasks,
            move |releases| {
                let store = Arc::clone(&store);
                async move { store.release(releases).await }
            },
        )
    }

    fn extensions(&self) -> Batcher<Extension, i64> {
        let store = Arc::clone(&self.store);
        Batcher::start(
            self.reports(),
            self.meter(Call::Extend),
            self.tasks,
            move |extensions| {
                let store = Arc::clone(&store);
                async move { store.extend(extensions).await }
            },
        )
    }

    fn progress(&self) -> Batcher<ProgressReport, ()> {
        let store = Arc::clone(&self.store);
        Batcher::start(
            self.reports(),
            self.meter(Call::Progress),
            self.tasks,
            move |reports| {
                let store = Arc::clone(&store);
                async move { store.progress(reports).await }
            },
        )
    }

    fn logs(&self) -> Batcher<LogReport, ()> {
        let store = Arc::clone(&self.store);
        Batcher::start(
            self.reports(),
            self.meter(Call::Log),
            self.tasks,
            move |reports| {
                let store = Arc::clone(&store);
                async move { store.log(reports).await }
            },
        )
    }
}
