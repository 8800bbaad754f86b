//! One small world: the messages in flight, the running copies, and the effect of every step.

use std::collections::VecDeque;
use std::time::Duration;

use super::agent::due_acknowledgements;
use super::search::{Budget, Step};
use super::{Guard, ModelStore};
use crate::name::{InstanceName, WorkerId};
use crate::protocol::{AgentAction, AgentCore, Watch};
use crate::store::{Beat, Capabilities, FleetSnapshot, InstanceState, Joined, PlaceState, Pulse, Running};
use crate::timing::Timing;
use nagaya_clock::BootTime;

const TICK: Duration = Duration::from_millis(100);
/// The server's clock. It never moves, and is far below what a failover's jump reaches.
const CLOCK: u64 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Call {
    Join,
    Beat(Pulse),
    Stopped { inc: u64, stopped: Running },
    Leave { inc: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Reply {
    Joined(Joined),
    Beat(Beat),
    Stopped(Running),
    Left,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    name: InstanceName,
    core: AgentCore,
    sent: BootTime,
    call: Option<Call>,
    /// The reply, with the run that answered.
    reply: Option<(String, Reply)>,
    leaving: bool,
    over: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Command {
    Dead {
        name: InstanceName,
        inc: u64,
        beat: u64,
    },
    Settle {
        run: String,
        birth: String,
    },
    Assign {
        name: InstanceName,
        inc: u64,
        epoch: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SmallWorld {
    without: Option<Guard>,
    budget: Budget,
    timing: Timing,
    now: BootTime,
    store: ModelStore,
    kept: Option<ModelStore>,
    runs: u8,
    agents: Vec<Process>,
    watch: Watch,
    snapshot_requested: Option<BootTime>,
    snapshot: Option<FleetSnapshot>,
    /// What the last snapshot showed, and when.
    last_snapshot: Option<(BootTime, ModelStore)>,
    commands: VecDeque<Command>,
    /// Running copies: process and epoch.
    copies: Vec<(usize, u64)>,
    highest: (u64, usize),
    /// The first violation found.
    pub(super) wrong: Option<String>,
}

fn worker() -> WorkerId {
    WorkerId::new("w").expect("a plain word")
}

fn timing() -> Timing {
    Timing {
        lease: TICK * 2,
        heartbeat: TICK / 3,
        grace: Duration::ZERO,
        margin: Duration::ZERO,
        death: TICK * 2,
        quarantine: TICK * 2,
        poll: TICK,
        drift_ppm: 0,
        shown_for: TICK,
    }
}

impl SmallWorld {
    /// Two agents; the worker runs on the first.
    pub(super) fn running(without: Option<Guard>, budget: Budget) -> SmallWorld {
        let mut world = SmallWorld {
            without,
            budget,
            timing: timing(),
            now: BootTime::ZERO + TICK * 10,
            store: ModelStore::new("run0", CLOCK).without(without),
            kept: None,
            runs: 0,
            agents: Vec::new(),
            watch: Watch::default(),
            snapshot_requested: None,
            snapshot: None,
            last_snapshot: None,
            commands: VecDeque::new(),
            copies: Vec::new(),
            highest: (0, 0),
            wrong: None,
        };
        world.store.put(&worker(), "c");
        for name in ["a", "b"] {
            world.spawn(name);
            let at = world.agents.len() - 1;
            world.complete_call(at);
        }
        let birth = world.store.snapshot().birth;
        world.store.settle("run0", &birth);
        let (name, inc) = (world.agents[0].name.clone(), world.agents[0].core.inc());
        let epoch = world.store.places[&worker()].epoch;
        world
            .store
            .assign(&name, inc.unwrap_or(0), "place", &[(worker(), epoch)]);
        for at in 0..2 {
            world.complete_call(at);
        }
        assert_eq!(world.copies.len(), 1, "the worker runs");
        world
    }

    /// Completes one call of an agent, from request to reply.
    fn complete_call(&mut self, at: usize) {
        for step in [Step::Send(at), Step::Serve(at), Step::Receive(at)] {
            self.take(step);
        }
    }

    fn spawn(&mut self, name: &str) {
        let token = format!("t{}", self.agents.len());
        self.agents.push(Process {
            name: InstanceName::new(name).expect("a plain word"),
            core: AgentCore::new(self.timing, token),
            sent: BootTime::ZERO,
            call: None,
            reply: None,
            leaving: false,
            over: false,
        });
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (at, agent) in self.agents.iter().enumerate().filter(|(_, agent)| !agent.over) {
            match (&agent.call, &agent.reply) {
                (None, None) if self.due_call(agent).is_some() => steps.push(Step::Send(at)),
                (Some(_), None) => steps.push(Step::Serve(at)),
                (_, Some(_)) => steps.extend([Step::Receive(at), Step::Lose(at)]),
                _ => (),
            }
            if self.budget.crashes > 0 {
                steps.push(Step::Crash(at));
            }
        }
        match (self.snapshot_requested, &self.snapshot) {
            // Reading again would show the same.
            (None, _) if self.last_snapshot.as_ref() == Some(&(self.now, self.store.clone())) => (),
            (None, _) => steps.push(Step::ReadSnapshot),
            (Some(_), None) => steps.push(Step::ServeSnapshot),
            (Some(_), Some(_)) => steps.push(Step::ReceiveSnapshot),
        }
        if !self.commands.is_empty() {
            steps.push(Step::Command);
        }
        let budget = self.budget;
        let assigned = self
            .store
            .places
            .get(&worker())
            .is_some_and(|place| place.state == PlaceState::Assigned);
        let more = [
            (budget.ticks > 0, Step::Tick),
            (budget.twins > 0, Step::Twin),
            (budget.failovers > 0 && self.kept.is_none(), Step::Keep),
            (budget.failovers > 0 && self.kept.is_some(), Step::FailOver),
            (budget.moves > 0 && assigned, Step::Move),
            (budget.leaves > 0 && !self.agents[0].over, Step::Leave),
        ];
        steps.extend(more.into_iter().filter(|(may, _)| *may).map(|(_, step)| step));
        steps
    }

    pub(super) fn take(&mut self, step: Step) {
        match step {
            Step::Tick => {
                self.budget.ticks -= 1;
                self.now = self.now + TICK;
            }
            Step::Send(at) => {
                let call = self.due_call(&self.agents[at]);
                self.agents[at].sent = self.now;
                self.agents[at].call = call;
                if self.is_coarse() {
                    self.serve(at);
                }
            }
            Step::Serve(at) => self.serve(at),
            Step::Receive(at) => self.receive(at),
            Step::Lose(at) => {
                self.agents[at].call = None;
                self.agents[at].reply = None;
            }
            Step::ReadSnapshot => {
                self.snapshot_requested = Some(self.now);
                // Delivered at once, unless the delay itself matters.
                if self.without != Some(Guard::SeenAtReceipt) {
                    self.serve_snapshot();
                }
            }
            Step::ServeSnapshot => self.serve_snapshot(),
            Step::ReceiveSnapshot => self.receive_snapshot(),
            Step::Command => self.command(),
            Step::Crash(at) => {
                self.budget.crashes -= 1;
                let name = self.agents[at].name.to_string();
                self.agents[at].over = true;
                self.copies.retain(|(copy, _)| *copy != at);
                self.spawn(&name);
            }
            Step::Twin => {
                self.budget.twins -= 1;
                self.spawn("a");
            }
            Step::Keep => self.kept = Some(self.store.clone()),
            Step::FailOver => {
                self.budget.failovers -= 1;
                self.runs += 1;
                self.store = self.kept.take().expect("kept before");
                self.store.run = format!("run{}", self.runs);
                // Connections end with their server.
                for agent in &mut self.agents {
                    (agent.call, agent.reply) = (None, None);
                }
                (self.snapshot_requested, self.snapshot) = (None, None);
                self.commands.clear();
            }
            Step::Move => {
                self.budget.moves -= 1;
                let (version, epoch) = (self.store.snapshot().version, self.store.places[&worker()].epoch);
                self.store.revoke(version, "relocate", &[(worker(), epoch, None)]);
            }
            Step::Leave => {
                self.budget.leaves -= 1;
                self.agents[0].leaving = true;
            }
        }
        self.run_actions();
    }

    fn due_call(&self, agent: &Process) -> Option<Call> {
        let core = &agent.core;
        let Some(inc) = core.inc() else {
            return (core.may_join() && !agent.leaving).then_some(Call::Join);
        };
        let due = due_acknowledgements(core, self.now, self.without);
        if agent.leaving
            && self.store.instances.get(&agent.name).map(|one| one.state) == Some(InstanceState::Live)
        {
            return Some(Call::Leave { inc });
        }
        if !due.is_empty() {
            return Some(Call::Stopped { inc, stopped: due });
        }
        let (run, version) = core.known();
        let record = self.store.instances.get(&agent.name);
        let is_known = record.is_some_and(|one| one.inc == inc && Some(one.list_version) == version);
        let is_renewed = core.lease_until() == self.now + self.timing.lease;
        let is_idle = core.due_restarts(self.now).is_empty();
        if is_known && is_idle && is_renewed && run == self.store.run {
            // Sending it again would change nothing.
            return None;
        }
        Some(Call::Beat(core.pulse(inc, self.now)))
    }

    fn serve(&mut self, at: usize) {
        let name = self.agents[at].name.clone();
        let reply = match self.agents[at].call.clone() {
            None => return,
            Some(Call::Join) => {
                let token = self.agents[at].core.token().to_owned();
                Reply::Joined(self.store.join(&name, &token, &Capabilities::default()))
            }
            Some(Call::Beat(pulse)) => Reply::Beat(self.store.heartbeat(&name, &pulse)),
            Some(Call::Stopped { inc, stopped }) => {
                self.store.stopped(&name, inc, &stopped);
                Reply::Stopped(stopped)
            }
            Some(Call::Leave { inc }) => {
                self.store.set_state(&name, Some(inc), InstanceState::Leaving);
                Reply::Left
            }
        };
        self.agents[at].call = None;
        self.agents[at].reply = Some((self.store.run.clone(), reply));
    }

    fn receive(&mut self, at: usize) {
        let Some((run, reply)) = self.agents[at].reply.take() else {
            return;
        };
        let (now, without) = (self.now, self.without);
        let agent = &mut self.agents[at];
        let sent = match without {
            Some(Guard::LeaseFromSending) => now,
            _ => agent.sent,
        };
        let lies = without == Some(Guard::QuarantineAfterFailover);
        match reply {
            Reply::Joined(mut joined) => {
                if lies {
                    joined.settled.clone_from(&run);
                }
                let proven = |_: &str| without == Some(Guard::QuarantineAtJoin);
                agent.core.on_joined(sent, now, &run, joined, proven);
            }
            Reply::Beat(mut beat) => {
                if let (Beat::Alive { settled, .. }, true) = (&mut beat, lies) {
                    settled.clone_from(&run);
                }
                let refused = agent.core.on_beat(sent, now, &run, beat).err();
                if refused.is_some_and(|refused| refused.by.is_some()) {
                    agent.leaving = true;
                }
            }
            Reply::Stopped(stopped) => agent.core.acknowledged(&stopped),
            Reply::Left => (),
        }
    }

    fn serve_snapshot(&mut self) {
        self.last_snapshot = Some((self.now, self.store.clone()));
        self.snapshot = Some(self.store.snapshot());
        if self.is_coarse() {
            self.receive_snapshot();
        }
    }

    /// Known violations are searched for with fewer steps: requests arrive at once, and so do the manager's
    /// replies.
    fn is_coarse(&self) -> bool {
        self.without.is_some()
    }

    fn receive_snapshot(&mut self) {
        let (Some(sent), Some(snapshot)) = (self.snapshot_requested.take(), self.snapshot.take()) else {
            return;
        };
        let seen = match self.without {
            Some(Guard::SeenAtReceipt) => sent,
            _ => self.now,
        };
        self.watch.observe(&snapshot, seen);
        for overdue in self.watch.overdue(self.now, &self.timing) {
            self.commands.push_back(Command::Dead {
                name: overdue.name,
                inc: overdue.inc,
                beat: overdue.beat,
            });
        }
        if let Some(run) = self.watch.to_settle(&snapshot, self.now, &self.timing) {
            self.commands.push_back(Command::Settle {
                run: run.to_owned(),
                birth: snapshot.birth.clone(),
            });
        }
        let place = snapshot.places.as_ref().and_then(|places| places.get(&worker()));
        let live = snapshot
            .instances
            .iter()
            .rev()
            .find(|(_, one)| one.state == InstanceState::Live);
        if let (Some(place), Some((name, record))) = (place, live)
            && place.state == PlaceState::Pending
        {
            self.commands.push_back(Command::Assign {
                name: name.clone(),
                inc: record.inc,
                epoch: place.epoch,
            });
        }
        // More commands would only multiply the states.
        self.commands.truncate(2);
    }

    fn command(&mut self) {
        match self.commands.pop_front() {
            None => (),
            Some(Command::Dead { name, inc, beat }) => {
                self.store.declare_dead(&name, inc, beat);
            }
            Some(Command::Settle { run, birth }) => self.store.settle(&run, &birth),
            Some(Command::Assign { name, inc, epoch }) => {
                self.store.assign(&name, inc, "place", &[(worker(), epoch)]);
            }
        }
    }

    /// Lets every agent execute its core's actions, then checks the running copies.
    fn run_actions(&mut self) {
        let now = self.now;
        // Stops before starts: a copy whose deadline is this moment is dead.
        for starting in [false, true] {
            for at in 0..self.agents.len() {
                if self.agents[at].over {
                    continue;
                }
                let mut core = self.agents[at].core.clone();
                core.clear_quarantines(now);
                for action in core.take_actions(now) {
                    match action {
                        AgentAction::Stop { worker, .. } => {
                            core.gone(&worker);
                            self.copies.retain(|(copy, _)| *copy != at);
                        }
                        AgentAction::Start { worker, .. } if self.agents[at].leaving || !starting => {
                            core.not_started(&worker);
                        }
                        AgentAction::Start { epoch, .. } => self.begin(at, epoch),
                        AgentAction::Update { .. } => (),
                    }
                }
                self.agents[at].core = core;
            }
        }
        if self.copies.len() > 1 {
            self.wrong
                .get_or_insert_with(|| format!("two copies: {:?}", self.copies));
        }
    }

    fn begin(&mut self, at: usize, epoch: u64) {
        let (highest, by) = self.highest;
        if epoch <= highest {
            self.wrong
                .get_or_insert_with(|| format!("epoch {epoch} of {at} after {highest} of {by}"));
        }
        self.highest = (epoch, at);
        self.copies.push((at, epoch));
    }
}
