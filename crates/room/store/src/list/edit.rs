//! Changes to a list: pushes, inserts that cut and join nodes, removals.

use super::node::{Node, NodeLimits};
use super::{End, List, Place};
use crate::limits::EncodingLimits;
use crate::listpack::{Listpack, SearchItem};

impl List {
    pub(super) fn push_within(&mut self, end: End, bytes: &[u8], limits: NodeLimits) {
        let node = match end {
            End::Head => self.nodes.front_mut(),
            End::Tail => self.nodes.back_mut(),
        };
        self.len += 1;
        match node {
            Some(node) if limits.has_room(node, bytes.len()) => node.push(end, bytes),
            full => {
                if let Some(full) = full {
                    full.shrink();
                }
                let index = if end == End::Head { 0 } else { self.nodes.len() };
                let spare = limits.next_node_capacity(self.nodes.len());
                self.add_node(index, Node::of_one_with_capacity(bytes, limits, spare));
            }
        }
    }

    pub(super) fn set_within(&mut self, index: i64, bytes: &[u8], limits: NodeLimits) -> bool {
        let Some(mut place) = self.absolute(index).and_then(|index| self.locate(index)) else {
            return false;
        };
        let node = &self.nodes[place.node];
        let too_large = node.size_after_replace(place.pos, bytes.len()) > Listpack::BYTES_MAX;
        if node.count() > 1 && (too_large || limits.is_plain(bytes.len())) {
            place = self.isolate(place);
        }
        self.nodes[place.node].replace(place.pos, bytes, limits);
        true
    }

    /// Cuts an element out into a node of its own.
    fn isolate(&mut self, mut place: Place) -> Place {
        if place.offset + 1 < self.nodes[place.node].count() {
            let right = self.nodes[place.node].split_off(place.offset + 1);
            self.add_node(place.node + 1, right);
        }
        if place.offset > 0 {
            let alone = self.nodes[place.node].split_off(place.offset);
            self.add_node(place.node + 1, alone);
            place.node += 1;
        }
        Place {
            node: place.node,
            offset: 0,
            pos: self.nodes[place.node].seek(0),
        }
    }

    /// Puts an element beside the one at `place`.
    ///
    /// A full node takes it only after being cut in two, unless the place is at
    /// its edge: then the neighbour takes it if it has room, else a new node.
    pub(super) fn insert_at(&mut self, place: Place, after: bool, bytes: &[u8], limits: NodeLimits) {
        let Place {
            node: index,
            offset,
            pos,
        } = place;
        self.len += 1;
        let at_edge = if after {
            offset + 1 == self.nodes[index].count()
        } else {
            offset == 0
        };
        // Index a new node on the far side of this one's edge would get.
        let beyond = if after { index + 1 } else { index };
        if limits.has_room(&self.nodes[index], bytes.len()) {
            self.nodes[index].insert(pos, after, bytes);
        } else if at_edge {
            let neighbour = if after {
                Some(index + 1)
            } else {
                index.checked_sub(1)
            };
            let neighbour = neighbour.and_then(|index| self.nodes.get_mut(index));
            match neighbour {
                Some(node) if limits.has_room(node, bytes.len()) => {
                    node.push(if after { End::Head } else { End::Tail }, bytes);
                }
                _ => self.add_node(beyond, Node::of_one(bytes, limits)),
            }
        } else {
            let right = self.nodes[index].split_off(if after { offset + 1 } else { offset });
            self.add_node(index + 1, right);
            self.insert_at_cut(index, after, bytes, limits);
        }
    }

    /// Puts an element into the cut just made between `left` and its right
    /// neighbour, then joins what fits together again.
    fn insert_at_cut(&mut self, left: usize, after: bool, bytes: &[u8], limits: NodeLimits) {
        if limits.is_plain(bytes.len()) {
            self.add_node(left + 1, Node::plain(bytes));
        } else if after {
            self.nodes[left + 1].push(End::Head, bytes);
            self.join_around(left, limits);
        } else {
            self.nodes[left].push(End::Tail, bytes);
            self.join_around(left + 1, limits);
        }
    }

    /// Joins the neighbours of a node with each other and with it, outer pairs
    /// first, wherever two fit in one.
    fn join_around(&mut self, mut centre: usize, limits: NodeLimits) {
        if centre >= 2 && self.join(centre - 2, limits) {
            centre -= 1;
        }
        self.join(centre + 1, limits);
        if centre >= 1 && self.join(centre - 1, limits) {
            centre -= 1;
        }
        self.join(centre, limits);
    }

    /// Joins a node with the one to its right if both fit in one.
    fn join(&mut self, left: usize, limits: NodeLimits) -> bool {
        let (Some(a), Some(b)) = (self.nodes.get(left), self.nodes.get(left + 1)) else {
            return false;
        };
        if !limits.may_join(a, b) {
            return false;
        }
        if let Some(right) = self.nodes.remove(left + 1) {
            self.nodes[left].join(right);
        }
        true
    }

    /// Removes up to `max` elements equal to `bytes`, nearest to `from` first,
    /// and returns how many went.
    pub fn remove(&mut self, bytes: &[u8], from: End, max: usize, limits: &EncodingLimits) -> usize {
        let wanted = SearchItem::new(bytes);
        let limits = NodeLimits::from(limits);
        let mut removed = 0;
        let mut unseen = self.nodes.len();
        let mut index = if from == End::Head {
            0
        } else {
            unseen.saturating_sub(1)
        };
        while unseen > 0 && removed < max {
            unseen -= 1;
            let gone = self.nodes[index].remove_matching(&wanted, from, max - removed);
            removed += gone;
            self.len -= gone;
            let emptied = self.nodes[index].count() == 0;
            // A node made thin joins the one just passed, so that scattered
            // removals do not leave a row of nearly empty nodes.
            let joined = match from {
                _ if gone == 0 => false,
                _ if emptied => {
                    self.drop_node(index);
                    false
                }
                End::Head => index > 0 && self.join(index - 1, limits),
                End::Tail => self.join(index, limits),
            };
            match from {
                End::Head => index += usize::from(!emptied && !joined),
                End::Tail => index = index.saturating_sub(1),
            }
        }
        removed
    }

    /// Removes up to `n` elements from index `start` on and returns how many went.
    pub fn remove_range(&mut self, start: usize, n: usize) -> usize {
        let n = n.min(self.len.saturating_sub(start));
        if n == self.len {
            *self = List::new();
            return n;
        }
        let Some(Place {
            mut node, mut offset, ..
        }) = self.locate(start)
        else {
            return 0;
        };
        let mut left = n;
        let mut emptied = 0..0;
        while left > 0 {
            let here = left.min(self.nodes[node].count() - offset);
            if here == self.nodes[node].count() {
                // Whole nodes go at once below: one at a time would move the row each time.
                if emptied.is_empty() {
                    emptied.start = node;
                }
                emptied.end = node + 1;
            } else {
                self.nodes[node].remove_range(offset, here);
            }
            left -= here;
            node += 1;
            offset = 0;
        }
        self.nodes.drain(emptied);
        self.len -= n;
        n
    }

    /// Keeps the `n` elements from index `start` on and removes all others.
    pub fn keep_range(&mut self, start: usize, n: usize) {
        let n = n.min(self.len.saturating_sub(start));
        self.remove_range(start + n, self.len);
        self.remove_range(0, start);
    }
}
