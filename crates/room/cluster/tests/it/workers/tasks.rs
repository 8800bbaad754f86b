//! Savers and evictors that share their work.

use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::SystemClock;
use nagaya_cluster::workers::{EvictConfig, RANGES, Tasks, TasksConfig};
use nagaya_testkit::{Redis, RedisCluster, wait};
use nagaya_tiering::cold::ColdTier;
use nagaya_tiering::hot::HotTier;
use nagaya_tiering::loader::{Loader, LoaderConfig};
use nagaya_tiering::protocol::Touched;
use nagaya_tiering::saver::SaverConfig;
use nagaya_tiering::tag::tag_of;

use crate::flaky::Flaky;
use crate::hot_tier::bench::Bench;

const PATIENCE: Duration = Duration::from_secs(30);

struct Setup {
    bench: Bench,
    cold: Arc<Flaky>,
    loader: Loader,
}

impl Setup {
    fn open(url: &str) -> Setup {
        let bench = Bench::open(url);
        let cold = Arc::new(Flaky::default());
        let hot = Arc::new(bench.tier.clone());
        let clock = Arc::new(SystemClock);
        let loader = Loader::new(hot, cold.clone(), clock, LoaderConfig::default());
        Setup { bench, cold, loader }
    }

    fn tasks(&self, name: &str, evict: EvictConfig) -> Tasks {
        let config = TasksConfig {
            name: name.into(),
            save: SaverConfig {
                max_staleness: Duration::from_millis(50),
                batch_tags: 64,
            },
            evict,
            savers: 2,
            shard_lease: Duration::from_secs(2),
        };
        let tier = self.bench.tier.clone();
        Tasks::start(tier, self.cold.clone(), Arc::new(SystemClock), config).unwrap()
    }

    fn set(&self, key: &str, value: &str) {
        self.loader.load(tag_of(key.as_bytes())).unwrap();
        self.bench.write(key.as_bytes(), &["SET", key, value]);
    }

    fn is_saved(&self, key: &str) -> bool {
        let rows = self.cold.cold.keys_after(None, 100_000).unwrap();
        rows.iter().any(|row| row.key == key.as_bytes())
    }
}

/// Evicts nothing by age.
const NEVER: EvictConfig = EvictConfig {
    idle_after: Duration::from_secs(1 << 20),
    every: Duration::from_millis(50),
    batch_tags: 1000,
    memory_percent: 80,
    memory_bytes: None,
};

/// Evicts what was not used for a moment.
const SOON: EvictConfig = EvictConfig {
    idle_after: Duration::from_millis(300),
    ..NEVER
};

#[test]
fn changes_are_saved_and_idle_tags_evicted_without_anybody_asking() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    let tasks = setup.tasks("one", SOON);
    for number in 0..100 {
        setup.set(&format!("k{number}"), "1");
    }
    wait::until("all is evicted", PATIENCE, || tasks.stats().evicted == 100);
    assert_eq!(setup.bench.tier.touch(&[b"k7"]).unwrap(), [Touched::Cold]);
    setup.loader.load(b"k7").unwrap();
    assert_eq!(setup.bench.get(b"k7"), Some(b"1".to_vec()));
    let stats = tasks.stats();
    assert_eq!((stats.save_errors, stats.evict_errors, stats.refused), (0, 0, 0));
    tasks.stop();
}

#[test]
fn workers_share_the_shards_and_take_over_from_those_who_leave() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    let one = setup.tasks("one", NEVER);
    wait::until("the first has all", PATIENCE, || {
        one.stats().shards == u64::from(RANGES)
    });
    let two = setup.tasks("two", NEVER);
    let half = u64::from(RANGES) / 2;
    wait::until("both have half", PATIENCE, || {
        (one.stats().shards, two.stats().shards) == (half, half)
    });
    one.stop();
    wait::until("the second has all", PATIENCE, || {
        two.stats().shards == u64::from(RANGES)
    });
    setup.set("k", "1");
    wait::until("it saves", PATIENCE, || setup.is_saved("k"));
}

