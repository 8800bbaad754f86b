//! One node of a list, and when it is full.

use super::End;
use crate::limits::EncodingLimits;
use crate::listpack::{Item, Listpack, Pos, SearchItem};

/// Bytes a node may take when the setting counts entries instead of bytes.
const COUNTED_NODE_BYTES_MAX: usize = 8192;

/// What an entry is taken to add besides its text.
const ENTRY_OVERHEAD_BYTES: usize = 8;

/// Elements from this size on are nodes of their own.
const PLAIN_BYTES_MIN: usize = 1 << 30;

/// Nodes from which on one unfilled node is a small part of a list.
const LONG_ROW_NODES: usize = 8;

/// Largest entry count the setting can ask for.
const NODE_ENTRIES_MAX: i32 = (1 << 15) - 1;

/// When a node is full.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeLimits {
    bytes: Option<usize>,
    entries: usize,
    pub(super) plain_bytes_min: usize,
}

impl From<&EncodingLimits> for NodeLimits {
    #[inline]
    fn from(limits: &EncodingLimits) -> NodeLimits {
        let size = limits.list_max_listpack_size.clamp(-5, NODE_ENTRIES_MAX);
        NodeLimits {
            bytes: (size < 0).then(|| 4096 << (-size - 1)),
            entries: size.max(0) as usize,
            plain_bytes_min: PLAIN_BYTES_MIN,
        }
    }
}

impl NodeLimits {
    fn allow(&self, bytes: usize, entries: usize) -> bool {
        match self.bytes {
            Some(max) => bytes <= max,
            None => bytes <= COUNTED_NODE_BYTES_MAX && entries <= self.entries,
        }
    }

    /// Room to give at once to the next node of a row of `nodes`.
    ///
    /// Growing a node step by step costs more than filling it, but in a short
    /// list the unfilled half of a node would be much of the whole.
    pub(super) fn next_node_capacity(&self, nodes: usize) -> usize {
        match self.bytes {
            Some(bytes) if nodes >= LONG_ROW_NODES => bytes - Listpack::EMPTY_BYTES,
            _ => 0,
        }
    }

    /// Returns whether an element of `size` bytes is to be a node of its own.
    pub(super) fn is_plain(&self, size: usize) -> bool {
        size >= self.plain_bytes_min
    }

    /// Returns whether `node` has room for an element of `size` bytes.
    #[inline]
    pub(super) fn has_room(&self, node: &Node, size: usize) -> bool {
        match &node.body {
            Body::Packed(pack) if !self.is_plain(size) => {
                self.allow(pack.bytes_len() + size + ENTRY_OVERHEAD_BYTES, node.count() + 1)
            }
            _ => false,
        }
    }

    /// Returns whether two neighbours would fit in one node.
    pub(super) fn may_join(&self, left: &Node, right: &Node) -> bool {
        match (&left.body, &right.body) {
            (Body::Packed(a), Body::Packed(b)) => {
                let bytes = (a.bytes_len() + b.bytes_len()).saturating_sub(11);
                self.allow(bytes, left.count() + right.count())
            }
            _ => false,
        }
    }
}

/// A listpack with its count, or one large element.
#[derive(Clone, Debug)]
pub(super) struct Node {
    body: Body,
    /// Kept here so that finding an index does not touch every listpack.
    count: u32,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Packed(Listpack),
    Plain(Box<[u8]>),
}

impl Node {
    pub(super) fn packed(pack: Listpack) -> Node {
        Node {
            count: pack.len() as u32,
            body: Body::Packed(pack),
        }
    }

    pub(super) fn plain(bytes: &[u8]) -> Node {
        Node {
            count: 1,
            body: Body::Plain(bytes.into()),
        }
    }

    /// Returns a node of one element, in the form its size asks for.
    pub(super) fn of_one(bytes: &[u8], limits: NodeLimits) -> Node {
        Node::of_one_with_capacity(bytes, limits, 0)
    }

    /// Returns a node of one element with room for `spare` bytes of entries.
    pub(super) fn of_one_with_capacity(bytes: &[u8], limits: NodeLimits, spare: usize) -> Node {
        if limits.is_plain(bytes.len()) {
            return Node::plain(bytes);
        }
        let fills_node = bytes.len() > spare / 2;
        let mut pack = Listpack::with_capacity(if fills_node { 0 } else { spare });
        pack.push_back(bytes);
        if fills_node && bytes.len() > 1024 {
            pack.shrink_to_fit();
        }
        Node {
            body: Body::Packed(pack),
            count: 1,
        }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    pub(super) fn body(&self) -> &Body {
        &self.body
    }

    pub(super) fn mem_bytes(&self) -> usize {
        match &self.body {
            Body::Packed(pack) => pack.mem_bytes(),
            Body::Plain(bytes) => bytes.len(),
        }
    }

    /// Adds at one end of a packed node.
    #[inline]
    pub(super) fn push(&mut self, end: End, bytes: &[u8]) {
        match (self.pack_mut(), end) {
            (pack, End::Head) => pack.push_front(bytes),
            (pack, End::Tail) => pack.push_back(bytes),
        }
        self.count += 1;
    }

    #[inline]
    pub(super) fn end_item(&self, end: End) -> Item<'_> {
        let pos = match (&self.body, end) {
            (Body::Packed(pack), End::Head) => pack.first(),
            (Body::Packed(pack), End::Tail) => pack.last(),
            (Body::Plain(_), _) => None,
        };
        self.item_at(pos)
    }

