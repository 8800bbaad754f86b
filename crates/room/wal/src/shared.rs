//! What a log's callers may ask without waiting for the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::error::{Failure, LogError};
use crate::format::SEGMENT_HEADER_BYTES;
use crate::options::SyncMode;
use crate::position::Position;

/// Whether a log takes records.
#[derive(Clone, Debug)]
pub enum State {
    Ok,
    Failed(Arc<Failure>),
}

/// One file of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub start: Position,
    /// Where its last record ends, as far as written.
    pub end: Position,
}

/// The log's numbers. They are set by the holder of the writer token, `end` by appends under
/// the tail's mutex; the two mutexes here are leaves, held for a few instructions.
pub(crate) struct Shared {
    /// Where the last record taken ends.
    end: AtomicU64,
    /// Up to where the files have been written.
    written: AtomicU64,
    /// Up to where the disk has confirmed.
    durable: AtomicU64,
    /// Up to where records need no memory any more.
    freed: AtomicU64,
    /// Memory of the buffer that records are appended to, and of those that wait for the disk, in bytes.
    active_bytes: AtomicUsize,
    kept_bytes: AtomicUsize,
    mode: AtomicU8,
    failed: AtomicBool,
    failure: Mutex<Option<Arc<Failure>>>,
    segments: Mutex<Vec<Entry>>,
}

/// A segment by its start, and where the one before it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) start: u64,
    pub(crate) follows: u64,
}

impl Shared {
    pub(crate) fn new(end: u64, mode: SyncMode, segments: Vec<Entry>) -> Self {
        Self {
            end: AtomicU64::new(end),
            written: AtomicU64::new(end),
            durable: AtomicU64::new(end),
            freed: AtomicU64::new(end),
            active_bytes: AtomicUsize::new(0),
            kept_bytes: AtomicUsize::new(0),
            mode: AtomicU8::new(mode as u8),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            segments: Mutex::new(segments),
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(crate) fn set_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(crate) fn set_written(&self, written: u64) {
        self.written.store(written, Ordering::Release);
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub(crate) fn set_durable(&self, durable: u64) {
        self.durable.store(durable, Ordering::Release);
    }

    pub(crate) fn freed(&self) -> u64 {
        self.freed.load(Ordering::Acquire)
    }

    pub(crate) fn set_freed(&self, freed: u64) {
        self.freed.store(freed, Ordering::Release);
    }

    pub(crate) fn set_active_bytes(&self, bytes: usize) {
        self.active_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn set_kept_bytes(&self, bytes: usize) {
        self.kept_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.active_bytes.load(Ordering::Relaxed) + self.kept_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn mode(&self) -> SyncMode {
        match self.mode.load(Ordering::Acquire) {
            mode if mode == SyncMode::Always as u8 => SyncMode::Always,
            mode if mode == SyncMode::No as u8 => SyncMode::No,
            _ => SyncMode::EverySecond,
        }
    }

    pub(crate) fn set_mode(&self, mode: SyncMode) {
        self.mode.store(mode as u8, Ordering::Release);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Keeps the first failure; later ones follow from it.
    pub(crate) fn fail(&self, failure: Arc<Failure>) {
        self.failure.lock().get_or_insert(failure);
        self.failed.store(true, Ordering::Release);
    }

    pub(crate) fn clear_failure(&self) {
        self.failed.store(false, Ordering::Release);
        *self.failure.lock() = None;
    }

    pub(crate) fn failure(&self) -> Option<Arc<Failure>> {
        self.failure.lock().clone()
    }

    /// Costs one load while all is well.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        if !self.has_failed() {
            return Ok(());
        }
        // The reason is gone when the log was healed between the two looks.
        self.failure()
            .map_or(Ok(()), |failure| Err(LogError::Failed(failure)))
    }

    /// Adds a segment, in the place of one that begins at the same position.
    pub(crate) fn add_segment(&self, entry: Entry) {
        let mut segments = self.segments.lock();
        if segments.last().is_some_and(|last| last.start == entry.start) {
            segments.pop();
        }
        segments.push(entry);
    }

    pub(crate) fn remove_first_segment(&self) {
        self.segments.lock().remove(0);
    }

    pub(crate) fn segments(&self) -> Vec<Segment> {
        let segments = self.segments.lock();
        let ends = segments.iter().skip(1).map(|next| next.follows);
        let ends = ends.chain(Some(self.written()));
        let pairs = segments.iter().zip(ends);
        // A heal may have set `written` back to before the last segment for a moment.
        pairs
            .map(|(entry, end)| Segment {
                start: Position(entry.start),
                end: Position(end.max(entry.start)),
            })
            .collect()
    }

    pub(crate) fn bytes_on_disk(&self) -> u64 {
        let segments = self.segments();
        segments
            .iter()
            .map(|segment| SEGMENT_HEADER_BYTES + segment.end.0 - segment.start.0)
            .sum()
    }
}
