//! Decides which part of which shard is saved next.

use std::collections::HashMap;
use std::time::Duration;

use nagaya_redis_client::{Backoff, Endpoint};
use nagaya_tiering::saver::Saver;
use parking_lot::{Mutex, MutexGuard};

use super::shards::Shard;
use crate::hot_tier::TierPart;

/// The first and the longest wait after an error.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A shard with the saver that remembers its tags.
pub(crate) struct Unit {
    shard: u16,
    server: Endpoint,
    slots: Vec<u16>,
    /// None while a thread works on it.
    saver: Option<Saver>,
    due: Duration,
    /// The age of its oldest unsaved change after the last round.
    staleness: Duration,
    /// It is removed when the work on it ends.
    is_leaving: bool,
}

/// A unit that a thread works on. It must be put back.
pub(crate) struct Work {
    shard: u16,
    server: Endpoint,
    pub(crate) saver: Saver,
}

#[derive(Default)]
pub(crate) struct Schedule {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    units: Vec<Unit>,
    /// Servers where the last round failed. Only one thread at a time tries them again, after a growing wait.
    failing: HashMap<Endpoint, NodeFailure>,
}

struct NodeFailure {
    backoff: Backoff,
    until: Duration,
}

impl Schedule {
    /// Sets the shards to be saved from now on. Savers of parts that have not changed are kept, with their
    /// state.
    pub(crate) fn set(&self, wanted: &[Shard], now: Duration, make: impl Fn(&TierPart) -> Saver) {
        let units = &mut self.state().units;
        for unit in units.iter_mut() {
            let is_wanted =
                |shard: &Shard| shard.part.server == unit.server && shard.part.tier.slots() == unit.slots;
            unit.is_leaving = !wanted.iter().any(is_wanted);
        }
        units.retain(|unit| !unit.is_leaving || unit.saver.is_none());
        for shard in wanted {
            let part = &shard.part;
            let is_same = |unit: &Unit| unit.shard == shard.first() && unit.server == part.server;
            if units.iter().any(is_same) {
                continue;
            }
            units.push(Unit {
                shard: shard.first(),
                server: part.server.clone(),
                slots: part.tier.slots().to_vec(),
                saver: Some(make(part)),
                due: now,
                staleness: Duration::ZERO,
                is_leaving: false,
            });
        }
    }

    /// Returns the unit that has been due for longest. No server gets all of the threads, in case it does not
    /// answer.
    pub(crate) fn take(&self, now: Duration, threads: usize) -> Option<Work> {
        let mut state = self.state();
        let State { units, failing } = &mut *state;
        let mut resting: Vec<Endpoint> = Vec::new();
        for server in units.iter().map(|unit| &unit.server) {
            let busy = units
                .iter()
                .filter(|unit| unit.saver.is_none() && unit.server == *server)
                .count();
            let rests = match failing.get(server) {
                Some(trouble) => trouble.until > now || busy > 0,
                None => busy >= threads.saturating_sub(1).max(1),
            };
            if rests && !resting.contains(server) {
                resting.push(server.clone());
            }
        }
        let is_due =
            |unit: &&mut Unit| unit.saver.is_some() && unit.due <= now && !resting.contains(&unit.server);
        let unit = units.iter_mut().filter(is_due).min_by_key(|unit| unit.due)?;
        Some(Work {
            shard: unit.shard,
            server: unit.server.clone(),
            saver: unit.saver.take()?,
        })
    }

    /// Puts a unit back after a successful round.
    pub(crate) fn done(&self, work: Work, due: Duration, staleness: Duration) {
        let mut state = self.state();
        state.failing.remove(&work.server);
        if let Some(unit) = state.put_back(work) {
            unit.due = due;
            unit.staleness = staleness;
        }
    }

    /// Puts a unit back after an error. Its unsaved changes grow older meanwhile.
    pub(crate) fn failed(&self, work: Work, now: Duration) {
        let mut state = self.state();
        let trouble = state
            .failing
            .entry(work.server.clone())
            .or_insert_with(|| NodeFailure {
                backoff: Backoff::new(FIRST_WAIT, LONGEST_WAIT),
                until: now,
            });
        let wait = trouble.backoff.next_wait();
        trouble.until = now + wait;
        if let Some(unit) = state.put_back(work) {
            unit.due = now;
            unit.staleness += wait;
        }
    }

    /// Returns whether a thread works on a shard.
    pub(crate) fn is_busy(&self, shard: u16) -> bool {
        let state = self.state();
        state
            .units
            .iter()
            .any(|unit| unit.shard == shard && unit.saver.is_none())
    }

    /// Returns the age of the oldest change that is not known to be saved.
    pub(crate) fn staleness(&self) -> Duration {
        let state = self.state();
        state
            .units
            .iter()
            .map(|unit| unit.staleness)
            .max()
            .unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Returns the unit, unless it was only kept until the end of its round.
    fn put_back(&mut self, work: Work) -> Option<&mut Unit> {
        let is_its =
            |unit: &Unit| unit.shard == work.shard && unit.server == work.server && unit.saver.is_none();
        let place = self.units.iter().position(is_its)?;
        if self.units[place].is_leaving {
            self.units.remove(place);
            return None;
        }
        let unit = &mut self.units[place];
        unit.saver = Some(work.saver);
        Some(unit)
    }
}
