//! Many clients at work while the database goes away, again and again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nagaya_jobs::backoff::Backoff;
use nagaya_jobs::error::{Fault, LostWhy};
use nagaya_jobs::event::EventFilter;
use nagaya_jobs::job::{Concurrency, Idempotency};
use nagaya_jobs::request::{ClaimedJob, Completed, Failed, Failure};
use nagaya_jobs::state::{FailureTerms, Next};
use nagaya_jobs::store::{EventLog, JobQueue, JobReader, Maintenance, StoreControl};
use nagaya_jobs::{Error, NewJob, State};
use nagaya_jobs_postgres::{Options, PgStore};
use nagaya_testkit::{Postgres, TcpProxy, shared};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ledger::Ledger;
use super::{PAUSE, done, insist, open, open_with, run, until};
use crate::support::{job, wants};

const CLIENTS: usize = 3;
const WORKERS: usize = 4;
const MAX_RETRIES: u32 = 30;
const PATIENCE: Duration = Duration::from_secs(60);

/// Clients, workers and maintenance at one database, through one or more servers.
struct Storm {
    ledger: Arc<Ledger>,
    stores: Vec<Arc<PgStore>>,
    /// No more registrations.
    is_over: Arc<AtomicBool>,
    /// Nothing is left to do.
    is_done: Arc<AtomicBool>,
    clients: JoinSet<()>,
    tasks: JoinSet<()>,
}

impl Storm {
    fn start(stores: Vec<Arc<PgStore>>) -> Storm {
        let mut storm = Storm {
            ledger: Arc::default(),
            stores,
            is_over: Arc::default(),
            is_done: Arc::default(),
            clients: JoinSet::new(),
            tasks: JoinSet::new(),
        };
        let at = |number: usize| Arc::clone(&storm.stores[number % storm.stores.len()]);
        for number in 0..CLIENTS {
            let (ledger, is_over) = (Arc::clone(&storm.ledger), Arc::clone(&storm.is_over));
            storm.clients.spawn(client(at(number), ledger, number, is_over));
        }
        for number in 0..WORKERS {
            let (ledger, is_done) = (Arc::clone(&storm.ledger), Arc::clone(&storm.is_done));
            storm.tasks.spawn(worker(at(number), ledger, is_done));
        }
        for store in &storm.stores {
            storm
                .tasks
                .spawn(upkeep(Arc::clone(store), Arc::clone(&storm.is_done)));
        }
        storm.tasks.spawn(follower(at(0), Arc::clone(&storm.is_done)));
        storm
    }

    /// Waits until this many more jobs were registered and ended.
    async fn advance(&self, jobs: usize) {
        let (made, ended) = (self.ledger.registrations() + jobs, self.ledger.ends() + jobs);
        let has_advanced = async || self.ledger.registrations() >= made && self.ledger.ends() >= ended;
        until("the clients go on", PATIENCE, has_advanced).await;
    }

    /// Lets the clients finish and everything end, and compares.
    async fn finish(mut self, count: impl FnOnce() -> String) {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended.unwrap();
        }
        let store = Arc::clone(&self.stores[0]);
        until("all jobs end", PATIENCE, async || {
            let states = insist(|| store.states(self.ledger.ids())).await;
            states.iter().all(|state| state.is_some_and(State::has_ended))
        })
        .await;
        self.is_done.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        let jobs_in_store = count().parse().unwrap();
        self.ledger.check(&store, MAX_RETRIES, jobs_in_store).await;
        for store in &self.stores {
            store.close().await;
        }
    }
}

fn keyed_job(key: String, round: usize) -> NewJob {
    let mut job = job(200);
    job.timeout = Some(Duration::from_secs(2));
    job.max_retries = Some(MAX_RETRIES);
    job.backoff = Some(Backoff::None);
    job.idempotency = Some(Idempotency {
        key,
        window: None,
        fingerprint: None,
    });
    if round.is_multiple_of(4) {
        job.concurrency = Some(Concurrency {
            key: format!("{}", round % 3),
            limit: 3,
        });
    }
    job
}

