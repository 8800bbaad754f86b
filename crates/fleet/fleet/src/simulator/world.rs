//! Virtual time, messages with delays, and faults.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::agent::{Agent, AgentReply, AgentRequest};
use super::invariants::WorkerTrace;
use super::manager::{Manager, ManagerRequest};
use super::scenario::{Fault, Random, Scenario};
use super::store::ModelStore;
use super::{Outcome, Settings};
use crate::name::WorkerId;
use crate::store::{FleetSnapshot, InstanceState, List};
use nagaya_clock::BootTime;

pub(super) const MILLI: u64 = 1000;
/// How old a state a failover may bring back, in microseconds, and how often one is kept.
const HISTORY: u64 = 20_000 * MILLI;
const KEEP_EVERY: u64 = 97 * MILLI;
/// Where the server's clock starts.
const WALL_MICROS: u64 = 1_800_000_000_000_000;

/// An event at a moment in virtual time.
#[derive(Clone, Debug)]
pub(super) enum Event {
    AgentWake {
        agent: usize,
        wake: u64,
    },
    ManagerWake(usize),
    /// A request reaches the store, if it was sent to this run.
    AgentRequest {
        agent: usize,
        process: u64,
        call: u64,
        run: String,
        request: AgentRequest,
    },
    AgentReply {
        agent: usize,
        process: u64,
        call: u64,
        run: String,
        reply: AgentReply,
    },
    ManagerRequest {
        manager: usize,
        process: u64,
        sent: u64,
        run: String,
        request: ManagerRequest,
    },
    ManagerReply {
        manager: usize,
        process: u64,
        sent: u64,
        snapshot: Box<FleetSnapshot>,
    },
    /// Occurs only in a fleet without [`Guard::ListWithLease`](super::Guard): a list sent on its own.
    Order {
        agent: usize,
        process: u64,
        list: List,
    },
    WorkerGone {
        agent: usize,
        process: u64,
        worker: WorkerId,
    },
    Fault(Fault),
    AgentStarts {
        agent: usize,
        proven: bool,
    },
    LinkHeals {
        agent: usize,
        to_store: bool,
        from_store: bool,
    },
    Thaw(usize),
    CheckDoubles,
    Undrain(usize),
    KeepHistory,
}

/// A process's clock: a rate, and an offset that no process knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) rate_ppm: i64,
    pub(super) offset: u64,
}

impl Clock {
    fn factor(self) -> u128 {
        u128::try_from(1_000_000 + self.rate_ppm).unwrap_or(1_000_000)
    }

    pub(super) fn local(self, now: u64) -> BootTime {
        let passed = u128::from(now) * self.factor() / 1_000_000;
        BootTime::from_micros(self.offset + u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Returns the true moment at which the clock shows a time.
    pub(super) fn truth(self, local: BootTime) -> u64 {
        let passed = u128::from(local.as_micros().saturating_sub(self.offset)) * 1_000_000;
        u64::try_from(passed.div_ceil(self.factor())).unwrap_or(u64::MAX)
    }
}

pub(super) struct World<'a> {
    pub(super) settings: &'a Settings,
    pub(super) random: Random,
    pub(super) now: u64,
    sequence: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    pub(super) store: ModelStore,
    clock_back: u64,
    history: VecDeque<(u64, ModelStore)>,
    runs: u64,
    /// Over all epochs drawn, lost ones included.
    highest_epoch: u64,
    pub(super) agents: Vec<Agent>,
    /// The agent that holds each name now. A twin is an additional agent.
    holders: Vec<usize>,
    pub(super) managers: Vec<Manager>,
    pub(super) traces: BTreeMap<WorkerId, WorkerTrace>,
    /// No fault is active from here on.
    calm_from: u64,
    pub(super) outcome: Outcome,
}

impl<'a> World<'a> {
    pub(super) fn new(settings: &'a Settings, scenario: &Scenario) -> World<'a> {
        let mut world = World {
            settings,
            random: Random::new(scenario.seed),
            now: 0,
            sequence: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            store: ModelStore::new("run0", WALL_MICROS).without(settings.without),
            clock_back: 0,
            history: VecDeque::new(),
            runs: 0,
            highest_epoch: 0,
            agents: Vec::new(),
            holders: (0..settings.agents).collect(),
            managers: Vec::new(),
            traces: BTreeMap::new(),
            calm_from: 0,
            outcome: Outcome::default(),
        };
        let mut clocks = scenario.rates_ppm.iter().copied();
        for at in 0..settings.agents {
            let offset = world.random.below(1_000_000_000);
            let rate_ppm = clocks.next().unwrap_or(0);
            world
                .agents
                .push(Agent::new(at, Clock { rate_ppm, offset }, settings));
            world.at(
                at as u64,
                Event::AgentStarts {
                    agent: at,
                    proven: false,
                },
            );
        }
        for at in 0..settings.managers {
            let offset = world.random.below(1_000_000_000);
            let rate_ppm = clocks.next().unwrap_or(0);
            world.managers.push(Manager::new(Clock { rate_ppm, offset }));
            world.at(at as u64, Event::ManagerWake(at));
        }
        for at in 0..settings.workers {
            world.traces.insert(worker_name(at), WorkerTrace::default());
        }
        for (at, fault) in &scenario.faults {
            world.at(at * MILLI, Event::Fault(fault.clone()));
        }
        world.at(KEEP_EVERY, Event::KeepHistory);
        world
    }

    pub(super) fn at(&mut self, moment: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse((moment.max(self.now), self.sequence)));
        self.events.insert(self.sequence, event);
    }

