//! The channels and patterns that a connection listens to.

use std::collections::HashMap;
use std::sync::Arc;

/// The channels and patterns of a connection that listens to at least one.
#[derive(Default)]
pub struct Subscriptions {
    /// Per [`Kind`](nagaya_connections::pubsub::Kind), each name with the place it takes in the order of subscribing.
    pub(crate) names: [HashMap<Arc<[u8]>, u64, ahash::RandomState>; 3],
    pub(crate) next: u64,
}
