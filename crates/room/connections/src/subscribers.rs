//! The clients that are told of changes and messages.

use crate::pubsub::PubSub;
use crate::registry::ClientRegistry;
use crate::tracking::Tracking;

/// Every connection, what it listens to and what it caches.
#[derive(Default)]
pub struct Subscribers {
    pub clients: ClientRegistry,
    pub pubsub: PubSub,
    pub tracking: Tracking,
}
