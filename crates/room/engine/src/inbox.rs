//! How other threads reach the connections of an I/O thread.
//!
//! A bounded amount of work per message: push to a vector and, only if the
//! thread is asleep, write to its eventfd.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nagaya_commands::client::{Mailbox, Message};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use crate::transport::Transport;

/// Something for an I/O thread to do.
pub(crate) enum Item {
    /// A new connection to serve, with its number.
    Connection(u64, Box<Transport>),
    /// A message for one of its connections.
    Message(u64, Message),
}

/// The mailbox of one I/O thread.
pub(crate) struct Inbox {
    items: Mutex<Vec<Item>>,
    /// Whether there is anything in `items`; read without the lock.
    pending: AtomicBool,
    asleep: AtomicBool,
    wake: OwnedFd,
}

impl Inbox {
    pub(crate) fn new() -> std::io::Result<Inbox> {
        Ok(Inbox {
            items: Mutex::default(),
            pending: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// The descriptor that becomes readable when a sleeping thread has something to do.
    pub(crate) fn wake_fd(&self) -> &OwnedFd {
        &self.wake
    }

    pub(crate) fn push(&self, item: Item) {
        self.items.lock().push(item);
        self.pending.store(true, Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Wakes the thread whatever it does (shutdown).
    pub(crate) fn wake(&self) {
        // Full means that a wake-up is pending already.
        rustix::io::write(&self.wake, &1u64.to_ne_bytes()).ok();
    }

    pub(crate) fn has_items(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Vec<Item> {
        self.pending.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.items.lock())
    }

    /// Says that the thread is about to sleep; false when something arrived meanwhile.
    pub(crate) fn go_to_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        !self.pending.load(Ordering::SeqCst)
    }

    /// Says that the thread is awake and will look by itself.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Empties the eventfd after it woke the thread.
    pub(crate) fn drain_wake(&self) {
        let mut count = [0; 8];
        rustix::io::read(&self.wake, &mut count).ok();
    }
}

impl Mailbox for Inbox {
    fn deliver(&self, client: u64, message: Message) {
        self.push(Item::Message(client, message));
    }
}
