//! Decides who runs where. Pure: no clock, no I/O, same answer for the same question.
//!
//! The question is a [`Fleet`]: instances and workers with the places they have. The answer is a
//! [`Plan`]: what to place and what to move, with its [`PlanCost`]. When no worker asks for labels and
//! no zone is limited, the answer is the closed form of [`targets`]: every instance gets its share
//! rounded down or up, the rounding up goes to those that hold the most already, and so no plan with
//! fewer moves ends as even. With such constraints it is a greedy search that never breaks one.

mod choose;
mod constrained;
mod even;
mod seed;
mod targets;

use std::collections::BTreeSet;

pub use choose::least_busy;
pub use seed::{SeedRules, relocate_all as relocate_all_as_seed};
pub use targets::targets;

/// An instance as the decision sees it. Workers name it by its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    pub name: String,
    /// Its share against the others'; 1 for equal shares. 0 counts as 1.
    pub weight: u32,
    /// Never more workers than this.
    pub capacity: Option<u32>,
    pub zone: Option<String>,
    pub labels: BTreeSet<String>,
    /// False while it is draining, leaving or dead: its workers go, none come.
    pub accepts: bool,
}

impl Instance {
    /// An accepting instance without limits.
    pub fn new(name: impl Into<String>) -> Instance {
        Instance {
            name: name.into(),
            weight: 1,
            capacity: None,
            zone: None,
            labels: BTreeSet::new(),
            accepts: true,
        }
    }
}

/// What a worker asks of its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Constraints {
    /// Labels the instance must have.
    pub labels: BTreeSet<String>,
    /// Workers of one group count together for the limit per zone.
    pub group: Option<String>,
}

/// A worker as the decision sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worker {
    /// Index of the instance that has it; none if it waits for a place.
    pub place: Option<usize>,
    pub constraints: Constraints,
    /// On its way out of its place: counts there, cannot be moved again.
    pub leaving: bool,
}

impl Worker {
    pub fn at(place: Option<usize>) -> Worker {
        Worker {
            place,
            ..Worker::default()
        }
    }
}

/// The whole question.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    pub instances: Vec<Instance>,
    /// In the order of their ids: ties are broken by it, so that all deciders agree.
    pub workers: Vec<Worker>,
    /// At most so many workers of one group in one zone.
    pub per_zone_max: Option<u32>,
}

/// One thing to do; workers and instances by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Place { worker: usize, to: usize },
    Move { worker: usize, from: usize, to: usize },
}

/// What a plan costs and what it reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanCost {
    /// Running workers that the plan moves.
    pub moves: usize,
    /// No plan that ends as even can move fewer. Exact for the closed form; with constraints it
    /// counts only those that cannot stay.
    pub lower_bound: usize,
    /// Most minus fewest workers on accepting instances (unweighted), before and after.
    pub spread_before: usize,
    pub spread_after: usize,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// Workers that fit nowhere.
    pub unplaced: Vec<usize>,
    pub cost: PlanCost,
}

impl Fleet {
    /// How many workers each instance has.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.instances.len()];
        for place in self.workers.iter().filter_map(|worker| worker.place) {
            counts[place] += 1;
        }
        counts
    }

    /// Whether the closed form applies.
    pub fn is_unconstrained(&self) -> bool {
        let grouped = |worker: &Worker| self.per_zone_max.is_some() && worker.constraints.group.is_some();
        !self
            .workers
            .iter()
            .any(|worker| !worker.constraints.labels.is_empty() || grouped(worker))
    }

    /// Most minus fewest on the accepting instances.
    pub fn spread(&self, counts: &[usize]) -> usize {
        let accepting = self.instances.iter().zip(counts);
        let counts = accepting
            .filter(|(instance, _)| instance.accepts)
            .map(|(_, count)| *count);
        let (least, most) = counts.fold((usize::MAX, 0), |(least, most), count| {
            (least.min(count), most.max(count))
        });
        most.saturating_sub(least)
    }

    /// Places what waits and moves what has to move for the numbers to be even.
    pub fn plan(&self) -> Plan {
        if self.is_unconstrained() {
            even::plan(self)
        } else {
            constrained::plan(self)
        }
    }

    /// Carries a plan out in thought.
    pub fn after(&self, plan: &Plan) -> Fleet {
        let mut fleet = self.clone();
        for step in &plan.steps {
            let (Step::Place { worker, to } | Step::Move { worker, to, .. }) = *step;
            fleet.workers[worker].place = Some(to);
        }
        fleet
    }
}

#[cfg(test)]
mod tests;
