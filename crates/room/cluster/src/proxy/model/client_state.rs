//! The unfinished business of a session: a transaction, a WATCH, a command that blocks.

use std::collections::VecDeque;
use std::sync::Arc;

use nagaya_connections::client::Client;
use nagaya_reactor::Key;
use nagaya_resp::ArgVec;

use super::replicas::Replicas;
use super::target::{KeyScope, TAGS_MAX, Target};

/// The commands since MULTI.
#[derive(Default)]
pub(crate) struct TransactionQueue {
    pub(crate) commands: Vec<QueuedCommand>,
    /// A command was refused: EXEC will abort.
    pub(crate) broken: bool,
    /// The commands' keys cannot be used together: EXEC will fail.
    pub(crate) crosses: bool,
    pub(crate) tag: Option<Vec<u8>>,
    /// Its other tags, where it may have several.
    pub(crate) others: Vec<Vec<u8>>,
    pub(crate) slot: Option<u16>,
    pub(crate) writes: Vec<Vec<u8>>,
    /// A script in it registers what it writes.
    pub(crate) registers_itself: bool,
}

/// One command of a transaction.
pub(crate) enum QueuedCommand {
    /// Sent to the node as RESP.
    Sent(Vec<u8>),
    /// Run here at EXEC.
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
        if key_scope == KeyScope::Tags {
            let others = std::iter::once(&tag).chain(&target.others);
            for tag in others {
                if !self.others.iter().any(|known| known == tag) {
                    self.others.push(tag.to_vec());
                }
            }
            self.crosses |= self.others.len() > TAGS_MAX;
        }
        self.add_slot(target.slot, key_scope);
        self.registers_itself |= target.registers_itself;
        let writes = target.writes.as_slice();
        self.writes.extend(writes.iter().map(|key| key.to_vec()));
    }

    pub(crate) fn add_slot(&mut self, slot: u16, key_scope: KeyScope) {
        let known = *self.slot.get_or_insert(slot);
        let is_one_node = matches!(key_scope, KeyScope::Anywhere | KeyScope::Tags);
        self.crosses |= known != slot && !is_one_node;
    }
}

/// A client's watched keys.
pub(crate) struct Watch {
    pub(crate) tag: Vec<u8>,
    /// The other tags of its keys.
    pub(crate) others: Vec<Vec<u8>>,
    pub(crate) slot: u16,
    pub(crate) connection: Option<Key>,
    /// A key is being watched on the connection.
    pub(crate) holds_any: bool,
    /// The connection was lost, so the keys may have changed.
    pub(crate) lost: bool,
    /// The WATCH that is not answered yet, and until when it is retried.
    pub(crate) pending: Option<(Vec<u8>, u64)>,
}

/// A command that blocks its client.
pub(crate) struct Blocked {
    pub(crate) args: ArgVec,
    pub(crate) bytes: Vec<u8>,
    pub(crate) timeout: Option<Timeout>,
    pub(crate) slot: u16,
    pub(crate) tag: Option<Vec<u8>>,
    /// The other tags of its keys.
    pub(crate) others: Vec<Vec<u8>>,
    pub(crate) writes: Vec<Vec<u8>>,
    /// When the client's timeout ends; `u64::MAX` without one.
    pub(crate) deadline_us: u64,
    pub(crate) connection: Option<Key>,
    /// It waits less than the client wants, because of its lease.
    pub(crate) is_cut: bool,
    pub(crate) give_up_us: u64,
    pub(crate) wake_up_us: u64,
    /// Marks the client as blocked in statistics.
    pub(crate) waiter: Arc<Client>,
    /// Streams that are read from their present end: the positions of key and id. Their last ids are read
    /// first, so that a read that is sent again misses no entry.
    pub(crate) ends: VecDeque<(usize, usize)>,
    /// The nodes that are asked one after the other, for WAIT.
    pub(crate) replicas: Option<Replicas>,
}

/// The position of a command's timeout, and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    Seconds(usize),
    Milliseconds(usize),
}
