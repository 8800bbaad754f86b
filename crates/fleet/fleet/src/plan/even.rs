//! The plan without constraints: only counts matter.

use super::{Fleet, Plan, PlanCost, Step, targets};

pub(super) fn plan(fleet: &Fleet) -> Plan {
    let counts = fleet.counts();
    let targets = targets(&fleet.instances, &counts, fleet.workers.len());
    let mut gives: Vec<usize> = counts
        .iter()
        .zip(&targets)
        .map(|(count, target)| count.saturating_sub(*target))
        .collect();
    let lower_bound = gives.iter().sum();
    let mut capacity = FreeCapacity::new(&counts, &targets);
    let mut plan = Plan::default();
    // Workers without a place come first, because no copy of them runs.
    for (worker, _) in fleet
        .workers
        .iter()
        .enumerate()
        .filter(|(_, w)| w.place.is_none())
    {
        match capacity.next() {
            Some(to) => plan.steps.push(Step::Place { worker, to }),
            None => plan.unplaced.push(worker),
        }
    }
    // Workers that are already leaving free their places by themselves.
    for worker in fleet.workers.iter().filter(|worker| worker.leaving) {
        if let Some(from) = worker.place {
            gives[from] = gives[from].saturating_sub(1);
        }
    }
    for (worker, state) in fleet.workers.iter().enumerate().rev() {
        let Some(from) = state.place.filter(|from| gives[*from] > 0 && !state.leaving) else {
            continue;
        };
        match capacity.next() {
            Some(to) => plan.steps.push(Step::Move { worker, from, to }),
            // No capacity anywhere: the worker stays on its overfull instance until some is freed.
            None => plan.unplaced.push(worker),
        }
        gives[from] -= 1;
    }
    finish(fleet, &counts, lower_bound, plan)
}

/// Adds the cost to a plan.
pub(super) fn finish(fleet: &Fleet, counts: &[usize], lower_bound: usize, mut plan: Plan) -> Plan {
    let mut after = counts.to_vec();
    let mut moves = 0;
    for step in &plan.steps {
        match *step {
            Step::Place { to, .. } => after[to] += 1,
            Step::Move { from, to, .. } => {
                after[from] -= 1;
                after[to] += 1;
                moves += 1;
            }
        }
    }
    plan.cost = PlanCost {
        moves,
        lower_bound,
        spread_before: fleet.spread(counts),
        spread_after: fleet.spread(&after),
    };
    plan
}

/// Hands out free places round-robin over the instances that have any, so that a partly executed plan is
/// nearly as even as a complete one.
struct FreeCapacity {
    /// Index and number of free places, ascending by free places.
    free: Vec<(usize, usize)>,
    at: usize,
}

impl FreeCapacity {
    fn new(counts: &[usize], targets: &[usize]) -> FreeCapacity {
        let free = counts.iter().zip(targets).enumerate();
        let free = free.map(|(at, (count, target))| (at, target.saturating_sub(*count)));
        FreeCapacity {
            free: free.filter(|(_, free)| *free > 0).collect(),
            at: 0,
        }
    }

    fn next(&mut self) -> Option<usize> {
        if self.at >= self.free.len() {
            self.free.retain(|(_, free)| *free > 0);
            self.at = 0;
        }
        let (instance, free) = self.free.get_mut(self.at)?;
        let instance = *instance;
        *free -= 1;
        self.at += 1;
        Some(instance)
    }
}
