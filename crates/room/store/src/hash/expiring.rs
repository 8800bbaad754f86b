//! Fields with an expiry.
//!
//! The fields lie in a hash of their own, as if none had an expiry; beside it is
//! a table from the fields that have one to their moment, and the moments in
//! order, each with its field's hash. When the last expiry goes, the hash is a
//! plain one again.

use std::collections::BTreeSet;

use super::{Boxed, Hash, Repr, View, ViewMut};
use crate::blob::Pair;
use crate::hasher::hash_bytes;
use crate::set::sampled;
use crate::table::Table;

/// The latest moment a field can expire at, in Unix milliseconds: Redis's limit.
pub const EXPIRY_MS_MAX: i64 = (1 << 46) - 1;

/// A hash in which at least one field has an expiry.
#[derive(Clone, Default)]
pub(super) struct Expiring {
    /// All fields; never of the form `Expiring`.
    pub(super) fields: Hash,
    /// The moment of each field that has one, as eight bytes.
    moments: Table<Pair>,
    /// The same moments in order, with the hash of their field.
    order: BTreeSet<(i64, u64)>,
}

impl Expiring {
    pub(super) fn mem_bytes(&self) -> usize {
        /// What a moment takes in the ordered set, its share of a node included.
        const ORDERED_BYTES: usize = 24;
        let moments = sampled(self.moments.iter().map(Pair::mem_bytes), self.moments.len());
        let beside = self.moments.mem_bytes() + moments + self.order.len() * ORDERED_BYTES;
        // The fields' own number includes the struct that lies in this one.
        size_of::<Boxed>() + size_of::<Expiring>() - size_of::<Hash>() + self.fields.mem_bytes() + beside
    }

    pub(super) fn free_effort(&self) -> usize {
        self.fields.free_effort() + self.moments.len()
    }

    fn moment(&self, field: &[u8]) -> Option<i64> {
        self.moments.find(hash_bytes(field), field).map(moment_of)
    }

    fn put(&mut self, field: &[u8], at_ms: i64) {
        self.forget(field);
        let hash = hash_bytes(field);
        self.moments
            .insert_unique(hash, Pair::new(field, &at_ms.to_le_bytes()));
        self.order.insert((at_ms, hash));
    }

    fn forget(&mut self, field: &[u8]) {
        let hash = hash_bytes(field);
        if let Some(pair) = self.moments.remove(hash, field) {
            let at_ms = moment_of(&pair);
            // Another field may have the same hash and moment, and then needs the entry.
            if self.find_at(at_ms, hash).is_none() {
                self.order.remove(&(at_ms, hash));
            }
        }
    }

    /// Finds a field by its moment and its hash, of which the table itself compares only a part.
    fn find_at(&self, at_ms: i64, hash: u64) -> Option<&Pair> {
        let is_it = |pair: &Pair| moment_of(pair) == at_ms && hash_bytes(pair.field()) == hash;
        self.moments.get_with(hash, is_it)
    }

    /// Takes out a field whose moment is before `before_ms`, and returns its name.
    fn take_due(&mut self, before_ms: i64) -> Option<Vec<u8>> {
        let &(at_ms, hash) = self.order.first().filter(|(at_ms, _)| *at_ms < before_ms)?;
        let pair = self.find_at(at_ms, hash);
        let field = pair
            .expect("every moment in order has its field")
            .field()
            .to_vec();
        self.forget(&field);
        self.fields.remove(&field);
        Some(field)
    }
}

fn moment_of(pair: &Pair) -> i64 {
    let bytes = pair.value().try_into();
    i64::from_le_bytes(bytes.expect("a moment is written as eight bytes"))
}

impl Hash {
    /// Returns when a field expires, in Unix milliseconds.
    pub fn expiry(&self, field: &[u8]) -> Option<i64> {
        match self.view() {
            View::Expiring(expiring) => expiring.moment(field),
            _ => None,
        }
    }

    /// Returns whether any field has an expiry.
    #[inline]
    pub fn has_expiries(&self) -> bool {
        matches!(self.view(), View::Expiring(_))
    }

    /// Returns the earliest moment at which a field expires.
    #[inline]
    pub fn soonest(&self) -> Option<i64> {
        match self.view() {
            View::Expiring(expiring) => expiring.order.first().map(|(at_ms, _)| *at_ms),
            _ => None,
        }
    }

    /// Sets or clears the expiry of a field; false when there is no such field.
    pub fn set_expiry(&mut self, field: &[u8], at_ms: Option<i64>) -> bool {
        let there = self.contains(field);
        match (at_ms.filter(|_| there), self.view_mut()) {
            (Some(at_ms), ViewMut::Expiring(expiring)) => expiring.put(field, at_ms),
            (Some(at_ms), _) => {
                let mut expiring = Box::<Expiring>::default();
                expiring.fields = std::mem::take(self);
                expiring.put(field, at_ms);
                self.0 = Repr::Boxed(Box::new(Boxed::Expiring(expiring)));
            }
            (None, ViewMut::Expiring(expiring)) => {
                expiring.forget(field);
                self.collapse();
            }
            (None, _) => {}
        }
        there
    }

