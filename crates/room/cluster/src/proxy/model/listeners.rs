//! The channels that our workers are subscribed to, by node.
//!
//! A subscription counts as long as its node may count it: from when it was asked for to
//! the confirmation of its end.

use std::collections::HashMap;

use nagaya_command_spec::glob;
use nagaya_connections::pubsub::Kind;
use parking_lot::Mutex;

/// How many of our connections are subscribed to a channel on a node.
#[derive(Default)]
pub(crate) struct ListenerCounts {
    channels: Mutex<ChannelListeners>,
    patterns: Mutex<ChannelListeners>,
    shard_channels: Mutex<ChannelListeners>,
}

/// Names, each with the nodes where it is subscribed to, and by how many connections.
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
