//! WAIT: how many replicas have what a client has written.
//!
//! A client's writes went over connections that all clients share, where a WAIT would hold up everybody. So
//! each node that the client may have written to is asked on a connection of the client's own, one node after
//! the other, and the fewest replicas are the answer. A server counts from the last write of the connection that
//! asks, so that connection writes first: it makes a name of our own and removes it again, which comes behind
//! everything the client has written.

use std::collections::VecDeque;

use super::reply::{encoded, int};
use super::target::Target;
use crate::hot_tier::keys;

/// Slots that are remembered one by one; a client that writes to more of them may have written to any node.
const SLOTS_MAX: usize = 16;

/// Writes, and leaves nothing behind.
const MARK: &[u8] = b"redis.call('SET',KEYS[1],'') return redis.call('DEL',KEYS[1])";

/// The slots that a client has written to.
#[derive(Debug, Default)]
pub(crate) struct WrittenSlots {
    slots: Vec<u16>,
    are_all: bool,
}

impl WrittenSlots {
    /// Notes the writes of a request.
    #[inline]
    pub(crate) fn note(&mut self, target: &Target<'_>) {
        if target.registers_itself || !target.writes.as_slice().is_empty() {
            self.note_slot(target.slot);
        }
    }

    pub(crate) fn note_slot(&mut self, slot: u16) {
        if self.are_all || self.slots.contains(&slot) {
            return;
        }
        if self.slots.len() == SLOTS_MAX {
            self.note_all();
        } else {
            self.slots.push(slot);
        }
    }

    /// Notes writes to keys that are not told one by one.
    pub(crate) fn note_all(&mut self) {
        self.are_all = true;
        self.slots = Vec::new();
    }

    /// Returns one slot of each node that the client may have written to. Of a client that wrote nothing, one of
    /// every node.
    pub(crate) fn one_per_node(
        &self,
        owner: impl Fn(u16) -> Option<usize>,
        slots_of_all: impl Iterator<Item = u16>,
    ) -> VecDeque<u16> {
        if self.are_all || self.slots.is_empty() {
            return slots_of_all.collect();
        }
        let mut nodes = Vec::new();
        let mut slots = VecDeque::new();
        for &slot in &self.slots {
            let node = owner(slot);
            if !nodes.contains(&node) {
                nodes.push(node);
                slots.push_back(slot);
            }
        }
        slots
    }
}

/// The nodes that a WAIT asks.
#[derive(Debug)]
pub(crate) struct Replicas {
    /// A slot of each node that comes after the one that is asked.
    left: VecDeque<u16>,
    is_marked: bool,
    least: Option<i64>,
}

/// What follows a node's reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The same node is sent what comes next.
    Same,
    /// The node of this slot is asked.
    Next(u16),
    /// The client gets this reply.
    Done(Vec<u8>),
}

impl Replicas {
    pub(crate) fn new(left: VecDeque<u16>) -> Replicas {
        Replicas {
            left,
            is_marked: false,
            least: None,
        }
    }

    /// Returns what is to be written before the node of this slot is asked.
    pub(crate) fn mark(&self, slot: u16) -> Option<Vec<u8>> {
        let name = keys::mark(slot);
        (!self.is_marked).then(|| encoded(&[b"EVAL", MARK, b"1", &name]))
    }

    pub(crate) fn on_reply(&mut self, reply: &[u8]) -> Asked {
        let Some(count) = int(reply) else {
            return Asked::Done(reply.to_vec());
        };
        if !self.is_marked {
            self.is_marked = true;
            return Asked::Same;
        }
        let least = self.least.map_or(count, |least| least.min(count));
        self.least = Some(least);
        match self.left.pop_front() {
            Some(slot) => {
                self.is_marked = false;
                Asked::Next(slot)
            }
            None => Asked::Done(format!(":{least}\r\n").into_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_asked_one_after_the_other_and_the_fewest_replicas_count() {
        let mut asked = Replicas::new(VecDeque::from([7]));
        assert!(asked.mark(3).is_some());
        assert_eq!(asked.on_reply(b":1\r\n"), Asked::Same);
        assert!(asked.mark(3).is_none());
        assert_eq!(asked.on_reply(b":2\r\n"), Asked::Next(7));
        assert!(asked.mark(7).is_some(), "every connection writes first");
        assert_eq!(asked.on_reply(b":1\r\n"), Asked::Same);
        assert_eq!(asked.on_reply(b":1\r\n"), Asked::Done(b":1\r\n".to_vec()));
        let mut refused = Replicas::new(VecDeque::from([7]));
        let error = b"-ERR timeout is negative\r\n";
        assert_eq!(refused.on_reply(error), Asked::Done(error.to_vec()));
    }

    #[test]
    fn a_client_that_wrote_to_few_slots_asks_their_nodes_only() {
        let owner = |slot: u16| Some(usize::from(slot / 10));
        let all = || [0_u16, 10, 20].into_iter();
        let mut written = WrittenSlots::default();
        assert_eq!(written.one_per_node(owner, all()), [0, 10, 20]);
        for slot in [12, 15, 3] {
            written.note_slot(slot);
        }
        assert_eq!(written.one_per_node(owner, all()), [12, 3]);
        (0..=SLOTS_MAX as u16).for_each(|slot| written.note_slot(slot + 20));
        assert_eq!(written.one_per_node(owner, all()), [0, 10, 20]);
    }
}
