//! The worker: every job once, leases extended, losses detected, nothing dropped at shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nagaya_client::{Attempt, CancellationToken, Failure, NewJob, Stopped, Tally, Worker};
use serde_json::json;
use tokio::sync::Notify;

use crate::fake::{Fake, Fault};

async fn with_jobs(count: usize) -> Fake {
    let fake = Fake::start().await;
    let jobs = (0..count).map(|n| NewJob::new("q", &n).unwrap()).collect();
    fake.client().enqueue_many(jobs).await.unwrap();
    fake
}

fn worker(fake: &Fake) -> Worker {
    Worker::new(fake.client(), "q").grace(Duration::from_secs(5))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_job_is_run_and_reported_within_the_concurrency() {
    let fake = with_jobs(50).await;
    let shutdown = CancellationToken::new();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let handler = move |attempt: Attempt| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            let number: u64 = attempt.payload()?;
            match number {
                7 => Err(Failure::permanent("seven")),
                _ => Ok(number * 2),
            }
        }
    };
    let running = tokio::spawn(worker(&fake).concurrency(4).run(handler, shutdown.clone()));
    fake.until(|server| {
        server
            .jobs
            .values()
            .all(|job| job.state == "succeeded" || job.state == "failed")
    })
    .await;
    shutdown.cancel();
    let tally = running.await.unwrap().unwrap();
    assert_eq!(
        tally,
        Tally {
            succeeded: 49,
            failed: 1,
            ..Tally::default()
        }
    );
    assert!(seen.load(Ordering::SeqCst) <= 4);
    let server = fake.server();
    assert_eq!(server.jobs[&11].result, Some(json!(20)));
    let failure = server.jobs[&8].failure.as_ref().unwrap();
    assert_eq!(
        (&failure["error"], &failure["permanent"]),
        (&json!("seven"), &json!(true))
    );
}

#[tokio::test]
async fn a_lease_is_extended_while_the_handler_works() {
    let fake = with_jobs(1).await;
    fake.server().lease_seconds = 0.3;
    let go = Arc::new(Notify::new());
    let (shutdown, wait) = (CancellationToken::new(), Arc::clone(&go));
    let handler = move |_: Attempt| {
        let wait = Arc::clone(&wait);
        async move {
            wait.notified().await;
            Ok::<_, Failure>(())
        }
    };
    let running = tokio::spawn(worker(&fake).run(handler, shutdown.clone()));
    fake.until(|server| server.jobs[&1].extensions >= 3).await;
    go.notify_one();
    fake.until(|server| server.jobs[&1].state == "succeeded").await;
    shutdown.cancel();
    assert_eq!(running.await.unwrap().unwrap().succeeded, 1);
}

#[tokio::test]
async fn a_lost_lease_stops_the_handler_and_nothing_is_reported() {
    let fake = with_jobs(1).await;
    fake.server().lease_seconds = 0.3;
    fake.fail("extend", Fault::LeaseLost);
    let (shutdown, stopped) = (CancellationToken::new(), Arc::new(Notify::new()));
    let (end, told) = (shutdown.clone(), Arc::clone(&stopped));
    let handler = move |attempt: Attempt| {
        let (end, told) = (end.clone(), Arc::clone(&told));
        async move {
            assert_eq!(
                attempt.stopped().await,
                Stopped::LeaseLost("as told (status 409)".into())
            );
            told.notify_one();
            end.cancel();
            Ok::<_, Failure>("too late")
        }
    };
    let tally = worker(&fake).run(handler, shutdown).await.unwrap();
    stopped.notified().await;
    assert_eq!(tally.lost, 1);
    let server = fake.server();
    assert!(!server.calls.contains_key("complete") && !server.calls.contains_key("fail"));
}

#[tokio::test]
async fn a_server_that_is_silent_for_a_lease_loses_it_by_our_own_clock() {
    let fake = with_jobs(1).await;
    fake.server().lease_seconds = 0.3;
    (0..1000).for_each(|_| fake.fail("extend", Fault::Refused(503)));
    let shutdown = CancellationToken::new();
    let end = shutdown.clone();
    let handler = move |attempt: Attempt| {
        let end = end.clone();
        async move {
            let why = attempt.stopped().await;
            end.cancel();
            assert!(matches!(why, Stopped::LeaseLost(words) if words.contains("in time")));
            Ok::<_, Failure>(())
        }
    };
    assert_eq!(worker(&fake).run(handler, shutdown).await.unwrap().lost, 1);
}

#[tokio::test]
async fn a_completion_whose_answer_was_lost_is_repeated() {
    let fake = with_jobs(1).await;
    (0..6).for_each(|_| fake.fail("complete", Fault::AnswerLost));
    let shutdown = CancellationToken::new();
    let handler = |_: Attempt| async { Ok::<_, Failure>("done") };
    let running = tokio::spawn(worker(&fake).run(handler, shutdown.clone()));
    fake.until(|server| server.calls.get("complete") == Some(&7))
        .await;
    shutdown.cancel();
    assert_eq!(running.await.unwrap().unwrap().succeeded, 1);
}

