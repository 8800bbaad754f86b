//! Pub/Sub: one subscription on a node for all who listen here.
//!
//! Channels and patterns are subscribed to on any one node, since a cluster passes
//! messages on to all; shard channels on the node of their slot. A client's SUBSCRIBE
//! is confirmed once the node has confirmed ours, so that a message published after it
//! is not missed. Messages are handed to the clients by the same registry as in the
//! embedded engine. A subscription that nobody needs any more is given up at the end of
//! the turn. What the workers listen to on which node is known to all of them, so that
//! PUBLISH can tell how many clients heard it.

use std::collections::HashSet;

use nagaya_commands::pubsub::{Kind, Relayed};
use nagaya_resp::{Frame, encode_request, parse_frame};
use nagaya_tiering::tag::tag_of;

use super::model::Map;
use super::model::layout::slot_of_tag;
use super::model::request::{Handled, Request};
use super::model::session::{ReadPause, Session};
use super::node_connection::{Purpose, State};
use super::slab::Key;
use super::worker::Worker;

/// How long a connection may be silent before it is asked whether it is there.
const SILENCE_US: u64 = 5_000_000;

fn to_listen(kind: Kind) -> &'static [u8] {
    match kind {
        Kind::Channel => b"SUBSCRIBE",
        Kind::Pattern => b"PSUBSCRIBE",
        Kind::ShardChannel => b"SSUBSCRIBE",
    }
}

fn to_stop(kind: Kind) -> &'static [u8] {
    match kind {
        Kind::Channel => b"UNSUBSCRIBE",
        Kind::Pattern => b"PUNSUBSCRIBE",
        Kind::ShardChannel => b"SUNSUBSCRIBE",
    }
}

/// A channel or pattern, and which of them.
pub(super) type Topic = (Kind, Vec<u8>);

/// How far a subscription is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// No connection has it yet.
    Wanted,
    Asked(Key),
    Live(Key),
}

/// The subscriptions of a worker.
#[derive(Default)]
pub(crate) struct Subscriptions {
    topics: Map<Topic, Progress>,
    /// Some topic may be wanted.
    is_any_wanted: bool,
    /// One connection per node that messages come from.
    connections: Map<usize, Key>,
    /// Clients whose SUBSCRIBE waits, with its request and the topics that are missing.
    waiting: Map<Key, (Vec<u8>, HashSet<Topic>, u64)>,
    /// What each connection is subscribed to, as far as its node may know.
    pub(super) listening: Map<Key, HashSet<Topic>>,
    /// Topics that a client has left: maybe nobody listens any more.
    left: Vec<Topic>,
}

