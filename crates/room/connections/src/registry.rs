//! The connections of an engine, found by their number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::client::Client;

/// Every open connection. Nothing is taken under this lock.
#[derive(Default)]
pub struct ClientRegistry {
    by_id: RwLock<BTreeMap<u64, Arc<Client>>>,
    /// Connections accepted and, beyond the limit, refused since the start or CONFIG RESETSTAT.
    pub accepted: AtomicU64,
    pub rejected: AtomicU64,
}

impl ClientRegistry {
    /// Makes a new connection known; [`crate::executor::Core::disconnect`] makes it unknown again.
    pub fn add(&self, client: &Arc<Client>) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.by_id.write().insert(client.id, Arc::clone(client));
    }

    pub fn remove(&self, id: u64) {
        self.by_id.write().remove(&id);
    }

    /// Finds a connection.
    pub fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.by_id.read().get(&id).cloned()
    }

    /// Returns all connections, oldest first.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.by_id.read().values().cloned().collect()
    }

    /// Returns the number of connections.
    pub fn count(&self) -> usize {
        self.by_id.read().len()
    }
}
