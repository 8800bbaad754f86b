//! Several servers at one database.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nagaya_jobs::event::EventKind;
use nagaya_jobs::queue::QueueSettings;
use nagaya_jobs::request::{CancelRequest, Listener};
use nagaya_jobs::store::{JobQueue, JobReader, Maintenance, QueueAdmin, StoreControl};
use nagaya_jobs::{JobId, QueueName, State};
use nagaya_jobs_postgres::PgStore;
use nagaya_testkit::shared;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::{assert_sound, claim, complete, enqueue, held, open, open_timed, open_with, run, until};
use crate::support::job;

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

/// What another server changed is seen after this; the promise is a second on a machine that is not busy.
const SEEN_WITHIN: Duration = Duration::from_secs(3);

#[test]
fn sixteen_workers_of_two_servers_get_each_job_once() {
    const JOBS: usize = 1_500;
    run(async {
        let url = shared::postgres().create_database();
        let stores = [open(&url).await, open(&url).await];
        let mut made = BTreeSet::new();
        for store in stores.iter().cycle().take(JOBS / 250) {
            made.extend(enqueue(store, vec![job(100); 250]).await);
        }
        let got: Arc<Mutex<Vec<JobId>>> = Arc::default();
        let mut workers = JoinSet::new();
        for number in 0..16 {
            let (store, got) = (Arc::clone(&stores[number % 2]), Arc::clone(&got));
            workers.spawn(async move {
                while got.lock().unwrap().len() < JOBS {
                    let jobs = claim(&store, 1 + number % 7).await;
                    got.lock().unwrap().extend(jobs.iter().map(|job| job.lease.id));
                    complete(&store, &jobs).await;
                }
            });
        }
        while let Some(ended) = workers.join_next().await {
            ended.unwrap();
        }
        let got = got.lock().unwrap().clone();
        assert_eq!(got.len(), JOBS, "a job was handed out twice");
        assert_eq!(got.into_iter().collect::<BTreeSet<_>>(), made);
        assert_sound(&stores[0]).await;
    });
}

async fn sweep(store: &PgStore) -> usize {
    let mut rows = 0;
    loop {
        let round = store.sweep_expired(40).await.unwrap();
        rows += round.rows;
        if !round.more {
            return rows;
        }
    }
}

#[test]
fn two_sweepers_take_each_expired_lease_once_and_one_that_hangs_holds_up_only_its_own() {
    run(async {
        let url = shared::postgres().create_database();
        let (one, clock) = open_timed(&url).await;
        let options = nagaya_jobs_postgres::Options {
            clock: Some(Arc::clone(&clock) as _),
            ..Default::default()
        };
        let other = open_with(&url, options).await;
        enqueue(&one, vec![job(10); 300]).await;
        assert_eq!(claim(&one, 300).await.len(), 300);
        clock.advance(Duration::from_secs(2));
        // A sweeper that stands still in the middle of its round.
        let mut hanging = held::session(&url).await;
        let round = hanging.transaction().await.unwrap();
        let rows = "SELECT id FROM jobs_running ORDER BY lease_until_ms, id LIMIT 60 FOR UPDATE";
        assert_eq!(round.query(rows, &[]).await.unwrap().len(), 60);
        let (here, there) = tokio::join!(sweep(&one), sweep(&other));
        assert_eq!(here + there, 240, "{here} and {there}");
        round.rollback().await.unwrap();
        let (here, there) = tokio::join!(sweep(&one), sweep(&other));
        assert_eq!(here + there, 60, "{here} and {there}");
        let again = claim(&other, 400).await;
        assert_eq!(again.len(), 300);
        assert!(again.iter().all(|job| job.lease.attempt == 2));
        complete(&one, &again).await;
        assert_sound(&one).await;
    });
}

