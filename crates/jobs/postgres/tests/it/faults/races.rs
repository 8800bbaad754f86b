//! Calls that meet on the same rows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use nagaya_jobs::State;
use nagaya_jobs::job::{Concurrency, Idempotency};
use nagaya_jobs::request::{Failure, FoundBy};
use nagaya_jobs::state::FailureTerms;
use nagaya_jobs::store::{JobQueue, JobReader, Maintenance};
use nagaya_testkit::shared;

use super::{assert_sound, claim, complete, enqueue, held, open_timed, run};
use crate::support::job;

#[test]
fn a_key_whose_window_is_over_makes_one_new_job_however_many_register_it() {
    run(async {
        let url = shared::postgres().create_database();
        let (store, clock) = open_timed(&url).await;
        let mut one = job(10);
        let window = Some(Duration::from_secs(10));
        one.idempotency = Some(Idempotency {
            key: "k".into(),
            window,
            fingerprint: None,
        });
        let mut seen = BTreeSet::new();
        for _ in 0..15 {
            let answers = join_all((0..4).map(|_| store.enqueue(vec![one.clone()]))).await;
            let answers: Vec<_> = answers
                .into_iter()
                .map(|answer| answer.unwrap().remove(0).unwrap())
                .collect();
            let ids: BTreeSet<_> = answers.iter().map(|answer| answer.id).collect();
            assert_eq!(ids.len(), 1, "{answers:?}");
            assert!(seen.insert(answers[0].id), "a key outlived its window");
            let found = answers
                .iter()
                .filter(|one| one.found_by == Some(FoundBy::IdempotencyKey));
            assert_eq!(found.count(), 3);
            clock.advance(Duration::from_secs(11));
        }
        assert_eq!(
            shared::postgres().psql(&url, "select count(*) from jobs_job"),
            "15"
        );
        assert_sound(&store).await;
    });
}

#[test]
fn calls_with_the_same_keys_in_another_order_do_not_wait_for_each_other() {
    // Enough of them that the calls overlap.
    const JOBS: usize = 400;
    run(async {
        let url = shared::postgres().create_database();
        let (store, _clock) = open_timed(&url).await;
        let keyed = |key: usize| {
            let mut job = job(10);
            job.max_retries = Some(0);
            job.concurrency = Some(Concurrency {
                key: format!("{}", key % 10),
                limit: 1_000,
            });
            job.idempotency = Some(Idempotency {
                key: format!("{key}"),
                window: None,
                fingerprint: None,
            });
            job
        };
        for round in 0..6 {
            let forward: Vec<_> = (0..JOBS).map(|key| keyed(round * JOBS + key)).collect();
            let backward: Vec<_> = forward.iter().rev().cloned().collect();
            let (here, there) = tokio::join!(enqueue(&store, forward), enqueue(&store, backward));
            assert_eq!(here, there.into_iter().rev().collect::<Vec<_>>());
            // Half of them end well and half of them badly, in opposite orders.
            let jobs = claim(&store, JOBS).await;
            assert_eq!(jobs.len(), JOBS);
            let failures = jobs[..JOBS / 2].iter().rev().map(|job| Failure {
                lease: job.lease,
                error: "x".into(),
                terms: FailureTerms::default(),
            });
            let (failed, ()) = tokio::join!(
                store.fail(failures.collect()),
                complete(&store, &jobs[JOBS / 2..])
            );
            assert!(failed.unwrap().iter().all(Result::is_ok));
        }
        let waits = "select deadlocks from pg_stat_database where datname = current_database()";
        assert_eq!(shared::postgres().psql(&url, waits), "0");
        assert_sound(&store).await;
    });
}

#[test]
fn an_ended_job_stays_until_those_that_wait_for_it_were_told() {
    run(async {
        let url = shared::postgres().create_database();
        let (store, clock) = open_timed(&url).await;
        let mut parent = job(10);
        parent.retention = Some(Duration::from_secs(1));
        let parent = enqueue(&store, vec![parent]).await;
        let mut child = job(10);
        child.depends_on = parent.clone();
        let child = enqueue(&store, vec![child]).await;
        let jobs = claim(&store, 1).await;
        // No dependent can be resolved while this is held, as when the server dies after its commit.
        let mut session = held::session(&url).await;
        let lock = session.transaction().await.unwrap();
        lock.batch("LOCK TABLE jobs_blocked IN EXCLUSIVE MODE")
            .await
            .unwrap();
        let reporter = Arc::clone(&store);
        let reported = tokio::spawn(async move { complete(&reporter, &jobs).await });
        let has_ended = async || store.states(parent.clone()).await.unwrap()[0] == Some(State::Succeeded);
        super::until("the job ends", Duration::from_secs(30), has_ended).await;
        clock.advance(Duration::from_secs(5));
        assert_eq!(store.purge(10).await.unwrap().rows, 0);
        lock.rollback().await.unwrap();
        reported.await.unwrap();
        assert_eq!(claim(&store, 1).await[0].lease.id, child[0]);
        assert_eq!(store.purge(10).await.unwrap().rows, 1);
        assert_sound(&store).await;
    });
}
