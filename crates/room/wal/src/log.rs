//! The log that callers hold.
//!
//! **Threads.** Any thread may append and commit. Writing and syncing are done by one thread
//! at a time, the one that holds the *writer token*: a committing caller,
//! or the flusher, a thread that the log owns and joins when it is closed. A caller that finds
//! the token taken waits for its return and checks again; by then the bytes it waits for have
//! usually been written with another caller's, and those that came meanwhile go together in one more
//! round. That is the group commit. The flusher of [`SyncMode::EverySecond`] gives the token back while
//! the disk confirms, so that nobody who only writes waits for that.
//!
//! **Locks.** The token is not a held lock: the writer is taken out of its slot and put back,
//! so no thread holds a mutex during I/O. The order, where two are held at once: the tail's
//! mutex, then the leaves in [`Shared`]; the slot's mutex, then the leaves. The tail's and
//! the slot's are never held together.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing::{debug, error, info, warn};

use crate::error::{DiskOperation, Failure, LogError, OpenError};
use crate::files::{File, Files};
use crate::flusher;
use crate::open;
use crate::options::{Options, SyncMode};
use crate::position::Position;
use crate::recovery::Recovery;
use crate::segment::path_of;
use crate::shared::{Entry, Segment, Shared, State};
use crate::tail::Tail;
use crate::writer::{Current, PendingSync, Writer};

/// A write-ahead log that takes records.
pub struct Log {
    core: Arc<Core>,
    flusher: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Log {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = out.debug_struct("Log");
        out.field("dir", &self.core.dir)
            .field("end", &self.end())
            .field("durable", &self.durable())
            .finish()
    }
}

/// What the flusher and the callers share.
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tail: Tail,
    /// The writer, unless a thread holds the token.
    slot: Mutex<Option<Box<Writer>>>,
    token_returned: Condvar,
    /// One release at a time; it does I/O, but no other operation waits for it.
    releasing: Mutex<()>,
    files: Arc<dyn Files>,
    dir: PathBuf,
    pub(crate) write_every: Duration,
    pub(crate) sync_every: Duration,
    /// Whether records may stand after the last mark when the log is closed.
    unmarked: bool,
    opened_at: u64,
}

impl Log {
    /// Opens the log in a folder, which is made if it is missing, and starts its flusher.
    ///
    /// A torn end is cut and logged. Damage is an error, here if it is in the last segment or
    /// between the segments, else from [`Recovery::next_record`]; see `open.rs` for which is
    /// which.
    pub fn open(dir: &Path, options: &Options, files: Arc<dyn Files>) -> Result<(Log, Recovery), OpenError> {
        let opening = open::open(&files, dir, options.start_at_least.0)?;
        if let Some(torn) = &opening.torn {
            let segment = torn.segment.display();
            warn!(%segment, bytes = torn.bytes, reason = %torn.reason, "cut a torn end off the log");
        }
        let headers = opening.segments.iter().map(|(segment, _)| segment.header);
        let entries = headers
            .map(|header| Entry {
                start: header.start,
                follows: header.follows,
            })
            .collect();
        let (last, end) = opening
            .segments
            .last()
            .expect("opening leaves at least one segment");
        let end = *end;
        let current = Current {
            header: last.header,
            path: last.path.clone(),
            file: opening.last.into(),
        };
        let shared = Arc::new(Shared::new(end, options.mode, entries));
        let writer = Writer::new(
            shared.clone(),
            files.clone(),
            dir.to_owned(),
            options.segment_bytes,
            current,
            end,
        );
        let core = Arc::new(Core {
            shared,
            tail: Tail::new(end, options.buffer_bytes_max, options.write_bytes),
            slot: Mutex::new(Some(Box::new(writer))),
            token_returned: Condvar::new(),
            releasing: Mutex::new(()),
            files: files.clone(),
            dir: dir.to_owned(),
            write_every: options.write_every,
            sync_every: options.sync_every,
            unmarked: opening.unmarked,
            opened_at: end,
        });
        let for_flusher = core.clone();
        let flusher = nagaya_threads::spawn("wal-flusher", move || flusher::run(&for_flusher))
            .map_err(OpenError::io("starting the flusher of", dir))?;
        let recovery = Recovery::new(files, opening.segments, opening.torn);
        Ok((
            Log {
                core,
                flusher: Mutex::new(Some(flusher)),
            },
            recovery,
        ))
    }

