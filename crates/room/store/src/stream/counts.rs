//! What a stream knows about its entries without looking at them.

use super::{ENTRIES_READ_UNKNOWN, Group, StreamId};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Live entries.
    pub(super) len: u64,
    /// Id of the first live entry, or 0-0.
    pub(super) first_id: StreamId,
    pub(super) last_id: StreamId,
    /// Highest id deleted by name; trimming does not count.
    pub(super) max_deleted_id: StreamId,
    pub(super) entries_added: u64,
}

impl Counts {
    pub(super) fn added(&mut self, id: StreamId) {
        self.len += 1;
        self.entries_added = self.entries_added.wrapping_add(1);
        self.last_id = id;
        if self.len == 1 {
            self.first_id = id;
        }
    }

    /// Returns how many entries were added up to and with `id`: told at both ends, and as
    /// long as nothing was deleted behind the first entry.
    pub(super) fn entries_read_at(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        if (self.len == 0 && id <= self.last_id) || id == self.last_id {
            return Some(self.entries_added);
        }
        let front_is_whole = self.max_deleted_id == StreamId::MIN || self.max_deleted_id < self.first_id;
        if id > self.last_id || !front_is_whole || id > self.first_id {
            return None;
        }
        let before_first = self.entries_added.wrapping_sub(self.len);
        Some(if id == self.first_id {
            before_first.wrapping_add(1)
        } else {
            before_first
        })
    }

    /// Returns whether an entry between `start` and the end was deleted by name.
    fn has_deleted_after(&self, start: StreamId) -> bool {
        self.len > 0
            && self.max_deleted_id != StreamId::MIN
            && self.first_id <= self.max_deleted_id
            && start <= self.max_deleted_id
    }

    pub(super) fn lag(&self, group: &Group) -> Option<i64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        let added = self.entries_added as i64;
        if group.entries_read != ENTRIES_READ_UNKNOWN && !self.has_deleted_after(group.last_id) {
            return Some(added.wrapping_sub(group.entries_read));
        }
        self.entries_read_at(group.last_id)
            .map(|read| added.wrapping_sub(read as i64))
    }

    /// Moves a group on to an entry that it reads as new.
    pub(super) fn note_read(&self, group: &mut Group, id: StreamId) {
        if id <= group.last_id {
            return;
        }
        if group.entries_read != ENTRIES_READ_UNKNOWN && !self.has_deleted_after(id) {
            group.entries_read = group.entries_read.wrapping_add(1);
        } else if self.entries_added > 0 {
            group.entries_read = self
                .entries_read_at(id)
                .map_or(ENTRIES_READ_UNKNOWN, |read| read as i64);
        }
        group.last_id = id;
    }
}
