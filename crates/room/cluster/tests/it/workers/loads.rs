//! Loads on order.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nagaya_clock::SystemClock;
use nagaya_cluster::workers::{LoadConfig, LoadPool};
use nagaya_redis_client::slot;
use nagaya_testkit::{Redis, RedisCluster};
use nagaya_tiering::loader::{Loader, LoaderConfig};

use crate::flaky::Flaky;
use crate::hot_tier::bench::Bench;

const PATIENCE: Duration = Duration::from_secs(30);

fn pool(bench: &Bench, cold: &Arc<Flaky>, config: LoadConfig) -> LoadPool {
    let clock = Arc::new(SystemClock);
    let hot = Arc::new(bench.tier.clone());
    let loader = Loader::new(hot, cold.clone(), clock.clone(), LoaderConfig::default());
    LoadPool::start(loader, clock, config).unwrap()
}

fn order(pool: &LoadPool, tag: &[u8]) -> mpsc::Receiver<Result<(), String>> {
    let (sender, ended) = mpsc::channel();
    pool.load(tag, Box::new(move |end| sender.send(end).unwrap()));
    ended
}

#[test]
fn defect_19_a_thousand_requests_for_one_cold_tag_cause_one_read() {
    let redis = Redis::start();
    let bench = Bench::open(&redis.url());
    let cold = Arc::new(Flaky::default());
    let pool = pool(&bench, &cold, LoadConfig::default());
    let orders: Vec<_> = (0..1000).map(|_| order(&pool, b"u")).collect();
    for ended in orders {
        assert_eq!(ended.recv_timeout(PATIENCE).unwrap(), Ok(()));
    }
    // Requests after its end found the tag in memory.
    assert_eq!(cold.claims.load(Ordering::SeqCst), 1);
}

#[test]
fn a_cold_tier_that_is_down_is_told_at_once_and_comes_back() {
    let redis = Redis::start();
    let bench = Bench::open(&redis.url());
    let cold = Arc::new(Flaky::default());
    let config = LoadConfig {
        cold_wait: Duration::ZERO,
        ..LoadConfig::default()
    };
    let pool = pool(&bench, &cold, config);
    cold.set_down(true);
    let ended = order(&pool, b"u").recv_timeout(PATIENCE).unwrap();
    assert_eq!(ended, Err("the cold tier does not answer".into()));
    cold.set_down(false);
    assert_eq!(order(&pool, b"u").recv_timeout(PATIENCE).unwrap(), Ok(()));
}

#[test]
fn a_cold_tier_that_comes_back_in_time_is_waited_for() {
    let redis = Redis::start();
    let bench = Bench::open(&redis.url());
    let cold = Arc::new(Flaky::default());
    let config = LoadConfig {
        cold_wait: PATIENCE,
        ..LoadConfig::default()
    };
    let pool = pool(&bench, &cold, config);
    cold.set_down(true);
    let waiting: Vec<_> = (0..100)
        .map(|number| order(&pool, format!("u{number}").as_bytes()))
        .collect();
    assert!(
        waiting[0].recv_timeout(Duration::from_millis(200)).is_err(),
        "it waits"
    );
    cold.set_down(false);
    for ended in waiting {
        assert_eq!(ended.recv_timeout(PATIENCE).unwrap(), Ok(()));
    }
}

#[test]
fn a_queue_that_waited_for_the_cold_tier_is_not_tried_one_by_one() {
    let redis = Redis::start();
    let bench = Bench::open(&redis.url());
    let cold = Arc::new(Flaky::default());
    let config = LoadConfig {
        threads: 1,
        cold_wait: Duration::from_millis(300),
        ..LoadConfig::default()
    };
    let pool = pool(&bench, &cold, config);
    cold.set_down(true);
    let waiting: Vec<_> = (0..50)
        .map(|number| order(&pool, format!("u{number}").as_bytes()))
        .collect();
    for ended in &waiting {
        let ended = ended.recv_timeout(PATIENCE).unwrap();
        assert_eq!(ended, Err("the cold tier does not answer".into()));
    }
    let tries = cold.refusals.load(Ordering::SeqCst);
    assert!(tries < 50, "{tries} tries for 50 tags that waited long enough");
    cold.set_down(false);
    assert_eq!(order(&pool, b"u1").recv_timeout(PATIENCE).unwrap(), Ok(()));
}

#[test]
fn a_slot_on_the_move_is_waited_for() {
    let cluster = RedisCluster::start();
    let bench = Bench::open(&format!("redis+cluster://{}", cluster.addresses()[0]));
    let cold = Arc::new(Flaky::default());
    let config = LoadConfig {
        retry_for: PATIENCE,
        ..LoadConfig::default()
    };
    let pool = pool(&bench, &cold, config);
    let slot = slot::of_key(b"u");
    let from = cluster.owner_of(slot);
    let to = (0..16384)
        .map(|slot| cluster.owner_of(slot))
        .find(|owner| *owner != from)
        .unwrap();
    let moving = cluster.begin_slot_move(slot, to);
    let ended = order(&pool, b"u");
    assert!(
        ended.recv_timeout(Duration::from_millis(200)).is_err(),
        "it waits"
    );
    moving.migrate_keys();
    moving.finish();
    assert_eq!(ended.recv_timeout(PATIENCE).unwrap(), Ok(()));
}

#[test]
fn orders_beyond_the_bound_are_refused_and_those_left_at_the_end_are_told() {
    let redis = Redis::start();
    let bench = Bench::open(&redis.url());
    let cold = Arc::new(Flaky::default());
    let config = LoadConfig {
        threads: 1,
        waiting_max: 2,
        retry_for: PATIENCE,
        ..LoadConfig::default()
    };
    let pool = pool(&bench, &cold, config);
    redis.kill9();
    // The first is under way, in vain; two wait; the fourth is too many; a waiting one may be joined.
    let first = order(&pool, b"a");
    nagaya_testkit::wait::until("the first is under way", PATIENCE, || pool.stats().waiting == 0);
    let waiting = [order(&pool, b"b"), order(&pool, b"c"), order(&pool, b"b")];
    let refused = order(&pool, b"d").recv_timeout(PATIENCE).unwrap();
    assert_eq!(refused, Err("too many tags wait to be loaded".into()));
    assert_eq!(pool.stats().joined, 1);
    drop(pool);
    for ended in waiting.iter().chain([&first]) {
        assert!(ended.recv_timeout(PATIENCE).unwrap().is_err());
    }
}
