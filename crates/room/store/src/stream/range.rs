//! Walking a range of ids in either direction.

use std::collections::VecDeque;

use super::StreamId;
use super::node::{Entry, Node, Walk};

/// Yields the live entries of an id range.
#[derive(Clone, Debug)]
pub struct Range<'a> {
    nodes: &'a VecDeque<Node>,
    /// The block to walk next, when there is one.
    next_node: Option<usize>,
    walk: Option<Walk<'a>>,
    start: StreamId,
    end: StreamId,
    backward: bool,
}

impl<'a> Range<'a> {
    pub(super) fn forward(nodes: &'a VecDeque<Node>, start: StreamId, end: StreamId) -> Self {
        Range {
            nodes,
            next_node: Some(node_holding(nodes, start)),
            walk: None,
            start,
            end,
            backward: false,
        }
    }

    pub(super) fn backward(nodes: &'a VecDeque<Node>, start: StreamId, end: StreamId) -> Self {
        Range {
            nodes,
            next_node: Some(node_holding(nodes, end)),
            walk: None,
            start,
            end,
            backward: true,
        }
    }

    /// Index of the block that holds the entry last returned. Forward walks only.
    pub(super) fn node_index(&self) -> usize {
        self.next_node.map_or(0, |next| next.saturating_sub(1))
    }

    fn next_walk(&mut self) -> Option<Walk<'a>> {
        let index = self.next_node?;
        let node = self.nodes.get(index)?;
        Some(if self.backward {
            self.next_node = index.checked_sub(1);
            Walk::backward(node)
        } else {
            self.next_node = Some(index + 1);
            Walk::forward(node)
        })
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            let Some(walk) = &mut self.walk else {
                self.walk = Some(self.next_walk()?);
                continue;
            };
            let Some(entry) = walk.next() else {
                self.walk = None;
                continue;
            };
            // Deleted entries may be out of order: XSETID can go back behind them.
            if entry.is_deleted() {
                continue;
            }
            let (not_yet, over) = if self.backward {
                (entry.id > self.end, entry.id < self.start)
            } else {
                (entry.id < self.start, entry.id > self.end)
            };
            if over {
                self.walk = None;
                self.next_node = None;
                return None;
            }
            if !not_yet {
                return Some(entry);
            }
        }
    }
}

/// Returns the last block that starts at or below `id`, or the first block.
pub(super) fn node_holding(nodes: &VecDeque<Node>, id: StreamId) -> usize {
    nodes.partition_point(|node| node.id <= id).saturating_sub(1)
}
