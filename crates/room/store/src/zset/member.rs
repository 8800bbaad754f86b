//! The block of one member: score, length and bytes behind a single thin pointer.
#![allow(
    unsafe_code,
    reason = "one allocation per member instead of two is the point of this file"
)]

use crate::rank_tree::RankItem;
use crate::table::Keyed;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Where the length lies in a block, after the score.
const LENGTH_AT: usize = size_of::<f64>();
/// Where the bytes of the member start.
const BYTES_AT: usize = LENGTH_AT + size_of::<u32>();

/// Owns the block of a member.
pub(super) struct MemberBox(MemberRef);

/// Points to a block that is owned elsewhere.
///
/// The tree of a sorted set holds these; its table owns the blocks. A block is
/// freed only after its reference has left the tree.
#[derive(Clone, Copy)]
pub(super) struct MemberRef(NonNull<u8>);

// SAFETY: a block is plain bytes owned by one `MemberBox`; references to it live
// in the same sorted set, so both move between threads together.
unsafe impl Send for MemberBox {}
// SAFETY: as above; a shared block is only read.
unsafe impl Sync for MemberBox {}
// SAFETY: as above.
unsafe impl Send for MemberRef {}
// SAFETY: as above.
unsafe impl Sync for MemberRef {}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(BYTES_AT + len, align_of::<f64>())
        .expect("a member is far below the address space")
}

impl MemberBox {
    pub(super) fn new(score: f64, member: &[u8]) -> MemberBox {
        let len = u32::try_from(member.len()).expect("a member is at most 512 MiB");
        let layout = layout(member.len());
        // SAFETY: the layout is never empty. Score and length are written at offsets
        // that are multiples of their alignment in a block aligned for the score, and
        // the block has room for the bytes after them.
        unsafe {
            let Some(block) = NonNull::new(alloc(layout)) else {
                handle_alloc_error(layout)
            };
            block.cast::<f64>().write(score);
            block.add(LENGTH_AT).cast::<u32>().write(len);
            block
                .add(BYTES_AT)
                .copy_from_nonoverlapping(NonNull::from(member).cast(), member.len());
            MemberBox(MemberRef(block))
        }
    }

    pub(super) fn score(&self) -> f64 {
        // SAFETY: the block is alive while its owner is, and starts with the score.
        unsafe { self.0.0.cast::<f64>().read() }
    }

    pub(super) fn set_score(&mut self, score: f64) {
        // SAFETY: as in `score`; nothing else writes to the block.
        unsafe { self.0.0.cast::<f64>().write(score) }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// Returns a reference for the tree; see `MemberRef` for how long it may live.
    pub(super) fn reference(&self) -> MemberRef {
        self.0
    }

    /// Returns the heap bytes of a block for a member of this length.
    pub(super) fn heap_bytes(len: usize) -> usize {
        (BYTES_AT + len).next_multiple_of(8)
    }
}

impl Drop for MemberBox {
    fn drop(&mut self) {
        let len = self.bytes().len();
        // SAFETY: allocated with this layout in `new`, freed only here.
        unsafe { dealloc(self.0.0.as_ptr(), layout(len)) }
    }
}

impl Keyed for MemberBox {
    fn key(&self) -> &[u8] {
        self.bytes()
    }
}

impl MemberRef {
    /// Returns the bytes for as long as the caller can vouch for the block.
    ///
    /// # Safety
    /// The owner must not free the block during `'a`.
    pub(super) unsafe fn bytes_for<'a>(self) -> &'a [u8] {
        // SAFETY: the block holds its length and that many bytes from `new` on; the
        // caller promises that it lives.
        unsafe {
            let len = self.0.add(LENGTH_AT).cast::<u32>().read() as usize;
            std::slice::from_raw_parts(self.0.add(BYTES_AT).as_ptr(), len)
        }
    }
}

impl RankItem for MemberRef {
    fn bytes(&self) -> &[u8] {
        // SAFETY: references leave the tree before their block is freed, and the
        // slice lives no longer than this borrow.
        unsafe { self.bytes_for() }
    }
}
