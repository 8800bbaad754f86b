//! The bucket array under a table: 64-byte buckets with chained overflow.
//!
//! A bucket is one cache line: a word of metadata and seven slots. The low byte
//! of the word says whether the bucket is chained; the seven bytes above it are
//! the tags of the slots, where 0 means empty. All tags are compared at once in
//! the word, so an item is only dereferenced when eight bits of its hash agree.
//! In a chained bucket the last slot holds the pointer to the next bucket.
//!
//! **Invariant:** a chain is dense. Every bucket but its last is full, items
//! fill slots from the first on, and the last bucket of a chain of two or more
//! holds at least two items (a single one would fit in the pointer's place).

#![allow(
    unsafe_code,
    reason = "items and chain pointers share slots; buckets are allocated by hand"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::Keyed;

/// Slots of one bucket.
pub(super) const SLOTS: usize = 7;

const CHAINED: u64 = 1;
const BYTE_LOW: u64 = 0x0101_0101_0101_0101;
const BYTE_REST: u64 = 0x7f7f_7f7f_7f7f_7f7f;

#[repr(C, align(64))]
struct Bucket<T> {
    meta: u64,
    slots: [Slot<T>; SLOTS],
}

union Slot<T> {
    item: ManuallyDrop<T>,
    next: NonNull<Bucket<T>>,
}

impl<T> Bucket<T> {
    fn is_chained(&self) -> bool {
        self.meta & CHAINED != 0
    }

    fn items(&self) -> usize {
        // Dense: the highest byte in use says how many slots are.
        ((71 - self.meta.leading_zeros() as usize) / 8).saturating_sub(1)
    }

    fn next(&self) -> Option<NonNull<Bucket<T>>> {
        // SAFETY: the flag says that the last slot holds a chain pointer.
        self.is_chained().then(|| unsafe { self.slots[SLOTS - 1].next })
    }

    /// Returns a word with the top bit of byte `slot + 1` set for every slot whose tag matches.
    fn matches(&self, tag: u8) -> u64 {
        let differing = self.meta ^ (u64::from(tag) * BYTE_LOW);
        !(((differing & BYTE_REST) + BYTE_REST) | differing | BYTE_REST) & !0xff
    }

    fn tag(&self, slot: usize) -> u8 {
        (self.meta >> (8 * (slot + 1))) as u8
    }

    fn set_tag(&mut self, slot: usize, tag: u8) {
        let shift = 8 * (slot + 1);
        self.meta = self.meta & !(0xff << shift) | u64::from(tag) << shift;
    }

    fn put(&mut self, slot: usize, tag: u8, item: T) {
        self.slots[slot].item = ManuallyDrop::new(item);
        self.set_tag(slot, tag);
    }

    /// # Safety
    /// The slot must hold an item.
    unsafe fn item(&self, slot: usize) -> &T {
        // SAFETY: promised by the caller.
        unsafe { &self.slots[slot].item }
    }

    /// # Safety
    /// The slot must hold an item.
    unsafe fn take(&mut self, slot: usize) -> (u8, T) {
        let tag = self.tag(slot);
        self.set_tag(slot, 0);
        // SAFETY: promised by the caller; the cleared tag keeps it from being taken twice.
        (tag, unsafe { ManuallyDrop::take(&mut self.slots[slot].item) })
    }
}

/// Returns the tag of a hash; never 0, which marks an empty slot.
#[inline]
pub(super) fn tag_of(hash: u64) -> u8 {
    ((hash >> 56) as u8).max(1)
}

/// A power-of-two array of buckets.
pub(super) struct Array<T> {
    first: NonNull<Bucket<T>>,
    overflow: u32,
    exponent: u8,
}

// SAFETY: an array owns its items and buckets and shares nothing.
unsafe impl<T: Send> Send for Array<T> {}
// SAFETY: shared access only reads.
unsafe impl<T: Sync> Sync for Array<T> {}

impl<T> Array<T> {
    const ITEM_FITS: () = assert!(size_of::<T>() == 8 && size_of::<Bucket<T>>() == 64);

    pub(super) fn new(exponent: u8) -> Array<T> {
        let () = Self::ITEM_FITS;
        Array {
            first: allocate(1 << exponent),
            overflow: 0,
            exponent,
        }
    }

    pub(super) fn exponent(&self) -> u8 {
        self.exponent
    }

    pub(super) fn buckets(&self) -> usize {
        1 << self.exponent
    }

    pub(super) fn mask(&self) -> u64 {
        (1 << self.exponent) - 1
    }

    pub(super) fn mem_bytes(&self) -> usize {
        (self.buckets() + self.overflow as usize) * size_of::<Bucket<T>>()
    }

    fn head(&self, index: usize) -> NonNull<Bucket<T>> {
        debug_assert!(index < self.buckets());
        // SAFETY: callers mask the index, so it lies inside the allocation.
        unsafe { self.first.add(index) }
    }