    /// Takes a record and returns the position of its end.
    ///
    /// It copies into memory and does no I/O. Only when [`Options::buffer_bytes_max`] is
    /// reached does it wait, for the disk to catch up.
    pub fn append(&self, record: &[u8]) -> Result<Position, LogError> {
        self.core.tail.append(record, &self.core.shared)
    }

    /// Waits until the records up to a position are as safe as the mode promises: in
    /// [`SyncMode::Always`] confirmed by the disk, otherwise in the hands of the system.
    pub fn commit(&self, up_to: Position) -> Result<(), LogError> {
        self.advance_to(up_to, self.core.shared.mode() == SyncMode::Always)
    }

    /// Waits until the disk has confirmed the records up to a position, whatever the mode.
    pub fn sync(&self, up_to: Position) -> Result<(), LogError> {
        self.advance_to(up_to, true)
    }

    fn advance_to(&self, up_to: Position, sync: bool) -> Result<(), LogError> {
        debug_assert!(
            up_to <= self.end(),
            "only positions that were given out can be waited for"
        );
        let core = &*self.core;
        let mut slot = core.slot.lock();
        loop {
            // What the disk has stays safe, whatever failed after it.
            if core.shared.durable() >= up_to.0 {
                return Ok(());
            }
            core.shared.check()?;
            if !sync && core.shared.written() >= up_to.0 {
                return Ok(());
            }
            match slot.take() {
                Some(writer) => {
                    drop(slot);
                    WriterToken {
                        core,
                        writer: Some(writer),
                    }
                    .advance(sync)?;
                    slot = core.slot.lock();
                }
                None => core.token_returned.wait(&mut slot),
            }
        }
    }

    /// Removes the segments that hold nothing after `before`. The last one always stays.
    pub fn release(&self, before: Position) -> Result<(), LogError> {
        let core = &*self.core;
        let _alone = core.releasing.lock();
        let segments = core.shared.segments();
        for segment in &segments[..segments.len() - 1] {
            if segment.end > before {
                break;
            }
            let path = path_of(&core.dir, segment.start.0);
            let removed = match core.files.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                // One by one: removals that a crash undid in another order would leave a gap.
                _ => core.files.sync_dir(&core.dir),
            };
            removed.map_err(|source| LogError::Release {
                path,
                source: Arc::new(source),
            })?;
            core.shared.remove_first_segment();
        }
        Ok(())
    }

    pub fn mode(&self) -> SyncMode {
        self.core.shared.mode()
    }

    /// Changes when records reach the disk, for the commits that begin from now on.
    pub fn set_mode(&self, mode: SyncMode) {
        self.core.shared.set_mode(mode);
        self.core.tail.call_flusher();
    }

    pub fn state(&self) -> State {
        self.core.shared.failure().map_or(State::Ok, State::Failed)
    }

    /// Returns whether the log takes records: one load, for readiness and for every write command.
    pub fn is_ok(&self) -> bool {
        !self.core.shared.has_failed()
    }

    /// Tries to bring a failed log back; see `writer.rs` for how. Returns the first failure
    /// when it cannot. Calling it on a log that works does nothing.
    pub fn try_heal(&self) -> Result<(), LogError> {
        let mut token = self.core.take_token();
        token.heal()
    }

    /// Returns the lowest position that the files still cover.
    pub fn first(&self) -> Position {
        self.core.shared.segments()[0].start
    }

    /// Returns the end of the last record taken.
    pub fn end(&self) -> Position {
        Position(self.core.shared.end())
    }

    /// Returns up to where the disk has confirmed.
    pub fn durable(&self) -> Position {
        Position(self.core.shared.durable())
    }

    /// Returns up to where the system has the records.
    pub fn written(&self) -> Position {
        Position(self.core.shared.written())
    }

    /// Returns how much memory the records take that are not yet safe, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.core.shared.held_bytes()
    }

    /// Changes [`Options::buffer_bytes_max`].
    pub fn set_buffer_bytes_max(&self, bytes: u64) {
        self.core.tail.set_buffer_bytes_max(bytes);
    }

    /// Returns the size of all segment files, as far as it counts.
    pub fn bytes_on_disk(&self) -> u64 {
        self.core.shared.bytes_on_disk()
    }

    /// Returns the segment files, oldest first.
    pub fn segments(&self) -> Vec<Segment> {
        self.core.shared.segments()
    }

    /// Takes no more records, has the disk confirm those taken, and ends the flusher.
    /// A second call does nothing.
    pub fn close(&self) -> Result<(), LogError> {
        self.core.tail.close();
        let Some(flusher) = self.flusher.lock().take() else {
            return Ok(());
        };
        if flusher.join().is_err() {
            error!("the log's flusher panicked");
        }
        let core = &*self.core;
        let mut token = core.take_token();
        token.advance(true)?;
        // A mark after the last record vouches for all of them when the log is opened again.
        if core.unmarked || core.shared.end() != core.opened_at {
            core.tail.push_mark(&core.shared);
            token.advance(true)?;
        }
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            warn!(%error, "the log was not closed in order");
        }
    }
}

