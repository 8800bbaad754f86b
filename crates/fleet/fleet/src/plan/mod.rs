//! Decides which instance runs which worker. Pure: no clock, no I/O, and the same output for the same input.
//!
//! The input is a [`Fleet`]: instances, and workers with their current places. The output is a [`Plan`]: what
//! to place and what to move, with its [`PlanCost`].
//!
//! When no worker requires labels and no zone is limited, the answer is the closed form of [`targets`]: every
//! instance gets its share rounded down or up, and rounding up favours the instances that hold the most
//! already. So no plan with fewer moves ends as even. With constraints, the plan is a greedy search that
//! never violates one.

mod choose;
mod constrained;
mod even;
mod seed;
mod targets;

use std::collections::BTreeSet;

pub use choose::least_busy;
pub use seed::{SeedRules, relocate_all as relocate_all_as_seed};
pub use targets::targets;

/// An instance as the planner sees it. Workers refer to it by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    pub name: String,
    /// Its share relative to the others; 1 for equal shares. 0 counts as 1.
    pub weight: u32,
    /// The most workers it may have.
    pub capacity: Option<u32>,
    pub zone: Option<String>,
    pub labels: BTreeSet<String>,
    /// False while it is draining, leaving or dead: its workers leave, and it gets no new ones.
    pub accepts: bool,
}

impl Instance {
    /// Returns an accepting instance without limits.
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

/// What a worker requires of its instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Constraints {
    /// Labels that the instance must have.
    pub labels: BTreeSet<String>,
    /// Workers of one group count together for the limit per zone.
    pub group: Option<String>,
}

/// A worker as the planner sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worker {
    /// Index of the instance that has it; `None` if it waits for a place.
    pub place: Option<usize>,
    pub constraints: Constraints,
    /// Already leaving its place: it still counts there and cannot be moved again.
    pub leaving: bool,
    /// Indexes of instances that it must not be on, because it failed there.
    pub avoids: Vec<usize>,
}

impl Worker {
    pub fn at(place: Option<usize>) -> Worker {
        Worker {
            place,
            ..Worker::default()
        }
    }
}

/// The planner's input.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    pub instances: Vec<Instance>,
    /// Ordered by id. Ties are broken by this order, so that all managers agree.
    pub workers: Vec<Worker>,
    /// The most workers of one group in one zone.
    pub per_zone_max: Option<u32>,
}

/// One step of a plan. Workers and instances are given by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Place { worker: usize, to: usize },
    Move { worker: usize, from: usize, to: usize },
}

/// What a plan costs and what it achieves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanCost {
    /// Running workers that the plan moves.
    pub moves: usize,
    /// No plan that ends as even can move fewer. Exact for the closed form; with constraints it only counts
    /// the workers that cannot stay.
    pub lower_bound: usize,
    /// Most minus fewest workers on accepting instances (unweighted), before and after.
    pub spread_before: usize,
    pub spread_after: usize,
}

/// The planner's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// Workers that fit on no instance.
    pub unplaced: Vec<usize>,
    pub cost: PlanCost,
}

impl Fleet {
    /// Returns the number of workers on each instance.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.instances.len()];
        for place in self.workers.iter().filter_map(|worker| worker.place) {
            counts[place] += 1;
        }
        counts
    }

    /// Returns whether the closed form applies.
    pub fn is_unconstrained(&self) -> bool {
        let grouped = |worker: &Worker| self.per_zone_max.is_some() && worker.constraints.group.is_some();
        !self.workers.iter().any(|worker| {
            !worker.constraints.labels.is_empty() || !worker.avoids.is_empty() || grouped(worker)
        })
    }

    /// Returns most minus fewest workers on the accepting instances.
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

    /// Places waiting workers and moves as many as an even distribution requires.
    pub fn plan(&self) -> Plan {
        if self.is_unconstrained() {
            even::plan(self)
        } else {
            constrained::plan(self)
        }
    }

    /// Returns the fleet as it would be after a plan.
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
