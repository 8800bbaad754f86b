//! A search through everything that can happen to a supervisor, its watchdog and one process group.
//!
//! One tick is [`MARGIN`]. Time passes only when every process that runs has done what is due; a process that is
//! frozen or killed does nothing. In every state: the group does not run past its deadline, unless both were out of order
//! at the same time, and nobody signals a number that may be a stranger's by now. The watchdog's decisions are the real
//! [`Tether`]'s. Each rule that can be taken out is, and the search must find what it prevents.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use nagaya_clock::BootTime;
use nagaya_leash::{MARGIN, Step, Tether};

/// The first deadline, and how much each renewal adds, in ticks.
const LEASE: u32 = 4;
const TICKS_MAX: u32 = 11;

/// Which rules hold, and what may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Rules {
    /// The watchdog kills by itself at the deadline.
    watchdog_kills: bool,
    /// The supervisor kills if the watchdog has not.
    supervisor_kills: bool,
    /// The watchdog ends the group when the supervisor is gone.
    ends_with_supervisor: bool,
    /// A leader's zombie is kept until the supervisor lets go of it.
    keeps_zombie: bool,
    /// The supervisor adopts what a killed watchdog leaves behind.
    adopts: bool,
    freezes: u8,
    kills: u8,
    renewals: u8,
}

