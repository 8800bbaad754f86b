//! Bounds of a search, and which guards it runs without.

/// How large the world is and how much may happen in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) servers: usize,
    pub(crate) savers: usize,
    pub(crate) evictors: usize,
    pub(crate) loaders: usize,
    pub(crate) start: Start,
    pub(crate) budget: Budget,
    /// Which keys servers write.
    pub(crate) written: &'static [u8],
    pub(crate) operations: &'static [Operation],
    /// Servers also send scripts, which write and register in one step.
    pub(crate) scripts: bool,
    /// A load comes in one chunk per key.
    pub(crate) chunked: bool,
    /// Savers, evictors and loaders may crash at any moment.
    pub(crate) crashes: bool,
    /// L, in ticks.
    pub(crate) lease: u8,
    /// M, in ticks.
    pub(crate) delay: u8,
    /// D, in ticks.
    pub(crate) settle: u8,
}

/// How often each bounded thing may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) touches: u8,
    pub(crate) writes: u8,
    pub(crate) snapshots: u8,
    pub(crate) marks: u8,
    pub(crate) loads: u8,
    /// Cut connections; a server that crashes looks the same.
    pub(crate) cuts: u8,
    /// Copies that reach the replica.
    pub(crate) syncs: u8,
    pub(crate) failovers: u8,
    /// Restarts of the node without any data.
    pub(crate) emptied: u8,
}

/// Where a search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Key 0 is saved, the tag is not resident.
    Cold,
    /// The same, and the tag was just loaded.
    Hot,
    /// There is no row.
    New,
    /// There is no row, and the tag was just loaded.
    NewHot,
    /// Key 0 was written long ago. Every saver has seen its token and saved it, and none has removed it.
    Noted,
    /// The tag is clean and marked by an evictor that has died since.
    Marked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Set,
    Delete,
    /// Sets a key that expires a few ticks later.
    SetExpiring,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            servers: 1,
            savers: 1,
            evictors: 1,
            loaders: 1,
            start: Start::Hot,
            budget: Budget {
                touches: 1,
                writes: 1,
                snapshots: 2,
                marks: 1,
                loads: 1,
                cuts: 0,
                syncs: 0,
                failovers: 0,
                emptied: 0,
            },
            written: &[0],
            operations: &[Operation::Set],
            scripts: false,
            chunked: false,
            crashes: false,
            lease: 1,
            delay: 1,
            settle: 2,
        }
    }
}

/// How a write is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registration {
    Atomic,
    DirtyFirst,
    IndexFirst,
}

/// How a loader gets its generation and its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// By comparing the row's generation with a base from before the begin.
    FromBase,
    /// By adding one to whatever the row has.
    Blind,
    /// The row learns nothing of the load; a perfect clock gives the generation.
    None,
    /// The same, and the rows are those of before the begin.
    NoneAndRowsBeforeBegin,
}

impl Claim {
    /// Returns whether commits are compared with the row's generation.
    pub(crate) fn is_in_the_row(self) -> bool {
        matches!(self, Claim::FromBase | Claim::Blind)
    }
}

/// Which chunks of a load ask whether the tag is loading, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkToken {
    Every,
    AllButTheLast,
    None,
}

/// How a commit is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// On the tag's row.
    Tag,
    /// On each key's row, which goes when the key is deleted.
    Row,
}

/// The guards of the protocol. The default has all of them; a search takes some away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guards {
    pub(crate) fresh_tokens: bool,
    /// A script registers what it writes.
    pub(crate) scripts_register: bool,
    /// A script puts its token also over another one.
    pub(crate) scripts_replace_tokens: bool,
    /// The saver's wait, in ticks less than D.
    pub(crate) saver_wait_short: u8,
    pub(crate) token_at_removal: bool,
    pub(crate) registrations_end_with_lease: bool,
    pub(crate) leases_dropped_on_cut: bool,
    pub(crate) lease_from_sending: bool,
    /// The evictor's wait, in ticks less than D.
    pub(crate) evictor_wait_short: u8,
    pub(crate) touch_cancels: bool,
    pub(crate) clean_at_confirm: bool,
    pub(crate) token_at_confirm: bool,
    pub(crate) list_after_mark: bool,
    pub(crate) snapshot_cancels: bool,
    pub(crate) chunk_token: ChunkToken,
    pub(crate) claim: Claim,
    pub(crate) fence: Fence,
    pub(crate) tombstones: bool,
    /// A snapshot and a removal ask for the tag's state and run, a removal for its generation.
    pub(crate) same_tag_at_save: bool,
    pub(crate) run_everywhere: bool,
    pub(crate) compare_with_saved: bool,
    pub(crate) row_before_snapshot: bool,
    pub(crate) mark_takes_over: bool,
    pub(crate) registration: Registration,
    pub(crate) absolute_expiry: bool,
}

impl Default for Guards {
    fn default() -> Guards {
        Guards {
            fresh_tokens: true,
            scripts_register: true,
            scripts_replace_tokens: true,
            saver_wait_short: 0,
            token_at_removal: true,
            registrations_end_with_lease: true,
            leases_dropped_on_cut: true,
            lease_from_sending: true,
            evictor_wait_short: 0,
            touch_cancels: true,
            clean_at_confirm: true,
            token_at_confirm: true,
            list_after_mark: true,
            snapshot_cancels: true,
            chunk_token: ChunkToken::Every,
            claim: Claim::FromBase,
            fence: Fence::Tag,
            tombstones: true,
            same_tag_at_save: true,
            run_everywhere: true,
            compare_with_saved: true,
            row_before_snapshot: true,
            mark_takes_over: true,
            registration: Registration::Atomic,
            absolute_expiry: true,
        }
    }
}
