//! Walks over the elements of a listpack.

use super::{Item, Listpack, Pos};

impl Listpack {
    /// Walks all elements, first to last.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(self.first())
    }

    /// Walks from `start` to the last element.
    #[inline]
    pub fn iter_from(&self, start: Option<Pos>) -> Iter<'_> {
        Iter {
            pack: self,
            next: start,
        }
    }

    /// Walks all elements, last to first.
    #[inline]
    pub fn iter_rev(&self) -> IterRev<'_> {
        self.iter_rev_from(self.last())
    }

    /// Walks from `start` back to the first element.
    #[inline]
    pub fn iter_rev_from(&self, start: Option<Pos>) -> IterRev<'_> {
        IterRev {
            pack: self,
            next: start,
        }
    }
}

/// Elements of a listpack, first to last.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    pack: &'a Listpack,
    next: Option<Pos>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        let pos = self.next?;
        self.next = self.pack.next(pos);
        Some(self.pack.get(pos))
    }
}

/// Elements of a listpack, last to first.
#[derive(Clone, Debug)]
pub struct IterRev<'a> {
    pack: &'a Listpack,
    next: Option<Pos>,
}

impl<'a> Iterator for IterRev<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        let pos = self.next?;
        self.next = self.pack.prev(pos);
        Some(self.pack.get(pos))
    }
}