#[tokio::test]
async fn a_shutdown_lets_what_runs_finish_and_claims_no_more() {
    let fake = with_jobs(3).await;
    let (shutdown, go) = (CancellationToken::new(), Arc::new(Notify::new()));
    let wait = Arc::clone(&go);
    let handler = move |_: Attempt| {
        let wait = Arc::clone(&wait);
        async move {
            wait.notified().await;
            Ok::<_, Failure>(())
        }
    };
    let running = tokio::spawn(worker(&fake).run(handler, shutdown.clone()));
    fake.until(|server| server.jobs[&1].state == "running").await;
    shutdown.cancel();
    go.notify_one();
    assert_eq!(running.await.unwrap().unwrap().succeeded, 1);
    let states: Vec<_> = fake.server().jobs.values().map(|job| job.state).collect();
    assert_eq!(states, ["succeeded", "waiting", "waiting"]);
}

#[tokio::test]
async fn a_drain_that_takes_too_long_stops_handlers_and_gives_their_jobs_back() {
    let fake = with_jobs(1).await;
    let shutdown = CancellationToken::new();
    let handler = |attempt: Attempt| async move {
        assert_eq!(attempt.stopped().await, Stopped::Draining);
        Err::<(), _>(Failure::retry("interrupted"))
    };
    let worker = worker(&fake).drain_limit(Duration::from_millis(1));
    let running = tokio::spawn(worker.run(handler, shutdown.clone()));
    fake.until(|server| server.jobs[&1].state == "running").await;
    shutdown.cancel();
    assert_eq!(running.await.unwrap().unwrap().failed, 1);
    assert_eq!(
        fake.server().jobs[&1].failure.as_ref().unwrap()["error"],
        "interrupted"
    );
}

#[tokio::test]
async fn a_handler_that_does_not_stop_at_a_shutdown_costs_its_job_no_attempt() {
    let fake = with_jobs(1).await;
    let shutdown = CancellationToken::new();
    let handler = |_: Attempt| std::future::pending::<Result<(), Failure>>();
    let worker = worker(&fake)
        .drain_limit(Duration::from_millis(1))
        .grace(Duration::from_millis(1));
    let running = tokio::spawn(worker.run(handler, shutdown.clone()));
    fake.until(|server| server.jobs[&1].state == "running").await;
    shutdown.cancel();
    let tally = running.await.unwrap().unwrap();
    assert_eq!((tally.given_back, tally.failed, tally.lost), (1, 0, 0));
    let job = fake.server().jobs[&1].clone();
    assert_eq!((job.state, job.attempts), ("waiting", 0));
}

#[tokio::test]
async fn a_handler_that_panics_fails_its_own_attempt_only() {
    let fake = with_jobs(2).await;
    let shutdown = CancellationToken::new();
    let handler = |attempt: Attempt| async move {
        match attempt.id() {
            "1" => panic!("on purpose"),
            _ => Ok::<_, Failure>(()),
        }
    };
    let running = tokio::spawn(worker(&fake).run(handler, shutdown.clone()));
    fake.until(|server| server.jobs[&2].state == "succeeded").await;
    shutdown.cancel();
    let tally = running.await.unwrap().unwrap();
    assert_eq!((tally.succeeded, tally.failed), (1, 1));
    let failure = fake.server().jobs[&1].failure.clone().unwrap();
    assert_eq!(failure["error"], "the handler panicked");
    assert_eq!(failure["permanent"], false);
}

#[tokio::test]
async fn a_worker_outlives_a_server_that_is_away_and_ends_when_it_is_refused() {
    let fake = with_jobs(1).await;
    fake.fail("claim", Fault::Refused(503));
    let shutdown = CancellationToken::new();
    let handler = |_: Attempt| async { Ok::<_, Failure>(()) };
    let running = tokio::spawn(worker(&fake).run(handler, shutdown.clone()));
    fake.until(|server| server.jobs[&1].state == "succeeded").await;
    fake.fail("claim", Fault::Refused(403));
    fake.client()
        .enqueue(NewJob::new("q", &1).unwrap())
        .await
        .unwrap();
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.problem().map(|problem| problem.status), Some(403));
}

#[tokio::test]
async fn progress_and_log_lines_reach_the_job() {
    let fake = with_jobs(1).await;
    let shutdown = CancellationToken::new();
    let end = shutdown.clone();
    let handler = move |attempt: Attempt| {
        let end = end.clone();
        async move {
            attempt.progress(0.25, Some("a quarter")).await?;
            attempt.log(&["one".to_owned(), "two".to_owned()]).await?;
            end.cancel();
            Ok::<_, Failure>(())
        }
    };
    worker(&fake).run(handler, shutdown).await.unwrap();
    let job = fake.server().jobs[&1].clone();
    assert_eq!(job.progress.unwrap()["progress"], 0.25);
    assert_eq!(job.log, ["one", "two"]);
}
