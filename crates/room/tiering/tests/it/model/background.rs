//! Savers, evictors and loaders. Any of them may pause for ever at any step.

use std::collections::VecDeque;
use std::time::Duration;

use nagaya_tiering::cold::Version;
use nagaya_tiering::loader::Load;
use nagaya_tiering::protocol::{Part, Run, Token};
use nagaya_tiering::saver::TokenSightings;
use nagaya_tiering::timing::{RoundTrip, SafetyDelay, Timing};

use super::scenario::{Claim, Fence, Guards, Scenario};
use super::world::{Cell, Life, NOW, TICK, TagRow, World, Wrong};

/// What a saver holds between its snapshot and its removal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    version: Version,
    cells: [Option<Cell>; 2],
    saved_keys: Vec<(u8, Token)>,
    /// The run of the node in which it was taken, which only the search knows.
    run: Run,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Saving {
    #[default]
    Idle,
    Taken(Held),
    Committed(Held),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SaverRole {
    pub(crate) step: Saving,
    pub(crate) sightings: TokenSightings<u8>,
}

impl SaverRole {
    pub(crate) fn cells_mut(&mut self) -> impl Iterator<Item = &mut Cell> {
        let held = match &mut self.step {
            Saving::Idle => None,
            Saving::Taken(held) | Saving::Committed(held) => Some(held),
        };
        held.into_iter().flat_map(|held| held.cells.iter_mut().flatten())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EvictorRole {
    Idle,
    /// Read the list before the mark, in searches that allow it.
    Listed {
        names: [bool; 2],
    },
    Marked {
        token: Token,
        names: Option<[bool; 2]>,
        delay: SafetyDelay,
    },
}

impl EvictorRole {
    pub(crate) fn delay_mut(&mut self) -> Option<&mut SafetyDelay> {
        match self {
            EvictorRole::Marked { delay, .. } => Some(delay),
            EvictorRole::Idle | EvictorRole::Listed { .. } => None,
        }
    }
}

/// What a load installs at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Chunk {
    pub(crate) part: Part,
    /// Rows, and tombstones as absent cells; nothing for a key that the chunk does not name.
    pub(crate) cells: [Option<Cell>; 2],
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LoaderRole {
    pub(crate) load: Load<Chunk>,
    /// Rows from before the begin, in searches that use those.
    early: Option<(Version, [Option<Cell>; 2])>,
}

impl LoaderRole {
    pub(crate) fn cells_mut(&mut self) -> impl Iterator<Item = &mut Cell> {
        let chunks = match &mut self.load {
            Load::Install { chunks, .. } => Some(chunks),
            _ => None,
        };
        let early = self
            .early
            .iter_mut()
            .flat_map(|(_, cells)| cells.iter_mut().flatten());
        let chunked = chunks
            .into_iter()
            .flatten()
            .flat_map(|chunk| chunk.cells.iter_mut().flatten());
        early.chain(chunked)
    }
}

fn timing(settle: u8, short: u8) -> Timing {
    let settle = TICK * u32::from(settle.saturating_sub(short));
    Timing {
        settle,
        allowance: Duration::MAX,
    }
}

impl World {
    pub(crate) fn can_save(&self, saver: usize, guards: &Guards) -> bool {
        match self.savers[saver].step {
            Saving::Idle => {
                let needs_row = guards.row_before_snapshot && self.cold.row.is_none();
                self.node.tag.in_index && (needs_row || self.budget.snapshots > 0)
            }
            Saving::Taken(_) | Saving::Committed(_) => true,
        }
    }

    /// Makes one step of a saver.
    pub(crate) fn save(&mut self, saver: usize, scenario: &Scenario, guards: &Guards) {
        match std::mem::take(&mut self.savers[saver].step) {
            Saving::Idle if guards.row_before_snapshot && self.cold.row.is_none() => {
                self.cold.row = Some(TagRow {
                    generation: 1,
                    saved: Version::default(),
                });
            }
            Saving::Idle => self.snapshot(saver, scenario, guards),
            Saving::Taken(held) => {
                if self.commit(&held, guards) {
                    self.savers[saver].step = Saving::Committed(held);
                }
            }
            Saving::Committed(held) => self
                .node
                .remove(held.version.generation, &held.saved_keys, guards),
        }
    }

    fn snapshot(&mut self, saver: usize, scenario: &Scenario, guards: &Guards) {
        self.budget.snapshots -= 1;
        let Some(taken) = self.node.snapshot(guards) else {
            return;
        };
        let mut cells = [None; 2];
        for (key, _) in &taken.keys {
            cells[usize::from(*key)] = Some(self.node.cells[usize::from(*key)]);
        }
        let trip = RoundTrip {
            sent: NOW,
            received: NOW,
        };
        let timing = timing(scenario.settle, guards.saver_wait_short);
        let role = &mut self.savers[saver];
        let saved_keys = role.sightings.observe(&taken.keys, trip, timing);
        let held = Held {
            version: taken.version,
            cells,
            saved_keys,
            run: self.node.run,
        };
        role.step = Saving::Taken(held);
    }

    /// Commits a snapshot; returns whether it entered.
    fn commit(&mut self, held: &Held, guards: &Guards) -> bool {
        let generation = held.version.generation;
        let row = match self.cold.row {
            Some(row) => row,
            None if guards.row_before_snapshot => return false,
            None => TagRow {
                generation,
                saved: Version::default(),
            },
        };
        let is_newer = guards.fence == Fence::Row || held.version > row.saved;
        let is_current =
            !guards.claim.is_in_the_row() || guards.fence == Fence::Row || generation == row.generation;
        if !is_newer || !is_current {
            return false;
        }
        for (key, cell) in held.cells.iter().enumerate() {
            if let Some(cell) = cell {
                self.put_row(key, *cell, held.version, guards);
            }
        }
        self.cold.row = Some(TagRow {
            saved: held.version.max(row.saved),
            ..row
        });
        let is_live = self.node.is_live(guards);
        if is_live && held.run != self.node.run {
            self.wrong = Some(Wrong::Late);
        }
        if !is_live && self.wrong.is_none() {
            // Part of a lost history was saved after all.
            self.settle_for_what_is_left();
        }
        true
    }

    fn put_row(&mut self, key: usize, cell: Cell, version: Version, guards: &Guards) {
        let is_fenced_off = guards.fence == Fence::Row && version <= self.cold.fences[key];
        if is_fenced_off {
            return;
        }
        if cell.order < self.cold.cells[key].order {
            self.wrong = Some(Wrong::Older);
        }
        let is_gone = cell.life == Life::Absent;
        self.cold.cells[key] = cell;
        self.cold.tombstones[key] = is_gone && guards.tombstones;
        // With the row goes its version.
        self.cold.fences[key] = if is_gone && !guards.tombstones {
            Version::default()
        } else {
            version
        };
    }

    pub(crate) fn can_evict(&self, evictor: usize, scenario: &Scenario, guards: &Guards) -> bool {
        match &self.evictors[evictor] {
            EvictorRole::Idle => self.budget.marks > 0 && self.node.tag.meta.is_some(),
            EvictorRole::Listed { .. } | EvictorRole::Marked { names: None, .. } => true,
            EvictorRole::Marked { delay, .. } => {
                delay.is_over(NOW, timing(scenario.settle, guards.evictor_wait_short))
            }
        }
    }

    /// Makes one step of an evictor.
    pub(crate) fn evict(&mut self, evictor: usize, guards: &Guards) {
        let names = self.cold.cells.map(|cell| cell.life != Life::Absent);
        let role = std::mem::replace(&mut self.evictors[evictor], EvictorRole::Idle);
        self.evictors[evictor] = match role {
            EvictorRole::Idle if !guards.list_after_mark => {
                self.budget.marks -= 1;
                EvictorRole::Listed { names }
            }
            EvictorRole::Idle => {
                self.budget.marks -= 1;
                self.mark(None, guards)
            }
            EvictorRole::Listed { names } => self.mark(Some(names), guards),
            EvictorRole::Marked {
                token,
                names: None,
                delay,
            } => EvictorRole::Marked {
                token,
                names: Some(names),
                delay,
            },
            EvictorRole::Marked {
                token,
                names: Some(names),
                ..
            } => {
                self.confirm(token, names, guards);
                EvictorRole::Idle
            }
        };
    }

    fn mark(&mut self, names: Option<[bool; 2]>, guards: &Guards) -> EvictorRole {
        let token = self.draw_token();
        if !self.node.mark(token, guards) {
            return EvictorRole::Idle;
        }
        EvictorRole::Marked {
            token,
            names,
            delay: SafetyDelay { since: NOW },
        }
    }

    fn confirm(&mut self, token: Token, names: [bool; 2], guards: &Guards) {
        if !self.node.confirm(token, guards) {
            return;
        }
        self.evictions += 1;
        for (key, is_named) in names.into_iter().enumerate() {
            if self.node.cells[key].visible() != self.cold.cells[key].visible() {
                self.wrong = Some(Wrong::Unsaved);
            }
            if is_named {
                self.node.cells[key] = Cell::NEVER;
            }
        }
        let is_left = self.node.cells.iter().any(|cell| cell.visible().is_some());
        if is_left && self.wrong.is_none() {
            self.wrong = Some(Wrong::Leak);
        }
        self.node.cells = [Cell::NEVER; 2];
    }

    pub(crate) fn can_load(&self, loader: usize, guards: &Guards) -> bool {
        match &self.loaders[loader].load {
            Load::ReadBase => self.budget.loads > 0 && !self.node.is_live(guards),
            _ => true,
        }
    }

    /// Makes one step of a loader.
    pub(crate) fn load(&mut self, loader: usize, scenario: &Scenario, guards: &Guards) {
        let mut role = std::mem::take(&mut self.loaders[loader]);
        match &role.load {
            Load::ReadBase => {
                self.budget.loads -= 1;
                if guards.claim == Claim::NoneAndRowsBeforeBegin {
                    role.early = Some(self.read_rows());
                }
                role.load.base_read(self.cold.row.map(|row| row.generation));
            }
            Load::Begin { .. } => {
                let token = self.draw_token();
                role.load.begun(token, self.node.begin(token, guards));
            }
            Load::Claim { base, .. } => {
                let chunks = self.claim(*base, role.early.take(), scenario, guards);
                role.load.claimed(chunks);
            }
            Load::Install { token, chunks } => {
                let installed = self.node.install(*token, &chunks[0], guards);
                role.load.installed(installed);
            }
            Load::Over(_) => unreachable!("an ended load begins anew at once"),
        }
        if let Load::Over(_) = role.load {
            role = LoaderRole::default();
        }
        self.loaders[loader] = role;
    }

    /// Returns the last saved version, and each row and tombstone.
    fn read_rows(&self) -> (Version, [Option<Cell>; 2]) {
        let saved = self.cold.row.map_or(Version::default(), |row| row.saved);
        let named = |key: usize| {
            let cell = self.cold.cells[key];
            (cell.life != Life::Absent || self.cold.tombstones[key]).then_some(cell)
        };
        (saved, [named(0), named(1)])
    }

    fn claim(
        &mut self,
        base: Option<u64>,
        early: Option<(Version, [Option<Cell>; 2])>,
        scenario: &Scenario,
        guards: &Guards,
    ) -> Option<VecDeque<Chunk>> {
        let current = self.cold.row.map(|row| row.generation);
        if guards.claim == Claim::FromBase && current != base {
            return None;
        }
        let (saved, cells) = early.unwrap_or_else(|| self.read_rows());
        let mut generation = current.map_or(1, |generation| generation + 1);
        if !guards.claim.is_in_the_row() {
            self.clock += 1;
            generation = self.clock;
        } else if let Some(row) = &mut self.cold.row {
            row.generation = generation;
        }
        let part = Part {
            generation,
            saved,
            is_last: true,
        };
        if !scenario.chunked {
            return Some(VecDeque::from([Chunk { part, cells }]));
        }
        let first = Chunk {
            part: Part {
                is_last: false,
                ..part
            },
            cells: [cells[0], None],
        };
        Some(VecDeque::from([
            first,
            Chunk {
                part,
                cells: [None, cells[1]],
            },
        ]))
    }
}
