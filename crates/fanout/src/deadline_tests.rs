//! The edges of the deadline, to the millisecond, in paused time that only advances while every task waits.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method};
use tokio::time::{Instant, sleep};

use crate::client::{Fetch, FetchError, Fetched, Place};
use crate::config::{FanoutConfig, StoreKind};
use crate::endpoints::EndpointConfig;
use crate::ids::IdSource;
use crate::outcome::{Outcome, State};
use crate::request::Outgoing;
use crate::service::{Arrival, Fanout, Refusal};
use crate::store::{Batch, MemoryStore, Record, Store, StoreError, Stored, Written};

const MS: Duration = Duration::from_millis(1);

/// Endpoints that answer after the number of milliseconds in the path of their URL.
struct Timed;

impl Fetch for Timed {
    fn fetch<'a>(
        &'a self,
        place: &'a Place,
        _: &'a Outgoing,
        _: Instant,
    ) -> BoxFuture<'a, Result<Fetched, FetchError>> {
        let path = place.target.path_with(None).unwrap();
        let ms: u32 = path.path().trim_start_matches('/').parse().unwrap();
        Box::pin(async move {
            sleep(ms * MS).await;
            Ok(Fetched {
                status: 200,
                body: Bytes::from_static(b"fine"),
                kind: None,
                held: None,
            })
        })
    }
}

/// A store with configurable delays.
struct Slow {
    memory: MemoryStore,
    record: Duration,
    write: Duration,
}

impl Store for Slow {
    fn kind(&self) -> &'static str {
        "slow"
    }

    fn record<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Option<u64>, StoreError>> {
        Box::pin(async {
            sleep(self.record).await;
            self.memory.record(record).await
        })
    }

    fn write<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        Box::pin(async {
            sleep(self.write).await;
            self.memory.write(batch).await
        })
    }

    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        self.memory.read(id)
    }
}

/// A service with a timeout of 200 ms, of which 5 ms are reserved for the store.
fn fanout(endpoints: &[(&str, u32)], record_ms: u32, write_ms: u32) -> Fanout {
    let mut config = FanoutConfig {
        store: StoreKind::Memory,
        ..FanoutConfig::default()
    };
    for (name, ms) in endpoints {
        let url = format!("http://h/{ms}");
        config
            .endpoints
            .0
            .insert(name.to_string(), EndpointConfig::at(url));
    }
    let store = Slow {
        memory: MemoryStore::new(Duration::from_secs(60)),
        record: record_ms * MS,
        write: write_ms * MS,
    };
    Fanout::with_fetch(config, Arc::new(store), IdSource::Uuid, Arc::new(Timed)).unwrap()
}

async fn take(fanout: &Fanout) -> Result<Arc<str>, Refusal> {
    let outgoing = Outgoing::new(Method::GET, None, Bytes::new(), &HeaderMap::new(), &[]);
    let arrival = Arrival {
        span: tracing::Span::none(),
        at: Instant::now(),
        url: "/".to_owned(),
        outgoing,
        via: None,
        wants_answers: false,
    };
    let handler = fanout.handler().unwrap();
    fanout.take(arrival, handler).await.map(|taken| taken.id)
}

/// Waits for the end of the request and returns what is stored.
async fn whole(fanout: &Fanout) -> Stored {
    let id = take(fanout).await.unwrap();
    fanout.drain(std::future::pending()).await;
    fanout.store().read(&id).await.unwrap().unwrap()
}

fn outcome<'a>(stored: &'a Stored, name: &str) -> &'a Outcome {
    &stored.outcomes[name]
}

#[tokio::test(start_paused = true)]
async fn a_millisecond_before_the_end_is_ok_and_a_millisecond_after_is_a_timeout() {
    let stored = whole(&fanout(&[("before", 194), ("after", 196)], 0, 0)).await;
    assert_eq!(outcome(&stored, "before").state, State::Ok);
    assert_eq!(outcome(&stored, "before").ms, 194);
    assert_eq!(stored.bodies["before"], "fine");
    assert_eq!(outcome(&stored, "after").state, State::Timeout);
    assert_eq!(outcome(&stored, "after").ms, 195);
    assert!(!stored.bodies.contains_key("after"));
    assert_eq!(stored.complete_ms, Some(195));
}

#[tokio::test(start_paused = true)]
async fn the_time_that_the_store_takes_for_the_request_counts() {
    let stored = whole(&fanout(&[("a", 144), ("b", 146)], 50, 0)).await;
    assert_eq!(outcome(&stored, "a").state, State::Ok);
    assert_eq!(outcome(&stored, "a").ms, 194);
    assert_eq!(outcome(&stored, "b").state, State::Timeout);
}

#[tokio::test(start_paused = true)]
async fn an_answer_stored_too_late_is_recorded_as_such_and_not_there() {
    let in_time = whole(&fanout(&[("a", 190)], 0, 10)).await;
    assert_eq!(outcome(&in_time, "a").state, State::Ok);
    assert_eq!(in_time.bodies["a"], "fine");
    let late = whole(&fanout(&[("a", 190)], 0, 11)).await;
    assert_eq!(outcome(&late, "a").state, State::StoreFailed);
    assert!(late.bodies.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_store_takes_too_late_is_refused_and_nobody_is_asked() {
    let fanout = fanout(&[("a", 1)], 201, 0);
    let began = Instant::now();
    let Err(Refusal::Store { id, .. }) = take(&fanout).await else {
        panic!("it was taken");
    };
    assert_eq!(began.elapsed(), 200 * MS);
    fanout.drain(std::future::pending()).await;
    let stored = fanout.store().read(&id).await.unwrap().unwrap();
    assert!(stored.is_complete(), "who reads it must not wait for answers");
    assert_eq!(outcome(&stored, "a").state, State::Shed);
    assert_eq!(fanout.counts().outcome(State::Ok), 0);
    assert_eq!(fanout.in_flight(), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn answers_within_the_window_go_in_one_write_and_the_last_at_once() {
    let batches = async |endpoints: &[(&str, u32)]| {
        let fanout = fanout(endpoints, 0, 0);
        whole(&fanout).await;
        fanout.counts().batches.load(std::sync::atomic::Ordering::Relaxed)
    };
    assert_eq!(batches(&[("a", 10), ("b", 11), ("c", 12)]).await, 1);
    assert_eq!(batches(&[("a", 10), ("b", 11), ("c", 13)]).await, 2);
    assert_eq!(batches(&[("a", 10), ("b", 20), ("c", 30)]).await, 3);
}

#[tokio::test(start_paused = true)]
async fn the_last_answers_do_not_wait_for_earlier_writes_but_the_mark_does() {
    let stored = whole(&fanout(&[("early", 10), ("last", 60)], 0, 100)).await;
    assert_eq!(outcome(&stored, "last").state, State::Ok, "stored at 160 ms");
    assert_eq!(outcome(&stored, "early").state, State::Ok);
    assert_eq!(stored.complete_ms, Some(160));
}