impl Worker<'_> {
    /// Subscribes a client; at once when we listen already.
    pub(super) fn subscribe(&mut self, session: &mut Session, request: &Request<'_>) -> Handled {
        if !session.ring.is_empty() {
            return Handled::TooEarly;
        }
        let kind = match request.command.full_name.as_bytes()[0] {
            b'p' => Kind::Pattern,
            b's' if request.command.full_name.starts_with("ss") => Kind::ShardChannel,
            _ => Kind::Channel,
        };
        let mut missing = HashSet::new();
        for name in request.args.iter().skip(1) {
            let topic = (kind, name.to_vec());
            if !matches!(self.subscriptions.topics.get(&topic), Some(Progress::Live(_))) {
                self.subscriptions
                    .topics
                    .entry(topic.clone())
                    .or_insert(Progress::Wanted);
                self.subscriptions.is_any_wanted = true;
                missing.insert(topic);
            }
        }
        if missing.is_empty() {
            return self.answer_here(session, request);
        }
        session.pause = ReadPause::Busy;
        let give_up_us = self.now_us + self.shared.config.retry_for.as_micros() as u64;
        self.subscriptions
            .waiting
            .insert(request.client, (request.bytes.to_vec(), missing, give_up_us));
        self.ask_for_topics();
        Handled::Done
    }

    /// Unsubscribes a client; the node is told when nobody is left.
    pub(super) fn unsubscribe(&mut self, session: &mut Session, request: &Request<'_>) -> Handled {
        if !session.ring.is_empty() {
            return Handled::TooEarly;
        }
        self.note_left(session);
        self.answer_here(session, request)
    }

    /// Notes what a client listens to, because it may stop doing so.
    pub(super) fn note_left(&mut self, session: &Session) {
        let topics = session.client.topics().into_iter();
        self.subscriptions
            .left
            .extend(topics.map(|(kind, name)| (kind, name.to_vec())));
    }

    /// Forgets the SUBSCRIBE of a client that is gone.
    pub(super) fn end_subscribing(&mut self, client: Key) {
        if let Some((_, missing, _)) = self.subscriptions.waiting.remove(&client) {
            self.subscriptions.left.extend(missing);
        }
    }

    /// Gives up subscriptions that clients have left and nobody else here has.
    pub(super) fn leave_topics(&mut self) {
        for topic in std::mem::take(&mut self.subscriptions.left) {
            let Some(Progress::Live(key)) = self.subscriptions.topics.get(&topic).copied() else {
                continue;
            };
            let is_awaited = self
                .subscriptions
                .waiting
                .values()
                .any(|(_, missing, _)| missing.contains(&topic));
            let is_heard = || {
                let server = &self.shared.server;
                server.is_heard(topic.0, &topic.1, |id| self.serves(id))
            };
            if !is_awaited && !is_heard() {
                self.leave(key, &topic);
            }
        }
    }

    fn leave(&mut self, key: Key, topic: &Topic) {
        self.subscriptions.topics.remove(topic);
        let mut bytes = Vec::new();
        encode_request(&[to_stop(topic.0), &topic.1], &mut bytes);
        if let Some(backend) = self.backends.get_mut(key) {
            backend.push_raw(&bytes);
        }
        self.mark_backend(key);
    }

    /// Asks nodes for the topics that no connection has.
    fn ask_for_topics(&mut self) {
        if !std::mem::take(&mut self.subscriptions.is_any_wanted) {
            return;
        }
        let wanted: Vec<Topic> = self
            .subscriptions
            .topics
            .iter()
            .filter(|(_, progress)| **progress == Progress::Wanted)
            .map(|(topic, _)| topic.clone())
            .collect();
        for topic in wanted {
            let node = match topic.0 {
                Kind::ShardChannel => self.nodes.owner(slot_of_tag(tag_of(&topic.1))),
                Kind::Channel | Kind::Pattern => self.any_node(),
            };
            let Some(connection) = node.and_then(|node| self.pubsub_connection(node)) else {
                self.subscriptions.is_any_wanted = true;
                continue;
            };
            let mut bytes = Vec::new();
            encode_request(&[to_listen(topic.0), &topic.1], &mut bytes);
            if let Some(backend) = self.backends.get_mut(connection) {
                backend.push_raw(&bytes);
            }
            self.mark_backend(connection);
            self.heard_on(connection, &topic);
            self.subscriptions
                .topics
                .insert(topic, Progress::Asked(connection));
        }
    }

    fn pubsub_connection(&mut self, node: usize) -> Option<Key> {
        if let Some(&key) = self.subscriptions.connections.get(&node) {
            return Some(key);
        }
        let key = self.open_backend(node, Purpose::PubSub)?;
        self.subscriptions.connections.insert(node, key);
        Some(key)
    }

    /// Takes a message or a confirmation of a node.
    pub(super) fn on_pubsub_message(&mut self, key: Key, reply: &[u8]) {
        let frame = match parse_frame(reply) {
            Ok(Some((Frame::Array(items) | Frame::Push(items), _))) => items,
            Ok(Some((Frame::Error(text), _))) => {
                let reason = String::from_utf8_lossy(&text).into_owned();
                return self.subscription_refused(key, &reason);
            }
            _ => return,
        };
        let words: Vec<&[u8]> = frame.iter().map(word).collect();
        match words[..] {
            [b"message", channel, payload] => {
                let message = Relayed::Channel { channel, payload };
                self.relay(Kind::Channel, channel, &message);
            }
            [b"pmessage", pattern, channel, payload] => {
                let message = Relayed::Pattern {
                    pattern,
                    channel,
                    payload,
                };
                self.relay(Kind::Pattern, pattern, &message);
            }
            [b"smessage", channel, payload] => {
                let message = Relayed::Shard { channel, payload };
                self.relay(Kind::ShardChannel, channel, &message);
            }
            [b"subscribe", name, _] => self.topic_live((Kind::Channel, name.to_vec()), key),
            [b"psubscribe", name, _] => self.topic_live((Kind::Pattern, name.to_vec()), key),
            [b"ssubscribe", name, _] => self.topic_live((Kind::ShardChannel, name.to_vec()), key),
            [b"unsubscribe", name, _] => self.heard_no_more(key, &(Kind::Channel, name.to_vec())),
            [b"punsubscribe", name, _] => self.heard_no_more(key, &(Kind::Pattern, name.to_vec())),
            // We left a shard channel, or its slot went elsewhere.
            [b"sunsubscribe", name, _] => self.topic_ended((Kind::ShardChannel, name.to_vec()), key),
            _ => {}
        }
    }

    fn relay(&mut self, kind: Kind, name: &[u8], message: &Relayed<'_>) {
        if self.shared.server.relay(message, |id| self.serves(id)) == 0 {
            self.subscriptions.left.push((kind, name.to_vec()));
        }
    }

    fn topic_live(&mut self, topic: Topic, key: Key) {
        if self.subscriptions.topics.get(&topic) != Some(&Progress::Asked(key)) {
            return;
        }
        let ready: Vec<Key> = self
            .subscriptions
            .waiting
            .iter_mut()
            .filter_map(|(client, (_, missing, _))| {
                (missing.remove(&topic) && missing.is_empty()).then_some(*client)
            })
            .collect();
        // The ones who asked may have gone meanwhile.
        self.subscriptions.left.push(topic.clone());
        self.subscriptions.topics.insert(topic, Progress::Live(key));
        for client in ready {
            self.confirm_subscription(client);
        }
    }

    /// Runs the SUBSCRIBE of a client on our own registry, now that we listen.
    fn confirm_subscription(&mut self, client: Key) {
        let Some((bytes, ..)) = self.subscriptions.waiting.remove(&client) else {
            return;
        };
        let Some(mut session) = self.clients.take(client) else {
            return;
        };
        let mut parser = nagaya_resp::RequestParser::default();
        if parser.parse(&bytes, &nagaya_resp::Limits::default()).is_ok() {
            let mut out = nagaya_resp::Out::new(session.client.proto());
            let args = parser.args(&bytes);
            if self.core.execute(&mut session.client, args, &mut out)
                == nagaya_commands::dispatch::Executed::Done
            {
                session.reply(&out.buf);
            }
        }
        self.put_back(client, session);
        self.release(client);
    }

    fn topic_ended(&mut self, topic: Topic, key: Key) {
        self.heard_no_more(key, &topic);
        if self.subscriptions.topics.get(&topic) == Some(&Progress::Live(key)) {
            self.subscriptions.topics.insert(topic, Progress::Wanted);
            self.subscriptions.is_any_wanted = true;
            self.shared.refresher.ask();
        }
    }

    /// A node refused a subscription: the slot moved, or we may not.
    fn subscription_refused(&mut self, key: Key, reason: &str) {
        self.subscriptions.is_any_wanted = true;
        self.shared.refresher.ask();
        if !reason.starts_with("MOVED") {
            tracing::warn!(reason, "a node refused a subscription");
            let asked: Vec<Key> = self.subscriptions.waiting.keys().copied().collect();
            for client in asked {
                self.refuse_subscription(client, reason);
            }
        }
        let mut refused = Vec::new();
        for (topic, progress) in &mut self.subscriptions.topics {
            if *progress == Progress::Asked(key) {
                *progress = Progress::Wanted;
                refused.push(topic.clone());
            }
        }
        for topic in refused {
            self.heard_no_more(key, &topic);
        }
    }

    fn refuse_subscription(&mut self, client: Key, reason: &str) {
        self.subscriptions.waiting.remove(&client);
        if let Some(session) = self.clients.get_mut(client) {
            session.reply(format!("-{reason}\r\n").as_bytes());
            self.mark_client(client);
            self.release(client);
        }
    }

    /// A connection that messages came from is gone: its subscriptions are asked for again.
    pub(super) fn subscriptions_lost(&mut self, key: Key, node: usize) {
        let node = &self.nodes.list[node].info.name;
        for (kind, name) in self.subscriptions.listening.remove(&key).unwrap_or_default() {
            self.shared.listeners.remove(node, kind, &name);
        }
        self.subscriptions.connections.retain(|_, known| *known != key);
        self.subscriptions.is_any_wanted = true;
        for progress in self.subscriptions.topics.values_mut() {
            if matches!(progress, Progress::Asked(on) | Progress::Live(on) if *on == key) {
                *progress = Progress::Wanted;
            }
        }
    }

    /// Shard channels follow their slots.
    pub(super) fn layout_changed(&mut self) {
        let moved: Vec<Topic> = self
            .subscriptions
            .topics
            .iter()
            .filter_map(|(topic, progress)| {
                let (Progress::Asked(on) | Progress::Live(on)) = progress else {
                    return None;
                };
                let node = self.backends.get(*on).map(|backend| backend.node);
                let is_home = match topic.0 {
                    Kind::ShardChannel => node == self.nodes.owner(slot_of_tag(tag_of(&topic.1))),
                    Kind::Channel | Kind::Pattern => {
                        node.is_some_and(|node| self.nodes.primaries.contains(&node))
                    }
                };
                (!is_home).then(|| topic.clone())
            })
            .collect();
        for topic in moved {
            self.subscriptions.topics.insert(topic, Progress::Wanted);
            self.subscriptions.is_any_wanted = true;
        }
        self.ask_for_topics();
    }

    /// Asks again for what is missing, and gives up on what takes too long.
    pub(super) fn tick_subscriptions(&mut self) {
        if self.subscriptions.topics.is_empty() {
            return;
        }
        self.ask_for_topics();
        self.ping_silent();
        if self.subscriptions.waiting.is_empty() {
            return;
        }
        let now_us = self.now_us;
        let late: Vec<Key> = self
            .subscriptions
            .waiting
            .iter()
            .filter(|(_, (_, _, give_up_us))| *give_up_us < now_us)
            .map(|(client, _)| *client)
            .collect();
        for client in late {
            self.refuse_subscription(client, "CLUSTERDOWN no node takes subscriptions now");
        }
    }
}

impl Worker<'_> {
    /// Asks silent connections whether they are there: without messages nothing else would show it.
    fn ping_silent(&mut self) {
        let reply_us = self.shared.config.reply_limit.as_micros() as u64;
        let connections: Vec<Key> = self.subscriptions.connections.values().copied().collect();
        for key in connections {
            let Some(backend) = self.backends.get_mut(key) else {
                continue;
            };
            if backend.state != State::Ready || backend.heard_us + SILENCE_US > self.now_us {
                continue;
            }
            if backend.pinged_us <= backend.heard_us {
                backend.pinged_us = self.now_us;
                let mut bytes = Vec::new();
                encode_request(&[b"PING"], &mut bytes);
                backend.push_raw(&bytes);
                self.mark_backend(key);
            } else if backend.pinged_us + reply_us < self.now_us {
                self.lose(key, "no answer in time");
            }
        }
    }
}

fn word(frame: &Frame) -> &[u8] {
    match frame {
        Frame::Bulk(bytes) | Frame::Simple(bytes) => bytes,
        _ => b"",
    }
}
