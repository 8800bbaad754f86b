//! The files' side of the log: writing batches, syncing, beginning segments, and healing.
//!
//! A batch stays in memory until the disk has confirmed it (in [`SyncMode::No`], until it
//! is written), because that is what a failure is healed from:
//!
//! - A *full* disk leaves the file sound up to the last complete write. The rest is written
//!   again to the same place.
//! - Any other failed write, and every failed *sync*, makes the file untrusted. After a failed
//!   sync the system may have dropped the bytes and would confirm the next sync without them.
//!   So the file is never synced again: a new segment begins at the last confirmed position,
//!   its header says so, and everything after that position is written there from memory.
//!   What the old file holds past it no longer counts.
//! - If the memory is gone, as it is in [`SyncMode::No`], the log stays failed.
//!
//! Only whole records are counted as written, and only confirmed bytes as durable, so no
//! failure moves a position that a caller may have been given.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::error::{DiskOperation, Failure};
use crate::files::{File, Files, write_all};
use crate::format::{SEGMENT_HEADER_BYTES, SegmentHeader, frame_bytes, seal};
use crate::options::SyncMode;
use crate::segment::{offset_in, path_of};
use crate::shared::{Entry, Shared};
use crate::tail::Batch;

/// Buffers kept for the next batches, and how much room a kept one may have.
const SPARES_MAX: usize = 2;
const SPARE_BYTES_MAX: usize = 256 << 10;

/// The segment that is written to.
pub(crate) struct Current {
    pub(crate) header: SegmentHeader,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn File>,
}

/// A sync of the current file that runs without the writer. The file stays the current one until it is settled.
pub(crate) struct PendingSync {
    up_to: u64,
    result: Mutex<Option<io::Result<()>>>,
    ended: Condvar,
}

impl PendingSync {
    /// Tells how the sync has ended.
    pub(crate) fn end(&self, result: io::Result<()>) {
        *self.result.lock() = Some(result);
        self.ended.notify_all();
    }

    fn wait(&self) -> io::Result<()> {
        let mut result = self.result.lock();
        loop {
            match result.take() {
                Some(result) => return result,
                None => self.ended.wait(&mut result),
            }
        }
    }
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    files: Arc<dyn Files>,
    dir: PathBuf,
    segment_bytes: u64,
    current: Current,
    /// Whether the current file must not be written or synced any more.
    untrusted: bool,
    /// A sync under way. One at a time: the system tells a failure to one of them only.
    pending: Option<Arc<PendingSync>>,
    written: u64,
    durable: u64,
    /// Sealed batches: those still to be written, and those whose memory may yet be needed.
    kept: VecDeque<Batch>,
    pub(crate) spare: Vec<Vec<u8>>,
}

impl Writer {
    /// Returns a writer that continues at `end`, where everything before is durable.
    pub(crate) fn new(
        shared: Arc<Shared>,
        files: Arc<dyn Files>,
        dir: PathBuf,
        segment_bytes: u64,
        current: Current,
        end: u64,
    ) -> Self {
        let (kept, spare) = (VecDeque::new(), Vec::new());
        let (written, durable) = (end, end);
        Self {
            shared,
            files,
            dir,
            segment_bytes,
            current,
            untrusted: false,
            pending: None,
            written,
            durable,
            kept,
            spare,
        }
    }

    /// Takes over a batch that follows the last one, to be written.
    pub(crate) fn accept(&mut self, mut batch: Batch) {
        seal(&mut batch.bytes, batch.start, self.durable);
        self.kept.push_back(batch);
        self.tell_kept_bytes();
    }

    /// Publishes how much memory the batches and spare buffers take.
    fn tell_kept_bytes(&self) {
        let kept = self.kept.iter().map(|batch| batch.bytes.capacity());
        let spare = self.spare.iter().map(Vec::capacity);
        self.shared.set_kept_bytes(kept.chain(spare).sum());
    }

    /// Writes everything accepted.
    pub(crate) fn write(&mut self) -> Result<(), Failure> {
        let kept = std::mem::take(&mut self.kept);
        let result = kept.iter().try_for_each(|batch| self.write_batch(batch));
        self.kept = kept;
        result
    }

    /// Begins to have the disk confirm everything written: the caller syncs the file, reports the end to the
    /// pending sync, and then calls [`Writer::settle`].
    pub(crate) fn begin_sync(&mut self) -> Option<(Arc<dyn File>, Arc<PendingSync>)> {
        if self.pending.is_some() || self.untrusted || self.durable == self.written {
            return None;
        }
        let pending = Arc::new(PendingSync {
            up_to: self.written,
            result: Mutex::new(None),
            ended: Condvar::new(),
        });
        self.pending = Some(Arc::clone(&pending));
        Some((Arc::clone(&self.current.file), pending))
    }