const WHOLE: Rules = Rules {
    watchdog_kills: true,
    supervisor_kills: true,
    ends_with_supervisor: true,
    keeps_zombie: true,
    adopts: true,
    freezes: 0,
    kills: 0,
    renewals: 1,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Health {
    Runs,
    Frozen,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Group {
    Runs,
    /// Only the leader's zombie is left: the number is still its own.
    Zombie,
    /// Nothing is left: the number may be a stranger's.
    Reaped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Tick,
    Freeze(Who),
    Thaw(Who),
    Kill(Who),
    LeaderEnds,
    Renew,
    WatchdogHears,
    SupervisorHears,
    WatchdogActs,
    SupervisorActs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Who {
    Supervisor,
    Watchdog,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    rules: Rules,
    now: u32,
    until: u32,
    supervisor: Health,
    watchdog: Health,
    group: Group,
    tether: Tether,
    /// Deadlines on their way to the watchdog.
    told: Option<u32>,
    /// The watchdog has said that the group is gone; the supervisor has heard it, and has let go.
    reported: bool,
    heard: bool,
    let_go: bool,
    /// Both were out of order at once: only strangers are still looked after.
    was_helpless: bool,
}

fn at(tick: u32) -> BootTime {
    BootTime::ZERO + MARGIN * tick
}

impl World {
    fn new(rules: Rules) -> World {
        World {
            rules,
            now: 0,
            until: LEASE,
            supervisor: Health::Runs,
            watchdog: Health::Runs,
            group: Group::Runs,
            tether: Tether::new(at(LEASE), Duration::ZERO, MARGIN),
            told: None,
            reported: false,
            heard: false,
            let_go: false,
            was_helpless: false,
        }
    }

    fn health(&mut self, who: Who) -> &mut Health {
        match who {
            Who::Supervisor => &mut self.supervisor,
            Who::Watchdog => &mut self.watchdog,
        }
    }

    fn successors(&self) -> Vec<(Action, Result<World, String>)> {
        let mut found = Vec::new();
        let mut add = |action: Action, world: Option<Result<World, String>>| {
            if let Some(outcome) = world {
                found.push((action, outcome.and_then(World::checked)));
            }
        };
        for who in [Who::Supervisor, Who::Watchdog] {
            for action in [Action::Freeze(who), Action::Thaw(who), Action::Kill(who)] {
                add(action, self.faulted(who, action).map(Ok));
            }
        }
        add(Action::LeaderEnds, self.leader_ended().map(Ok));
        add(Action::Renew, self.renewed().map(Ok));
        add(Action::WatchdogHears, self.watchdog_heard().map(Ok));
        add(Action::SupervisorHears, self.supervisor_heard().map(Ok));
        let (watchdog, supervisor) = (self.watchdog_acts(), self.supervisor_acts());
        let is_due = watchdog.is_some() || supervisor.is_some();
        add(Action::WatchdogActs, watchdog);
        add(Action::SupervisorActs, supervisor);
        if !is_due && self.now < TICKS_MAX {
            let now = self.now + 1;
            add(Action::Tick, Some(Ok(World { now, ..self.clone() })));
        }
        found
    }

    fn faulted(&self, who: Who, action: Action) -> Option<World> {
        let mut world = self.clone();
        let health = *world.health(who);
        match action {
            Action::Freeze(_) if health == Health::Runs && self.rules.freezes > 0 => {
                world.rules.freezes -= 1;
                *world.health(who) = Health::Frozen;
            }
            Action::Thaw(_) if health == Health::Frozen => *world.health(who) = Health::Runs,
            Action::Kill(_) if health != Health::Dead && self.rules.kills > 0 => {
                world.rules.kills -= 1;
                *world.health(who) = Health::Dead;
                if who == Who::Watchdog && !self.let_go {
                    world.watchdog_died();
                }
            }
            _ => return None,
        }
        world.was_helpless |= world.supervisor != Health::Runs && world.watchdog != Health::Runs;
        Some(world)
    }

    /// The kernel kills the leader; its zombie goes to the supervisor, or to the system, which reaps it.
    fn watchdog_died(&mut self) {
        let has_parent = self.rules.adopts && self.supervisor != Health::Dead;
        if self.group != Group::Reaped {
            self.group = if has_parent { Group::Zombie } else { Group::Reaped };
        }
    }

    fn leader_ended(&self) -> Option<World> {
        let mut world = self.clone();
        world.group = Group::Zombie;
        (self.group == Group::Runs).then_some(world)
    }

    fn renewed(&self) -> Option<World> {
        let in_time = self.supervisor == Health::Runs && !self.heard && self.now < self.until;
        if !in_time || self.rules.renewals == 0 {
            return None;
        }
        let mut world = self.clone();
        world.rules.renewals -= 1;
        world.until = self.now + LEASE;
        world.told = Some(world.until);
        Some(world)
    }

    fn supervisor_heard(&self) -> Option<World> {
        let has_news = self.reported && !self.heard && self.supervisor == Health::Runs;
        has_news.then(|| World {
            heard: true,
            ..self.clone()
        })
    }

    fn watchdog_heard(&self) -> Option<World> {
        let until = self.told.filter(|_| self.watchdog == Health::Runs)?;
        let mut world = self.clone();
        world.told = None;
        world.tether.extend(at(until));
        Some(world)
    }

    /// What the watchdog does now, if anything is due.
    fn watchdog_acts(&self) -> Option<Result<World, String>> {
        if self.watchdog != Health::Runs || self.let_go {
            return None;
        }
        let mut world = self.clone();
        if self.supervisor == Health::Dead && self.rules.ends_with_supervisor {
            world.tether.stop(at(self.now));
        }
        if self.group != Group::Runs {
            world.tether.leader_ended(at(self.now));
        }
        // A guard taken out: it does not look at the clock.
        let now = if self.rules.watchdog_kills
            || self.supervisor == Health::Dead && self.rules.ends_with_supervisor
        {
            at(self.now)
        } else {
            BootTime::ZERO
        };
        match world.tether.step(now, self.group == Group::Runs) {
            Step::Kill => world.signalled(),
            Step::Gone if !self.reported => {
                world.reported = true;
                if !self.rules.keeps_zombie || self.supervisor == Health::Dead {
                    world.group = Group::Reaped;
                    world.let_go |= self.supervisor == Health::Dead;
                }
                Some(Ok(world))
            }
            Step::Term => Some(Ok(world)),
            Step::Gone | Step::Wait(_) => (world != *self).then_some(Ok(world)),
        }
    }

    /// What the supervisor does now, if anything is due.
    fn supervisor_acts(&self) -> Option<Result<World, String>> {
        if self.supervisor != Health::Runs || self.let_go {
            return None;
        }
        let mut world = self.clone();
        if self.watchdog == Health::Dead {
            // What is left is its own now; it does not know yet whether anything is.
            let signalled = world.signalled();
            world.let_go = true;
            world.group = Group::Reaped;
            return Some(signalled.map_or(Ok(world), |signalled| {
                signalled.map(|world| World {
                    let_go: true,
                    group: Group::Reaped,
                    ..world
                })
            }));
        }
        if self.now + 1 >= self.until && self.rules.supervisor_kills && !self.heard {
            return world.signalled();
        }
        if self.heard && self.rules.keeps_zombie {
            world.let_go = true;
            world.group = Group::Reaped;
            return Some(Ok(world));
        }
        None
    }

    /// KILL to the group's number.
    fn signalled(&self) -> Option<Result<World, String>> {
        match self.group {
            Group::Runs => Some(Ok(World {
                group: Group::Zombie,
                ..self.clone()
            })),
            Group::Zombie => None,
            Group::Reaped => Some(Err("a stranger's group was killed".into())),
        }
    }

    fn checked(self) -> Result<World, String> {
        if self.group == Group::Runs && self.now >= self.until && !self.was_helpless {
            return Err("the group runs past its deadline".into());
        }
        Ok(self)
    }
}

struct Found {
    states: usize,
    violation: Option<(String, Vec<Action>)>,
}

fn search(rules: Rules) -> Found {
    let start = World::new(rules);
    let mut seen: HashMap<World, Option<(World, Action)>> = HashMap::from([(start.clone(), None)]);
    let mut queue = VecDeque::from([start]);
    while let Some(world) = queue.pop_front() {
        for (action, outcome) in world.successors() {
            match outcome {
                Ok(next) if !seen.contains_key(&next) => {
                    seen.insert(next.clone(), Some((world.clone(), action)));
                    queue.push_back(next);
                }
                Ok(_) => (),
                Err(violation) => {
                    let mut way = vec![action];
                    let mut at = &world;
                    while let Some(Some((before, action))) = seen.get(at) {
                        way.push(*action);
                        at = before;
                    }
                    way.reverse();
                    return Found {
                        states: seen.len(),
                        violation: Some((violation, way)),
                    };
                }
            }
        }
    }
    Found {
        states: seen.len(),
        violation: None,
    }
}

#[track_caller]
fn check_holds(what: &str, rules: Rules) {
    let found = search(rules);
    eprintln!("{what}: {} states, complete", found.states);
    assert!(found.violation.is_none(), "{what}: {:#?}", found.violation);
}

#[track_caller]
fn check_breaks(what: &str, expected: &str, rules: Rules) {
    let found = search(rules);
    let Some((violation, way)) = found.violation else {
        panic!("{what}: nothing found in {} states", found.states);
    };
    eprintln!("{what}: {violation}, {} steps", way.len());
    assert!(violation.contains(expected), "{what}: {violation} {way:#?}");
}

#[test]
fn one_fault_at_a_time_is_survived() {
    let faults = |freezes, kills| Rules {
        freezes,
        kills,
        ..WHOLE
    };
    check_holds("nothing goes wrong", faults(0, 0));
    check_holds("a freeze and a kill", faults(1, 1));
    check_holds("two freezes", faults(2, 0));
    check_holds("two kills", faults(0, 2));
    let no_renewal = Rules {
        renewals: 0,
        ..faults(1, 0)
    };
    check_holds("no renewal, a freeze", no_renewal);
}

#[test]
fn the_search_finds_what_a_missing_rule_lets_through() {
    let past = "past its deadline";
    let frozen = Rules { freezes: 1, ..WHOLE };
    let killed = Rules { kills: 1, ..WHOLE };
    check_breaks(
        "no kill by the watchdog, supervisor frozen",
        past,
        Rules {
            watchdog_kills: false,
            ..frozen
        },
    );
    check_breaks(
        "no kill by the supervisor, watchdog frozen",
        past,
        Rules {
            supervisor_kills: false,
            ..frozen
        },
    );
    check_breaks(
        "the watchdog does nothing, supervisor killed",
        past,
        Rules {
            watchdog_kills: false,
            ends_with_supervisor: false,
            ..killed
        },
    );
    check_breaks(
        "a zombie that is not kept",
        "stranger",
        Rules {
            keeps_zombie: false,
            ..WHOLE
        },
    );
    check_breaks(
        "orphans that go to the system",
        "stranger",
        Rules {
            adopts: false,
            ..killed
        },
    );
}
