//! Everything at once: proxies, loads, savers and evictors over real servers, and clients that check what
//! was acknowledged.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nagaya_clock::{Clock, SystemClock};
use nagaya_cluster::hot_tier::{Limits, RedisHotTier};
use nagaya_cluster::proxy::{Config, Proxy, Service, Tiering};
use nagaya_cluster::workers::{
    AccessConfig, AccessLog, ColdKeyService, ColdTierSink, EvictConfig, LoadConfig, LoadPool, TagService,
    Tasks, TasksConfig,
};
use nagaya_cold::PostgresCold;
use nagaya_cold::postgres::Options;
use nagaya_testkit::{Failover, Postgres, Redis, RedisCluster, Reply, RespClient, shared, wait};
use nagaya_tiering::cold::ColdTier;
use nagaya_tiering::hot::HotTier;
use nagaya_tiering::loader::{Loader, LoaderConfig};
use nagaya_tiering::saver::SaverConfig;
use tokio::runtime::Runtime;

use crate::flaky::Flaky;

const PATIENCE: Duration = Duration::from_secs(60);
const LIMITS: Limits = Limits {
    lease: Duration::from_millis(800),
    allowance: Duration::from_millis(800),
    connect_limit: Duration::from_secs(2),
    reply_limit: Duration::from_secs(5),
};

/// A cold tier and a runtime for the processes of a test.
pub(super) struct Town {
    url: String,
    runtime: Runtime,
    cold: Arc<dyn ColdTier>,
}

impl Town {
    pub(super) fn over(url: String, cold: Arc<dyn ColdTier>) -> Town {
        Town {
            url,
            runtime: Runtime::new().unwrap(),
            cold,
        }
    }

    pub(super) fn tier(&self, name: &str) -> RedisHotTier {
        let url = self.url.parse().unwrap();
        RedisHotTier::new(url, name, LIMITS, self.runtime.handle().clone()).unwrap()
    }

    pub(super) fn serve(&self) -> Proxy {
        self.serve_with(Duration::from_secs(5))
    }

    /// Starts a server whose requests wait this long for the cold tier.
    pub(super) fn serve_with(&self, cold_wait: Duration) -> Proxy {
        let clock = Arc::new(SystemClock);
        let hot = Arc::new(self.tier("load"));
        let config = LoaderConfig {
            patience: Duration::from_millis(500),
            ..LoaderConfig::default()
        };
        let loader = Loader::new(hot, self.cold.clone(), clock.clone(), config);
        let sink = ColdTierSink {
            cold: self.cold.clone(),
        };
        let accesses = AccessLog::start(sink, clock.clone(), AccessConfig::default()).unwrap();
        let loading = LoadConfig {
            cold_wait,
            ..LoadConfig::default()
        };
        let loads = Arc::new(LoadPool::start(loader, clock.clone(), loading).unwrap());
        let config = Config {
            tiering: Some(Tiering {
                lease: LIMITS.lease,
                margin: LIMITS.lease / 10,
                allowance: LIMITS.allowance,
                load_wait: cold_wait,
                loads: loads.clone(),
                accesses: Arc::new(accesses),
                cold_keys: Arc::new(
                    ColdKeyService::start(self.tier("scan"), self.cold.clone(), clock.clone()).unwrap(),
                ),
                tag_admin: Arc::new(TagService::new(
                    self.tier("tags"),
                    self.cold.clone(),
                    clock,
                    loads,
                )),
            }),
            ..Config::new("127.0.0.1:0".parse().unwrap(), self.url.parse().unwrap())
        };
        Service::bind(config).unwrap().start().unwrap()
    }

    pub(super) fn tasks(&self, name: &str) -> Tasks {
        let config = TasksConfig {
            name: name.into(),
            save: SaverConfig {
                max_staleness: Duration::from_millis(100),
                batch_tags: 64,
            },
            evict: EvictConfig {
                idle_after: Duration::from_millis(400),
                every: Duration::from_millis(50),
                ..EvictConfig::default()
            },
            savers: 2,
            shard_lease: Duration::from_secs(2),
        };
        let clock = Arc::new(SystemClock);
        Tasks::start(self.tier("task"), self.cold.clone(), clock, config).unwrap()
    }
}

