//! The process's allocator: mimalloc, with a count of the bytes in use by account.
//!
//! Counting has to cost next to nothing. Each of the first threads owns a
//! counter per account and adds to it without any locked instruction; the few
//! beyond share the last one. The sum over all is exact whenever no allocation is
//! under way. On which account a thread is, it says itself (see
//! [`nagaya_threads::on_account`]): the engine's threads are on the room's.
#![allow(unsafe_code, reason = "an allocator is unsafe by its nature")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use mimalloc::MiMalloc;
use nagaya_threads::{Account, account};

/// Counters; the last is shared by all threads beyond the first ones.
const COUNTERS: usize = 64;

/// The counters of one thread lie side by side: it seldom uses more than one of them.
#[repr(align(128))]
struct ThreadBytes([AtomicI64; Account::COUNT]);

static BYTES: [ThreadBytes; COUNTERS] =
    [const { ThreadBytes([const { AtomicI64::new(0) }; Account::COUNT]) }; COUNTERS];
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Returns the bytes that the process has allocated and not freed.
pub fn used_bytes() -> usize {
    let sum: i64 = BYTES
        .iter()
        .flat_map(|thread| &thread.0)
        .map(|counter| counter.load(Ordering::Relaxed))
        .sum();
    usize::try_from(sum).unwrap_or(0)
}

/// Returns the bytes that were allocated and not freed on an account.
pub fn account_bytes(account: Account) -> usize {
    let sum: i64 = BYTES
        .iter()
        .map(|thread| thread.0[account as usize].load(Ordering::Relaxed))
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

unsafe extern "C" {
    /// Of mimalloc: collects what the calling thread has freed, and gives free pages of all threads back to the
    /// system, at once with `force`.
    fn mi_collect(force: bool);
    /// Of mimalloc: changes an option.
    fn mi_option_set(option: std::ffi::c_int, value: std::ffi::c_long);
}

/// Makes the process hold little more memory than it uses. Called when an engine starts, before it allocates much.
///
/// Huge pages are declined, as Redis does: with them a block of two megabytes stays as long as anything in it is
/// used. The allocator gives free pages back after a tenth of a second, instead of a whole one.
pub(crate) fn hold_little() {
    /// The number of the option in mimalloc's list.
    const PURGE_DELAY: std::ffi::c_int = 15;
    const PURGE_DELAY_MS: std::ffi::c_long = 100;
    // SAFETY: setting an option of the allocator is allowed at any time, from any thread.
    unsafe { mi_option_set(PURGE_DELAY, PURGE_DELAY_MS) };
    #[cfg(target_os = "linux")]
    // SAFETY: this request has no pointers. Where the system does not know it, nothing happens.
    unsafe {
        let (on, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
        libc::prctl(libc::PR_SET_THP_DISABLE, on, unused, unused, unused);
    }
}

/// Gives memory back to the system that the calling thread, or the C library, keeps for later.
pub(crate) fn give_back() {
    // SAFETY: both may be called at any time, from any thread.
    unsafe {
        mi_collect(true);
        // SQLite takes its memory from there.
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        libc::malloc_trim(0);
    }
}

/// Tells how much of the memory that the process holds unused is the room's doing.
///
/// Resident memory is known for the whole process only. What the room leaves unused are gaps between what it
/// has allocated: pages that it filled at its peak and has partly freed since, and what an eighth of rounding
/// adds. What others hold, and the gaps that they leave, is no reason to evict.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlackGauge {
    room_peak: usize,
    /// The most that others have used lately: their pages go back to the system some time after.
    others_peak: usize,
}

/// A look at the memory of the process, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryLook {
    pub(crate) resident: usize,
    pub(crate) used: usize,
    pub(crate) used_by_room: usize,
}

impl SlackGauge {
    /// Takes a look and returns the room's slack.
    pub(crate) fn note(&mut self, look: MemoryLook) -> usize {
        /// The part of the difference by which the peak of others sinks per look.
        const SINK: usize = 512;
        let MemoryLook {
            resident,
            used,
            used_by_room,
        } = look;
        self.room_peak = self.room_peak.max(used_by_room);
        let others = used.saturating_sub(used_by_room);
        let above = self.others_peak.saturating_sub(others);
        self.others_peak = others + (above - above.div_ceil(SINK).min(above));
        let of_others = self.others_peak - others + others / 8;
        let held = resident.saturating_sub(used).saturating_sub(of_others);
        held.min(self.room_peak + self.room_peak / 8 - used_by_room)
    }
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
    let counter = &BYTES[own].0[account() as usize];
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

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    fn look(resident: usize, room: usize, others: usize) -> MemoryLook {
        MemoryLook {
            resident: resident * MB,
            used: (room + others) * MB,
            used_by_room: room * MB,
        }
    }

    #[test]
    fn gaps_after_a_peak_of_the_room_are_its_slack() {
        let mut gauge = SlackGauge::default();
        assert_eq!(gauge.note(look(110, 100, 0)), 10 * MB);
        assert_eq!(gauge.note(look(110, 60, 0)), 50 * MB);
        // The pages went back to the system.
        assert_eq!(gauge.note(look(70, 60, 0)), 10 * MB);
    }

    #[test]
    fn what_others_held_or_hold_is_not_the_rooms_slack() {
        let mut gauge = SlackGauge::default();
        assert_eq!(gauge.note(look(44, 40, 0)), 4 * MB);
        // A storm comes, goes, and leaves its pages behind for a while.
        assert!(gauge.note(look(200, 40, 150)) <= 5 * MB);
        assert!(gauge.note(look(200, 40, 0)) <= 10 * MB);
        // Memory that no allocator of ours knows of.
        assert_eq!(gauge.note(look(900, 40, 0)), 5 * MB);
    }

    #[test]
    fn the_peak_of_others_sinks_to_what_they_use() {
        let mut gauge = SlackGauge::default();
        gauge.note(look(200, 40, 100));
        for _ in 0..10_000 {
            gauge.note(look(200, 40, 1));
        }
        assert_eq!(gauge.others_peak, MB);
    }
}
