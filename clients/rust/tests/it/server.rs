//! The client against the real API, on SQLite.

use std::sync::Arc;
use std::time::Duration;

use nagaya_client::{
    Attempt, CancellationToken, Claim, Client, Completion, Failure, Filter, NewJob, NewSchedule, State,
    Stopped, Until, Worker,
};
use nagaya_jobs::clock::SystemClock;
use nagaya_jobs::service::{Config, Jobs};
use nagaya_jobs_api::{Api, ApiConfig, AuthConfig, routes};
use nagaya_jobs_sqlite::{Options, SqliteJobs};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);

struct TestServer {
    client: Client,
    _folder: tempfile::TempDir,
}

async fn start() -> TestServer {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.sqlite");
    let store = SqliteJobs::open(file, &Options::default(), Arc::new(SystemClock)).unwrap();
    let jobs = Jobs::start(Arc::new(store), Config::default()).await.unwrap();
    let auth = AuthConfig {
        server_token: None,
        open: true,
    };
    let api = Api::new(jobs, auth, ApiConfig::default(), CancellationToken::new());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes(api)).await.unwrap() });
    TestServer {
        client: Client::new(&url).unwrap(),
        _folder: folder,
    }
}

fn claim(max: usize) -> Claim {
    Claim {
        worker: "w".to_owned(),
        max,
        wait: Duration::from_secs(10),
        holding: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_registered_worked_on_and_read() {
    let server = start().await;
    let jobs = vec![
        NewJob::new("sum", &json!([1, 2])).unwrap(),
        NewJob::new("no such name!", &1).unwrap(),
        NewJob::new("sum", &json!("not numbers")).unwrap().max_retries(0),
    ];
    // A malformed job fails the whole call or only itself; either way the client reports which.
    let outcomes = server.client.enqueue_many(jobs.clone()).await;
    assert!(outcomes.is_err() || outcomes.is_ok_and(|outcomes| outcomes[1].is_err()));
    let mut ids = Vec::new();
    for job in [&jobs[0], &jobs[2]] {
        ids.push(server.client.enqueue(job.clone()).await.unwrap().id);
    }
    let shutdown = CancellationToken::new();
    let handler = async |attempt: Attempt| {
        let numbers: Vec<i64> = attempt.payload()?;
        attempt.progress(0.5, Some("adding")).await?;
        attempt.log(&["added".to_owned()]).await?;
        Ok::<_, Failure>(numbers.iter().sum::<i64>())
    };
    let handler = move |attempt| handler(attempt);
    let running = tokio::spawn(Worker::new(server.client.clone(), "sum").run(handler, shutdown.clone()));
    let good = server.client.wait(&ids[0], PATIENCE).await.unwrap();
    let bad = server.client.wait(&ids[1], PATIENCE).await.unwrap();
    shutdown.cancel();
    running.await.unwrap().unwrap();
    assert_eq!((good.state, good.attempts), (State::Succeeded, 1));
    assert_eq!(good.result::<i64>().unwrap(), Some(3));
    assert_eq!(bad.state, State::Failed);
    assert!(bad.error.unwrap().contains("payload could not be read"));
    let filter = Filter {
        queue: Some("sum".to_owned()),
        state: Some(State::Failed),
        ..Filter::default()
    };
    let page = server.client.list(&filter).await.unwrap();
    assert_eq!((page.jobs.len(), page.jobs[0].id.as_str()), (1, ids[1].as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_stops_its_handler() {
    let server = start().await;
    let job = NewJob::new("q", &1).unwrap().timeout(Duration::from_secs(1));
    let id = server.client.enqueue(job).await.unwrap().id;
    let (shutdown, client) = (CancellationToken::new(), server.client.clone());
    let handler = move |attempt: Attempt| {
        let client = client.clone();
        async move {
            client.cancel(attempt.id()).await?;
            assert!(matches!(attempt.stopped().await, Stopped::LeaseLost(_)));
            Ok::<_, Failure>(())
        }
    };
    let running = tokio::spawn(Worker::new(server.client.clone(), "q").run(handler, shutdown.clone()));
    let job = server.client.wait(&id, PATIENCE).await.unwrap();
    assert_eq!(job.state, State::Cancelled);
    shutdown.cancel();
    assert_eq!(running.await.unwrap().unwrap().lost, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_a_free_place_hears_of_a_cancelled_job_at_once() {
    let server = start().await;
    // So long a lease that no extension can be what tells.
    let job = NewJob::new("q", &1).unwrap().timeout(Duration::from_secs(3600));
    let id = server.client.enqueue(job).await.unwrap().id;
    let (shutdown, started) = (CancellationToken::new(), Arc::new(tokio::sync::Notify::new()));
    let (end, begun) = (shutdown.clone(), Arc::clone(&started));
    let handler = move |attempt: Attempt| {
        let (end, begun) = (end.clone(), Arc::clone(&begun));
        async move {
            begun.notify_one();
            let why = attempt.stopped().await;
            assert_eq!(why, Stopped::LeaseLost("cancelled".to_owned()));
            end.cancel();
            Ok::<_, Failure>(())
        }
    };
    let worker = Worker::new(server.client.clone(), "q").concurrency(2);
    let running = tokio::spawn(worker.run(handler, shutdown));
    started.notified().await;
    server.client.cancel(&id).await.unwrap();
    let tally = tokio::time::timeout(PATIENCE, running).await.unwrap();
    assert_eq!(tally.unwrap().unwrap().lost, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_kept_together_and_given_back() {
    let server = start().await;
    let client = &server.client;
    let mut ids = Vec::new();
    for n in 0..2 {
        ids.push(client.enqueue(NewJob::new("q", &n).unwrap()).await.unwrap().id);
    }
    let claimed = client.claim("q", &claim(2)).await.unwrap();
    let tokens: Vec<&str> = claimed.iter().map(|one| one.token.as_str()).collect();
    let extended = client.extend_many(&[tokens[0], "x", tokens[1]]).await.unwrap();
    assert_eq!(
        extended.iter().map(Result::is_ok).collect::<Vec<_>>(),
        [true, false, true]
    );
    client
        .release(&claimed[0].id, tokens[0], Duration::ZERO)
        .await
        .unwrap();
    let again = client.claim("q", &claim(1)).await.unwrap();
    assert_eq!((&again[0].id, again[0].attempt), (&claimed[0].id, 1));
    client.complete(&claimed[1].id, tokens[1], None).await.unwrap();
    let all: Vec<&str> = ids.iter().map(String::as_str).collect();
    let one = client.wait_many(&all, Until::Any, PATIENCE).await.unwrap();
    let states: Vec<Option<State>> = one.iter().map(|job| job.state).collect();
    assert_eq!(states, [Some(State::Running), Some(State::Succeeded)]);
    assert_eq!(client.version().await.unwrap(), env!("CARGO_PKG_VERSION"));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_completions_are_judged_one_by_one() {
    let server = start().await;
    for n in 0..2 {
        server
            .client
            .enqueue(NewJob::new("q", &n).unwrap())
            .await
            .unwrap();
    }
    let mut claimed = server.client.claim("q", &claim(2)).await.unwrap();
    let first = claimed.remove(0);
    let report = |token| Completion { token, result: None };
    let done = server
        .client
        .complete_many(&[report(&first.token)])
        .await
        .unwrap();
    assert!(done[0].is_ok());
    // A repetition gets the same answer.
    server
        .client
        .complete(&first.id, &first.token, None)
        .await
        .unwrap();
    let error = server
        .client
        .fail(&first.id, &first.token, "no", false)
        .await
        .unwrap_err();
    assert!(matches!(error, nagaya_client::Error::LeaseLost(_)), "{error}");
    let late = [report(&first.token), report(claimed[0].token.as_str())];
    let done = server.client.complete_many(&late).await.unwrap();
    assert!(done.iter().all(Result::is_ok), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_and_schedules_are_set_up_and_seen() {
    let server = start().await;
    server
        .client
        .enqueue(NewJob::new("q", &1).unwrap())
        .await
        .unwrap();
    server.client.pause("q").await.unwrap();
    let queues = server.client.queues().await.unwrap();
    assert_eq!((queues[0].name.as_str(), queues[0].paused), ("q", true));
    server.client.resume("q").await.unwrap();
    assert!(!server.client.queues().await.unwrap()[0].paused);
    let schedule = NewSchedule {
        name: "nightly".to_owned(),
        cron: "0 3 * * *".to_owned(),
        time_zone: Some("Asia/Tokyo".to_owned()),
        missed: Some("skip".to_owned()),
        job: NewJob::new("q", &json!({"of": "day"})).unwrap(),
    };
    server.client.set_schedule(&schedule).await.unwrap();
    let schedules = server.client.schedules().await.unwrap();
    assert_eq!(schedules[0].name, "nightly");
    assert_eq!(schedules[0].time_zone.as_deref(), Some("Asia/Tokyo"));
    server.client.remove_schedule("nightly").await.unwrap();
    assert!(server.client.schedules().await.unwrap().is_empty());
}
