//! An in-memory model of the store: the scripts' rules in Rust, for virtual time. A test runs random calls
//! against it and against the real scripts, and compares every reply.

use std::collections::{BTreeMap, BTreeSet};

use super::Guard;
use crate::name::{InstanceName, WorkerId};
use crate::plan::Constraints;
use crate::store::{
    Beat, Capabilities, FleetSnapshot, InstanceRecord, InstanceState, Joined, List, Listed, ListedState,
    Place, PlaceState, Pulse, Running,
};

const EPOCH_JUMP: u64 = 1 << 20;

/// All data that Redis would hold. A clone is a replica, or a file from which a server restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ModelStore {
    /// Run of the server. The caller changes it for a failover.
    pub run: String,
    /// The server's clock in microseconds, which may step.
    pub clock_micros: u64,
    epoch: u64,
    epoch_run: Option<String>,
    birth: Option<u64>,
    settled: String,
    version: u64,
    pub(crate) instances: BTreeMap<InstanceName, InstanceRecord>,
    pub(crate) places: BTreeMap<WorkerId, Place>,
    /// Instances that an operator has drained.
    drained: BTreeSet<InstanceName>,
    without: Option<Guard>,
}

impl ModelStore {
    pub fn new(run: &str, clock_micros: u64) -> ModelStore {
        ModelStore {
            run: run.to_owned(),
            clock_micros,
            ..ModelStore::default()
        }
    }

    /// Returns the same store without one rule.
    pub(super) fn without(mut self, guard: Option<Guard>) -> ModelStore {
        self.without = guard;
        self
    }

    fn is_without(&self, guard: Guard) -> bool {
        self.without == Some(guard)
    }

    /// Returns the highest epoch drawn so far.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns whether this run has drawn an epoch.
    pub(crate) fn has_drawn(&self) -> bool {
        self.epoch_run.as_deref() == Some(&self.run)
    }

    /// Returns the least epoch that a new run would draw.
    pub(crate) fn next_jump(&self) -> u64 {
        self.epoch + EPOCH_JUMP
    }

    fn draw_epoch(&mut self) -> u64 {
        if self.epoch_run.as_deref() == Some(&self.run) {
            self.epoch += 1;
        } else {
            self.epoch = (self.epoch + EPOCH_JUMP).max(self.clock_micros);
            self.birth.get_or_insert(self.clock_micros);
            self.epoch_run = Some(self.run.clone());
        }
        self.epoch
    }

    fn now_ms(&self) -> u64 {
        self.clock_micros / 1000
    }

    fn own(&self, name: &InstanceName) -> Vec<WorkerId> {
        let own = self
            .places
            .iter()
            .filter(|(_, place)| place.owner.as_ref() == Some(name));
        own.map(|(worker, _)| worker.clone()).collect()
    }

    pub(super) fn list(&self, name: &InstanceName) -> List {
        let own = self
            .places
            .iter()
            .filter(|(_, place)| place.owner.as_ref() == Some(name));
        own.map(|(worker, place)| {
            let state = match place.state {
                PlaceState::Assigned => ListedState::Run,
                PlaceState::Revoking => ListedState::Stop,
                PlaceState::Pending => ListedState::Unknown,
            };
            let listed = Listed {
                epoch: place.epoch,
                state,
                config: place.config.clone(),
            };
            (worker.clone(), listed)
        })
        .collect()
    }

    fn touch_owner(&mut self, worker: &WorkerId) {
        let owner = self.places[worker].owner.clone();
        if let Some(record) = owner.and_then(|owner| self.instances.get_mut(&owner)) {
            record.list_version += 1;
        }
    }

    /// Takes a worker from its owner.
    fn release(&mut self, worker: &WorkerId, why: Option<&str>) {
        let now_ms = self.now_ms();
        let Some(place) = self.places.get_mut(worker) else {
            return;
        };
        if place.remove {
            self.places.remove(worker);
            return;
        }
        place.state = PlaceState::Pending;
        place.owner = None;
        place.since_ms = now_ms;
        if let Some(why) = why {
            place.why = why.to_owned();
        }
    }

    pub fn join(&mut self, name: &InstanceName, token: &str, capabilities: &Capabilities) -> Joined {
        let before = self.instances.get(name).cloned();
        let inc = self.draw_epoch();
        let own = self.own(name);
        let renewed = own
            .iter()
            .filter(|_| self.without != Some(Guard::JoinRenewsEpochs));
        for worker in renewed.cloned().collect::<Vec<_>>().iter() {
            let epoch = self.draw_epoch();
            let run = self.run.clone();
            if let Some(place) = self.places.get_mut(worker) {
                (place.epoch, place.run) = (epoch, run);
            }
        }
        let alive = before.as_ref().filter(|old| old.state != InstanceState::Dead);
        let unsure = alive.map_or_else(Vec::new, |old| {
            let other = Some(&old.token).filter(|old| *old != token);
            old.before.iter().chain(other).cloned().collect()
        });
        let draining = self.drained.contains(name);
        let record = InstanceRecord {
            state: if draining {
                InstanceState::Draining
            } else {
                InstanceState::Live
            },
            inc,
            beat: 1,
            token: token.to_owned(),
            before: unsure.clone(),
            list_version: before.as_ref().map_or(1, |old| old.list_version + 1),
            count: own.len(),
            capabilities: capabilities.clone(),
            since_ms: self.now_ms(),
        };
        let version = record.list_version;
        self.instances.insert(name.clone(), record);
        self.version += 1;
        Joined {
            inc,
            settled: self.settled.clone(),
            before: unsure,
            version,
            list: self.list(name),
        }
    }

