//! A hash table of pointer-sized items that can be scanned with a cursor.
//!
//! Items live in 64-byte buckets (see `array`). A resize is incremental: the
//! new array is allocated at once, and every later insert, removal or mutable
//! lookup migrates one bucket of the old array. While that goes on an item has
//! exactly one home: its old bucket if that one is not yet migrated, its new
//! bucket otherwise. Lookups therefore never search both arrays.
//!
//! `scan` counts with the cursor's bits reversed, so the buckets an old bucket
//! splits into (or merges from) come next to each other in scan order. That
//! gives Redis's promise: what is present during the whole scan is returned at
//! least once, however often the table is resized in between.

mod array;
mod iter;

use crate::hasher::hash_bytes;
use crate::rng::Rng;
use array::{Array, SLOTS, tag_of};
pub use iter::{IntoIter, Iter};

/// Empty buckets one migration step may pass over before it stops.
const EMPTY_BUCKETS_PER_STEP: usize = 10;

/// Chain length taken as certain to be accepted when drawing at random; longer chains are rare
/// (below one in a hundred) and their items then slightly less likely.
const RANDOM_CHAIN: usize = 2 * SLOTS;

/// Draws that may be rejected before `random` settles for the next item it meets.
const RANDOM_TRIES: usize = 64;

/// An item that carries its own key.
pub trait Keyed {
    /// Returns the key; it must not change while the item is in a table.
    fn key(&self) -> &[u8];

    /// Returns the hash of the key, as callers of the table compute it.
    fn hash(&self) -> u64 {
        hash_bytes(self.key())
    }
}

/// A set of items with distinct keys. An empty table owns no memory.
///
/// Every `hash` argument is `hash_bytes` of the key (or what `Keyed::hash` was overridden with).
pub struct Table<T> {
    len: usize,
    array: Option<Array<T>>,
    old: Option<Box<Migration<T>>>,
}

/// The array a resize is moving items out of.
struct Migration<T> {
    array: Array<T>,
    /// First bucket not yet migrated; those before it are empty.
    next: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table {
            len: 0,
            array: None,
            old: None,
        }
    }
}

impl<T: Keyed> Table<T> {
    /// Returns an empty table.
    pub fn new() -> Table<T> {
        Table::default()
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of main buckets, those of a running resize included.
    pub fn buckets(&self) -> usize {
        self.array.as_ref().map_or(0, Array::buckets) + self.old.as_ref().map_or(0, |old| old.array.buckets())
    }

    /// Returns whether a resize is under way.
    pub fn is_resizing(&self) -> bool {
        self.old.is_some()
    }

    /// Returns the bytes allocated by the table itself, without what items point to.
    pub fn mem_bytes(&self) -> usize {
        let old = self
            .old
            .as_ref()
            .map_or(0, |old| size_of::<Migration<T>>() + old.array.mem_bytes());
        self.array.as_ref().map_or(0, Array::mem_bytes) + old
    }

    /// Returns the item with this key.
    #[inline]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<&T> {
        if let Some(old) = &self.old
            && let Some(index) = old.home(hash)
        {
            return old.array.find(index, tag_of(hash), key);
        }
        let array = self.array.as_ref()?;
        array.find((hash & array.mask()) as usize, tag_of(hash), key)
    }

    /// Returns the item with this key for change; its key must stay the same.
    #[inline]
    pub fn find_mut(&mut self, hash: u64, key: &[u8]) -> Option<&mut T> {
        self.migrate(1);
        let (array, index) = self.home_mut(hash)?;
        array.find_mut(index, tag_of(hash), key)
    }

    /// Returns an item whose hash shares bucket and tag with `hash` and for which `is_it` holds.
    pub fn get_with(&self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        let (array, index) = match &self.old {
            Some(old) if old.home(hash).is_some() => (&old.array, old.home(hash)?),
            _ => {
                let array = self.array.as_ref()?;
                (array, (hash & array.mask()) as usize)
            }
        };
        array.get_with(index, tag_of(hash), is_it)
    }

    /// Returns, for change, an item whose hash shares bucket and tag with `hash` and for which `is_it`
    /// holds; its key must stay the same.
    pub fn find_with(&mut self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let (array, index) = self.home_mut(hash)?;
        array.find_with(index, tag_of(hash), is_it)
    }

