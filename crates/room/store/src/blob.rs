//! Byte strings behind one thin pointer, for the items of tables.
//!
//! A `Blob` is a block of `[length][bytes]`; a `Pair` is a block of
//! `[field length][value length][field][value]`. A length takes one byte below
//! 255 and nine otherwise. Blocks are allocated in steps of eight bytes, which
//! is what allocators hand out anyway, so a value of nearly the same length is
//! replaced in place.

#![allow(unsafe_code, reason = "thin owning pointers to blocks of run-time size")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::fmt;
use std::ptr::NonNull;

use crate::table::Keyed;

/// First byte of a length that takes the eight bytes after it.
const WIDE: u8 = 255;

fn len_size(len: usize) -> usize {
    if len < WIDE as usize { 1 } else { 9 }
}

/// # Safety
/// `at` must be valid for reading a written length.
unsafe fn read_len(at: *const u8) -> usize {
    // SAFETY: the first byte says whether eight more belong to the length.
    unsafe {
        match at.read() {
            WIDE => at.add(1).cast::<u64>().read_unaligned() as usize,
            short => short as usize,
        }
    }
}

/// # Safety
/// `at` must be valid for writing `len_size(len)` bytes.
unsafe fn write_len(at: *mut u8, len: usize) {
    // SAFETY: promised by the caller.
    unsafe {
        if len < WIDE as usize {
            at.write(len as u8);
        } else {
            at.write(WIDE);
            at.add(1).cast::<u64>().write_unaligned(len as u64);
        }
    }
}

fn block_layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes.next_multiple_of(8), 8).expect("a block stays below the address space")
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: a block holds at least its length, so the size is not zero.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// An owned byte string, eight bytes wide.
pub struct Blob(NonNull<u8>);

// SAFETY: the block is owned by this pointer alone and is plain bytes.
unsafe impl Send for Blob {}
// SAFETY: shared access only reads.
unsafe impl Sync for Blob {}

impl Blob {
    /// Copies `bytes` into a block of its own.
    pub fn new(bytes: &[u8]) -> Blob {
        let head = len_size(bytes.len());
        let block = allocate(block_layout(head + bytes.len()));
        // SAFETY: the block has room for the length and the bytes.
        unsafe {
            write_len(block.as_ptr(), bytes.len());
            block
                .as_ptr()
                .add(head)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Blob(block)
    }

    /// Returns the bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the block was laid out by `new` and lives as long as `self`.
        unsafe {
            let len = read_len(self.0.as_ptr());
            std::slice::from_raw_parts(self.0.as_ptr().add(len_size(len)), len)
        }
    }

    /// Returns the bytes allocated.
    pub fn mem_bytes(&self) -> usize {
        self.layout().size()
    }

    fn layout(&self) -> Layout {
        let len = self.as_bytes().len();
        block_layout(len_size(len) + len)
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        // SAFETY: allocated with this very layout, freed once.
        unsafe { dealloc(self.0.as_ptr(), self.layout()) }
    }
}

impl Clone for Blob {
    fn clone(&self) -> Self {
        Blob::new(self.as_bytes())
    }
}

impl PartialEq for Blob {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Blob {}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.as_bytes().escape_ascii())
    }
}

