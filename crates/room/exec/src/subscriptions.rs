//! What one connection listens to.
//!
//! The connection's own thread keeps the names; other threads see the counts.

use std::collections::HashMap;
use std::sync::Arc;

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::table::Command;
use nagaya_connections::pubsub::{Kind, PubSub};
use nagaya_resp::Proto;

use crate::session::Session;

impl Session {
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
    pub fn check_subscribed_mode(&self, command: &Command) -> Result<(), CommandError> {
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
pub fn subscribe(pubsub: &PubSub, session: &mut Session, kind: Kind, name: &[u8]) {
    let subscriptions = session.subscriptions.get_or_insert_default();
    let names = &mut subscriptions.names[kind as usize];
    if names.contains_key(name) {
        return;
    }
    names.insert(pubsub.add(kind, name, &session.shared), subscriptions.next);
    subscriptions.next += 1;
    session.shared.subscriptions.set(kind, names.len());
}

/// Makes a client stop listening; nothing changes when it did not listen.
pub fn unsubscribe(pubsub: &PubSub, session: &mut Session, kind: Kind, name: &[u8]) {
    let Some(subscriptions) = &mut session.subscriptions else {
        return;
    };
    let names = &mut subscriptions.names[kind as usize];
    if names.remove(name).is_some() {
        pubsub.remove(kind, name, session.shared.id);
        session.shared.subscriptions.set(kind, names.len());
    }
    if subscriptions.names.iter().all(HashMap::is_empty) {
        session.subscriptions = None;
    }
}

/// Returns what a client listens to, in the order in which it subscribed.
pub fn names(session: &Session, kind: Kind) -> Vec<Arc<[u8]>> {
    let Some(subscriptions) = &session.subscriptions else {
        return Vec::new();
    };
    let mut names: Vec<_> = subscriptions.names[kind as usize].iter().collect();
    names.sort_unstable_by_key(|(_, place)| **place);
    names.into_iter().map(|(name, _)| Arc::clone(name)).collect()
}

impl Session {
    /// Returns all that the connection listens to.
    pub fn topics(&self) -> Vec<(Kind, Arc<[u8]>)> {
        let of_kind = |kind: Kind| names(self, kind).into_iter().map(move |name| (kind, name));
        Kind::ALL.into_iter().flat_map(of_kind).collect()
    }
}

/// Returns the count that a confirmation carries: shard channels are counted apart from the rest.
pub fn confirmed_count(session: &Session, kind: Kind) -> i64 {
    let counts = session.shared.subscriptions.get();
    match kind {
        Kind::Channel | Kind::Pattern => i64::from(counts.channels + counts.patterns),
        Kind::ShardChannel => i64::from(counts.shard_channels),
    }
}

/// Makes a client stop listening to everything, without a word to it (RESET, disconnect).
pub fn unsubscribe_all(pubsub: &PubSub, session: &mut Session) {
    let Some(subscriptions) = session.subscriptions.take() else {
        return;
    };
    for kind in Kind::ALL {
        for name in subscriptions.names[kind as usize].keys() {
            pubsub.remove(kind, name, session.shared.id);
        }
        session.shared.subscriptions.set(kind, 0);
    }
}
