//! Walks over all items of a table.

use super::array::Cursor;
use super::{Keyed, Table};

/// Borrows every item once, in no useful order.
pub struct Iter<'a, T> {
    table: &'a Table<T>,
    /// Whether the buckets not yet migrated are still to be walked.
    in_old: bool,
    cursor: Cursor<T>,
    left: usize,
}

impl<'a, T> Iter<'a, T> {
    pub(super) fn new(table: &'a Table<T>) -> Iter<'a, T> {
        let start = table.old.as_ref().map_or(0, |old| old.next);
        Iter {
            table,
            in_old: table.old.is_some(),
            cursor: Cursor::at(start),
            left: table.len,
        }
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        if self.left == 0 {
            return None;
        }
        loop {
            let old = self.table.old.as_ref().filter(|_| self.in_old);
            let array = match old {
                Some(old) => &old.array,
                None => self.table.array.as_ref()?,
            };
            if let Some(item) = self.cursor.next(array) {
                self.left -= 1;
                return Some(item);
            }
            let index = self.cursor.index() + 1;
            if index < array.buckets() {
                self.cursor = Cursor::at(index);
            } else if self.in_old {
                self.in_old = false;
                self.cursor = Cursor::at(0);
            } else {
                return None;
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

/// Owns a table and hands its items out; what is left is dropped with it.
pub struct IntoIter<T> {
    table: Table<T>,
    in_old: bool,
    index: usize,
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.table.len == 0 {
            return None;
        }
        loop {
            let array = match self.table.old.as_mut().filter(|_| self.in_old) {
                Some(old) => &mut old.array,
                None => self.table.array.as_mut()?,
            };
            if let Some(item) = array.pop(self.index) {
                self.table.len -= 1;
                return Some(item);
            }
            self.index += 1;
            if self.index == array.buckets() {
                if !self.in_old {
                    return None;
                }
                self.in_old = false;
                self.index = 0;
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.table.len, Some(self.table.len))
    }
}

impl<T> ExactSizeIterator for IntoIter<T> {}

impl<T: Keyed> IntoIterator for Table<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        let index = self.old.as_ref().map_or(0, |old| old.next);
        IntoIter {
            in_old: self.old.is_some(),
            index,
            table: self,
        }
    }
}

impl<'a, T: Keyed> IntoIterator for &'a Table<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}
