//! The list type: a deque of listpacks.
//!
//! A list is a row of nodes, each a listpack of a few kilobytes, so an element
//! costs its own bytes plus two, ends are cheap to push and pop, and an index is
//! found by passing over whole nodes from the nearer end. When a node is full and
//! how nodes are cut and joined on insert follow Redis's rules, so that a DUMP
//! has the same nodes. An element too large for any listpack is a node of its
//! own, stored as it is. Nodes are never compressed.

mod edit;
mod iter;
mod node;

use std::collections::VecDeque;

pub use iter::{Iter, IterRev};
use node::{Body, Node, NodeLimits};

use crate::limits::EncodingLimits;
use crate::listpack::{Item, Listpack, Pos, SearchItem};

/// A list of byte strings.
#[derive(Clone, Debug, Default)]
pub struct List {
    nodes: VecDeque<Node>,
    len: usize,
}

/// One end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The left end, index 0.
    Head,
    /// The right end, index -1.
    Tail,
}

/// One node as the RDB codec sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRef<'a> {
    /// Many elements.
    Packed(&'a Listpack),
    /// One large element.
    Plain(&'a [u8]),
}

/// One node handed to [`List::from_nodes`].
#[derive(Clone, Debug)]
pub enum OwnedNode {
    /// Many elements.
    Packed(Listpack),
    /// One large element.
    Plain(Vec<u8>),
}

/// Where an element lives: its node, and the place inside a packed node.
#[derive(Clone, Copy, Debug)]
struct Place {
    node: usize,
    /// Index of the element inside its node.
    offset: usize,
    /// Byte position inside a packed node; `None` in a plain one.
    pos: Option<Pos>,
}

impl List {
    /// Returns an empty list.
    pub fn new() -> List {
        List::default()
    }

    /// Builds a list from nodes read elsewhere; empty nodes are left out.
    pub fn from_nodes(nodes: impl IntoIterator<Item = OwnedNode>) -> List {
        let mut list = List::new();
        for node in nodes {
            let node = match node {
                OwnedNode::Packed(pack) => Node::packed(pack),
                OwnedNode::Plain(bytes) => Node::plain(&bytes),
            };
            if node.count() > 0 {
                list.len += node.count();
                list.add_node(list.nodes.len(), node);
            }
        }
        list
    }

    /// Returns the nodes from head to tail.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeRef<'_>> {
        self.nodes.iter().map(|node| match node.body() {
            Body::Packed(pack) => NodeRef::Packed(pack),
            Body::Plain(bytes) => NodeRef::Plain(bytes),
        })
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the answer to OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        "quicklist"
    }

    /// Estimate of the memory held, allocations included.
    pub fn mem_bytes(&self) -> usize {
        let nodes: usize = self.nodes.iter().map(Node::mem_bytes).sum();
        size_of::<List>() + self.nodes.capacity() * size_of::<Node>() + nodes
    }

    /// Returns how many allocations a drop gives back.
    pub fn free_effort(&self) -> usize {
        self.nodes.len()
    }

    /// Adds an element at one end.
    #[inline]
    pub fn push(&mut self, end: End, bytes: &[u8], limits: &EncodingLimits) {
        self.push_within(end, bytes, NodeLimits::from(limits));
    }

    /// Adds an element before all others.
    #[inline]
    pub fn push_front(&mut self, bytes: &[u8], limits: &EncodingLimits) {
        self.push(End::Head, bytes, limits);
    }

    /// Adds an element after all others.
    #[inline]
    pub fn push_back(&mut self, bytes: &[u8], limits: &EncodingLimits) {
        self.push(End::Tail, bytes, limits);
    }

    /// Returns the element at one end.
    #[inline]
    pub fn peek(&self, end: End) -> Option<Item<'_>> {
        match end {
            End::Head => self.nodes.front().map(|node| node.end_item(End::Head)),
            End::Tail => self.nodes.back().map(|node| node.end_item(End::Tail)),
        }
    }

    /// Drops the element at one end.
    pub fn drop_end(&mut self, end: End) {
        let index = match end {
            End::Head => 0,
            End::Tail => self.nodes.len().saturating_sub(1),
        };
        let Some(node) = self.nodes.get_mut(index) else {
            return;
        };
        node.drop_end(end);
        self.len -= 1;
        if node.count() == 0 {
            self.drop_node(index);
        }
    }

    /// Takes the element at one end.
    pub fn pop(&mut self, end: End) -> Option<Vec<u8>> {
        let bytes = self.peek(end)?.to_vec();
        self.drop_end(end);
        Some(bytes)
    }

    /// Takes the first element.
    #[inline]
    pub fn pop_front(&mut self) -> Option<Vec<u8>> {
        self.pop(End::Head)
    }

    /// Takes the last element.
    #[inline]
    pub fn pop_back(&mut self) -> Option<Vec<u8>> {
        self.pop(End::Tail)
    }

    /// Returns the element at an index, counted from the end when negative.
    #[inline]
    pub fn get(&self, index: i64) -> Option<Item<'_>> {
        let place = self.locate(self.absolute(index)?)?;
        Some(self.item_at(place))
    }

    /// Overwrites the element at an index; returns whether there was one.
    pub fn set(&mut self, index: i64, bytes: &[u8], limits: &EncodingLimits) -> bool {
        self.set_within(index, bytes, NodeLimits::from(limits))
    }

    /// Puts an element before the first one equal to `pivot`; returns whether
    /// there is such a one.
    pub fn insert_before(&mut self, pivot: &[u8], bytes: &[u8], limits: &EncodingLimits) -> bool {
        let Some(place) = self.find(pivot) else {
            return false;
        };
        self.insert_at(place, false, bytes, NodeLimits::from(limits));
        true
    }

    /// Puts an element after the first one equal to `pivot`; returns whether
    /// there is such a one.
    pub fn insert_after(&mut self, pivot: &[u8], bytes: &[u8], limits: &EncodingLimits) -> bool {
        let Some(place) = self.find(pivot) else {
            return false;
        };
        self.insert_at(place, true, bytes, NodeLimits::from(limits));
        true
    }

    /// Returns all elements, head to tail.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(0)
    }

    /// Returns all elements, tail to head.
    pub fn iter_rev(&self) -> IterRev<'_> {
        self.iter_rev_from(self.len.wrapping_sub(1))
    }

    /// Returns the indexes of the elements equal to `wanted`, nearest to `from` first, among
    /// the `scan_max` elements nearest to `from`.
    pub fn positions<'a>(
        &'a self,
        wanted: &'a [u8],
        from: End,
        scan_max: usize,
    ) -> Box<dyn Iterator<Item = usize> + 'a> {
        let wanted = SearchItem::new(wanted);
        let hit = move |(index, item): (usize, Item<'_>)| wanted.matches(item).then_some(index);
        match from {
            End::Head => Box::new(self.iter().enumerate().take(scan_max).filter_map(hit)),
            End::Tail => {
                let last = self.len.wrapping_sub(1);
                let from_tail = self.iter_rev().enumerate().take(scan_max);
                Box::new(
                    from_tail
                        .map(move |(back, item)| (last - back, item))
                        .filter_map(hit),
                )
            }
        }
    }

    /// Turns an index that may count from the end into one from the head.
    fn absolute(&self, index: i64) -> Option<usize> {
        let index = if index < 0 {
            index.checked_add(self.len as i64)?
        } else {
            index
        };
        usize::try_from(index).ok().filter(|&index| index < self.len)
    }

    /// Finds the node and place of an index by passing over whole nodes.
    fn locate(&self, index: usize) -> Option<Place> {
        if index >= self.len {
            return None;
        }
        let (node, offset) = if index < self.len / 2 {
            let mut before = 0;
            let node = self.nodes.iter().position(|node| {
                before += node.count();
                before > index
            })?;
            (node, index - (before - self.nodes[node].count()))
        } else {
            let mut before = self.len;
            let node = self.nodes.iter().rposition(|node| {
                before -= node.count();
                before <= index
            })?;
            (node, index - before)
        };
        Some(Place {
            node,
            offset,
            pos: self.nodes[node].seek(offset),
        })
    }

    fn item_at(&self, place: Place) -> Item<'_> {
        self.nodes[place.node].item_at(place.pos)
    }

    /// Finds the first element equal to `bytes`.
    fn find(&self, bytes: &[u8]) -> Option<Place> {
        let wanted = SearchItem::new(bytes);
        self.nodes.iter().enumerate().find_map(|(index, node)| {
            let (offset, pos) = node.find(&wanted)?;
            Some(Place {
                node: index,
                offset,
                pos,
            })
        })
    }

    /// Puts a node in the row. The first one gets a row of exactly its size:
    /// most lists never have a second.
    fn add_node(&mut self, index: usize, node: Node) {
        if self.nodes.capacity() == 0 {
            self.nodes = VecDeque::with_capacity(1);
        }
        self.nodes.insert(index, node);
    }

    fn drop_node(&mut self, index: usize) {
        self.nodes.remove(index);
        if self.nodes.capacity() > 16 && self.nodes.len() < self.nodes.capacity() / 4 {
            self.nodes.shrink_to(self.nodes.len() * 2);
        }
    }
}

impl PartialEq for List {
    fn eq(&self, other: &List) -> bool {
        self.len == other.len && self.iter().zip(other.iter()).all(|(ours, theirs)| ours == theirs)
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = Item<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

#[cfg(test)]
mod tests;