    /// Asks the processor to fetch the bucket of a hash, so that a lookup soon after need not wait.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(array) = &self.array {
            array.prefetch((hash & array.mask()) as usize);
        }
    }

    /// Adds an item whose key is known to be absent.
    pub fn insert_unique(&mut self, hash: u64, item: T) {
        debug_assert!(
            self.find(hash, item.key()).is_none(),
            "the key is already present"
        );
        self.migrate(1);
        match &self.array {
            None => self.array = Some(Array::new(0)),
            Some(array) if self.old.is_none() && self.len >= items_max(array.buckets()) => {
                self.resize(array.exponent() + 1);
            }
            Some(_) => {}
        }
        let Some((array, index)) = self.home_mut(hash) else {
            unreachable!("the array was allocated just above");
        };
        array.insert(index, tag_of(hash), item);
        self.len += 1;
    }

    /// Takes the item with this key out of the table.
    pub fn remove(&mut self, hash: u64, key: &[u8]) -> Option<T> {
        self.remove_with(hash, |item| item.key() == key)
    }

    /// Takes out an item whose hash shares bucket and tag with `hash` and for which `is_it` holds.
    pub fn remove_with(&mut self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<T> {
        self.migrate(1);
        let (array, index) = self.home_mut(hash)?;
        let item = array.remove_with(index, tag_of(hash), is_it)?;
        self.len -= 1;
        self.shrink_if_sparse();
        Some(item)
    }

    /// Drops all items and the memory.
    pub fn clear(&mut self) {
        *self = Table::default();
    }

    /// Empties the table and returns its items.
    pub fn drain(&mut self) -> IntoIter<T> {
        std::mem::take(self).into_iter()
    }

    /// Makes room for `additional` items. A table with items starts an incremental resize.
    pub fn reserve(&mut self, additional: usize) {
        let exponent = exponent_for(self.len + additional);
        match &self.array {
            None if additional > 0 => self.array = Some(Array::new(exponent)),
            Some(array) if self.old.is_none() && array.exponent() < exponent => self.resize(exponent),
            _ => {}
        }
    }

    /// Moves up to `steps` buckets of a running resize; returns whether one is still under way.
    pub fn migrate(&mut self, steps: usize) -> bool {
        let (Some(old), Some(array)) = (&mut self.old, &mut self.array) else {
            return false;
        };
        for _ in 0..steps {
            if old.step(array) {
                if let Some(done) = self.old.take() {
                    done.array.free_empty();
                }
                return false;
            }
        }
        true
    }

    /// Calls `f` with the items at `cursor` and returns the next cursor; both ends of a scan are 0.
    ///
    /// Items may be seen twice when the table is resized between calls.
    pub fn scan(&self, cursor: u64, mut f: impl FnMut(&T)) -> u64 {
        let Some(array) = self.array.as_ref().filter(|_| self.len > 0) else {
            return 0;
        };
        let Some(old) = &self.old else {
            array.each((cursor & array.mask()) as usize, &mut f);
            return next_cursor(cursor, array.mask());
        };
        let (small, large) = if array.mask() < old.array.mask() {
            (array, &old.array)
        } else {
            (&old.array, array)
        };
        small.each((cursor & small.mask()) as usize, &mut f);
        // Then every bucket of the larger array that belongs to the same bucket of the smaller one.
        let mut cursor = cursor;
        loop {
            large.each((cursor & large.mask()) as usize, &mut f);
            cursor = next_cursor(cursor, large.mask());
            if cursor & (small.mask() ^ large.mask()) == 0 {
                return cursor;
            }
        }
    }

    /// Returns a random item, all about equally likely.
    pub fn random(&self, rng: &mut Rng) -> Option<&T> {
        if self.len == 0 {
            return None;
        }
        let live = self.live_buckets();
        // Take a bucket in proportion to its length by rejection: dense buckets are kept more often.
        for _ in 0..RANDOM_TRIES {
            let (array, index) = self.live_bucket(rng.below(live))?;
            let items = array.chain_len(index);
            if items > rng.below(RANDOM_CHAIN) {
                return array.nth(index, rng.below(items));
            }
        }
        let start = rng.below(live);
        (0..live).find_map(|offset| {
            let (array, index) = self.live_bucket((start + offset) % live)?;
            array.nth(index, rng.below(array.chain_len(index)))
        })
    }

    /// Calls `f` with about `wanted` neighbouring items from a random place, for cheap sampling.
    ///
    /// May yield fewer in a sparse table: the walk visits at most ten buckets per item wanted.
    pub fn sample(&self, rng: &mut Rng, wanted: usize, mut f: impl FnMut(&T)) {
        let live = self.live_buckets();
        if self.len == 0 || wanted == 0 {
            return;
        }
        let start = rng.below(live);
        let mut left = wanted;
        for offset in 0..live.min(wanted.saturating_mul(10)) {
            let Some((array, index)) = self.live_bucket((start + offset) % live) else {
                return;
            };
            array.each(index, &mut |item| {
                if left > 0 {
                    left -= 1;
                    f(item);
                }
            });
            if left == 0 {
                return;
            }
        }
    }

    /// Returns an iterator over all items.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter::new(self)
    }

    fn home_mut(&mut self, hash: u64) -> Option<(&mut Array<T>, usize)> {
        if let Some(old) = &mut self.old
            && let Some(index) = old.home(hash)
        {
            return Some((&mut old.array, index));
        }
        let array = self.array.as_mut()?;
        let index = (hash & array.mask()) as usize;
        Some((array, index))
    }

    fn resize(&mut self, exponent: u8) {
        debug_assert!(self.old.is_none());
        if let Some(array) = self.array.replace(Array::new(exponent)) {
            self.old = Some(Box::new(Migration { array, next: 0 }));
            self.migrate(1);
        }
    }

    fn shrink_if_sparse(&mut self) {
        let Some(array) = &self.array else { return };
        if self.len == 0 {
            if let Some(old) = self.old.take() {
                old.array.free_empty();
            }
            if let Some(array) = self.array.take() {
                array.free_empty();
            }
        } else if self.old.is_none() && self.len < array.buckets() {
            // A quarter of the buckets at half load leaves room both ways before the next resize.
            let exponent = (self.len / 4).max(1).next_power_of_two().trailing_zeros() as u8;
            if exponent < array.exponent() {
                self.resize(exponent);
            }
        }
    }

    /// Counts the buckets that may hold items.
    fn live_buckets(&self) -> usize {
        self.buckets() - self.old.as_ref().map_or(0, |old| old.next)
    }

    /// Returns the `nth` of the buckets that may hold items: the unmigrated ones, then the new array's.
    fn live_bucket(&self, nth: usize) -> Option<(&Array<T>, usize)> {
        let unmigrated = self.old.as_ref().map_or(0, |old| old.array.buckets() - old.next);
        match &self.old {
            Some(old) if nth < unmigrated => Some((&old.array, old.next + nth)),
            _ => Some((self.array.as_ref()?, nth - unmigrated)),
        }
    }
}

