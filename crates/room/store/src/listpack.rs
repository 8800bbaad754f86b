//! Redis's listpack: many small strings and integers in one block of bytes.
//!
//! Six bytes of header (total bytes and element count, little endian), the
//! entries, and one terminator byte. The layout is Redis's to the byte, so a
//! DUMP of a small collection copies the block. See `entry` for the entries.
//!
//! Positions are byte offsets: any change before or at a position makes it
//! stale, and using a stale one gives a wrong answer or a panic, never undefined
//! behaviour.

mod entry;
mod item;
mod iter;

use crate::compact_vec::CompactVec;
use entry::Encoded;
pub use entry::parse_int;
pub use item::{Item, ItemBuf, SearchItem};
pub use iter::{Iter, IterRev};

const HEADER_BYTES: usize = 6;
const TERMINATOR: u8 = 0xff;

/// The header count that means "more than fit here: walk and see".
const COUNT_UNKNOWN: usize = u16::MAX as usize;

/// A block of strings and integers in Redis's listpack format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listpack(CompactVec);

/// Where an entry starts: an offset into the listpack's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pos(u32);

impl Default for Listpack {
    fn default() -> Self {
        Listpack::new()
    }
}

impl Listpack {
    /// Most bytes a listpack may take, as Redis bounds it.
    pub const BYTES_MAX: usize = 1 << 30;

    /// Bytes of a listpack without elements.
    pub const EMPTY_BYTES: usize = HEADER_BYTES + 1;

    /// Returns an empty listpack.
    pub fn new() -> Listpack {
        Listpack::with_capacity(0)
    }

    /// Returns an empty listpack with room for `bytes` bytes of entries.
    pub fn with_capacity(bytes: usize) -> Listpack {
        let mut buf = Vec::with_capacity(size_class(bytes + Listpack::EMPTY_BYTES));
        buf.extend_from_slice(&[Listpack::EMPTY_BYTES as u8, 0, 0, 0, 0, 0, TERMINATOR]);
        Listpack(buf.into())
    }

