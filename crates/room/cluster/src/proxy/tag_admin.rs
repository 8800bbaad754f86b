//! What clients may ask about tags (ROOM.*), and who answers.

use std::sync::Weak;
use std::time::Duration;

/// Knows where tags are and moves them. What it is asked takes long, so it answers from threads of its own.
pub trait TagAdmin: Send + Sync {
    /// Takes a tag command and returns at once; `done` is called from any thread. A tag command that nobody wants any
    /// more, because `wanted` is gone, may be dropped without a word.
    fn ask(&self, command: TagCommand, wanted: Weak<()>, done: TagCallback);
}

/// Called with what came of a tag command, or with an error reply's text.
pub type TagCallback = Box<dyn FnOnce(Result<Outcome, String>) + Send>;

/// Something to find out or to do about tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagCommand {
    Status {
        tag: Vec<u8>,
    },
    /// List some of the tags.
    List(TagQuery),
    /// Bring tags into memory; tells how many have keys.
    Warm {
        tags: Vec<Vec<u8>>,
    },
    /// Save a tag if need be and take it out of memory; tells how many keys went.
    Evict {
        tag: Vec<u8>,
    },
    /// List the keys of a tag, those that were deleted lately among them.
    Names {
        tag: Vec<u8>,
    },
    /// Wait until all that is written by now rests in the cold tier; for ever without a limit.
    WaitCold {
        limit: Option<Duration>,
    },
}

/// What came of a tag command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Status(TagStatus),
    Listed {
        tags: Vec<ListedTag>,
        /// Where to go on; nothing at the end.
        cursor: Option<Vec<u8>>,
    },
    Count(u64),
    Names(Vec<Vec<u8>>),
    /// Whether the wait came to its end in time.
    IsDone(bool),
}

/// Which tags are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagQuery {
    pub order: TagOrder,
    pub limit: usize,
}

/// In which order tags are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagOrder {
    /// Those used last.
    Hottest,
    /// Those that take most in the cold tier.
    Biggest,
    /// Those whose names begin so, by name, after the given one.
    Prefix { prefix: Vec<u8>, after: Option<Vec<u8>> },
}

/// Where a tag is and how much of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagStatus {
    pub tag: Vec<u8>,
    pub is_resident: bool,
    pub hot_keys: u64,
    pub unsaved_keys: u64,
    pub cold_keys: u64,
    pub cold_bytes: u64,
    pub saved_at_ms: Option<i64>,
}

impl TagStatus {
    /// The word for it, as on the embedded engine.
    pub fn word(&self) -> &'static str {
        match () {
            () if self.unsaved_keys > 0 => "need_synced",
            () if self.is_resident && self.hot_keys > 0 => "synced",
            () if self.cold_keys > 0 => "cleaned",
            () => "absent",
        }
    }
}

/// A tag of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedTag {
    pub tag: Vec<u8>,
    pub keys: u64,
    pub bytes: u64,
    pub idle: Option<Duration>,
    pub is_resident: bool,
    pub is_cold: bool,
    pub is_dirty: bool,
}

impl ListedTag {
    /// The word for where it is, as on the embedded engine.
    pub fn place(&self) -> &'static str {
        match (self.is_resident, self.is_cold) {
            (true, true) => "both",
            (true, false) => "memory",
            (false, _) => "disk",
        }
    }
}
