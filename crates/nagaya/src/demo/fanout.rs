//! One request to three endpoints, one of which is slow.
//!
//! The endpoints and the fan-out are the demo's own, so that no real endpoint gets requests; the answers rest
//! in the room of the server.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, LocalBoxFuture};
use nagaya_client::Client;
use nagaya_clock::SystemClock;
use nagaya_fanout::{
    Batch, EndpointConfig, Fanout, FanoutConfig, IdSource, Record, Server, Store, StoreError, StoreKind,
    Stored, Written, open_store,
};
use nagaya_redis_client::{Client as Redis, RedisUrl};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::latency::Latencies;
use super::part::{End, Part, count};
use super::target::{Target, ask};

/// How long an answer may take, and how long it may take until a request is taken at all.
const TIMEOUT: Duration = Duration::from_millis(150);
const TAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long unread answers are kept.
const EXPIRE_IN: Duration = Duration::from_secs(60);
/// Requests under way at once, and the pause after each.
const ASKERS: usize = 2;
const PAUSE: Duration = Duration::from_millis(60);
/// How long the end of a request is waited for.
const WAIT: &str = "2s";

/// The endpoints with how long they take: every `often`th answer of the slow one comes too late.
const ENDPOINTS: [(&str, u64); 3] = [("prices", 3), ("stock", 12), ("reviews", 40)];
const SLOW_OFTEN: u64 = 3;
const SLOW: Duration = Duration::from_millis(400);

pub(super) struct FanoutPart {
    room: RedisUrl,
    redis: Arc<Redis>,
    /// Whether the answers may rest in the room.
    in_room: bool,
    resting: Resting,
    seen: RefCell<Seen>,
}

#[derive(Default)]
struct Seen {
    requests: u64,
    /// By endpoint and outcome.
    outcomes: BTreeMap<String, BTreeMap<String, u64>>,
    reply: Latencies,
    whole: Latencies,
    /// Requests of which the fan-out did not account for every endpoint.
    unaccounted: u64,
}

/// Requests whose answers are in the room.
type Resting = Arc<Mutex<BTreeSet<String>>>;

/// The room as a store that remembers what it was given, also of requests that the client was refused.
struct NotingStore {
    room: Arc<dyn Store>,
    resting: Resting,
}

impl Store for NotingStore {
    fn kind(&self) -> &'static str {
        self.room.kind()
    }

    fn record<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Option<u64>, StoreError>> {
        locked(&self.resting).insert(record.id.to_string());
        self.room.record(record)
    }

    fn write<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        self.room.write(batch)
    }

    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        self.room.read(id)
    }
}

fn locked(resting: &Resting) -> MutexGuard<'_, BTreeSet<String>> {
    resting.lock().expect("nobody panics while it is locked")
}

impl Seen {
    fn add(&mut self, answer: &Value) {
        self.requests += 1;
        let results = answer["results"].as_object();
        let names = ENDPOINTS.map(|(name, _)| name);
        let is_whole = answer["complete"] == true
            && results.is_some_and(|results| names.iter().all(|name| results.contains_key(*name)));
        self.unaccounted += u64::from(!is_whole);
        for (name, result) in results.into_iter().flatten() {
            let state = result["state"].as_str().unwrap_or("unknown").to_owned();
            *self
                .outcomes
                .entry(name.clone())
                .or_default()
                .entry(state)
                .or_default() += 1;
        }
    }

    fn outcomes(&self, wanted: &str) -> u64 {
        let each = self.outcomes.values();
        each.filter_map(|states| states.get(wanted)).sum()
    }
}

impl FanoutPart {
    pub(super) fn new(target: &Target) -> FanoutPart {
        FanoutPart {
            room: target.room.clone(),
            redis: target.redis(),
            in_room: !target.needs_tags,
            resting: Resting::default(),
            seen: RefCell::default(),
        }
    }

    /// Starts the endpoints, which end with what is returned.
    async fn start_endpoints(&self) -> anyhow::Result<(FanoutConfig, AbortOnDropHandle<io::Result<()>>)> {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.context("no port for the demo's endpoints")?;
        let address = listener.local_addr()?;
        let mut router = Router::new();
        for (name, ms) in ENDPOINTS {
            let takes = Duration::from_millis(ms);
            let handler = move |State(asked): State<Arc<AtomicU64>>| answer(name, takes, asked);
            router = router.route(&format!("/{name}"), get(handler));
        }
        let server = axum::serve(listener, router.with_state(Arc::default()));
        let serving = AbortOnDropHandle::new(tokio::spawn(server.into_future()));
        let mut config = FanoutConfig {
            timeout: TAKE_TIMEOUT,
            expire_in: EXPIRE_IN,
            store: if self.in_room {
                StoreKind::Embedded
            } else {
                StoreKind::Memory
            },
            // The slow endpoint is to be seen failing, not to be left alone.
            breaker_failures: 0,
            ..FanoutConfig::default()
        };
        for (name, _) in ENDPOINTS {
            let endpoint = EndpointConfig {
                timeout: Some(TIMEOUT),
                ..EndpointConfig::at(format!("http://{address}/{name}"))
            };
            config.endpoints.0.insert(name.to_owned(), endpoint);
        }
        Ok((config, serving))
    }

