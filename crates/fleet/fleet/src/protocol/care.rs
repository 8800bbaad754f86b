//! What follows from how the workers do: where they must not run, which instances are not trusted yet, and which ones
//! no more.
//!
//! A worker that fails three times in a row on one instance is kept from it for a while and tried on another; if no
//! other is left, it stays: then it is the worker that is broken. An instance on which several different workers
//! fail, while others do well elsewhere, is cordoned: emptied, and given nothing more until its process is another one
//! or an operator says so. An instance that has not shown a healthy worker gets a few only, as long as there are
//! others that have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::name::{InstanceName, WorkerId};
use crate::plan::Constraints;
use crate::store::{Avoided, InstanceRecord, InstanceState, Place, PlaceState, WorkerHealth};

/// Failures in a row after which a worker is tried elsewhere.
pub(super) const FAILURES_MAX: u32 = 3;
/// For how long it is kept from the instance on which it failed.
pub const AVOID_FOR: Duration = Duration::from_secs(600);
/// Workers that an instance gets before one of them is healthy.
pub(super) const PROBATION_WORKERS: u32 = 3;
/// An instance is cordoned for no fewer workers.
const CORDON_WORKERS: usize = 3;

/// How the workers do, and what they are kept from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Care {
    pub health: BTreeMap<WorkerId, WorkerHealth>,
    pub avoided: Avoided,
}

/// What to do about workers that fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Workers to keep from an instance from now on.
    pub avoid: Vec<(WorkerId, InstanceName)>,
    /// Instances to empty, with their incarnations.
    pub cordon: Vec<(InstanceName, u64)>,
}

impl Care {
    /// Returns how a worker does at its place, if its owner has said so.
    pub fn of(&self, worker: &WorkerId, place: &Place) -> Option<&WorkerHealth> {
        let health = self.health.get(worker)?;
        (place.owner.as_ref() == Some(&health.instance)).then_some(health)
    }

    /// Returns the instances that have a healthy worker.
    pub(crate) fn proven(&self, places: &BTreeMap<WorkerId, Place>) -> BTreeSet<&InstanceName> {
        let healthy = places.iter().filter_map(|(worker, place)| self.of(worker, place));
        let healthy = healthy.filter(|health| health.is_healthy());
        healthy.map(|health| &health.instance).collect()
    }

    /// Returns the instances that a worker is kept from, unless no other could take it.
    pub(crate) fn kept_from(
        &self,
        worker: &WorkerId,
        constraints: &Constraints,
        instances: &BTreeMap<InstanceName, InstanceRecord>,
    ) -> Option<&BTreeSet<InstanceName>> {
        let avoided = self.avoided.get(worker).filter(|avoided| !avoided.is_empty())?;
        let has_other = instances
            .iter()
            .any(|(name, record)| !avoided.contains(name) && takes(record, constraints));
        has_other.then_some(avoided)
    }

    /// Decides about the workers that fail. The same view gives every manager the same decision.
    pub fn judge(
        &self,
        instances: &BTreeMap<InstanceName, InstanceRecord>,
        places: &BTreeMap<WorkerId, Place>,
    ) -> Judgement {
        let mut judgement = Judgement::default();
        let own = places
            .iter()
            .filter(|(_, place)| place.state == PlaceState::Assigned && !place.remove);
        for (worker, place) in own {
            let Some(health) = self.of(worker, place) else {
                continue;
            };
            let is_known = |avoided: &BTreeSet<InstanceName>| avoided.contains(&health.instance);
            let has_other = instances
                .iter()
                .any(|(name, record)| *name != health.instance && takes(record, &place.constraints));
            if health.is_failing()
                && health.failures >= FAILURES_MAX
                && has_other
                && !self.avoided.get(worker).is_some_and(is_known)
            {
                judgement.avoid.push((worker.clone(), health.instance.clone()));
            }
        }
        let bad: BTreeMap<&InstanceName, usize> = instances
            .iter()
            .filter(|(name, record)| record.state == InstanceState::Live && self.is_bad(name, places))
            .map(|(name, _)| (name, 0))
            .collect();
        // If it is not a few, it is not the instances.
        let live = instances
            .values()
            .filter(|record| record.state == InstanceState::Live)
            .count();
        if bad.len() * 2 <= live {
            let cordon = bad.keys().map(|name| ((*name).clone(), instances[*name].inc));
            judgement.cordon = cordon.collect();
        }
        judgement
    }

    /// Returns whether several different workers, and most of those that were there, fail on an instance, while those
    /// on others do well.
    fn is_bad(&self, name: &InstanceName, places: &BTreeMap<WorkerId, Place>) -> bool {
        let (mut failing, mut there, mut failing_elsewhere, mut well_elsewhere) = (0, 0, 0, 0);
        for (worker, place) in places.iter().filter(|(_, place)| !place.remove) {
            let is_there = place.owner.as_ref() == Some(name);
            let avoids = self
                .avoided
                .get(worker)
                .is_some_and(|avoided| avoided.contains(name));
            let health = self.of(worker, place);
            let is_failing = health.is_some_and(|health| health.is_failing() && health.failures > 1);
            if is_there || avoids {
                there += 1;
                failing += usize::from(avoids || is_failing);
            }
            if !is_there {
                failing_elsewhere += usize::from(is_failing);
                well_elsewhere += usize::from(health.is_some_and(WorkerHealth::is_healthy));
            }
        }
        failing >= CORDON_WORKERS && failing * 2 >= there && well_elsewhere > failing_elsewhere * 3
    }
}

fn takes(record: &InstanceRecord, constraints: &Constraints) -> bool {
    let capabilities = &record.capabilities;
    record.state == InstanceState::Live && capabilities.labels.is_superset(&constraints.labels)
}

#[cfg(test)]
#[path = "care_tests.rs"]
mod tests;
