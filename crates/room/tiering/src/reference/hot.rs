//! A hot tier in plain maps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::cold::{Change, Snapshot, StoredValue};
use crate::error::HotError;
use crate::hot::{Chunk, DirtyPage, DirtyTag, HotTier, Installed, SavedKeys, TagCopy};
use crate::protocol::{self, Install, LoadStart, Run, TagState, Token, Tokens, Touched};
use crate::tag::tag_of;
use crate::timing::Timing;
use nagaya_clock::Sleep;

/// A hot tier that runs [`crate::protocol`] as it is written. Its clients write without leases of their own:
/// every write touches and registers under one lock.
pub struct MemoryHot {
    clock: Arc<dyn Sleep>,
    timing: Timing,
    tokens: Tokens,
    node: Mutex<Node>,
}

struct Node {
    run: Run,
    tags: BTreeMap<Vec<u8>, Tag>,
}

#[derive(Clone, Default)]
struct Tag {
    state: TagState<Vec<u8>>,
    keys: BTreeMap<Vec<u8>, StoredValue>,
    dirty_since: Duration,
    used_at: Duration,
}

impl MemoryHot {
    pub fn new(clock: Arc<dyn Sleep>, timing: Timing) -> MemoryHot {
        let node = Mutex::new(Node {
            run: Run(1),
            tags: BTreeMap::new(),
        });
        MemoryHot {
            clock,
            timing,
            tokens: Tokens::default(),
            node,
        }
    }

    /// Sets or deletes a key, when its tag is hot; returns what the touch gave.
    pub fn write(&self, key: &[u8], value: Option<StoredValue>) -> Touched {
        let mut node = self.node();
        let (run, now) = (node.run, self.clock.steady());
        let tag = node.tags.entry(tag_of(key).to_vec()).or_default();
        let touched = protocol::touch(&mut tag.state, run);
        if touched == Touched::Granted {
            if tag.state.dirty.is_empty() {
                tag.dirty_since = now;
            }
            tag.used_at = now;
            protocol::register(&mut tag.state, key.to_vec(), self.tokens.draw());
            match value {
                Some(value) => tag.keys.insert(key.to_vec(), value),
                None => tag.keys.remove(key),
            };
        }
        touched
    }

    /// Returns what memory holds under a key, resident or not.
    pub fn peek(&self, key: &[u8]) -> Option<StoredValue> {
        self.node().tags.get(tag_of(key))?.keys.get(key).cloned()
    }

    /// Returns how many keys memory holds.
    pub fn keys(&self) -> usize {
        self.node().tags.values().map(|tag| tag.keys.len()).sum()
    }

    /// Begins a new run of the node, as a restart or promotion that lost nothing.
    pub fn begin_new_life(&self) {
        self.node().run.0 += 1;
    }

    /// Forgets everything, as a node without a copy on disk.
    pub fn lose_everything(&self) {
        let mut node = self.node();
        node.run.0 += 1;
        node.tags.clear();
    }

    fn node(&self) -> MutexGuard<'_, Node> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tag {
    fn copy(&mut self, tag: &[u8], run: Run) -> Option<TagCopy> {
        let taken = protocol::snapshot(&mut self.state, run)?;
        let (names, tokens): (Vec<_>, Vec<_>) = taken.keys.into_iter().unzip();
        let change = |key: Vec<u8>| Change {
            value: self.keys.get(&key).cloned(),
            key,
        };
        let snapshot = Snapshot {
            tag: tag.to_vec(),
            version: taken.version,
            changes: names.into_iter().map(change).collect(),
            read_at_ms: None,
            written_at_ms: None,
        };
        Some(TagCopy { snapshot, tokens })
    }

    fn install(&mut self, run: Run, token: Token, chunk: &Chunk) -> Installed {
        match protocol::install(&mut self.state, run, token, chunk.part) {
            Install::Lost => Installed::Lost,
            Install::Kept => Installed::Kept,
            Install::Put { unlink } => {
                for name in unlink.iter().chain(&chunk.tombstones) {
                    self.keys.remove(name);
                }
                for row in &chunk.rows {
                    self.keys.insert(row.key.clone(), row.value.clone());
                }
                Installed::Put
            }
        }
    }
}

impl HotTier for MemoryHot {
    fn timing(&self) -> Timing {
        self.timing
    }

    fn touch(&self, tags: &[&[u8]]) -> Result<Vec<Touched>, HotError> {
        let mut node = self.node();
        let (run, now) = (node.run, self.clock.steady());
        let touch = |tag: &&[u8]| {
            let Some(tag) = node.tags.get_mut(*tag) else {
                return Touched::Cold;
            };
            tag.used_at = now;
            protocol::touch(&mut tag.state, run)
        };
        Ok(tags.iter().map(touch).collect())
    }

