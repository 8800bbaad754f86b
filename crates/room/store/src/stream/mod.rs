//! The stream type: an append-only log of entries with consumer groups.
//!
//! Entries live in blocks ([`node`]), each one listpack in the layout Redis
//! gives its stream nodes, so that a dump copies them. Blocks stand in a deque
//! sorted by id: entries arrive at its end and are trimmed from its front.
//! A block closes at the size or entry count of [`EncodingLimits`].

mod counts;
mod group;
mod id;
mod node;
mod range;
mod trim;

use std::collections::{BTreeMap, VecDeque};

use counts::Counts;
pub use group::{Consumer, ConsumerId, ENTRIES_READ_UNKNOWN, Group, Pending};
pub use id::{PartialId, StreamId};
pub use node::Entry;
pub(crate) use node::Node;
pub use range::Range;
pub use trim::{Trim, TrimTo};

use crate::limits::EncodingLimits;

/// Most payload bytes of one entry, and most bytes of a block without another bound.
const NODE_BYTES_MAX: usize = 1 << 30;

/// A stream with its groups.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    nodes: VecDeque<Node>,
    counts: Counts,
    groups: BTreeMap<Box<[u8]>, Group>,
}

/// The id wanted for a new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewId {
    /// Now, or right after the last one when that is not in the past.
    Auto { now_ms: u64 },
    /// The next free one of this millisecond.
    InMs(u64),
    /// Exactly this one.
    Exact(StreamId),
}

/// Whether a delivery waits for its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Pending { now_ms: i64 },
    NoAck,
}

/// Why an entry was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// The id is not above the last one.
    NotAbove,
    /// The fields and values are over a gibibyte together.
    TooLarge,
    /// All sequence numbers of the wanted millisecond are used.
    SequenceUsedUp,
}

impl Stream {
    pub fn new() -> Stream {
        Stream::default()
    }

    /// Returns the number of entries, deleted ones not counted.
    #[inline]
    pub fn len(&self) -> u64 {
        self.counts.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.counts.len == 0
    }

