//! Keyspace notifications: each node tells of its own keys only, so all primaries are listened to, on
//! connections of their own, while a client of this worker wants to hear of any.

use nagaya_command_spec::glob;
use nagaya_connections::pubsub::{Kind, Relayed};
use nagaya_reactor::Key;
use nagaya_resp::Frame;

use crate::proxy::env::Env;
use crate::proxy::model::Map;
use crate::proxy::model::key_event::{ALL_EVENTS, EventFilter, is_event_channel, may_match_events};
use crate::proxy::model::reply::encoded;
use crate::proxy::model::sessions::Sessions;
use crate::proxy::upstream::Upstream;

/// The notifications of all nodes.
#[derive(Default)]
pub(super) struct KeyEvents {
    nodes: Map<usize, Listening>,
    is_wanted: bool,
    /// A client may have been the last one that wanted them.
    may_end: bool,
}

/// One node that is listened to.
struct Listening {
    connection: Key,
    /// The node has confirmed it.
    is_live: bool,
    filter: EventFilter,
}

/// Returns whether who listens to this wants notifications.
pub(super) fn wants_events(kind: Kind, name: &[u8]) -> bool {
    match kind {
        Kind::Channel => is_event_channel(name),
        Kind::Pattern => may_match_events(name),
        Kind::ShardChannel => false,
    }
}

impl KeyEvents {
    /// Listens to all nodes; returns whether that is so already.
    pub(super) fn want(&mut self, upstream: &mut Upstream, env: &Env<'_>) -> bool {
        self.is_wanted = true;
        self.listen(upstream, env);
        self.is_live(upstream)
    }

    /// Notes that a client has left something that it wanted notifications by.
    pub(super) fn left(&mut self) {
        self.may_end = true;
    }

    pub(super) fn has(&self, connection: Key) -> bool {
        self.nodes.values().any(|node| node.connection == connection)
    }

    /// Returns whether every primary has confirmed.
    pub(super) fn is_live(&self, upstream: &Upstream) -> bool {
        let primaries = &upstream.nodes.primaries;
        let is_live = |node| self.nodes.get(node).is_some_and(|node| node.is_live);
        !primaries.is_empty() && primaries.iter().all(is_live)
    }

    fn listen(&mut self, upstream: &mut Upstream, env: &Env<'_>) {
        for node in upstream.nodes.primaries.clone() {
            if self.nodes.contains_key(&node) {
                continue;
            }
            if let Some(connection) = upstream.pubsub_connection(env, node) {
                upstream.send_raw(connection, &encoded(&[b"PSUBSCRIBE", ALL_EVENTS]));
                let listening = Listening {
                    connection,
                    is_live: false,
                    filter: EventFilter::default(),
                };
                self.nodes.insert(node, listening);
            }
        }
    }

    /// Processes a message of a node; returns whether it confirms that it tells its notifications.
    pub(super) fn on_message(
        &mut self,
        env: &Env<'_>,
        sessions: &Sessions,
        connection: Key,
        items: &[Frame],
    ) -> bool {
        let mut nodes = self.nodes.values_mut();
        let Some(node) = nodes.find(|node| node.connection == connection) else {
            return false;
        };
        match items {
            [
                Frame::Bulk(kind),
                Frame::Bulk(_),
                Frame::Bulk(channel),
                Frame::Bulk(payload),
            ] if kind == b"pmessage" => {
                let config = &env.shared.config;
                let event = node
                    .filter
                    .accept(config.redis.db, &config.hidden, channel, payload);
                if let Some(event) = event {
                    tell(env, sessions, &event.channel, payload);
                }
                false
            }
            [Frame::Bulk(kind), ..] if kind == b"psubscribe" => {
                node.is_live = true;
                true
            }
            _ => false,
        }
    }

    pub(super) fn on_connection_lost(&mut self, connection: Key) {
        self.nodes.retain(|_, node| node.connection != connection);
    }

    /// Listens to new nodes, leaves former ones, and ends when nobody wants to hear any more.
    pub(super) fn tick(
        &mut self,
        upstream: &mut Upstream,
        sessions: &Sessions,
        env: &Env<'_>,
        is_awaited: bool,
    ) {
        if !self.is_wanted {
            return;
        }
        if std::mem::take(&mut self.may_end) && !is_awaited && !is_any_heard(env, sessions) {
            self.is_wanted = false;
        }
        let primaries = &upstream.nodes.primaries;
        let mut left = Vec::new();
        self.nodes.retain(|node, listening| {
            let stays = self.is_wanted && primaries.contains(node);
            if !stays {
                left.push(listening.connection);
            }
            stays
        });
        left.into_iter()
            .for_each(|connection| upstream.close(Some(connection)));
        if self.is_wanted {
            self.listen(upstream, env);
        }
    }

    pub(super) fn connections(&self) -> impl Iterator<Item = Key> {
        self.nodes.values().map(|node| node.connection)
    }
}

/// Returns whether a client of this worker listens to anything that notifications come by.
fn is_any_heard(env: &Env<'_>, sessions: &Sessions) -> bool {
    let mut is_heard = false;
    for kind in [Kind::Channel, Kind::Pattern] {
        env.shared
            .server
            .subscribers
            .pubsub
            .each(kind, |name, listeners| {
                is_heard |= wants_events(kind, name) && listeners.keys().any(|id| sessions.serves(*id));
            });
    }
    is_heard
}

/// Tells the clients of this worker of a notification.
fn tell(env: &Env<'_>, sessions: &Sessions, channel: &[u8], payload: &[u8]) {
    let pubsub = &env.shared.server.subscribers.pubsub;
    let is_meant = |id| sessions.serves(id);
    pubsub.relay(&Relayed::Channel { channel, payload }, is_meant);
    let mut patterns = Vec::new();
    pubsub.each(Kind::Pattern, |pattern, _| {
        if glob::matches(pattern, channel) {
            patterns.push(pattern.to_vec());
        }
    });
    for pattern in &patterns {
        let message = Relayed::Pattern {
            pattern,
            channel,
            payload,
        };
        pubsub.relay(&message, is_meant);
    }
}
