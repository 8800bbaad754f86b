use std::time::Duration;

use super::*;
use crate::name::{InstanceName, WorkerId};
use crate::timing::TimingOptions;

fn rough() -> Settings {
    // Clocks that are off by one percent, so that the stretch of D and Q matters.
    let options = TimingOptions {
        drift_ppm: Some(10_000),
        ..TimingOptions::default()
    };
    Settings {
        timing: Timing::from_options(options).unwrap(),
        ..Settings::default()
    }
}

#[track_caller]
fn expect_none(search: SeedSearch) {
    assert!(search.failure.is_none(), "{:#?}", search.failure);
    assert!(search.starts > 0);
}

#[track_caller]
fn expect_found(settings: &Settings, seeds: u64) {
    let search = search_seeds(settings, 0..seeds);
    let failure = search.failure.expect("the search finds what is wrong");
    assert!(
        failure.violation.contains("two copies") || failure.violation.contains("after epoch"),
        "{failure:#?}"
    );
    // The shrunk scenario fails on its own.
    assert!(run(settings, &failure.scenario).violation.is_some());
}

#[test]
fn a_quiet_world_starts_every_worker_once() {
    let settings = Settings { faults: 0, ..rough() };
    let outcome = run(&settings, &Scenario::from_seed(&settings, 1));
    assert_eq!(outcome.violation, None);
    assert!(outcome.starts >= 6 && outcome.deaths == 0, "{outcome:?}");
}

/// `FLEET_SEEDS=5000` searches longer; `FLEET_FIRST_SEED` sets the first seed.
fn seeds() -> std::ops::Range<u64> {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let first = number("FLEET_FIRST_SEED", 0);
    first..first + number("FLEET_SEEDS", 300)
}

#[test]
fn p1_p2_no_double_owner_and_no_lost_worker_in_any_world() {
    let search = search_seeds(&rough(), seeds());
    println!(
        "{} worlds, {} starts, {} deaths, dark at most {} ms",
        search.seeds, search.starts, search.deaths, search.dark_ms_max
    );
    expect_none(search);
}

#[test]
fn the_search_finds_a_death_that_is_declared_before_the_lease_is_over() {
    let mut settings = rough();
    settings.timing.death = settings.timing.lease / 2;
    expect_found(&settings, 400);
}

#[test]
fn the_search_finds_a_missing_quarantine() {
    let mut settings = rough();
    settings.timing.quarantine = Duration::ZERO;
    expect_found(&settings, 400);
}

/// Seeds within which a search finds the lack of a guard, with a margin.
const GUARD_SEEDS: u64 = 1500;

#[test]
fn the_search_finds_the_lack_of_each_guard() {
    for guard in Guard::ALL {
        // These need a message that is late in a way that random worlds rarely produce; see below.
        if matches!(
            guard,
            Guard::LeaseFromSending | Guard::StopCompares | Guard::AssignCompares
        ) {
            continue;
        }
        let settings = Settings {
            without: Some(guard),
            ..rough()
        };
        let failure = search_seeds(&settings, 0..GUARD_SEEDS).failure;
        let violation = failure.map(|failure| failure.violation).unwrap_or_default();
        let found = ["two copies", "after epoch", "dead instance"];
        assert!(
            found.iter().any(|found| violation.contains(found)),
            "{guard:?}: {violation:?}"
        );
    }
}

/// Short leases, frequent heartbeats and a fast manager, so that a stop that is slightly late shows.
fn tight() -> Settings {
    let ms = |ms| Some(Duration::from_millis(ms));
    let options = TimingOptions {
        lease: ms(2000),
        heartbeat: ms(150),
        grace: ms(1),
        poll: ms(50),
        drift_ppm: Some(0),
        ..TimingOptions::default()
    };
    let mut timing = Timing::from_options(options).unwrap();
    timing.margin = Duration::from_micros(4);
    Settings {
        timing,
        managers: 1,
        workers: 3,
        trouble_s: 12,
        ..Settings::default()
    }
}

/// An agent is cut off for good in a storm of late messages.
fn cut_in_a_storm(seed: u64) -> Scenario {
    let storm = Fault::Drain {
        agent: 2,
        length: 10_000,
    };
    let cut = Fault::Cut {
        agent: 0,
        to_store: true,
        from_store: false,
        length: 8000,
    };
    Scenario {
        seed,
        rates_ppm: Vec::new(),
        faults: vec![(2000, storm), (5000 + seed * 13 % 1000, cut)],
    }
}

