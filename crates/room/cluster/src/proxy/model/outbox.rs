//! Replies that are ready and not delivered yet.
//!
//! A session is taken out of its place while its requests are handled, and a reply may be found while
//! another one is being delivered. Such replies wait here until the worker delivers them, before it
//! writes to any client. The client's [`super::reply_ring`] keeps their order.

use std::collections::VecDeque;

use super::in_flight::Origin;

/// Replies and their receivers.
#[derive(Default)]
pub(crate) struct Outbox {
    replies: VecDeque<(Origin, Vec<u8>)>,
}

impl Outbox {
    pub(crate) fn push(&mut self, origin: Origin, reply: Vec<u8>) {
        self.replies.push_back((origin, reply));
    }

    /// Queues an error reply with this text.
    pub(crate) fn fail(&mut self, origin: Origin, text: &str) {
        self.push(origin, format!("-{text}\r\n").into_bytes());
    }

    pub(crate) fn pop(&mut self) -> Option<(Origin, Vec<u8>)> {
        self.replies.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }
}
