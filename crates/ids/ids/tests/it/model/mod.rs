//! A search through everything that can happen to a few holders and their Redis.
//!
//! Breadth first over all orders of sending, running, answering, losing, crashing, ticking and
//! failing over, within bounds. The holders are the real [`LeaseState`](nagaya_ids::lease::LeaseState);
//! the scripts are a short copy in `store`, which a test compares with the real ones. In every state:
//! never two holders inside their windows with one number, and the one that opens later has the higher
//! fence.
//!
//! A plain test run stops after a bounded number of states; `NAGAYA_TEST_LONG=N` goes on to N million.
//! What was searched how far is printed.

mod rules;
pub(crate) mod store;
mod world;

use std::collections::{HashMap, VecDeque};

use rules::{Action, Rules};
use world::World;

const STATES_MAX: usize = 20_000;
const STATES_MAX_LONG: usize = 1_000_000;
/// Counterexamples lie deeper than a short run goes.
const STATES_MAX_BROKEN: usize = 400_000;

struct Found {
    states: usize,
    depth: u32,
    complete: bool,
    /// What went wrong and the way there.
    violation: Option<(String, Vec<Action>)>,
}

fn states_max() -> usize {
    match std::env::var("NAGAYA_TEST_LONG") {
        Ok(millions) => millions.parse().unwrap_or(1) * STATES_MAX_LONG,
        Err(_) => STATES_MAX,
    }
}

/// Visits states in the order of their distance. Only their hashes are kept: two of ten million
/// collide with a chance of one in 300,000, and would hide one state.
fn search(start: World, states_max: usize) -> Found {
    let first = start.key();
    let mut seen: HashMap<u64, Option<(u64, Action)>> = HashMap::from([(first, None)]);
    let mut queue = VecDeque::from([(first, 0, start)]);
    let mut deepest = 0;
    let mut next = Vec::new();
    while let Some((hash, depth, world)) = queue.pop_front() {
        deepest = depth;
        next.clear();
        world.successors(&mut next);
        for (action, outcome) in next.drain(..) {
            let (world, violation) = match outcome {
                Ok(world) => (Some(world), None),
                Err(violation) => (None, Some(violation)),
            };
            if let Some(violation) = violation {
                let mut way = vec![action];
                let mut at = hash;
                while let Some(Some((before, action))) = seen.get(&at) {
                    way.push(*action);
                    at = *before;
                }
                way.reverse();
                return Found {
                    states: seen.len(),
                    depth,
                    complete: false,
                    violation: Some((violation, way)),
                };
            }
            let Some(world) = world else { continue };
            let key = world.key();
            if let std::collections::hash_map::Entry::Vacant(entry) = seen.entry(key) {
                entry.insert(Some((hash, action)));
                queue.push_back((key, depth + 1, world));
            }
        }
        if seen.len() >= states_max {
            break;
        }
    }
    Found {
        states: seen.len(),
        depth: deepest,
        complete: queue.is_empty(),
        violation: None,
    }
}

#[track_caller]
fn check_holds(what: &str, rules: Rules) {
    let found = search(World::with_open_holder(rules), states_max());
    let end = if found.complete { "complete" } else { "cut" };
    eprintln!("{what}: {} states, {end} at depth {}", found.states, found.depth);
    if let Some((violation, way)) = found.violation {
        panic!("{what}: {violation} after {} steps: {way:#?}", way.len());
    }
}

/// Without the guard the search must find what the guard prevents: it can see.
#[track_caller]
fn check_breaks(what: &str, rules: Rules) {
    let found = search(World::with_open_holder(rules), STATES_MAX_BROKEN);
    let Some((violation, way)) = found.violation else {
        panic!(
            "{what}: nothing found in {} states to depth {}",
            found.states, found.depth
        );
    };
    eprintln!(
        "{what}: {violation}, {} steps, {} states",
        way.len(),
        found.states
    );
}

#[test]
fn without_failover_nobody_shares_a_number() {
    check_holds(
        "one node",
        Rules {
            processes: 2,
            starts: 3,
            ..Rules::default()
        },
    );
}

