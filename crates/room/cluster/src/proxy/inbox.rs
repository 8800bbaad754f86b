//! How other threads reach a worker.
//!
//! A bounded amount of work per item: push to a vector and, only if the worker
//! is asleep, write to its eventfd.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nagaya_commands::client::{Mailbox, Message};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use super::model::layout::Layout;
use super::tag_admin::Outcome;
use super::transport::Transport;

/// Something for a worker to do.
pub(crate) enum Item {
    /// A new client to serve, with its number.
    Connection(u64, Box<Transport>),
    /// A message for one of its clients.
    Message(u64, Message),
    /// The primaries and their slots, fresh.
    Layout(Arc<Layout>),
    /// The layout could not be had, and why.
    LayoutFailed(String),
    /// A load that was asked for is over.
    Loaded {
        tag: Vec<u8>,
        ending: Result<(), String>,
    },
    /// What came of a client's request about tags.
    TagCommand {
        client: u64,
        outcome: Result<Outcome, String>,
    },
    /// The answer to a question to the cold tier, for the one who waits under this number.
    Cold(u64, Result<ColdAnswer, String>),
}

/// What the cold tier knows of its keys.
pub(crate) enum ColdAnswer {
    Page { next: u64, keys: Vec<Vec<u8>> },
    Count(u64),
}

/// The mailbox of one worker.
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

    /// The descriptor that becomes readable when a sleeping worker has something to do.
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

    /// Wakes the worker whatever it does (shutdown).
    pub(crate) fn wake(&self) {
        // Full means that a wake-up is pending already.
        rustix::io::write(&self.wake, &1u64.to_ne_bytes()).ok();
    }

    pub(crate) fn take(&self) -> Vec<Item> {
        if !self.pending.swap(false, Ordering::SeqCst) {
            return Vec::new();
        }
        std::mem::take(&mut *self.items.lock())
    }

    /// Says that the worker is about to sleep; false when something arrived meanwhile.
    pub(crate) fn go_to_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        !self.pending.load(Ordering::SeqCst)
    }

    /// Says that the worker is awake and will look by itself.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Empties the eventfd after it woke the worker.
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
