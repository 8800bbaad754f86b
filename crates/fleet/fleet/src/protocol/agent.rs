//! What an agent may run, and until when.
//!
//! The list in the last confirmed reply says what to run; the lease says until when. Every confirmed reply
//! extends the deadline of a worker that is listed with the epoch it runs under. A worker that is not listed
//! keeps its deadline and is stopped.
//!
//! Nothing is started and no stop is acknowledged while a copy that the store does not know of may still run:
//! for Q after the first reply of a run of Redis that is not settled, and for Q after a join while the
//! previous incarnation is not proven over.
//!
//! No epoch is started twice. A copy that has ended leaves its epoch behind as spent; to start the worker again, the
//! next heartbeat asks for a new one, at once or when the worker has rested.

use std::collections::BTreeMap;

use crate::name::WorkerId;
use crate::store::{Beat, InstanceState, Joined, List, ListedState, Pulse, Running};
use crate::timing::Timing;
use nagaya_clock::BootTime;

/// An action for the runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentAction {
    Start {
        worker: WorkerId,
        epoch: u64,
        config: String,
    },
    /// The config of a running worker has changed.
    Update { worker: WorkerId, config: String },
    /// To be answered by [`AgentCore::gone`]. The worker must be dead by `kill_at`.
    Stop { worker: WorkerId, kill_at: BootTime },
}

/// The store refused this incarnation: it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The process that holds the name now, if it is another one.
    pub by: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Local {
    epoch: u64,
    config: String,
    /// The worker must be dead by then.
    until: BootTime,
    stopping: bool,
}

/// A copy that has ended. Its epoch is not started again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Spent {
    epoch: u64,
    config: String,
    /// Not before this is a new epoch asked for.
    again_at: BootTime,
    /// That time has come.
    is_due: bool,
    /// A heartbeat was hurried for it.
    hurried: bool,
}

/// The state of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentCore {
    timing: Timing,
    token: String,
    inc: Option<u64>,
    /// The run of the last confirmed reply.
    run: String,
    version: Option<u64>,
    list: List,
    lease_until: BootTime,
    run_quarantine: Option<BootTime>,
    join_quarantine: Option<BootTime>,
    local: BTreeMap<WorkerId, Local>,
    spent: BTreeMap<WorkerId, Spent>,
}

