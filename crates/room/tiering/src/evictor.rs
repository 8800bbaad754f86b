//! Takes tags out of memory that were not used for long.
//!
//! A round marks candidates that have nothing dirty, reads the names of their keys
//! from the cold tier, waits D once for all of them, and confirms each that is still
//! marked and still clean. Any touch and any snapshot in between calls a tag's
//! eviction off, so the choice of candidates may be arbitrarily wrong.

use std::sync::Arc;
use std::time::Duration;

use crate::cold::{ColdTier, Status};
use crate::error::TieringError;
use crate::hot::HotTier;
use crate::protocol::{Token, Tokens};
use crate::timing::{RoundTrip, SafetyDelay};
use nagaya_clock::Sleep;

/// How many names are read from the cold tier at a time.
const PAGE_NAMES: usize = 1000;

/// The result of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictReport {
    /// Tags that were clean and were marked.
    pub marked: u64,
    /// Tags that are gone from memory.
    pub evicted: u64,
    /// Tags that were used, changed or taken over by another evictor in between.
    pub called_off: u64,
    /// How often the delay began again because the hot tier was slow.
    pub delays: u64,
}

/// Evicts tags on the calling thread.
pub struct Evictor {
    hot: Arc<dyn HotTier>,
    cold: Arc<dyn ColdTier>,
    clock: Arc<dyn Sleep>,
    tokens: Tokens,
}

/// A marked tag with the names that its eviction removes.
struct Marked {
    tag: Vec<u8>,
    names: Vec<Vec<u8>>,
}

impl Evictor {
    pub fn new(hot: Arc<dyn HotTier>, cold: Arc<dyn ColdTier>, clock: Arc<dyn Sleep>) -> Evictor {
        Evictor {
            hot,
            cold,
            clock,
            tokens: Tokens::default(),
        }
    }

    /// Evicts up to `limit` of the tags that were not used for `idle`.
    pub fn round(&self, limit: usize, idle: Duration) -> Result<EvictReport, TieringError> {
        let candidates = self.hot.coldest(limit, idle)?;
        let tags: Vec<&[u8]> = candidates.iter().map(Vec::as_slice).collect();
        self.evict(&tags)
    }

    /// Evicts those of the tags that are clean and stay unused meanwhile.
    pub fn evict(&self, tags: &[&[u8]]) -> Result<EvictReport, TieringError> {
        let mut report = EvictReport::default();
        if tags.is_empty() {
            return Ok(report);
        }
        let token = self.tokens.draw();
        let is_marked = self.hot.mark(tags, token)?;
        let mut delay = SafetyDelay {
            since: self.clock.steady(),
        };
        let mut marked = Vec::new();
        for (tag, _) in tags.iter().zip(is_marked).filter(|(_, is_marked)| *is_marked) {
            // After the mark: a key that is made later is dirty, and its snapshot calls the eviction off.
            marked.push(Marked {
                tag: tag.to_vec(),
                names: self.names(tag)?,
            });
        }
        report.marked = marked.len() as u64;
        if !marked.is_empty() {
            self.settle(&mut delay, &mut report)?;
            self.confirm(&marked, token, &mut report)?;
        }
        Ok(report)
    }

    /// Returns when the delay is over and the last probe of the hot tier was fast.
    fn settle(&self, delay: &mut SafetyDelay, report: &mut EvictReport) -> Result<(), TieringError> {
        let timing = self.hot.timing();
        loop {
            let left = delay.left(self.clock.steady(), timing);
            if left > Duration::ZERO {
                self.clock.sleep(left);
            }
            let sent = self.clock.steady();
            self.hot.probe()?;
            let before = *delay;
            delay.extend_after(
                RoundTrip {
                    sent,
                    received: self.clock.steady(),
                },
                timing,
            );
            if *delay != before {
                report.delays += 1;
            } else if delay.is_over(sent, timing) {
                return Ok(());
            }
        }
    }

    fn confirm(&self, marked: &[Marked], token: Token, report: &mut EvictReport) -> Result<(), TieringError> {
        let mut gone: Vec<&[u8]> = Vec::new();
        for Marked { tag, names } in marked {
            if self.hot.confirm(tag, token, names)? {
                gone.push(tag);
            }
        }
        report.evicted = gone.len() as u64;
        report.called_off = report.marked - report.evicted;
        self.cold.set_status(&gone, Status::Cleaned)?;
        Ok(())
    }

    fn names(&self, tag: &[u8]) -> Result<Vec<Vec<u8>>, TieringError> {
        // The empty key is the first place of the empty tag, which is the first of all, and of no other.
        let mut after = (!tag.is_empty()).then(|| (tag.to_vec(), Vec::new()));
        let mut names = Vec::new();
        loop {
            let place = after.as_ref().map(|(tag, key)| (tag.as_slice(), key.as_slice()));
            let page = self.cold.keys_after(place, PAGE_NAMES)?;
            let is_last = page.len() < PAGE_NAMES || page.last().is_none_or(|row| row.tag != tag);
            names.extend(page.into_iter().filter(|row| row.tag == tag).map(|row| row.key));
            match names.last() {
                Some(name) if !is_last => after = Some((tag.to_vec(), name.clone())),
                _ => return Ok(names),
            }
        }
    }
}
