//! Shutdown: running jobs are finished, or marked when time runs out.

use std::sync::Arc;
use std::time::Duration;

use nagaya_fanout::{Cut, MemoryStore, State, Store};
use tokio::time::Instant;

use crate::fan::{Fan, config, eventually};
use crate::scripted::{Behaviour, Scripted};

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Duration::from_secs(60)))
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_under_way_are_finished_before_the_end() {
    let endpoint = Scripted::start(Behaviour::SayAfter(Duration::from_millis(400), "fine".into())).await;
    let store = memory();
    let fan = Fan::with_store(config(&[("a", endpoint.url())]), store.clone()).await;
    let id = fan.ask().await;
    fan.begin_draining();
    let address = fan.address;
    assert_eq!(fan.ended().await, Cut::default());
    let stored = store.read(&id).await.unwrap().unwrap();
    assert!(stored.complete_ms.is_some());
    assert_eq!(stored.bodies["a"], "fine");
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_finished_is_marked() {
    let [stalls, works] = [
        Scripted::start(Behaviour::Stall).await,
        Scripted::saying("fine").await,
    ];
    let store = memory();
    let mut config = config(&[("stalls", stalls.url()), ("works", works.url())]);
    config.timeout = Duration::from_secs(60);
    let fan = Fan::with_store(config, store.clone()).await;
    let id = fan.ask().await;
    eventually("one has answered", || fan.count(State::Ok) == 1);
    fan.begin_draining();
    fan.cut();
    let began = Instant::now();
    let fanout = Arc::clone(&fan.fanout);
    assert_eq!(fan.ended().await.requests, 1);
    assert!(began.elapsed() < Duration::from_secs(2));
    let stored = store.read(&id).await.unwrap().unwrap();
    assert!(stored.complete_ms.is_some());
    assert_eq!(stored.outcomes["works"].state, State::Ok);
    let stalled = &stored.outcomes["stalls"];
    assert_eq!(stalled.state, State::Timeout);
    assert_eq!(stalled.detail.as_deref(), Some("the service was stopped"));
    assert_eq!(fanout.in_flight(), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_wait_are_answered_at_the_end() {
    let endpoint = Scripted::start(Behaviour::Stall).await;
    let mut config = config(&[("a", endpoint.url())]);
    config.timeout = Duration::from_secs(1);
    let fan = Arc::new(Fan::start(config).await);
    let id = fan.ask().await;
    let reader = tokio::spawn({
        let fan = Arc::clone(&fan);
        async move { fan.get(&format!("/requests/{id}?wait=all")).await }
    });
    eventually("the reader waits", || fan.fanout.readers() == 1);
    fan.begin_draining();
    let answer = reader.await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["complete"], false);
    let fan = Arc::into_inner(fan).unwrap();
    assert_eq!(fan.ended().await, Cut::default());
}
