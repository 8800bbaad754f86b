//! Counters of the background work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nagaya_tiering::evictor::EvictReport;
use nagaya_tiering::saver::SaveReport;

/// Counts since the start, and the state now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskStats {
    /// Shards that this process works on.
    pub shards: u64,
    pub saves: u64,
    /// Snapshots that the cold tier refused because it has newer ones.
    pub refused: u64,
    /// Tags that could not be copied: not resident, suspect or being moved.
    pub skipped: u64,
    /// Tags that became clean.
    pub cleaned: u64,
    /// Age of the oldest change that is not known to be saved.
    pub staleness: Duration,
    pub marked: u64,
    pub evicted: u64,
    pub called_off: u64,
    /// Evictions because of memory rather than age.
    pub pressed: u64,
    /// Nodes above their high-water mark in the last round.
    pub nodes_full: u64,
    pub save_errors: u64,
    pub evict_errors: u64,
}

/// The counters behind [`TaskStats`].
#[derive(Debug, Default)]
pub(crate) struct TaskCounters {
    saves: AtomicU64,
    refused: AtomicU64,
    skipped: AtomicU64,
    cleaned: AtomicU64,
    marked: AtomicU64,
    evicted: AtomicU64,
    called_off: AtomicU64,
    pub(crate) pressed: AtomicU64,
    pub(crate) nodes_full: AtomicU64,
    pub(crate) save_errors: AtomicU64,
    pub(crate) evict_errors: AtomicU64,
}

impl TaskCounters {
    pub(crate) fn note_save(&self, report: SaveReport) {
        self.saves.fetch_add(report.saved, Ordering::Relaxed);
        self.refused.fetch_add(report.refused, Ordering::Relaxed);
        self.skipped.fetch_add(report.skipped, Ordering::Relaxed);
        self.cleaned.fetch_add(report.cleaned, Ordering::Relaxed);
    }

    pub(crate) fn note_evict(&self, report: EvictReport) {
        self.marked.fetch_add(report.marked, Ordering::Relaxed);
        self.evicted.fetch_add(report.evicted, Ordering::Relaxed);
        self.called_off.fetch_add(report.called_off, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self, shards: usize, staleness: Duration) -> TaskStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TaskStats {
            shards: shards as u64,
            saves: read(&self.saves),
            refused: read(&self.refused),
            skipped: read(&self.skipped),
            cleaned: read(&self.cleaned),
            staleness,
            marked: read(&self.marked),
            evicted: read(&self.evicted),
            called_off: read(&self.called_off),
            pressed: read(&self.pressed),
            nodes_full: read(&self.nodes_full),
            save_errors: read(&self.save_errors),
            evict_errors: read(&self.evict_errors),
        }
    }
}
