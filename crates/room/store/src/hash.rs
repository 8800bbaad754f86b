//! The hash type: a listpack while small, a hash table otherwise.

use crate::blob::Pair;
use crate::hasher::hash_bytes;
use crate::limits::EncodingLimits;
use crate::listpack::{self, Item, ItemBuf, Listpack, Pos};
use crate::rng::Rng;
use crate::set::sampled;
use crate::table::{self, Table};

/// A map from fields to values.
///
/// Holds a listpack of alternating fields and values, in the order of their
/// arrival, up to the limits on entries and lengths; it never goes back.
#[derive(Clone, Debug)]
pub struct Hash(Repr);

#[derive(Clone)]
enum Repr {
    Listpack(Listpack),
    Table(Box<Table<Pair>>),
}

impl Default for Hash {
    fn default() -> Self {
        Hash(Repr::Listpack(Listpack::new()))
    }
}

impl Hash {
    /// Returns an empty hash.
    pub fn new() -> Hash {
        Hash::default()
    }

    /// Takes a listpack of fields and values, as a table when it is over the limits.
    ///
    /// Returns `None` when it is empty, has a field without a value, or a field twice.
    pub fn from_listpack(pack: Listpack, limits: &EncodingLimits) -> Option<Hash> {
        if pack.is_empty() || !pack.len().is_multiple_of(2) {
            return None;
        }
        let mut seen = std::collections::HashSet::with_capacity(pack.len() / 2);
        let mut long = pack.len() / 2 > limits.hash_max_listpack_entries;
        for (index, item) in pack.iter().enumerate() {
            long |= item.text_len() > limits.hash_max_listpack_value;
            if index % 2 == 0 && !seen.insert(item.to_vec()) {
                return None;
            }
        }
        let mut hash = Hash(Repr::Listpack(pack));
        if long {
            hash.convert();
        }
        Some(hash)
    }

    /// Returns the listpack, while the hash is one.
    pub fn as_listpack(&self) -> Option<&Listpack> {
        match &self.0 {
            Repr::Listpack(pack) => Some(pack),
            Repr::Table(_) => None,
        }
    }

    /// Returns the number of fields.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Listpack(pack) => pack.len() / 2,
            Repr::Table(table) => table.len(),
        }
    }

    /// Returns whether there are no fields.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name that OBJECT ENCODING gives.
    pub fn encoding(&self) -> &'static str {
        match &self.0 {
            Repr::Listpack(_) => "listpack",
            Repr::Table(_) => "hashtable",
        }
    }

    /// Estimates the memory taken, this struct included.
    pub fn mem_bytes(&self) -> usize {
        let inner = match &self.0 {
            Repr::Listpack(pack) => pack.mem_bytes(),
            Repr::Table(table) => {
                let items = sampled(table.iter().map(Pair::mem_bytes), table.len());
                size_of::<Table<Pair>>() + table.mem_bytes() + items
            }
        };
        size_of::<Hash>() + inner
    }

    /// Returns how many allocations freeing the hash takes, roughly.
    pub fn free_effort(&self) -> usize {
        match &self.0 {
            Repr::Listpack(_) => 1,
            Repr::Table(table) => table.len(),
        }
    }

    /// Makes room for fields about to be added to a table.
    pub fn reserve(&mut self, additional: usize) {
        if let Repr::Table(table) = &mut self.0 {
            table.reserve(additional);
        }
    }

    /// Returns the value of a field.
    #[inline]
    pub fn get(&self, field: &[u8]) -> Option<Item<'_>> {
        match &self.0 {
            Repr::Listpack(pack) => Some(pack.get(find_value(pack, field)?)),
            Repr::Table(table) => table
                .find(hash_bytes(field), field)
                .map(|pair| Item::Str(pair.value())),
        }
    }

    /// Returns whether a field is present.
    #[inline]
    pub fn contains(&self, field: &[u8]) -> bool {
        match &self.0 {
            Repr::Listpack(pack) => find_field(pack, field).is_some(),
            Repr::Table(table) => table.find(hash_bytes(field), field).is_some(),
        }
    }

    /// Returns the length of a field's value, 0 for a missing field.
    #[inline]
    pub fn value_len(&self, field: &[u8]) -> usize {
        self.get(field).map_or(0, |value| value.text_len())
    }

    /// Sets a field; returns whether it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], limits: &EncodingLimits) -> bool {
        if field.len().max(value.len()) > limits.hash_max_listpack_value {
            self.convert();
        }
        match &mut self.0 {
            Repr::Listpack(pack) => {
                let created = match find_value(pack, field) {
                    Some(pos) => {
                        pack.replace(pos, value);
                        false
                    }
                    None => {
                        pack.push_back(field);
                        pack.push_back(value);
                        true
                    }
                };
                if pack.len() / 2 > limits.hash_max_listpack_entries {
                    self.convert();
                }
                created
            }
            Repr::Table(table) => {
                let hash = hash_bytes(field);
                if let Some(pair) = table.find_mut(hash, field) {
                    pair.set_value(value);
                    return false;
                }
                table.insert_unique(hash, Pair::new(field, value));
                true
            }
        }
    }

    /// Removes a field; returns whether it was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        match &mut self.0 {
            Repr::Listpack(pack) => match find_field(pack, field) {
                Some(pos) => {
                    pack.remove_n(pos, 2);
                    true
                }
                None => false,
            },
            Repr::Table(table) => table.remove(hash_bytes(field), field).is_some(),
        }
    }

    /// Returns a random field with its value, all about equally likely.
    pub fn random(&self, rng: &mut Rng) -> Option<(Item<'_>, Item<'_>)> {
        match &self.0 {
            Repr::Listpack(pack) => {
                let field = pack.seek(2 * rng.below(pack.len() / 2) as isize)?;
                Some((pack.get(field), pack.get(pack.next(field)?)))
            }
            Repr::Table(table) => table.random(rng).map(items),
        }
    }

    /// Walks all fields with their values: as they arrived in a listpack, else in no useful order.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        match &self.0 {
            Repr::Listpack(pack) => Iter(IterRepr::Listpack(pack.iter())),
            Repr::Table(table) => Iter(IterRepr::Table(table.iter())),
        }
    }

    /// Calls `f` with the fields and values at `cursor` and returns the next cursor; a listpack comes
    /// whole.
    pub fn scan(&self, cursor: u64, mut f: impl FnMut(Item<'_>, Item<'_>)) -> u64 {
        match &self.0 {
            Repr::Listpack(_) => {
                self.iter().for_each(|(field, value)| f(field, value));
                0
            }
            Repr::Table(table) => {
                table.scan(cursor, |pair| f(Item::Str(pair.field()), Item::Str(pair.value())))
            }
        }
    }

    fn convert(&mut self) {
        if self.as_listpack().is_none() {
            return;
        }
        let mut table = Box::new(Table::new());
        table.reserve(self.len() + 1);
        let (mut field_buf, mut value_buf) = (ItemBuf::new(), ItemBuf::new());
        for (field, value) in self.iter() {
            let field = field.as_bytes(&mut field_buf);
            table.insert_unique(
                hash_bytes(field),
                Pair::new(field, value.as_bytes(&mut value_buf)),
            );
        }
        self.0 = Repr::Table(table);
    }
}

