//! Publishing, and who has heard it.
//!
//! A node tells a publisher how many connections got its message. Ours is one of them,
//! for all clients that listen here; so the workers note what they are subscribed to on
//! which node, and our own clients are counted in place of our connections. A
//! subscription counts as long as its node may count it: from when it was asked for to
//! the confirmation of its end.

use std::collections::HashMap;

use nagaya_commands::glob;
use nagaya_commands::pubsub::Kind;
use nagaya_tiering::tag::tag_of;
use parking_lot::Mutex;

use super::model::in_flight::{Delivery, Origin};
use super::model::layout::slot_of_tag;
use super::model::request::Request;
use super::model::session::Session;
use super::model::target::Target;
use super::pubsub::Topic;
use super::scatter::MergeRule;
use super::slab::Key;
use super::worker::Worker;

/// How many connections of ours listen on which node.
#[derive(Default)]
pub(crate) struct ListenerCounts {
    channels: Mutex<ChannelListeners>,
    patterns: Mutex<ChannelListeners>,
    shard_channels: Mutex<ChannelListeners>,
}

/// Names, each with the nodes where it is heard and by how many connections.
type ChannelListeners = HashMap<Vec<u8>, HashMap<String, usize>>;

impl ListenerCounts {
    fn of(&self, kind: Kind) -> &Mutex<ChannelListeners> {
        match kind {
            Kind::Channel => &self.channels,
            Kind::Pattern => &self.patterns,
            Kind::ShardChannel => &self.shard_channels,
        }
    }

    pub(crate) fn add(&self, node: &str, kind: Kind, name: &[u8]) {
        let mut listening = self.of(kind).lock();
        let nodes = listening.entry(name.to_vec()).or_default();
        *nodes.entry(node.to_owned()).or_default() += 1;
    }

    pub(crate) fn remove(&self, node: &str, kind: Kind, name: &[u8]) {
        let mut listening = self.of(kind).lock();
        let Some(nodes) = listening.get_mut(name) else {
            return;
        };
        if let Some(count) = nodes.get_mut(node) {
            *count -= 1;
            if *count == 0 {
                nodes.remove(node);
            }
        }
        if nodes.is_empty() {
            listening.remove(name);
        }
    }

    /// Returns how many of our connections a node counts among the receivers of a message.
    pub(crate) fn count(&self, node: &str, kind: Kind, channel: &[u8]) -> usize {
        let at_node = |nodes: &HashMap<String, usize>| nodes.get(node).copied().unwrap_or(0);
        let mut count = self.of(kind).lock().get(channel).map_or(0, at_node);
        if kind == Kind::Channel {
            let patterns = self.patterns.lock();
            let matching = patterns
                .iter()
                .filter(|(pattern, _)| glob::matches(pattern, channel));
            count += matching.map(|(_, nodes)| at_node(nodes)).sum::<usize>();
        }
        count
    }
}

impl Worker<'_> {
    /// Notes that a node may count one of our subscriptions from now on.
    pub(super) fn heard_on(&mut self, connection: Key, topic: &Topic) {
        let listening = self.subscriptions.listening.entry(connection).or_default();
        if listening.insert(topic.clone())
            && let Some(backend) = self.backends.get(connection)
        {
            let node = &self.nodes.list[backend.node].info.name;
            self.shared.listeners.add(node, topic.0, &topic.1);
        }
    }

    /// Notes that a node counts one of our subscriptions no longer.
    pub(super) fn heard_no_more(&mut self, connection: Key, topic: &Topic) {
        let listening = self.subscriptions.listening.get_mut(&connection);
        if listening.is_some_and(|listening| listening.remove(topic))
            && let Some(backend) = self.backends.get(connection)
        {
            let node = &self.nodes.list[backend.node].info.name;
            self.shared.listeners.remove(node, topic.0, &topic.1);
        }
    }

    /// Publishes a message and tells how many heard it: those of other clients of the node, and our own.
    pub(super) fn publish(&mut self, session: &mut Session, request: &Request<'_>) {
        let Some(node) = self.any_node() else {
            let delivery = self.client_delivery(session, request.client);
            return self.submit(request.bytes, delivery, &Target::default());
        };
        let delivery = self.receivers_delivery(session, request, Kind::Channel, node);
        self.send_to_node(node, request.bytes, delivery);
    }

    /// As [`Worker::publish`], by the slot of a shard channel.
    pub(super) fn publish_to_shard(&mut self, session: &mut Session, request: &Request<'_>) {
        let channel = request.args.get(1).unwrap_or_default();
        let slot = slot_of_tag(tag_of(channel));
        let delivery = match self.nodes.owner(slot) {
            Some(node) => self.receivers_delivery(session, request, Kind::ShardChannel, node),
            None => self.client_delivery(session, request.client),
        };
        let target = Target {
            slot,
            ..Target::default()
        };
        self.submit(request.bytes, delivery, &target);
    }

    fn receivers_delivery(
        &mut self,
        session: &mut Session,
        request: &Request<'_>,
        kind: Kind,
        node: usize,
    ) -> Delivery {
        let channel = request.args.get(1).unwrap_or_default();
        let clients = self.shared.server.receivers(kind, channel);
        let node = &self.nodes.list[node].info.name;
        let ours = self.shared.listeners.count(node, kind, channel);
        let delivery = self.client_delivery(session, request.client);
        let gather = self.begin_gather(delivery, MergeRule::Receivers { clients, ours }, 1);
        let origin = Origin::Part { gather, part: 0 };
        Delivery { origin, ..delivery }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_channels_and_patterns_and_shard_channels_apart() {
        let listeners = ListenerCounts::default();
        listeners.add("a", Kind::Channel, b"news");
        listeners.add("a", Kind::Channel, b"news");
        listeners.add("b", Kind::Channel, b"news");
        listeners.add("a", Kind::Pattern, b"n*");
        listeners.add("a", Kind::ShardChannel, b"news");
        assert_eq!(listeners.count("a", Kind::Channel, b"news"), 3);
        assert_eq!(listeners.count("b", Kind::Channel, b"news"), 1);
        assert_eq!(listeners.count("a", Kind::Channel, b"night"), 1);
        assert_eq!(listeners.count("a", Kind::ShardChannel, b"news"), 1);
        listeners.remove("a", Kind::Channel, b"news");
        listeners.remove("a", Kind::Pattern, b"n*");
        listeners.remove("a", Kind::Pattern, b"n*");
        assert_eq!(listeners.count("a", Kind::Channel, b"news"), 1);
    }
}
