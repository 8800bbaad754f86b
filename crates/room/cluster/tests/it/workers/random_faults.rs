//! Random faults that lose nothing, in any order, under writers that check every acknowledged write.
//!
//! A failure prints the seed; run it again with `NAGAYA_SEED=n`. It lasts some seconds, ten minutes with
//! `NAGAYA_TEST_LONG=1`, or `NAGAYA_TEST_MINUTES=n` minutes: `scripts/faults` sets both.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use nagaya_testkit::{Failover, Postgres, RedisCluster};

use super::whole::{Town, cluster_url, move_things, open_postgres, run_with_faults};

const SHORT: Duration = Duration::from_secs(20);
const LONG_MINUTES: u64 = 10;

/// Something that happens to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A replica takes over with its primary's help.
    Failover,
    MovedSlots,
    /// PostgreSQL is killed and started again.
    KilledPostgres,
    /// PostgreSQL hangs for a while.
    HungPostgres,
    /// A primary hangs, for less or more than the allowance.
    HungPrimary,
    /// Connections are cut while commands are on their way.
    CutConnections,
    Quiet,
}

const FAULTS: [Fault; 7] = [
    Fault::Failover,
    Fault::MovedSlots,
    Fault::KilledPostgres,
    Fault::HungPostgres,
    Fault::HungPrimary,
    Fault::CutConnections,
    Fault::Quiet,
];

/// Numbers that a seed gives again (splitmix64).
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn seed() -> u64 {
    match std::env::var("NAGAYA_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => RandomState::new().build_hasher().finish() >> 16,
    }
}

fn lasts() -> Duration {
    let minutes = std::env::var("NAGAYA_TEST_MINUTES").map(|text| text.parse::<u64>().unwrap());
    match minutes {
        Ok(minutes) => Duration::from_secs(60 * minutes),
        Err(_) if std::env::var_os("NAGAYA_TEST_LONG").is_some() => Duration::from_secs(60 * LONG_MINUTES),
        Err(_) => SHORT,
    }
}

#[test]
fn any_mixture_of_faults_that_lose_nothing_loses_nothing() {
    let (seed, time) = (seed(), lasts());
    eprintln!("NAGAYA_SEED={seed}, {time:?}");
    let cluster = RedisCluster::start();
    let postgres = Postgres::start();
    let town = Town::over(cluster_url(&cluster), open_postgres(&postgres.create_database()));
    let draws = Mutex::new(Draws(seed));
    run_with_faults(&town, time, |round| {
        let mut draws = draws.lock().unwrap();
        let fault = FAULTS[draws.below(FAULTS.len() as u64) as usize];
        eprintln!("NAGAYA_SEED={seed} round {round}: {fault:?}");
        cause(fault, &mut draws, &cluster, &postgres);
        thread::sleep(Duration::from_millis(draws.below(1500)));
    });
}

fn cause(fault: Fault, draws: &mut Draws, cluster: &RedisCluster, postgres: &Postgres) {
    let owner = cluster.owner_of(draws.below(16_384) as u16);
    match fault {
        Fault::Quiet => (),
        Fault::Failover => cluster.failover(cluster.replica_of(owner), Failover::Graceful),
        Fault::MovedSlots => move_things(cluster, 1),
        Fault::KilledPostgres => {
            postgres.kill9();
            thread::sleep(Duration::from_millis(draws.below(1000)));
            postgres.restart();
        }
        Fault::HungPostgres => {
            postgres.stop();
            thread::sleep(Duration::from_millis(draws.below(2000)));
            postgres.cont();
        }
        Fault::HungPrimary => {
            // Shorter than what makes the others replace it: that would lose writes, as Redis does.
            let node = &cluster.nodes()[owner];
            node.stop();
            thread::sleep(Duration::from_millis(draws.below(1200)));
            node.cont();
        }
        Fault::CutConnections => {
            cluster.nodes()[owner].cmd(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        }
    }
}
