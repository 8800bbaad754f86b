//! The races in which the original loses data, run thousands of times.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use nagaya_clock::{Clock, SystemClock};
use nagaya_cluster::hot_tier::{Limits, RedisHotTier};
use nagaya_testkit::{Redis, Reply};
use nagaya_tiering::cold::{Change, ColdTier, Kind, Snapshot, StoredValue, Version};
use nagaya_tiering::evictor::Evictor;
use nagaya_tiering::saver::{Saver, SaverConfig};
use tokio::runtime::Runtime;

use super::bench::LIMITS;
use super::server::Server;
use crate::flaky::Flaky;

/// Leases that end so soon that they are renewed and evictions confirmed all the time, yet with an allowance
/// that a busy machine keeps most of the time.
const BRIEF: Limits = Limits {
    lease: Duration::from_millis(40),
    allowance: Duration::from_millis(80),
    ..LIMITS
};

struct Setup {
    runtime: Runtime,
    redis: Redis,
    cold: Arc<Flaky>,
}

impl Setup {
    fn open(config: &[&str]) -> Setup {
        Setup {
            runtime: Runtime::new().unwrap(),
            redis: Redis::with_config(config),
            cold: Arc::new(Flaky {
                commit_time: Duration::from_millis(20),
                ..Flaky::default()
            }),
        }
    }

    fn tier(&self) -> RedisHotTier {
        let url = self.redis.url().parse().unwrap();
        RedisHotTier::new(url, "race", BRIEF, self.runtime.handle().clone()).unwrap()
    }

    fn server(&self) -> Server {
        Server::new(self.redis.address(), &self.tier(), self.cold.clone())
    }

    fn saver(&self) -> Saver {
        let config = SaverConfig {
            max_staleness: Duration::ZERO,
            batch_tags: 64,
        };
        let clock = Arc::new(SystemClock);
        Saver::new(Arc::new(self.tier()), self.cold.clone(), clock, config)
    }

    fn evictor(&self) -> Evictor {
        let clock = Arc::new(SystemClock);
        Evictor::new(Arc::new(self.tier()), self.cold.clone(), clock)
    }

    /// What DUMP gives for a string.
    fn dump(&self, value: &str) -> Vec<u8> {
        self.redis.cmd(&["SET", "sample", value]);
        let Reply::Bulk(payload) = self.redis.cmd(&["DUMP", "sample"]) else {
            panic!("DUMP gives bytes");
        };
        self.redis.cmd(&["DEL", "sample"]);
        payload
    }

    /// Puts a string into the cold tier, as an earlier residency left it.
    fn put_row(&self, tag: &str, key: &str, payload: &[u8]) {
        self.cold.ensure(&[tag.as_bytes()]).unwrap();
        let rest = StoredValue {
            kind: Kind::String,
            payload: payload.to_vec(),
            expires_at_ms: None,
        };
        let snapshot = Snapshot {
            tag: tag.into(),
            version: Version {
                generation: 1,
                snap: 1,
            },
            changes: vec![Change {
                key: key.into(),
                value: Some(rest),
            }],
            read_at_ms: None,
            written_at_ms: None,
        };
        self.cold.cold.commit(&[snapshot], 0).unwrap();
    }
}

#[test]
fn defect_01_double_loads_never_overwrite_an_acknowledged_write() {
    const ROUNDS: usize = 2000;
    const SERVERS: usize = 3;
    let setup = Setup::open(&[]);
    let old = setup.dump("old");
    for round in 0..ROUNDS {
        setup.put_row(&format!("u{round}"), &format!("{{u{round}}}0"), &old);
    }
    let barrier = Barrier::new(SERVERS);
    let lost = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..SERVERS {
            let (setup, barrier, lost) = (&setup, &barrier, &lost);
            scope.spawn(move || {
                let mut server = setup.server();
                for round in 0..ROUNDS {
                    // All meet the cold tag at once; the first of them writes over its row.
                    let key = format!("{{u{round}}}{number}");
                    barrier.wait();
                    let is_acknowledged = server.set(key.as_bytes(), b"new").is_ok();
                    barrier.wait();
                    let found = setup.redis.cmd(&["GET", &key]);
                    if is_acknowledged && found != Reply::Bulk(b"new".to_vec()) {
                        lost.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(lost.into_inner(), 0);
}

/// What a writer knows of its own keys: every value that each may have.
#[derive(Default)]
struct Memory {
    possible: HashMap<Vec<u8>, HashSet<Option<Vec<u8>>>>,
    acknowledged: u64,
}

impl Memory {
    fn of(&mut self, key: &[u8]) -> &mut HashSet<Option<Vec<u8>>> {
        let nothing = || HashSet::from([None]);
        self.possible.entry(key.to_vec()).or_insert_with(nothing)
    }

    #[track_caller]
    fn check(&mut self, key: &[u8], found: Option<Vec<u8>>) {
        let possible = self.of(key);
        assert!(
            possible.contains(&found),
            "{} is {found:?}, not one of {possible:?}",
            String::from_utf8_lossy(key)
        );
    }

    fn write(&mut self, server: &mut Server, key: &[u8], value: Vec<u8>) {
        match server.set(key, &value) {
            Ok(()) => {
                *self.of(key) = HashSet::from([Some(value)]);
                self.acknowledged += 1;
            }
            Err(_) => {
                self.of(key).insert(Some(value));
            }
        }
    }
}

/// Writes to its own keys of tags that others write to as well, reading each before it writes; stays with a
/// few tags for a while, so that the others are left alone long enough to be evicted.
fn write_and_check(setup: &Setup, number: u64, goes_on: impl Fn(u64) -> bool) -> Memory {
    const TAGS: u64 = 200;
    let start = SystemClock.steady();
    let mut server = setup.server();
    let mut memory = Memory::default();
    let mut turn: u64 = 0;
    while goes_on(memory.acknowledged) {
        turn += 1;
        let visit = (SystemClock.steady() - start).as_millis() as u64 / 60 + number;
        let tag = (visit * 7 + turn % 6) % TAGS;
        let key = format!("{{t{tag}}}{number}").into_bytes();
        if let Ok(found) = server.get(&key) {
            memory.check(&key, found);
        }
        // Every other visit only reads: nothing but the lease protects it then.
        if (visit / TAGS + visit).is_multiple_of(2) {
            memory.write(&mut server, &key, format!("{number}:{turn}").into_bytes());
        }
    }
    memory
}

fn background(setup: &Setup, is_over: &AtomicBool, evicted: &AtomicU64) {
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut saver = setup.saver();
                while !is_over.load(Ordering::Relaxed) {
                    // A restart of the server ends a round; the next one goes on.
                    let _ended = saver.round();
                    thread::yield_now();
                }
            });
        }
        scope.spawn(|| {
            let evictor = setup.evictor();
            while !is_over.load(Ordering::Relaxed) {
                if let Ok(report) = evictor.round(1000, Duration::from_millis(50)) {
                    evicted.fetch_add(report.evicted, Ordering::Relaxed);
                }
            }
        });
    });
}

