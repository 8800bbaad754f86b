//! Overload: shed work is counted and named, accepted work meets its deadline, and memory does not grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nagaya_fanout::{RejectReason, State};
use serde_json::Value;
use tokio::time::Instant;

use crate::fan::{Fan, config, eventually, state};
use crate::scripted::{Behaviour, Scripted};

/// Sends `count` requests, `at_once` at a time, and returns the answers with their times.
async fn burst(fan: &Arc<Fan>, count: usize, at_once: usize) -> Vec<(u16, Value, Duration)> {
    let left = Arc::new(AtomicUsize::new(count));
    let mut senders = Vec::new();
    for _ in 0..at_once {
        let (fan, left) = (Arc::clone(fan), Arc::clone(&left));
        senders.push(tokio::spawn(async move {
            let mut answers = Vec::new();
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                .is_ok()
            {
                let began = Instant::now();
                let answer = fan.get("/").await;
                answers.push((answer.status, answer.json(), began.elapsed()));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            answers
        }));
    }
    let mut all = Vec::new();
    for sender in senders {
        all.extend(sender.await.unwrap());
    }
    all
}

/// Counts the shed endpoints that the replies name.
fn named_as_shed(answers: &[(u16, Value, Duration)]) -> usize {
    let shed = |(_, answer, _): &(_, Value, _)| answer["shed"].as_array().map_or(0, Vec::len);
    answers.iter().map(shed).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_endpoints_dead_at_full_load_grow_nothing() {
    let stalls = Scripted::start(Behaviour::Stall).await;
    let refuses = format!("http://127.0.0.1:{}", nagaya_testkit::free_port());
    let mut config = config(&[("stalls", stalls.url()), ("refuses", refuses)]);
    config.timeout = Duration::from_millis(500);
    (config.workers, config.queue, config.endpoint_concurrency) = (32, 32, 16);
    let fan = Arc::new(Fan::start(config).await);
    let tasks = tokio::runtime::Handle::current().metrics();
    let before = tasks.num_alive_tasks();
    let (answers, most) = tokio::join!(burst(&fan, 1000, 20), async {
        let mut most = (0, 0);
        for _ in 0..50 {
            let (_, live, jobs) = fan.fanout.in_flight();
            most = (most.0.max(live), most.1.max(jobs));
            let running = fan
                .fanout
                .endpoints()
                .iter()
                .map(|endpoint| endpoint.jobs().0)
                .max();
            assert!(running <= Some(16), "{running:?} jobs, each with its socket");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        most
    });
    // A request outlives its last job by a moment, and there are 20 senders.
    assert!(most.0 <= 64 + 20 && most.1 <= 64, "{most:?}");
    assert_eq!(answers.len(), 1000);
    let mut times: Vec<Duration> = answers.iter().map(|(_, _, took)| *took).collect();
    times.sort();
    assert!(times[500] < Duration::from_millis(500), "{:?}", times[500]);
    eventually("everything has ended", || fan.fanout.in_flight() == (0, 0, 0));
    eventually("sockets are closed", || stalls.connections().1 == 0);
    eventually("tasks are gone", || tasks.num_alive_tasks() <= before + 8);
    let counted: u64 = State::ALL.iter().map(|state| fan.count(*state)).sum();
    // On a machine that stalls for half a second, even the in-memory store is too slow.
    let untaken = 2 * fan.fanout.counts().rejected(RejectReason::Store);
    assert!(
        counted <= 2000 && counted + untaken >= 2000,
        "one outcome for every endpoint of every request, not {counted}"
    );
    assert_eq!(fan.count(State::Shed) as usize, named_as_shed(&answers));
    assert_eq!(fan.count(State::Ok), 0);
}

/// Overload by a factor: an endpoint that can do 16 at a time gets `factor` times as many.
async fn overloaded(factor: usize) {
    let endpoint = Scripted::start(Behaviour::SayAfter(Duration::from_millis(20), "fine".into())).await;
    let mut config = config(&[("a", endpoint.url())]);
    (config.workers, config.queue) = (16, 16);
    config.timeout = Duration::from_secs(10);
    let fan = Arc::new(Fan::start(config).await);
    let answers = burst(&fan, 16 * factor * 10, 16 * factor * 2).await;
    eventually("everything has ended", || fan.fanout.in_flight() == (0, 0, 0));
    let taken = answers.iter().filter(|(status, ..)| *status == 200).count();
    let rejected = answers.iter().filter(|(status, ..)| *status == 503).count();
    assert_eq!(taken + rejected, answers.len());
    assert!(rejected > 0, "nothing was shed");
    let counts: Vec<_> = State::ALL
        .iter()
        .map(|state| (state.word(), fan.count(*state)))
        .collect();
    assert_eq!(
        fan.count(State::Ok) as usize,
        taken,
        "what is taken is answered: {counts:?}"
    );
    assert_eq!(fan.count(State::Shed) as usize, named_as_shed(&answers));
    assert_eq!(fan.count(State::Shed) as usize, rejected);
    assert!(endpoint.connections().0 <= 16 + 4, "{:?}", endpoint.connections());
}

#[tokio::test(flavor = "multi_thread")]
async fn at_twice_the_load_what_is_shed_is_named_and_the_rest_is_answered() {
    overloaded(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_ten_times_the_load_what_is_shed_is_named_and_the_rest_is_answered() {
    overloaded(10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_hangs_leaves_workers_to_the_others() {
    let [hangs, works] = [
        Scripted::start(Behaviour::Stall).await,
        Scripted::saying("fine").await,
    ];
    let mut config = config(&[("hangs", hangs.url()), ("works", works.url())]);
    (config.workers, config.queue) = (16, 1000);
    let fan = Arc::new(Fan::start(config).await);
    let answers = burst(&fan, 200, 20).await;
    assert!(answers.iter().all(|(status, ..)| *status == 200));
    eventually("everything has ended", || fan.fanout.in_flight() == (0, 0, 0));
    assert_eq!(fan.count(State::Ok), 200);
    // Once it is known to hang, requests do not wait for it in vain.
    assert_eq!(fan.count(State::Timeout) + fan.count(State::Shed), 200);
    assert!(fan.count(State::Timeout) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_is_down_is_left_alone_and_found_again() {
    let endpoint = Scripted::start(Behaviour::Send(b"nonsense\r\n\r\n".to_vec())).await;
    let other = Scripted::saying("fine").await;
    let mut config = config(&[("down", endpoint.url()), ("up", other.url())]);
    config.breaker_failures = 3;
    config.breaker_pause = Duration::from_millis(50);
    let fan = Fan::start(config).await;
    for _ in 0..3 {
        assert_eq!(state(&fan.whole().await, "down"), "refused");
    }
    let answer = fan.get("/").await.json();
    assert_eq!(answer["endpoints"], serde_json::json!(["up"]));
    assert_eq!(answer["shed"][0]["endpoint"], "down");
    let request = fan.finished(answer["request_id"].as_str().unwrap()).await;
    assert_eq!((state(&request, "down"), state(&request, "up")), ("shed", "ok"));
    assert_eq!(endpoint.seen().len(), 3);
    endpoint.does(Behaviour::Say("back".into()));
    let deadline = Instant::now() + crate::fan::LIMIT;
    while state(&fan.whole().await, "down") != "ok" {
        assert!(Instant::now() < deadline, "it was never asked again");
    }
    assert_eq!(state(&fan.whole().await, "down"), "ok");
}

#[tokio::test]
async fn when_every_endpoint_is_shed_the_client_gets_503_and_their_names() {
    let port = nagaya_testkit::free_port();
    let mut config = config(&[("a", format!("http://127.0.0.1:{port}"))]);
    config.breaker_failures = 1;
    let fan = Fan::start(config).await;
    assert_eq!(state(&fan.whole().await, "a"), "refused");
    let answer = fan.get("/").await;
    assert_eq!(answer.status, 503);
    assert!(answer.header("retry-after").is_some());
    assert_eq!(answer.json()["shed"][0]["endpoint"], "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_never_more_than_allowed() {
    let endpoint = Scripted::start(Behaviour::SayAfter(Duration::from_millis(10), "fine".into())).await;
    let mut config = config(&[
        ("a", endpoint.url()),
        ("b", endpoint.url()),
        ("c", endpoint.url()),
    ]);
    config.workers = 2;
    config.timeout = Duration::from_secs(60);
    let fan = Arc::new(Fan::start(config).await);
    let answers = burst(&fan, 30, 10).await;
    assert!(answers.iter().all(|(status, ..)| *status == 200));
    eventually("all have answered", || fan.count(State::Ok) == 90);
    assert!(endpoint.connections().0 <= 2 * 3, "{:?}", endpoint.connections());
}
