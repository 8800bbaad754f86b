//! What one connection listens to.
//!
//! The connection's own thread keeps the names; other threads see the counts.

use std::collections::HashMap;
use std::sync::Arc;

use nagaya_resp::Proto;

use crate::client::Client;
use crate::command_table::Command;
use crate::error::CommandError;

use super::registry::{Kind, PubSub};

/// The channels and patterns of a connection that listens to at least one.
#[derive(Default)]
pub(crate) struct Subscriptions {
    /// Per [`Kind`], each name with the place it takes in the order of subscribing.
    names: [HashMap<Arc<[u8]>, u64, ahash::RandomState>; 3],
    next: u64,
}

impl Client {
    /// Tells whether the connection listens to anything.
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions.is_some()
    }

    /// Tells whether the connection is one of RESP2 that listens to something: it may send only a few
    /// commands, since its replies could be taken for messages.
    #[inline]
    pub fn in_subscribed_mode(&self) -> bool {
        self.subscriptions.is_some() && self.proto() == Proto::Resp2
    }

    /// Refuses commands that a RESP2 connection in subscribed mode may not send.
    #[inline]
    pub(crate) fn check_subscribed_mode(&self, command: &Command) -> Result<(), CommandError> {
        if self.in_subscribed_mode() && !allowed_while_subscribed(command) {
            return Err(refusal(command));
        }
        Ok(())
    }
}

#[cold]
fn refusal(command: &Command) -> CommandError {
    CommandError::err(format!(
        "Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        command.full_name
    ))
}

fn allowed_while_subscribed(command: &Command) -> bool {
    const NAMES: &[&str] = &[
        "subscribe",
        "psubscribe",
        "ssubscribe",
        "unsubscribe",
        "punsubscribe",
        "sunsubscribe",
        "ping",
        "quit",
        "reset",
    ];
    NAMES.contains(&command.full_name.as_str())
}

/// Makes a client listen; nothing changes when it does already.
pub(crate) fn subscribe(pubsub: &PubSub, client: &mut Client, kind: Kind, name: &[u8]) {
    let subscriptions = client.subscriptions.get_or_insert_default();
    let names = &mut subscriptions.names[kind as usize];
    if names.contains_key(name) {
        return;
    }
    names.insert(pubsub.add(kind, name, &client.shared), subscriptions.next);
    subscriptions.next += 1;
    client.shared.subscriptions.set(kind, names.len());
}

/// Makes a client stop listening; nothing changes when it did not listen.
pub(crate) fn unsubscribe(pubsub: &PubSub, client: &mut Client, kind: Kind, name: &[u8]) {
    let Some(subscriptions) = &mut client.subscriptions else {
        return;
    };
    let names = &mut subscriptions.names[kind as usize];
    if names.remove(name).is_some() {
        pubsub.remove(kind, name, client.shared.id);
        client.shared.subscriptions.set(kind, names.len());
    }
    if subscriptions.names.iter().all(HashMap::is_empty) {
        client.subscriptions = None;
    }
}

/// Returns what a client listens to, in the order in which it subscribed.
pub(crate) fn names(client: &Client, kind: Kind) -> Vec<Arc<[u8]>> {
    let Some(subscriptions) = &client.subscriptions else {
        return Vec::new();
    };
    let mut names: Vec<_> = subscriptions.names[kind as usize].iter().collect();
    names.sort_unstable_by_key(|(_, place)| **place);
    names.into_iter().map(|(name, _)| Arc::clone(name)).collect()
}

impl Client {
    /// Returns all that the connection listens to.
    pub fn topics(&self) -> Vec<(Kind, Arc<[u8]>)> {
        let of_kind = |kind: Kind| names(self, kind).into_iter().map(move |name| (kind, name));
        Kind::ALL.into_iter().flat_map(of_kind).collect()
    }
}

/// Returns the count that a confirmation carries: shard channels are counted apart from the rest.
pub(crate) fn confirmed_count(client: &Client, kind: Kind) -> i64 {
    let counts = client.shared.subscriptions.get();
    match kind {
        Kind::Channel | Kind::Pattern => i64::from(counts.channels + counts.patterns),
        Kind::ShardChannel => i64::from(counts.shard_channels),
    }
}

/// Makes a client stop listening to everything, without a word to it (RESET, disconnect).
pub(crate) fn unsubscribe_all(pubsub: &PubSub, client: &mut Client) {
    let Some(subscriptions) = client.subscriptions.take() else {
        return;
    };
    for kind in Kind::ALL {
        for name in subscriptions.names[kind as usize].keys() {
            pubsub.remove(kind, name, client.shared.id);
        }
        client.shared.subscriptions.set(kind, 0);
    }
}
