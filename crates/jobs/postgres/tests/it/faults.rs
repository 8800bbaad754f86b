//! Faults of PostgreSQL, of the way to it, and of other servers at the same database.

mod clocks;
mod held;
mod ledger;
mod races;
mod servers;
mod storm;
mod volume;

use std::sync::Arc;
use std::time::Duration;

use nagaya_jobs::clock::ManualClock;
use nagaya_jobs::request::{ClaimedJob, Completed, Completion, Finding};
use nagaya_jobs::store::{JobQueue, StoreControl};
use nagaya_jobs::suite::START_MS;
use nagaya_jobs::token::Lease;
use nagaya_jobs::{Error, JobId, NewJob};
use nagaya_jobs_postgres::{Options, PgStore};
use tokio::time::{Instant, sleep, timeout};

use crate::support::wants;

/// A test that waits for something that never comes must not hang the run.
const LIMIT: Duration = Duration::from_secs(150);
/// The pause of a client whose call failed. Clients in the field wait longer.
const PAUSE: Duration = Duration::from_millis(20);

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime
        .unwrap()
        .block_on(async { timeout(LIMIT, work).await.expect("the test ends in time") });
}

async fn open_with(url: &str, options: Options) -> Arc<PgStore> {
    Arc::new(PgStore::open(&url.parse().unwrap(), options).await.unwrap())
}

async fn open(url: &str) -> Arc<PgStore> {
    open_with(url, Options::default()).await
}

/// Opens a store that goes by a clock of the test.
async fn open_timed(url: &str) -> (Arc<PgStore>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(START_MS));
    let options = Options {
        clock: Some(Arc::clone(&clock) as _),
        ..Options::default()
    };
    (open_with(url, options).await, clock)
}

async fn enqueue(store: &PgStore, jobs: Vec<NewJob>) -> Vec<JobId> {
    let answers = store.enqueue(jobs).await.unwrap();
    answers.into_iter().map(|answer| answer.unwrap().id).collect()
}

async fn claim(store: &PgStore, max: usize) -> Vec<ClaimedJob> {
    store.claim(vec![wants(max)]).await.unwrap().remove(0)
}

fn done(lease: Lease) -> Completion {
    Completion { lease, result: None }
}

async fn complete(store: &PgStore, jobs: &[ClaimedJob]) {
    let reports = jobs.iter().map(|job| done(job.lease)).collect();
    for answer in store.complete(reports).await.unwrap() {
        assert_eq!(answer.unwrap(), Completed::Done);
    }
}

async fn assert_sound(store: &PgStore) {
    assert_eq!(store.check().await.unwrap(), Vec::<Finding>::new());
}

/// Calls until it works, as a client does that knows which errors pass.
async fn insist<T, F: Future<Output = Result<T, Error>>>(mut call: impl FnMut() -> F) -> T {
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        sleep(PAUSE).await;
    }
}

/// Waits until something holds.
async fn until<F: Future<Output = bool>>(
    what: &str,
    limit: Duration,
    mut holds: impl FnMut() -> F,
) -> Duration {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < limit, "waited {limit:?} in vain: {what}");
        sleep(Duration::from_millis(10)).await;
    }
    start.elapsed()
}
