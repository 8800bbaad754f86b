//! How other threads reach the connections of an I/O thread.

use std::ops::Deref;

use nagaya_connections::client::{Mailbox, Message};
use nagaya_reactor::Transport;

/// Work for an I/O thread.
pub(crate) enum Item {
    /// A new connection, with its client id.
    Connection(u64, Box<Transport>),
    /// A message for one of its connections.
    Message(u64, Message),
}

/// The inbox of one I/O thread, as a mailbox of its clients.
pub(crate) struct Inbox(nagaya_reactor::Inbox<Item>);

impl Inbox {
    pub(crate) fn new() -> std::io::Result<Inbox> {
        nagaya_reactor::Inbox::new().map(Inbox)
    }
}

impl Deref for Inbox {
    type Target = nagaya_reactor::Inbox<Item>;

    #[inline]
    fn deref(&self) -> &nagaya_reactor::Inbox<Item> {
        &self.0
    }
}

impl Mailbox for Inbox {
    fn deliver(&self, client: u64, message: Message) {
        self.push(Item::Message(client, message));
    }
}
