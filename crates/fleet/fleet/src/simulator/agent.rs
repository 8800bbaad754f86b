//! A simulated agent: the real core, with worker processes that take time to end.

use std::time::Duration;

use super::world::{Clock, Event, World};
use super::{Guard, Settings};
use crate::name::{InstanceName, WorkerId};
use crate::protocol::{AgentAction, AgentCore};
use crate::store::{Beat, Capabilities, InstanceState, Joined, List, Pulse, Running};
use nagaya_clock::BootTime;

/// Reply timeout of a call, in milliseconds.
const REPLY_LIMIT_MS: u64 = 1000;
/// Longer than any quarantine.
const ANY_QUARANTINE: Duration = Duration::from_secs(1 << 30);

#[derive(Clone, Debug)]
pub(super) enum AgentRequest {
    Join { token: String },
    Beat(Pulse),
    Stopped { inc: u64, stopped: Running },
    Leave { inc: u64 },
}

#[derive(Clone, Debug)]
pub(super) enum AgentReply {
    Joined(Joined),
    Beat(Beat),
    Stopped(Running, bool),
    Left(Option<u64>),
}

pub(super) struct Agent {
    /// Index of its name.
    pub(super) at: usize,
    pub(super) name: InstanceName,
    pub(super) clock: Clock,
    pub(super) core: AgentCore,
    /// Changes with every start.
    pub(super) process: u64,
    pub(super) alive: bool,
    pub(super) frozen: bool,
    pub(super) thaw_at: u64,
    pub(super) cut_to_store: bool,
    pub(super) cut_from_store: bool,
    pub(super) leave: bool,
    /// Another process holds its name, so it ends.
    replaced: bool,
    left: bool,
    leave_told: bool,
    /// The token of the previous process, if that can be proven over.
    proof: Option<String>,
    /// The call in flight, and when it was sent.
    call: Option<(u64, BootTime)>,
    calls: u64,
    next_beat: BootTime,
    /// Wake-ups scheduled so far. Only the last one counts.
    pub(super) wakes: u64,
}

impl Agent {
    pub(super) fn new(at: usize, clock: Clock, settings: &Settings) -> Agent {
        Agent {
            at,
            name: InstanceName::new(&format!("i{at}")).expect("a plain word"),
            clock,
            core: AgentCore::new(settings.timing, String::new()),
            process: 0,
            alive: false,
            frozen: false,
            thaw_at: 0,
            cut_to_store: false,
            cut_from_store: false,
            leave: false,
            replaced: false,
            left: false,
            leave_told: false,
            proof: None,
            call: None,
            calls: 0,
            next_beat: BootTime::ZERO,
            wakes: 0,
        }
    }
}

