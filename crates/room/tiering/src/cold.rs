//! Persistent storage for tags that are not in memory.
//!
//! A cold tier keeps one row per tag and one row per key. Calls block: they are
//! made from threads that may block, many tags at a time, so that an
//! implementation can share statements and commits between them.
//!
//! Every commit is fenced by the tag's row: a snapshot is accepted only when its
//! generation is the row's and its version is newer than the last one saved.

use std::fmt;
use std::time::Duration;

/// When a snapshot was taken: in which residency of its tag, and which one in it.
///
/// In the embedded form there is one process and `snap` is the position in the write-ahead log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub generation: u64,
    pub snap: u64,
}

/// The type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    String,
    List,
    Set,
    SortedSet,
    Hash,
    Stream,
}

impl Kind {
    pub const ALL: [Kind; 6] = [
        Kind::String,
        Kind::List,
        Kind::Set,
        Kind::SortedSet,
        Kind::Hash,
        Kind::Stream,
    ];

    /// Returns the name that the TYPE command gives it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
        }
    }

    /// Finds a type by the name that the TYPE command gives it.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A value as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredValue {
    pub kind: Kind,
    /// Exactly what DUMP gives.
    pub payload: Vec<u8>,
    /// Unix milliseconds.
    pub expires_at_ms: Option<i64>,
}

/// A key in the cold tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub key: Vec<u8>,
    pub value: StoredValue,
}

/// All that the cold tier knows of a tag's keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The generation that the reader holds now.
    pub generation: u64,
    /// The version of the last commit.
    pub saved: Version,
    pub rows: Vec<Row>,
    /// Keys that were deleted and must not come back from an older copy.
    pub tombstones: Vec<Vec<u8>>,
}

/// How a claim ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The tag's generation is now one higher, and these are its rows.
    Loaded(Loaded),
    /// There is no row and none was made; the residency has generation 1.
    NoRow,
    /// Another process has moved the generation since `base` was read: start over.
    Moved,
}

/// One changed key of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub key: Vec<u8>,
    /// `None` when the key is gone: it becomes a tombstone.
    pub value: Option<StoredValue>,
}

/// The changed keys of a tag at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub tag: Vec<u8>,
    pub version: Version,
    pub changes: Vec<Change>,
    /// Unix milliseconds of the latest known use. For operators and statistics only.
    pub read_at_ms: Option<i64>,
    pub written_at_ms: Option<i64>,
}

/// How the commit of one snapshot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    Saved,
    /// Its generation is not the tag's, or something at least as new is saved. Nothing was written.
    Refused,
}

/// The state that the last save or eviction left a tag in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Memory has changes that the cold tier lacks.
    NeedSynced,
    /// The cold tier has everything; the tag may be in memory, too.
    Synced,
    /// The tag is only in the cold tier.
    Cleaned,
}

impl Status {
    /// Returns the name that operators see.
    pub fn name(self) -> &'static str {
        match self {
            Status::NeedSynced => "need_synced",
            Status::Synced => "synced",
            Status::Cleaned => "cleaned",
        }
    }
}

/// The row of a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagRow {
    pub tag: Vec<u8>,
    pub generation: u64,
    pub saved: Version,
    pub status: Status,
    /// Unix milliseconds; `None` when never seen.
    pub read_at_ms: Option<i64>,
    pub written_at_ms: Option<i64>,
    pub saved_at_ms: Option<i64>,
    /// Keys with a value, tombstones not counted.
    pub keys: u64,
    /// Bytes of names and payloads of those keys.
    pub bytes: u64,
}

/// Merged uses of a tag, for statistics and the choice of candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub tag: Vec<u8>,
    pub read_at_ms: Option<i64>,
    pub written_at_ms: Option<i64>,
}

/// Totals over the whole tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub tags: u64,
    pub keys: u64,
    pub tombstones: u64,
    /// Bytes of names and payloads.
    pub bytes: u64,
    /// Bytes that the tier takes on its disk.
    pub disk_bytes: u64,
}

/// Something that a check found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub what: String,
    pub remedy: String,
}

/// Why a call to the cold tier failed.
#[derive(Debug, thiserror::Error)]
pub enum ColdError {
    /// It cannot be reached or is busy; the same call may work later.
    #[error("the cold tier does not answer")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Its disk is full.
    #[error("the cold tier is full")]
    Full(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Its data cannot be read.
    #[error("the cold tier is damaged: {what}")]
    Damaged { what: String },
    #[error("the cold tier failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl ColdError {
    /// Returns whether the same call may work later without intervention.
    pub fn is_retryable(&self) -> bool {
        matches!(self, ColdError::Unavailable(_))
    }
}

/// Some of a tier's tags, by what their names look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagNames {
    /// Those that begin with these bytes.
    Beginning(Vec<u8>),
    /// Those that do not begin with something in braces.
    Unbraced,
}

impl TagNames {
    /// Returns whether a tag is one of them.
    pub fn contain(&self, tag: &[u8]) -> bool {
        match self {
            TagNames::Beginning(prefix) => tag.starts_with(prefix),
            TagNames::Unbraced => {
                let end = tag.iter().position(|&byte| byte == b'}');
                !tag.starts_with(b"{") || end.is_none_or(|end| end < 2)
            }
        }
    }
}

/// Tags read at a time where all of a tier are looked at.
const NAMES_PAGE: usize = 10_000;

