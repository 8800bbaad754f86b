//! How other threads reach a worker.

use std::ops::Deref;
use std::sync::Arc;

use nagaya_connections::client::{Mailbox, Message};
use nagaya_reactor::Transport;

use super::model::layout::Layout;
use super::tag_admin::Outcome;

/// An item for a worker.
pub(crate) enum Item {
    /// A new client, with its number.
    Connection(u64, Box<Transport>),
    /// A message for one of its clients.
    Message(u64, Message),
    /// A new layout.
    Layout(Arc<Layout>),
    /// Why the layout could not be read.
    LayoutFailed(String),
    /// The end of a load.
    Loaded {
        tag: Vec<u8>,
        ending: Result<(), String>,
    },
    /// The outcome of a client's command about tags.
    TagCommand {
        client: u64,
        outcome: Result<Outcome, String>,
    },
    /// An answer of the cold tier to the question with this number.
    Cold(u64, Result<ColdAnswer, String>),
}

/// An answer of the cold tier.
pub(crate) enum ColdAnswer {
    Page { next: u64, keys: Vec<Vec<u8>> },
    Count(u64),
}

/// The inbox of one worker, as a mailbox of its clients.
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
