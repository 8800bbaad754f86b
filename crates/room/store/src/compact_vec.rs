//! A byte vector of two words, for structs of which there are millions.

#![allow(
    unsafe_code,
    reason = "keeps a vector's parts in fewer bytes than the vector itself"
)]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A `Vec<u8>` whose length and capacity have 32 bits: 16 bytes instead of 24, and a spare pattern
/// so that an enum around it is no larger.
///
/// Reads as a slice; to change its length, borrow it as a vector with [`CompactVec::change`].
pub(crate) struct CompactVec {
    start: NonNull<u8>,
    len: u32,
    capacity: u32,
}

// SAFETY: the bytes are owned by this value alone.
unsafe impl Send for CompactVec {}
// SAFETY: shared access only reads.
unsafe impl Sync for CompactVec {}

impl CompactVec {
    /// Returns how many bytes fit without moving.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Lends the bytes as a vector. If `f` panics nothing is left in this one.
    #[inline]
    pub(crate) fn change<R>(&mut self, f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let mut bytes = std::mem::take(self).into_vec();
        let result = f(&mut bytes);
        *self = bytes.into();
        result
    }

    /// Gives up the bytes as a vector.
    #[inline]
    pub(crate) fn into_vec(self) -> Vec<u8> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the parts come from a vector taken apart in `from`, and are given up here.
        unsafe { Vec::from_raw_parts(this.start.as_ptr(), this.len as usize, this.capacity as usize) }
    }
}

impl From<Vec<u8>> for CompactVec {
    #[inline]
    fn from(mut bytes: Vec<u8>) -> CompactVec {
        if bytes.capacity() > u32::MAX as usize {
            bytes.shrink_to_fit();
        }
        let capacity = u32::try_from(bytes.capacity()).expect("compact collections stay below 4 GiB");
        let mut bytes = ManuallyDrop::new(bytes);
        // The length is at most the capacity.
        let len = bytes.len() as u32;
        // SAFETY: a vector's pointer is never null.
        let start = unsafe { NonNull::new_unchecked(bytes.as_mut_ptr()) };
        CompactVec { start, len, capacity }
    }
}

impl Default for CompactVec {
    #[inline]
    fn default() -> Self {
        CompactVec {
            start: NonNull::dangling(),
            len: 0,
            capacity: 0,
        }
    }
}

impl Drop for CompactVec {
    #[inline]
    fn drop(&mut self) {
        if self.capacity > 0 {
            // SAFETY: the parts of a vector, given up once.
            drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), 0, self.capacity as usize) });
        }
    }
}

impl Deref for CompactVec {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are initialised and ours.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }
}

impl DerefMut for CompactVec {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and held mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len as usize) }
    }
}

impl Clone for CompactVec {
    fn clone(&self) -> Self {
        self.to_vec().into()
    }
}

impl PartialEq for CompactVec {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for CompactVec {}

impl fmt::Debug for CompactVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_words_even_beside_a_box() {
        enum Either {
            _Bytes(CompactVec),
            _Boxed(Box<u64>),
        }
        assert_eq!((size_of::<CompactVec>(), size_of::<Either>()), (16, 16));
    }

    #[test]
    fn changes_as_a_vector_does() {
        let mut bytes = CompactVec::default();
        assert!(bytes.is_empty() && bytes.capacity() == 0);
        for n in 0..1_000u32 {
            bytes.change(|vec| vec.push(n as u8));
        }
        bytes.change(|vec| vec.truncate(500));
        bytes[0] = 9;
        assert_eq!((bytes.len(), bytes[0], bytes[499]), (500, 9, 243));
        assert_eq!(bytes.clone(), bytes);
        bytes.change(Vec::shrink_to_fit);
        assert_eq!(bytes.capacity(), 500);
        assert_eq!(bytes.into_vec().len(), 500);
    }

    #[test]
    fn a_panic_while_changing_leaves_it_empty() {
        let mut bytes = CompactVec::from(vec![1, 2, 3]);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            bytes.change(|vec| {
                vec.extend_from_slice(&[0; 100]);
                panic!("on purpose");
            })
        }));
        assert!(result.is_err() && bytes.is_empty());
    }
}