impl Keyed for Blob {
    #[inline]
    fn key(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// An owned field with its value, eight bytes wide.
pub struct Pair(NonNull<u8>);

// SAFETY: the block is owned by this pointer alone and is plain bytes.
unsafe impl Send for Pair {}
// SAFETY: shared access only reads.
unsafe impl Sync for Pair {}

/// Where the parts of a pair's block lie.
#[derive(Clone, Copy)]
struct Parts {
    field_len: usize,
    value_len: usize,
}

impl Parts {
    fn field_at(self) -> usize {
        len_size(self.field_len) + len_size(self.value_len)
    }

    fn value_at(self) -> usize {
        self.field_at() + self.field_len
    }

    fn layout(self) -> Layout {
        block_layout(self.value_at() + self.value_len)
    }
}

impl Pair {
    /// Copies a field and its value into one block.
    pub fn new(field: &[u8], value: &[u8]) -> Pair {
        let parts = Parts {
            field_len: field.len(),
            value_len: value.len(),
        };
        let block = allocate(parts.layout());
        let pair = Pair(block);
        // SAFETY: the layout has room for both lengths and both strings.
        unsafe {
            write_len(block.as_ptr(), field.len());
            write_len(block.as_ptr().add(len_size(field.len())), value.len());
            pair.write_at(parts.field_at(), field);
            pair.write_at(parts.value_at(), value);
        }
        pair
    }

    /// Returns the field.
    #[inline]
    pub fn field(&self) -> &[u8] {
        let parts = self.parts();
        self.slice(parts.field_at(), parts.field_len)
    }

    /// Returns the value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        let parts = self.parts();
        self.slice(parts.value_at(), parts.value_len)
    }

    /// Replaces the value; in place when the block keeps its size.
    pub fn set_value(&mut self, value: &[u8]) {
        let old = self.parts();
        let new = Parts {
            value_len: value.len(),
            ..old
        };
        if old.field_at() != new.field_at() {
            *self = Pair::new(self.field(), value);
            return;
        }
        let (before, after) = (old.layout(), new.layout());
        // SAFETY: the block has layout `before`; `realloc` keeps lengths and field, which do not move
        // because the lengths keep their widths; then the block has room for the new value.
        unsafe {
            if before != after {
                let moved = realloc(self.0.as_ptr(), before, after.size());
                self.0 = NonNull::new(moved).unwrap_or_else(|| handle_alloc_error(after));
            }
            write_len(self.0.as_ptr().add(len_size(new.field_len)), value.len());
            self.write_at(new.value_at(), value);
        }
    }

    /// Returns the bytes allocated.
    pub fn mem_bytes(&self) -> usize {
        self.parts().layout().size()
    }

    #[inline]
    fn parts(&self) -> Parts {
        // SAFETY: `new` and `set_value` keep both lengths at the head of the block.
        unsafe {
            let field_len = read_len(self.0.as_ptr());
            Parts {
                field_len,
                value_len: read_len(self.0.as_ptr().add(len_size(field_len))),
            }
        }
    }

    #[inline]
    fn slice(&self, at: usize, len: usize) -> &[u8] {
        // SAFETY: only called with the places that the lengths of this block give.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(at), len) }
    }

    /// # Safety
    /// The block must have room for `bytes` at `at`, and own no part of `bytes`.
    unsafe fn write_at(&self, at: usize, bytes: &[u8]) {
        // SAFETY: promised by the caller.
        unsafe {
            self.0
                .as_ptr()
                .add(at)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: the block always has the layout its lengths tell; freed once.
        unsafe { dealloc(self.0.as_ptr(), self.parts().layout()) }
    }
}

impl Clone for Pair {
    fn clone(&self) -> Self {
        Pair::new(self.field(), self.value())
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}={}",
            self.field().escape_ascii(),
            self.value().escape_ascii()
        )
    }
}

impl Keyed for Pair {
    #[inline]
    fn key(&self) -> &[u8] {
        self.field()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn both_are_one_pointer_wide_even_in_an_option() {
        assert_eq!((size_of::<Option<Blob>>(), size_of::<Option<Pair>>()), (8, 8));
    }

    #[test]
    fn a_blob_gives_back_its_bytes_at_every_length_width() {
        for len in [0, 1, 7, 253, 254, 255, 256, 70_000] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let blob = Blob::new(&bytes);
            assert_eq!(blob.as_bytes(), bytes);
            assert_eq!(blob.clone(), blob);
            assert!(blob.mem_bytes() >= len && blob.mem_bytes() <= len + 16);
        }
    }

    #[test]
    fn a_pair_keeps_its_field_through_any_sequence_of_values() {
        let mut rng = Rng::seeded(11);
        for field_len in [0, 3, 254, 255, 300] {
            let field: Vec<u8> = (0..field_len).map(|i| i as u8).collect();
            let mut pair = Pair::new(&field, b"");
            for _ in 0..500 {
                let value: Vec<u8> = (0..rng.below(600)).map(|_| rng.next_u64() as u8).collect();
                pair.set_value(&value);
                assert_eq!((pair.field(), pair.value()), (&field[..], &value[..]));
            }
            assert_eq!(pair.clone().value(), pair.value());
        }
    }
}
