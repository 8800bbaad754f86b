//! Who listens to which channel.
//!
//! Channels are spread over stripes, so that publishers of different channels
//! do not meet; patterns are few and shared by readers. Messages of one channel
//! reach all its listeners in one order. A message is encoded once per
//! protocol, a pattern is matched once, however many listen.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nagaya_resp::{Out, Proto};
use nagaya_store::hasher::hash_bytes;
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::client::{Client, Message};

/// Parts of a channel table that are locked on their own.
const STRIPES: usize = 32;

/// What a client can subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Channel,
    Pattern,
    /// A channel of SSUBSCRIBE; patterns do not see its messages.
    ShardChannel,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::ShardChannel];
}

/// A message from another server, which says itself by which kind of subscription it was sent: a channel
/// and a pattern that matches it get one each.
#[derive(Clone, Copy, Debug)]
pub enum Relayed<'a> {
    Channel {
        channel: &'a [u8],
        payload: &'a [u8],
    },
    Pattern {
        pattern: &'a [u8],
        channel: &'a [u8],
        payload: &'a [u8],
    },
    Shard {
        channel: &'a [u8],
        payload: &'a [u8],
    },
}

/// The listeners of one channel or pattern, by the number of their connection.
pub type Listeners = HashMap<u64, Arc<Client>, ahash::RandomState>;

type Topics = HashMap<Arc<[u8]>, Listeners, ahash::RandomState>;

/// Channels and patterns with their listeners. No other lock but a mailbox's is taken under these.
#[derive(Default)]
pub struct PubSub {
    channels: Striped,
    shard_channels: Striped,
    patterns: RwLock<Topics>,
    /// How many patterns there are, so that a publisher need not ask when there are none.
    pattern_count: AtomicUsize,
}

#[derive(Default)]
struct Striped([Mutex<Topics>; STRIPES]);

impl Striped {
    fn lock(&self, name: &[u8]) -> MutexGuard<'_, Topics> {
        self.0[hash_bytes(name) as usize % STRIPES].lock()
    }
}

impl PubSub {
    /// Sends a message to everybody who listens; returns how many got it.
    pub fn publish(&self, channel: &[u8], payload: &[u8]) -> usize {
        let listeners = self.channels.lock(channel);
        let mut receivers = listeners
            .get(channel)
            .map_or(0, |listeners| send(listeners, &[b"message", channel, payload]));
        drop(listeners);
        if self.pattern_count.load(Ordering::Relaxed) > 0 {
            for (pattern, listeners) in self.patterns.read().iter() {
                if nagaya_command_spec::glob::matches(pattern, channel) {
                    receivers += send(listeners, &[b"pmessage", pattern, channel, payload]);
                }
            }
        }
        receivers
    }

    /// Sends a message to those who listen to a shard channel; returns how many got it.
    pub fn publish_to_shard(&self, channel: &[u8], payload: &[u8]) -> usize {
        let listeners = self.shard_channels.lock(channel);
        listeners
            .get(channel)
            .map_or(0, |listeners| send(listeners, &[b"smessage", channel, payload]))
    }

    /// Sends a message that was published elsewhere to those connections whom it concerns and `is_meant`
    /// names; returns how many.
    pub fn relay(&self, message: &Relayed<'_>, is_meant: impl Fn(u64) -> bool) -> usize {
        let pick = |listeners: Option<&Listeners>| {
            let meant = listeners.into_iter().flatten().filter(|(id, _)| is_meant(**id));
            let meant = meant.map(|(id, client)| (*id, Arc::clone(client)));
            meant.collect::<Listeners>()
        };
        match *message {
            Relayed::Channel { channel, payload } => {
                let listeners = pick(self.channels.lock(channel).get(channel));
                send(&listeners, &[b"message", channel, payload])
            }
            Relayed::Pattern {
                pattern,
                channel,
                payload,
            } => {
                let listeners = pick(self.patterns.read().get(pattern));
                send(&listeners, &[b"pmessage", pattern, channel, payload])
            }
            Relayed::Shard { channel, payload } => {
                let listeners = pick(self.shard_channels.lock(channel).get(channel));
                send(&listeners, &[b"smessage", channel, payload])
            }
        }
    }