fn find_field(pack: &Listpack, field: &[u8]) -> Option<Pos> {
    pack.find(pack.first()?, field, 1)
}

fn find_value(pack: &Listpack, field: &[u8]) -> Option<Pos> {
    pack.next(find_field(pack, field)?)
}

fn items(pair: &Pair) -> (Item<'_>, Item<'_>) {
    (Item::Str(pair.field()), Item::Str(pair.value()))
}

impl std::fmt::Debug for Repr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Repr::Listpack(pack) => f.debug_list().entries(pack.iter()).finish(),
            Repr::Table(table) => f.debug_set().entries(table.iter()).finish(),
        }
    }
}

impl<'a> IntoIterator for &'a Hash {
    type Item = (Item<'a>, Item<'a>);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Borrows every field with its value once.
pub struct Iter<'a>(IterRepr<'a>);

enum IterRepr<'a> {
    Listpack(listpack::Iter<'a>),
    Table(table::Iter<'a, Pair>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (Item<'a>, Item<'a>);

    fn next(&mut self) -> Option<(Item<'a>, Item<'a>)> {
        match &mut self.0 {
            IterRepr::Listpack(iter) => Some((iter.next()?, iter.next()?)),
            IterRepr::Table(iter) => iter.next().map(items),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    type Model = HashMap<Vec<u8>, Vec<u8>>;

    fn contents(hash: &Hash) -> Model {
        hash.iter()
            .map(|(field, value)| (field.to_vec(), value.to_vec()))
            .collect()
    }

    fn small(pairs: &[(&str, &str)]) -> Hash {
        let mut hash = Hash::new();
        for (field, value) in pairs {
            hash.set(field.as_bytes(), value.as_bytes(), &EncodingLimits::default());
        }
        hash
    }

    #[test]
    fn a_small_hash_keeps_the_order_of_arrival() {
        let mut hash = small(&[("b", "1"), ("a", "x"), ("10", "20"), ("c", "")]);
        assert!(!hash.set(b"b", b"longer value", &EncodingLimits::default()));
        assert!(hash.remove(b"a") && !hash.remove(b"a"));
        let fields: Vec<Vec<u8>> = hash.iter().map(|(field, _)| field.to_vec()).collect();
        assert_eq!(fields, [&b"b"[..], b"10", b"c"]);
        assert_eq!(hash.get(b"10"), Some(Item::Int(20)));
        assert_eq!(hash.encoding(), "listpack");
    }

    #[test]
    fn a_value_is_never_mistaken_for_a_field() {
        let hash = small(&[("a", "b"), ("b", "a")]);
        assert_eq!(hash.get(b"b"), Some(Item::Str(b"a")));
        assert!(!small(&[("a", "b")]).contains(b"b"));
    }

    #[test]
    fn limits_on_entries_and_lengths_make_a_table() {
        let limits = EncodingLimits {
            hash_max_listpack_entries: 2,
            hash_max_listpack_value: 4,
            ..EncodingLimits::default()
        };
        let encoding_after = |pairs: &[(&[u8], &[u8])]| {
            let mut hash = Hash::new();
            for (field, value) in pairs {
                hash.set(field, value, &limits);
            }
            hash.encoding()
        };
        assert_eq!(encoding_after(&[(b"a", b"1234"), (b"b", b"2")]), "listpack");
        assert_eq!(
            encoding_after(&[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]),
            "hashtable"
        );
        assert_eq!(encoding_after(&[(b"a", b"12345")]), "hashtable");
        assert_eq!(encoding_after(&[(b"abcde", b"1")]), "hashtable");
    }

    #[test]
    fn behaves_as_a_std_map_across_the_conversion() {
        for seed in 0..20usize {
            let mut rng = Rng::seeded(seed as u64);
            let limits = EncodingLimits {
                hash_max_listpack_entries: 20,
                ..EncodingLimits::default()
            };
            let (mut hash, mut model) = (Hash::new(), Model::new());
            for _ in 0..2_000 {
                let n = rng.below(10 + seed * 15);
                let field = if n.is_multiple_of(2) {
                    n.to_string()
                } else {
                    format!("field:{n}")
                }
                .into_bytes();
                let value = "v".repeat(rng.below(60)).into_bytes();
                if rng.below(3) > 0 {
                    assert_eq!(hash.set(&field, &value, &limits), !model.contains_key(&field));
                    model.insert(field, value);
                } else {
                    assert_eq!(hash.remove(&field), model.remove(&field).is_some());
                }
                assert_eq!(hash.len(), model.len());
            }
            assert_eq!(contents(&hash), model);
            assert_eq!(contents(&hash.clone()), model);
            for (field, value) in &model {
                assert!(hash.contains(field) && hash.get(field).is_some_and(|item| item.eq_bytes(value)));
                assert_eq!(hash.value_len(field), value.len());
            }
            let (field, value) = hash.random(&mut rng).expect("not empty");
            assert_eq!(model.get(&field.to_vec()), Some(&value.to_vec()));
        }
    }

    #[test]
    fn a_scan_returns_every_field_and_a_listpack_in_one_go() {
        let hash = small(&[("a", "1"), ("b", "2")]);
        let mut seen = 0;
        assert_eq!(hash.scan(0, |_, _| seen += 1), 0);
        assert_eq!(seen, 2);
        let mut large = Hash::new();
        for n in 0..500 {
            large.set(format!("field:{n}").as_bytes(), b"v", &EncodingLimits::default());
        }
        let (mut cursor, mut seen) = (0, Model::new());
        loop {
            cursor = large.scan(cursor, |field, value| {
                seen.insert(field.to_vec(), value.to_vec());
            });
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen, contents(&large));
    }

    #[test]
    fn a_listpack_from_outside_is_checked() {
        let pack = |items: &[&str]| {
            let mut pack = Listpack::new();
            items.iter().for_each(|item| pack.push_back(item.as_bytes()));
            pack
        };
        let limits = EncodingLimits::default();
        assert!(Hash::from_listpack(pack(&[]), &limits).is_none());
        assert!(Hash::from_listpack(pack(&["a"]), &limits).is_none());
        assert!(Hash::from_listpack(pack(&["a", "1", "a", "2"]), &limits).is_none());
        let hash = Hash::from_listpack(pack(&["a", "1", "b", "1"]), &limits).expect("well formed");
        assert_eq!((hash.len(), hash.encoding()), (2, "listpack"));
        let long = "x".repeat(65);
        let hash = Hash::from_listpack(pack(&["a", &long]), &limits).expect("well formed");
        assert_eq!((hash.len(), hash.encoding()), (1, "hashtable"));
    }

    #[test]
    fn a_five_field_hash_is_one_block_with_little_slack() {
        let mut hash = Hash::new();
        for n in 0..5 {
            hash.set(
                format!("field{n}").as_bytes(),
                format!("value{n}").as_bytes(),
                &EncodingLimits::default(),
            );
        }
        let bytes = hash.as_listpack().expect("small").bytes_len();
        assert_eq!(size_of::<Hash>(), 16);
        assert!(
            hash.mem_bytes() <= 16 + bytes + 16,
            "{} for {bytes}",
            hash.mem_bytes()
        );
    }
}
