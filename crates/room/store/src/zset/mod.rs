//! Sorted sets: members with scores, ordered by (score, member bytes).
//!
//! A small set is a listpack in Redis's layout; past the configured sizes it
//! becomes a table of members plus a counted tree, under the name Redis gives
//! its own large form ("skiplist"). It never turns back. Every range question
//! is answered as a range of ranks, so counting, skipping an offset, walking in
//! either direction and deleting share one path.

mod bounds;
mod compact;
mod large;
mod member;

pub use bounds::{LexBound, LexRange, ScoreRange};

use crate::limits::EncodingLimits;
use crate::listpack::{Item, Listpack};
use large::Large;
use std::fmt;
use std::ops::Range;

/// A sorted set.
#[derive(Clone)]
pub struct Zset(Form);

#[derive(Clone)]
enum Form {
    Compact(Listpack),
    Large(Box<Large>),
}

/// Conditions and mode of an addition, as ZADD's options name them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddFlags {
    /// Only add new members.
    pub nx: bool,
    /// Only update members that are there.
    pub xx: bool,
    /// Update only to a greater score.
    pub gt: bool,
    /// Update only to a smaller score.
    pub lt: bool,
    /// Add the score to the one that is there.
    pub incr: bool,
}

/// What an addition did; the score is the member's from now on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AddOutcome {
    Added(f64),
    Updated(f64),
    /// The member had this score already.
    Unchanged(f64),
    /// A condition was not met.
    Skipped,
    /// The given score or the sum is not a number; nothing was changed.
    NotANumber,
}

/// A member and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'a> {
    pub member: Item<'a>,
    pub score: f64,
}

impl Default for Zset {
    fn default() -> Self {
        Zset::new()
    }
}

impl Zset {
    /// Returns an empty set.
    pub fn new() -> Zset {
        Zset(Form::Compact(Listpack::new()))
    }

    /// Returns an empty set in the form that this many members, the longest of this many bytes, will need.
    ///
    /// Starting large skips the listpack, which would turn a negative zero into zero.
    pub fn with_room(members: usize, longest_bytes: usize, limits: &EncodingLimits) -> Zset {
        let small =
            members <= limits.zset_max_listpack_entries && longest_bytes <= limits.zset_max_listpack_value;
        if small {
            Zset::new()
        } else {
            Zset(Form::Large(Box::new(Large::with_capacity(members))))
        }
    }

    /// Takes over a listpack of pairs, as RDB files and DUMP hold them.
    ///
    /// `None` when it is not a sorted set: an odd count, a score that is no number,
    /// a member twice. Pairs out of order are put in order.
    pub fn from_listpack(pack: Listpack, limits: &EncodingLimits) -> Option<Zset> {
        let sorted = compact::validate(&pack)?;
        if sorted && pack.len() / 2 <= limits.zset_max_listpack_entries {
            return Some(Zset(Form::Compact(pack)));
        }
        let mut set = Zset::new();
        for (member, score) in compact::Iter::new(&pack, 0..usize::MAX, false) {
            set.add(score, &member.to_vec(), AddFlags::default(), limits);
        }
        Some(set)
    }

    /// Returns the listpack of a small set.
    pub fn as_listpack(&self) -> Option<&Listpack> {
        match &self.0 {
            Form::Compact(pack) => Some(pack),
            Form::Large(_) => None,
        }
    }