    /// Waits for the end of a pending sync, if there is one, and takes what it has brought.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        let Some(pending) = self.pending.take() else {
            return Ok(());
        };
        if let Err(error) = pending.wait() {
            self.untrusted = true;
            return Err(Failure::new(DiskOperation::Sync, &self.current.path, error));
        }
        self.durable = self.durable.max(pending.up_to);
        self.shared.set_durable(self.durable);
        Ok(())
    }

    /// Has the disk confirm everything written.
    pub(crate) fn sync(&mut self) -> Result<(), Failure> {
        self.settle()?;
        if self.durable == self.written {
            return Ok(());
        }
        assert!(!self.untrusted, "a file whose sync failed is never synced again");
        if let Err(error) = self.current.file.sync() {
            self.untrusted = true;
            return Err(Failure::new(DiskOperation::Sync, &self.current.path, error));
        }
        self.durable = self.written;
        self.shared.set_durable(self.durable);
        Ok(())
    }

    /// Frees the memory of batches that are safe, or as safe as the mode promises.
    pub(crate) fn free(&mut self, mode: SyncMode) {
        let safe = if mode == SyncMode::No {
            self.written
        } else {
            self.durable
        };
        while let Some(batch) = self.kept.pop_front_if(|batch| batch.end() <= safe) {
            let mut bytes = batch.bytes;
            if self.spare.len() < SPARES_MAX && bytes.capacity() <= SPARE_BYTES_MAX {
                bytes.clear();
                self.spare.push(bytes);
            }
        }
        self.shared.set_freed(self.kept_from());
        self.tell_kept_bytes();
    }

    /// Tries to write and sync, somewhere trustworthy, all that a failure left undone.
    /// `Ok(false)` says that the memory for it is gone.
    pub(crate) fn heal(&mut self) -> Result<bool, Failure> {
        // A failure makes the file untrusted, which is what follows.
        self.settle().ok();
        if self.untrusted {
            if self.kept_from() > self.durable {
                return Ok(false);
            }
            self.replace_segment()?;
            self.untrusted = false;
        }
        self.write()?;
        self.sync()?;
        Ok(true)
    }

    /// Returns the lowest position whose bytes are still in memory.
    fn kept_from(&self) -> u64 {
        self.kept.front().map_or(self.written, |batch| batch.start)
    }

    /// Writes what of a batch is not written, in runs of whole records that fit a segment.
    fn write_batch(&mut self, batch: &Batch) -> Result<(), Failure> {
        while self.written < batch.end() {
            let rest = &batch.bytes[(self.written - batch.start) as usize..];
            let used = offset_in(self.current.header.start, self.written);
            let mut run = run_bytes(rest, self.segment_bytes.saturating_sub(used));
            if run == 0 && used > SEGMENT_HEADER_BYTES {
                self.next_segment()?;
                continue;
            }
            if run == 0 {
                run = frame_bytes(rest);
            }
            if let Err(error) = write_all(&*self.current.file, &rest[..run], used) {
                let failure = Failure::new(DiskOperation::Write, &self.current.path, error);
                self.untrusted = !failure.is_full();
                return Err(failure);
            }
            self.written += run as u64;
            self.shared.set_written(self.written);
        }
        Ok(())
    }

    /// Begins a segment after the current one, which is synced first and thereby complete.
    fn next_segment(&mut self) -> Result<(), Failure> {
        self.sync()?;
        let header = SegmentHeader {
            start: self.written,
            follows: self.written,
        };
        let created = self.create(header);
        // A file half made bears the next segment's name: healing must clear it away.
        self.untrusted = created.is_err();
        created
    }

    /// Begins a segment at the last confirmed position, in place of the untrusted file's end.
    fn replace_segment(&mut self) -> Result<(), Failure> {
        let start = self.durable;
        let follows = match self.current.header {
            header if header.start == start => header.follows,
            _ => start,
        };
        // A file of that name holds no byte that was ever confirmed.
        let path = path_of(&self.dir, start);
        match self.files.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Failure::new(DiskOperation::NewSegment, &path, error));
            }
            _ => (),
        }
        self.create(SegmentHeader { start, follows })?;
        self.written = start;
        self.shared.set_written(start);
        Ok(())
    }

    /// Makes a segment file that survives a crash, header and name, and continues with it.
    fn create(&mut self, header: SegmentHeader) -> Result<(), Failure> {
        let path = path_of(&self.dir, header.start);
        let made = self.files.create(&path).and_then(|file| {
            write_all(&*file, &header.encode(), 0)?;
            file.sync()?;
            self.files.sync_dir(&self.dir)?;
            Ok(file)
        });
        let file = made.map_err(|error| Failure::new(DiskOperation::NewSegment, &path, error))?;
        self.current = Current {
            header,
            path,
            file: file.into(),
        };
        self.shared.add_segment(Entry {
            start: header.start,
            follows: header.follows,
        });
        Ok(())
    }
}

/// Returns how many bytes of whole records, from the first on, fit into `room`.
fn run_bytes(batch: &[u8], room: u64) -> usize {
    if batch.len() as u64 <= room {
        return batch.len();
    }
    let mut run = 0;
    loop {
        let next = run + frame_bytes(&batch[run..]);
        if next as u64 > room {
            return run;
        }
        run = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{push_mark, push_record};

    #[test]
    fn a_run_ends_between_records() {
        let mut batch = Vec::new();
        push_mark(&mut batch);
        push_record(&mut batch, b"twelve bytes");
        push_record(&mut batch, b"four");
        for (room, expected) in [
            (15, 0),
            (16, 16),
            (35, 16),
            (36, 36),
            (47, 36),
            (48, 48),
            (1000, 48),
        ] {
            assert_eq!(run_bytes(&batch, room), expected, "room {room}");
        }
    }
}
