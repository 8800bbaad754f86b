//! Killed again and again, at any moment, under writers of every type, while tags go cold and come back:
//! what was acknowledged is there, what was not is there wholly or not at all.
//!
//! A failure prints the seed; run it again with `NAGAYA_SEED=n`. `NAGAYA_TEST_LONG=1` kills 300 times.

mod contended;
mod every_second;
mod ops;
mod state;
mod watcher;
mod wire;
mod writer;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nagaya_store::rng::Rng;
use nagaya_testkit::{Nagaya, wait};

use super::{LIMIT, house};
use contended::Crowded;
use wire::{Wire, words};
use writer::Writer;

const WRITERS: usize = 3;
const TAGS_PER_WRITER: usize = 6;
const CROWD: usize = 2;
/// Memory for the data and for what the engine takes once it is used: buffers of the log, clients, scripts.
/// With half of this, requests of a long run mostly wait for each other's tags to come and go.
const MEMORY_BYTES: u64 = 2 << 20;
/// Writes acknowledged between a start and a kill, at most.
const WRITES_MAX: usize = 1200;

/// From a start of the server to its end.
pub(super) struct Round<'r> {
    address: SocketAddr,
    number: usize,
    killed: &'r AtomicBool,
    /// Writes acknowledged so far.
    progress: &'r AtomicU64,
}

impl Round<'_> {
    fn goes_on(&self) -> bool {
        !self.killed.load(Ordering::Relaxed)
    }

    fn wrote(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }
}

fn seed() -> u64 {
    match std::env::var("NAGAYA_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => Rng::from_entropy().next_u64(),
    }
}

fn is_long() -> bool {
    std::env::var_os("NAGAYA_TEST_LONG").is_some()
}

/// Returns the limit under which so much data fits, beside what an empty engine takes and with half of all
/// counted as held by the process without use, which is the most that counts.
pub(super) fn limit_for(data_bytes: u64) -> u64 {
    let house = house().start();
    let mut wire = Wire::connect(house.address("room")).unwrap();
    let info = wire.ask(&words("INFO memory")).unwrap();
    let info = String::from_utf8(info).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    let empty: u64 = line.unwrap().trim().parse().unwrap();
    (empty + data_bytes) * 16 / 7
}

#[test]
fn nothing_acknowledged_is_lost_when_killed_at_any_moment() {
    let seed = seed();
    let kills = if is_long() { 300 } else { 8 };
    let mut rng = Rng::seeded(seed);
    let max_memory = limit_for(MEMORY_BYTES);
    let staleness_ms = 100 + rng.below(900);
    let house = house()
        .args(["--set", "room.fsync=always", "--set", "room.idle_after=1s"])
        .args(["--set", &format!("room.max_memory={max_memory}b")])
        .args(["--set", &format!("room.max_staleness={staleness_ms}ms")])
        .start();
    let address = house.address("room");
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|number| Writer::new(number, TAGS_PER_WRITER, seed))
        .collect();
    let mut crowd: Vec<Crowded> = (0..CROWD).map(Crowded::new).collect();
    let (mut reads, evicted) = (0, AtomicU64::new(0));
    for kill in 0..kills {
        let context = format!("NAGAYA_SEED={seed} kill {kill}");
        reads += live(&house, kill, &mut writers, &mut crowd, &mut rng, &evicted);
        if rng.below(4) == 0 {
            die_while_starting(&house, &mut rng);
        }
        house.restart();
        writers
            .iter_mut()
            .for_each(|writer| writer.verify(address, &context));
        contended::verify(&crowd, kill..kill + 1, address, &context);
    }
    contended::verify(
        &crowd,
        0..kills,
        address,
        &format!("NAGAYA_SEED={seed} at the end"),
    );
    let output = house.process().output();
    assert!(!output.contains("panicked"), "{output}");
    let acknowledged = writers.iter().map(|writer| writer.acknowledged).sum::<u64>()
        + crowd.iter().map(|writer| writer.acknowledged).sum::<u64>();
    let refused: u64 = writers.iter().map(|writer| writer.refused).sum();
    let evicted = evicted.into_inner();
    println!(
        "NAGAYA_SEED={seed}: {kills} kills, {acknowledged} writes acknowledged, 0 lost; \
         {refused} refused for lack of memory, {reads} reads of counters, {evicted} keys sent away"
    );
    assert!(acknowledged > 0 && evicted > 0 && reads > 0);
}

/// Writes, reads and evicts until this many writes are acknowledged, then kills.
fn live(
    house: &Nagaya,
    number: usize,
    writers: &mut [Writer],
    crowd: &mut [Crowded],
    rng: &mut Rng,
    evicted: &AtomicU64,
) -> u64 {
    let (killed, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let round = Round {
        address: house.address("room"),
        number,
        killed: &killed,
        progress: &progress,
    };
    let enough = rng.below(WRITES_MAX) as u64;
    let counters: Vec<watcher::Counters> = writers
        .iter()
        .map(|writer| (writer.tags.clone(), writer.counters.clone()))
        .collect();
    let tags: Vec<String> = writers.iter().flat_map(|writer| writer.tags.clone()).collect();
    let (reader, evictor) = (Rng::seeded(rng.next_u64()), Rng::seeded(rng.next_u64()));
    thread::scope(|scope| {
        let round = &round;
        let reads = scope.spawn(|| watcher::read(&counters, round, reader));
        let mut threads = vec![scope.spawn(|| watcher::evict(&tags, round, evictor, evicted))];
        threads.extend(writers.iter_mut().map(|writer| scope.spawn(|| writer.run(round))));
        threads.extend(crowd.iter_mut().map(|writer| scope.spawn(|| writer.run(round))));
        // One that ends before the kill has found something wrong, and will say so when it is joined.
        wait::until("writes are acknowledged", 4 * LIMIT, || {
            progress.load(Ordering::Relaxed) >= enough
                || reads.is_finished()
                || threads.iter().any(|thread| thread.is_finished())
        });
        house.process().kill9();
        killed.store(true, Ordering::Relaxed);
        reads.join().unwrap()
    })
}

/// Starts it and kills it some milliseconds later, perhaps while it brings back what it lost.
fn die_while_starting(house: &Nagaya, rng: &mut Rng) {
    house.process().start_again().unwrap();
    thread::sleep(Duration::from_millis(rng.below(300) as u64));
    house.process().kill9();
}