/// Lets writers, savers and an evictor loose on each other, with something done to the server meanwhile;
/// then reads every key once more. On a slow machine it takes longer, until enough has happened.
fn run_all(setup: &Setup, time: Duration, evicted_min: u64, disturb: impl Fn(&AtomicBool) + Sync) {
    const WRITERS: u64 = 3;
    const WRITES_MIN: u64 = 200;
    const PATIENCE: Duration = Duration::from_secs(120);
    let (is_over, evicted) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = SystemClock.steady();
    let goes_on = |acknowledged: u64| {
        let passed = SystemClock.steady() - start;
        let enough = acknowledged >= WRITES_MIN && evicted.load(Ordering::Relaxed) >= evicted_min;
        passed < time || (!enough && passed < time + PATIENCE)
    };
    let goes_on = &goes_on;
    let memories: Vec<Memory> = thread::scope(|scope| {
        let work = scope.spawn(|| background(setup, &is_over, &evicted));
        let disturber = scope.spawn(|| disturb(&is_over));
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| scope.spawn(move || write_and_check(setup, number, goes_on)))
            .collect();
        let memories = writers.into_iter().map(|writer| writer.join());
        let memories: Vec<_> = memories.collect();
        is_over.store(true, Ordering::Relaxed);
        work.join().unwrap();
        disturber.join().unwrap();
        memories.into_iter().map(Result::unwrap).collect()
    });
    let mut server = setup.server();
    let mut acknowledged = 0;
    for mut memory in memories {
        acknowledged += memory.acknowledged;
        let keys: Vec<_> = memory.possible.keys().cloned().collect();
        for key in keys {
            // Late replies are errors; the next try is in time.
            let found =
                nagaya_testkit::wait::value("a read", Duration::from_secs(20), || server.get(&key).ok());
            memory.check(&key, found);
        }
    }
    assert!(acknowledged >= WRITERS * WRITES_MIN, "only {acknowledged} writes");
    let evicted = evicted.into_inner();
    assert!(evicted >= evicted_min, "only {evicted} evictions");
}

#[test]
fn defects_02_03_07_evictions_never_take_an_acknowledged_write() {
    let setup = Setup::open(&[]);
    let (seconds, evictions) = match std::env::var_os("NAGAYA_TEST_LONG") {
        None => (10, 300),
        Some(_) => (180, 5000),
    };
    run_all(&setup, Duration::from_secs(seconds), evictions, |_| ());
}

#[test]
fn restarts_that_keep_the_data_lose_no_acknowledged_write() {
    let setup = Setup::open(&["appendonly yes", "appendfsync always"]);
    run_all(&setup, Duration::from_secs(8), 10, |is_over| {
        while !is_over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1500));
            setup.redis.restart();
        }
    });
}

#[test]
fn defects_05_06_flushes_never_reach_the_rows() {
    const TAGS: usize = 20;
    const FLUSHES: usize = 2000;
    let setup = Setup::open(&[]);
    let kept = setup.dump("kept");
    for tag in 0..TAGS {
        setup.put_row(&format!("t{tag}"), &format!("{{t{tag}}}kept"), &kept);
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = scope.spawn(|| background(&setup, &is_over, &AtomicU64::new(0)));
        for number in 0..2 {
            let (setup, is_over) = (&setup, &is_over);
            scope.spawn(move || {
                let mut server = setup.server();
                let mut turn = 0;
                while !is_over.load(Ordering::Relaxed) {
                    turn += 1;
                    let tag = turn % TAGS;
                    // The same value again: announced as changed, and absent when a flush comes between.
                    let _lost = server.set(format!("{{t{tag}}}kept").as_bytes(), b"kept");
                    let _lost = server.set(format!("{{t{tag}}}{number}").as_bytes(), b"x");
                }
            });
        }
        for _ in 0..FLUSHES {
            setup.redis.cmd(&["FLUSHALL"]);
            thread::sleep(Duration::from_millis(1));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    for tag in 0..TAGS {
        let name = format!("t{tag}");
        let loaded = setup.cold.read(&[name.as_bytes()]).unwrap().remove(0).unwrap();
        let row = loaded.rows.iter().find(|row| row.key.ends_with(b"kept"));
        assert_eq!(row.map(|row| &row.value.payload), Some(&kept), "{name}");
    }
}
