//! Pub/Sub: one subscription on a node for all clients that listen here.
//!
//! Channels and patterns are subscribed to on any one node, since a cluster passes
//! messages on to all; shard channels on the node of their slot. A client's SUBSCRIBE
//! is confirmed once the node has confirmed ours, so that a message published after it
//! is not missed. Messages are handed to the clients by the same registry as in the
//! embedded engine. A subscription that no client needs any more is ended at the end of
//! the turn. The subscriptions of all workers on each node are counted, so that
//! PUBLISH can tell how many clients received a message.

mod confirming;
mod key_events;

use std::collections::HashSet;

use nagaya_connections::pubsub::{Kind, Relayed};
use nagaya_exec::executor::Executor;
use nagaya_reactor::Key;
use nagaya_resp::{Frame, parse_frame};
use nagaya_tiering::tag::tag_of;

use super::local;
use crate::proxy::env::Env;
use crate::proxy::model::Map;
use crate::proxy::model::key_event::{ALL_EVENTS, is_event_channel};
use crate::proxy::model::layout::slot_of_tag;
use crate::proxy::model::reply::encoded;
use crate::proxy::model::request::{Handled, Request};
use crate::proxy::model::session::{ReadPause, Session};
use crate::proxy::model::sessions::Sessions;
use crate::proxy::upstream::Upstream;
use key_events::{KeyEvents, wants_events};

/// How long a connection may be silent before its node is asked whether it is alive: without messages
/// nothing else would show that it is not.
const SILENCE_US: u64 = 5_000_000;

fn subscribe_command(kind: Kind) -> &'static [u8] {
    match kind {
        Kind::Channel => b"SUBSCRIBE",
        Kind::Pattern => b"PSUBSCRIBE",
        Kind::ShardChannel => b"SSUBSCRIBE",
    }
}

fn unsubscribe_command(kind: Kind) -> &'static [u8] {
    match kind {
        Kind::Channel => b"UNSUBSCRIBE",
        Kind::Pattern => b"PUNSUBSCRIBE",
        Kind::ShardChannel => b"SUNSUBSCRIBE",
    }
}

/// The kind and the name of a channel or pattern.
type Topic = (Kind, Vec<u8>);

/// The state of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// No connection has it yet.
    Wanted,
    /// Requested on this connection.
    Asked(Key),
    Live(Key),
}

/// A SUBSCRIBE that waits for its subscriptions.
struct Waiting {
    request: Vec<u8>,
    /// Everything it names. Other clients may leave it meanwhile, this one needs it still.
    topics: HashSet<Topic>,
    missing: HashSet<Topic>,
    give_up_us: u64,
}

/// The subscriptions of a worker.
#[derive(Default)]
pub(crate) struct Subscriptions {
    topics: Map<Topic, Progress>,
    /// Some topic may be in the state [`Progress::Wanted`].
    is_any_wanted: bool,
    /// The connection for messages of each node.
    connections: Map<usize, Key>,
    /// The clients whose SUBSCRIBE waits.
    waiting: Map<Key, Waiting>,
    /// The topics of each connection, as far as its node may know.
    listening: Map<Key, HashSet<Topic>>,
    /// Topics that a client has left, maybe as the last one.
    left: Vec<Topic>,
    events: KeyEvents,
}

impl Subscriptions {
    /// Subscribes a client; at once if we are subscribed already.
    pub(crate) fn subscribe(
        &mut self,
        executor: &mut Executor<'_>,
        upstream: &mut Upstream,
        env: &Env<'_>,
        session: &mut Session,
        request: &Request<'_>,
    ) -> Handled {
        if !session.ring.is_empty() {
            return Handled::TooEarly;
        }
        let kind = match request.command.full_name.as_bytes()[0] {
            b'p' => Kind::Pattern,
            b's' if request.command.full_name.starts_with("ss") => Kind::ShardChannel,
            _ => Kind::Channel,
        };
        let (mut topics, mut missing) = (HashSet::new(), HashSet::new());
        for name in request.args.iter().skip(1) {
            let topic = (kind, name.to_vec());
            if wants_events(kind, name) && !self.events.want(upstream, env) {
                missing.insert(events_topic());
            }
            if kind == Kind::Channel && is_event_channel(name) {
                // Only nodes speak on it, and all of them are listened to.
                continue;
            }
            if !matches!(self.topics.get(&topic), Some(Progress::Live(_))) {
                self.topics.entry(topic.clone()).or_insert(Progress::Wanted);
                self.is_any_wanted = true;
                missing.insert(topic.clone());
            }
            topics.insert(topic);
        }
        if missing.is_empty() {
            return local::answer(executor, session, request);
        }
        session.pause = ReadPause::Busy;
        let waiting = Waiting {
            request: request.bytes.to_vec(),
            topics,
            missing,
            give_up_us: env.give_up_us(),
        };
        self.waiting.insert(request.client, waiting);
        self.ask_for_topics(upstream, env);
        Handled::Done
    }

