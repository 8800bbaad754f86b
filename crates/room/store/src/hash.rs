//! The hash type: a listpack while small, a hash table otherwise.
//!
//! Fields may have an expiry of their own. A hash in which some have one is
//! either form with a list of those moments beside it ([`expiring`]); any other
//! hash pays nothing for the possibility. The hash does not know the time: its
//! owner takes out what is due ([`Hash::take_due`]) before anybody looks.

use crate::blob::Pair;
use crate::hasher::hash_bytes;
use crate::limits::EncodingLimits;
use crate::listpack::{self, Item, ItemBuf, Listpack, Pos};
use crate::rng::Rng;
use crate::set::sampled;
use crate::table::{self, Table};

mod expiring;

pub use expiring::EXPIRY_MS_MAX;
use expiring::Expiring;

/// A map from fields to values.
///
/// Holds a listpack of alternating fields and values, in the order of their
/// arrival, up to the limits on entries and lengths; it never goes back.
#[derive(Clone)]
pub struct Hash(Repr);

#[derive(Clone)]
enum Repr {
    Listpack(Listpack),
    Boxed(Box<Boxed>),
}

/// The forms that a pointer leads to, so that a small hash takes no more than its listpack.
#[derive(Clone)]
enum Boxed {
    Table(Table<Pair>),
    /// A listpack or a table, with fields that expire.
    Expiring(Box<Expiring>),
}

