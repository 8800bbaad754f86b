//! From wherever things have come to, the tag can still be served and evicted.
//!
//! A possibility, not a promise about time: from a sample of all states within the bounds, with every
//! background process started anew and no more faults, some way leads to a lease and some way to an eviction.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use stateright::Model;

use super::background::{EvictorRole, LoaderRole, SaverRole};
use super::scenario::{Budget, Guards, Scenario, Start};
use super::search::Tiering;
use super::server::Server;
use super::world::{World, Wrong};

/// What the processes that come after may do: enough for a load, a save and an eviction.
const AFRESH: Budget = Budget {
    touches: 0,
    writes: 0,
    snapshots: 2,
    marks: 1,
    loads: 1,
    cuts: 0,
    syncs: 0,
    failovers: 0,
    emptied: 0,
};

/// How many states of each scenario are tried.
const SAMPLE: usize = 60;

fn start_anew(mut world: World, touches: u8) -> World {
    world.servers = vec![Server::default()];
    world.savers = vec![SaverRole::default()];
    world.evictors = vec![EvictorRole::Idle];
    world.loaders = vec![LoaderRole::default()];
    world.budget = Budget { touches, ..AFRESH };
    world.replica = None;
    world.evictions = 0;
    world
}

/// Walks through all states, the nearest first, until one is what was wanted; returns those it saw.
fn walk(model: &Tiering, start: World, is_wanted: fn(&World) -> bool) -> (Vec<World>, bool) {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut seen = HashSet::new();
    let mut walked = Vec::new();
    let mut next = VecDeque::from([start]);
    while let Some(world) = next.pop_front() {
        if is_wanted(&world) {
            return (walked, true);
        }
        if seen.insert(hasher.hash_one(&world)) {
            next.extend(model.next_states(&world));
            walked.push(world);
        }
    }
    (walked, false)
}

/// Counts the states of a sample from which the tag can no longer be served or evicted.
fn count_stuck(scenario: Scenario, guards: Guards) -> usize {
    // What is wrong is for other searches: this one goes on.
    let model = Tiering {
        scenario,
        guards,
        sought: Some(Wrong::Late),
    };
    let (all, _) = walk(&model, World::new(&scenario), |_| false);
    let is_stuck = |world: &&World| {
        // No client has to touch the tag for it to be evicted.
        let (_, can_evict) = walk(&model, start_anew((*world).clone(), 0), |world| {
            world.evictions > 0
        });
        let has_lease = |world: &World| world.servers.iter().any(Server::has_lease);
        let (_, can_serve) = walk(&model, start_anew((*world).clone(), 1), has_lease);
        !can_evict || !can_serve
    };
    all.iter()
        .step_by(all.len().div_ceil(SAMPLE))
        .filter(is_stuck)
        .count()
}

fn scenarios() -> [Scenario; 4] {
    let budget = Budget {
        touches: 1,
        writes: 1,
        ..AFRESH
    };
    let base = Scenario {
        budget,
        ..Scenario::default()
    };
    [
        Scenario {
            crashes: true,
            loaders: 0,
            budget: Budget { cuts: 1, ..budget },
            ..base
        },
        Scenario {
            budget: Budget { emptied: 1, ..budget },
            ..base
        },
        Scenario {
            start: Start::NewHot,
            budget: Budget { emptied: 1, ..budget },
            ..base
        },
        Scenario {
            evictors: 0,
            budget: Budget {
                syncs: 1,
                failovers: 1,
                ..budget
            },
            ..base
        },
    ]
}

#[test]
fn no_state_is_a_dead_end() {
    for scenario in scenarios() {
        assert_eq!(count_stuck(scenario, Guards::default()), 0, "{scenario:?}");
    }
}

#[test]
fn a_mark_that_nobody_can_take_over_is_a_dead_end() {
    let scenario = Scenario {
        savers: 0,
        loaders: 0,
        crashes: true,
        budget: AFRESH,
        ..Scenario::default()
    };
    assert!(
        count_stuck(
            scenario,
            Guards {
                mark_takes_over: false,
                ..Guards::default()
            }
        ) > 0
    );
    assert_eq!(count_stuck(scenario, Guards::default()), 0);
}
