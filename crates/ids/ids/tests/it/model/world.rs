//! A few holders, a few Redis nodes, and all that can happen next.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use nagaya_clock::BootTime;
use nagaya_ids::lease::{Held, LeaseAction, LeaseState, Opening, Renewal, Times, Timing};
use nagaya_ids::pool::{Phase, Refusal};

use super::rules::{Action, Rules};
use super::store::{Caller, Given, Store};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    Primary { run: u8 },
    ReplicaOf(u8),
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    role: Role,
    store: Store,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    Get,
    Extend {
        number: u8,
        fence: u32,
        seen_run: u8,
        phase: Phase,
    },
    Release {
        number: u8,
        fence: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Reply {
    Given(Given, u8),
    Extended { changed: bool, run: u8 },
    Refused(Refusal),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Sent,
    /// Run on a node; `acks` are the replicas that have it, one bit each.
    Done {
        node: u8,
        reply: Reply,
        acks: u8,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Flight {
    request: Request,
    sent: u8,
    stage: Stage,
}

#[derive(Clone, Debug)]
struct Process {
    alive: bool,
    caller: Caller,
    clock: u8,
    lease_state: LeaseState<u8>,
    flight: Option<Flight>,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    rules: Rules,
    nodes: Vec<Node>,
    processes: Vec<Process>,
    /// A request whose sender gave up or died and that may still arrive.
    late: Option<(Caller, Request)>,
    /// The highest fence that was ever granted; the servers' clocks are beyond it.
    highest: u32,
    next_run: u8,
    next_token: u8,
    /// The highest fence that was ever opened, per number.
    opened: Vec<u32>,
}

pub(super) type Outcome = Result<World, String>;

fn moment(clock: u8) -> BootTime {
    BootTime::from_nanos(clock.into())
}

impl World {
    /// The first process has the first number open, and everybody knows it.
    pub(super) fn with_open_holder(rules: Rules) -> World {
        let primary = Node {
            role: Role::Primary { run: 1 },
            store: Store::of(rules.numbers),
        };
        let replica = Node {
            role: Role::ReplicaOf(0),
            store: Store::of(rules.numbers),
        };
        let mut world = World {
            rules,
            nodes: vec![replica; usize::from(rules.replicas) + 1],
            processes: Vec::new(),
            late: None,
            highest: 0,
            next_run: 2,
            next_token: 1,
            opened: vec![0; rules.numbers.into()],
        };
        world.nodes[0] = primary;
        for name in 1..=rules.processes {
            let caller = Caller {
                name,
                token: 0,
                proof: 0,
            };
            world.processes.push(Process {
                alive: false,
                caller,
                clock: 1,
                lease_state: world.new_lease_state(name - 1),
                flight: None,
            });
        }
        let delay = rules.delay;
        world.start(0);
        world = world.send(0, LeaseAction::Get).run(0, 0, 0).answer(0).unwrap();
        for _ in 0..delay {
            world = world.ticked(|_| 1);
        }
        world = world
            .send(0, LeaseAction::Extend(Phase::DelayOver))
            .run(0, 0, 0)
            .answer(0)
            .unwrap();
        for node in 1..world.nodes.len() {
            world.nodes[node].store = world.nodes[0].store.clone();
        }
        world
    }

    /// A hash of all that decides what can happen from here on: times count from each process's now,
    /// and what is over is over, however long.
    pub(super) fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.rules, &self.nodes, self.late, self.highest).hash(&mut hasher);
        (self.next_run, self.next_token, &self.opened).hash(&mut hasher);
        for process in &self.processes {
            let now = moment(process.clock);
            let left = |until: BootTime| until.since(now);
            (process.alive, process.caller).hash(&mut hasher);
            process.lease_state.held().hash(&mut hasher);
            process
                .lease_state
                .window()
                .map(|(_, until)| left(until))
                .hash(&mut hasher);
            process.lease_state.opens_after().map(left).hash(&mut hasher);
            (process.lease_state.next(now) == LeaseAction::GiveUp).hash(&mut hasher);
            if let Some(flight) = &process.flight {
                let age = (process.clock - flight.sent).min(self.use_of(0).max(self.use_of(1)));
                (flight.request, age, &flight.stage).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    fn new_lease_state(&self, at: u8) -> LeaseState<u8> {
        LeaseState::new(&Timing {
            use_for: Duration::from_nanos(self.use_of(at).into()),
            // May renew and try again whenever it likes.
            interval: Duration::ZERO,
            ..Timing::default()
        })
    }

    /// The use time of a process, in ticks.
    fn use_of(&self, at: u8) -> u8 {
        self.rules.use_for + if at == 0 { self.rules.longer } else { 0 }
    }

    pub(super) fn successors(&self, out: &mut Vec<(Action, Outcome)>) {
        let mut add = |action, world: World| out.push((action, world.checked()));
        add(Action::Tick, self.ticked(|_| 1));
        if self.rules.drift > 0 {
            for drifting in 0..self.rules.processes {
                let mut world = self.ticked(|process| u8::from(process != drifting));
                world.rules.drift -= 1;
                add(Action::TickWithout(drifting), world);
                let mut world = self.ticked(|process| 1 + u8::from(process == drifting));
                world.rules.drift -= 1;
                add(Action::TickTwice(drifting), world);
            }
        }
        for process in 0..self.rules.processes {
            self.process_actions(process, out);
        }
        self.node_actions(out);
        if let Some((caller, request)) = self.late {
            for node in self.primaries() {
                for pick in self.picks(request) {
                    let mut world = self.clone();
                    world.late = None;
                    if world.execute(node, caller, request, pick).is_some() {
                        out.push((Action::RunLate { node, pick }, world.checked()));
                    }
                }
            }
        }
    }

    fn process_actions(&self, at: u8, out: &mut Vec<(Action, Outcome)>) {
        let process = &self.processes[usize::from(at)];
        if !process.alive {
            if self.next_token <= self.rules.starts {
                let mut world = self.clone();
                world.start(at);
                out.push((Action::Start(at), world.checked()));
            }
            return;
        }
        // Without another start a crash is no different from doing nothing for ever.
        if self.next_token <= self.rules.starts {
            out.push((Action::Crash(at), self.crashed(at).checked()));
        }
        if self.rules.releases > 0 && process.lease_state.held().is_some() && process.flight.is_none() {
            out.push((Action::Release(at), self.released(at).checked()));
        }
        let Some(flight) = &process.flight else {
            let action = process.lease_state.next(moment(process.clock));
            // A renewal during the delay changes nothing when it is accepted, and only hurries what
            // the one after the delay finds out anyway.
            let waits = action == LeaseAction::Extend(Phase::Waiting);
            if matches!(action, LeaseAction::Get | LeaseAction::Extend(_)) && !waits {
                out.push((Action::Send(at, action), self.send(at, action).checked()));
            }
            return;
        };
        if self.rules.lost_calls > 0 {
            out.push((Action::GiveUp(at), self.given_up(at).checked()));
        }
        match &flight.stage {
            Stage::Sent => {
                for node in self.primaries() {
                    for pick in self.picks(flight.request) {
                        let world = self.run(at, node, pick);
                        // Out of grants: the request is never answered.
                        let ran = world.processes[usize::from(at)].flight != process.flight;
                        if ran {
                            out.push((
                                Action::Run {
                                    process: at,
                                    node,
                                    pick,
                                },
                                world.checked(),
                            ));
                        }
                    }
                }
            }
            Stage::Done { acks, .. } => {
                if acks.count_ones() >= u32::from(self.rules.confirmations) {
                    out.push((Action::Answer(at), self.answer(at).and_then(World::checked)));
                }
            }
        }
    }

    fn node_actions(&self, out: &mut Vec<(Action, Outcome)>) {
        for (at, node) in (0_u8..).zip(&self.nodes) {
            match node.role {
                Role::Primary { .. } if self.rules.flushes > 0 => {
                    let mut world = self.clone();
                    world.rules.flushes -= 1;
                    world.nodes[usize::from(at)].store.flush();
                    out.push((Action::Flush(at), world.checked()));
                }
                Role::Primary { .. } | Role::Dead => (),
                Role::ReplicaOf(primary) => {
                    if node.store != self.nodes[usize::from(primary)].store || self.awaits_ack(at) {
                        out.push((Action::Sync(at), self.synced(at, primary).checked()));
                    }
                    if self.rules.failovers > 0 {
                        out.push((Action::Promote(at), self.promoted(at).checked()));
                    }
                    // A replica that once followed a newer primary does not go back to an older one.
                    for other in self
                        .primaries()
                        .filter(|other| self.run_of(*other) > self.run_of(primary))
                    {
                        let mut world = self.clone();
                        world.nodes[usize::from(at)].role = Role::ReplicaOf(other);
                        out.push((
                            Action::Follow {
                                replica: at,
                                primary: other,
                            },
                            world.checked(),
                        ));
                    }
                }
            }
        }
    }

    fn primaries(&self) -> impl Iterator<Item = u8> + use<'_> {
        let nodes = (0_u8..).zip(&self.nodes);
        nodes
            .filter(|(_, node)| matches!(node.role, Role::Primary { .. }))
            .map(|(at, _)| at)
    }

    fn run_of(&self, node: u8) -> Option<u8> {
        match self.nodes[usize::from(node)].role {
            Role::Primary { run } => Some(run),
            Role::ReplicaOf(_) | Role::Dead => None,
        }
    }

    fn picks(&self, request: Request) -> std::ops::Range<u8> {
        match request {
            Request::Get => 0..self.rules.numbers,
            _ => 0..1,
        }
    }

    fn ticked(&self, by: impl Fn(u8) -> u8) -> World {
        let mut world = self.clone();
        for (at, process) in (0_u8..).zip(&mut world.processes) {
            process.clock += by(at);
        }
        world
    }

    fn start(&mut self, at: u8) {
        let lease_state = self.new_lease_state(at);
        let process = &mut self.processes[usize::from(at)];
        process.alive = true;
        // The state directory names the process before, and its lock is free.
        process.caller.proof = process.caller.token;
        process.caller.token = self.next_token;
        process.lease_state = lease_state;
        self.next_token += 1;
    }

    fn crashed(&self, at: u8) -> World {
        let mut world = self.clone();
        let lease_state = world.new_lease_state(at);
        let process = &mut world.processes[usize::from(at)];
        let flight = process.flight.take();
        process.alive = false;
        process.lease_state = lease_state;
        let caller = process.caller;
        world.keep_late(caller, flight);
        world
    }

    /// Stops the use, sends the release, and ends.
    fn released(&self, at: u8) -> World {
        let process = &self.processes[usize::from(at)];
        let held = process.lease_state.held().unwrap();
        let (number, fence) = (
            u8::try_from(held.number).unwrap(),
            u32::try_from(held.fence).unwrap(),
        );
        let mut world = self.crashed(at);
        world.rules.releases -= 1;
        world.late = Some((process.caller, Request::Release { number, fence }));
        world
    }

    fn keep_late(&mut self, caller: Caller, flight: Option<Flight>) {
        if let Some(flight) = flight.filter(|flight| flight.stage == Stage::Sent) {
            self.late = Some((caller, flight.request));
        }
    }

    fn send(&self, at: u8, action: LeaseAction) -> World {
        let mut world = self.clone();
        let process = &mut world.processes[usize::from(at)];
        let request = match action {
            LeaseAction::Get => Request::Get,
            LeaseAction::Extend(phase) => {
                let held = process.lease_state.held().unwrap();
                Request::Extend {
                    number: u8::try_from(held.number).unwrap(),
                    fence: u32::try_from(held.fence).unwrap(),
                    seen_run: held.run,
                    phase,
                }
            }
            other => panic!("{other:?} sends nothing"),
        };
        process.flight = Some(Flight {
            request,
            sent: process.clock,
            stage: Stage::Sent,
        });
        world
    }

    fn given_up(&self, at: u8) -> World {
        let mut world = self.clone();
        world.rules.lost_calls -= 1;
        let process = &mut world.processes[usize::from(at)];
        let flight = process.flight.take().unwrap();
        let (now, times) = (moment(process.clock), times(&flight, process.clock));
        match flight.request {
            Request::Get => process.lease_state.not_granted(now),
            Request::Extend { phase, .. } => process.lease_state.renewed(phase, Renewal::Unknown, times, now),
            Request::Release { .. } => (),
        }
        let caller = process.caller;
        world.keep_late(caller, Some(flight));
        world
    }

    fn run(&self, at: u8, node: u8, pick: u8) -> World {
        let mut world = self.clone();
        let process = &self.processes[usize::from(at)];
        let request = process.flight.as_ref().unwrap().request;
        if let Some(reply) = world.execute(node, process.caller, request, pick) {
            let flight = world.processes[usize::from(at)].flight.as_mut().unwrap();
            flight.stage = Stage::Done { node, reply, acks: 0 };
        }
        world
    }

    fn execute(&mut self, at: u8, caller: Caller, request: Request, pick: u8) -> Option<Reply> {
        let clock = self.highest + 1;
        let node = &mut self.nodes[usize::from(at)];
        let Role::Primary { run } = node.role else {
            return None;
        };
        Some(match request {
            Request::Get => {
                self.rules.grants = self.rules.grants.checked_sub(1)?;
                let given = node.store.get(caller, run, clock, pick, self.rules.trust_any_run);
                self.highest = self.highest.max(given.fence);
                Reply::Given(given, run)
            }
            Request::Extend {
                number,
                fence,
                seen_run,
                phase,
            } => {
                // The guard taken out: only the record tells.
                let seen_run = if self.rules.trust_record_run {
                    run
                } else {
                    seen_run
                };
                match node.store.extend(caller, run, seen_run, (number, fence), phase) {
                    Ok(changed) => Reply::Extended { changed, run },
                    Err(refusal) => Reply::Refused(refusal),
                }
            }
            Request::Release { number, fence } => {
                node.store.release(caller, run, (number, fence), true);
                Reply::Extended { changed: false, run }
            }
        })
    }

    fn answer(&self, at: u8) -> Outcome {
        let mut world = self.clone();
        let trust_record = self.rules.trust_record_run;
        let process = &mut world.processes[usize::from(at)];
        let flight = process.flight.take().unwrap();
        let Stage::Done { reply, .. } = &flight.stage else {
            panic!("not run yet")
        };
        let (now, times) = (moment(process.clock), times(&flight, process.clock));
        match (flight.request, reply.clone()) {
            (_, Reply::Given(given, run)) => {
                let held = Held {
                    number: given.number.into(),
                    fence: given.fence.into(),
                    at_once: given.at_once,
                    run,
                };
                let opening = Opening {
                    delay: Duration::from_nanos(self.rules.delay.into()),
                    floor_passed: BootTime::ZERO,
                };
                process.lease_state.granted(held, opening, times);
            }
            (Request::Extend { phase, .. }, Reply::Extended { changed, run }) => {
                let known = process.lease_state.held().map(|held| held.run);
                // The guard taken out: what the record does not say is not asked.
                let run = if trust_record && !changed {
                    known.unwrap_or(run)
                } else {
                    run
                };
                let renewal = Renewal::Confirmed {
                    run_changed: changed,
                    run,
                };
                process.lease_state.renewed(phase, renewal, times, now);
            }
            (Request::Extend { phase, .. }, Reply::Refused(refusal)) => {
                process
                    .lease_state
                    .renewed(phase, Renewal::Refused(refusal), times, now);
            }
            _ => (),
        }
        Ok(world)
    }

    fn awaits_ack(&self, replica: u8) -> bool {
        self.processes.iter().any(|process| match &process.flight {
            Some(Flight {
                stage: Stage::Done { node, acks, .. },
                ..
            }) => {
                self.nodes[usize::from(replica)].role == Role::ReplicaOf(*node) && acks & (1 << replica) == 0
            }
            _ => false,
        })
    }

    fn synced(&self, replica: u8, primary: u8) -> World {
        let mut world = self.clone();
        world.nodes[usize::from(replica)].store = self.nodes[usize::from(primary)].store.clone();
        if self.rules.confirmations == 0 {
            return world;
        }
        for process in &mut world.processes {
            if let Some(Flight {
                stage: Stage::Done { node, acks, .. },
                ..
            }) = &mut process.flight
                && *node == primary
            {
                *acks |= 1 << replica;
            }
        }
        world
    }

    fn promoted(&self, replica: u8) -> World {
        let mut world = self.clone();
        world.rules.failovers -= 1;
        let run = world.next_run;
        world.next_run += 1;
        let Role::ReplicaOf(old) = world.nodes[usize::from(replica)].role else {
            panic!("only a replica is promoted")
        };
        world.nodes[usize::from(replica)].role = Role::Primary { run };
        if !self.rules.split {
            world.nodes[usize::from(old)].role = Role::Dead;
            for node in &mut world.nodes {
                if node.role == Role::ReplicaOf(old) {
                    node.role = Role::ReplicaOf(replica);
                }
            }
        }
        world
    }

    /// The promises themselves: one user per number, and fences that rise from user to user.
    fn checked(mut self) -> Outcome {
        let mut users = Vec::new();
        for process in self.processes.iter().filter(|process| process.alive) {
            if let Some((held, until)) = process.lease_state.window()
                && moment(process.clock) < until
            {
                if users.contains(&held.number) {
                    return Err(format!("number {} has two users", held.number));
                }
                users.push(held.number);
                let opened = &mut self.opened[usize::try_from(held.number).unwrap()];
                let fence = u32::try_from(held.fence).unwrap();
                if fence < *opened {
                    return Err(format!("fence {fence} in use after {opened}"));
                }
                *opened = fence;
            }
        }
        Ok(self)
    }
}

fn times(flight: &Flight, now: u8) -> Times {
    Times {
        sent: moment(flight.sent),
        received: moment(now),
    }
}