enum View<'a> {
    Listpack(&'a Listpack),
    Table(&'a Table<Pair>),
    Expiring(&'a Expiring),
}

enum ViewMut<'a> {
    Listpack(&'a mut Listpack),
    Table(&'a mut Table<Pair>),
    Expiring(&'a mut Expiring),
}

impl Default for Hash {
    fn default() -> Self {
        Hash(Repr::Listpack(Listpack::new()))
    }
}

impl Hash {
    #[inline]
    fn view(&self) -> View<'_> {
        match &self.0 {
            Repr::Listpack(pack) => View::Listpack(pack),
            Repr::Boxed(boxed) => match &**boxed {
                Boxed::Table(table) => View::Table(table),
                Boxed::Expiring(expiring) => View::Expiring(expiring),
            },
        }
    }

    #[inline]
    fn view_mut(&mut self) -> ViewMut<'_> {
        match &mut self.0 {
            Repr::Listpack(pack) => ViewMut::Listpack(pack),
            Repr::Boxed(boxed) => match &mut **boxed {
                Boxed::Table(table) => ViewMut::Table(table),
                Boxed::Expiring(expiring) => ViewMut::Expiring(expiring),
            },
        }
    }

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

    /// Returns the listpack, while the hash is one. Expiries of fields are not in it.
    pub fn as_listpack(&self) -> Option<&Listpack> {
        match self.view() {
            View::Listpack(pack) => Some(pack),
            View::Table(_) => None,
            View::Expiring(expiring) => expiring.fields.as_listpack(),
        }
    }

    /// Returns the number of fields.
    #[inline]
    pub fn len(&self) -> usize {
        match self.view() {
            View::Listpack(pack) => pack.len() / 2,
            View::Table(table) => table.len(),
            View::Expiring(expiring) => expiring.fields.len(),
        }
    }

    /// Returns whether there are no fields.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name that OBJECT ENCODING gives.
    pub fn encoding(&self) -> &'static str {
        match self.view() {
            View::Listpack(_) => "listpack",
            View::Table(_) => "hashtable",
            View::Expiring(expiring) if expiring.fields.as_listpack().is_some() => "listpackex",
            View::Expiring(_) => "hashtable",
        }
    }

    /// Estimates the memory taken, this struct included.
    pub fn mem_bytes(&self) -> usize {
        let inner = match self.view() {
            View::Listpack(pack) => pack.mem_bytes(),
            View::Table(table) => {
                let items = sampled(table.iter().map(Pair::mem_bytes), table.len());
                size_of::<Boxed>() + table.mem_bytes() + items
            }
            View::Expiring(expiring) => expiring.mem_bytes(),
        };
        size_of::<Hash>() + inner
    }

    /// Returns how many allocations freeing the hash takes, roughly.
    pub fn free_effort(&self) -> usize {
        match self.view() {
            View::Listpack(_) => 1,
            View::Table(table) => table.len(),
            View::Expiring(expiring) => expiring.free_effort(),
        }
    }

    /// Makes room for fields about to be added to a table.
    pub fn reserve(&mut self, additional: usize) {
        match self.view_mut() {
            ViewMut::Listpack(_) => {}
            ViewMut::Table(table) => table.reserve(additional),
            ViewMut::Expiring(expiring) => expiring.fields.reserve(additional),
        }
    }

    /// Returns the value of a field.
    #[inline]
    pub fn get(&self, field: &[u8]) -> Option<Item<'_>> {
        match self.view() {
            View::Listpack(pack) => Some(pack.get(find_value(pack, field)?)),
            View::Table(table) => table
                .find(hash_bytes(field), field)
                .map(|pair| Item::Str(pair.value())),
            View::Expiring(expiring) => expiring.fields.get(field),
        }
    }

    /// Returns whether a field is present.
    #[inline]
    pub fn contains(&self, field: &[u8]) -> bool {
        match self.view() {
            View::Listpack(pack) => find_field(pack, field).is_some(),
            View::Table(table) => table.find(hash_bytes(field), field).is_some(),
            View::Expiring(expiring) => expiring.fields.contains(field),
        }
    }

    /// Returns the length of a field's value, 0 for a missing field.
    #[inline]
    pub fn value_len(&self, field: &[u8]) -> usize {
        self.get(field).map_or(0, |value| value.text_len())
    }

    /// Sets a field, which then has no expiry; returns whether it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], limits: &EncodingLimits) -> bool {
        let created = self.set_value(field, value, limits);
        if self.has_expiries() {
            self.set_expiry(field, None);
        }
        created
    }

    /// Sets a field, which keeps its expiry; returns whether it is new.
    pub fn set_value(&mut self, field: &[u8], value: &[u8], limits: &EncodingLimits) -> bool {
        if field.len().max(value.len()) > limits.hash_max_listpack_value {
            self.convert();
        }
        match self.view_mut() {
            ViewMut::Expiring(expiring) => expiring.fields.set_value(field, value, limits),
            ViewMut::Listpack(pack) => {
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
            ViewMut::Table(table) => {
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
        match self.view_mut() {
            ViewMut::Expiring(expiring) => {
                let removed = expiring.fields.remove(field);
                self.set_expiry(field, None);
                removed
            }
            ViewMut::Listpack(pack) => match find_field(pack, field) {
                Some(pos) => {
                    pack.remove_n(pos, 2);
                    true
                }
                None => false,
            },
            ViewMut::Table(table) => table.remove(hash_bytes(field), field).is_some(),
        }
    }

    /// Returns a random field with its value, all about equally likely.
    pub fn random(&self, rng: &mut Rng) -> Option<(Item<'_>, Item<'_>)> {
        match self.view() {
            View::Listpack(pack) => {
                let field = pack.seek(2 * rng.below(pack.len() / 2) as isize)?;
                Some((pack.get(field), pack.get(pack.next(field)?)))
            }
            View::Table(table) => table.random(rng).map(items),
            View::Expiring(expiring) => expiring.fields.random(rng),
        }
    }

    /// Walks all fields with their values: as they arrived in a listpack, else in no useful order.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        match self.view() {
            View::Listpack(pack) => Iter(IterRepr::Listpack(pack.iter())),
            View::Table(table) => Iter(IterRepr::Table(table.iter())),
            View::Expiring(expiring) => expiring.fields.iter(),
        }
    }

    /// Calls `f` with the fields and values at `cursor` and returns the next cursor; a listpack comes
    /// whole.
    pub fn scan(&self, cursor: u64, mut f: impl FnMut(Item<'_>, Item<'_>)) -> u64 {
        match self.plain().view() {
            View::Listpack(_) => {
                self.iter().for_each(|(field, value)| f(field, value));
                0
            }
            View::Table(table) => {
                table.scan(cursor, |pair| f(Item::Str(pair.field()), Item::Str(pair.value())))
            }
            View::Expiring(_) => unreachable!("the fields of an expiring hash are a plain one"),
        }
    }

    /// Returns the hash of the fields alone.
    fn plain(&self) -> &Hash {
        match self.view() {
            View::Expiring(expiring) => &expiring.fields,
            _ => self,
        }
    }

    fn convert(&mut self) {
        if let ViewMut::Expiring(expiring) = self.view_mut() {
            return expiring.fields.convert();
        }
        if self.as_listpack().is_none() {
            return;
        }
        let mut table = Table::new();
        table.reserve(self.len() + 1);
        let (mut field_buf, mut value_buf) = (ItemBuf::new(), ItemBuf::new());
        for (field, value) in self.iter() {
            let field = field.as_bytes(&mut field_buf);
            table.insert_unique(
                hash_bytes(field),
                Pair::new(field, value.as_bytes(&mut value_buf)),
            );
        }
        self.0 = Repr::Boxed(Box::new(Boxed::Table(table)));
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

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.view() {
            View::Listpack(pack) => f.debug_list().entries(pack.iter()).finish(),
            View::Table(table) => f.debug_set().entries(table.iter()).finish(),
            View::Expiring(expiring) => expiring.fields.fmt(f),
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
mod tests;