/// Persistent storage for tags.
///
/// A call that returns an error has changed nothing, or all of it (when the reply of a commit was lost);
/// repeating it is safe.
pub trait ColdTier: Send + Sync + 'static {
    /// Reads the generation of each tag, or `None` for a tag without a row. The first step of a load.
    fn generations(&self, tags: &[&[u8]]) -> Result<Vec<Option<u64>>, ColdError>;

    /// Moves a tag's generation from `base` to one above and reads its rows, in one transaction.
    fn claim(&self, tag: &[u8], base: Option<u64>) -> Result<Claimed, ColdError>;

    /// Reads the rows of tags without claiming them; `None` for a tag without a row. For a process that
    /// does not share the tier.
    fn read(&self, tags: &[&[u8]]) -> Result<Vec<Option<Loaded>>, ColdError>;

    /// Makes rows with generation 1 for those of the tags that have none. Comes before the first snapshot.
    fn ensure(&self, tags: &[&[u8]]) -> Result<(), ColdError>;

    /// As [`ColdTier::ensure`], without the wait that it may take until every process that shares the tier can
    /// know of the new rows: returns how long that is, from the return of this call.
    fn make_rows(&self, tags: &[&[u8]]) -> Result<Duration, ColdError> {
        self.ensure(tags)?;
        Ok(Duration::ZERO)
    }

    /// Commits snapshots, each whole or not at all, durably when it returns.
    fn commit(&self, snapshots: &[Snapshot], now_ms: i64) -> Result<Vec<Committed>, ColdError>;

    /// Records the status of tags. It is shown to operators; no decision depends on it.
    fn set_status(&self, tags: &[&[u8]], status: Status) -> Result<(), ColdError>;

    /// Records uses of tags that have rows; later times win.
    fn note_access(&self, accesses: &[Access]) -> Result<(), ColdError>;

    /// Returns the row of a tag.
    fn tag(&self, tag: &[u8]) -> Result<Option<TagRow>, ColdError>;

    /// Lists up to `limit` tags after the given one, in an order of its own that does not change.
    fn tags_after(&self, tag: Option<&[u8]>, limit: usize) -> Result<Vec<TagRow>, ColdError>;

    /// Lists up to `limit` keys (tombstones not) after the given place, ordered by tag and key.
    fn keys_after(&self, after: Option<(&[u8], &[u8])>, limit: usize) -> Result<Vec<KeyRow>, ColdError>;

    /// Removes a tag with all its keys and tombstones; returns how many keys it had.
    fn erase(&self, tag: &[u8]) -> Result<u64, ColdError>;

    /// Removes every tag whose last commit is not newer than `up_to` (FLUSHALL).
    fn wipe(&self, up_to: Version) -> Result<(), ColdError>;

    /// As [`ColdTier::wipe`], for some of the tags (FLUSHDB).
    fn wipe_some(&self, names: &TagNames, up_to: Version) -> Result<(), ColdError> {
        let mut gone = Vec::new();
        each_named(self, names, &mut |row| {
            if row.saved <= up_to {
                gone.push(row.tag);
            }
        })?;
        gone.iter().try_for_each(|tag| self.erase(tag).map(drop))
    }

    /// Returns how many keys some of the tags have together.
    fn keys_of(&self, names: &TagNames) -> Result<u64, ColdError> {
        let mut keys = 0;
        each_named(self, names, &mut |row| keys += row.keys)?;
        Ok(keys)
    }

    /// Removes up to `limit` keys that expired before `expired_before_ms` and tombstones made before
    /// `buried_before_ms`; returns how many.
    fn purge(&self, expired_before_ms: i64, buried_before_ms: i64, limit: usize) -> Result<usize, ColdError>;

    /// As [`ColdTier::purge`], and tells of which tags how many keys with a value went. A tier that does not know
    /// tells of all of them under an empty name.
    fn purge_telling(
        &self,
        expired_before_ms: i64,
        buried_before_ms: i64,
        limit: usize,
        tell: &mut dyn FnMut(&[u8], u64),
    ) -> Result<usize, ColdError> {
        let before = self.totals()?.keys;
        let removed = self.purge(expired_before_ms, buried_before_ms, limit)?;
        tell(b"", before.saturating_sub(self.totals()?.keys));
        Ok(removed)
    }

    /// Looks at about `limit` tags from a place that an earlier call gave (0: the start) and removes those
    /// without keys and tombstones that were last saved at `up_to` or before; returns how many, and the place
    /// to continue from, 0 at the end.
    ///
    /// For a process that does not share the tier and needs no record of those versions any more.
    fn forget_empty(&self, up_to: Version, from: u64, limit: usize) -> Result<(usize, u64), ColdError>;

    /// Returns the highest version that any tag was saved with.
    fn newest(&self) -> Result<Version, ColdError>;

    fn totals(&self) -> Result<Totals, ColdError>;

    /// Reads a named value that belongs to no tag (functions, settings of the tier).
    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, ColdError>;

    /// Stores a named value that belongs to no tag.
    fn set_fact(&self, name: &str, value: &[u8]) -> Result<(), ColdError>;

    /// Looks for damage.
    fn check(&self) -> Result<Vec<Finding>, ColdError>;
}

/// Visits some of a tier's tags.
fn each_named<T: ColdTier + ?Sized>(
    tier: &T,
    names: &TagNames,
    visit: &mut dyn FnMut(TagRow),
) -> Result<(), ColdError> {
    let mut last: Option<Vec<u8>> = None;
    loop {
        let page = tier.tags_after(last.as_deref(), NAMES_PAGE)?;
        let Some(end) = page.last() else {
            return Ok(());
        };
        last = Some(end.tag.clone());
        page.into_iter()
            .filter(|row| names.contain(&row.tag))
            .for_each(&mut *visit);
    }
}

/// A key in a listing, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    pub tag: Vec<u8>,
    pub key: Vec<u8>,
    pub kind: Kind,
    pub expires_at_ms: Option<i64>,
}
