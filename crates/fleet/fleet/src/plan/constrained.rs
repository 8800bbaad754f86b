//! The plan for fleets with label constraints or zone limits.
//!
//! Three passes: keep every worker that may stay; place the rest, those with the fewest possible instances
//! first and if necessary by shifting others along a chain of full instances; then move single workers from
//! fuller to emptier instances while that helps. No pass violates a constraint.

use std::collections::{BTreeMap, VecDeque};

use super::even::finish;
use super::{Constraints, Fleet, Plan, Step};

pub(super) fn plan(fleet: &Fleet) -> Plan {
    let counts = fleet.counts();
    let mut search = Search::new(fleet);
    let homeless = search.keep_what_may_stay();
    let lower_bound = homeless
        .iter()
        .filter(|worker| fleet.workers[**worker].place.is_some())
        .count();
    let mut plan = Plan::default();
    for worker in homeless {
        if !search.place(worker) {
            plan.unplaced.push(worker);
        }
    }
    search.level();
    for (worker, to) in search.places.iter().enumerate() {
        match (fleet.workers[worker].place, *to) {
            (None, Some(to)) => plan.steps.push(Step::Place { worker, to }),
            (Some(from), Some(to)) if from != to => plan.steps.push(Step::Move { worker, from, to }),
            _ => (),
        }
    }
    finish(fleet, &counts, lower_bound, plan)
}

struct Search<'a> {
    fleet: &'a Fleet,
    places: Vec<Option<usize>>,
    members: Vec<Vec<usize>>,
    /// Workers per group and zone.
    grouped: BTreeMap<(&'a str, &'a str), u32>,
    /// Accepting instances by the constraints that they satisfy.
    suited: BTreeMap<&'a Constraints, Vec<usize>>,
}