    /// Takes out up to `limit` fields that expire before `before_ms`, the earliest first, and returns their names.
    pub fn take_due(&mut self, before_ms: i64, limit: usize) -> Vec<Vec<u8>> {
        let ViewMut::Expiring(expiring) = self.view_mut() else {
            return Vec::new();
        };
        let due = (0..limit).map_while(|_| expiring.take_due(before_ms)).collect();
        self.collapse();
        due
    }

    /// Becomes a plain hash again when no expiry is left.
    fn collapse(&mut self) {
        if let ViewMut::Expiring(expiring) = self.view_mut()
            && expiring.moments.is_empty()
        {
            *self = std::mem::take(&mut expiring.fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::limits::EncodingLimits;
    use crate::rng::Rng;

    fn hash_of(fields: usize) -> Hash {
        let mut hash = Hash::new();
        for n in 0..fields {
            hash.set(format!("f{n}").as_bytes(), b"v", &EncodingLimits::default());
        }
        hash
    }

    #[test]
    fn a_hash_whose_last_expiry_goes_is_as_it_was() {
        for fields in [3, 600] {
            let mut hash = hash_of(fields);
            let (encoding, bytes) = (hash.encoding(), hash.mem_bytes());
            assert!(hash.set_expiry(b"f1", Some(10)) && !hash.set_expiry(b"none", Some(10)));
            assert!(hash.has_expiries() && hash.mem_bytes() > bytes);
            assert!(hash.set_expiry(b"f1", None));
            assert_eq!((hash.encoding(), hash.mem_bytes()), (encoding, bytes));
            hash.set_expiry(b"f1", Some(10));
            hash.set(b"f1", b"new", &EncodingLimits::default());
            assert!(!hash.has_expiries(), "SET takes the expiry away");
            hash.set_expiry(b"f1", Some(10));
            hash.set_value(b"f1", b"newer", &EncodingLimits::default());
            assert_eq!(hash.expiry(b"f1"), Some(10));
            assert!(hash.remove(b"f1") && !hash.has_expiries());
            assert_eq!(hash.len(), fields - 1);
        }
    }

    #[test]
    fn due_fields_come_out_the_earliest_first_and_only_when_due() {
        let mut hash = hash_of(5);
        for (field, at_ms) in [(b"f0", 30), (b"f1", 10), (b"f2", 20), (b"f3", 20)] {
            hash.set_expiry(field, Some(at_ms));
        }
        assert_eq!(hash.soonest(), Some(10));
        assert!(hash.take_due(10, 9).is_empty());
        assert_eq!(hash.take_due(21, 1), [b"f1"]);
        assert_eq!(hash.take_due(21, 9).len(), 2);
        assert_eq!((hash.len(), hash.soonest()), (2, Some(30)));
        assert_eq!(hash.take_due(i64::MAX, 9), [b"f0"]);
        assert!(!hash.has_expiries() && hash.contains(b"f4"));
    }

    #[test]
    fn expiries_agree_with_a_model_across_the_conversion() {
        let limits = EncodingLimits {
            hash_max_listpack_entries: 20,
            ..EncodingLimits::default()
        };
        for seed in 0..20 {
            let mut rng = Rng::seeded(seed);
            let (mut hash, mut model) = (Hash::new(), HashMap::<Vec<u8>, Option<i64>>::new());
            for step in 0..2_000 {
                let field = format!("f{}", rng.below(60)).into_bytes();
                let at_ms = rng.below(50) as i64;
                match rng.below(6) {
                    0 | 1 => {
                        hash.set(&field, b"v", &limits);
                        model.insert(field, None);
                    }
                    2 => assert_eq!(hash.remove(&field), model.remove(&field).is_some()),
                    3 => {
                        hash.set_expiry(&field, Some(at_ms));
                        model.entry(field).and_modify(|at| *at = Some(at_ms));
                    }
                    4 => {
                        hash.set_expiry(&field, None);
                        model.entry(field).and_modify(|at| *at = None);
                    }
                    _ if step % 10 == 0 => {
                        let before = at_ms / 2;
                        hash.take_due(before, usize::MAX);
                        model.retain(|_, at| at.is_none_or(|at| at >= before));
                    }
                    _ => {}
                }
                assert_eq!(hash.len(), model.len());
                assert_eq!(hash.soonest(), model.values().flatten().min().copied());
            }
            for (field, at_ms) in &model {
                assert_eq!(hash.expiry(field), *at_ms);
                assert_eq!(hash.clone().expiry(field), *at_ms);
            }
        }
    }
}