pub(super) fn client(address: SocketAddr) -> RespClient {
    RespClient::connect(address).unwrap()
}

fn goes_cold_and_comes_back(town: &Town) {
    let proxy = town.serve();
    let tasks = town.tasks("one");
    let mut client = client(proxy.address());
    for number in 0..50 {
        let key = format!("{{u{number}}}name");
        assert_eq!(client.cmd(&["SET", &key, "hot"]).unwrap(), Reply::ok());
    }
    wait::until("all users are cold", PATIENCE, || tasks.stats().evicted >= 50);
    let mut names: Vec<String> = client
        .cmd(&["KEYS", "{u*"])
        .unwrap()
        .items()
        .iter()
        .map(Reply::text)
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 50, "cold keys are listed");
    assert_eq!(
        client.cmd(&["DBSIZE"]).unwrap().int(),
        50,
        "and counted, ours are not"
    );
    for number in 0..50 {
        let key = format!("{{u{number}}}name");
        assert_eq!(client.cmd(&["APPEND", &key, " again"]).unwrap().int(), 9);
    }
    assert_eq!(client.cmd(&["GET", "{u7}name"]).unwrap().text(), "hot again");
    assert_eq!(client.cmd(&["DBSIZE"]).unwrap().int(), 50);
    tasks.stop();
    proxy.stop();
}

#[test]
fn a_user_goes_cold_and_comes_back_on_one_server() {
    let redis = Redis::start();
    goes_cold_and_comes_back(&Town::over(redis.url(), Arc::new(Flaky::default())));
}

#[test]
fn a_user_goes_cold_and_comes_back_on_a_cluster() {
    let cluster = RedisCluster::start();
    goes_cold_and_comes_back(&Town::over(cluster_url(&cluster), Arc::new(Flaky::default())));
}

#[test]
fn a_user_rests_in_postgresql_as_rows() {
    let cluster = RedisCluster::start();
    let database = shared::postgres().create_database();
    goes_cold_and_comes_back(&Town::over(cluster_url(&cluster), open_postgres(&database)));
    let rows = "select count(*) from room_keys where key = convert_to('{u7}name', 'UTF8')";
    assert_eq!(shared::postgres().psql(&database, rows).trim(), "1");
}

pub(super) fn cluster_url(cluster: &RedisCluster) -> String {
    format!("redis+cluster://{}", cluster.addresses()[0])
}

pub(super) fn open_postgres(url: &str) -> Arc<PostgresCold> {
    // No client asks for absent tags, so none should wait for a filter.
    let options = Options {
        filter: false,
        filter_lag: None,
        ..Options::default()
    };
    Arc::new(PostgresCold::open(url, options).unwrap())
}

#[test]
fn defect_19_a_herd_at_a_cold_user_causes_one_read_and_no_error() {
    let redis = Redis::start();
    let cold = Arc::new(Flaky::default());
    let town = Town::over(redis.url(), cold.clone());
    let proxy = town.serve();
    let mut clients: Vec<RespClient> = (0..300).map(|_| client(proxy.address())).collect();
    for client in &mut clients {
        client.send(&["INCR", "{u}visits"]).unwrap();
    }
    let mut visits: Vec<i64> = clients
        .iter_mut()
        .map(|client| client.receive().unwrap().int())
        .collect();
    visits.sort_unstable();
    assert_eq!(visits, (1..=300).collect::<Vec<_>>());
    assert_eq!(cold.claims.load(Ordering::SeqCst), 1);
    proxy.stop();
}

