//! The set type: sorted integers while small, a hash table otherwise.

use crate::blob::Blob;
use crate::hasher::hash_bytes;
use crate::intset::Intset;
use crate::limits::EncodingLimits;
use crate::listpack::{Item, ItemBuf, parse_int};
use crate::rng::Rng;
use crate::table::{self, Table};

/// A set of distinct byte strings.
///
/// Holds an intset while all members are canonical integers and there are at
/// most `set_max_intset_entries`; it never goes back.
#[derive(Clone, Debug)]
pub struct Set(Repr);

#[derive(Clone)]
enum Repr {
    Intset(Intset),
    Table(Box<Table<Blob>>),
}

impl Default for Set {
    fn default() -> Self {
        Set(Repr::Intset(Intset::new()))
    }
}

impl Set {
    /// Returns an empty set.
    pub fn new() -> Set {
        Set::default()
    }

    /// Takes an intset as it is, or as a table when it is over the limit.
    pub fn from_intset(intset: Intset, limits: &EncodingLimits) -> Set {
        let mut set = Set(Repr::Intset(intset));
        set.convert_if_over(limits);
        set
    }

    /// Returns the intset, while the set is one.
    pub fn as_intset(&self) -> Option<&Intset> {
        match &self.0 {
            Repr::Intset(intset) => Some(intset),
            Repr::Table(_) => None,
        }
    }

