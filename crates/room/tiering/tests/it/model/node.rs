//! The hot node's steps: the crate's protocol functions, and how each guard is taken away.

use nagaya_tiering::hot::Installed;
use nagaya_tiering::protocol::{self, Install, LoadStart, Run, State, Taken, Token, Touched};

use super::background::Chunk;
use super::scenario::{ChunkToken, Guards};
use super::world::{Cell, Node};

impl Node {
    /// Returns the run that a script is given: that of its connection.
    fn run_for(&self, guards: &Guards) -> Run {
        match &self.tag.meta {
            Some(meta) if !guards.run_everywhere => meta.run,
            _ => self.run,
        }
    }

    fn run_for_saving(&self, guards: &Guards) -> Run {
        match &self.tag.meta {
            Some(meta) if !guards.same_tag_at_save => meta.run,
            _ => self.run_for(guards),
        }
    }

    fn state(&self) -> Option<State> {
        self.tag.meta.as_ref().map(|meta| meta.state)
    }

    pub(crate) fn touch(&mut self, guards: &Guards) -> Touched {
        let (run, before) = (self.run_for(guards), self.state());
        let touched = protocol::touch(&mut self.tag, run);
        if !guards.touch_cancels {
            self.restore(before);
        }
        touched
    }

    /// The part of a registration that concerns the dirty list; the index may come apart from it.
    pub(crate) fn register(&mut self, key: u8, fresh: Token, guards: &Guards) {
        let counted = Token(self.tag.dirty.get(&key).map_or(1, |token| token.0 + 1));
        let in_index = self.tag.in_index;
        protocol::register(
            &mut self.tag,
            key,
            if guards.fresh_tokens { fresh } else { counted },
        );
        self.tag.in_index = in_index;
    }

    pub(crate) fn begin(&mut self, token: Token, guards: &Guards) -> LoadStart {
        let run = self.run_for(guards);
        protocol::begin(&mut self.tag, run, token)
    }

    pub(crate) fn install(&mut self, token: Token, chunk: &Chunk, guards: &Guards) -> Installed {
        let run = self.run_for(guards);
        let ignores_token = match guards.chunk_token {
            ChunkToken::Every => false,
            ChunkToken::AllButTheLast => chunk.part.is_last,
            ChunkToken::None => true,
        };
        if let (true, Some(meta)) = (ignores_token, &mut self.tag.meta) {
            meta.state = State::Loading(token);
        }
        let mut part = chunk.part;
        if !guards.compare_with_saved {
            part.saved = Default::default();
        }
        match protocol::install(&mut self.tag, run, token, part) {
            Install::Lost => Installed::Lost,
            Install::Kept => Installed::Kept,
            Install::Put { unlink } => {
                unlink
                    .iter()
                    .for_each(|key| self.cells[usize::from(*key)] = Cell::NEVER);
                for (key, cell) in chunk.cells.iter().enumerate() {
                    if let Some(cell) = cell {
                        self.cells[key] = *cell;
                    }
                }
                Installed::Put
            }
        }
    }

    pub(crate) fn snapshot(&mut self, guards: &Guards) -> Option<Taken<u8>> {
        let (run, before) = (self.run_for_saving(guards), self.state());
        let is_disguised = self.disguise(guards);
        let taken = protocol::snapshot(&mut self.tag, run);
        if is_disguised || !guards.snapshot_cancels {
            self.restore(before);
        }
        taken
    }

    pub(crate) fn remove(&mut self, generation: u64, saved_keys: &[(u8, Token)], guards: &Guards) {
        let (run, before) = (self.run_for_saving(guards), self.state());
        let is_disguised = self.disguise(guards);
        let current = self.tag.meta.as_ref().map_or(generation, |meta| meta.generation);
        let generation = if guards.same_tag_at_save {
            generation
        } else {
            current
        };
        let mut saved_keys = saved_keys.to_vec();
        if !guards.token_at_removal {
            for (key, token) in &mut saved_keys {
                *token = self.tag.dirty.get(key).copied().unwrap_or(*token);
            }
        }
        protocol::remove(&mut self.tag, run, generation, &saved_keys);
        if is_disguised {
            self.restore(before);
        }
    }

    /// Lets a loading tag pass for a hot one.
    fn disguise(&mut self, guards: &Guards) -> bool {
        match &mut self.tag.meta {
            Some(meta) if !guards.same_tag_at_save && matches!(meta.state, State::Loading(_)) => {
                meta.state = State::Hot;
                true
            }
            _ => false,
        }
    }

    fn restore(&mut self, before: Option<State>) {
        if let (Some(meta), Some(state)) = (&mut self.tag.meta, before) {
            meta.state = state;
        }
    }

    pub(crate) fn mark(&mut self, token: Token, guards: &Guards) -> bool {
        if !guards.mark_takes_over && matches!(self.state(), Some(State::Evicting(_))) {
            return false;
        }
        let run = self.run_for(guards);
        protocol::mark(&mut self.tag, run, token)
    }

    pub(crate) fn confirm(&mut self, token: Token, guards: &Guards) -> bool {
        let run = self.run_for(guards);
        let token = match self.state() {
            Some(State::Evicting(current)) if !guards.token_at_confirm => current,
            _ => token,
        };
        if guards.clean_at_confirm {
            return protocol::confirm(&mut self.tag, run, token);
        }
        let dirty = std::mem::take(&mut self.tag.dirty);
        let is_gone = protocol::confirm(&mut self.tag, run, token);
        if !is_gone {
            self.tag.dirty = dirty;
        }
        is_gone
    }
}