impl<T: Keyed + Clone> Clone for Table<T> {
    fn clone(&self) -> Self {
        let mut copy = Table::new();
        copy.reserve(self.len);
        for item in self {
            copy.insert_unique(item.hash(), item.clone());
        }
        copy
    }
}

impl<T> Migration<T> {
    /// Returns the old bucket of a hash when that bucket is still to be migrated.
    #[inline]
    fn home(&self, hash: u64) -> Option<usize> {
        let index = (hash & self.array.mask()) as usize;
        (index >= self.next).then_some(index)
    }
}

impl<T: Keyed> Migration<T> {
    /// Empties the next bucket into `target`; returns whether it was the last.
    fn step(&mut self, target: &mut Array<T>) -> bool {
        for _ in 0..EMPTY_BUCKETS_PER_STEP {
            let mut moved = false;
            while let Some(item) = self.array.pop(self.next) {
                let hash = item.hash();
                target.insert((hash & target.mask()) as usize, tag_of(hash), item);
                moved = true;
            }
            self.next += 1;
            if self.next == self.array.buckets() {
                return true;
            }
            if moved {
                return false;
            }
        }
        false
    }
}

/// Returns the number of items above which the array is doubled: 6.5 per bucket, or the one bucket full.
fn items_max(buckets: usize) -> usize {
    if buckets == 1 { SLOTS } else { buckets * 13 / 2 }
}

fn exponent_for(items: usize) -> u8 {
    let mut exponent = 0;
    while items_max(1 << exponent) < items {
        exponent += 1;
    }
    exponent
}

/// Increments the masked bits of a cursor from the top down.
fn next_cursor(cursor: u64, mask: u64) -> u64 {
    (cursor | !mask).reverse_bits().wrapping_add(1).reverse_bits()
}

#[cfg(test)]
mod tests;