/// Registers jobs, each until it is acknowledged, some once more.
async fn client(store: Arc<PgStore>, ledger: Arc<Ledger>, number: usize, is_over: Arc<AtomicBool>) {
    for round in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let mut missing: Vec<NewJob> = (0..5)
            .map(|one| keyed_job(format!("{number}-{round}-{one}"), round + one))
            .collect();
        if round.is_multiple_of(3) {
            missing.push(missing[0].clone());
        }
        while !missing.is_empty() {
            let answers = insist(|| store.enqueue(missing.clone())).await;
            let mut again = Vec::new();
            for (job, answer) in missing.into_iter().zip(answers) {
                match answer {
                    Ok(made) => ledger.registered(&job.idempotency.as_ref().unwrap().key, made.id),
                    Err(error) => {
                        assert!(error.is_retryable(), "{error:?}");
                        again.push(job);
                    }
                }
            }
            missing = again;
        }
    }
}

async fn worker(store: Arc<PgStore>, ledger: Arc<Ledger>, is_done: Arc<AtomicBool>) {
    while !is_done.load(Ordering::Relaxed) {
        let jobs = match store.claim(vec![wants(6)]).await {
            Ok(mut claimed) => claimed.remove(0),
            Err(error) => {
                assert!(error.is_retryable(), "{error:?}");
                Vec::new()
            }
        };
        if jobs.is_empty() {
            sleep(PAUSE).await;
        }
        for job in &jobs {
            ledger.claimed(job.lease);
        }
        for (at, job) in jobs.iter().enumerate() {
            match at % 5 {
                4 => fail(&store, &ledger, job).await,
                _ => succeed(&store, &ledger, job).await,
            }
        }
    }
}

/// Reports until there is an answer; then once more, which must be answered as a repeat.
async fn succeed(store: &PgStore, ledger: &Ledger, job: &ClaimedJob) {
    let report = async || store.complete(vec![done(job.lease)]).await?.remove(0);
    match insist_on_lease(report).await {
        None => return,
        Some(Completed::Done) => (),
        Some(Completed::Repeated) => ledger.repeated(),
    }
    ledger.ended(job.lease.id, State::Succeeded);
    assert_eq!(insist_on_lease(report).await, Some(Completed::Repeated));
}

async fn fail(store: &PgStore, ledger: &Ledger, job: &ClaimedJob) {
    let failure = Failure {
        lease: job.lease,
        error: "it did not work".into(),
        terms: FailureTerms::default(),
    };
    let report = async || store.fail(vec![failure.clone()]).await?.remove(0);
    match insist_on_lease(report).await {
        Some(Failed::Taken(Next::Failed)) => ledger.ended(job.lease.id, State::Failed),
        Some(Failed::Repeated) => ledger.repeated(),
        Some(Failed::Taken(_)) | None => (),
    }
}

/// As [`insist`]; nothing when the lease ran out in the meantime, the only way to lose it here.
async fn insist_on_lease<T, F: Future<Output = Result<T, Error>>>(
    mut report: impl FnMut() -> F,
) -> Option<T> {
    loop {
        match report().await {
            Ok(answer) => return Some(answer),
            Err(Error::LeaseLost {
                why: LostWhy::Expired,
                ..
            }) => return None,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        sleep(PAUSE).await;
    }
}

async fn upkeep(store: Arc<PgStore>, is_done: Arc<AtomicBool>) {
    while !is_done.load(Ordering::Relaxed) {
        for round in [store.sweep_expired(50).await, store.move_due(50).await] {
            if let Err(error) = round {
                assert!(error.is_retryable(), "{error:?}");
            }
        }
        sleep(PAUSE).await;
    }
}

/// Reads the log as it grows. Nothing may appear behind a position that was read.
async fn follower(store: Arc<PgStore>, is_done: Arc<AtomicBool>) {
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let was_done = is_done.load(Ordering::Relaxed);
        let page = insist(|| store.events_after(after, EventFilter::default(), 500)).await;
        seen.extend(page.events.iter().map(|event| event.seq));
        if page.next != after {
            after = page.next;
        } else if was_done {
            break;
        } else {
            sleep(PAUSE).await;
        }
    }
    let (mut after, mut all) = (0, BTreeSet::new());
    loop {
        let page = insist(|| store.events_after(after, EventFilter::default(), 500)).await;
        all.extend(page.events.iter().map(|event| event.seq));
        if page.next == after {
            break;
        }
        after = page.next;
    }
    assert!(seen.is_sorted_by(|one, next| one < next));
    assert_eq!(seen.len(), all.len(), "events appeared behind a reader");
}