impl<'a> Search<'a> {
    fn new(fleet: &'a Fleet) -> Search<'a> {
        let mut suited = BTreeMap::new();
        for worker in &fleet.workers {
            suited.entry(&worker.constraints).or_insert_with(|| {
                let instances = fleet.instances.iter().enumerate();
                let fits = instances
                    .filter(|(_, one)| one.accepts && one.labels.is_superset(&worker.constraints.labels));
                fits.map(|(at, _)| at).collect::<Vec<_>>()
            });
        }
        Search {
            fleet,
            places: vec![None; fleet.workers.len()],
            members: vec![Vec::new(); fleet.instances.len()],
            grouped: BTreeMap::new(),
            suited,
        }
    }

    /// Keeps the workers that may stay. Returns the others, the hardest to place first.
    fn keep_what_may_stay(&mut self) -> Vec<usize> {
        let mut homeless = Vec::new();
        for (worker, state) in self.fleet.workers.iter().enumerate() {
            match state.place {
                // It leaves by itself; until then it occupies its place.
                Some(at) if state.leaving => self.put(worker, at),
                Some(at) if self.suits(worker, at) && self.has_room(worker, at) => self.put(worker, at),
                _ => homeless.push(worker),
            }
        }
        homeless.sort_by_key(|worker| {
            (
                self.suited[&self.fleet.workers[*worker].constraints].len(),
                *worker,
            )
        });
        homeless
    }

    fn suits(&self, worker: usize, at: usize) -> bool {
        self.suited[&self.fleet.workers[worker].constraints]
            .binary_search(&at)
            .is_ok()
    }

    fn has_room(&self, worker: usize, at: usize) -> bool {
        if self.fleet.workers[worker].avoids.contains(&at) {
            return false;
        }
        let capacity = self.fleet.instances[at].capacity;
        if capacity.is_some_and(|capacity| self.members[at].len() >= capacity as usize) {
            return false;
        }
        match (self.group_key(worker, at), self.fleet.per_zone_max) {
            (Some(key), Some(max)) => self.grouped.get(&key).is_none_or(|count| *count < max),
            _ => true,
        }
    }

    fn group_key(&self, worker: usize, at: usize) -> Option<(&'a str, &'a str)> {
        let group = self.fleet.workers[worker].constraints.group.as_deref()?;
        Some((group, self.fleet.instances[at].zone.as_deref()?))
    }

    fn put(&mut self, worker: usize, at: usize) {
        self.places[worker] = Some(at);
        self.members[at].push(worker);
        if let Some(key) = self.group_key(worker, at) {
            *self.grouped.entry(key).or_default() += 1;
        }
    }

    fn take(&mut self, worker: usize) {
        let Some(at) = self.places[worker].take() else {
            return;
        };
        self.members[at].retain(|member| *member != worker);
        if let Some(count) = self
            .group_key(worker, at)
            .and_then(|key| self.grouped.get_mut(&key))
        {
            *count -= 1;
        }
    }

    /// Returns whether `at` with `extra` more workers is less loaded than `than` is now.
    fn is_lighter(&self, at: usize, extra: usize, than: usize) -> bool {
        let weight = |at: usize| u128::from(self.fleet.instances[at].weight.max(1));
        let count = |at: usize| self.members[at].len() as u128;
        (count(at) + extra as u128) * weight(than) < count(than) * weight(at)
    }

    fn lightest_for(&self, worker: usize) -> Option<usize> {
        let suited = &self.suited[&self.fleet.workers[worker].constraints];
        let open = suited.iter().copied().filter(|at| self.has_room(worker, *at));
        open.reduce(|best, at| if self.is_lighter(at, 0, best) { at } else { best })
    }

    fn place(&mut self, worker: usize) -> bool {
        if let Some(at) = self.lightest_for(worker) {
            self.put(worker, at);
            return true;
        }
        // The limit per zone couples workers that share no instance, so chains are not searched then.
        self.fleet.per_zone_max.is_none() && self.place_by_shifting(worker)
    }

    /// Breadth-first search over full instances: one worker moves on from each to the next.
    fn place_by_shifting(&mut self, worker: usize) -> bool {
        // For each instance reached: the worker that would move into it.
        let mut reached: BTreeMap<usize, usize> = BTreeMap::new();
        let mut queue = VecDeque::from([worker]);
        let mut seen_demands = Vec::new();
        while let Some(mover) = queue.pop_front() {
            let constraints = &self.fleet.workers[mover].constraints;
            for &at in &self.suited[constraints] {
                if reached.contains_key(&at) || self.places[mover] == Some(at) {
                    continue;
                }
                reached.insert(at, mover);
                if self.has_room(mover, at) {
                    self.shift(at, &reached);
                    return true;
                }
                seen_demands.clear();
                for &member in &self.members[at] {
                    let state = &self.fleet.workers[member];
                    if !state.leaving && !seen_demands.contains(&&state.constraints) {
                        seen_demands.push(&state.constraints);
                        queue.push_back(member);
                    }
                }
            }
        }
        false
    }

    fn shift(&mut self, mut to: usize, reached: &BTreeMap<usize, usize>) {
        loop {
            let mover = reached[&to];
            let from = self.places[mover];
            self.take(mover);
            self.put(mover, to);
            match from {
                Some(from) => to = from,
                None => return,
            }
        }
    }

    /// Moves workers from fuller to emptier instances until no single move helps. Every move brings two loads
    /// closer, so this terminates; the bound only makes that obvious.
    fn level(&mut self) {
        for _ in 0..self.fleet.workers.len() {
            let mut order: Vec<usize> = (0..self.fleet.instances.len()).collect();
            order.sort_by(|a, b| {
                let heavier = self.is_lighter(*b, 0, *a);
                let lighter = self.is_lighter(*a, 0, *b);
                lighter.cmp(&heavier).then(a.cmp(b))
            });
            let found = order.into_iter().find_map(|from| self.helpful_move(from));
            let Some((worker, to)) = found else {
                return;
            };
            self.take(worker);
            self.put(worker, to);
        }
    }

    fn helpful_move(&self, from: usize) -> Option<(usize, usize)> {
        self.members[from].iter().rev().find_map(|&worker| {
            let state = &self.fleet.workers[worker];
            let to = self
                .lightest_for(worker)
                .filter(|to| !state.leaving && *to != from)?;
            self.is_lighter(to, 1, from).then_some((worker, to))
        })
    }
}
