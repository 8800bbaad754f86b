//! The process's allocator: mimalloc, with a count of the bytes in use.
//!
//! Counting has to cost next to nothing. Each of the first threads owns a
//! counter and adds to it without any locked instruction; the few beyond share
//! the last one. The sum over all is exact whenever no allocation is under way.
#![allow(unsafe_code, reason = "an allocator is unsafe by its nature")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use mimalloc::MiMalloc;

/// Counters; the last is shared by all threads beyond the first ones.
const COUNTERS: usize = 64;

#[repr(align(128))]
struct Padded(AtomicI64);

static BYTES: [Padded; COUNTERS] = [const { Padded(AtomicI64::new(0)) }; COUNTERS];
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Returns the bytes that the process has allocated and not freed.
pub fn used_bytes() -> usize {
    let sum: i64 = BYTES
        .iter()
        .map(|counter| counter.0.load(Ordering::Relaxed))
        .sum();
    usize::try_from(sum).unwrap_or(0)
}

/// Returns the bytes of real memory that the process holds, pages of files not counted.
pub(crate) fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kilobytes.map_or(0, |kilobytes| kilobytes << 10)
}

/// Mimalloc with its bytes counted; for `#[global_allocator]`.
pub struct CountingAllocator;

#[inline]
fn count(bytes: i64) {
    let own = OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed).min(COUNTERS - 1));
        }
        own.get()
    });
    let counter = &BYTES[own].0;
    if own < COUNTERS - 1 {
        counter.store(counter.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    } else {
        counter.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to mimalloc unchanged; counting allocates nothing, since the thread-local
// has a constant initial value and nothing to drop.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's promise is passed on.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { MiMalloc.realloc(pointer, layout, size) }
    }
}