    /// Returns the number of members.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Intset(intset) => intset.len(),
            Repr::Table(table) => table.len(),
        }
    }

    /// Returns whether there are no members.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name that OBJECT ENCODING gives.
    pub fn encoding(&self) -> &'static str {
        match &self.0 {
            Repr::Intset(_) => "intset",
            Repr::Table(_) => "hashtable",
        }
    }

    /// Estimates the memory taken, this struct included.
    pub fn mem_bytes(&self) -> usize {
        let inner = match &self.0 {
            Repr::Intset(intset) => intset.mem_bytes(),
            Repr::Table(table) => {
                let items: usize = sampled(table.iter().map(Blob::mem_bytes), table.len());
                size_of::<Table<Blob>>() + table.mem_bytes() + items
            }
        };
        size_of::<Set>() + inner
    }

    /// Returns how many allocations freeing the set takes, roughly.
    pub fn free_effort(&self) -> usize {
        match &self.0 {
            Repr::Intset(_) => 1,
            Repr::Table(table) => table.len(),
        }
    }

    /// Makes room for members about to be added to a table.
    pub fn reserve(&mut self, additional: usize) {
        if let Repr::Table(table) = &mut self.0 {
            table.reserve(additional);
        }
    }

    /// Adds a member; returns whether it was new.
    pub fn add(&mut self, member: &[u8], limits: &EncodingLimits) -> bool {
        if let Repr::Intset(intset) = &mut self.0 {
            if let Some(int) = parse_int(member) {
                let added = intset.add(int);
                self.convert_if_over(limits);
                return added;
            }
            self.convert();
        }
        let Repr::Table(table) = &mut self.0 else {
            unreachable!("the set was converted just above");
        };
        let hash = hash_bytes(member);
        if table.find(hash, member).is_some() {
            return false;
        }
        table.insert_unique(hash, Blob::new(member));
        true
    }

    /// Adds a member of another set.
    pub fn add_item(&mut self, member: Item<'_>, limits: &EncodingLimits) -> bool {
        match (&mut self.0, member) {
            (Repr::Intset(intset), Item::Int(int)) => {
                let added = intset.add(int);
                self.convert_if_over(limits);
                added
            }
            _ => self.add(member.as_bytes(&mut ItemBuf::new()), limits),
        }
    }

    /// Removes a member; returns whether it was there.
    #[inline]
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.0 {
            Repr::Intset(intset) => parse_int(member).is_some_and(|int| intset.remove(int)),
            Repr::Table(table) => table.remove(hash_bytes(member), member).is_some(),
        }
    }

    /// Removes a member of another set.
    pub fn remove_item(&mut self, member: Item<'_>) -> bool {
        match (&mut self.0, member) {
            (Repr::Intset(intset), Item::Int(int)) => intset.remove(int),
            _ => self.remove(member.as_bytes(&mut ItemBuf::new())),
        }
    }

    /// Returns whether `member` is in the set.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.0 {
            Repr::Intset(intset) => parse_int(member).is_some_and(|int| intset.contains(int)),
            Repr::Table(table) => table.find(hash_bytes(member), member).is_some(),
        }
    }

    /// Returns whether a member of another set is in this one.
    #[inline]
    pub fn contains_item(&self, member: Item<'_>) -> bool {
        match (&self.0, member) {
            (Repr::Intset(intset), Item::Int(int)) => intset.contains(int),
            _ => self.contains(member.as_bytes(&mut ItemBuf::new())),
        }
    }

    /// Returns a random member, all about equally likely.
    pub fn random(&self, rng: &mut Rng) -> Option<Item<'_>> {
        match &self.0 {
            Repr::Intset(intset) => intset.random(rng).map(Item::Int),
            Repr::Table(table) => table.random(rng).map(|blob| Item::Str(blob.as_bytes())),
        }
    }

    /// Removes and returns a random member.
    pub fn pop(&mut self, rng: &mut Rng) -> Option<Vec<u8>> {
        let member = self.random(rng)?.to_vec();
        self.remove(&member);
        Some(member)
    }

    /// Walks all members: integers in rising order, strings in no useful one.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        match &self.0 {
            Repr::Intset(intset) => Iter(IterRepr::Intset(intset, 0)),
            Repr::Table(table) => Iter(IterRepr::Table(table.iter())),
        }
    }

    /// Calls `f` with the members at `cursor` and returns the next cursor; an intset comes whole.
    pub fn scan(&self, cursor: u64, mut f: impl FnMut(Item<'_>)) -> u64 {
        match &self.0 {
            Repr::Intset(intset) => {
                intset.iter().for_each(|int| f(Item::Int(int)));
                0
            }
            Repr::Table(table) => table.scan(cursor, |blob| f(Item::Str(blob.as_bytes()))),
        }
    }

    fn convert_if_over(&mut self, limits: &EncodingLimits) {
        if self
            .as_intset()
            .is_some_and(|intset| intset.len() > limits.set_max_intset_entries)
        {
            self.convert();
        }
    }

    fn convert(&mut self) {
        let Repr::Intset(intset) = &self.0 else { return };
        let mut table = Box::new(Table::new());
        table.reserve(intset.len() + 1);
        let mut buf = ItemBuf::new();
        for int in intset.iter() {
            let text = Item::Int(int).as_bytes(&mut buf);
            table.insert_unique(hash_bytes(text), Blob::new(text));
        }
        self.0 = Repr::Table(table);
    }
}

impl std::fmt::Debug for Repr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Repr::Intset(intset) => f.debug_set().entries(intset.iter()).finish(),
            Repr::Table(table) => f.debug_set().entries(table.iter()).finish(),
        }
    }
}

impl<'a> IntoIterator for &'a Set {
    type Item = Item<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Borrows every member once.
pub struct Iter<'a>(IterRepr<'a>);

enum IterRepr<'a> {
    Intset(&'a Intset, usize),
    Table(table::Iter<'a, Blob>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        match &mut self.0 {
            IterRepr::Intset(intset, index) => {
                *index += 1;
                intset.get(*index - 1).map(Item::Int)
            }
            IterRepr::Table(iter) => iter.next().map(|blob| Item::Str(blob.as_bytes())),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            IterRepr::Intset(intset, index) => {
                let left = intset.len().saturating_sub(*index);
                (left, Some(left))
            }
            IterRepr::Table(iter) => iter.size_hint(),
        }
    }
}

/// Items looked at to estimate the size of all.
const SAMPLED_ITEMS: usize = 64;

