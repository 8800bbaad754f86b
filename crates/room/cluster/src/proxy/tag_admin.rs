//! The commands about tags (ROOM.*), and the trait that runs them.

use std::sync::Weak;
use std::time::Duration;

/// Finds and moves tags. Commands take long, so they run on other threads.
pub trait TagAdmin: Send + Sync {
    /// Starts a command and returns at once; `done` is called from any thread. A command whose client is
    /// gone, because `wanted` is dropped, may be abandoned without a call.
    fn ask(&self, command: TagCommand, wanted: Weak<()>, done: TagCallback);
}

/// Called with the outcome of a command, or with the text of an error reply.
pub type TagCallback = Box<dyn FnOnce(Result<Outcome, String>) + Send>;

/// A command about tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagCommand {
    Status {
        tag: Vec<u8>,
    },
    /// List some of the tags.
    List(TagQuery),
    /// Load tags into memory; the outcome is how many have keys.
    Warm {
        tags: Vec<Vec<u8>>,
    },
    /// Save a tag if necessary and evict it; the outcome is the number of evicted keys.
    Evict {
        tag: Vec<u8>,
    },
    /// List the keys of a tag, recently deleted ones included.
    Names {
        tag: Vec<u8>,
    },
    /// List some keys of any tags, from a place on.
    Everything {
        from: KeyPlace,
    },
    /// Wait until everything written so far is in the cold tier; without a limit for ever.
    WaitCold {
        limit: Option<Duration>,
    },
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Status(TagStatus),
    Listed {
        tags: Vec<ListedTag>,
        /// The cursor of the next page, if there is one.
        cursor: Option<Vec<u8>>,
    },
    Count(u64),
    Names(Vec<Vec<u8>>),
    /// Some keys, and where the list goes on.
    Everything {
        names: Vec<Vec<u8>>,
        next: Option<KeyPlace>,
    },
    /// Whether the wait ended in time.
    IsDone(bool),
}

/// A place in a list of all keys of both tiers. Keys that are there all the while are listed, some of them more
/// than once: memory comes first, then every row, then memory once more for keys whose slots have moved meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    Memory {
        is_again: bool,
        /// The server whose keys come next, from this cursor on; none for the first server.
        server: Option<String>,
        cursor: u64,
    },
    /// Behind this tag and key.
    Rows { after: Option<(Vec<u8>, Vec<u8>)> },
}

impl KeyPlace {
    /// The first place.
    pub const FIRST: KeyPlace = KeyPlace::Memory {
        is_again: false,
        server: None,
        cursor: 0,
    };
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
    /// The most recently used.
    Hottest,
    /// The largest in the cold tier.
    Biggest,
    /// Those with a prefix, by name, after the given one.
    Prefix { prefix: Vec<u8>, after: Option<Vec<u8>> },
}

/// Where a tag is, and its size.
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
    /// Returns the word for the status, as in the embedded engine.
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
    /// Returns the word for the place of a tag, as in the embedded engine.
    pub fn place(&self) -> &'static str {
        match (self.is_resident, self.is_cold) {
            (true, true) => "both",
            (true, false) => "memory",
            (false, _) => "disk",
        }
    }
}
