//! Copies changed keys to the cold tier.
//!
//! A round lists the dirty tags that are due, makes sure that they have rows, takes
//! a snapshot of each, commits all of them together, and takes keys off the dirty
//! lists that are certainly saved. Certainly means: the token that the snapshot found was
//! seen D or longer before the snapshot, so every write that it announces was already
//! done. A key is therefore saved twice at least where leases exist: soon after it
//! changed, and once more after D. Where there are none (D is zero) once is enough.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::cold::{ColdTier, Committed};
use crate::error::TieringError;
use crate::hot::{DirtyTag, HotTier, SavedKeys, TagCopy};
use crate::protocol::Token;
use crate::timing::{RoundTrip, SafetyDelay, Timing};
use nagaya_clock::Sleep;

/// Rounds after which the sightings of a tag that is no longer dirty are dropped. Tags that turn dirty again soon
/// keep theirs.
const FORGET_AFTER_ROUNDS: u64 = 16;

/// When a saver first saw the tokens of one tag's keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenSightings<K> {
    pub seen: BTreeMap<K, TokenSighting>,
}

/// When a saver first saw a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenSighting {
    pub token: Token,
    pub delay: SafetyDelay,
}

impl<K> Default for TokenSightings<K> {
    fn default() -> TokenSightings<K> {
        TokenSightings {
            seen: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> TokenSightings<K> {
    /// Takes the tokens that a snapshot found; returns the keys that may leave the dirty list once that
    /// snapshot is committed. Sightings of other keys are dropped: those keys are clean.
    pub fn observe(&mut self, keys: &[(K, Token)], trip: RoundTrip, timing: Timing) -> Vec<(K, Token)> {
        let mut seen = BTreeMap::new();
        let mut saved_keys = Vec::new();
        for (key, token) in keys {
            let known = self.seen.get(key).filter(|sighting| sighting.token == *token);
            // Seen first when the reply came, not when it was sent for.
            let mut sighting = known.copied().unwrap_or(TokenSighting {
                token: *token,
                delay: SafetyDelay { since: trip.received },
            });
            sighting.delay.extend_after(trip, timing);
            if sighting.delay.is_over(trip.sent, timing) {
                saved_keys.push((key.clone(), *token));
            }
            seen.insert(key.clone(), sighting);
        }
        self.seen = seen;
        saved_keys
    }

    /// Begins every delay again after a slow round trip.
    fn extend(&mut self, trip: RoundTrip, timing: Timing) {
        for sighting in self.seen.values_mut() {
            sighting.delay.extend_after(trip, timing);
        }
    }
}

/// Settings of a saver.
#[derive(Clone, Copy, Debug)]
pub struct SaverConfig {
    /// How old an unsaved change may become.
    pub max_staleness: Duration,
    /// How many tags share one commit.
    pub batch_tags: usize,
}

impl Default for SaverConfig {
    fn default() -> SaverConfig {
        SaverConfig {
            max_staleness: Duration::from_secs(5),
            batch_tags: 256,
        }
    }
}

/// The result of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaveReport {
    /// Tags whose snapshot was committed.
    pub saved: u64,
    /// Tags whose snapshot the cold tier refused, because it has something newer or a later residency.
    pub refused: u64,
    /// Tags that could not be copied: no longer resident, or suspect.
    pub skipped: u64,
    /// Tags that became clean.
    pub cleaned: u64,
    /// Dirty tags that the round left for later because they are not due.
    pub waiting: u64,
    /// How long the change that waits longest has been dirty.
    pub oldest: Duration,
}

#[derive(Debug)]
struct TagSightings {
    sightings: TokenSightings<Vec<u8>>,
    copied_at: Duration,
    round: u64,
}

/// Saves tags on the calling thread. Several savers may run at once, in this process and in others; they only
/// repeat each other's work.
pub struct Saver {
    hot: Arc<dyn HotTier>,
    cold: Arc<dyn ColdTier>,
    clock: Arc<dyn Sleep>,
    config: SaverConfig,
    tags: HashMap<Vec<u8>, TagSightings>,
    round: u64,
}

impl Saver {
    pub fn new(
        hot: Arc<dyn HotTier>,
        cold: Arc<dyn ColdTier>,
        clock: Arc<dyn Sleep>,
        config: SaverConfig,
    ) -> Saver {
        Saver {
            hot,
            cold,
            clock,
            config,
            tags: HashMap::new(),
            round: 0,
        }
    }

    /// Saves every dirty tag that is due.
    pub fn round(&mut self) -> Result<SaveReport, TieringError> {
        self.save(false)
    }

    /// Saves every dirty tag, due or not, as before a shutdown.
    pub fn flush(&mut self) -> Result<SaveReport, TieringError> {
        self.save(true)
    }

    fn save(&mut self, even_early: bool) -> Result<SaveReport, TieringError> {
        self.round += 1;
        let mut report = SaveReport::default();
        let mut from = None;
        loop {
            let page = self.hot.dirty_tags(from, self.config.batch_tags)?;
            let now = self.clock.steady();
            let mut due = Vec::new();
            for dirty in page.tags {
                report.oldest = report.oldest.max(dirty.dirty_for);
                if even_early || self.is_due(&dirty, now) {
                    due.push(dirty.tag);
                } else {
                    report.waiting += 1;
                }
            }
            for batch in due.chunks(self.config.batch_tags.max(1)) {
                self.save_batch(batch, &mut report)?;
            }
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let round = self.round;
        self.tags
            .retain(|_, sightings| round - sightings.round < FORGET_AFTER_ROUNDS);
        Ok(report)
    }

    /// Returns whether a tag is due: once it has been dirty for long enough, and again when its tokens are old enough.
    fn is_due(&mut self, dirty: &DirtyTag, now: Duration) -> bool {
        let Some(known) = self.tags.get_mut(&dirty.tag) else {
            return dirty.dirty_for >= self.config.max_staleness;
        };
        known.round = self.round;
        let pause = self.config.max_staleness.max(self.hot.timing().settle);
        now.saturating_sub(known.copied_at) >= pause
    }

    fn save_batch(&mut self, tags: &[Vec<u8>], report: &mut SaveReport) -> Result<(), TieringError> {
        let names: Vec<&[u8]> = tags.iter().map(Vec::as_slice).collect();
        // Before the first snapshot: a snapshot of a tag without a row has nothing to be fenced by.
        self.make_rows(&names)?;
        // Old commands of a node that was stalled run before what is sent after this.
        let probe = self.timed(|saver| saver.hot.probe())?.1;
        let (copies, trip) = self.timed(|saver| saver.hot.snapshot(&names))?;

        let mut snapshots = Vec::new();
        let mut saved_keys = Vec::new();
        for (tag, copy) in tags.iter().zip(copies) {
            let Some(copy) = copy else {
                report.skipped += 1;
                continue;
            };
            saved_keys.push(self.observe(tag, &copy, probe, trip));
            snapshots.push(copy.snapshot);
        }
        let ends = self.cold.commit(&snapshots, self.clock.unix_ms())?;
        let mut removals = Vec::new();
        for (saved_keys, end) in saved_keys.into_iter().zip(ends) {
            match end {
                Committed::Refused => report.refused += 1,
                Committed::Saved => {
                    report.saved += 1;
                    removals.push(saved_keys);
                }
            }
        }
        removals.retain(|saved_keys| !saved_keys.keys.is_empty());
        if removals.is_empty() {
            return Ok(());
        }
        let cleaned = self.hot.remove(&removals)?;
        for (saved_keys, _) in removals.iter().zip(&cleaned).filter(|(_, is_clean)| **is_clean) {
            self.tags.remove(&saved_keys.tag);
            report.cleaned += 1;
        }
        Ok(())
    }

    fn make_rows(&self, tags: &[&[u8]]) -> Result<(), TieringError> {
        let generations = self.cold.generations(tags)?;
        let without = tags
            .iter()
            .zip(generations)
            .filter(|(_, generation)| generation.is_none());
        let without: Vec<&[u8]> = without.map(|(tag, _)| *tag).collect();
        if !without.is_empty() {
            self.cold.ensure(&without)?;
        }
        Ok(())
    }

    /// Records the tokens of a copy; returns what may be removed once it is committed.
    fn observe(&mut self, tag: &[u8], copy: &TagCopy, probe: RoundTrip, trip: RoundTrip) -> SavedKeys {
        let keys = copy.snapshot.changes.iter().map(|change| change.key.clone());
        let keys: Vec<_> = keys.zip(copy.tokens.iter().copied()).collect();
        let timing = self.hot.timing();
        let known = self.tags.entry(tag.to_vec()).or_insert_with(|| TagSightings {
            sightings: TokenSightings::default(),
            copied_at: trip.received,
            round: 0,
        });
        known.round = self.round;
        known.copied_at = trip.received;
        known.sightings.extend(probe, timing);
        SavedKeys {
            tag: tag.to_vec(),
            generation: copy.snapshot.version.generation,
            keys: known.sightings.observe(&keys, trip, timing),
        }
    }

    fn timed<T, E>(&self, call: impl FnOnce(&Saver) -> Result<T, E>) -> Result<(T, RoundTrip), E> {
        let sent = self.clock.steady();
        let answer = call(self)?;
        Ok((
            answer,
            RoundTrip {
                sent,
                received: self.clock.steady(),
            },
        ))
    }
}