#[test]
fn a_cold_tier_that_is_down_delays_saves_and_nothing_else() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    setup.set("k", "1");
    setup.cold.set_down(true);
    let tasks = setup.tasks("one", SOON);
    wait::until("saving has failed", PATIENCE, || tasks.stats().save_errors > 2);
    assert!(tasks.stats().staleness > Duration::ZERO);
    setup.bench.write(b"k", &["SET", "k", "2"]);
    setup.cold.set_down(false);
    wait::until("it is saved and evicted", PATIENCE, || tasks.stats().evicted == 1);
    setup.loader.load(b"k").unwrap();
    assert_eq!(setup.bench.get(b"k"), Some(b"2".to_vec()));
}

#[test]
fn defect_24_memory_pressure_evicts_the_coldest_whatever_their_age() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    let value = "x".repeat(10_000);
    for number in 0..300 {
        setup.set(&format!("k{number}"), &value);
    }
    let used: u64 = redis.info("used_memory").unwrap().parse().unwrap();
    let mark = used - 1_000_000;
    let config = EvictConfig {
        memory_bytes: Some(mark),
        ..NEVER
    };
    let tasks = setup.tasks("one", config);
    wait::until("memory is below the mark", PATIENCE, || {
        redis.info("used_memory").unwrap().parse::<u64>().unwrap() < mark
    });
    let stats = tasks.stats();
    assert!(stats.pressed > 0, "{stats:?}");
    tasks.stop();
    assert!(setup.bench.tier.residents().unwrap() > 50, "not everything went");
    for number in 0..300 {
        let key = format!("k{number}");
        setup.loader.load(key.as_bytes()).unwrap();
        assert_eq!(setup.bench.get(key.as_bytes()), Some(value.clone().into_bytes()));
    }
}

#[test]
fn defect_24_a_node_that_refuses_writes_is_freed() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    let value = "x".repeat(10_000);
    for number in 0..300 {
        setup.set(&format!("k{number}"), &value);
    }
    let used: u64 = redis.info("used_memory").unwrap().parse().unwrap();
    redis.cmd(&["CONFIG", "SET", "maxmemory", &(used - 500_000).to_string()]);
    assert!(setup.bench.try_call(b"new", &["SET", "new", "1"]).is_err());
    let _tasks = setup.tasks("one", NEVER);
    wait::until("writes are taken again", PATIENCE, || {
        setup.bench.try_call(b"new", &["SET", "new", "1"]).is_ok()
    });
}

#[test]
fn defect_20_a_node_that_is_down_holds_up_no_other() {
    let cluster = RedisCluster::with_config(&["cluster-require-full-coverage no"]);
    let setup = Setup::open(&format!("redis+cluster://{}", cluster.addresses()[0]));
    for number in 0..60 {
        setup.set(&format!("k{number}"), "1");
    }
    let victim = cluster.owner_of(cluster.slot_of("k0"));
    let alive: Vec<String> = (0..60)
        .map(|number| format!("k{number}"))
        .filter(|key| cluster.owner_of(cluster.slot_of(key)) != victim)
        .collect();
    // Frozen, so that its connections stay open; its replica as well, so that it does not take over.
    cluster.nodes()[cluster.replica_of(victim)].stop();
    let tasks = setup.tasks("one", NEVER);
    wait::until("some are saved", PATIENCE, || tasks.stats().saves > 0);
    cluster.nodes()[victim].stop();
    for key in &alive {
        wait::until("a tag elsewhere is saved", PATIENCE, || setup.is_saved(key));
    }
    cluster.nodes()[victim].cont();
    for number in 0..60 {
        let key = format!("k{number}");
        wait::until("the others follow", Duration::from_secs(60), || {
            setup.is_saved(&key)
        });
    }
    tasks.stop();
}
