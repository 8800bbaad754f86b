//! Memory for tags that are in use.
//!
//! A hot tier keeps the keys of resident tags and, beside them, the state that
//! [`crate::protocol`] decides on. Calls block: they are made from threads that may
//! wait, many tags at a time where the protocol allows. Each tag's part of a call is
//! one atomic step.

use std::time::Duration;

use crate::cold::{Row, Snapshot};
use crate::error::HotError;
use crate::protocol::{LoadStart, Part, Token, Touched};
use crate::timing::Timing;

/// Some of the rows that a claim has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub part: Part,
    pub rows: Vec<Row>,
    pub tombstones: Vec<Vec<u8>>,
}

/// How the installation of one chunk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Installed {
    /// Another loader or another run of the node has the tag now.
    Lost,
    /// What is in memory is as new; the tag is hot and the other chunks are not needed.
    Kept,
    Put,
}

/// A tag with changes that may not be saved yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirtyTag {
    pub tag: Vec<u8>,
    pub dirty_for: Duration,
}

/// Some of the dirty tags, and where the rest begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirtyPage {
    pub tags: Vec<DirtyTag>,
    /// `None` after the last page.
    pub next: Option<u64>,
}

/// The changed keys of a tag at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagCopy {
    pub snapshot: Snapshot,
    /// The token of each change, in the order of the snapshot.
    pub tokens: Vec<Token>,
}

/// Keys whose last writes are certainly in a committed snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedKeys {
    pub tag: Vec<u8>,
    pub generation: u64,
    pub keys: Vec<(Vec<u8>, Token)>,
}

/// Memory for tags that are in use.
///
/// A call that returns an error has changed nothing, or all of it for some of the tags (when a reply was
/// lost); continuing with the next round is safe.
pub trait HotTier: Send + Sync + 'static {
    /// Returns how long leases and commands live here. All zero where a lock replaces leases.
    fn timing(&self) -> Timing;

    /// Asks what may be done with tags; a granted touch calls an eviction off.
    fn touch(&self, tags: &[&[u8]]) -> Result<Vec<Touched>, HotError>;

    /// Begins a load, also over another loader that may be dead.
    fn begin(&self, tag: &[u8], token: Token) -> Result<LoadStart, HotError>;

    /// Puts a chunk of rows, expiry as absolute times, and takes the names in its tombstones away.
    fn install(&self, tag: &[u8], token: Token, chunk: &Chunk) -> Result<Installed, HotError>;

    /// Lists about `limit` dirty tags from a place that a page gave, or from the start. A tag that is dirty
    /// all the while is listed.
    fn dirty_tags(&self, from: Option<u64>, limit: usize) -> Result<DirtyPage, HotError>;

    /// Copies the dirty keys of each tag in one instant; `None` for a tag that may not be copied.
    fn snapshot(&self, tags: &[&[u8]]) -> Result<Vec<Option<TagCopy>>, HotError>;

    /// Takes saved keys off the dirty lists; returns for each tag whether it is clean now.
    fn remove(&self, saved_keys: &[SavedKeys]) -> Result<Vec<bool>, HotError>;

    /// Marks clean tags for eviction; returns for each whether it is marked.
    fn mark(&self, tags: &[&[u8]], token: Token) -> Result<Vec<bool>, HotError>;

    /// Removes a marked tag and these keys; returns whether it is gone.
    fn confirm(&self, tag: &[u8], token: Token, names: &[Vec<u8>]) -> Result<bool, HotError>;

    /// Makes one round trip to every node, so that the caller can measure how fast they are.
    fn probe(&self) -> Result<(), HotError>;

    /// Lists up to `limit` resident tags that were not used for `idle`, the longest unused first as far as it
    /// is known.
    fn coldest(&self, limit: usize, idle: Duration) -> Result<Vec<Vec<u8>>, HotError>;
}