impl AgentCore {
    /// `token` must be unique to the process.
    pub fn new(timing: Timing, token: String) -> AgentCore {
        AgentCore {
            timing,
            token,
            inc: None,
            run: String::new(),
            version: None,
            list: List::new(),
            lease_until: BootTime::ZERO,
            run_quarantine: None,
            join_quarantine: None,
            local: BTreeMap::new(),
            spent: BTreeMap::new(),
        }
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the current incarnation; `None` before a join and after a refusal.
    pub fn inc(&self) -> Option<u64> {
        self.inc
    }

    /// Returns whether a join may be sent: there is no incarnation, and nothing of the last one is running.
    pub fn may_join(&self) -> bool {
        self.inc.is_none() && self.local.is_empty()
    }

    /// Returns the run and list version of the last confirmed reply.
    pub fn known(&self) -> (&str, Option<u64>) {
        (&self.run, self.version)
    }

    /// Returns what a heartbeat of this incarnation says now.
    pub fn pulse(&self, inc: u64, now: BootTime) -> Pulse {
        Pulse {
            inc,
            run: self.run.clone(),
            version: self.version,
            running: self.running(),
            again: self.due_restarts(now),
            waited: self.has_waited(now),
            health: BTreeMap::new(),
        }
    }

    /// Returns the workers that run and are not being stopped.
    pub fn running(&self) -> Running {
        let running = self.local.iter().filter(|(_, local)| !local.stopping);
        running
            .map(|(worker, local)| (worker.clone(), local.epoch))
            .collect()
    }

    /// Returns all workers that are not known to be gone.
    pub(crate) fn running_or_stopping(&self) -> Vec<WorkerId> {
        self.local.keys().cloned().collect()
    }

    /// Returns until when each worker that is not being stopped may run.
    pub fn deadlines(&self) -> impl Iterator<Item = (&WorkerId, BootTime)> {
        let running = self.local.iter().filter(|(_, local)| !local.stopping);
        running.map(|(worker, local)| (worker, local.until))
    }

    pub fn is_empty(&self) -> bool {
        self.local.is_empty()
    }

    /// Returns whether the last list names the worker.
    pub fn is_listed(&self, worker: &WorkerId) -> bool {
        self.list.contains_key(worker)
    }

    pub fn lease_until(&self) -> BootTime {
        self.lease_until
    }

    /// Handles the reply to a join. `proven_over` returns whether the process with a token, and every process
    /// it started, is known to be over.
    pub fn on_joined(
        &mut self,
        sent: BootTime,
        received: BootTime,
        run: &str,
        joined: Joined,
        proven_over: impl Fn(&str) -> bool,
    ) {
        debug_assert!(
            self.local.is_empty(),
            "a join with workers of the last incarnation"
        );
        // Nothing of this process itself is running, or it would not have sent a join.
        let is_over = |token: &String| *token == self.token || proven_over(token);
        if !joined.before.iter().all(is_over) {
            self.join_quarantine = Some(received + self.timing.quarantine);
        }
        if joined.settled != run {
            // Cleared even if this run is known: the server may have lost everything since.
            self.run.clear();
        }
        self.see_run(received, run, &joined.settled);
        self.inc = Some(joined.inc);
        self.version = Some(joined.version);
        self.take_list(joined.list);
        self.lease_until = sent + self.timing.lease;
    }

    /// Handles a confirmed reply to a heartbeat.
    pub fn on_beat(
        &mut self,
        sent: BootTime,
        received: BootTime,
        run: &str,
        beat: Beat,
    ) -> Result<(), Refused> {
        let (settled, version, list) = match beat {
            Beat::Refused { state, token, inc } => {
                // An older incarnation holds the name only if the store lost this one's join.
                let newer = self.inc.take().is_none_or(|own| own < inc);
                self.list.clear();
                self.version = None;
                let lives = state.is_some_and(|state| state != InstanceState::Dead);
                let taken = newer && lives && token != self.token;
                return Err(Refused {
                    by: taken.then_some(token),
                });
            }
            Beat::Alive {
                settled,
                version,
                list,
            } => (settled, version, list),
        };
        self.see_run(received, run, &settled);
        self.version = Some(version);
        if let Some(list) = list {
            self.take_list(list);
        }
        self.lease_until = self.lease_until.max(sent + self.timing.lease);
        for (worker, local) in &mut self.local {
            let listed = self.list.get(worker);
            let same = listed
                .is_some_and(|listed| listed.epoch == local.epoch || listed.state == ListedState::Unknown);
            if same {
                local.until = self.lease_until;
            }
        }
        Ok(())
    }

    fn take_list(&mut self, list: List) {
        self.list = list;
        let list = &self.list;
        self.spent.retain(|worker, spent| {
            let listed = list.get(worker);
            // A new config may mend what failed.
            if listed.is_some_and(|listed| listed.config != spent.config) {
                spent.again_at = BootTime::ZERO;
            }
            listed.is_some_and(|listed| listed.epoch == spent.epoch)
        });
    }

    fn see_run(&mut self, received: BootTime, run: &str, settled: &str) {
        if settled == run {
            self.run_quarantine = None;
        } else if self.run != run {
            self.run_quarantine = Some(received + self.timing.quarantine);
        }
        self.run = run.to_owned();
    }

    fn is_quarantined(&self, now: BootTime) -> bool {
        let holds = |until: Option<BootTime>| until.is_some_and(|until| now < until);
        holds(self.run_quarantine) || holds(self.join_quarantine)
    }

    /// Returns the actions that are due. To be called after every event and at [`AgentCore::next_at`].
    pub fn take_actions(&mut self, now: BootTime) -> Vec<AgentAction> {
        let mut actions = Vec::new();
        for (worker, local) in &mut self.local {
            let listed = self.list.get(worker);
            let wanted = listed.is_some_and(|listed| match listed.state {
                ListedState::Run => listed.epoch == local.epoch,
                ListedState::Stop => false,
                ListedState::Unknown => true,
            });
            if local.stopping {
                continue;
            }
            if !wanted || now + self.timing.stop_budget() >= local.until {
                local.stopping = true;
                let kill_at = (now + self.timing.grace).min(local.until - self.timing.margin);
                actions.push(AgentAction::Stop {
                    worker: worker.clone(),
                    kill_at,
                });
            } else if let Some(listed) =
                listed.filter(|listed| listed.state == ListedState::Run && listed.config != local.config)
            {
                local.config.clone_from(&listed.config);
                actions.push(AgentAction::Update {
                    worker: worker.clone(),
                    config: listed.config.clone(),
                });
            }
        }
        for spent in self.spent.values_mut() {
            spent.is_due |= now >= spent.again_at;
        }
        if self.may_start(now) {
            self.start_missing(&mut actions);
        }
        actions
    }

    fn may_start(&self, now: BootTime) -> bool {
        let in_lease = now + self.timing.stop_budget() < self.lease_until;
        self.inc.is_some() && in_lease && !self.is_quarantined(now)
    }

    fn start_missing(&mut self, actions: &mut Vec<AgentAction>) {
        for (worker, listed) in &self.list {
            let is_spent = |spent: &Spent| spent.epoch == listed.epoch;
            if listed.state != ListedState::Run
                || self.local.contains_key(worker)
                || self.spent.get(worker).is_some_and(is_spent)
            {
                continue;
            }
            let local = Local {
                epoch: listed.epoch,
                config: listed.config.clone(),
                until: self.lease_until,
                stopping: false,
            };
            self.local.insert(worker.clone(), local);
            actions.push(AgentAction::Start {
                worker: worker.clone(),
                epoch: listed.epoch,
                config: listed.config.clone(),
            });
        }
    }

    /// Records that the worker's process is gone and that no start of it is queued. Returns its deadline.
    pub fn gone(&mut self, worker: &WorkerId) -> Option<BootTime> {
        self.gone_until(worker, BootTime::ZERO)
    }

    /// [`AgentCore::gone`], and the worker is not to be started again before `again_at`.
    pub fn gone_until(&mut self, worker: &WorkerId, again_at: BootTime) -> Option<BootTime> {
        let local = self.local.remove(worker)?;
        let spent = Spent {
            epoch: local.epoch,
            config: local.config,
            again_at,
            is_due: false,
            hurried: false,
        };
        self.spent.insert(worker.clone(), spent);
        Some(local.until)
    }

    /// Records that a start was not carried out: its epoch was not used.
    pub fn not_started(&mut self, worker: &WorkerId) {
        self.local.remove(worker);
    }

    /// Returns the workers that are to be started again, with the epochs that they have used.
    pub fn due_restarts(&self, now: BootTime) -> Running {
        if !self.may_start(now) {
            return Running::new();
        }
        let spent = self
            .spent
            .iter()
            .filter(|(worker, spent)| now >= spent.again_at && self.is_wanted_again(worker, spent));
        spent
            .map(|(worker, spent)| (worker.clone(), spent.epoch))
            .collect()
    }

    fn is_wanted_again(&self, worker: &WorkerId, spent: &Spent) -> bool {
        let listed = self.list.get(worker);
        listed.is_some_and(|listed| listed.state == ListedState::Run && listed.epoch == spent.epoch)
    }

    /// Returns whether a heartbeat should be sent at once for a worker that is to be started again; once for each.
    pub fn take_hurry(&mut self, now: BootTime) -> bool {
        let due = self.due_restarts(now);
        let mut is_new = false;
        for (worker, spent) in &mut self.spent {
            is_new |=
                due.contains_key(worker) && !std::mem::replace(&mut spent.hurried, due.contains_key(worker));
        }
        is_new
    }

    /// Records that this incarnation has left in order; nothing of it runs.
    pub fn left(&mut self) {
        debug_assert!(self.local.is_empty(), "left with workers");
        self.inc = None;
        self.list.clear();
        self.version = None;
    }

    /// Returns whether all earlier processes with this name are over, proven or waited for.
    pub fn has_waited(&self, now: BootTime) -> bool {
        self.join_quarantine.is_none_or(|until| now >= until)
    }

    /// Returns the stops that may be acknowledged now.
    pub fn due_acknowledgements(&self, now: BootTime) -> Running {
        if self.inc.is_none() || self.is_quarantined(now) {
            return Running::new();
        }
        let stopped = self.list.iter().filter(|(worker, listed)| {
            listed.state == ListedState::Stop && !self.local.contains_key(*worker)
        });
        stopped
            .map(|(worker, listed)| (worker.clone(), listed.epoch))
            .collect()
    }

    /// Records that the store has these acknowledgements. The list of the next reply will show them.
    pub fn acknowledged(&mut self, stopped: &Running) {
        for (worker, epoch) in stopped {
            if self.list.get(worker).is_some_and(|listed| listed.epoch == *epoch) {
                self.list.remove(worker);
            }
        }
        // The list held here no longer matches that version.
        self.version = None;
    }

    /// Returns when [`AgentCore::take_actions`] must be called at the latest if no event comes first.
    pub fn next_at(&self) -> Option<BootTime> {
        let budget = self.timing.stop_budget();
        let running = self.local.values().filter(|local| !local.stopping);
        let stops = running.map(|local| local.until - budget);
        let resting = self
            .spent
            .iter()
            .filter(|(worker, spent)| !spent.is_due && self.is_wanted_again(worker, spent));
        let resting = resting.map(|(_, spent)| spent.again_at);
        stops
            .chain(resting)
            .chain(self.run_quarantine)
            .chain(self.join_quarantine)
            .min()
    }

    /// Removes quarantines that are over, so that they cause no further wake-up.
    pub fn clear_quarantines(&mut self, now: BootTime) {
        for until in [&mut self.run_quarantine, &mut self.join_quarantine] {
            *until = until.filter(|until| now < *until);
        }
    }
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
