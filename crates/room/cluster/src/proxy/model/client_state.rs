//! What a client has begun and not ended: a transaction, a WATCH, a command that blocks.

use std::collections::VecDeque;
use std::sync::Arc;

use nagaya_commands::client::ClientShared;
use nagaya_reactor::Key;
use nagaya_resp::ArgVec;

use super::target::{KeyScope, Target};

/// What MULTI has collected.
#[derive(Default)]
pub(crate) struct TransactionQueue {
    pub(crate) commands: Vec<QueuedCommand>,
    /// A command was refused: EXEC will abort.
    pub(crate) broken: bool,
    /// The commands' keys do not belong together: EXEC will say so.
    pub(crate) crosses: bool,
    pub(crate) tag: Option<Vec<u8>>,
    pub(crate) slot: Option<u16>,
    pub(crate) writes: Vec<Vec<u8>>,
}

/// One command of a transaction.
pub(crate) enum QueuedCommand {
    /// For the node, as it came.
    Sent(Vec<u8>),
    /// For ourselves.
    Here(ArgVec),
    /// Its reply is known.
    Answered(&'static [u8]),
}

impl TransactionQueue {
    pub(crate) fn add_target(&mut self, target: &Target<'_>, key_scope: KeyScope) {
        let Some(tag) = target.tag else {
            return;
        };
        match &self.tag {
            Some(known) => self.crosses |= key_scope == KeyScope::OneTag && known != tag,
            None => self.tag = Some(tag.to_vec()),
        }
        self.add_slot(target.slot, key_scope);
        let writes = target.writes.as_slice();
        self.writes.extend(writes.iter().map(|key| key.to_vec()));
    }

    pub(crate) fn add_slot(&mut self, slot: u16, key_scope: KeyScope) {
        let known = *self.slot.get_or_insert(slot);
        self.crosses |= known != slot && key_scope != KeyScope::Anywhere;
    }
}

/// A client's watched keys.
pub(crate) struct Watch {
    pub(crate) tag: Vec<u8>,
    pub(crate) slot: u16,
    pub(crate) connection: Option<Key>,
    /// Some key is being watched on the connection.
    pub(crate) holds_any: bool,
    /// The keys may have changed: we would not know.
    pub(crate) lost: bool,
    /// The WATCH that is not answered yet, and until when it is tried.
    pub(crate) pending: Option<(Vec<u8>, u64)>,
}

/// A command that its client waits in.
pub(crate) struct Blocked {
    pub(crate) args: ArgVec,
    pub(crate) bytes: Vec<u8>,
    pub(crate) timeout: Option<Timeout>,
    pub(crate) slot: u16,
    pub(crate) tag: Option<Vec<u8>>,
    pub(crate) writes: Vec<Vec<u8>>,
    /// When the client's own time is up; never without one.
    pub(crate) deadline_us: u64,
    pub(crate) connection: Option<Key>,
    /// It waits less than the client wants, because of its lease.
    pub(crate) is_cut: bool,
    pub(crate) give_up_us: u64,
    pub(crate) wake_up_us: u64,
    /// For those who ask how many clients wait.
    pub(crate) waiter: Arc<ClientShared>,
    /// Streams that are read from their present end: the arguments of key and id. Their last ids are asked
    /// for first, so that a read that is sent again misses nothing in between.
    pub(crate) ends: VecDeque<(usize, usize)>,
}

/// Where a command says how long it waits, and in which unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    Seconds(usize),
    Milliseconds(usize),
}
