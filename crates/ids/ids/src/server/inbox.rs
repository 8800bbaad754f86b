//! How the accepting thread hands connections to the others.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use super::listener::Stream;

/// New connections for one thread. As many as connections are allowed, at most.
pub(super) struct Inbox {
    streams: Mutex<Vec<Stream>>,
    wake: OwnedFd,
}

impl Inbox {
    pub(super) fn new() -> io::Result<Inbox> {
        Ok(Inbox {
            streams: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    pub(super) fn push(&self, stream: Stream) {
        self.streams.lock().push(stream);
        self.wake();
    }

    /// Makes the thread look, at its inbox and at whether it should stop.
    pub(super) fn wake(&self) {
        // Full means that a wake-up is pending already.
        rustix::io::write(&self.wake, &1u64.to_ne_bytes()).ok();
    }

    /// Takes what is there. Called by the thread when it was woken.
    pub(super) fn take(&self) -> Vec<Stream> {
        let mut count = [0; 8];
        // Empty means that somebody else's wake-up was taken already.
        rustix::io::read(&self.wake, &mut count).ok();
        std::mem::take(&mut *self.streams.lock())
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
