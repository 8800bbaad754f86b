//! The way of news from servers to the cold tier.

use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::SystemClock;
use nagaya_cluster::workers::{
    AccessConfig, AccessLog, ColdTierSink, Collector, CollectorConfig, CollectorSink,
};
use nagaya_config::Secret;
use nagaya_redis_client::{Client, Options};
use nagaya_testkit::{Reply, RespClient, wait};
use nagaya_tiering::access::Use;
use nagaya_tiering::cold::ColdTier;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::flaky::Flaky;

const PATIENCE: Duration = Duration::from_secs(20);
const QUICK: AccessConfig = AccessConfig {
    tags_max: 10,
    every: Duration::from_millis(20),
    batch_tags: 3,
};

struct Setup {
    runtime: Runtime,
    cold: Arc<Flaky>,
    url: String,
    address: std::net::SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    run: Option<tokio::task::JoinHandle<()>>,
}

impl Setup {
    fn open(config: AccessConfig) -> Setup {
        let runtime = Runtime::new().unwrap();
        let cold = Arc::new(Flaky::default());
        cold.ensure(&[b"a", b"b"]).unwrap();
        let sink = ColdTierSink { cold: cold.clone() };
        let log = Arc::new(AccessLog::start(sink, Arc::new(SystemClock), config).unwrap());
        let listen = CollectorConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            password: Some(Secret::new("secret")),
            senders_max: 4,
        };
        let collector = runtime.block_on(Collector::bind(listen, log)).unwrap();
        let address = collector.address().unwrap();
        let (stop, stopped) = oneshot::channel();
        let run = runtime.spawn(collector.run(async {
            let _told = stopped.await;
        }));
        Setup {
            runtime,
            cold,
            url: format!("redis://:secret@{address}"),
            address,
            stop: Some(stop),
            run: Some(run),
        }
    }

    fn sender(&self) -> AccessLog {
        let sink = CollectorSink {
            client: Client::new(self.url.parse().unwrap(), Options::default()).unwrap(),
            runtime: self.runtime.handle().clone(),
        };
        AccessLog::start(sink, Arc::new(SystemClock), QUICK).unwrap()
    }

    fn times(&self, tag: &[u8]) -> (bool, bool) {
        let row = self.cold.cold.tag(tag).unwrap().unwrap();
        (row.read_at_ms.is_some(), row.written_at_ms.is_some())
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.runtime.block_on(self.run.take().unwrap()).unwrap();
    }
}

#[test]
fn uses_reach_the_cold_tier_through_the_collector() {
    let setup = Setup::open(QUICK);
    let (one, other) = (setup.sender(), setup.sender());
    one.note(b"a", Use::Read);
    other.note(b"a", Use::Write);
    other.note(b"b", Use::Read);
    other.note(b"nobody's", Use::Read);
    wait::until("all news is written", PATIENCE, || {
        (setup.times(b"a"), setup.times(b"b")) == ((true, true), (true, false))
    });
}

#[test]
fn news_waits_while_the_cold_tier_is_down() {
    let setup = Setup::open(QUICK);
    let sender = setup.sender();
    setup.cold.set_down(true);
    sender.note(b"a", Use::Read);
    wait::until("the collector has it", PATIENCE, || sender.stats().delivered == 1);
    setup.cold.set_down(false);
    wait::until("it is written", PATIENCE, || setup.times(b"a").0);
}

#[test]
fn a_full_collector_takes_nothing_and_the_sender_keeps_it() {
    let setup = Setup::open(AccessConfig {
        tags_max: 2,
        every: Duration::from_millis(20),
        batch_tags: 3,
    });
    setup.cold.set_down(true);
    let sender = setup.sender();
    sender.note(b"x", Use::Read);
    sender.note(b"y", Use::Read);
    wait::until("the collector is full", PATIENCE, || {
        sender.stats().delivered == 2
    });
    sender.note(b"a", Use::Read);
    wait::until("it refuses more", PATIENCE, || sender.stats().errors > 0);
    setup.cold.set_down(false);
    wait::until("all is written", PATIENCE, || setup.times(b"a").0);
}

#[test]
fn a_sender_delivers_once_more_when_it_ends() {
    let setup = Setup::open(QUICK);
    let sender = setup.sender();
    sender.note(b"a", Use::Write);
    drop(sender);
    wait::until("it is written", PATIENCE, || setup.times(b"a").1);
}

#[test]
fn defect_25_strangers_and_nonsense_are_refused() {
    let setup = Setup::open(QUICK);
    let mut client = RespClient::connect(setup.address).unwrap();
    let mut ask = |words: &[&str]| client.cmd(words).unwrap();
    let refused = |reply: Reply, text: &str| assert!(reply.error().unwrap().starts_with(text), "{reply:?}");
    refused(ask(&["ROOM.NOTE", "a", "1", "2"]), "NOAUTH");
    refused(ask(&["PING"]), "NOAUTH");
    refused(ask(&["AUTH", "wrong"]), "WRONGPASS");
    assert_eq!(ask(&["AUTH", "secret"]), Reply::ok());
    refused(ask(&["ROOM.NOTE", "a", "1"]), "ERR ROOM.NOTE takes");
    refused(ask(&["ROOM.NOTE", "a", "1", "x"]), "ERR ROOM.NOTE takes");
    refused(ask(&["SET", "a", "1"]), "ERR a collector only knows");
    assert_eq!(ask(&["room.note", "a", "1", "0"]).int(), 1);
}
