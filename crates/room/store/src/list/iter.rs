//! Walks over the elements of a list.

use std::collections::vec_deque;
use std::iter::Rev;

use super::node::{Body, Node};
use super::{List, Place};
use crate::listpack::{self, Item};

/// Elements from head to tail.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    /// Nodes after the one being walked.
    nodes: vec_deque::Iter<'a, Node>,
    packed: Option<listpack::Iter<'a>>,
    plain: Option<&'a [u8]>,
}

/// Elements from tail to head.
#[derive(Clone, Debug)]
pub struct IterRev<'a> {
    /// Nodes before the one being walked.
    nodes: Rev<vec_deque::Iter<'a, Node>>,
    packed: Option<listpack::IterRev<'a>>,
    plain: Option<&'a [u8]>,
}

impl List {
    /// Elements from `index` to the tail; none when it is out of range.
    pub fn iter_from(&self, index: usize) -> Iter<'_> {
        let Some(Place { node, pos, .. }) = self.locate(index) else {
            return Iter {
                nodes: self.nodes.range(..0),
                packed: None,
                plain: None,
            };
        };
        let nodes = self.nodes.range(node + 1..);
        match self.nodes[node].body() {
            Body::Packed(pack) => Iter {
                nodes,
                packed: Some(pack.iter_from(pos)),
                plain: None,
            },
            Body::Plain(bytes) => Iter {
                nodes,
                packed: None,
                plain: Some(bytes),
            },
        }
    }

    /// Elements from `index` back to the head; none when it is out of range.
    pub fn iter_rev_from(&self, index: usize) -> IterRev<'_> {
        let Some(Place { node, pos, .. }) = self.locate(index) else {
            return IterRev {
                nodes: self.nodes.range(..0).rev(),
                packed: None,
                plain: None,
            };
        };
        let nodes = self.nodes.range(..node).rev();
        match self.nodes[node].body() {
            Body::Packed(pack) => IterRev {
                nodes,
                packed: Some(pack.iter_rev_from(pos)),
                plain: None,
            },
            Body::Plain(bytes) => IterRev {
                nodes,
                packed: None,
                plain: Some(bytes),
            },
        }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            if let Some(item) = self.packed.as_mut().and_then(Iterator::next) {
                return Some(item);
            }
            if let Some(bytes) = self.plain.take() {
                return Some(Item::Str(bytes));
            }
            match self.nodes.next()?.body() {
                Body::Packed(pack) => self.packed = Some(pack.iter()),
                Body::Plain(bytes) => self.plain = Some(bytes),
            }
        }
    }
}

impl<'a> Iterator for IterRev<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            if let Some(item) = self.packed.as_mut().and_then(Iterator::next) {
                return Some(item);
            }
            if let Some(bytes) = self.plain.take() {
                return Some(Item::Str(bytes));
            }
            match self.nodes.next()?.body() {
                Body::Packed(pack) => self.packed = Some(pack.iter_rev()),
                Body::Plain(bytes) => self.plain = Some(bytes),
            }
        }
    }
}
