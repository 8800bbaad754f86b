//! Copies changed keys to the cold tier.
//!
//! A round lists the dirty tags that are due, makes sure that they have rows, takes
//! a snapshot of each, commits all of them together, and takes keys off the dirty
//! lists that are certainly saved. Certainly means: the token that the snapshot found was
//! seen D or longer before the snapshot, so every write that it announces was already
//! done. A key is therefore saved twice at least where leases exist: soon after it
//! changed, and once more after D. Where there are none (D is zero) once is enough.
//!
//! A tag is due at half of the staleness that is allowed, so that the other half is left for the way. A new row
//! may have to be known to all processes before the first snapshot is taken under it: nobody waits for that,
//! the tag is left for a later round and others pass it. While a tag stays dirty, nobody can tell whether it was
//! written again, so it is copied again before its copy grows too old, and once its tokens are old enough.

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
/// The part of the allowed staleness after which a tag that stays dirty is copied again. The rest is for the way
/// from the listing to the commit.
const AGAIN_AFTER: (u32, u32) = (3, 4);

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
            batch_tags: 512,
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
    /// How long the oldest change waits that is in no committed copy.
    pub oldest: Duration,
    /// How long until a tag that was left can be copied, whose row is too new.
    pub ripe_in: Option<Duration>,
}

/// What a saver knows of a dirty tag. There is a row for it.
#[derive(Debug)]
struct TagSightings {
    sightings: TokenSightings<Vec<u8>>,
    /// No snapshot is taken before.
    ripe_at: Duration,
    /// When the last snapshot was sent for, if there was one.
    copied_at: Option<Duration>,
    /// The same, of the last one that was committed.
    saved_at: Option<Duration>,
    round: u64,
}

impl TagSightings {
    /// Returns when the tag is to be copied again: before the copy is too old, and when every token can have
    /// settled.
    fn due_at(&self, max_staleness: Duration, timing: Timing) -> Duration {
        let Some(copied_at) = self.copied_at else {
            return self.ripe_at;
        };
        let again_at = copied_at + max_staleness * AGAIN_AFTER.0 / AGAIN_AFTER.1;
        let youngest = self
            .sightings
            .seen
            .values()
            .map(|sighting| sighting.delay.since)
            .max();
        let settled_at = youngest.unwrap_or(copied_at) + timing.settle;
        again_at.min(settled_at).max(self.ripe_at)
    }
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

    /// Saves every dirty tag, due or not, as before a shutdown. Waits for rows that are too new.
    pub fn flush(&mut self) -> Result<SaveReport, TieringError> {
        let mut report = self.save(true)?;
        if let Some(wait) = report.ripe_in {
            self.clock.sleep(wait);
            let rest = self.save(true)?;
            report = SaveReport {
                saved: report.saved + rest.saved,
                refused: report.refused + rest.refused,
                cleaned: report.cleaned + rest.cleaned,
                ..rest
            };
        }
        Ok(report)
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
                report.oldest = report.oldest.max(self.unsaved_for(&dirty, now));
                let is_due = self.is_due(&dirty, now);
                if even_early || is_due {
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

    /// Returns whether a tag is due: once it has been dirty for long enough, and again as long as it is dirty.
    fn is_due(&mut self, dirty: &DirtyTag, now: Duration) -> bool {
        let Some(known) = self.tags.get_mut(&dirty.tag) else {
            return dirty.dirty_for >= self.config.max_staleness / 2;
        };
        known.round = self.round;
        now >= known.due_at(self.config.max_staleness, self.hot.timing())
    }

    /// Returns how long a change may have waited that no committed copy has.
    fn unsaved_for(&self, dirty: &DirtyTag, now: Duration) -> Duration {
        let saved_at = self.tags.get(&dirty.tag).and_then(|known| known.saved_at);
        saved_at.map_or(dirty.dirty_for, |saved_at| {
            now.saturating_sub(saved_at).min(dirty.dirty_for)
        })
    }

    fn save_batch(&mut self, tags: &[Vec<u8>], report: &mut SaveReport) -> Result<(), TieringError> {
        // Before the first snapshot: a snapshot of a tag without a row has nothing to be fenced by.
        self.make_rows(tags)?;
        let tags = self.ripe_of(tags, report);
        if tags.is_empty() {
            return Ok(());
        }
        let names: Vec<&[u8]> = tags.iter().map(|tag| tag.as_slice()).collect();
        // Old commands of a node that was stalled run before what is sent after this.
        let probe = self.timed(|saver| saver.hot.probe())?.1;
        let (copies, trip) = self.timed(|saver| saver.hot.snapshot(&names))?;

        let mut snapshots = Vec::new();
        let mut saved_keys = Vec::new();
        for (tag, copy) in tags.into_iter().zip(copies) {
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
                Committed::Refused => {
                    report.refused += 1;
                    // Its row may be gone.
                    self.tags.remove(&saved_keys.tag);
                }
                Committed::Saved => {
                    report.saved += 1;
                    if let Some(known) = self.tags.get_mut(&saved_keys.tag) {
                        known.saved_at = known.copied_at;
                    }
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

    /// Makes sure that tags have rows, and notes from when on they may be copied.
    fn make_rows(&mut self, tags: &[Vec<u8>]) -> Result<(), TieringError> {
        let unknown = tags.iter().filter(|tag| !self.tags.contains_key(*tag));
        let unknown: Vec<&[u8]> = unknown.map(Vec::as_slice).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let wait = self.cold.make_rows(&unknown)?;
        let ripe_at = self.clock.steady() + wait;
        for tag in unknown {
            let known = TagSightings {
                sightings: TokenSightings::default(),
                ripe_at,
                copied_at: None,
                saved_at: None,
                round: self.round,
            };
            self.tags.insert(tag.to_vec(), known);
        }
        Ok(())
    }

    /// Returns those of the tags that may be copied now.
    fn ripe_of<'t>(&self, tags: &'t [Vec<u8>], report: &mut SaveReport) -> Vec<&'t Vec<u8>> {
        let now = self.clock.steady();
        let mut ripe = Vec::with_capacity(tags.len());
        for tag in tags {
            match self.tags.get(tag).map(|known| known.ripe_at) {
                Some(ripe_at) if ripe_at > now => {
                    let wait = ripe_at - now;
                    report.waiting += 1;
                    report.ripe_in = Some(report.ripe_in.map_or(wait, |other| other.max(wait)));
                }
                _ => ripe.push(tag),
            }
        }
        ripe
    }

    /// Records the tokens of a copy; returns what may be removed once it is committed.
    fn observe(&mut self, tag: &[u8], copy: &TagCopy, probe: RoundTrip, trip: RoundTrip) -> SavedKeys {
        let keys = copy.snapshot.changes.iter().map(|change| change.key.clone());
        let keys: Vec<_> = keys.zip(copy.tokens.iter().copied()).collect();
        let timing = self.hot.timing();
        let known = self.tags.entry(tag.to_vec()).or_insert_with(|| TagSightings {
            sightings: TokenSightings::default(),
            ripe_at: Duration::ZERO,
            copied_at: None,
            saved_at: None,
            round: 0,
        });
        known.round = self.round;
        known.copied_at = Some(trip.sent);
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