/// Estimates the sum of `sizes`, of which there are `len`, from the first few.
pub(crate) fn sampled(sizes: impl Iterator<Item = usize>, len: usize) -> usize {
    let count = len.min(SAMPLED_ITEMS);
    let sum: usize = sizes.take(count).sum();
    (sum * len).checked_div(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn set_of(members: &[&str]) -> Set {
        let mut set = Set::new();
        for member in members {
            set.add(member.as_bytes(), &EncodingLimits::default());
        }
        set
    }

    fn members(set: &Set) -> HashSet<Vec<u8>> {
        set.iter().map(|item| item.to_vec()).collect()
    }

    #[test]
    fn integers_stay_an_intset_up_to_the_limit() {
        let limits = EncodingLimits {
            set_max_intset_entries: 3,
            ..EncodingLimits::default()
        };
        let mut set = Set::new();
        for member in ["3", "1", "2"] {
            assert!(set.add(member.as_bytes(), &limits));
        }
        assert_eq!(set.encoding(), "intset");
        assert!(!set.add(b"1", &limits));
        assert!(set.add(b"4", &limits));
        assert_eq!((set.encoding(), set.len()), ("hashtable", 4));
        assert!(set.contains(b"3") && set.remove(b"4"));
        assert_eq!(set.encoding(), "hashtable", "there is no way back");
    }

    #[test]
    fn text_that_is_no_canonical_integer_makes_a_table() {
        for odd in ["a", "01", "+1", "-0", " 1", "", "9223372036854775808"] {
            let set = set_of(&["1", odd]);
            assert_eq!((set.encoding(), set.len()), ("hashtable", 2), "{odd}");
            assert!(set.contains(odd.as_bytes()) && set.contains(b"1"));
        }
    }

    #[test]
    fn a_missing_text_is_not_found_in_an_intset() {
        let mut set = set_of(&["1", "2"]);
        assert!(!set.contains(b"x") && !set.remove(b"x") && !set.contains(b"01"));
        assert!(set.contains_item(Item::Int(2)) && set.contains_item(Item::Str(b"2")));
    }

    #[test]
    fn behaves_as_a_std_set_across_the_conversion() {
        for seed in 0..20 {
            let mut rng = Rng::seeded(seed);
            let limits = EncodingLimits {
                set_max_intset_entries: 50,
                ..EncodingLimits::default()
            };
            let (mut set, mut model) = (Set::new(), HashSet::new());
            for _ in 0..2_000 {
                let member = rng.below(100 + seed as usize * 10).to_string().into_bytes();
                if rng.below(2) == 0 {
                    assert_eq!(set.add(&member, &limits), model.insert(member));
                } else {
                    assert_eq!(set.remove(&member), model.remove(&member));
                }
            }
            assert_eq!(members(&set), model);
            assert_eq!(set.iter().size_hint().0, model.len());
            assert_eq!(members(&set.clone()), model);
            while let Some(member) = set.pop(&mut rng) {
                assert!(model.remove(&member));
            }
            assert!(model.is_empty() && set.is_empty());
        }
    }

    #[test]
    fn a_scan_returns_every_member() {
        for set in [
            set_of(&["1", "2"]),
            set_of(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]),
        ] {
            let (mut seen, mut cursor) = (HashSet::new(), 0);
            loop {
                cursor = set.scan(cursor, |item| {
                    seen.insert(item.to_vec());
                });
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(seen, members(&set));
        }
    }

    #[test]
    fn an_intset_over_the_limit_is_loaded_as_a_table() {
        let mut intset = Intset::new();
        (0..10).for_each(|int| assert!(intset.add(int)));
        let limits = EncodingLimits {
            set_max_intset_entries: 9,
            ..EncodingLimits::default()
        };
        assert_eq!(Set::from_intset(intset.clone(), &limits).encoding(), "hashtable");
        assert_eq!(
            Set::from_intset(intset, &EncodingLimits::default()).encoding(),
            "intset"
        );
    }

    #[test]
    fn the_struct_is_two_words() {
        assert_eq!(size_of::<Set>(), 16);
    }
}