    /// Returns how long recovery after the last fault may take: twice the failover bound, because a join can
    /// follow right after it, and the moves to even out.
    fn patience(&self) -> u64 {
        let bounds = self.settings.timing.bounds();
        u64::try_from((bounds.after_failover * 4).as_micros()).unwrap_or(u64::MAX)
            + self.settings.trouble_s * 1000 * MILLI / 3
    }

    pub(super) fn run(mut self) -> Outcome {
        let mut end = self.settings.trouble_s * 1000 * MILLI;
        while let Some(Reverse((moment, sequence))) = self.queue.pop() {
            end = end.max(self.calm_from + self.patience());
            if moment > end || self.outcome.violation.is_some() {
                break;
            }
            self.now = moment;
            self.store.clock_micros = (WALL_MICROS + moment).saturating_sub(self.clock_back);
            if let Some(event) = self.events.remove(&sequence) {
                self.outcome.events += 1;
                self.happen(event);
            }
        }
        if self.outcome.violation.is_none() {
            self.check_end();
        }
        self.outcome
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::AgentWake { agent, wake } => {
                if self.agents[agent].wakes == wake {
                    self.wake_agent(agent);
                }
            }
            Event::ManagerWake(manager) => self.wake_manager(manager),
            Event::AgentRequest {
                agent,
                process,
                call,
                run,
                request,
            } => self.serve_agent(agent, process, call, run, request),
            Event::AgentReply {
                agent,
                process,
                call,
                run,
                reply,
            } => self.agent_receives(agent, process, call, run, reply),
            Event::ManagerRequest {
                manager,
                process,
                sent,
                run,
                request,
            } => self.serve_manager(manager, process, sent, run, request),
            Event::ManagerReply {
                manager,
                process,
                sent,
                snapshot,
            } => self.manager_receives(manager, process, sent, *snapshot),
            Event::Order { agent, process, list } => self.take_order(agent, process, list),
            Event::WorkerGone {
                agent,
                process,
                worker,
            } => self.worker_gone(agent, process, worker),
            Event::Fault(fault) => self.inject_fault(fault),
            Event::AgentStarts { agent, proven } => self.start_agent(agent, proven),
            Event::LinkHeals {
                agent,
                to_store,
                from_store,
            } => {
                let agent = &mut self.agents[agent];
                agent.cut_to_store &= !to_store;
                agent.cut_from_store &= !from_store;
            }
            Event::Thaw(agent) => {
                self.agents[agent].frozen = false;
                self.wake_agent(agent);
                // Runs after the ends that were due during the freeze.
                self.at(self.now, Event::CheckDoubles);
            }
            Event::CheckDoubles => self.check_doubles(),
            Event::Undrain(agent) => {
                let name = self.agents[agent].name.clone();
                self.store.set_state(&name, None, InstanceState::Live);
            }
            Event::KeepHistory => {
                self.history.push_back((self.now, self.store.clone()));
                while self
                    .history
                    .front()
                    .is_some_and(|(at, _)| at + HISTORY < self.now)
                {
                    self.history.pop_front();
                }
                self.at(self.now + KEEP_EVERY, Event::KeepHistory);
            }
        }
    }

