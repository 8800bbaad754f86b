//! What is kept about a resident tag beside its keys.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cold::Version;

/// A name for one registration, load or eviction. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u128);

/// Names one run of a hot node: new after every restart and every promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run(pub u128);

/// Draws tokens that no other source draws: a random half names the source, the other half counts.
#[derive(Debug)]
pub struct Tokens {
    source: u64,
    drawn: AtomicU64,
}

impl Default for Tokens {
    fn default() -> Tokens {
        // A fresh hasher is keyed by the operating system's randomness.
        Tokens {
            source: RandomState::new().hash_one("tokens"),
            drawn: AtomicU64::new(0),
        }
    }
}

impl Tokens {
    pub fn draw(&self) -> Token {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        Token(u128::from(self.source) << 64 | u128::from(number))
    }
}

/// How far a tag is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A loader with this token is installing keys.
    Loading(Token),
    Hot,
    /// An evictor with this token waits; any touch and any snapshot turns the tag back to hot.
    Evicting(Token),
}

/// What is kept about a tag that is resident or on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Meta {
    /// The run of the node in which this was written. Another one makes the tag *suspect*: the node may
    /// have lost the latest part of its history.
    pub run: Run,
    /// Which residency this is.
    pub generation: u64,
    /// How many snapshots were taken in this residency.
    pub snap: u64,
    pub state: State,
    /// While loading: the keys are an older copy that may be good.
    pub keep: bool,
}

impl Meta {
    /// Returns the version of the last snapshot, or one older than the first.
    pub fn version(&self) -> Version {
        Version {
            generation: self.generation,
            snap: self.snap,
        }
    }
}

/// Everything the hot tier knows of one tag but the values of its keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TagState<K> {
    /// `None` while the tag is not resident.
    pub meta: Option<Meta>,
    /// Keys that may differ from their cold rows, with the token of their last registration.
    pub dirty: BTreeMap<K, Token>,
    /// Whether savers find the tag in the dirty index.
    pub in_index: bool,
}

impl<K> Default for TagState<K> {
    fn default() -> TagState<K> {
        TagState {
            meta: None,
            dirty: BTreeMap::new(),
            in_index: false,
        }
    }
}

impl<K> TagState<K> {
    /// Returns the meta of a tag that this run may work on; `None` when it is missing or suspect.
    pub(super) fn meta_of(&mut self, run: Run) -> Option<&mut Meta> {
        self.meta.as_mut().filter(|meta| meta.run == run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_never_drawn_twice() {
        let (one, other) = (Tokens::default(), Tokens::default());
        let mut drawn: Vec<Token> = (0..500).flat_map(|_| [one.draw(), other.draw()]).collect();
        drawn.sort();
        drawn.dedup();
        assert_eq!(drawn.len(), 1000);
    }
}