    pub fn heartbeat(&mut self, name: &InstanceName, pulse: &Pulse) -> Beat {
        let inc = pulse.inc;
        let refused = |record: Option<&InstanceRecord>| Beat::Refused {
            state: record.map(|record| record.state),
            token: record.map(|record| record.token.clone()).unwrap_or_default(),
            inc: record.map_or(0, |record| record.inc),
        };
        let record = self.instances.get(name);
        let any_inc = self.is_without(Guard::HeartbeatCompares);
        let is_other = |record: &InstanceRecord| record.inc != inc && !any_inc;
        if record.is_none_or(|record| is_other(record) || record.state == InstanceState::Dead) {
            return refused(record);
        }
        let new_run = pulse.run != self.run;
        let (mut touched, mut renewed) = (0, false);
        for (worker, epoch) in &pulse.again {
            let fits = self.places.get(worker).is_some_and(|place| {
                place.owner.as_ref() == Some(name)
                    && place.state == PlaceState::Assigned
                    && place.epoch == *epoch
            });
            if fits {
                let (epoch, run) = (self.draw_epoch(), self.run.clone());
                if let Some(place) = self.places.get_mut(worker) {
                    (place.epoch, place.run) = (epoch, run);
                }
                touched += 1;
                renewed = true;
            }
        }
        if new_run {
            for worker in self.own(name) {
                let place = self.places[&worker].clone();
                if place.run == self.run {
                    continue;
                }
                let goes_on = pulse.running.get(&worker) == Some(&place.epoch);
                renewed |= !goes_on;
                let epoch = if goes_on { place.epoch } else { self.draw_epoch() };
                let run = self.run.clone();
                if let Some(place) = self.places.get_mut(&worker) {
                    (place.epoch, place.run) = (epoch, run);
                }
                touched += 1;
            }
        }
        let Some(record) = self.instances.get_mut(name) else {
            return refused(None);
        };
        self.version += u64::from(renewed);
        record.list_version += touched;
        record.beat += 1;
        if pulse.waited {
            record.before.clear();
        }
        let version = record.list_version;
        let same = !new_run && pulse.version == Some(version);
        Beat::Alive {
            settled: self.settled.clone(),
            version,
            list: (!same).then(|| self.list(name)),
        }
    }

    pub fn stopped(&mut self, name: &InstanceName, inc: u64, stopped: &Running) -> bool {
        let record = self.instances.get(name);
        if record.is_none_or(|record| record.inc != inc || record.state == InstanceState::Dead) {
            return false;
        }
        let mut count = 0;
        let any_epoch = self.is_without(Guard::StopCompares);
        for (worker, epoch) in stopped {
            let fits = self.places.get(worker).is_some_and(|place| {
                place.owner.as_ref() == Some(name)
                    && place.state == PlaceState::Revoking
                    && (place.epoch == *epoch || any_epoch)
            });
            if fits {
                self.release(worker, None);
                count += 1;
            }
        }
        let Some(record) = self.instances.get_mut(name) else {
            return false;
        };
        if count > 0 {
            record.list_version += 1;
            record.count -= count;
            self.version += 1;
        }
        if record.state == InstanceState::Leaving && record.count == 0 {
            self.instances.remove(name);
            self.version += 1;
            return true;
        }
        false
    }

    /// `inc` is `None` for an operator's drain.
    pub fn set_state(&mut self, name: &InstanceName, inc: Option<u64>, state: InstanceState) -> Option<u64> {
        let is_taken_back = inc.is_none() && state == InstanceState::Live && self.drained.remove(name);
        let refused = is_taken_back.then_some(0);
        let Some(record) = self.instances.get_mut(name) else {
            return refused;
        };
        if record.state == InstanceState::Dead || inc.is_some_and(|inc| inc != record.inc) {
            return refused;
        }
        if inc.is_none() && record.state == InstanceState::Leaving {
            return refused;
        }
        match state {
            InstanceState::Draining if inc.is_none() => drop(self.drained.insert(name.clone())),
            InstanceState::Cordoned if record.state != InstanceState::Live => return None,
            _ => (),
        }
        record.state = state;
        record.list_version += 1;
        self.version += 1;
        let own = self.own(name);
        if state == InstanceState::Leaving && self.is_without(Guard::LeaveStopsFirst) {
            own.iter().for_each(|worker| self.release(worker, Some("leave")));
            self.instances.remove(name);
            return Some(0);
        }
        if state != InstanceState::Live {
            for worker in &own {
                if let Some(place) = self.places.get_mut(worker)
                    && place.state == PlaceState::Assigned
                {
                    place.state = PlaceState::Revoking;
                    place.why = state.as_str().to_owned();
                }
            }
            if own.is_empty() && state == InstanceState::Leaving {
                self.instances.remove(name);
            }
        }
        Some(own.len() as u64)
    }