    /// Returns the number of members.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Compact(pack) => pack.len() / 2,
            Form::Large(large) => large.len(),
        }
    }

    /// Returns whether there is no member.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name OBJECT ENCODING gives this form.
    pub fn encoding(&self) -> &'static str {
        match &self.0 {
            Form::Compact(_) => "listpack",
            Form::Large(_) => "skiplist",
        }
    }

    /// Returns the heap and inline bytes of the set, estimated.
    pub fn mem_bytes(&self) -> usize {
        size_of::<Zset>()
            + match &self.0 {
                Form::Compact(pack) => pack.mem_bytes(),
                Form::Large(large) => large.mem_bytes(),
            }
    }

    /// Returns how many allocations freeing the set takes, roughly.
    pub fn free_effort(&self) -> usize {
        match &self.0 {
            Form::Compact(_) => 1,
            Form::Large(large) => large.len(),
        }
    }

    /// Returns a member's score.
    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.0 {
            Form::Compact(pack) => {
                let (_, score) = compact::find(pack, member)?;
                Some(compact::score_at(pack, score))
            }
            Form::Large(large) => large.score(member),
        }
    }

    /// Adds a member or changes its score, under the given conditions.
    pub fn add(&mut self, score: f64, member: &[u8], flags: AddFlags, limits: &EncodingLimits) -> AddOutcome {
        if score.is_nan() {
            return AddOutcome::NotANumber;
        }
        match self.score(member) {
            Some(current) => self.update(current, score, member, flags),
            None if flags.xx => AddOutcome::Skipped,
            None => {
                self.insert(score, member, limits);
                AddOutcome::Added(score)
            }
        }
    }

    fn update(&mut self, current: f64, score: f64, member: &[u8], flags: AddFlags) -> AddOutcome {
        if flags.nx {
            return AddOutcome::Skipped;
        }
        let score = if flags.incr { score + current } else { score };
        if score.is_nan() {
            return AddOutcome::NotANumber;
        }
        if (flags.lt && score >= current) || (flags.gt && score <= current) {
            return AddOutcome::Skipped;
        }
        // Zero and negative zero are equal, so neither replaces the other.
        if score == current {
            return AddOutcome::Unchanged(score);
        }
        match &mut self.0 {
            Form::Compact(pack) => {
                let (at, _) = compact::find(pack, member).expect("its score was read just above");
                pack.remove_n(at, 2);
                compact::insert(pack, score, member);
            }
            Form::Large(large) => large.rescore(member, score),
        }
        AddOutcome::Updated(score)
    }

    /// Adds a member that the caller knows is not in the set; the score is a number.
    pub fn insert(&mut self, score: f64, member: &[u8], limits: &EncodingLimits) {
        if let Form::Compact(pack) = &mut self.0 {
            let fits = pack.len() / 2 < limits.zset_max_listpack_entries
                && member.len() <= limits.zset_max_listpack_value
                && pack.bytes_len() + member.len() <= Listpack::BYTES_MAX;
            if fits {
                return compact::insert(pack, score, member);
            }
            self.enlarge();
        }
        if let Form::Large(large) = &mut self.0 {
            large.insert(score, member);
        }
    }

    fn enlarge(&mut self) {
        let mut large = Box::new(Large::with_capacity(self.len() + 1));
        for entry in self.iter() {
            let mut buffer = crate::listpack::ItemBuf::new();
            large.insert(entry.score, entry.member.as_bytes(&mut buffer));
        }
        self.0 = Form::Large(large);
    }

    /// Removes a member; false when it was not there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.0 {
            Form::Compact(pack) => {
                let Some((at, _)) = compact::find(pack, member) else {
                    return false;
                };
                pack.remove_n(at, 2);
                true
            }
            Form::Large(large) => large.remove(member),
        }
    }

    /// Removes the members of a range of ranks; returns how many there were.
    pub fn remove_ranks(&mut self, ranks: Range<usize>) -> usize {
        let ranks = ranks.start..ranks.end.min(self.len());
        if ranks.is_empty() {
            return 0;
        }
        match &mut self.0 {
            Form::Compact(pack) => {
                pack.remove_range(ranks.start * 2, ranks.len() * 2);
                ranks.len()
            }
            Form::Large(large) => large.remove_ranks(ranks),
        }
    }

    /// Removes and returns the member with the lowest score.
    pub fn pop_min(&mut self) -> Option<(Vec<u8>, f64)> {
        self.pop_rank(0)
    }

    /// Removes and returns the member with the highest score.
    pub fn pop_max(&mut self) -> Option<(Vec<u8>, f64)> {
        self.pop_rank(self.len().checked_sub(1)?)
    }

    fn pop_rank(&mut self, rank: usize) -> Option<(Vec<u8>, f64)> {
        let entry = self.get(rank)?;
        let popped = (entry.member.to_vec(), entry.score);
        self.remove_ranks(rank..rank + 1);
        Some(popped)
    }

    /// Returns a member's rank, counted from the lowest score or, reversed, from the highest.
    #[inline]
    pub fn rank(&self, member: &[u8], reverse: bool) -> Option<usize> {
        let rank = match &self.0 {
            Form::Compact(pack) => compact::rank(pack, member)?,
            Form::Large(large) => large.rank(member)?,
        };
        Some(if reverse { self.len() - 1 - rank } else { rank })
    }

    /// Returns the ranks of the members whose score lies in a range.
    pub fn score_ranks(&self, range: &ScoreRange) -> Range<usize> {
        match &self.0 {
            Form::Compact(pack) => compact::score_ranks(pack, range),
            Form::Large(large) => large.score_ranks(range),
        }
    }

    /// Returns the ranks of the members that lie in a range of bytes.
    ///
    /// Meant for sets whose scores are all equal; with others some run of members comes back.
    pub fn lex_ranks(&self, range: &LexRange<'_>) -> Range<usize> {
        match &self.0 {
            Form::Compact(pack) => compact::lex_ranks(pack, range),
            Form::Large(large) => large.lex_ranks(range),
        }
    }

    /// Returns the member with this rank.
    #[inline]
    pub fn get(&self, rank: usize) -> Option<Entry<'_>> {
        self.range(rank..rank.saturating_add(1), false).next()
    }

    /// Walks all members from the lowest score up.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        self.range(0..self.len(), false)
    }

    /// Walks a range of ranks, from its low end up or, reversed, from its high end down.
    #[inline]
    pub fn range(&self, ranks: Range<usize>, reverse: bool) -> Iter<'_> {
        Iter(match &self.0 {
            Form::Compact(pack) => IterForm::Compact(compact::Iter::new(pack, ranks, reverse)),
            Form::Large(large) => IterForm::Large(large.iter(ranks, reverse)),
        })
    }

    /// Shows some members and returns the cursor to continue with; 0 starts and ends.
    ///
    /// A small set is shown whole. A member present during the whole scan is shown at least once.
    pub fn scan(&self, cursor: u64, mut seen: impl FnMut(Entry<'_>)) -> u64 {
        match &self.0 {
            Form::Compact(_) => {
                self.iter().for_each(seen);
                0
            }
            Form::Large(large) => large.scan(cursor, |member, score| {
                seen(Entry {
                    member: Item::Str(member),
                    score,
                });
            }),
        }
    }
}

impl fmt::Debug for Zset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zset")
            .field("len", &self.len())
            .field("encoding", &self.encoding())
            .finish()
    }
}

/// Walks members in one direction; see [`Zset::range`].
pub struct Iter<'a>(IterForm<'a>);

enum IterForm<'a> {
    Compact(compact::Iter<'a>),
    Large(large::Iter<'a>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        match &mut self.0 {
            IterForm::Compact(pairs) => pairs.next().map(|(member, score)| Entry { member, score }),
            IterForm::Large(pairs) => pairs.next().map(|(member, score)| Entry {
                member: Item::Str(member),
                score,
            }),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            IterForm::Compact(pairs) => pairs.size_hint(),
            IterForm::Large(pairs) => pairs.size_hint(),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}

#[cfg(test)]
mod tests;
