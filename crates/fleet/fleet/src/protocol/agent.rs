//! What an agent may run, and until when.
//!
//! The list of the latest confirmed answer says what to run; the lease says until when. A worker
//! that is listed with the epoch it runs under has its end moved by every confirmed answer; one that
//! is not keeps the end it had and is stopped. Nothing is started, and no stop acknowledged, while
//! somebody the store does not know of may still run it: for Q after the first answer of a run of
//! Redis that is not settled, and after a join whose last incarnation is not proven over.

use std::collections::BTreeMap;

use crate::clock::BootTime;
use crate::name::WorkerId;
use crate::store::{Beat, InstanceState, Joined, List, ListedState, Running};
use crate::timing::Timing;

/// Something for the runner to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentAction {
    Start {
        worker: WorkerId,
        epoch: u64,
        config: String,
    },
    /// The config of a running worker is another one.
    Update { worker: WorkerId, config: String },
    /// To be answered by [`AgentCore::gone`]; the worker has to be dead by then.
    Stop { worker: WorkerId, kill_at: BootTime },
}

/// The incarnation is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Another process that lives under this name now.
    pub by: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Local {
    epoch: u64,
    config: String,
    /// Dead by then.
    until: BootTime,
    stopping: bool,
}

/// The state of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentCore {
    timing: Timing,
    token: String,
    inc: Option<u64>,
    /// Run of the last confirmed answer.
    run: String,
    version: Option<u64>,
    list: List,
    lease_until: BootTime,
    run_quarantine: Option<BootTime>,
    join_quarantine: Option<BootTime>,
    local: BTreeMap<WorkerId, Local>,
}

impl AgentCore {
    /// `token` must be new for every process.
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
        }
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// The present incarnation; none before a join and after a refusal.
    pub fn inc(&self) -> Option<u64> {
        self.inc
    }

    /// A join may be sent: there is no incarnation and nothing of the last one is left.
    pub fn may_join(&self) -> bool {
        self.inc.is_none() && self.local.is_empty()
    }

    /// Run and list version of the last confirmed answer.
    pub fn known(&self) -> (&str, Option<u64>) {
        (&self.run, self.version)
    }

    /// What runs and is not being stopped.
    pub fn running(&self) -> Running {
        let running = self.local.iter().filter(|(_, local)| !local.stopping);
        running
            .map(|(worker, local)| (worker.clone(), local.epoch))
            .collect()
    }

    /// All that is not known to be gone.
    pub(crate) fn running_or_stopping(&self) -> Vec<WorkerId> {
        self.local.keys().cloned().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.local.is_empty()
    }

    pub fn lease_until(&self) -> BootTime {
        self.lease_until
    }

    /// Takes the answer to a join. `proven_over` says whether the caller knows that the process with
    /// a token, and all it started, is over.
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
        // Of this process itself nothing runs, or no join would have been sent.
        let is_over = |token: &String| *token == self.token || proven_over(token);
        if !joined.before.iter().all(is_over) {
            self.join_quarantine = Some(received + self.timing.quarantine);
        }
        if joined.settled != run {
            // Also when this run is known: the server may have lost everything since.
            self.run.clear();
        }
        self.see_run(received, run, &joined.settled);
        self.inc = Some(joined.inc);
        self.version = Some(joined.version);
        self.list = joined.list;
        self.lease_until = sent + self.timing.lease;
    }

    /// Takes a confirmed answer to a heartbeat.
    pub fn on_beat(
        &mut self,
        sent: BootTime,
        received: BootTime,
        run: &str,
        beat: Beat,
    ) -> Result<(), Refused> {
        let (settled, version, list) = match beat {
            Beat::Refused { state, token, inc } => {
                // An older incarnation has the name only if the store lost the join of this one.
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
            self.list = list;
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

    /// What has to be done now. To be asked after every event and at [`AgentCore::next_at`].
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
            if listed.state != ListedState::Run || self.local.contains_key(worker) {
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

    /// The worker's process is gone and no start of it is queued. Returns when it had to be.
    pub fn gone(&mut self, worker: &WorkerId) -> Option<BootTime> {
        self.local.remove(worker).map(|local| local.until)
    }

    /// Whether all who had this name before are over: proven to be, or waited for.
    pub fn has_waited(&self, now: BootTime) -> bool {
        self.join_quarantine.is_none_or(|until| now >= until)
    }

    /// Stops that may be acknowledged now.
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

    /// The store has these acknowledgements; the list of the next answer will say so.
    pub fn acknowledged(&mut self, stopped: &Running) {
        for (worker, epoch) in stopped {
            if self.list.get(worker).is_some_and(|listed| listed.epoch == *epoch) {
                self.list.remove(worker);
            }
        }
        // The list held here is no longer the one of that version.
        self.version = None;
    }

    /// When [`AgentCore::take_actions`] has to be asked again at the latest, if nothing happens before.
    pub fn next_at(&self) -> Option<BootTime> {
        let budget = self.timing.stop_budget();
        let running = self.local.values().filter(|local| !local.stopping);
        let stops = running.map(|local| local.until - budget);
        stops.chain(self.run_quarantine).chain(self.join_quarantine).min()
    }

    /// Forgets quarantines that are over, so that they do not wake anybody again.
    pub fn clear_quarantines(&mut self, now: BootTime) {
        for until in [&mut self.run_quarantine, &mut self.join_quarantine] {
            *until = until.filter(|until| now < *until);
        }
    }
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
