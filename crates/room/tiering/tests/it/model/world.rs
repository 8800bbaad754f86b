//! One state of the world, and what must never be found in it.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::time::Duration;

use nagaya_tiering::cold::Version;
use nagaya_tiering::protocol::{Meta, Run, State, TagState, Token};
use nagaya_tiering::saver::TokenSighting;
use nagaya_tiering::timing::SafetyDelay;

use super::background::{EvictorRole, LoaderRole, SaverRole};
use super::scenario::{Budget, Guards, Scenario, Start};
use super::server::Server;

/// The present on every clock. Moments are kept as how far they lie before it, so that the same situation
/// a few ticks later is the same state.
pub(crate) const NOW: Duration = Duration::from_secs(8);
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wrong {
    /// A key of a resident tag, or a row of a tag that is not, differs from the last acknowledged write.
    Truth,
    /// A write ran on a tag that is not resident.
    Write,
    /// A server that may read by its lease would read a tag that is not resident.
    Read,
    /// An eviction removed a value that the cold tier lacks.
    Unsaved,
    /// An eviction left a key behind.
    Leak,
    /// A commit put an older value over a newer one.
    Older,
    /// A snapshot of a lost history entered the cold copy of a live residency.
    Late,
    /// A dirty tag is not in the index, so no saver will find it.
    Index,
    /// A live residency can never save again.
    Generation,
}

/// A value: which write made it, and how long it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    /// Writes are numbered in the order in which they ran; a delete is one, too.
    pub(crate) order: u8,
    pub(crate) life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Life {
    Absent,
    Lasting,
    /// Ticks left.
    Left(u8),
}

impl Cell {
    pub(crate) const NEVER: Cell = Cell {
        order: 0,
        life: Life::Absent,
    };

    /// Returns what a client sees.
    pub(crate) fn visible(self) -> Option<u8> {
        match self.life {
            Life::Absent | Life::Left(0) => None,
            Life::Lasting | Life::Left(_) => Some(self.order),
        }
    }

    pub(crate) fn tick(&mut self) {
        if let Life::Left(ticks) = &mut self.life {
            *ticks = ticks.saturating_sub(1);
        }
    }

    fn newer(self, other: Cell) -> Cell {
        if other.order > self.order { other } else { self }
    }
}

/// The hot node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) run: Run,
    pub(crate) cells: [Cell; 2],
    pub(crate) tag: TagState<u8>,
}

impl Node {
    /// Returns whether clients may be served.
    pub(crate) fn is_live(&self, guards: &Guards) -> bool {
        let loads = |meta: &Meta| matches!(meta.state, State::Loading(_));
        self.tag
            .meta
            .as_ref()
            .is_some_and(|meta| !self.is_suspect(meta, guards) && !loads(meta))
    }

    /// Returns whether the tag is of an earlier life. Without runs nobody can know.
    fn is_suspect(&self, meta: &Meta, guards: &Guards) -> bool {
        guards.run_everywhere && meta.run != self.run
    }
}

/// The cold tier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cold {
    pub(crate) row: Option<TagRow>,
    /// The stored value. An absent one keeps the number of the delete, which only the search knows.
    pub(crate) cells: [Cell; 2],
    pub(crate) tombstones: [bool; 2],
    /// The version of each key's row, for searches without the fence on the tag.
    pub(crate) fences: [Version; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TagRow {
    pub(crate) generation: u64,
    pub(crate) saved: Version,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) node: Node,
    /// The state that a failover goes to.
    pub(crate) replica: Option<Node>,
    pub(crate) cold: Cold,
    /// What clients must find: the last write that ran, or after a loss the newest that is left.
    pub(crate) truth: [Cell; 2],
    pub(crate) servers: Vec<Server>,
    pub(crate) savers: Vec<SaverRole>,
    pub(crate) evictors: Vec<EvictorRole>,
    pub(crate) loaders: Vec<LoaderRole>,
    pub(crate) budget: Budget,
    pub(crate) orders: u8,
    pub(crate) tokens: u8,
    /// The generations that a perfect clock has given, for searches without the claim.
    pub(crate) clock: u64,
    pub(crate) evictions: u8,
    pub(crate) wrong: Option<Wrong>,
}

impl World {
    pub(crate) fn new(scenario: &Scenario) -> World {
        let is_saved = !matches!(scenario.start, Start::New | Start::NewHot);
        let is_hot = !matches!(scenario.start, Start::Cold | Start::New);
        let first = if is_saved {
            Cell {
                order: 1,
                life: Life::Lasting,
            }
        } else {
            Cell::NEVER
        };
        let cells = [first, Cell::NEVER];
        let generation = u64::from(is_saved) + u64::from(is_hot);
        let meta = Meta {
            run: Run(1),
            generation,
            snap: 0,
            state: State::Hot,
            keep: false,
        };
        let saved = if is_saved {
            Version {
                generation: 1,
                snap: 1,
            }
        } else {
            Version::default()
        };
        let mut world = World {
            node: Node {
                run: Run(1),
                cells: if is_hot { cells } else { [Cell::NEVER; 2] },
                tag: TagState {
                    meta: is_hot.then_some(meta),
                    ..TagState::default()
                },
            },
            replica: None,
            cold: Cold {
                row: is_saved.then_some(TagRow { generation, saved }),
                cells,
                tombstones: [false; 2],
                fences: [saved, Version::default()],
            },
            truth: cells,
            servers: vec![Server::default(); scenario.servers],
            savers: vec![SaverRole::default(); scenario.savers],
            evictors: vec![EvictorRole::Idle; scenario.evictors],
            loaders: vec![LoaderRole::default(); scenario.loaders],
            budget: scenario.budget,
            orders: 1,
            tokens: 0,
            clock: generation,
            evictions: 0,
            wrong: None,
        };
        match scenario.start {
            Start::Noted => world.note_everywhere(scenario),
            Start::Marked => {
                world.node.tag.meta = Some(Meta {
                    state: State::Evicting(Token(1)),
                    ..meta
                })
            }
            Start::Cold | Start::Hot | Start::New | Start::NewHot => (),
        }
        world
    }

