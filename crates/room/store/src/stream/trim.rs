//! Taking entries away: one by its id, or old ones from the front.

use super::node::Walk;
use super::{Stream, StreamId};

/// How much of a stream to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimTo {
    /// At most this many entries.
    MaxLen(u64),
    /// No entry below this id.
    MinId(StreamId),
}

/// A trim order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    pub to: TrimTo,
    /// Removes whole blocks only, so a little more may stay.
    pub approximate: bool,
    /// Most entries to remove when approximate; 0 means no bound.
    pub limit: u64,
}

impl Stream {
    /// Deletes one entry. Returns whether it was there.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let mut range = self.range(id, id);
        let Some(flags_at) = range.next().map(|entry| entry.flags_at) else {
            return false;
        };
        let index = range.node_index();
        let node = &mut self.nodes[index];
        if node.mark_deleted(flags_at) == 0 {
            self.nodes.remove(index);
        }
        self.counts.len -= 1;
        self.counts.max_deleted_id = self.counts.max_deleted_id.max(id);
        if self.counts.len == 0 {
            self.counts.first_id = StreamId::MIN;
        } else if id == self.counts.first_id {
            self.find_first_id();
        }
        true
    }

    /// Removes entries from the front. Returns how many.
    pub fn trim(&mut self, order: &Trim) -> u64 {
        let mut removed = self.trim_nodes(order);
        if !order.approximate {
            removed += self.trim_first_node(order);
        }
        if self.counts.len == 0 {
            self.counts.first_id = StreamId::MIN;
        } else if removed > 0 {
            self.find_first_id();
        }
        removed
    }

    fn trim_nodes(&mut self, order: &Trim) -> u64 {
        let mut removed = 0;
        while let Some(node) = self.nodes.front() {
            let live = node.head().live;
            let whole = match order.to {
                TrimTo::MaxLen(max) => self.counts.len > max && self.counts.len - live >= max,
                TrimTo::MinId(id) => node.last_id() < id,
            };
            if !whole || (order.limit > 0 && removed + live > order.limit) {
                break;
            }
            self.nodes.pop_front();
            self.counts.len -= live;
            removed += live;
        }
        removed
    }

    /// Marks entries of the first block, once no whole block can go.
    fn trim_first_node(&mut self, order: &Trim) -> u64 {
        let Some(node) = self.nodes.front_mut() else {
            return 0;
        };
        let mut doomed = Vec::new();
        for entry in Walk::forward(node) {
            let stop = match order.to {
                TrimTo::MaxLen(max) => self.counts.len - doomed.len() as u64 <= max,
                TrimTo::MinId(id) => entry.id >= id,
            };
            if stop {
                break;
            }
            if !entry.is_deleted() {
                doomed.push(entry.flags_at);
            }
        }
        // A restored block may spell its flags wider than needed, so that setting
        // one moves what follows: the last goes first.
        doomed
            .iter()
            .rev()
            .for_each(|&flags_at| node.flag_deleted(flags_at));
        node.count_deleted(doomed.len() as u64);
        self.counts.len -= doomed.len() as u64;
        doomed.len() as u64
    }
}
