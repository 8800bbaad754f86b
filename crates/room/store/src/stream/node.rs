//! One block of a stream: a listpack with a head and some entries.
//!
//! The head is: live entries, deleted entries, number of the common fields,
//! these field names, and a 0. An entry is: flags, the id as two differences to
//! the block's own id, then its data, then the number of listpack elements the
//! entry took (so that it can be walked backwards; the 0 of the head ends such
//! a walk). An entry with exactly the common fields has only its values as
//! data; any other has its number of fields and then fields and values in turn.
//!
//! Deleting an entry sets a flag; its bytes stay until the whole block goes.

use super::StreamId;
use crate::listpack::{Item, Listpack, Pos};

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;
/// Flags and the two differences of the id.
const ENTRY_HEAD: usize = 3;

/// A block and the id of its first entry, from which its entries' ids count.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) id: StreamId,
    pub(crate) pack: Listpack,
}

/// Where the parts of a block's head are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) live: u64,
    pub(super) deleted: u64,
    field_count: usize,
    first_field: Pos,
    /// The 0 that ends the head.
    end: Pos,
}

/// A stored entry. Its fields are read from the block on demand.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub id: StreamId,
    pub(super) flags_at: Pos,
    flags: i64,
    pack: &'a Listpack,
    /// First of the common field names, when the entry has just these.
    common_fields: Option<Pos>,
    data_at: Pos,
    field_count: usize,
}

impl Node {
    /// Starts a block whose common fields are those of its first entry, not yet added.
    pub(super) fn new<'a>(id: StreamId, fields: impl Iterator<Item = &'a [u8]> + Clone) -> Node {
        let mut pack = Listpack::new();
        pack.push_back_int(0);
        pack.push_back_int(0);
        pack.push_back_int(fields.clone().count() as i64);
        fields.for_each(|field| pack.push_back(field));
        pack.push_back_int(0);
        Node { id, pack }
    }

    /// Adds an entry at the end. Its id must be above all others of the block.
    pub(super) fn push<'a>(
        &mut self,
        id: StreamId,
        pairs: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) {
        let head = self.head();
        let same = self.has_common_fields(&head, pairs.clone().map(|(field, _)| field));
        let count = pairs.clone().count();
        self.set_counts(head.live + 1, head.deleted);
        let pack = &mut self.pack;
        pack.push_back_int(if same { SAME_FIELDS } else { 0 });
        pack.push_back_int(id.ms.wrapping_sub(self.id.ms) as i64);
        pack.push_back_int(id.seq.wrapping_sub(self.id.seq) as i64);
        if same {
            pairs.for_each(|(_, value)| pack.push_back(value));
            pack.push_back_int((ENTRY_HEAD + count) as i64);
        } else {
            pack.push_back_int(count as i64);
            for (field, value) in pairs {
                pack.push_back(field);
                pack.push_back(value);
            }
            pack.push_back_int((ENTRY_HEAD + 1 + 2 * count) as i64);
        }
    }

    fn has_common_fields<'a>(&self, head: &Head, mut fields: impl Iterator<Item = &'a [u8]>) -> bool {
        let mut common = self.pack.iter_from(Some(head.first_field)).take(head.field_count);
        loop {
            match (common.next(), fields.next()) {
                (None, None) => return true,
                (Some(common), Some(field)) if common.eq_bytes(field) => (),
                _ => return false,
            }
        }
    }

    /// Marks an entry as deleted and counts it. Returns how many live entries are left.
    pub(super) fn mark_deleted(&mut self, flags_at: Pos) -> u64 {
        self.flag_deleted(flags_at);
        self.count_deleted(1)
    }

    /// Sets the mark only.
    pub(super) fn flag_deleted(&mut self, flags_at: Pos) {
        let flags = number(&self.pack, flags_at);
        self.pack.replace_int(flags_at, flags | DELETED);
    }

    /// Counts entries as deleted. The counters may grow, which moves every entry.
    pub(super) fn count_deleted(&mut self, count: u64) -> u64 {
        let head = self.head();
        self.set_counts(head.live - count, head.deleted + count);
        head.live - count
    }

    fn set_counts(&mut self, live: u64, deleted: u64) {
        let first = self.pack.first().expect(HEAD);
        let first = self.pack.replace_int(first, live as i64);
        let second = self.pack.next(first).expect(HEAD);
        self.pack.replace_int(second, deleted as i64);
    }

    pub(super) fn head(&self) -> Head {
        let live = self.pack.first().expect(HEAD);
        let deleted = self.pack.next(live).expect(HEAD);
        let fields = self.pack.next(deleted).expect(HEAD);
        let field_count = number(&self.pack, fields) as usize;
        let first_field = self.pack.next(fields).expect(HEAD);
        let end = skip(&self.pack, first_field, field_count).expect(HEAD);
        Head {
            live: number(&self.pack, live) as u64,
            deleted: number(&self.pack, deleted) as u64,
            field_count,
            first_field,
            end,
        }
    }

    /// Id of the last entry, deleted or not.
    pub(super) fn last_id(&self) -> StreamId {
        Walk::backward(self).next().map_or(self.id, |entry| entry.id)
    }

    fn entry(&self, head: &Head, flags_at: Pos) -> Entry<'_> {
        let pack = &self.pack;
        let flags = number(pack, flags_at);
        let ms_at = pack.next(flags_at).expect(ENTRY);
        let seq_at = pack.next(ms_at).expect(ENTRY);
        let id = StreamId::new(
            self.id.ms.wrapping_add(number(pack, ms_at) as u64),
            self.id.seq.wrapping_add(number(pack, seq_at) as u64),
        );
        let after_id = pack.next(seq_at).expect(ENTRY);
        if flags & SAME_FIELDS != 0 {
            let common_fields = Some(head.first_field);
            Entry {
                id,
                flags_at,
                flags,
                pack,
                common_fields,
                data_at: after_id,
                field_count: head.field_count,
            }
        } else {
            let field_count = number(pack, after_id) as usize;
            let data_at = pack.next(after_id).expect(ENTRY);
            Entry {
                id,
                flags_at,
                flags,
                pack,
                common_fields: None,
                data_at,
                field_count,
            }
        }
    }

    /// Takes a block from outside, or refuses it when any of its parts is not
    /// as this module writes them. What passes can be walked without a check.
    pub(crate) fn checked(id: StreamId, pack: Listpack) -> Option<Node> {
        let mut items = pack.iter();
        let live = number_of(items.next()?)?;
        let deleted = number_of(items.next()?)?;
        let fields = count_of(items.next()?)?;
        // `nth` of an absurd count ends at the end of the listpack.
        if number_of(items.nth(fields)?)? != 0 || live < 0 || deleted < 0 {
            return None;
        }
        let (mut live_seen, mut deleted_seen) = (0, 0);
        while let Some(flags) = items.next() {
            let flags = number_of(flags)?;
            number_of(items.next()?)?;
            number_of(items.next()?)?;
            let data = if flags & SAME_FIELDS != 0 {
                fields
            } else {
                1 + count_of(items.next()?)?.checked_mul(2)?
            };
            let rest = if flags & SAME_FIELDS != 0 { data } else { data - 1 };
            let taken = count_of(items.nth(rest)?)?;
            if taken != data.checked_add(ENTRY_HEAD)? {
                return None;
            }
            if flags & DELETED != 0 {
                deleted_seen += 1
            } else {
                live_seen += 1
            }
        }
        (live + deleted > 0 && live == live_seen && deleted == deleted_seen).then_some(Node { id, pack })
    }
}