    pub fn encoding(&self) -> &'static str {
        "stream"
    }

    /// Id of the first entry, or 0-0.
    pub fn first_id(&self) -> StreamId {
        self.counts.first_id
    }

    /// Highest id ever given out. New entries come above it.
    #[inline]
    pub fn last_id(&self) -> StreamId {
        self.counts.last_id
    }

    /// Highest id that was deleted by name (not by trimming).
    pub fn max_deleted_id(&self) -> StreamId {
        self.counts.max_deleted_id
    }

    /// Returns how many entries were ever added.
    pub fn entries_added(&self) -> u64 {
        self.counts.entries_added
    }

    /// Sets the last id, which the caller knows to be at or above the last entry.
    pub fn set_last_id(&mut self, id: StreamId) {
        self.counts.last_id = id;
    }

    pub fn set_max_deleted_id(&mut self, id: StreamId) {
        self.counts.max_deleted_id = id;
    }

    pub fn set_entries_added(&mut self, count: u64) {
        self.counts.entries_added = count;
    }

    /// Appends an entry and returns its id.
    pub fn add<'a>(
        &mut self,
        id: NewId,
        pairs: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
        limits: &EncodingLimits,
    ) -> Result<StreamId, AddError> {
        let id = self.choose_id(id)?;
        let bytes = pairs
            .clone()
            .map(|(field, value)| field.len() + value.len())
            .sum::<usize>();
        if bytes > NODE_BYTES_MAX {
            return Err(AddError::TooLarge);
        }
        if !self.last_node_takes(bytes, limits) {
            if let Some(full) = self.nodes.back_mut() {
                full.pack.shrink_to_fit();
            }
            let node = Node::new(id, pairs.clone().map(|(field, _)| field));
            self.insert_node(node).push(id, pairs);
        } else if let Some(node) = self.nodes.back_mut() {
            node.push(id, pairs);
        }
        self.counts.added(id);
        Ok(id)
    }

    /// Puts a block where its id belongs: at the end, unless XSETID went back behind a last block of
    /// deleted entries. One of the same id has nothing left and is replaced.
    fn insert_node(&mut self, node: Node) -> &mut Node {
        let at = self.nodes.partition_point(|other| other.id < node.id);
        if self.nodes.get(at).is_some_and(|other| other.id == node.id) {
            self.nodes[at] = node;
        } else {
            self.nodes.insert(at, node);
        }
        &mut self.nodes[at]
    }

    fn choose_id(&self, wanted: NewId) -> Result<StreamId, AddError> {
        let last_id = self.counts.last_id;
        let id = match wanted {
            NewId::Auto { now_ms } if now_ms > last_id.ms => StreamId::new(now_ms, 0),
            NewId::Auto { .. } => last_id.next().ok_or(AddError::NotAbove)?,
            NewId::InMs(ms) if ms == last_id.ms => {
                let seq = last_id.seq.checked_add(1).ok_or(AddError::SequenceUsedUp)?;
                StreamId::new(ms, seq)
            }
            NewId::InMs(ms) => StreamId::new(ms, 0),
            NewId::Exact(id) => id,
        };
        if id > last_id {
            Ok(id)
        } else {
            Err(AddError::NotAbove)
        }
    }

    fn last_node_takes(&self, bytes: usize, limits: &EncodingLimits) -> bool {
        let Some(node) = self.nodes.back() else {
            return false;
        };
        let bytes_max = match limits.stream_node_max_bytes {
            0 => NODE_BYTES_MAX,
            max => max.min(NODE_BYTES_MAX),
        };
        if node.pack.bytes_len() + bytes >= bytes_max {
            return false;
        }
        let head = node.head();
        limits.stream_node_max_entries == 0
            || head.live + head.deleted < limits.stream_node_max_entries as u64
    }

    /// Returns the entries from `start` to `end`, both included, in order.
    pub fn range(&self, start: StreamId, end: StreamId) -> Range<'_> {
        Range::forward(&self.nodes, start, end)
    }

    /// Returns the same entries as [`Stream::range`], last first.
    pub fn range_rev(&self, start: StreamId, end: StreamId) -> Range<'_> {
        Range::backward(&self.nodes, start, end)
    }

    /// Returns one entry.
    pub fn get(&self, id: StreamId) -> Option<Entry<'_>> {
        self.range(id, id).next()
    }

    /// Returns the last entry there still is.
    pub fn last_entry(&self) -> Option<Entry<'_>> {
        self.range_rev(StreamId::MIN, StreamId::MAX).next()
    }

    /// Returns the groups in the order of their names.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &Group)> {
        self.groups.iter().map(|(name, group)| (&**name, group))
    }

    #[inline]
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    #[inline]
    pub fn group_mut(&mut self, name: &[u8]) -> Option<&mut Group> {
        self.groups.get_mut(name)
    }

    /// Makes a group, or returns false when the name is taken.
    pub fn create_group(&mut self, name: &[u8], last_id: StreamId, entries_read: i64) -> bool {
        if self.groups.contains_key(name) {
            return false;
        }
        self.groups.insert(name.into(), Group::new(last_id, entries_read));
        true
    }

    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        self.groups.remove(name).is_some()
    }

    /// Returns how many entries were added up to and with `id`, when that can be told without counting.
    pub fn entries_read_at(&self, id: StreamId) -> Option<u64> {
        self.counts.entries_read_at(id)
    }

    /// Returns how many entries a group has not read yet, when that can be told.
    pub fn lag(&self, group: &Group) -> Option<i64> {
        self.counts.lag(group)
    }

    /// Notes that a group has handed these new entries to a consumer: they are pending from now on,
    /// unless the consumer does not acknowledge.
    pub fn deliver(&mut self, group: &[u8], ids: &[StreamId], to: ConsumerId, delivery: Delivery) {
        let Some(group) = self.groups.get_mut(group) else {
            return;
        };
        for &id in ids {
            self.counts.note_read(group, id);
            if let Delivery::Pending { now_ms } = delivery {
                group.set_pending(id, Pending::new(to, now_ms));
            }
        }
    }

    /// Blocks in order.
    pub(crate) fn nodes(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.nodes.iter()
    }

    /// Returns the id that the first block starts at: no entry and no trace of one lies below it.
    pub fn first_block_id(&self) -> Option<StreamId> {
        self.nodes.front().map(|node| node.id)
    }

    /// Returns the number of blocks.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Puts a stream together from blocks and counts that come from outside, or
    /// refuses when they contradict each other. Without `first_id` it is looked up.
    pub(crate) fn from_nodes(
        nodes: VecDeque<Node>,
        len: u64,
        last_id: StreamId,
        first_id: Option<StreamId>,
    ) -> Option<Stream> {
        let blocks_ordered = nodes
            .iter()
            .zip(nodes.iter().skip(1))
            .all(|(one, two)| one.id < two.id);
        let mut newest = None;
        let mut live = 0;
        for entry in Range::forward(&nodes, StreamId::MIN, StreamId::MAX) {
            if newest.is_some_and(|newest| newest >= entry.id) {
                return None;
            }
            newest = Some(entry.id);
            live += 1;
        }
        if !blocks_ordered || live != len || newest.is_some_and(|newest| newest > last_id) {
            return None;
        }
        let mut stream = Stream {
            nodes,
            ..Stream::default()
        };
        (stream.counts.len, stream.counts.last_id) = (len, last_id);
        stream.find_first_id();
        if let Some(first_id) = first_id {
            stream.counts.first_id = first_id;
        }
        Some(stream)
    }

    fn find_first_id(&mut self) {
        let first = self.range(StreamId::MIN, StreamId::MAX).next();
        self.counts.first_id = first.map_or(StreamId::MIN, |entry| entry.id);
    }

    /// Returns the bytes held, allocations included, as an estimate.
    pub fn mem_bytes(&self) -> usize {
        let nodes: usize = self.nodes.iter().map(|node| node.pack.mem_bytes()).sum();
        let groups: usize = self
            .groups
            .iter()
            .map(|(name, group)| name.len() + group.mem_bytes())
            .sum();
        size_of::<Stream>() + self.nodes.capacity() * size_of::<Node>() + nodes + groups
    }

    /// About how many allocations dropping the stream gives back.
    pub fn free_effort(&self) -> usize {
        let groups: usize = self.groups.values().map(Group::free_effort).sum();
        self.nodes.len() + groups
    }

    /// Returns how many nodes Redis's radix tree over the block ids would have, which
    /// XINFO shows: a node per block, per branching and per shared stretch of bytes.
    pub fn radix_nodes(&self) -> usize {
        let keys: Vec<_> = self.nodes.iter().map(|node| node.id.to_bytes()).collect();
        if keys.is_empty() { 1 } else { radix_nodes(&keys, 0) }
    }
}

/// Nodes of a compressed radix tree over sorted keys that agree in `depth` bytes.
fn radix_nodes(keys: &[[u8; 16]], depth: usize) -> usize {
    let (first, last) = (&keys[0][depth..], &keys[keys.len() - 1][depth..]);
    let shared = first.iter().zip(last).take_while(|(one, two)| one == two).count();
    let stretch = usize::from(shared > 0);
    if keys.len() == 1 {
        return stretch + 1;
    }
    let at = depth + shared;
    let branches = keys.chunk_by(|one, two| one[at] == two[at]);
    stretch + 1 + branches.map(|branch| radix_nodes(branch, at + 1)).sum::<usize>()
}

#[cfg(test)]
mod tests;