impl World<'_> {
    pub(super) fn start_agent(&mut self, at: usize, proven: bool) {
        if self.agents[at].alive && !self.agents[at].leave {
            return;
        }
        self.end_process(at);
        let timing = self.settings.timing;
        let agent = &mut self.agents[at];
        agent.proof = proven.then(|| agent.core.token().to_owned());
        agent.process += 1;
        agent.core = AgentCore::new(timing, format!("{at}.{}", agent.process));
        agent.alive = true;
        agent.leave = false;
        agent.left = false;
        agent.leave_told = false;
        agent.call = None;
        agent.next_beat = BootTime::ZERO;
        self.wake_agent(at);
    }

    /// Ends the process and everything it started, at once.
    pub(super) fn end_process(&mut self, at: usize) {
        let agent = &mut self.agents[at];
        agent.alive = false;
        let (process, workers) = (agent.process, agent.core.running_or_stopping());
        for worker in workers {
            self.end_copy(at, process, &worker);
        }
    }

    pub(super) fn wake_agent(&mut self, at: usize) {
        let agent = &mut self.agents[at];
        if !agent.alive || agent.frozen {
            return;
        }
        let now = agent.clock.local(self.now);
        agent.core.clear_quarantines(now);
        let actions = agent.core.take_actions(now);
        for action in actions {
            self.carry_out(at, action);
        }
        self.call_store(at, now);
        let agent = &self.agents[at];
        let limit = Duration::from_millis(REPLY_LIMIT_MS);
        let timeout = agent.call.map(|(_, sent)| sent + limit);
        let beat = agent.call.is_none().then_some(agent.next_beat);
        let soon = now + Duration::from_millis(200);
        let next = [agent.core.next_at(), timeout, beat].into_iter().flatten();
        let next = next.min().unwrap_or(soon).min(soon);
        // The agent gets to run within its margin.
        let late = self.random.below(self.margin() / 4);
        let moment = self.agents[at].clock.truth(next).max(self.now + 1) + late;
        self.agents[at].wakes += 1;
        let wake = self.agents[at].wakes;
        self.at(moment, Event::AgentWake { agent: at, wake });
    }

    fn margin(&self) -> u64 {
        u64::try_from(self.settings.timing.margin.as_micros()).unwrap_or(u64::MAX)
    }

    fn carry_out(&mut self, at: usize, action: AgentAction) {
        let agent = &mut self.agents[at];
        let process = agent.process;
        match action {
            AgentAction::Start { worker, .. } if agent.leave => agent.core.not_started(&worker),
            AgentAction::Start { worker, epoch, .. } => self.begin_copy(at, process, &worker, epoch),
            AgentAction::Update { .. } => (),
            AgentAction::Stop { worker, kill_at } => {
                let kill_at = agent.clock.truth(kill_at).max(self.now);
                // It ends on its own, or is killed a little after `kill_at`.
                let late = self.random.below(self.margin() / 4);
                let early = self.random.below(kill_at - self.now + 1);
                // Past its deadline it is killed at once. On a real machine that takes a moment, a gap that
                // only a gate closes; here it takes none.
                let moment = if kill_at <= self.now {
                    self.now
                } else if self.random.one_in(2) {
                    kill_at + late
                } else {
                    self.now + early
                };
                let event = Event::WorkerGone {
                    agent: at,
                    process,
                    worker,
                };
                if moment <= self.now {
                    self.worker_gone_event(event)
                } else {
                    self.at(moment, event)
                }
            }
        }
    }

    fn worker_gone_event(&mut self, event: Event) {
        if let Event::WorkerGone {
            agent,
            process,
            worker,
        } = event
        {
            self.worker_gone(agent, process, worker);
        }
    }

    pub(super) fn worker_gone(&mut self, at: usize, process: u64, worker: WorkerId) {
        if self.agents[at].process != process || !self.agents[at].alive {
            return;
        }
        if self.agents[at].frozen {
            // A killed process is gone when the machine thaws, at the latest.
            let event = Event::WorkerGone {
                agent: at,
                process,
                worker,
            };
            self.at(self.agents[at].thaw_at, event);
            return;
        }
        self.agents[at].core.gone(&worker);
        self.end_copy(at, process, &worker);
    }

    /// Sends the next call if one is due, in the order of the real loop.
    fn call_store(&mut self, at: usize, now: BootTime) {
        let timing = self.settings.timing;
        let agent = &mut self.agents[at];
        let limit = Duration::from_millis(REPLY_LIMIT_MS);
        if agent.call.is_some_and(|(_, sent)| now.since(sent) >= limit) {
            agent.call = None;
        }
        if agent.call.is_some() || agent.left || (agent.replaced && agent.core.inc().is_none()) {
            return;
        }
        let request = match agent.core.inc() {
            None if agent.leave => {
                agent.left = true;
                return;
            }
            None => {
                if !agent.core.may_join() || now < agent.next_beat {
                    return;
                }
                agent.next_beat = now + timing.heartbeat;
                let token = agent.core.token().to_owned();
                AgentRequest::Join { token }
            }
            Some(inc) if agent.leave && !agent.leave_told => AgentRequest::Leave { inc },
            Some(inc) => {
                if agent.core.take_hurry(now) {
                    agent.next_beat = now;
                }
                let due = due_acknowledgements(&agent.core, now, self.settings.without);
                if !due.is_empty() && now < agent.next_beat {
                    AgentRequest::Stopped { inc, stopped: due }
                } else if now < agent.next_beat {
                    return;
                } else {
                    agent.next_beat = now + timing.heartbeat;
                    AgentRequest::Beat(agent.core.pulse(inc, now))
                }
            }
        };
        agent.calls += 1;
        agent.call = Some((agent.calls, now));
        let (process, call) = (agent.process, agent.calls);
        let run = self.store.run.clone();
        let copies = if self.random.one_in(50) { 2 } else { 1 };
        for _ in 0..copies {
            let (run, request) = (run.clone(), request.clone());
            let moment = self.now + self.delay();
            let event = Event::AgentRequest {
                agent: at,
                process,
                call,
                run,
                request,
            };
            self.at(moment, event);
        }
    }

    pub(super) fn serve_agent(
        &mut self,
        at: usize,
        process: u64,
        call: u64,
        run: String,
        request: AgentRequest,
    ) {
        // A connection ends with its server, and a message on a cut link never arrives.
        if run != self.store.run || self.agents[at].cut_to_store || self.is_lost() {
            return;
        }
        let name = self.agents[at].name.clone();
        let reply = match request {
            AgentRequest::Join { token } => {
                AgentReply::Joined(self.store.join(&name, &token, &Capabilities::default()))
            }
            AgentRequest::Beat(pulse) => AgentReply::Beat(self.store.heartbeat(&name, &pulse)),
            AgentRequest::Stopped { inc, stopped } => {
                let left = self.store.stopped(&name, inc, &stopped);
                AgentReply::Stopped(stopped, left)
            }
            AgentRequest::Leave { inc } => {
                AgentReply::Left(self.store.set_state(&name, Some(inc), InstanceState::Leaving))
            }
        };
        let moment = self.now + self.delay();
        let event = Event::AgentReply {
            agent: at,
            process,
            call,
            run,
            reply,
        };
        self.at(moment, event);
    }

    pub(super) fn agent_receives(
        &mut self,
        at: usize,
        process: u64,
        call: u64,
        run: String,
        reply: AgentReply,
    ) {
        if self.agents[at].frozen {
            let event = Event::AgentReply {
                agent: at,
                process,
                call,
                run,
                reply,
            };
            self.at(self.agents[at].thaw_at, event);
            return;
        }
        let lost = self.agents[at].cut_from_store || self.is_lost();
        let agent = &mut self.agents[at];
        let awaited = agent.call.filter(|(awaited, _)| *awaited == call);
        let Some((_, sent)) = awaited.filter(|_| agent.alive && agent.process == process && !lost) else {
            return;
        };
        agent.call = None;
        let now = agent.clock.local(self.now);
        let without = self.settings.without;
        let sent = match without {
            Some(Guard::LeaseFromSending) => now,
            _ => sent,
        };
        let settled = |settled: String| match without {
            Some(Guard::QuarantineAfterFailover) => run.clone(),
            _ => settled,
        };
        match reply {
            AgentReply::Joined(mut joined) => {
                let proof = agent.proof.clone();
                let proven =
                    |token: &str| without == Some(Guard::QuarantineAtJoin) || proof.as_deref() == Some(token);
                joined.settled = settled(joined.settled);
                agent.core.on_joined(sent, now, &run, joined, proven);
            }
            AgentReply::Beat(mut beat) => {
                if let Beat::Alive { settled: shown, .. } = &mut beat {
                    *shown = settled(std::mem::take(shown));
                }
                let refused = agent.core.on_beat(sent, now, &run, beat).err();
                agent.replaced |= refused.is_some_and(|refused| refused.by.is_some());
            }
            AgentReply::Stopped(stopped, left) => {
                agent.core.acknowledged(&stopped);
                agent.left |= left;
                agent.next_beat = now;
            }
            AgentReply::Left(workers) => {
                agent.leave_told = true;
                agent.left |= matches!(workers, Some(0) | None);
                agent.next_beat = now;
            }
        }
        self.wake_agent(at);
    }

    /// Follows a list that arrived without a lease.
    pub(super) fn take_order(&mut self, at: usize, process: u64, list: List) {
        let agent = &mut self.agents[at];
        if !agent.alive || agent.frozen || agent.process != process || agent.core.inc().is_none() {
            return;
        }
        let (run, version) = agent.core.known();
        let (run, now) = (run.to_owned(), agent.clock.local(self.now));
        let beat = Beat::Alive {
            settled: run.clone(),
            version: version.unwrap_or(0),
            list: Some(list),
        };
        let _ = agent.core.on_beat(BootTime::ZERO, now, &run, beat);
        self.wake_agent(at);
    }
}

/// Returns what the core would acknowledge, or would acknowledge without one of its rules.
pub(super) fn due_acknowledgements(core: &AgentCore, now: BootTime, without: Option<Guard>) -> Running {
    let mut core = core.clone();
    match without {
        Some(Guard::QuarantineOfStops) => core.clear_quarantines(now + ANY_QUARANTINE),
        Some(Guard::StopThenAcknowledge) => {
            for worker in core.running_or_stopping() {
                core.gone(&worker);
            }
        }
        _ => (),
    }
    core.due_acknowledgements(now)
}
