//! The large form of a sorted set: a table of members and a tree in score order.
#![allow(unsafe_code, reason = "members are shared between table and tree by pointer")]

use super::member::{MemberBox, MemberRef};
use super::{LexRange, ScoreRange};
use crate::hasher::hash_bytes;
use crate::rank_tree::{self, RankItem, RankTree};
use crate::table::Table;
use std::ops::Range;

/// Members by name and by score. The table owns their blocks, the tree points to them.
#[derive(Default)]
pub(super) struct Large {
    table: Table<MemberBox>,
    tree: RankTree<MemberRef>,
    /// Heap bytes of all blocks.
    block_bytes: usize,
}

impl Large {
    pub(super) fn with_capacity(members: usize) -> Large {
        let mut large = Large::default();
        large.table.reserve(members);
        large
    }

    pub(super) fn len(&self) -> usize {
        self.tree.len()
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.table.find(hash_bytes(member), member).map(MemberBox::score)
    }

    /// Adds a member that is not here yet.
    pub(super) fn insert(&mut self, score: f64, member: &[u8]) {
        let block = MemberBox::new(score, member);
        self.tree.insert(score, block.reference());
        self.table.insert_unique(hash_bytes(member), block);
        self.block_bytes += MemberBox::heap_bytes(member.len());
    }

    /// Gives a member that is here another score.
    pub(super) fn rescore(&mut self, member: &[u8], new_score: f64) {
        let Some(block) = self.table.find_mut(hash_bytes(member), member) else {
            unreachable!("the caller has just read the member's score");
        };
        let score = block.score();
        if !self.tree.rescore_in_place(score, member, new_score) {
            self.tree.remove(score, member);
            self.tree.insert(new_score, block.reference());
        }
        block.set_score(new_score);
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        let Some(block) = self.table.remove(hash_bytes(member), member) else {
            return false;
        };
        let removed = self.tree.remove(block.score(), member);
        debug_assert!(removed, "table and tree hold the same members");
        self.block_bytes -= MemberBox::heap_bytes(member.len());
        true
    }

    pub(super) fn remove_ranks(&mut self, ranks: Range<usize>) -> usize {
        let (table, block_bytes) = (&mut self.table, &mut self.block_bytes);
        self.tree.remove_range(ranks, |_, reference| {
            let member = reference.bytes();
            *block_bytes -= MemberBox::heap_bytes(member.len());
            // The block dies here; the tree looks at removed members no more.
            drop(table.remove(hash_bytes(member), member));
        })
    }

    pub(super) fn rank(&self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        Some(self.tree.rank_of(score, member))
    }

    pub(super) fn score_ranks(&self, range: &ScoreRange) -> Range<usize> {
        let start = self.tree.partition(|score, _| range.is_above(score));
        let end = self.tree.partition(|score, _| !range.is_below(score));
        start..end.max(start)
    }

    pub(super) fn lex_ranks(&self, range: &LexRange<'_>) -> Range<usize> {
        let start = self.tree.partition(|_, member| range.is_above(member.bytes()));
        let end = self.tree.partition(|_, member| !range.is_below(member.bytes()));
        start..end.max(start)
    }

    pub(super) fn iter(&self, ranks: Range<usize>, reverse: bool) -> Iter<'_> {
        Iter(self.tree.iter(ranks, reverse))
    }

    pub(super) fn scan(&self, cursor: u64, mut seen: impl FnMut(&[u8], f64)) -> u64 {
        self.table
            .scan(cursor, |block| seen(block.bytes(), block.score()))
    }

    pub(super) fn mem_bytes(&self) -> usize {
        size_of::<Large>() + self.table.mem_bytes() + self.tree.mem_bytes() + self.block_bytes
    }
}

impl Clone for Large {
    fn clone(&self) -> Large {
        let mut copy = Large::with_capacity(self.len());
        for (member, score) in self.iter(0..self.len(), false) {
            copy.insert(score, member);
        }
        copy
    }
}

/// Walks members in one direction.
pub(super) struct Iter<'a>(rank_tree::Iter<'a, MemberRef>);

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], f64)> {
        let (score, reference) = self.0.next()?;
        // SAFETY: the iterator borrows the sorted set for 'a, so no block is freed meanwhile.
        Some((unsafe { reference.bytes_for() }, score))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}
