//! The connections of an engine, found by their number.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::client::{Client, ClientFlag, Message};

/// Every open connection. Nothing is taken under this lock.
#[derive(Default)]
pub struct ClientRegistry {
    by_id: RwLock<BTreeMap<u64, Arc<Client>>>,
    /// Connections accepted and, beyond the limit, refused since the start or CONFIG RESETSTAT.
    pub accepted: AtomicU64,
    pub rejected: AtomicU64,
    /// Connections closed since then to save memory.
    pub evicted: AtomicU64,
    /// The memory that all connections take, as far as they have told.
    memory_bytes: AtomicUsize,
    /// One thread at a time chooses whom to close.
    choosing: Mutex<()>,
}

impl ClientRegistry {
    /// Makes a new connection known; [`crate::executor::Core::disconnect`] makes it unknown again.
    pub fn add(&self, client: &Arc<Client>) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.by_id.write().insert(client.id, Arc::clone(client));
    }

    pub fn remove(&self, id: u64) {
        let removed = self.by_id.write().remove(&id);
        if let Some(client) = removed {
            self.note_memory(&client, 0);
        }
    }

    /// Notes how much memory a connection takes.
    pub fn note_memory(&self, client: &Client, bytes: usize) {
        let before = client.memory_bytes.swap(bytes, Ordering::Relaxed);
        if before != bytes {
            // Modulo the word's size, so that it can go down.
            let change = bytes.wrapping_sub(before);
            self.memory_bytes.fetch_add(change, Ordering::Relaxed);
        }
    }

    /// Returns how much memory the connections take that have told it.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Closes connections, those that take the most first, until the others fit into `bytes_max`. Those that may
    /// not be closed count, too.
    pub fn evict(&self, bytes_max: usize) {
        if self.memory_bytes() <= bytes_max {
            return;
        }
        let Some(_alone) = self.choosing.try_lock() else {
            return;
        };
        let mut clients = self.all();
        clients.retain(|client| !client.has_flag(ClientFlag::EVICTED));
        let bytes = |client: &Arc<Client>| client.memory_bytes.load(Ordering::Relaxed);
        let mut total: usize = clients.iter().map(bytes).sum();
        clients.retain(|client| !client.has_flag(ClientFlag::NO_EVICT));
        clients.sort_by_cached_key(|client| Reverse(bytes(client)));
        for client in clients {
            if total <= bytes_max {
                return;
            }
            total = total.saturating_sub(bytes(&client));
            client.set_flag(ClientFlag::EVICTED, true);
            client.deliver(Message::Cut);
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Mailbox;

    #[derive(Default)]
    struct Told(Mutex<Vec<u64>>);

    impl Mailbox for Told {
        fn deliver(&self, client: u64, message: Message) {
            assert_eq!(message, Message::Cut);
            self.0.lock().push(client);
        }
    }

    fn clients(sizes: &[usize]) -> (ClientRegistry, Arc<Told>) {
        let (registry, told) = (ClientRegistry::default(), Arc::new(Told::default()));
        for (at, size) in sizes.iter().enumerate() {
            let client = Arc::new(Client::new(at as u64, told.clone(), "", ""));
            registry.add(&client);
            registry.note_memory(&client, *size);
        }
        (registry, told)
    }

    #[test]
    fn the_largest_connections_are_closed_and_no_more_than_needed() {
        let (registry, told) = clients(&[10, 500, 30, 400, 20]);
        registry.evict(960);
        assert_eq!(*told.0.lock(), [0u64; 0]);
        registry.evict(500);
        assert_eq!(*told.0.lock(), [1]);
        // It is on its way, and counts no more.
        registry.evict(500);
        assert_eq!(*told.0.lock(), [1]);
        registry.evict(40);
        assert_eq!(*told.0.lock(), [1, 3, 2]);
        assert_eq!(registry.evicted.load(Ordering::Relaxed), 3);
        registry.remove(1);
        assert_eq!(registry.memory_bytes(), 460);
    }

    #[test]
    fn a_connection_that_must_stay_counts_and_stays() {
        let (registry, told) = clients(&[500, 30]);
        registry.find(0).unwrap().set_flag(ClientFlag::NO_EVICT, true);
        registry.evict(510);
        assert_eq!(*told.0.lock(), [1]);
        registry.evict(100);
        assert_eq!(*told.0.lock(), [1]);
    }
}
