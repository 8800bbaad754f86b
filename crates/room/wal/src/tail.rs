//! The end of the log that is in memory only.
//!
//! Appends copy their record behind a short mutex and leave. The holder of the writer token
//! (see `log.rs`) takes the whole buffer away and leaves an empty one, so two or three buffers
//! are reused and no append allocates once they have grown. Checksums are filled in after that,
//! outside the mutex.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::LogError;
use crate::format::{self, MARK_BYTES, RECORD_BYTES_MAX, RECORD_HEADER_BYTES};
use crate::position::Position;
use crate::shared::Shared;

/// Records and marks that follow each other, from position `start` on.
pub(crate) struct Batch {
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Batch {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

pub(crate) struct Tail {
    state: Mutex<State>,
    /// Appends wait here for memory.
    room: Condvar,
    /// The flusher waits here.
    work: Condvar,
    buffer_bytes_max: AtomicU64,
    write_bytes: usize,
}

struct State {
    active: Batch,
    /// Appends that wait for memory.
    waiting: usize,
    /// The flusher should come now rather than at its next round.
    asked: bool,
    /// The flusher sleeps until it is called.
    idle: bool,
    closed: bool,
}

impl Tail {
    pub(crate) fn new(end: u64, buffer_bytes_max: u64, write_bytes: usize) -> Self {
        let active = Batch {
            start: end,
            bytes: Vec::new(),
        };
        let state = State {
            active,
            waiting: 0,
            asked: false,
            idle: false,
            closed: false,
        };
        Self {
            state: Mutex::new(state),
            room: Condvar::new(),
            work: Condvar::new(),
            buffer_bytes_max: AtomicU64::new(buffer_bytes_max),
            write_bytes,
        }
    }

    pub(crate) fn append(&self, record: &[u8], shared: &Shared) -> Result<Position, LogError> {
        match record.len() {
            0 => return Err(LogError::RecordEmpty),
            bytes if bytes > RECORD_BYTES_MAX => return Err(LogError::RecordTooLong { bytes }),
            _ => (),
        }
        let size = (MARK_BYTES + RECORD_HEADER_BYTES + record.len()) as u64;
        let mut state = self.state.lock();
        loop {
            shared.check()?;
            if state.closed {
                return Err(LogError::Closed);
            }
            // A record longer than the whole buffer goes in alone.
            let held = state.active.end() - shared.freed();
            if held == 0 || held + size <= self.buffer_bytes_max() {
                break;
            }
            state.asked = true;
            state.waiting += 1;
            self.work.notify_one();
            self.room.wait(&mut state);
            state.waiting -= 1;
        }
        let bytes = &mut state.active.bytes;
        if bytes.is_empty() {
            format::push_mark(bytes);
        }
        format::push_record(bytes, record);
        let call = state.idle || (!state.asked && state.active.bytes.len() >= self.write_bytes);
        if call {
            state.asked |= state.active.bytes.len() >= self.write_bytes;
            state.idle = false;
        }
        let end = state.active.end();
        shared.set_end(end);
        shared.set_active_bytes(state.active.bytes.capacity());
        drop(state);
        if call {
            self.work.notify_one();
        }
        Ok(Position(end))
    }

    fn buffer_bytes_max(&self) -> u64 {
        self.buffer_bytes_max.load(Ordering::Relaxed)
    }

    /// Lets the records that are not yet safe take more memory, or less.
    pub(crate) fn set_buffer_bytes_max(&self, bytes: u64) {
        if self.buffer_bytes_max.swap(bytes, Ordering::Relaxed) < bytes {
            self.wake_waiting();
        }
    }

    /// Takes the buffer away, if there is anything in it, and leaves a spare one.
    pub(crate) fn take(&self, spare: &mut Vec<Vec<u8>>, shared: &Shared) -> Option<Batch> {
        let mut state = self.state.lock();
        state.asked = false;
        if state.active.bytes.is_empty() {
            return None;
        }
        let next = Batch {
            start: state.active.end(),
            bytes: spare.pop().unwrap_or_default(),
        };
        shared.set_active_bytes(next.bytes.capacity());
        Some(std::mem::replace(&mut state.active, next))
    }

    /// Adds a mark after everything, for a log that is being closed.
    pub(crate) fn push_mark(&self, shared: &Shared) {
        let mut state = self.state.lock();
        format::push_mark(&mut state.active.bytes);
        shared.set_end(state.active.end());
    }

    /// Lets waiting appends look again: memory was freed, or the log failed or was closed.
    pub(crate) fn wake_waiting(&self) {
        if self.state.lock().waiting > 0 {
            self.room.notify_all();
        }
    }

    /// Returns whether it is time to free memory by a sync that is not due yet.
    pub(crate) fn is_crowded(&self, shared: &Shared) -> bool {
        let state = self.state.lock();
        state.waiting > 0 || state.active.end() - shared.freed() > self.buffer_bytes_max() / 2
    }

    /// Refuses appends from now on and ends the flusher.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.room.notify_all();
        self.work.notify_all();
    }

    pub(crate) fn call_flusher(&self) {
        self.state.lock().idle = false;
        self.work.notify_one();
    }

    /// Sleeps until the flusher's next round: `nap` when there is something to do, else until
    /// something comes and then `nap`. Returns false when the log was closed.
    pub(crate) fn rest(&self, nap: Duration, busy: bool, failed: bool) -> bool {
        let mut state = self.state.lock();
        if !busy && !failed && state.waiting == 0 && state.active.bytes.is_empty() {
            state.idle = true;
            while state.idle && !state.closed {
                self.work.wait(&mut state);
            }
            state.idle = false;
        }
        // While the log has failed there is nothing to hurry for.
        if !state.closed && (failed || (!state.asked && state.waiting == 0)) {
            self.work.wait_for(&mut state, nap);
        }
        !state.closed
    }
}