    /// Takes bytes from outside, or returns `None` unless every entry, backlen,
    /// the byte total and the count are right.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Listpack> {
        let end = bytes.len().checked_sub(1)?;
        let total = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        if end < HEADER_BYTES || total != bytes.len() || bytes[end] != TERMINATOR {
            return None;
        }
        let mut at = HEADER_BYTES;
        let mut found = 0;
        while at < end {
            at += entry::checked_entry_size(&bytes, at, end)?;
            found += 1;
        }
        let pack = Listpack(bytes.into());
        let count = pack.header_count();
        (count == COUNT_UNKNOWN || count == found).then_some(pack)
    }

    /// Returns the whole block, header and terminator included.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Gives up the block.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.into_vec()
    }

    /// Returns the size of the block in bytes.
    #[inline]
    pub fn bytes_len(&self) -> usize {
        self.0.len()
    }

    /// Returns the bytes this listpack has allocated.
    #[inline]
    pub fn mem_bytes(&self) -> usize {
        self.0.capacity()
    }

    /// Returns the number of elements; walks them when there are 65535 or more.
    #[inline]
    pub fn len(&self) -> usize {
        match self.header_count() {
            COUNT_UNKNOWN => self.walk_count(),
            count => count,
        }
    }

    /// Returns whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len() == Listpack::EMPTY_BYTES
    }

    /// Appends an element.
    #[inline]
    pub fn push_back(&mut self, bytes: &[u8]) {
        self.append_encoded(&Encoded::bytes(bytes));
    }

    /// Appends an integer.
    #[inline]
    pub fn push_back_int(&mut self, int: i64) {
        self.append_encoded(&Encoded::int(int));
    }

    /// Puts an element before all others.
    pub fn push_front(&mut self, bytes: &[u8]) {
        self.insert(Pos(HEADER_BYTES as u32), bytes);
    }

    /// Puts an element before the one at `pos`, which is the position of the new
    /// element afterwards; `end()` appends.
    pub fn insert(&mut self, pos: Pos, bytes: &[u8]) {
        self.splice(pos, 0, &Encoded::bytes(bytes));
        self.add_to_count(1);
    }

    /// Puts an integer before the element at `pos`.
    pub fn insert_int(&mut self, pos: Pos, int: i64) {
        self.splice(pos, 0, &Encoded::int(int));
        self.add_to_count(1);
    }

    /// Overwrites the element at `pos`; in place when both take the same room.
    pub fn replace(&mut self, pos: Pos, bytes: &[u8]) -> Pos {
        self.splice(pos, self.entry_size(pos), &Encoded::bytes(bytes));
        pos
    }

    /// Overwrites the element at `pos` with an integer.
    pub fn replace_int(&mut self, pos: Pos, int: i64) -> Pos {
        self.splice(pos, self.entry_size(pos), &Encoded::int(int));
        pos
    }

    /// Removes the element at `pos` and returns the position of the one after it.
    pub fn remove(&mut self, pos: Pos) -> Option<Pos> {
        self.remove_n(pos, 1)
    }

    /// Removes up to `n` elements from `pos` on and returns the position of the
    /// one after them.
    pub fn remove_n(&mut self, pos: Pos, n: usize) -> Option<Pos> {
        let mut end = pos.at();
        let mut removed = 0;
        while removed < n && self.0[end] != TERMINATOR {
            end += entry::entry_size(&self.0, end);
            removed += 1;
        }
        self.cut(pos.at(), end, removed);
        self.at_or_end(pos.at())
    }

    /// Removes up to `n` elements from the `index`-th on.
    pub fn remove_range(&mut self, index: usize, n: usize) {
        if let Some(pos) = isize::try_from(index).ok().and_then(|index| self.seek(index)) {
            self.remove_n(pos, n);
        }
    }

    /// Drops all elements and keeps the allocation.
    pub fn clear(&mut self) {
        self.cut(HEADER_BYTES, self.0.len() - 1, self.len());
    }

    /// Appends all elements of `other`.
    pub fn append(&mut self, other: &Listpack) {
        let (ours, theirs) = (self.header_count(), other.header_count());
        let entries = &other.0[HEADER_BYTES..other.0.len() - 1];
        self.reserve(entries.len());
        self.0.change(|bytes| replace_terminator(bytes, entries));
        self.write_total();
        self.write_count((ours + theirs).min(COUNT_UNKNOWN));
    }

    /// Cuts the listpack in two: elements from `pos` on move to the returned one.
    pub fn split_off(&mut self, pos: Pos) -> Listpack {
        let (before, end) = (self.len(), self.0.len() - 1);
        let entries = &self.0[pos.at()..end];
        let mut tail = Listpack::with_capacity(entries.len());
        tail.0.change(|bytes| replace_terminator(bytes, entries));
        tail.write_total();
        let moved = tail.walk_count();
        tail.write_count(moved.min(COUNT_UNKNOWN));
        self.0.change(|bytes| {
            bytes.truncate(pos.at());
            bytes.push(TERMINATOR);
        });
        self.write_total();
        self.write_count((before - moved).min(COUNT_UNKNOWN));
        tail
    }

    /// Returns the position of the first element.
    #[inline]
    pub fn first(&self) -> Option<Pos> {
        self.at_or_end(HEADER_BYTES)
    }

    /// Returns the position of the last element.
    #[inline]
    pub fn last(&self) -> Option<Pos> {
        self.prev(self.end())
    }

    /// Returns the position after the last element: `insert` there appends.
    #[inline]
    pub fn end(&self) -> Pos {
        Pos((self.0.len() - 1) as u32)
    }

    /// Returns the position of the element after the one at `pos`.
    #[inline]
    pub fn next(&self, pos: Pos) -> Option<Pos> {
        self.at_or_end(pos.at() + entry::entry_size(&self.0, pos.at()))
    }

    /// Returns the position of the element before the one at `pos`.
    #[inline]
    pub fn prev(&self, pos: Pos) -> Option<Pos> {
        if pos.at() == HEADER_BYTES {
            return None;
        }
        let size = entry::decode_backlen(&self.0, pos.at());
        Some(Pos((pos.at() - size - entry::backlen_size(size)) as u32))
    }

    /// Returns the position of the `index`-th element, counted from the end when negative
    /// (-1 is the last). Walks from the nearer end.
    pub fn seek(&self, index: isize) -> Option<Pos> {
        let count = self.header_count();
        let (mut forward, mut steps) = (index >= 0, index.unsigned_abs());
        if !forward {
            steps -= 1;
        }
        if count != COUNT_UNKNOWN {
            if steps >= count {
                return None;
            }
            if steps > count / 2 {
                forward = !forward;
                steps = count - 1 - steps;
            }
        }
        let mut pos = if forward { self.first()? } else { self.last()? };
        for _ in 0..steps {
            pos = if forward { self.next(pos)? } else { self.prev(pos)? };
        }
        Some(pos)
    }

    /// Reads the element at `pos`.
    #[inline]
    pub fn get(&self, pos: Pos) -> Item<'_> {
        entry::decode(&self.0, pos.at())
    }

    /// Finds the first element equal to `wanted` from `start` on, passing over
    /// `skip` elements after each one compared (1 for field and value pairs).
    pub fn find(&self, start: Pos, wanted: &[u8], skip: usize) -> Option<Pos> {
        let wanted = SearchItem::new(wanted);
        let buf = &self.0[..];
        let mut at = start.at();
        while buf[at] != TERMINATOR {
            if wanted.matches(entry::decode(buf, at)) {
                return Some(Pos(at as u32));
            }
            at += entry::entry_size(buf, at);
            for _ in 0..skip {
                if buf[at] == TERMINATOR {
                    return None;
                }
                at += entry::entry_size(buf, at);
            }
        }
        None
    }

    /// Returns the bytes an element of this text would add.
    pub fn encoded_size(bytes: &[u8]) -> usize {
        Encoded::bytes(bytes).size()
    }

    /// Returns spare capacity to the allocator.
    pub fn shrink_to_fit(&mut self) {
        self.0.change(Vec::shrink_to_fit);
    }

    /// Returns the size of the entry at `pos`, backlen included.
    #[inline]
    pub fn entry_size(&self, pos: Pos) -> usize {
        entry::entry_size(&self.0, pos.at())
    }

    #[inline]
    fn at_or_end(&self, at: usize) -> Option<Pos> {
        (self.0[at] != TERMINATOR).then_some(Pos(at as u32))
    }

    fn walk_count(&self) -> usize {
        let mut at = HEADER_BYTES;
        let mut count = 0;
        while self.0[at] != TERMINATOR {
            at += entry::entry_size(&self.0, at);
            count += 1;
        }
        count
    }

    #[inline]
    fn header_count(&self) -> usize {
        u16::from_le_bytes([self.0[4], self.0[5]]) as usize
    }

    #[inline]
    fn write_count(&mut self, count: usize) {
        self.0[4..6].copy_from_slice(&(count as u16).to_le_bytes());
    }

    #[inline]
    fn write_total(&mut self) {
        let total = self.0.len() as u32;
        self.0[..4].copy_from_slice(&total.to_le_bytes());
    }

    /// Adds to the header's count; reaching 65535 makes it "unknown".
    #[inline]
    fn add_to_count(&mut self, added: usize) {
        let count = self.header_count();
        if count != COUNT_UNKNOWN {
            self.write_count((count + added).min(COUNT_UNKNOWN));
        }
    }

    #[inline]
    fn append_encoded(&mut self, encoded: &Encoded<'_>) {
        self.reserve(encoded.size());
        self.0.change(|bytes| {
            bytes.pop();
            encoded.append_to(bytes, TERMINATOR);
        });
        self.write_total();
        self.add_to_count(1);
    }

    /// Puts an entry in the place of the `old` bytes at `pos`.
    fn splice(&mut self, pos: Pos, old: usize, encoded: &Encoded<'_>) {
        let (at, new, len) = (pos.at(), encoded.size(), self.0.len());
        if new > old {
            self.reserve(new - old);
            self.0.change(|bytes| bytes.resize(len + new - old, 0));
        }
        if new != old {
            self.0.copy_within(at + old..len, at + new);
            self.0.change(|bytes| bytes.truncate(len + new - old));
            self.write_total();
        }
        encoded.write_to(&mut self.0[at..at + new]);
        if new < old {
            self.give_back_slack();
        }
    }

    /// Removes the bytes `from..to`, which hold `removed` elements.
    fn cut(&mut self, from: usize, to: usize, removed: usize) {
        let len = self.0.len();
        self.0.copy_within(to..len, from);
        self.0.change(|bytes| bytes.truncate(len - (to - from)));
        self.write_total();
        match self.header_count() {
            // The shortest entry takes two bytes, so this few bytes can be counted again.
            COUNT_UNKNOWN if self.0.len() < 2 * COUNT_UNKNOWN => {
                let count = self.walk_count();
                self.write_count(count);
            }
            COUNT_UNKNOWN => (),
            count => self.write_count(count - removed),
        }
        self.give_back_slack();
    }

    /// Makes room for `extra` bytes. Doubling would waste a third of every small
    /// collection, so growth follows the allocator's size classes: steps of an
    /// eighth, which cost no memory the allocator would not round up to anyway.
    #[inline]
    fn reserve(&mut self, extra: usize) {
        let wanted = self.0.len() + extra;
        if wanted > self.0.capacity() {
            self.grow(wanted);
        }
    }

    #[cold]
    fn grow(&mut self, wanted: usize) {
        assert!(wanted <= u32::MAX as usize, "listpack past its 32-bit size");
        self.0
            .change(|bytes| bytes.reserve_exact(size_class(wanted) - bytes.len()));
    }

    /// Shrinks an allocation that is less than half used.
    #[inline]
    fn give_back_slack(&mut self) {
        if self.0.capacity() > 64 && self.0.len() * 2 < self.0.capacity() {
            self.0.change(|bytes| bytes.shrink_to(size_class(bytes.len())));
        }
    }
}

impl Pos {
    #[inline]
    fn at(self) -> usize {
        self.0 as usize
    }
}

/// Puts entries and a new terminator in the place of the last byte.
fn replace_terminator(bytes: &mut Vec<u8>, entries: &[u8]) {
    bytes.pop();
    bytes.extend_from_slice(entries);
    bytes.push(TERMINATOR);
}

/// Rounds up to sixteen bytes, then to an eighth of the power of two below.
fn size_class(bytes: usize) -> usize {
    let step = (bytes.next_power_of_two() / 16).max(16);
    bytes.next_multiple_of(step)
}

#[cfg(test)]
mod tests;