#[test]
fn a_load_whose_server_died_is_taken_over() {
    let redis = Redis::start();
    let town = Town::over(redis.url(), Arc::new(Flaky::default()));
    let token = nagaya_tiering::protocol::Tokens::default().draw();
    town.tier("dead").begin(b"u", token).unwrap();
    let proxy = town.serve();
    let mut client = client(proxy.address());
    assert_eq!(client.cmd(&["GET", "{u}x"]).unwrap(), Reply::Nil);
    proxy.stop();
}

#[test]
fn a_cold_tier_that_is_down_fails_cold_users_only() {
    let redis = Redis::start();
    let cold = Arc::new(Flaky::default());
    let town = Town::over(redis.url(), cold.clone());
    let proxy = town.serve();
    let mut client = client(proxy.address());
    assert_eq!(client.cmd(&["SET", "{hot}x", "1"]).unwrap(), Reply::ok());
    cold.set_down(true);
    let refused = client.cmd(&["GET", "{cold}x"]).unwrap();
    assert!(
        refused.error().is_some_and(|text| text.contains("cold tier")),
        "{refused:?}"
    );
    assert_eq!(client.cmd(&["GET", "{hot}x"]).unwrap().text(), "1");
    cold.set_down(false);
    assert_eq!(client.cmd(&["GET", "{cold}x"]).unwrap(), Reply::Nil);
    proxy.stop();
}

/// What a writer knows of its own keys: every value that each may have.
#[derive(Default)]
struct Memory {
    possible: HashMap<String, HashSet<String>>,
}

/// What the threads of a run tell each other.
#[derive(Default)]
struct Run {
    is_over: AtomicBool,
    acknowledged: AtomicU64,
    evicted: AtomicU64,
}

impl Run {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }
}

/// Ends a run however its test ends; else its threads would be waited for without end.
struct Ending<'a>(&'a Run);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// Writes to its own keys and reads them back, through one proxy after the other; an error says nothing.
fn write_and_check(proxies: &[SocketAddr], number: u64, run: &Run) -> Memory {
    const TAGS: u64 = 200;
    let start = SystemClock.steady();
    let mut memory = Memory::default();
    let mut clients: Vec<Option<RespClient>> = proxies.iter().map(|_| None).collect();
    let mut turn: u64 = 0;
    while run.goes_on() {
        turn += 1;
        let visit = (SystemClock.steady() - start).as_millis() as u64 / 250 + number;
        let key = format!("{{t{}}}{number}", (visit * 5 + turn % 4) % TAGS);
        let at = (turn % clients.len() as u64) as usize;
        let client = clients[at].get_or_insert_with(|| client(proxies[at]));
        let possible = memory
            .possible
            .entry(key.clone())
            .or_insert_with(|| [String::new()].into());
        match client.cmd(&["GET", &key]) {
            Ok(Reply::Bulk(found)) => {
                let found = String::from_utf8(found).unwrap();
                assert!(
                    possible.contains(&found),
                    "{key} is {found}, not one of {possible:?}"
                );
            }
            Ok(Reply::Nil) => assert!(possible.contains(""), "{key} is gone, not one of {possible:?}"),
            Ok(_) => (),
            Err(_) => clients[at] = None,
        }
        if turn.is_multiple_of(2) {
            continue;
        }
        let Some(client) = &mut clients[at] else { continue };
        let value = format!("{number}:{turn}");
        match client.cmd(&["SET", &key, &value]) {
            Ok(reply) if reply == Reply::ok() => {
                *possible = [value].into();
                run.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) => {
                possible.insert(value);
            }
            Err(_) => {
                possible.insert(value);
                clients[at] = None;
            }
        }
    }
    memory
}