    /// Goes to where a write was saved by every saver in turn, long after it was done, and removed by none.
    fn note_everywhere(&mut self, scenario: &Scenario) {
        let token = Token(1);
        self.node.tag.dirty.insert(0, token);
        self.node.tag.in_index = true;
        let delay = SafetyDelay {
            since: NOW - TICK * u32::from(scenario.settle),
        };
        for saver in &mut self.savers {
            saver.sightings.seen.insert(0, TokenSighting { token, delay });
        }
        if let (Some(meta), Some(row)) = (&mut self.node.tag.meta, &mut self.cold.row) {
            meta.snap = scenario.savers as u64;
            row.saved = meta.version();
        }
    }

    pub(crate) fn draw_token(&mut self) -> Token {
        self.tokens += 1;
        // Tokens of counters, in searches without fresh ones, are small numbers.
        Token(100 + u128::from(self.tokens))
    }

    /// After a loss the truth is the newest that is left of each key.
    pub(crate) fn settle_for_what_is_left(&mut self) {
        for key in 0..2 {
            self.truth[key] = self.cold.cells[key].newer(self.node.cells[key]);
        }
    }

    /// Lets one tick pass.
    pub(crate) fn tick(&mut self, scenario: &Scenario, guards: &Guards) {
        for server in &mut self.servers {
            server.tick(scenario);
        }
        let mut delays: Vec<&mut SafetyDelay> = Vec::new();
        for saver in &mut self.savers {
            delays.extend(
                saver
                    .sightings
                    .seen
                    .values_mut()
                    .map(|sighting| &mut sighting.delay),
            );
        }
        for evictor in &mut self.evictors {
            delays.extend(evictor.delay_mut());
        }
        // A moment longer ago than the wait is as good as one just that long ago.
        let longest = TICK * u32::from(scenario.settle);
        for delay in delays {
            delay.since = (delay.since - TICK).max(NOW - longest);
        }
        let hot = self
            .node
            .cells
            .iter_mut()
            .chain(self.replica.iter_mut().flat_map(|node| &mut node.cells));
        hot.chain(&mut self.truth).for_each(Cell::tick);
        if guards.absolute_expiry {
            self.cold.cells.iter_mut().for_each(Cell::tick);
            let held = self.savers.iter_mut().flat_map(SaverRole::cells_mut);
            held.chain(self.loaders.iter_mut().flat_map(LoaderRole::cells_mut))
                .for_each(Cell::tick);
        }
    }

    /// Makes states alike that differ only in which of several like processes is which.
    pub(crate) fn put_in_order(&mut self) {
        fn sort<T: Hash>(roles: &mut [T]) {
            let hasher = BuildHasherDefault::<DefaultHasher>::default();
            if roles.len() > 1 {
                roles.sort_by_cached_key(|role| hasher.hash_one(role));
            }
        }
        sort(&mut self.servers);
        sort(&mut self.savers);
        sort(&mut self.evictors);
        sort(&mut self.loaders);
    }

    /// Looks for what no state may show.
    pub(crate) fn inspect(&mut self, scenario: &Scenario, guards: &Guards) {
        if self.wrong.is_none() {
            self.wrong = self.find_wrong(scenario, guards);
        }
    }

    fn find_wrong(&self, scenario: &Scenario, guards: &Guards) -> Option<Wrong> {
        let equals_truth =
            |cells: &[Cell; 2]| (0..2).all(|key| cells[key].visible() == self.truth[key].visible());
        let Some(meta) = &self.node.tag.meta else {
            let reads = self.servers.iter().any(|server| server.may_read(scenario));
            let truth = (!equals_truth(&self.cold.cells)).then_some(Wrong::Truth);
            return if reads { Some(Wrong::Read) } else { truth };
        };
        if self.node.is_suspect(meta, guards) {
            return None;
        }
        if let State::Loading(_) = meta.state {
            if self.servers.iter().any(|server| server.may_read(scenario)) {
                return Some(Wrong::Read);
            }
            let cold_is_truth = meta.keep || equals_truth(&self.cold.cells);
            return (!cold_is_truth).then_some(Wrong::Truth);
        }
        if !equals_truth(&self.node.cells) {
            return Some(Wrong::Truth);
        }
        let is_announced = self.servers.iter().any(Server::announces);
        if !self.node.tag.dirty.is_empty() && !self.node.tag.in_index && !is_announced {
            return Some(Wrong::Index);
        }
        let row_generation = self.cold.row.map_or(1, |row| row.generation);
        (guards.claim.is_in_the_row() && row_generation != meta.generation).then_some(Wrong::Generation)
    }
}
