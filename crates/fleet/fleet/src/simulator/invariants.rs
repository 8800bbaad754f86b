//! The observer of all copies: checks what must never happen, and what must hold at the end.

use super::Guard;
use super::world::{MILLI, World};
use crate::name::WorkerId;
use crate::store::{InstanceState, PlaceState};

/// Workers are installed and spread within this time. Dark time counts from here on.
const WARM_UP: u64 = 30_000 * MILLI;

/// One live copy of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Live {
    agent: usize,
    process: u64,
    epoch: u64,
}

/// The history of one worker.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkerTrace {
    copies: Vec<Live>,
    /// The highest epoch started, and the agent that started it.
    highest: (u64, usize),
    /// Since when no copy runs.
    dark_since: u64,
}

impl World<'_> {
    /// Records that a copy starts to run.
    pub(super) fn begin_copy(&mut self, agent: usize, process: u64, worker: &WorkerId, epoch: u64) {
        self.outcome.starts += 1;
        let now = self.now;
        let Some(trace) = self.traces.get_mut(worker) else {
            return;
        };
        if trace.copies.is_empty() && now > WARM_UP {
            let dark = (now - trace.dark_since) / MILLI;
            self.outcome.dark_ms_max = self.outcome.dark_ms_max.max(dark);
        }
        let (highest, by) = trace.highest;
        trace.highest = (epoch, agent);
        trace.copies.push(Live {
            agent,
            process,
            epoch,
        });
        if epoch <= highest {
            let told = format!(
                "{worker} starts on agent {agent} with epoch {epoch} after epoch {highest} on agent {by}"
            );
            self.record_violation(told);
        }
        self.check_doubles();
    }

    pub(super) fn end_copy(&mut self, agent: usize, process: u64, worker: &WorkerId) {
        let now = self.now;
        if let Some(trace) = self.traces.get_mut(worker) {
            trace
                .copies
                .retain(|copy| (copy.agent, copy.process) != (agent, process));
            trace.dark_since = now;
        }
    }

    fn record_violation(&mut self, what: String) {
        let at = self.now / MILLI;
        self.outcome
            .violation
            .get_or_insert_with(|| format!("{at} ms: {what}"));
    }

    /// Checks that no worker has two copies. Copies on frozen machines do nothing and count again after the
    /// thaw.
    pub(super) fn check_doubles(&mut self) {
        let mut found = None;
        for (worker, trace) in &self.traces {
            let awake = trace.copies.iter().filter(|copy| {
                !self.agents[copy.agent].frozen || self.agents[copy.agent].process != copy.process
            });
            let awake: Vec<&Live> = awake.collect();
            if awake.len() > 1 {
                found = Some(format!("two copies of {worker}: {awake:?}"));
            }
        }
        if let Some(found) = found {
            self.record_violation(found);
        }
    }

    /// Checks that no dead or unknown instance owns a worker.
    pub(super) fn check_records(&mut self) {
        let snapshot = self.store.snapshot();
        let owned = |state: PlaceState| state != PlaceState::Pending;
        let lost = snapshot.places.iter().flatten().find(|(_, place)| {
            let owner = place
                .owner
                .as_ref()
                .and_then(|owner| snapshot.instances.get(owner));
            owned(place.state) && owner.is_none_or(|record| record.state == InstanceState::Dead)
        });
        if let Some((worker, place)) = lost {
            self.record_violation(format!(
                "record of {worker} at a dead instance: {:?}",
                place.owner
            ));
        }
    }

    /// Checks that at the end every listed worker runs exactly once, and that they are spread evenly.
    pub(super) fn check_end(&mut self) {
        let mut counts = vec![0usize; self.settings.agents];
        let mut dark = Vec::new();
        for (worker, trace) in &self.traces {
            match trace.copies[..] {
                [copy] => counts[self.agents[copy.agent].at] += 1,
                _ => dark.push(worker.clone()),
            }
        }
        let spread = counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0);
        if !dark.is_empty() {
            self.record_violation(format!("not running at the end: {dark:?}"));
        } else if spread > 1 {
            self.record_violation(format!("uneven at the end: {counts:?}"));
        }
    }

    pub(super) fn is_without(&self, guard: Guard) -> bool {
        self.settings.without == Some(guard)
    }
}
