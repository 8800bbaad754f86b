//! How many channels and patterns a connection listens to.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::pubsub::registry::Kind;

/// How many subscriptions a connection has, for any thread to read.
#[derive(Default)]
pub struct SharedCounts([AtomicU32; 3]);

/// How many subscriptions a connection has, as CLIENT LIST shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionCounts {
    pub channels: u32,
    pub patterns: u32,
    pub shard_channels: u32,
}

impl SubscriptionCounts {
    /// Tells whether there is none at all.
    pub fn is_empty(&self) -> bool {
        self.channels + self.patterns + self.shard_channels == 0
    }
}

impl SharedCounts {
    pub fn get(&self) -> SubscriptionCounts {
        let [channels, patterns, shard_channels] = Kind::ALL.map(|kind| self.of(kind));
        SubscriptionCounts {
            channels,
            patterns,
            shard_channels,
        }
    }

    pub fn of(&self, kind: Kind) -> u32 {
        self.0[kind as usize].load(Ordering::Relaxed)
    }

    pub fn set(&self, kind: Kind, count: usize) {
        self.0[kind as usize].store(count as u32, Ordering::Relaxed);
    }
}