#[test]
fn settings_that_one_server_changes_are_seen_by_the_other() {
    run(async {
        let url = shared::postgres().create_database();
        let (one, other) = (open(&url).await, open(&url).await);
        let mut plain = job(10);
        plain.timeout = None;
        enqueue(&other, vec![plain.clone()]).await;
        one.set_paused(queue(), true).await.unwrap();
        assert!(claim(&other, 1).await.is_empty(), "a pause holds at once");
        one.set_paused(queue(), false).await.unwrap();
        assert_eq!(claim(&other, 1).await.len(), 1);
        let lease = Duration::from_secs(77);
        let settings = QueueSettings {
            lease,
            max_retries: 1,
            ..QueueSettings::default()
        };
        one.put_queue(queue(), settings).await.unwrap();
        let waited = until("the other server sees it", SEEN_WITHIN, async || {
            enqueue(&other, vec![plain.clone()]).await;
            let claimed = claim(&other, 1).await.remove(0);
            claimed.lease_length == lease && claimed.max_retries == 1
        });
        eprintln!("settings were seen after {:?}", waited.await);
    });
}

#[derive(Default)]
struct RecordingListener {
    ready: Notify,
    logged: Notify,
    told: Notify,
    ended: Mutex<Vec<(JobId, EventKind)>>,
}

impl Listener for RecordingListener {
    fn ready(&self, _: &[QueueName]) {
        self.ready.notify_one();
    }

    fn logged(&self, _: u64) {
        self.logged.notify_one();
    }

    fn deliveries(&self) {}

    fn ended(&self, jobs: &[(JobId, EventKind)]) {
        self.ended.lock().unwrap().extend_from_slice(jobs);
        self.told.notify_one();
    }
}

#[test]
fn a_registration_at_one_server_wakes_the_workers_of_the_other() {
    run(async {
        let url = shared::postgres().create_database();
        let (one, other) = (open(&url).await, open(&url).await);
        let listener = Arc::new(RecordingListener::default());
        other.set_listener(Arc::clone(&listener) as _);
        // It listens when the first word has come through.
        until("the other server listens", SEEN_WITHIN, async || {
            enqueue(&one, vec![job(10)]).await;
            timeout(Duration::from_millis(200), listener.ready.notified())
                .await
                .is_ok()
        })
        .await;
        sleep(Duration::from_millis(100)).await;
        for _ in 0..5 {
            // Drain what earlier registrations may still say.
            while timeout(Duration::from_millis(60), listener.ready.notified())
                .await
                .is_ok()
            {}
            let start = Instant::now();
            enqueue(&one, vec![job(10)]).await;
            timeout(SEEN_WITHIN, listener.ready.notified())
                .await
                .expect("it is told of ready jobs");
            timeout(SEEN_WITHIN, listener.logged.notified())
                .await
                .expect("it is told of events");
            eprintln!("woken after {:?}", start.elapsed());
        }
        assert!(!claim(&other, 10).await.is_empty());
    });
}

#[test]
fn a_job_cancelled_at_one_server_is_told_to_the_worker_of_the_other() {
    run(async {
        let url = shared::postgres().create_database();
        let (one, other) = (open(&url).await, open(&url).await);
        let listener = Arc::new(RecordingListener::default());
        other.set_listener(Arc::clone(&listener) as _);
        // Again until it listens: a hint may be lost while it connects.
        until("the other server is told", SEEN_WITHIN, async || {
            let id = enqueue(&one, vec![job(10)]).await[0];
            claim(&other, 1).await;
            let request = CancelRequest { id, reason: None };
            one.cancel(vec![request]).await.unwrap().remove(0).unwrap();
            let is_told = || {
                listener
                    .ended
                    .lock()
                    .unwrap()
                    .contains(&(id, EventKind::Cancelled))
            };
            let told = async {
                while !is_told() {
                    listener.told.notified().await;
                }
            };
            timeout(Duration::from_millis(500), told).await.is_ok()
        })
        .await;
    });
}

#[test]
fn a_job_that_kills_its_worker_each_time_ends_failed_after_its_tries() {
    run(async {
        let url = shared::postgres().create_database();
        let (one, clock) = open_timed(&url).await;
        let mut poison = job(10);
        poison.max_retries = Some(4);
        let id = enqueue(&one, vec![poison]).await[0];
        for attempt in 1..=5 {
            let claimed = claim(&one, 1).await;
            assert_eq!(claimed[0].lease.attempt, attempt);
            clock.advance(Duration::from_secs(5));
            assert_eq!(sweep(&one).await, 1);
        }
        assert!(claim(&one, 1).await.is_empty());
        let view = one.read(vec![id]).await.unwrap().remove(0).unwrap();
        assert_eq!(view.summary.state, State::Failed);
        assert_eq!(view.attempts.len(), 5);
        assert_sound(&one).await;
    });
}
