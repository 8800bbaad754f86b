//! Those who read while others write, and those who send tags to the cold tier.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nagaya_resp::Frame;
use nagaya_store::rng::Rng;

use super::Round;
use super::state::text;
use super::wire::{Wire, frame, words};
use super::writer::Counter;

/// The counters of one writer's tags.
pub(super) type Counters = (Vec<String>, Arc<Vec<Counter>>);

/// Reads counters until the server is gone: none goes back, none lags behind what was acknowledged, none is
/// ahead of what was sent.
pub(super) fn read(writers: &[Counters], round: &Round<'_>, mut rng: Rng) -> u64 {
    let mut reads = 0;
    let Ok(mut wire) = Wire::connect(round.address) else {
        return 0;
    };
    while round.goes_on() {
        let (tags, counters) = &writers[rng.below(writers.len())];
        let at = rng.below(tags.len());
        let (tag, counter) = (&tags[at], &counters[at]);
        let before = counter.acknowledged.load(Ordering::SeqCst);
        let seen = counter.seen.load(Ordering::SeqCst);
        let Ok(reply) = wire.ask(&words(&format!("GET {{{tag}}}n"))) else {
            break;
        };
        let after = counter.sent.load(Ordering::SeqCst);
        let count = match frame(&reply) {
            Frame::Nil => 0,
            Frame::Error(error) => panic!("a read was refused: {}", error.escape_ascii()),
            other => text(&other).parse().unwrap(),
        };
        assert!(
            count >= before && count >= seen && count <= after,
            "{tag} counts {count}: {before} were acknowledged before, {seen} seen, {after} sent after"
        );
        counter.seen.fetch_max(count, Ordering::SeqCst);
        reads += 1;
    }
    reads
}

/// Sends random tags to the cold tier until the server is gone; counts the keys that went.
pub(super) fn evict(tags: &[String], round: &Round<'_>, mut rng: Rng, evicted: &AtomicU64) {
    let Ok(mut wire) = Wire::connect(round.address) else {
        return;
    };
    while round.goes_on() {
        let tag = &tags[rng.below(tags.len())];
        let Ok(reply) = wire.ask(&words(&format!("ROOM.EVICT {tag}"))) else {
            return;
        };
        match frame(&reply) {
            Frame::Int(keys) => evicted.fetch_add(keys as u64, Ordering::Relaxed),
            // Written to faster than it can be saved.
            Frame::Error(error) if error.starts_with(b"ERR the tag could not be saved in time") => 0,
            other => panic!("{other:?}"),
        };
    }
}