    fn begin(&self, tag: &[u8], token: Token) -> Result<LoadStart, HotError> {
        let mut node = self.node();
        let (run, now) = (node.run, self.clock.steady());
        let tag = node.tags.entry(tag.to_vec()).or_default();
        tag.used_at = now;
        Ok(protocol::begin(&mut tag.state, run, token))
    }

    fn install(&self, tag: &[u8], token: Token, chunk: &Chunk) -> Result<Installed, HotError> {
        let mut node = self.node();
        let run = node.run;
        let tag = node.tags.get_mut(tag);
        Ok(tag.map_or(Installed::Lost, |tag| tag.install(run, token, chunk)))
    }

    fn dirty_tags(&self, from: Option<u64>, limit: usize) -> Result<DirtyPage, HotError> {
        let (node, now) = (self.node(), self.clock.steady());
        let start = usize::try_from(from.unwrap_or(0)).unwrap_or(usize::MAX);
        // Places are counted over all tags, so that a tag that is saved meanwhile moves no other.
        let page = node.tags.iter().skip(start).take(limit);
        let dirty = page
            .filter(|(_, tag)| tag.state.in_index)
            .map(|(name, tag)| DirtyTag {
                tag: name.clone(),
                dirty_for: now.saturating_sub(tag.dirty_since),
            });
        let next = start.saturating_add(limit.max(1));
        Ok(DirtyPage {
            tags: dirty.collect(),
            next: (next < node.tags.len()).then_some(next as u64),
        })
    }

    fn snapshot(&self, tags: &[&[u8]]) -> Result<Vec<Option<TagCopy>>, HotError> {
        let mut node = self.node();
        let run = node.run;
        Ok(tags
            .iter()
            .map(|tag| node.tags.get_mut(*tag)?.copy(tag, run))
            .collect())
    }

    fn remove(&self, saved_keys: &[SavedKeys]) -> Result<Vec<bool>, HotError> {
        let mut node = self.node();
        let run = node.run;
        let remove = |saved_keys: &SavedKeys| {
            node.tags.get_mut(&saved_keys.tag).is_some_and(|tag| {
                protocol::remove(&mut tag.state, run, saved_keys.generation, &saved_keys.keys)
            })
        };
        Ok(saved_keys.iter().map(remove).collect())
    }

    fn mark(&self, tags: &[&[u8]], token: Token) -> Result<Vec<bool>, HotError> {
        let mut node = self.node();
        let run = node.run;
        let mark = |tag: &&[u8]| {
            node.tags
                .get_mut(*tag)
                .is_some_and(|tag| protocol::mark(&mut tag.state, run, token))
        };
        Ok(tags.iter().map(mark).collect())
    }

    fn confirm(&self, tag: &[u8], token: Token, names: &[Vec<u8>]) -> Result<bool, HotError> {
        let mut node = self.node();
        let run = node.run;
        let Some(found) = node.tags.get_mut(tag) else {
            return Ok(false);
        };
        if !protocol::confirm(&mut found.state, run, token) {
            return Ok(false);
        }
        for name in names {
            found.keys.remove(name);
        }
        if found.keys.is_empty() {
            node.tags.remove(tag);
        }
        Ok(true)
    }

    fn probe(&self) -> Result<(), HotError> {
        Ok(())
    }

    fn coldest(&self, limit: usize, idle: Duration) -> Result<Vec<Vec<u8>>, HotError> {
        let (node, now) = (self.node(), self.clock.steady());
        let is_idle = |tag: &Tag| tag.state.meta.is_some() && now.saturating_sub(tag.used_at) >= idle;
        let mut idle: Vec<_> = node.tags.iter().filter(|(_, tag)| is_idle(tag)).collect();
        idle.sort_by_key(|(_, tag)| tag.used_at);
        Ok(idle
            .into_iter()
            .take(limit)
            .map(|(name, _)| name.clone())
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use nagaya_clock::ManualClock;

    use super::*;
    use crate::cold::Kind;

    use crate::suite::hot::HotBench;

    impl HotBench for MemoryHot {
        fn tier(&self) -> &dyn HotTier {
            self
        }

        fn set(&self, key: &[u8], payload: &[u8]) {
            let value = StoredValue {
                kind: Kind::String,
                payload: payload.to_vec(),
                expires_at_ms: None,
            };
            assert_eq!(self.write(key, Some(value)), Touched::Granted);
        }

        fn delete(&self, key: &[u8]) {
            assert_eq!(self.write(key, None), Touched::Granted);
        }

        fn peek(&self, key: &[u8]) -> Option<Vec<u8>> {
            MemoryHot::peek(self, key).map(|value| value.payload)
        }

        fn begin_new_life(&self) -> bool {
            MemoryHot::begin_new_life(self);
            true
        }
    }

    fn with_memory(case: fn(&dyn HotBench)) {
        case(&MemoryHot::new(
            Arc::new(ManualClock::default()),
            Timing::default(),
        ));
    }

    crate::hot_suite!(with_memory);
}
