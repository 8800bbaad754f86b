//! How a connection tracks the keys that it caches.

use std::collections::BTreeSet;
use std::sync::Arc;

use nagaya_connections::tracking::Tracker;

/// How a client tracks, kept by its own thread. A client that does not track has none.
pub struct ClientTracking {
    pub tracker: Arc<Tracker>,
    pub mode: Mode,
    /// CLIENT CACHING was called for the next command.
    pub caching: bool,
    /// What the client hears of in broadcast mode.
    pub prefixes: BTreeSet<Vec<u8>>,
    /// While a script runs: whether it has read anything.
    pub script_reads: Option<bool>,
}

/// Which reads of a client are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Every,
    /// Those that CLIENT CACHING YES announces.
    OptIn,
    /// All but those that CLIENT CACHING NO announces.
    OptOut,
    /// None: changes are broadcast by prefix.
    Broadcast,
}