#[test]
fn one_failover_that_loses_anything_is_survived() {
    check_holds(
        "lost suffix",
        Rules {
            processes: 2,
            replicas: 1,
            failovers: 1,
            starts: 3,
            ..Rules::default()
        },
    );
}

#[test]
fn two_failovers_are_survived() {
    check_holds(
        "two failovers",
        Rules {
            processes: 2,
            replicas: 2,
            failovers: 2,
            ..Rules::default()
        },
    );
}

#[test]
fn a_pool_of_two_under_failover_is_survived() {
    check_holds(
        "pool of two, failover",
        Rules {
            processes: 2,
            numbers: 2,
            replicas: 1,
            failovers: 1,
            ..Rules::default()
        },
    );
}

#[test]
fn three_names_under_failover_are_survived() {
    check_holds(
        "three names, failover",
        Rules {
            processes: 3,
            replicas: 1,
            failovers: 1,
            starts: 3,
            ..Rules::default()
        },
    );
}

#[test]
fn flushall_is_survived() {
    check_holds(
        "flushall",
        Rules {
            processes: 2,
            flushes: 1,
            ..Rules::default()
        },
    );
}

#[test]
fn clocks_of_different_rates_are_covered_by_the_longer_delay() {
    check_holds(
        "drift",
        Rules {
            processes: 2,
            delay: 3,
            drift: 1,
            ..Rules::default()
        },
    );
}

#[test]
fn holders_with_unlike_windows_are_waited_for_by_the_longest() {
    let unlike = Rules {
        processes: 2,
        longer: 1,
        delay: 2,
        ..Rules::default()
    };
    check_holds(
        "unlike windows",
        Rules {
            starts: 3,
            releases: 1,
            ..unlike
        },
    );
    check_holds("unlike windows, flushall", Rules { flushes: 1, ..unlike });
    check_holds(
        "unlike windows, failover",
        Rules {
            replicas: 1,
            failovers: 1,
            ..unlike
        },
    );
}

#[test]
fn split_brain_with_all_or_a_majority_confirming_is_survived() {
    check_holds(
        "split brain, K=1 of 1",
        Rules {
            processes: 2,
            replicas: 1,
            confirmations: 1,
            failovers: 1,
            split: true,
            ..Rules::default()
        },
    );
    check_holds(
        "split brain, K=1 of 2",
        Rules {
            processes: 2,
            replicas: 2,
            confirmations: 1,
            failovers: 1,
            split: true,
            ..Rules::default()
        },
    );
    check_holds(
        "split brain, K=2 of 3",
        Rules {
            processes: 2,
            replicas: 3,
            confirmations: 2,
            failovers: 1,
            split: true,
            ..Rules::default()
        },
    );
}

#[test]
fn the_search_finds_what_a_missing_guard_lets_through() {
    let lossy = Rules {
        processes: 2,
        replicas: 1,
        failovers: 1,
        ..Rules::default()
    };
    check_breaks("no delay", Rules { delay: 0, ..lossy });
    check_breaks(
        "delay shorter than use",
        Rules {
            use_for: 2,
            delay: 1,
            ..lossy
        },
    );
    for (what, flushes, failovers) in [("taken", 0, 0), ("flushall", 1, 0), ("failover", 0, 1)] {
        check_breaks(
            &format!("a wait for the own window, {what}"),
            Rules {
                longer: 1,
                delay: 1,
                flushes,
                failovers,
                ..lossy
            },
        );
    }
    check_breaks("split brain, K=0", Rules { split: true, ..lossy });
    check_breaks(
        "at once whatever the run",
        Rules {
            trust_any_run: true,
            starts: 3,
            releases: 1,
            ..lossy
        },
    );
    check_breaks(
        "drift under a delay that does not cover it",
        Rules {
            delay: 1,
            drift: 1,
            ..lossy
        },
    );
}

#[test]
fn the_record_alone_does_not_tell_that_the_run_changed() {
    // A renewal that ran under the new run and whose answer was lost has already marked the record:
    // a holder that asks only the record reopens beside one whose grant was lost.
    check_breaks(
        "run compared with the record only",
        Rules {
            processes: 2,
            replicas: 1,
            failovers: 1,
            trust_record_run: true,
            ..Rules::default()
        },
    );
}