/// Reads a key, again and again while servers are in trouble.
fn read_in_the_end(address: SocketAddr, key: &str) -> String {
    let start = SystemClock.steady();
    let mut reader = client(address);
    loop {
        let trouble = match reader.cmd(&["GET", key]) {
            Ok(Reply::Bulk(found)) => return String::from_utf8(found).unwrap(),
            Ok(Reply::Nil) => return String::new(),
            Ok(other) => format!("{other:?}"),
            Err(error) => {
                reader = client(address);
                error.to_string()
            }
        };
        assert!(
            SystemClock.steady() - start < PATIENCE,
            "{key} cannot be read: {trouble}"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// Lets writers loose on two proxies while something is done to the servers, and sees that they get on after
/// every time; then reads everything again.
pub(super) fn run_with_faults(town: &Town, time: Duration, disturb: impl Fn(u64)) {
    let proxies = [town.serve(), town.serve()];
    let addresses: Vec<SocketAddr> = proxies.iter().map(Proxy::address).collect();
    let run = Run::default();
    let memories: Vec<Memory> = thread::scope(|scope| {
        let ending = Ending(&run);
        scope.spawn(|| {
            // A worker that is ended and replaced all the time, beside one that stays.
            let steady = town.tasks("steady");
            let mut gone = 0;
            while run.goes_on() {
                let passing = town.tasks("passing");
                thread::sleep(Duration::from_secs(3));
                gone += passing.stats().evicted;
                run.evicted
                    .store(gone + steady.stats().evicted, Ordering::Relaxed);
            }
        });
        let writers = (0..3).map(|number| {
            let (addresses, run) = (&addresses, &run);
            scope.spawn(move || write_and_check(addresses, number, run))
        });
        let writers: Vec<_> = writers.collect();
        let start = SystemClock.steady();
        let mut round = 0;
        while SystemClock.steady() - start < time {
            let before = run.acknowledged.load(Ordering::Relaxed);
            disturb(round);
            round += 1;
            wait::until("writes go on", PATIENCE, || {
                run.acknowledged.load(Ordering::Relaxed) > before + 5
            });
        }
        wait::until("tags went cold", PATIENCE, || {
            run.evicted.load(Ordering::Relaxed) > 5
        });
        drop(ending);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    for memory in memories {
        for (key, possible) in memory.possible {
            let found = read_in_the_end(addresses[0], &key);
            assert!(
                possible.contains(&found),
                "{key} is {found}, not one of {possible:?}"
            );
        }
    }
    eprintln!(
        "{} writes acknowledged, none lost; {} tags evicted",
        run.acknowledged.into_inner(),
        run.evicted.into_inner()
    );
    proxies.into_iter().for_each(|proxy| {
        proxy.stop();
    });
}

#[test]
fn faults_that_lose_nothing_in_redis_lose_nothing_here() {
    let cluster = RedisCluster::start();
    let cold = Arc::new(Flaky::default());
    let town = Town::over(cluster_url(&cluster), cold.clone());
    run_with_faults(&town, Duration::from_secs(15), |round| {
        move_things(&cluster, round);
        cold.set_down(true);
        thread::sleep(Duration::from_millis(500));
        cold.set_down(false);
    });
}

#[test]
fn faults_of_redis_and_postgresql_that_lose_nothing_lose_nothing_here() {
    let cluster = RedisCluster::start();
    let postgres = Postgres::start();
    let town = Town::over(cluster_url(&cluster), open_postgres(&postgres.create_database()));
    run_with_faults(&town, Duration::from_secs(15), |round| {
        move_things(&cluster, round);
        // Killed, not stopped: what it has acknowledged is on its disk.
        postgres.kill9();
        thread::sleep(Duration::from_millis(300));
        postgres.restart();
    });
}

/// Replaces a primary by its replica, or moves some slots.
pub(super) fn move_things(cluster: &RedisCluster, round: u64) {
    let mut owners: Vec<usize> = [0, 6000, 12000].map(|slot| cluster.owner_of(slot)).to_vec();
    owners.sort_unstable();
    owners.dedup();
    if round.is_multiple_of(2) {
        return cluster.failover(cluster.replica_of(owners[0]), Failover::Graceful);
    }
    for tag in 0..6 {
        let slot = cluster.slot_of(&format!("t{tag}"));
        let from = cluster.owner_of(slot);
        let to = owners.iter().copied().find(|owner| *owner != from).unwrap();
        cluster.move_slot(slot, to);
    }
}
