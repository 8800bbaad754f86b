//! `fsync = everysec`: a crash costs the last second at most, and never something older than what is kept.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nagaya_resp::Frame;
use nagaya_store::rng::Rng;
use nagaya_testkit::wait;

use super::state::text;
use super::wire::{Wire, words};
use super::{Round, is_long, seed};
use crate::{LIMIT, house};

const CLIENTS: usize = 3;
/// Tags that each client writes to in turn.
const TAGS: u64 = 7;
/// What may be lost, with what a loaded machine adds.
const LOSS_MAX: Duration = Duration::from_millis(1200);

/// A client that counts up, the next number to the next tag.
#[derive(Default)]
struct Counting {
    number: usize,
    last: u64,
    /// When each number was acknowledged, since the round began.
    acknowledged: Vec<(u64, Duration)>,
}

impl Counting {
    fn run(&mut self, round: &Round<'_>, begun: std::time::Instant) {
        let mut wire = Wire::connect(round.address).unwrap();
        while round.goes_on() {
            self.last += 1;
            let (client, number) = (self.number, self.last);
            let request = format!("SET {{c{client}t{}}}n {number}", number % TAGS);
            match wire.ask(&words(&request)) {
                Ok(reply) => assert_eq!(reply, b"+OK\r\n"),
                Err(_) => return,
            }
            self.acknowledged.push((number, begun.elapsed()));
            round.wrote();
        }
    }

    /// Finds the number up to which everything is there, and checks that nothing after it is.
    fn kept(&self, wire: &mut Wire, context: &str) -> u64 {
        let tags = (0..TAGS).map(|tag| words(&format!("GET {{c{}t{tag}}}n", self.number)));
        let there = wire
            .ask_all(&tags.collect::<Vec<_>>())
            .into_iter()
            .map(|reply| match reply {
                Frame::Nil => 0,
                other => text(&other).parse().unwrap(),
            });
        let there: Vec<u64> = there.collect();
        let kept = there.iter().copied().max().unwrap();
        for (tag, number) in there.iter().enumerate() {
            let latest = (0..=kept)
                .rev()
                .take(TAGS as usize)
                .find(|n| n % TAGS == tag as u64);
            assert_eq!(
                *number,
                latest.unwrap_or(0),
                "{context}: {kept} is there, but tag {tag} of client {} is not up to it: {there:?}",
                self.number
            );
        }
        kept
    }
}

#[allow(clippy::disallowed_methods, reason = "what was lost is measured in real time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

#[test]
fn what_everysec_loses_is_the_last_second_and_nothing_between() {
    let seed = seed();
    let mut rng = Rng::seeded(seed);
    let kills = if is_long() { 30 } else { 3 };
    let house = house()
        .args([
            "--set",
            "room.fsync=everysec",
            "--set",
            "room.max_staleness=300ms",
        ])
        .start();
    let mut clients: Vec<Counting> = (0..CLIENTS)
        .map(|number| Counting {
            number,
            ..Counting::default()
        })
        .collect();
    let mut worst = Duration::ZERO;
    for kill in 0..kills {
        let context = format!("NAGAYA_SEED={seed} kill {kill}");
        let (killed, progress) = (AtomicBool::new(false), AtomicU64::new(0));
        let round = Round {
            address: house.address("room"),
            number: kill,
            killed: &killed,
            progress: &progress,
        };
        let (begun, enough) = (now(), 500 + rng.below(3000) as u64);
        let killed_at = thread::scope(|scope| {
            let round = &round;
            for client in &mut clients {
                scope.spawn(move || client.run(round, begun));
            }
            wait::until("writes are acknowledged", 4 * LIMIT, || {
                progress.load(Ordering::Relaxed) >= enough
            });
            let killed_at = begun.elapsed();
            house.process().kill9();
            killed.store(true, Ordering::Relaxed);
            killed_at
        });
        house.restart();
        let mut wire = Wire::connect(house.address("room")).unwrap();
        for client in &mut clients {
            let kept = client.kept(&mut wire, &context);
            let lost = client.acknowledged.iter().find(|(number, _)| *number > kept);
            let lost = lost.map_or(Duration::ZERO, |(_, at)| killed_at.saturating_sub(*at));
            worst = worst.max(lost);
            client.acknowledged.clear();
            client.last = kept;
        }
    }
    println!("NAGAYA_SEED={seed}: {kills} kills, at most {worst:?} of acknowledged writes lost");
    assert!(worst <= LOSS_MAX, "{worst:?} of acknowledged writes were lost");
}
