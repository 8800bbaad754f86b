//! What a manager does about the placement it sees.

use std::collections::BTreeMap;

use super::care::{Care, PROBATION_WORKERS};
use crate::name::{InstanceName, WorkerId};
use crate::plan::{Fleet, Plan, PlanCost, Step, Worker};
use crate::store::{InstanceRecord, InstanceState, Place, PlaceState};

/// How running workers may be moved to even out the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebalance {
    pub on: bool,
    /// Workers that rebalancing may have in transit at once.
    pub moves_at_once: usize,
    /// The most workers of one group in one zone.
    pub per_zone_max: Option<u32>,
}

impl Default for Rebalance {
    fn default() -> Rebalance {
        Rebalance {
            on: true,
            moves_at_once: 50,
            per_zone_max: None,
        }
    }
}

/// The changes to send to the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// For each instance: its incarnation, and the waiting workers it gets, with their epochs.
    pub assigns: BTreeMap<InstanceName, (u64, Vec<(WorkerId, u64)>)>,
    /// Workers to stop so that they can move, within the limit.
    pub revokes: Vec<(WorkerId, u64)>,
    /// Workers that fit on no instance.
    pub unplaced: Vec<WorkerId>,
    pub cost: PlanCost,
}

/// Builds the planner's input, and the names that its indexes stand for. Uninstalled workers are left out. A
/// waiting worker with a next owner counts as already there.
pub fn fleet_of(
    instances: &BTreeMap<InstanceName, InstanceRecord>,
    places: &BTreeMap<WorkerId, Place>,
    care: &Care,
    per_zone_max: Option<u32>,
) -> (Fleet, Vec<InstanceName>, Vec<WorkerId>) {
    let mut names = Vec::new();
    let mut fleet = Fleet {
        per_zone_max,
        ..Fleet::default()
    };
    let mut index = BTreeMap::new();
    let proven = care.proven(places);
    let is_proven = |name: &InstanceName, record: &InstanceRecord| {
        record.state == InstanceState::Live && proven.contains(name)
    };
    let has_proven = instances.iter().any(|(name, record)| is_proven(name, record));
    for (name, record) in instances {
        if record.state == InstanceState::Dead {
            continue;
        }
        index.insert(name, names.len());
        names.push(name.clone());
        let mut instance = record.to_plan(name);
        if has_proven && !is_proven(name, record) {
            // What it has it may keep.
            let few = PROBATION_WORKERS.max(u32::try_from(record.count).unwrap_or(u32::MAX));
            instance.capacity = Some(instance.capacity.map_or(few, |capacity| capacity.min(few)));
        }
        fleet.instances.push(instance);
    }
    let mut ids = Vec::with_capacity(places.len());
    for (id, place) in places {
        if place.remove {
            continue;
        }
        let at = |name: &Option<InstanceName>| name.as_ref().and_then(|name| index.get(name).copied());
        let next_owner = at(&place.next_owner).filter(|at| fleet.instances[*at].accepts);
        let kept_from = care.kept_from(id, &place.constraints, instances);
        let avoids = kept_from.into_iter().flatten();
        let avoids = avoids.filter_map(|name| index.get(name).copied()).collect();
        let (now_at, leaving) = match place.state {
            PlaceState::Pending => (next_owner, next_owner.is_some()),
            PlaceState::Assigned | PlaceState::Revoking => {
                (at(&place.owner), place.state == PlaceState::Revoking)
            }
        };
        let worker = Worker {
            place: now_at,
            constraints: place.constraints.clone(),
            leaving,
            avoids,
        };
        ids.push(id.clone());
        fleet.workers.push(worker);
    }
    (fleet, names, ids)
}

/// Decides on one placement. The same placement gives every manager the same decision.
pub fn decide(
    instances: &BTreeMap<InstanceName, InstanceRecord>,
    places: &BTreeMap<WorkerId, Place>,
    care: &Care,
    rebalance: Rebalance,
) -> Decision {
    let (fleet, names, ids) = fleet_of(instances, places, care, rebalance.per_zone_max);
    let plan = fleet.plan();
    let mut decision = Decision {
        cost: plan.cost,
        ..Decision::default()
    };
    let mut give = |worker: usize, to: usize| {
        let name = &names[to];
        let (_, workers) = decision
            .assigns
            .entry(name.clone())
            .or_insert_with(|| (instances[name].inc, Vec::new()));
        let id = &ids[worker];
        workers.push((id.clone(), places[id].epoch));
    };
    for (worker, id) in ids.iter().enumerate() {
        if let (PlaceState::Pending, Some(to)) = (places[id].state, fleet.workers[worker].place) {
            give(worker, to);
        }
    }
    for step in &plan.steps {
        if let Step::Place { worker, to } = *step {
            give(worker, to);
        }
    }
    decision.revokes = revokes(&fleet, &plan, rebalance, &ids, places);
    decision.unplaced = plan.unplaced.iter().map(|at| ids[*at].clone()).collect();
    decision
}

fn revokes(
    fleet: &Fleet,
    plan: &Plan,
    rebalance: Rebalance,
    ids: &[WorkerId],
    places: &BTreeMap<WorkerId, Place>,
) -> Vec<(WorkerId, u64)> {
    let in_flight = fleet.workers.iter().filter(|worker| worker.leaving).count();
    let allowed = if rebalance.on {
        rebalance.moves_at_once.saturating_sub(in_flight)
    } else {
        0
    };
    let moves = plan.steps.iter().filter_map(|step| match *step {
        Step::Move { worker, from, .. } => Some((worker, from)),
        Step::Place { .. } => None,
    });
    let mut taken = 0;
    let mut revokes = Vec::new();
    for (worker, from) in moves {
        // Leaving an instance that must be emptied, or where it fails, is not optional, so it is not limited.
        let forced = !fleet.instances[from].accepts || fleet.workers[worker].avoids.contains(&from);
        if !forced {
            taken += 1;
        }
        if forced || taken <= allowed {
            revokes.push((ids[worker].clone(), places[&ids[worker]].epoch));
        }
    }
    revokes
}