#[test]
fn a_lease_that_counts_from_the_answer_is_found_and_ours_is_not() {
    let lax = Settings {
        without: Some(Guard::LeaseFromSending),
        ..tight()
    };
    let doubles = |settings: &Settings| {
        let outcomes = (0..200).map(|seed| run(settings, &cut_in_a_storm(seed)).violation);
        outcomes
            .flatten()
            .filter(|violation| violation.contains("two copies"))
            .count()
    };
    assert_eq!(doubles(&tight()), 0);
    assert!(doubles(&lax) > 0);
}

fn name(text: &str) -> InstanceName {
    InstanceName::new(text).unwrap()
}

/// `w` runs on `a`, `b` waits. Returns the store and the epochs of `w` and of both incarnations.
fn two_and_one(without: Option<Guard>) -> (ModelStore, WorkerId, u64, u64) {
    let mut store = ModelStore::new("r", 1).without(without);
    let worker = WorkerId::new("w").unwrap();
    let a = store.join(&name("a"), "ta", &Default::default()).inc;
    store.join(&name("b"), "tb", &Default::default());
    store.put(&worker, "c");
    let waiting = store.places[&worker].epoch;
    store.assign(&name("a"), a, "place", &[(worker.clone(), waiting)]);
    (store, worker, waiting, a)
}

#[test]
fn a_late_assignment_takes_no_worker_from_its_owner() {
    for (without, owner) in [(None, "a"), (Some(Guard::AssignCompares), "b")] {
        let (mut store, worker, waiting, _) = two_and_one(without);
        let b = store.instances[&name("b")].inc;
        store.assign(&name("b"), b, "place", &[(worker.clone(), waiting)]);
        assert_eq!(store.places[&worker].owner, Some(name(owner)));
    }
}

#[test]
fn a_late_acknowledgement_frees_no_later_copy() {
    for (without, owner) in [(None, Some(name("a"))), (Some(Guard::StopCompares), None)] {
        let (mut store, worker, _, a) = two_and_one(without);
        let revoke = |store: &mut ModelStore| {
            let (version, epoch) = (store.snapshot().version, store.places[&worker].epoch);
            store.revoke(version, "balance", &[(worker.clone(), epoch, None)]);
            epoch
        };
        let first = revoke(&mut store);
        let stopped = [(worker.clone(), first)].into();
        store.stopped(&name("a"), a, &stopped);
        store.assign(&name("a"), a, "place", &[(worker.clone(), first)]);
        revoke(&mut store);
        // The second copy still runs when the first one's acknowledgement arrives again.
        store.stopped(&name("a"), a, &stopped);
        assert_eq!(store.places[&worker].owner, owner);
    }
}

/// Scenarios with a single kind of fault, at random moments.
fn only(settings: &Settings, seeds: std::ops::Range<u64>, fault: impl Fn(u64) -> Fault) -> SeedSearch {
    let mut sum = SeedSearch::default();
    for seed in seeds {
        let moments = [35_000, 41_000 + seed * 37 % 5000, 60_000 + seed * 17 % 9000];
        let faults = moments.iter().map(|at| (*at, fault(seed + at))).collect();
        let scenario = Scenario {
            seed,
            rates_ppm: Vec::new(),
            faults,
        };
        let outcome = run(settings, &scenario);
        assert_eq!(outcome.violation, None, "{scenario:?}");
        sum.seeds += 1;
        sum.deaths += outcome.deaths;
        sum.moves += outcome.moves;
        sum.dark_ms_max = sum.dark_ms_max.max(outcome.dark_ms_max);
    }
    sum
}

#[test]
fn p3_after_a_crash_nobody_is_dark_for_longer_than_promised() {
    let settings = Settings::default();
    let crash = |at: u64| Fault::Crash {
        agent: at as usize % 3,
        down: 20_000,
        proven: false,
    };
    let search = only(&settings, 0..60, crash);
    // The bound does not cover messages that are late by up to four seconds, twice.
    let late_ms = 2 * 4000;
    let bound_ms = settings.timing.bounds().after_crash.as_millis() as u64 + late_ms;
    assert!(search.deaths > 0);
    assert!(
        search.dark_ms_max <= bound_ms,
        "{} > {bound_ms}",
        search.dark_ms_max
    );
}

#[test]
fn p4_planned_moves_wait_for_the_stop_and_declare_nobody_dead() {
    let settings = Settings {
        workers: 12,
        ..Settings::default()
    };
    let drain = |at: u64| Fault::Drain {
        agent: at as usize % 3,
        length: 3000,
    };
    let search = only(&settings, 0..40, drain);
    assert!(search.moves > 0 && search.deaths == 0, "{search:?}");
}