    pub fn declare_dead(&mut self, name: &InstanceName, inc: u64, beat: u64) -> Option<u64> {
        let now_ms = self.now_ms();
        let any_beat = self.is_without(Guard::DeathCompares);
        let record = self.instances.get_mut(name)?;
        let is_seen = any_beat || (record.inc, record.beat) == (inc, beat);
        if !is_seen || record.state == InstanceState::Dead {
            return None;
        }
        record.state = InstanceState::Dead;
        record.count = 0;
        record.since_ms = now_ms;
        record.list_version += 1;
        self.version += 1;
        let own = self.own(name);
        for worker in &own {
            self.release(worker, Some("death"));
        }
        Some(own.len() as u64)
    }

    pub fn assign(
        &mut self,
        name: &InstanceName,
        inc: u64,
        why: &str,
        workers: &[(WorkerId, u64)],
    ) -> Option<u64> {
        let record = self.instances.get(name)?;
        let is_target = record.inc == inc && record.state == InstanceState::Live;
        if !is_target && !self.is_without(Guard::AssignChecksTarget) {
            return None;
        }
        let any_state = self.is_without(Guard::AssignCompares);
        let mut count = 0;
        for (worker, epoch) in workers {
            let fits = self
                .places
                .get(worker)
                .is_some_and(|place| place.state == PlaceState::Pending && place.epoch == *epoch);
            if !(fits || any_state && self.places.contains_key(worker)) {
                continue;
            }
            let (epoch, run, now_ms) = (self.draw_epoch(), self.run.clone(), self.now_ms());
            if let Some(place) = self.places.get_mut(worker) {
                place.state = PlaceState::Assigned;
                place.owner = Some(name.clone());
                (place.epoch, place.run, place.since_ms) = (epoch, run, now_ms);
                place.why = why.to_owned();
                place.next_owner = None;
            }
            count += 1;
        }
        if let Some(record) = self.instances.get_mut(name).filter(|_| count > 0) {
            record.list_version += 1;
            record.count += count;
            self.version += 1;
        }
        Some(count as u64)
    }

    pub fn revoke(
        &mut self,
        version: u64,
        why: &str,
        workers: &[(WorkerId, u64, Option<InstanceName>)],
    ) -> Option<u64> {
        if version != self.version {
            return None;
        }
        let mut count = 0;
        for (worker, epoch, next_owner) in workers {
            let Some(place) = self.places.get_mut(worker) else {
                continue;
            };
            if place.state != PlaceState::Assigned || place.epoch != *epoch {
                continue;
            }
            place.state = PlaceState::Revoking;
            place.next_owner.clone_from(next_owner);
            place.why = why.to_owned();
            self.touch_owner(worker);
            count += 1;
        }
        self.version += u64::from(count > 0);
        Some(count)
    }

    /// Creates a worker, updates its config, or undoes its uninstall.
    pub fn put(&mut self, worker: &WorkerId, config: &str) {
        let changed = match self.places.get_mut(worker) {
            None => {
                let place = Place {
                    state: PlaceState::Pending,
                    epoch: self.draw_epoch(),
                    run: self.run.clone(),
                    remove: false,
                    config: config.to_owned(),
                    constraints: Constraints::default(),
                    next_owner: None,
                    why: "install".to_owned(),
                    since_ms: self.now_ms(),
                    owner: None,
                };
                self.places.insert(worker.clone(), place);
                true
            }
            Some(place) => {
                let changed = place.remove || place.config != config;
                place.remove = false;
                config.clone_into(&mut place.config);
                changed
            }
        };
        if changed {
            self.touch_owner(worker);
            self.version += 1;
        }
    }

    pub fn uninstall(&mut self, worker: &WorkerId) {
        let Some(place) = self.places.get_mut(worker).filter(|place| !place.remove) else {
            return;
        };
        self.version += 1;
        if place.state == PlaceState::Pending {
            self.places.remove(worker);
            return;
        }
        place.remove = true;
        if place.state == PlaceState::Assigned {
            place.state = PlaceState::Revoking;
            place.why = "uninstall".to_owned();
        }
        self.touch_owner(worker);
    }

    pub fn settle(&mut self, run: &str, birth: &str) {
        if self.birth.is_some_and(|known| known.to_string() == birth) {
            run.clone_into(&mut self.settled);
        }
    }

    pub fn snapshot(&self) -> FleetSnapshot {
        FleetSnapshot {
            run: self.run.clone(),
            birth: self.birth.map(|birth| birth.to_string()).unwrap_or_default(),
            settled: self.settled.clone(),
            timing: String::new(),
            version: self.version,
            instances: self.instances.clone(),
            places: Some(self.places.clone()),
            unreadable: Default::default(),
            ..FleetSnapshot::default()
        }
    }

    /// What FLUSHALL does.
    pub fn flush(&mut self) {
        *self = ModelStore::new(&self.run, self.clock_micros).without(self.without);
    }
}