const HEAD: &str = "every block starts with a whole head";
const ENTRY: &str = "every entry of a block is whole";

fn number(pack: &Listpack, at: Pos) -> i64 {
    number_of(pack.get(at)).expect("counts, flags and id differences of a block are numbers")
}

fn number_of(item: Item<'_>) -> Option<i64> {
    item.int()
}

fn count_of(item: Item<'_>) -> Option<usize> {
    number_of(item).and_then(|number| usize::try_from(number).ok())
}

fn skip(pack: &Listpack, mut at: Pos, count: usize) -> Option<Pos> {
    for _ in 0..count {
        at = pack.next(at)?;
    }
    Some(at)
}

impl<'a> Entry<'a> {
    /// Returns the number of field and value pairs.
    pub fn len(&self) -> usize {
        self.field_count
    }

    pub fn is_empty(&self) -> bool {
        self.field_count == 0
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.flags & DELETED != 0
    }

    /// Returns the fields with their values, in the order they were given.
    pub fn fields(&self) -> impl Iterator<Item = (Item<'a>, Item<'a>)> + use<'a> {
        let pack = self.pack;
        let mut names = self.common_fields;
        let mut data = Some(self.data_at);
        (0..self.field_count).map(move |_| {
            let name_at = match &mut names {
                Some(at) => step(pack, at),
                None => take(pack, &mut data),
            };
            let value_at = take(pack, &mut data);
            (pack.get(name_at), pack.get(value_at))
        })
    }

    /// Returns the position of the element count that ends the entry.
    fn end(&self) -> Pos {
        let data = if self.common_fields.is_some() {
            self.field_count
        } else {
            2 * self.field_count
        };
        skip(self.pack, self.data_at, data).expect(ENTRY)
    }
}

fn step(pack: &Listpack, at: &mut Pos) -> Pos {
    let here = *at;
    // The head's 0 follows the last common field, so there is always a next.
    *at = pack.next(here).expect(HEAD);
    here
}

fn take(pack: &Listpack, at: &mut Option<Pos>) -> Pos {
    let here = at.expect(ENTRY);
    *at = pack.next(here);
    here
}

/// Walks the entries of one block, deleted ones included.
#[derive(Clone, Debug)]
pub(super) struct Walk<'a> {
    node: &'a Node,
    head: Head,
    /// Forward: the next entry's flags. Backward: the element count of the entry before.
    at: Option<Pos>,
    backward: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn forward(node: &'a Node) -> Self {
        let head = node.head();
        Walk {
            node,
            head,
            at: node.pack.next(head.end),
            backward: false,
        }
    }

    pub(super) fn backward(node: &'a Node) -> Self {
        Walk {
            node,
            head: node.head(),
            at: node.pack.last(),
            backward: true,
        }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let pack = &self.node.pack;
        if !self.backward {
            let entry = self.node.entry(&self.head, self.at?);
            self.at = pack.next(entry.end());
            return Some(entry);
        }
        let count = number(pack, self.at?);
        if count == 0 {
            return None;
        }
        let mut flags_at = self.at?;
        for _ in 0..count {
            flags_at = pack.prev(flags_at).expect(ENTRY);
        }
        self.at = pack.prev(flags_at);
        Some(self.node.entry(&self.head, flags_at))
    }
}
