//! Runs agents and managers in virtual time with injected faults, to find two copies of a worker or a worker
//! that never runs again.
//!
//! A seed gives a scenario: clocks that are fast or slow, and a list of faults. The world runs the same state
//! machines as the real loops ([`crate::protocol`]) against an in-memory model of the scripts, and checks at
//! every start whether another copy is alive. A failing scenario is shrunk by removing faults for as long as
//! it keeps failing.

mod agent;
#[cfg(test)]
mod exhaustive;
mod guard;
mod invariants;
mod manager;
mod scenario;
#[cfg(test)]
mod search;
mod store;
mod world;

use std::ops::Range;

use serde_json::json;

use crate::timing::Timing;

pub use guard::Guard;
pub use scenario::{Fault, Scenario};
pub use store::ModelStore;

/// Size and duration of the simulated fleets.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub timing: Timing,
    pub agents: usize,
    pub managers: usize,
    pub workers: usize,
    /// Faults occur within this time, in seconds. Afterwards the fleet has to recover.
    pub trouble_s: u64,
    pub faults: usize,
    /// A rule that this fleet does not follow.
    pub without: Option<Guard>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            timing: Timing::default(),
            agents: 3,
            managers: 2,
            workers: 6,
            trouble_s: 60,
            faults: 12,
            without: None,
        }
    }
}

/// The result of one scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The first violation found.
    pub violation: Option<String>,
    /// Longest time that a worker had no running copy, in milliseconds.
    pub dark_ms_max: u64,
    pub starts: u64,
    pub deaths: u64,
    /// Running workers that managers asked to move.
    pub moves: u64,
    pub events: u64,
}

/// A failing scenario, shrunk as far as possible.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub violation: String,
    pub scenario: Scenario,
}

/// The results of a search over many seeds.
#[derive(Clone, Debug, Default)]
pub struct SeedSearch {
    pub seeds: u64,
    pub failure: Option<Failure>,
    /// Maximum over all seeds.
    pub dark_ms_max: u64,
    pub starts: u64,
    pub deaths: u64,
    pub moves: u64,
}

impl SeedSearch {
    /// Adds the results of further seeds.
    pub fn add(&mut self, other: SeedSearch) {
        self.seeds += other.seeds;
        self.starts += other.starts;
        self.deaths += other.deaths;
        self.moves += other.moves;
        self.dark_ms_max = self.dark_ms_max.max(other.dark_ms_max);
        self.failure = self.failure.take().or(other.failure);
    }

    pub fn to_json(&self) -> serde_json::Value {
        let failure = self.failure.as_ref().map(|failure| {
            let faults = failure.scenario.faults.iter();
            let faults = faults.map(|(at_ms, fault)| json!({"at_ms": at_ms, "fault": format!("{fault:?}")}));
            json!({
                "seed": failure.seed, "violation": failure.violation,
                "rates_ppm": failure.scenario.rates_ppm, "faults": faults.collect::<Vec<_>>(),
            })
        });
        json!({
            "worlds": self.seeds, "starts": self.starts, "deaths": self.deaths, "moves": self.moves,
            "dark_ms_max": self.dark_ms_max, "failure": failure,
        })
    }
}

/// Runs one scenario.
pub fn run(settings: &Settings, scenario: &Scenario) -> Outcome {
    world::World::new(settings, scenario).run()
}

/// Runs the scenarios of many seeds until one fails.
pub fn search_seeds(settings: &Settings, seeds: Range<u64>) -> SeedSearch {
    let mut search = SeedSearch::default();
    for seed in seeds {
        let scenario = Scenario::from_seed(settings, seed);
        let outcome = run(settings, &scenario);
        search.seeds += 1;
        search.starts += outcome.starts;
        search.deaths += outcome.deaths;
        search.moves += outcome.moves;
        search.dark_ms_max = search.dark_ms_max.max(outcome.dark_ms_max);
        if outcome.violation.is_some() {
            search.failure = Some(shrink(settings, seed, scenario));
            break;
        }
    }
    search
}

/// Removes faults for as long as the rest still fails.
fn shrink(settings: &Settings, seed: u64, mut scenario: Scenario) -> Failure {
    let mut at = 0;
    while at < scenario.faults.len() {
        let mut smaller = scenario.clone();
        smaller.faults.remove(at);
        match run(settings, &smaller).violation {
            Some(_) => scenario = smaller,
            None => at += 1,
        }
    }
    let violation = run(settings, &scenario).violation.unwrap_or_default();
    Failure {
        seed,
        violation,
        scenario,
    }
}

#[cfg(test)]
mod tests;