#[test]
fn nothing_acknowledged_is_lost_when_postgres_is_killed() {
    run(async {
        let postgres = Arc::new(Postgres::start());
        let url = postgres.create_database();
        let storm = Storm::start(vec![open(&url).await]);
        for _ in 0..3 {
            storm.advance(60).await;
            let server = Arc::clone(&postgres);
            let restarted = tokio::task::spawn_blocking(move || {
                server.kill9();
                server.restart();
            });
            restarted.await.unwrap();
        }
        storm.advance(60).await;
        storm
            .finish(|| postgres.psql(&url, "select count(*) from jobs_job"))
            .await;
    });
}

#[test]
fn nothing_is_lost_while_sessions_are_ended_and_connections_reset() {
    run(async {
        let postgres = shared::postgres();
        let url = postgres.create_database();
        let proxy = TcpProxy::start(postgres.address());
        let through = url.replace(&postgres.address().to_string(), &proxy.address().to_string());
        assert_ne!(through, url);
        let storm = Storm::start(vec![open(&url).await, open(&through).await]);
        for round in 0..16 {
            storm.advance(10).await;
            if round % 2 == 0 {
                proxy.reset();
            }
            postgres.psql(
                &url,
                "select count(pg_terminate_backend(pid)) from pg_stat_activity where random() < 0.6
                 and application_name = 'nagaya-jobs' and datname = current_database()",
            );
        }
        storm.advance(60).await;
        storm
            .finish(|| postgres.psql(&url, "select count(*) from jobs_job"))
            .await;
    });
}

#[test]
fn a_pool_of_one_connection_refuses_clearly_and_recovers() {
    run(async {
        let url = shared::postgres().create_database();
        let options = Options {
            hot_connections_max: 1,
            cool_connections_max: 2,
            ..Options::default()
        };
        let store = open_with(&url, options).await;
        super::enqueue(&store, vec![job(10)]).await;
        let mut blocker = super::held::session(&url).await;
        let lock = blocker.transaction().await.unwrap();
        lock.batch("LOCK TABLE jobs_ready IN ACCESS EXCLUSIVE MODE")
            .await
            .unwrap();
        let calls = (0..6).map(|_| store.enqueue(vec![job(10)]));
        let mut calls: futures_util::stream::FuturesUnordered<_> = calls.collect();
        for _ in 0..5 {
            let error = futures_util::StreamExt::next(&mut calls)
                .await
                .unwrap()
                .unwrap_err();
            assert!(matches!(error, Error::Busy), "{error:?}");
            assert!(error.is_retryable() && error.fault() == Fault::Load && !error.may_have_happened());
        }
        lock.rollback().await.unwrap();
        futures_util::StreamExt::next(&mut calls).await.unwrap().unwrap();
        // Also calls that need a second look afterwards do with the one connection.
        let ids = super::enqueue(&store, vec![job(10)]).await;
        let mut child = job(10);
        child.depends_on = ids.clone();
        let child = super::enqueue(&store, vec![child]).await;
        let jobs = super::claim(&store, 10).await;
        assert_eq!(jobs.len(), 3);
        let quick = tokio::time::timeout(Duration::from_secs(4), super::complete(&store, &jobs));
        quick.await.expect("no call waits for a second connection");
        assert_eq!(super::claim(&store, 1).await[0].lease.id, child[0]);
        super::assert_sound(&store).await;
    });
}
