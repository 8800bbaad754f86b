//! What can happen next, and the search through it.

use nagaya_tiering::protocol::Run;
use stateright::{Checker, HasDiscoveries, Model, Property};

use super::background::{EvictorRole, LoaderRole, SaverRole};
use super::scenario::{Guards, Operation, Scenario};
use super::world::{Cell, Node, World, Wrong};

const SOUND: &str = "nothing is wrong";
const EVICTED: &str = "a tag is evicted";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Touch(usize),
    Write(usize, u8, Operation),
    Script(usize, u8, Operation),
    Land(usize),
    TakeReply(usize),
    Cut(usize),
    Save(usize),
    CrashSaver(usize),
    Evict(usize),
    CrashEvictor(usize),
    Load(usize),
    CrashLoader(usize),
    Tick,
    Sync,
    Failover,
    Empty,
}

#[derive(Clone, Debug)]
pub(crate) struct Tiering {
    pub(crate) scenario: Scenario,
    pub(crate) guards: Guards,
    /// The only thing to look for, or nothing to look for all.
    pub(crate) sought: Option<Wrong>,
}

impl Tiering {
    fn server_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let (scenario, budget) = (&self.scenario, &world.budget);
        for (number, server) in world.servers.iter().enumerate() {
            if budget.touches > 0 && server.can_touch() {
                actions.push(Action::Touch(number));
            }
            if budget.writes > 0 && server.can_write(scenario) {
                for key in scenario.written {
                    let writes = scenario
                        .operations
                        .iter()
                        .map(|kind| Action::Write(number, *key, *kind));
                    actions.extend(writes);
                    let scripts = scenario.operations.iter().filter(|_| scenario.scripts);
                    actions.extend(scripts.map(|kind| Action::Script(number, *key, *kind)));
                }
            }
            if server.can_land() {
                actions.push(Action::Land(number));
            }
            if server.can_take_reply() {
                actions.push(Action::TakeReply(number));
            }
            if budget.cuts > 0 && !server.is_idle() {
                actions.push(Action::Cut(number));
            }
        }
    }

    fn background_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let crashes = self.scenario.crashes;
        for number in 0..world.savers.len() {
            if world.can_save(number, &self.guards) {
                actions.push(Action::Save(number));
            }
            if crashes && world.savers[number] != SaverRole::default() {
                actions.push(Action::CrashSaver(number));
            }
        }
        for number in 0..world.evictors.len() {
            if world.can_evict(number, &self.scenario, &self.guards) {
                actions.push(Action::Evict(number));
            }
            if crashes && world.evictors[number] != EvictorRole::Idle {
                actions.push(Action::CrashEvictor(number));
            }
        }
        for number in 0..world.loaders.len() {
            if world.can_load(number, &self.guards) {
                actions.push(Action::Load(number));
            }
            if crashes && world.loaders[number] != LoaderRole::default() {
                actions.push(Action::CrashLoader(number));
            }
        }
    }

    fn lose(&self, world: &mut World, node: Node) {
        let run = Run(world.node.run.0 + 1);
        world.node = Node { run, ..node };
        world
            .servers
            .iter_mut()
            .for_each(|server| server.cut(&self.guards));
        world.settle_for_what_is_left();
    }

    fn act(&self, world: &mut World, action: Action) {
        let Tiering { scenario, guards, .. } = self;
        match action {
            Action::Touch(number) => {
                world.budget.touches -= 1;
                world.servers[number].touch();
            }
            Action::Script(number, key, operation) => {
                world.budget.writes -= 1;
                world.servers[number].run_script(key, operation);
            }
            Action::Write(number, key, operation) => {
                world.budget.writes -= 1;
                world.servers[number].write(key, operation, guards);
            }
            Action::Land(number) => world.land(number, guards),
            Action::TakeReply(number) => world.servers[number].take_reply(scenario, guards),
            Action::Cut(number) => {
                world.budget.cuts -= 1;
                world.servers[number].cut(guards);
            }
            Action::Save(number) => world.save(number, scenario, guards),
            Action::CrashSaver(number) => world.savers[number] = SaverRole::default(),
            Action::Evict(number) => world.evict(number, guards),
            Action::CrashEvictor(number) => world.evictors[number] = EvictorRole::Idle,
            Action::Load(number) => world.load(number, scenario, guards),
            Action::CrashLoader(number) => world.loaders[number] = LoaderRole::default(),
            Action::Tick => world.tick(scenario, guards),
            Action::Sync => {
                world.budget.syncs -= 1;
                world.replica = Some(world.node.clone());
            }
            Action::Failover => {
                world.budget.failovers -= 1;
                let replica = world.replica.take().expect("a failover needs a replica");
                self.lose(world, replica);
            }
            Action::Empty => {
                world.budget.emptied -= 1;
                let node = Node {
                    run: world.node.run,
                    cells: [Cell::NEVER; 2],
                    tag: Default::default(),
                };
                self.lose(world, node);
            }
        }
    }
}

impl Model for Tiering {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.scenario)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.wrong.is_some() {
            return;
        }
        self.server_actions(world, actions);
        self.background_actions(world, actions);
        if world
            .servers
            .iter()
            .all(|server| server.lets_time_pass(&self.scenario))
        {
            actions.push(Action::Tick);
        }
        if world.budget.syncs > 0 {
            actions.push(Action::Sync);
        }
        if world.budget.failovers > 0 && world.replica.is_some() {
            actions.push(Action::Failover);
        }
        if world.budget.emptied > 0 {
            actions.push(Action::Empty);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.act(&mut next, action);
        let is_other = |wrong: &Wrong| self.sought.is_some_and(|sought| sought != *wrong);
        next.wrong = next.wrong.filter(|wrong| !is_other(wrong));
        next.inspect(&self.scenario, &self.guards);
        next.wrong = next.wrong.filter(|wrong| !is_other(wrong));
        next.put_in_order();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Tiering>> {
        vec![
            Property::always(SOUND, |_, world: &World| world.wrong.is_none()),
            Property::sometimes(EVICTED, |_, world: &World| world.evictions > 0),
        ]
    }
}

/// What a search found.
#[derive(Debug)]
pub(crate) struct Found {
    /// What is wrong, and the shortest way there.
    pub(crate) wrong: Option<(Wrong, Vec<Action>)>,
    pub(crate) can_evict: bool,
    pub(crate) states: usize,
}

/// Visits everything within the bounds, or up to the first thing that is wrong.
pub(crate) fn search(scenario: Scenario, guards: Guards, sought: Option<Wrong>) -> Found {
    let model = Tiering {
        scenario,
        guards,
        sought,
    };
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let path = checker.discovery(SOUND);
    let found = Found {
        wrong: path.map(|path| {
            let wrong = path
                .last_state()
                .wrong
                .expect("the path ends where something is wrong");
            (wrong, path.into_actions())
        }),
        can_evict: checker.discovery(EVICTED).is_some(),
        states: checker.unique_state_count(),
    };
    let steps = found.wrong.as_ref().map(|(wrong, way)| (wrong, way.len()));
    eprintln!("{} states, wrong after so many steps: {steps:?}", found.states);
    found
}