    fn inject_fault(&mut self, fault: Fault) {
        let mut calm = self.now;
        match fault {
            Fault::Crash { agent, down, proven } => {
                let agent = self.holders[agent];
                self.end_process(agent);
                calm += down * MILLI;
                self.at(calm, Event::AgentStarts { agent, proven });
            }
            Fault::Freeze { agent, length } => {
                let agent = self.holders[agent];
                if !self.agents[agent].frozen {
                    self.agents[agent].frozen = true;
                    calm += length * MILLI;
                    self.agents[agent].thaw_at = calm;
                    self.at(calm, Event::Thaw(agent));
                }
            }
            Fault::Cut {
                agent,
                to_store,
                from_store,
                length,
            } => {
                let agent = self.holders[agent];
                self.agents[agent].cut_to_store |= to_store;
                self.agents[agent].cut_from_store |= from_store;
                calm += length * MILLI;
                self.at(
                    calm,
                    Event::LinkHeals {
                        agent,
                        to_store,
                        from_store,
                    },
                );
            }
            Fault::Leave { agent, down } => {
                let agent = self.holders[agent];
                self.agents[agent].leave = true;
                calm += down * MILLI + self.patience() / 4;
                self.at(calm, Event::AgentStarts { agent, proven: false });
            }
            // Another machine takes over the name and can prove nothing about this process, which keeps
            // running until it is refused or its lease ends.
            Fault::Twin { agent } => {
                let twin = self.agents.len();
                let clock = Clock {
                    rate_ppm: self.agents[self.holders[agent]].clock.rate_ppm,
                    offset: self.random.below(1_000_000_000),
                };
                self.agents.push(Agent::new(agent, clock, self.settings));
                self.holders[agent] = twin;
                self.start_agent(twin, false);
            }
            Fault::ManagerRestart { manager } => self.managers[manager].restart(),
            Fault::Failover { lost } => self.fail_over(lost * MILLI),
            Fault::Flush => self.flush(),
            // A counter that lost values continues from the clock, so the clock must be right until the run
            // has drawn its first epoch.
            Fault::ClockStep { back } if self.store.has_drawn() => self.clock_back = back * MILLI,
            Fault::ClockStep { .. } => (),
            Fault::Reinstall { worker } => self.store.uninstall(&worker_name(worker)),
            Fault::Drain { agent, length } => {
                let name = self.agents[agent].name.clone();
                self.store.set_state(&name, None, InstanceState::Draining);
                calm += length * MILLI;
                self.at(calm, Event::Undrain(agent));
            }
        }
        self.calm_from = self.calm_from.max(calm);
    }

    /// Epochs rise over a lost counter only if the server's clock is ahead of it. A store that loses
    /// everything while its clock is wrong is outside the guarantee.
    fn flush(&mut self) {
        if self.clock_back == 0 && self.store.epoch() < self.store.clock_micros {
            self.store.flush();
        }
    }

    /// A replica takes over with an earlier state.
    fn fail_over(&mut self, lost: u64) {
        let wanted = self.now.saturating_sub(lost);
        let kept = self.history.iter().rev().find(|(at, _)| *at <= wanted);
        // Two lossy failovers in a row can bring lost epochs back if the server's clock is behind them as
        // well. That is outside the guarantee.
        self.highest_epoch = self.highest_epoch.max(self.store.epoch());
        let rises = |state: &ModelStore| {
            state.next_jump() > self.highest_epoch || self.store.clock_micros > self.highest_epoch
        };
        let state = match (kept, lost) {
            (Some((_, state)), 1..) if rises(state) => state.clone(),
            _ => self.store.clone(),
        };
        self.store = state;
        self.runs += 1;
        self.store.run = format!("run{}", self.runs);
        self.store.clock_micros = (WALL_MICROS + self.now).saturating_sub(self.clock_back);
        // States kept of the old primary are not states of the new one.
        self.history.clear();
        // An operator repeats a command that was lost.
        for agent in 0..self.settings.agents {
            self.at(self.now + 1, Event::Undrain(agent));
        }
    }

    /// Returns the delay of a message in microseconds. Most are quick, some are very late.
    pub(super) fn delay(&mut self) -> u64 {
        let limit = match self.random.below(100) {
            0 => 4_000 * MILLI,
            1..=5 => 500 * MILLI,
            _ => 20 * MILLI,
        };
        // After the last fault, the network is quick as well.
        if self.now >= self.calm_from {
            self.random.below(20 * MILLI)
        } else {
            self.random.below(limit)
        }
    }

    pub(super) fn is_lost(&mut self) -> bool {
        self.now < self.calm_from && self.random.one_in(200)
    }
}

pub(super) fn worker_name(at: usize) -> WorkerId {
    WorkerId::new(&format!("w{at}")).expect("a plain word")
}