    fn bucket(&self, index: usize) -> &Bucket<T> {
        // SAFETY: every bucket of the array is initialised (zero is a valid empty bucket), and
        // `&self` keeps writers away.
        unsafe { self.head(index).as_ref() }
    }

    /// Appends an item to the chain at `index`.
    pub(super) fn insert(&mut self, index: usize, tag: u8, item: T) {
        let mut at = self.head(index);
        // SAFETY: chain pointers lead to live buckets owned by this array, which we hold mutably.
        unsafe {
            while let Some(next) = at.as_ref().next() {
                at = next;
            }
            let bucket = at.as_mut();
            let items = bucket.items();
            if items < SLOTS {
                return bucket.put(items, tag, item);
            }
            let mut fresh = allocate::<T>(1);
            let (moved_tag, moved) = bucket.take(SLOTS - 1);
            fresh.as_mut().put(0, moved_tag, moved);
            fresh.as_mut().put(1, tag, item);
            bucket.slots[SLOTS - 1].next = fresh;
            bucket.meta |= CHAINED;
        }
        self.overflow += 1;
    }

    /// Removes and returns one item of the chain at `index`, the cheapest one.
    pub(super) fn pop(&mut self, index: usize) -> Option<T> {
        let mut head = self.head(index);
        // SAFETY: as in `insert`; the slot below the item count holds an item.
        unsafe {
            match (head.as_ref().items(), head.as_ref().is_chained()) {
                (0, _) => None,
                (items, false) => Some(head.as_mut().take(items - 1).1),
                (_, true) => Some(self.take_at(head, head, 0)),
            }
        }
    }

    /// Takes the item at a slot and fills the hole from the end of the chain.
    ///
    /// # Safety
    /// `at` must be a bucket of the chain starting at `head`, and `slot` hold an item.
    unsafe fn take_at(&mut self, head: NonNull<Bucket<T>>, mut at: NonNull<Bucket<T>>, slot: usize) -> T {
        // SAFETY: chain pointers lead to live buckets of this array; by the density invariant the
        // last bucket has items in exactly the slots below its count.
        unsafe {
            let (mut previous, mut last) = (None, head);
            while let Some(next) = last.as_ref().next() {
                previous = Some(last);
                last = next;
            }
            let (_, taken) = at.as_mut().take(slot);
            // The taken slot still counts when it lies below the last item, not when it was the last.
            let end = last.as_ref().items();
            if at != last || slot < end {
                let (tag, filler) = last.as_mut().take(end - 1);
                at.as_mut().put(slot, tag, filler);
            }
            if let Some(mut previous) = previous
                && last.as_ref().items() == 1
            {
                let (tag, lone) = last.as_mut().take(0);
                let bucket = previous.as_mut();
                bucket.meta &= !CHAINED;
                bucket.put(SLOTS - 1, tag, lone);
                dealloc(last.as_ptr().cast(), layout::<T>(1));
                self.overflow -= 1;
            }
            taken
        }
    }

    /// Calls `f` with every item of the chain at `index`.
    pub(super) fn each(&self, index: usize, f: &mut impl FnMut(&T)) {
        let mut cursor = Cursor::at(index);
        while let Some(item) = cursor.next(self) {
            f(item);
        }
    }

    pub(super) fn chain_len(&self, index: usize) -> usize {
        let mut bucket = self.bucket(index);
        let mut items = bucket.items();
        while let Some(next) = bucket.next() {
            // SAFETY: chain pointers lead to live buckets of this array.
            bucket = unsafe { next.as_ref() };
            items += bucket.items();
        }
        items
    }

    /// Returns the `nth` item of the chain at `index`.
    pub(super) fn nth(&self, index: usize, nth: usize) -> Option<&T> {
        let mut cursor = Cursor::at(index);
        for _ in 0..nth {
            cursor.next(self)?;
        }
        cursor.next(self)
    }

    /// Drops the items of every chain, and the overflow buckets with them.
    fn drop_items(&mut self) {
        for index in 0..self.buckets() {
            let mut at = Some(self.head(index));
            let mut overflow = false;
            while let Some(mut bucket) = at {
                // SAFETY: each bucket is visited once; its items are taken before it is freed.
                unsafe {
                    at = bucket.as_ref().next();
                    for slot in 0..bucket.as_ref().items() {
                        drop(bucket.as_mut().take(slot));
                    }
                    if overflow {
                        dealloc(bucket.as_ptr().cast(), layout::<T>(1));
                    } else {
                        bucket.as_mut().meta = 0;
                    }
                }
                overflow = true;
            }
        }
        self.overflow = 0;
    }

