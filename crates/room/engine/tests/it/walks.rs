//! Commands that walk through all of the cold tier, and those who are not to wait for them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nagaya_engine::Engine;
use nagaya_testkit::{Reply, wait};

use crate::harness::{LIMIT, ask, client};
use crate::storage::Place;

const KEYS: usize = 3_000;

/// Fills a room with keys that are all cold.
fn cold_room(place: &Place) -> Engine {
    let engine = place.start();
    let mut one = client(&engine);
    for at in 0..KEYS {
        one.send(&["SET", &format!("{{k{at}}}x"), "v"]).unwrap();
    }
    for _ in 0..KEYS {
        assert_eq!(one.receive().unwrap(), Reply::ok());
    }
    assert_eq!(ask(&mut one, &["ROOM.WAITCOLD", "0"]), Reply::Int(1));
    for at in 0..KEYS {
        one.send(&["ROOM.EVICT", &format!("k{at}")]).unwrap();
    }
    for _ in 0..KEYS {
        assert_eq!(one.receive().unwrap(), Reply::Int(1));
    }
    engine
}

fn hold_lists(place: &Place, holds: bool) {
    *place.cold.holds_lists.lock().unwrap() = holds;
    place.cold.lists_go_on.notify_all();
}

#[test]
fn a_walk_that_hangs_holds_up_no_load_and_is_asked_for_once() {
    let place = Place::new(1);
    let engine = cold_room(&place);
    hold_lists(&place, true);
    let before = place.cold.lists.load(Ordering::SeqCst);
    let mut walkers: Vec<_> = (0..8).map(|_| client(&engine)).collect();
    for walker in &mut walkers {
        walker.send(&["KEYS", "*7}x"]).unwrap();
    }
    let begun = || place.cold.lists.load(Ordering::SeqCst) > before;
    wait::until("the walk has begun", LIMIT, begun);
    let mut other = client(&engine);
    // Each of these is a load; together they take longer than several ticks of the engine.
    #[allow(clippy::disallowed_methods, reason = "a test measures")]
    let started = Instant::now();
    let mut at = 0;
    while started.elapsed() < Duration::from_millis(600) {
        let key = format!("{{k{}}}x", at % KEYS);
        assert_eq!(ask(&mut other, &["GET", &key]), Reply::bulk("v"));
        at += 1;
    }
    assert!(at > 100, "only {at} loads in that time");
    assert_eq!(
        place.cold.lists.load(Ordering::SeqCst) - before,
        1,
        "one page is under way, and nothing else was asked"
    );
    hold_lists(&place, false);
    for walker in &mut walkers {
        let found = walker.receive().unwrap();
        assert_eq!(found.items().len(), KEYS / 10);
    }
    // All followed the same walk: the few that joined late went on into a second round.
    let pages = KEYS.div_ceil(1_000) + 1;
    assert!(place.cold.lists.load(Ordering::SeqCst) - before <= 2 * pages + 1);
}

#[test]
fn the_end_of_the_engine_does_not_wait_for_walks() {
    let place = Place::new(1);
    let engine = cold_room(&place);
    hold_lists(&place, true);
    let before = place.cold.lists.load(Ordering::SeqCst);
    let mut walkers: Vec<_> = (0..8).map(|_| client(&engine)).collect();
    for walker in &mut walkers {
        walker.send(&["KEYS", "*"]).unwrap();
    }
    let begun = || place.cold.lists.load(Ordering::SeqCst) > before;
    wait::until("the walk has begun", LIMIT, begun);
    let stopping = std::thread::spawn(move || engine.stop());
    // The page under way is the only thing that is waited for.
    wait::until("clients are let go", LIMIT, || walkers[0].receive().is_err());
    hold_lists(&place, false);
    stopping.join().unwrap();
    assert!(place.cold.lists.load(Ordering::SeqCst) - before <= 2);
}

#[test]
fn a_walk_ends_when_nobody_waits_for_it_any_more() {
    let place = Place::new(1);
    let engine = cold_room(&place);
    hold_lists(&place, true);
    let before = place.cold.lists.load(Ordering::SeqCst);
    let mut walker = client(&engine);
    walker.send(&["KEYS", "*"]).unwrap();
    let begun = || place.cold.lists.load(Ordering::SeqCst) > before;
    wait::until("the walk has begun", LIMIT, begun);
    drop(walker);
    wait::until("the client is gone", LIMIT, || engine.stats().connections() == 0);
    hold_lists(&place, false);
    // A later walk begins at the start, and is the only one.
    let mut other = client(&engine);
    assert_eq!(ask(&mut other, &["KEYS", "*"]).items().len(), KEYS);
    let pages = KEYS.div_ceil(1_000) + 1;
    assert!(place.cold.lists.load(Ordering::SeqCst) - before <= pages + 1);
}