    pub(super) fn drop_end(&mut self, end: End) {
        if let Body::Packed(pack) = &mut self.body {
            let pos = match end {
                End::Head => pack.first(),
                End::Tail => pack.last(),
            };
            if let Some(pos) = pos {
                pack.remove(pos);
            }
        }
        self.count -= 1;
    }

    #[inline]
    pub(super) fn item_at(&self, pos: Option<Pos>) -> Item<'_> {
        match (&self.body, pos) {
            (Body::Packed(pack), Some(pos)) => pack.get(pos),
            (Body::Plain(bytes), _) => Item::Str(bytes),
            (Body::Packed(_), None) => unreachable!("a place in a packed node has a position"),
        }
    }

    /// Returns the position of the element at `offset`, `None` in a plain node.
    pub(super) fn seek(&self, offset: usize) -> Option<Pos> {
        match &self.body {
            Body::Packed(pack) => pack.seek(offset as isize),
            Body::Plain(_) => None,
        }
    }

    pub(super) fn find(&self, wanted: &SearchItem<'_>) -> Option<(usize, Option<Pos>)> {
        let Body::Packed(pack) = &self.body else {
            return wanted.matches(self.item_at(None)).then_some((0, None));
        };
        let mut next = pack.first();
        let mut offset = 0;
        while let Some(pos) = next {
            if wanted.matches(pack.get(pos)) {
                return Some((offset, Some(pos)));
            }
            next = pack.next(pos);
            offset += 1;
        }
        None
    }

    /// Puts an element before the one at `pos`, or after it.
    pub(super) fn insert(&mut self, pos: Option<Pos>, after: bool, bytes: &[u8]) {
        let pack = self.pack_mut();
        let pos = match pos {
            Some(pos) if after => pack.next(pos).unwrap_or(pack.end()),
            Some(pos) => pos,
            None => unreachable!("a place in a packed node has a position"),
        };
        pack.insert(pos, bytes);
        self.count += 1;
    }

    /// Overwrites the element at `pos`; a plain node becomes the new element's form.
    pub(super) fn replace(&mut self, pos: Option<Pos>, bytes: &[u8], limits: NodeLimits) {
        match (&mut self.body, pos) {
            (Body::Packed(pack), Some(pos)) if self.count > 1 || !limits.is_plain(bytes.len()) => {
                pack.replace(pos, bytes);
            }
            _ => *self = Node::of_one(bytes, limits),
        }
    }

    /// Returns the bytes of the node if the element at `pos` became `size` bytes long.
    pub(super) fn size_after_replace(&self, pos: Option<Pos>, size: usize) -> usize {
        match (&self.body, pos) {
            (Body::Packed(pack), Some(pos)) => pack.bytes_len() - pack.entry_size(pos) + size + 16,
            _ => size,
        }
    }

    /// Keeps the first `count` elements and returns the others.
    pub(super) fn split_off(&mut self, count: usize) -> Node {
        let pack = self.pack_mut();
        let at = pack.seek(count as isize).unwrap_or(pack.end());
        let tail = pack.split_off(at);
        pack.shrink_to_fit();
        let moved = self.count - count as u32;
        self.count = count as u32;
        Node {
            body: Body::Packed(tail),
            count: moved,
        }
    }

    /// Appends the elements of the right-hand neighbour.
    pub(super) fn join(&mut self, right: Node) {
        let (Body::Packed(left), Body::Packed(pack)) = (&mut self.body, right.body) else {
            unreachable!("only packed nodes are joined");
        };
        left.append(&pack);
        self.count += right.count;
    }

    /// Removes `n` elements from `offset` on.
    pub(super) fn remove_range(&mut self, offset: usize, n: usize) {
        if let Body::Packed(pack) = &mut self.body {
            pack.remove_range(offset, n);
        }
        self.count -= n as u32;
    }

    /// Removes up to `max` elements that match, nearest to `from` first.
    pub(super) fn remove_matching(&mut self, wanted: &SearchItem<'_>, from: End, max: usize) -> usize {
        let mut removed = 0;
        match &mut self.body {
            Body::Plain(bytes) => removed = usize::from(max > 0 && wanted.matches(Item::Str(bytes))),
            Body::Packed(pack) => {
                let mut next = if from == End::Head {
                    pack.first()
                } else {
                    pack.last()
                };
                while let Some(pos) = next.filter(|_| removed < max) {
                    // Walking back, what was read stays valid: only later bytes move.
                    let prev = if from == End::Tail { pack.prev(pos) } else { None };
                    if wanted.matches(pack.get(pos)) {
                        let after = pack.remove(pos);
                        removed += 1;
                        next = if from == End::Head { after } else { prev };
                    } else {
                        next = if from == End::Head { pack.next(pos) } else { prev };
                    }
                }
            }
        }
        self.count -= removed as u32;
        removed
    }

    /// Gives back spare capacity of a node nothing will be added to soon.
    pub(super) fn shrink(&mut self) {
        if let Body::Packed(pack) = &mut self.body {
            pack.shrink_to_fit();
        }
    }

    fn pack_mut(&mut self) -> &mut Listpack {
        match &mut self.body {
            Body::Packed(pack) => pack,
            Body::Plain(_) => unreachable!("a plain node never has room"),
        }
    }
}