    async fn ask_until(&self, client: &Client, end: &End) -> anyhow::Result<()> {
        while !end.time_is_up.is_cancelled() {
            let began = Instant::now();
            let reply: Value = client.get("/product?id=17").await?;
            self.seen.borrow_mut().reply.add(began.elapsed());
            let id = reply["request_id"].as_str().context("the fan-out gave no id")?;
            let path = format!("/requests/{id}?wait=all&timeout={WAIT}");
            let answer: Value = client.get(&path).await?;
            {
                let mut seen = self.seen.borrow_mut();
                seen.whole.add(began.elapsed());
                seen.add(&answer);
            }
            self.take_away(id).await?;
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    async fn take_away(&self, id: &str) -> anyhow::Result<()> {
        if self.in_room {
            ask(&self.redis, &["DEL", id]).await?;
        }
        locked(&self.resting).remove(id);
        Ok(())
    }
}

/// An endpoint's answer, in its own time.
async fn answer(name: &'static str, takes: Duration, asked: Arc<AtomicU64>) -> String {
    let is_slow = name == ENDPOINTS[2].0 && asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(SLOW_OFTEN);
    tokio::time::sleep(if is_slow { SLOW } else { takes }).await;
    json!({ "from": name }).to_string()
}

impl Part for FanoutPart {
    fn name(&self) -> &'static str {
        "fanout"
    }

    fn run<'a>(&'a self, end: &'a End) -> LocalBoxFuture<'a, anyhow::Result<()>> {
        async move {
            let (config, _endpoints) = self.start_endpoints().await?;
            let store = NotingStore {
                room: open_store(&config, Some(self.room.clone()), Arc::new(SystemClock))?,
                resting: Arc::clone(&self.resting),
            };
            let fanout = Arc::new(Fanout::new(config, Arc::new(store), IdSource::Uuid)?);
            let server = Server::bind(fanout, ([127, 0, 0, 1], 0).into()).await;
            let server = server.context("no port for the demo's fan-out")?;
            let client = Client::new(&format!("http://{}", server.address()?))?;
            let (draining, cut) = (CancellationToken::new(), CancellationToken::new());
            let served = server.run(draining.clone(), cut.clone());
            let asked = async {
                let askers = (0..ASKERS).map(|_| self.ask_until(&client, end));
                let asked = futures_util::future::try_join_all(askers).await;
                draining.cancel();
                drop(client);
                tokio::time::sleep(TIMEOUT).await;
                cut.cancel();
                asked.map(drop)
            };
            let (_cut, asked) = tokio::join!(served, asked);
            asked
        }
        .boxed_local()
    }

    fn clean(&self) -> LocalBoxFuture<'_, anyhow::Result<()>> {
        async move {
            // Those of a demo that was killed go by themselves, within a minute.
            let resting = locked(&self.resting).clone();
            for id in resting {
                self.take_away(&id).await?;
            }
            Ok(())
        }
        .boxed_local()
    }

    fn line(&self) -> String {
        let seen = self.seen.borrow();
        format!(
            "{} to {} endpoints, {} answers in time, {} too late; id after {}",
            count(seen.requests, "request"),
            ENDPOINTS.len(),
            seen.outcomes("ok"),
            seen.outcomes("timeout"),
            seen.reply.usual()
        )
    }

    fn sentence(&self) -> String {
        let seen = self.seen.borrow();
        let accounted = match seen.unaccounted {
            0 => "every one accounted for".to_owned(),
            lost => format!("{lost} REQUESTS NOT ACCOUNTED FOR"),
        };
        let asked = seen.requests * ENDPOINTS.len() as u64;
        let (in_time, late) = (seen.outcomes("ok"), seen.outcomes("timeout"));
        let otherwise = match asked.saturating_sub(in_time + late) {
            0 => String::new(),
            other => format!(", {other} otherwise"),
        };
        format!(
            "{} went to {} endpoints each: {in_time} answers in time, {late} too late{otherwise}, {accounted}; clients had \
             their id after {} p50",
            count(seen.requests, "request"),
            ENDPOINTS.len(),
            seen.reply.usual()
        )
    }

    fn figures(&self) -> Value {
        let seen = self.seen.borrow();
        json!({
            "requests": seen.requests, "outcomes": seen.outcomes, "unaccounted": seen.unaccounted,
            "reply_ms": {"p50": seen.reply.percentile_ms(50), "p99": seen.reply.percentile_ms(99)},
            "whole_ms": {"p50": seen.whole.percentile_ms(50), "p99": seen.whole.percentile_ms(99)},
        })
    }

    fn is_wrong(&self) -> bool {
        self.seen.borrow().unaccounted > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_whose_endpoints_are_not_all_accounted_for_is_noticed() {
        let mut seen = Seen::default();
        let result = |state: &str| json!({ "state": state });
        let whole = json!({ "prices": result("ok"), "stock": result("ok"), "reviews": result("timeout") });
        seen.add(&json!({ "complete": true, "results": whole }));
        assert_eq!(
            (seen.outcomes("ok"), seen.outcomes("timeout"), seen.unaccounted),
            (2, 1, 0)
        );
        seen.add(&json!({ "complete": true, "results": { "prices": result("ok") } }));
        assert_eq!((seen.requests, seen.unaccounted), (2, 1));
    }
}