    /// Frees an array known to hold no items, without looking at its buckets.
    pub(super) fn free_empty(self) {
        let this = ManuallyDrop::new(self);
        debug_assert_eq!(this.overflow, 0);
        // SAFETY: allocated with this layout; nothing runs after, the value is never dropped.
        unsafe { dealloc(this.first.as_ptr().cast(), layout::<T>(this.buckets())) }
    }
}

impl<T> Array<T> {
    /// Finds an item with this tag for which `is_it` holds.
    #[inline]
    fn locate(
        &self,
        index: usize,
        tag: u8,
        mut is_it: impl FnMut(&T) -> bool,
    ) -> Option<(NonNull<Bucket<T>>, usize)> {
        let mut at = self.head(index);
        loop {
            // SAFETY: chain pointers lead to live buckets of this array.
            let bucket = unsafe { at.as_ref() };
            let mut matches = bucket.matches(tag);
            while matches != 0 {
                let slot = matches.trailing_zeros() as usize / 8 - 1;
                // SAFETY: tags are never 0, so a matching slot holds an item.
                if is_it(unsafe { bucket.item(slot) }) {
                    return Some((at, slot));
                }
                matches &= matches - 1;
            }
            at = bucket.next()?;
        }
    }

    pub(super) fn get_with(&self, index: usize, tag: u8, is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        let (at, slot) = self.locate(index, tag, is_it)?;
        // SAFETY: `locate` returns live slots; the borrow of `self` keeps them so.
        Some(unsafe { &at.as_ref().slots[slot].item })
    }

    pub(super) fn find_with(
        &mut self,
        index: usize,
        tag: u8,
        is_it: impl FnMut(&T) -> bool,
    ) -> Option<&mut T> {
        let (mut at, slot) = self.locate(index, tag, is_it)?;
        // SAFETY: `locate` returns live slots, and `self` is held mutably.
        Some(unsafe { &mut at.as_mut().slots[slot].item })
    }

    #[inline]
    pub(super) fn prefetch(&self, index: usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing; the address is inside the allocation anyway.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.head(index).as_ptr().cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = index;
    }

    pub(super) fn remove_with(&mut self, index: usize, tag: u8, is_it: impl FnMut(&T) -> bool) -> Option<T> {
        let (at, slot) = self.locate(index, tag, is_it)?;
        // SAFETY: `locate` searched the chain of this very index.
        Some(unsafe { self.take_at(self.head(index), at, slot) })
    }
}

impl<T: Keyed> Array<T> {
    #[inline]
    pub(super) fn find(&self, index: usize, tag: u8, key: &[u8]) -> Option<&T> {
        let (at, slot) = self.locate(index, tag, |item| item.key() == key)?;
        // SAFETY: `locate` returns live slots; the borrow of `self` keeps them so.
        Some(unsafe { &at.as_ref().slots[slot].item })
    }

    #[inline]
    pub(super) fn find_mut(&mut self, index: usize, tag: u8, key: &[u8]) -> Option<&mut T> {
        let (mut at, slot) = self.locate(index, tag, |item| item.key() == key)?;
        // SAFETY: as in `find`, and `self` is held mutably.
        Some(unsafe { &mut at.as_mut().slots[slot].item })
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        self.drop_items();
        // SAFETY: allocated with this layout, freed once.
        unsafe { dealloc(self.first.as_ptr().cast(), layout::<T>(self.buckets())) }
    }
}

/// A place in one chain, to walk it item by item.
pub(super) struct Cursor<T> {
    index: usize,
    overflow: Option<NonNull<Bucket<T>>>,
    slot: usize,
}

// SAFETY: the pointer is only followed together with a borrow of the array it came from.
unsafe impl<T: Sync> Send for Cursor<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Cursor<T> {}

impl<T> Cursor<T> {
    pub(super) fn at(index: usize) -> Cursor<T> {
        Cursor {
            index,
            overflow: None,
            slot: 0,
        }
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Returns the next item of the chain. The array must be the same, unchanged, at every call.
    pub(super) fn next<'a>(&mut self, array: &'a Array<T>) -> Option<&'a T> {
        loop {
            let at = self.overflow.unwrap_or_else(|| array.head(self.index));
            // SAFETY: the array is unchanged since the pointer was read from it.
            let bucket: &'a Bucket<T> = unsafe { at.as_ref() };
            if self.slot < bucket.items() {
                self.slot += 1;
                // SAFETY: slots below the item count hold items.
                return Some(unsafe { bucket.item(self.slot - 1) });
            }
            self.overflow = Some(bucket.next()?);
            self.slot = 0;
        }
    }
}

fn layout<T>(buckets: usize) -> Layout {
    Layout::array::<Bucket<T>>(buckets).expect("a bucket array stays below the address space")
}

fn allocate<T>(buckets: usize) -> NonNull<Bucket<T>> {
    let layout = layout::<T>(buckets);
    // SAFETY: the layout is never of size zero.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory.cast()).unwrap_or_else(|| handle_alloc_error(layout))
}