impl Core {
    /// Waits for the writer token.
    pub(crate) fn take_token(&self) -> WriterToken<'_> {
        let mut slot = self.slot.lock();
        loop {
            if let Some(writer) = slot.take() {
                return WriterToken {
                    core: self,
                    writer: Some(writer),
                };
            }
            self.token_returned.wait(&mut slot);
        }
    }

    /// Writes everything appended so far and has the disk confirm it, while others may write on.
    pub(crate) fn advance_and_sync_apart(&self) -> Result<(), LogError> {
        let mut token = self.take_token();
        token.advance(false)?;
        let Some((file, pending)) = token.begin_sync() else {
            return Ok(());
        };
        drop(token);
        pending.end(file.sync());
        self.take_token().settle()
    }
}

/// The exclusive right to write and sync; dropping it passes it on.
pub(crate) struct WriterToken<'a> {
    core: &'a Core,
    writer: Option<Box<Writer>>,
}

impl WriterToken<'_> {
    /// Writes everything appended so far, and syncs it if asked.
    pub(crate) fn advance(&mut self, sync: bool) -> Result<(), LogError> {
        let core = self.core;
        core.shared.check()?;
        let writer = self
            .writer
            .as_mut()
            .expect("a token has the writer until it is dropped");
        if let Some(batch) = core.tail.take(&mut writer.spare, &core.shared) {
            writer.accept(batch);
        }
        let mut result = writer.write();
        if sync && result.is_ok() {
            result = writer.sync();
        }
        writer.free(core.shared.mode());
        result.map_err(|failure| core.fail(failure))?;
        core.tail.wake_waiting();
        Ok(())
    }

    /// Lets the disk confirm everything written without this token; nothing to do when it has.
    fn begin_sync(&mut self) -> Option<(Arc<dyn File>, Arc<PendingSync>)> {
        let writer = self
            .writer
            .as_mut()
            .expect("a token has the writer until it is dropped");
        writer.begin_sync()
    }

    /// Takes what a sync without this token has brought, unless another has taken it.
    fn settle(&mut self) -> Result<(), LogError> {
        let core = self.core;
        let writer = self
            .writer
            .as_mut()
            .expect("a token has the writer until it is dropped");
        let result = writer.settle();
        writer.free(core.shared.mode());
        result.map_err(|failure| core.fail(failure))?;
        core.tail.wake_waiting();
        Ok(())
    }

    fn heal(&mut self) -> Result<(), LogError> {
        let core = self.core;
        let Err(first) = core.shared.check() else {
            return Ok(());
        };
        let writer = self
            .writer
            .as_mut()
            .expect("a token has the writer until it is dropped");
        match writer.heal() {
            Ok(true) => {
                writer.free(core.shared.mode());
                core.shared.clear_failure();
                core.tail.call_flusher();
                info!(durable = core.shared.durable(), "the log works again");
                Ok(())
            }
            Ok(false) => Err(first),
            Err(failure) => {
                debug!(%failure, "the log could not be healed yet");
                Err(first)
            }
        }
    }
}

impl Core {
    fn fail(&self, failure: Failure) -> LogError {
        let failure = Arc::new(failure);
        error!(%failure, durable = self.shared.durable(), end = self.shared.end(), "the log has failed");
        self.shared.fail(failure.clone());
        self.tail.wake_waiting();
        LogError::Failed(failure)
    }
}

impl Drop for WriterToken<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // A broken invariant: no caller may continue as if the files were intact.
            let source = io::Error::other("the thread that wrote the log panicked");
            self.core
                .fail(Failure::new(DiskOperation::Write, &self.core.dir, source));
        }
        *self.core.slot.lock() = self.writer.take();
        self.core.token_returned.notify_all();
    }
}