    /// Unsubscribes a client; our own subscription ends when no client is left.
    pub(crate) fn unsubscribe(
        &mut self,
        executor: &mut Executor<'_>,
        session: &mut Session,
        request: &Request<'_>,
    ) -> Handled {
        if !session.ring.is_empty() {
            return Handled::TooEarly;
        }
        self.note_left(session);
        local::answer(executor, session, request)
    }

    /// Notes the topics of a client that may leave them.
    pub(crate) fn note_left(&mut self, session: &Session) {
        let topics = session.client.topics().into_iter();
        self.left.extend(topics.map(|(kind, name)| (kind, name.to_vec())));
    }

    /// Forgets the SUBSCRIBE of a client that is gone.
    pub(crate) fn forget_client(&mut self, client: Key) {
        if let Some(waiting) = self.waiting.remove(&client) {
            self.left.extend(waiting.topics);
        }
    }

    /// Ends subscriptions that clients have left and no other client here has.
    pub(crate) fn leave_topics(&mut self, upstream: &mut Upstream, sessions: &Sessions, env: &Env<'_>) {
        for topic in std::mem::take(&mut self.left) {
            if wants_events(topic.0, &topic.1) {
                self.events.left();
            }
            let Some(Progress::Live(connection)) = self.topics.get(&topic).copied() else {
                continue;
            };
            let mut waiting = self.waiting.values();
            let is_awaited = waiting.any(|waiting| waiting.topics.contains(&topic));
            let is_heard = || {
                let server = &env.shared.server;
                server.is_heard(topic.0, &topic.1, |id| sessions.serves(id))
            };
            if !is_awaited && !is_heard() {
                self.topics.remove(&topic);
                let bytes = encoded(&[unsubscribe_command(topic.0), &topic.1]);
                upstream.send_raw(connection, &bytes);
            }
        }
    }

    /// Asks nodes for the topics that no connection has.
    fn ask_for_topics(&mut self, upstream: &mut Upstream, env: &Env<'_>) {
        if !std::mem::take(&mut self.is_any_wanted) {
            return;
        }
        let topics = self.topics.iter();
        let wanted = topics.filter(|(_, progress)| **progress == Progress::Wanted);
        let wanted: Vec<Topic> = wanted.map(|(topic, _)| topic.clone()).collect();
        for topic in wanted {
            let node = match topic.0 {
                Kind::ShardChannel => upstream.nodes.owner(slot_of_tag(tag_of(&topic.1))),
                Kind::Channel | Kind::Pattern => upstream.nodes.any(env.now_us),
            };
            let Some(connection) = node.and_then(|node| self.connection(upstream, env, node)) else {
                self.is_any_wanted = true;
                continue;
            };
            let bytes = encoded(&[subscribe_command(topic.0), &topic.1]);
            upstream.send_raw(connection, &bytes);
            self.listen_on(upstream, env, connection, &topic);
            self.topics.insert(topic, Progress::Asked(connection));
        }
    }

    fn connection(&mut self, upstream: &mut Upstream, env: &Env<'_>, node: usize) -> Option<Key> {
        if let Some(&key) = self.connections.get(&node) {
            return Some(key);
        }
        let key = upstream.pubsub_connection(env, node)?;
        self.connections.insert(node, key);
        Some(key)
    }