    /// Adds a listener; returns the name to keep for it.
    pub fn add(&self, kind: Kind, name: &[u8], client: &Arc<Client>) -> Arc<[u8]> {
        self.with_topics(kind, name, |topics| {
            let name = match topics.get_key_value(name) {
                Some((known, _)) => Arc::clone(known),
                None => name.into(),
            };
            let listeners = topics.entry(Arc::clone(&name)).or_default();
            listeners.insert(client.id, Arc::clone(client));
            name
        })
    }

    /// Takes a listener away, and with the last one the channel or pattern.
    pub fn remove(&self, kind: Kind, name: &[u8], client: u64) {
        self.with_topics(kind, name, |topics| {
            if let Some(listeners) = topics.get_mut(name) {
                listeners.remove(&client);
                if listeners.is_empty() {
                    topics.remove(name);
                }
            }
        });
    }

    /// Returns how many listen to a channel or pattern.
    pub fn listeners(&self, kind: Kind, name: &[u8]) -> usize {
        self.with_topics(kind, name, |topics| topics.get(name).map_or(0, HashMap::len))
    }

    /// Tells whether any of the connections that `is_meant` names listens to a channel or pattern.
    pub fn is_heard(&self, kind: Kind, name: &[u8], is_meant: impl Fn(u64) -> bool) -> bool {
        self.with_topics(kind, name, |topics| {
            let listeners = topics.get(name).into_iter().flatten();
            listeners.into_iter().any(|(id, _)| is_meant(*id))
        })
    }

    /// Returns how many would get a message to a channel.
    pub fn receivers(&self, channel: &[u8]) -> usize {
        let mut receivers = self.listeners(Kind::Channel, channel);
        if self.pattern_count.load(Ordering::Relaxed) > 0 {
            let patterns = self.patterns.read();
            let matching = patterns
                .iter()
                .filter(|(pattern, _)| nagaya_command_spec::glob::matches(pattern, channel));
            receivers += matching.map(|(_, listeners)| listeners.len()).sum::<usize>();
        }
        receivers
    }

    /// Returns how many patterns somebody listens to.
    pub fn patterns(&self) -> usize {
        self.patterns.read().len()
    }

    /// Visits every channel or pattern that somebody listens to.
    pub fn each(&self, kind: Kind, mut visit: impl FnMut(&[u8], &Listeners)) {
        let mut visit_all = |topics: &Topics| topics.iter().for_each(|(name, all)| visit(name, all));
        match kind {
            Kind::Pattern => visit_all(&self.patterns.read()),
            Kind::Channel => self
                .channels
                .0
                .iter()
                .for_each(|stripe| visit_all(&stripe.lock())),
            Kind::ShardChannel => {
                let stripes = self.shard_channels.0.iter();
                stripes.for_each(|stripe| visit_all(&stripe.lock()));
            }
        }
    }

    fn with_topics<R>(&self, kind: Kind, name: &[u8], work: impl FnOnce(&mut Topics) -> R) -> R {
        match kind {
            Kind::Channel => work(&mut self.channels.lock(name)),
            Kind::ShardChannel => work(&mut self.shard_channels.lock(name)),
            Kind::Pattern => {
                let mut patterns = self.patterns.write();
                let result = work(&mut patterns);
                self.pattern_count.store(patterns.len(), Ordering::Relaxed);
                result
            }
        }
    }
}

/// Sends one push to many; it is encoded once per protocol, not per listener.
fn send(listeners: &Listeners, parts: &[&[u8]]) -> usize {
    let mut encoded: [Option<Arc<[u8]>>; 2] = [None, None];
    for client in listeners.values() {
        let proto = client.proto();
        let slot = &mut encoded[usize::from(proto == Proto::Resp3)];
        let bytes = slot.get_or_insert_with(|| {
            let mut out = Out::new(proto);
            out.push(parts.len());
            parts.iter().for_each(|part| out.bulk(part));
            out.buf.into()
        });
        client.deliver(Message::Push(Arc::clone(bytes)));
    }
    listeners.len()
}
