//! The clients that are told of changes and messages.

use crate::clients::Clients;
use crate::pubsub::PubSub;
use crate::tracking::Tracking;

/// Every connection, what it listens to and what it caches.
#[derive(Default)]
pub struct Subscribers {
    pub clients: Clients,
    pub pubsub: PubSub,
    pub tracking: Tracking,
}