    /// Notes that a node may count one of our subscriptions from now on.
    fn listen_on(&mut self, upstream: &Upstream, env: &Env<'_>, connection: Key, topic: &Topic) {
        let topics = self.listening.entry(connection).or_default();
        if topics.insert(topic.clone())
            && let Some(node) = upstream.node_of(connection)
        {
            let node = upstream.nodes.name(node);
            env.shared.listeners.add(node, topic.0, &topic.1);
        }
    }

    /// Notes that a node does not count one of our subscriptions any more.
    fn stop_listening(&mut self, upstream: &Upstream, env: &Env<'_>, connection: Key, topic: &Topic) {
        let topics = self.listening.get_mut(&connection);
        if topics.is_some_and(|topics| topics.remove(topic))
            && let Some(node) = upstream.node_of(connection)
        {
            let node = upstream.nodes.name(node);
            env.shared.listeners.remove(node, topic.0, &topic.1);
        }
    }

    /// Processes a message or a confirmation of a node.
    pub(crate) fn on_message(
        &mut self,
        executor: &mut Executor<'_>,
        upstream: &Upstream,
        sessions: &mut Sessions,
        env: &Env<'_>,
        connection: Key,
        reply: &[u8],
    ) {
        if self.events.has(connection) {
            return self.on_event_message(executor, upstream, sessions, env, connection, reply);
        }
        let frame = match parse_frame(reply) {
            Ok(Some((Frame::Array(items) | Frame::Push(items), _))) => items,
            Ok(Some((Frame::Error(text), _))) => {
                let reason = String::from_utf8_lossy(&text).into_owned();
                return self.on_refused(upstream, sessions, env, connection, &reason);
            }
            _ => return,
        };
        let words: Vec<&[u8]> = frame.iter().map(word).collect();
        if let [b"pmessage", _, channel, _] = words[..]
            && is_event_channel(channel)
        {
            // It comes by the connection for events, too, and from all nodes.
            return;
        }
        let mut relay = |kind, name: &[u8], message: &Relayed<'_>| {
            let server = &env.shared.server;
            if server.relay(message, |id| sessions.serves(id)) == 0 {
                self.left.push((kind, name.to_vec()));
            }
        };
        match words[..] {
            [b"message", channel, payload] => {
                relay(Kind::Channel, channel, &Relayed::Channel { channel, payload });
            }
            [b"pmessage", pattern, channel, payload] => {
                let message = Relayed::Pattern {
                    pattern,
                    channel,
                    payload,
                };
                relay(Kind::Pattern, pattern, &message);
            }
            [b"smessage", channel, payload] => {
                relay(Kind::ShardChannel, channel, &Relayed::Shard { channel, payload });
            }
            [command, name, _] => {
                let Some((kind, is_begun)) = confirmed(command) else {
                    return;
                };
                let topic = (kind, name.to_vec());
                if is_begun {
                    self.on_live(executor, sessions, topic, connection);
                } else {
                    self.on_ended(upstream, env, topic, connection);
                }
            }
            _ => {}
        }
    }

    fn on_live(
        &mut self,
        executor: &mut Executor<'_>,
        sessions: &mut Sessions,
        topic: Topic,
        connection: Key,
    ) {
        if self.topics.get(&topic) != Some(&Progress::Asked(connection)) {
            return;
        }
        // The clients that asked may have gone meanwhile.
        self.left.push(topic.clone());
        self.topics.insert(topic.clone(), Progress::Live(connection));
        self.confirm_all(executor, sessions, &topic);
    }

    fn on_ended(&mut self, upstream: &Upstream, env: &Env<'_>, topic: Topic, connection: Key) {
        self.stop_listening(upstream, env, connection, &topic);
        // A shard channel also ends without our asking, when its slot goes to another node.
        if topic.0 == Kind::ShardChannel && self.topics.get(&topic) == Some(&Progress::Live(connection)) {
            self.topics.insert(topic, Progress::Wanted);
            self.is_any_wanted = true;
            env.shared.refresher.ask();
        }
    }

    /// A node refused a subscription: the slot has moved, or our user may not subscribe.
    fn on_refused(
        &mut self,
        upstream: &Upstream,
        sessions: &mut Sessions,
        env: &Env<'_>,
        connection: Key,
        reason: &str,
    ) {
        self.is_any_wanted = true;
        env.shared.refresher.ask();
        if !reason.starts_with("MOVED") {
            tracing::warn!(reason, "a node refused a subscription");
            let asked: Vec<Key> = self.waiting.keys().copied().collect();
            for client in asked {
                self.refuse(sessions, client, reason);
            }
        }
        let mut refused = Vec::new();
        for (topic, progress) in &mut self.topics {
            if *progress == Progress::Asked(connection) {
                *progress = Progress::Wanted;
                refused.push(topic.clone());
            }
        }
        for topic in refused {
            self.stop_listening(upstream, env, connection, &topic);
        }
    }

    /// Asks again for the subscriptions of a connection that is gone.
    pub(crate) fn on_connection_lost(&mut self, env: &Env<'_>, connection: Key, node: &str) {
        for (kind, name) in self.listening.remove(&connection).unwrap_or_default() {
            env.shared.listeners.remove(node, kind, &name);
        }
        self.connections.retain(|_, known| *known != connection);
        self.events.on_connection_lost(connection);
        self.is_any_wanted = true;
        for progress in self.topics.values_mut() {
            if matches!(progress, Progress::Asked(on) | Progress::Live(on) if *on == connection) {
                *progress = Progress::Wanted;
            }
        }
    }

    /// Moves subscriptions to the nodes of a new layout.
    pub(crate) fn on_layout_changed(&mut self, upstream: &mut Upstream, env: &Env<'_>) {
        let nodes = &upstream.nodes;
        let is_away = |topic: &Topic, connection: Key| {
            let node = upstream.node_of(connection);
            match topic.0 {
                Kind::ShardChannel => node != nodes.owner(slot_of_tag(tag_of(&topic.1))),
                Kind::Channel | Kind::Pattern => !node.is_some_and(|node| nodes.primaries.contains(&node)),
            }
        };
        for (topic, progress) in &mut self.topics {
            if let Progress::Asked(on) | Progress::Live(on) = *progress
                && is_away(topic, on)
            {
                *progress = Progress::Wanted;
                self.is_any_wanted = true;
            }
        }
        self.ask_for_topics(upstream, env);
    }

    /// Asks again for what is missing, and fails the clients that have waited too long.
    pub(crate) fn tick(&mut self, upstream: &mut Upstream, sessions: &mut Sessions, env: &Env<'_>) {
        let is_awaited = self
            .waiting
            .values()
            .any(|waiting| waiting.missing.contains(&events_topic()));
        self.events.tick(upstream, sessions, env, is_awaited);
        let own = self.events.connections();
        for connection in own.chain(self.connections.values().copied()) {
            upstream.check_silence(env, connection, SILENCE_US);
        }
        if self.topics.is_empty() && self.waiting.is_empty() {
            return;
        }
        self.ask_for_topics(upstream, env);
        let waiting = self.waiting.iter();
        let late = waiting.filter(|(_, waiting)| waiting.give_up_us < env.now_us);
        let late: Vec<Key> = late.map(|(client, _)| *client).collect();
        for client in late {
            self.refuse(sessions, client, "CLUSTERDOWN no node takes subscriptions now");
        }
    }
}

/// What a SUBSCRIBE waits for that wants notifications of changed keys.
fn events_topic() -> Topic {
    (Kind::Pattern, ALL_EVENTS.to_vec())
}

/// Returns which kind of subscription a node confirms, and whether it has begun.
fn confirmed(command: &[u8]) -> Option<(Kind, bool)> {
    Some(match command {
        b"subscribe" => (Kind::Channel, true),
        b"psubscribe" => (Kind::Pattern, true),
        b"ssubscribe" => (Kind::ShardChannel, true),
        b"unsubscribe" => (Kind::Channel, false),
        b"punsubscribe" => (Kind::Pattern, false),
        b"sunsubscribe" => (Kind::ShardChannel, false),
        _ => return None,
    })
}

fn word(frame: &Frame) -> &[u8] {
    match frame {
        Frame::Bulk(bytes) | Frame::Simple(bytes) => bytes,
        _ => b"",
    }
}
