//! Consumer groups: which consumer was given which entries and has not acknowledged them.
//!
//! A pending entry is listed twice: in the group, with its owner and delivery
//! facts, and in the owner's own set of ids. Both always agree.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::sync::Arc;

use super::StreamId;

/// Value of [`Group::entries_read`] when the count cannot be told.
pub const ENTRIES_READ_UNKNOWN: i64 = -1;

/// A consumer group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Last entry handed out as new.
    pub last_id: StreamId,
    /// How many entries of the stream the group has read, all time.
    pub entries_read: i64,
    pending: BTreeMap<StreamId, Pending>,
    names: BTreeMap<Arc<[u8]>, ConsumerId>,
    /// Consumers by id; a removed one leaves a hole for the next.
    consumers: Vec<Option<Consumer>>,
}

/// Names a consumer inside its group. Only valid until the consumer is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConsumerId(u32);

/// A reader of a group.
#[derive(Clone, Debug)]
pub struct Consumer {
    name: Arc<[u8]>,
    /// When it last asked for something, in Unix milliseconds.
    pub seen_ms: i64,
    pending: BTreeSet<StreamId>,
}

/// A delivery that waits for its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Time of the last delivery, in Unix milliseconds.
    pub delivered_ms: i64,
    pub deliveries: u64,
    owner: ConsumerId,
}

impl Pending {
    /// Returns a first delivery.
    pub fn new(owner: ConsumerId, delivered_ms: i64) -> Pending {
        Pending {
            delivered_ms,
            deliveries: 1,
            owner,
        }
    }

    pub fn owner(&self) -> ConsumerId {
        self.owner
    }
}

impl Group {
    pub(super) fn new(last_id: StreamId, entries_read: i64) -> Group {
        Group {
            last_id,
            entries_read,
            pending: BTreeMap::new(),
            names: BTreeMap::new(),
            consumers: Vec::new(),
        }
    }

    /// Returns the consumers in the order of their names.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = (ConsumerId, &Consumer)> {
        self.names.values().map(|&id| (id, self.consumer(id)))
    }

    /// Looks a consumer up by name.
    pub fn find_consumer(&self, name: &[u8]) -> Option<ConsumerId> {
        self.names.get(name).copied()
    }

    /// Makes a consumer, or returns `None` when the name is taken.
    pub fn create_consumer(&mut self, name: &[u8], now_ms: i64) -> Option<ConsumerId> {
        if self.names.contains_key(name) {
            return None;
        }
        let name: Arc<[u8]> = name.into();
        let consumer = Consumer {
            name: Arc::clone(&name),
            seen_ms: now_ms,
            pending: BTreeSet::new(),
        };
        let hole = self.consumers.iter().position(Option::is_none);
        let index = hole.unwrap_or(self.consumers.len());
        match hole {
            Some(index) => self.consumers[index] = Some(consumer),
            None => self.consumers.push(Some(consumer)),
        }
        let id = ConsumerId(u32::try_from(index).expect("a group has fewer than 2^32 consumers"));
        self.names.insert(name, id);
        Some(id)
    }

    /// Removes a consumer with its pending entries and returns how many those were.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let ConsumerId(index) = self.names.remove(name)?;
        let consumer = self.consumers[index as usize].take().expect(KNOWN);
        for id in &consumer.pending {
            self.pending.remove(id);
        }
        while self.consumers.last().is_some_and(Option::is_none) {
            self.consumers.pop();
        }
        Some(consumer.pending.len())
    }

    pub fn consumer(&self, ConsumerId(index): ConsumerId) -> &Consumer {
        self.consumers[index as usize].as_ref().expect(KNOWN)
    }

    pub fn consumer_mut(&mut self, ConsumerId(index): ConsumerId) -> &mut Consumer {
        self.consumers[index as usize].as_mut().expect(KNOWN)
    }

    /// Returns the number of entries that wait for their acknowledgement.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Returns one pending entry.
    pub fn pending(&self, id: StreamId) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// Lets the caller change delivery time and count of a pending entry.
    pub fn pending_mut(&mut self, id: StreamId) -> Option<&mut Pending> {
        self.pending.get_mut(&id)
    }

    /// Returns pending entries of all consumers by id.
    pub fn pending_range(
        &self,
        ids: impl RangeBounds<StreamId>,
    ) -> impl DoubleEndedIterator<Item = (StreamId, &Pending)> {
        self.pending.range(ids).map(|(&id, pending)| (id, pending))
    }

    /// Lists an entry as pending, even if another consumer had it before.
    pub fn set_pending(&mut self, id: StreamId, pending: Pending) {
        if let Some(before) = self.pending.insert(id, pending)
            && before.owner != pending.owner
        {
            self.consumer_mut(before.owner).pending.remove(&id);
        }
        self.consumer_mut(pending.owner).pending.insert(id);
    }

    /// Takes an entry off the lists. Returns whether it was pending.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(&id) else {
            return false;
        };
        self.consumer_mut(pending.owner).pending.remove(&id);
        true
    }

    pub(super) fn mem_bytes(&self) -> usize {
        let consumers = self.consumers.iter().flatten();
        // A tree of the standard library keeps its blocks at least half full.
        let ids: usize = consumers
            .map(|consumer| consumer.name.len() + consumer.pending.len() * 28)
            .sum();
        let pending = self.pending.len() * (size_of::<(StreamId, Pending)>() * 3 / 2);
        size_of::<Group>() + self.consumers.capacity() * size_of::<Option<Consumer>>() + ids + pending
    }

    pub(super) fn free_effort(&self) -> usize {
        self.consumers.len() + self.pending.len() / 4
    }
}

const KNOWN: &str = "a consumer id is used only while the consumer exists";

impl Consumer {
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the number of its entries that wait for their acknowledgement.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Returns the ids of its pending entries.
    pub fn pending_range(
        &self,
        ids: impl RangeBounds<StreamId>,
    ) -> impl DoubleEndedIterator<Item = StreamId> {
        self.pending.range(ids).copied()
    }

    pub fn has_pending(&self, id: StreamId) -> bool {
        self.pending.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_a_consumer_drops_its_pending_entries_only() {
        let mut group = Group::new(StreamId::MIN, 0);
        let one = group.create_consumer(b"one", 1).unwrap();
        let two = group.create_consumer(b"two", 1).unwrap();
        assert!(group.create_consumer(b"two", 1).is_none());
        for ms in 0..10 {
            let owner = if ms % 2 == 0 { one } else { two };
            group.set_pending(StreamId::new(ms, 0), Pending::new(owner, 5));
        }
        assert_eq!(group.remove_consumer(b"one"), Some(5));
        assert_eq!(group.pending_len(), 5);
        assert!(
            group
                .pending_range(..)
                .all(|(id, pending)| id.ms % 2 == 1 && pending.owner() == two)
        );
        let reused = group.create_consumer(b"a", 2).unwrap();
        assert_eq!(reused, one);
        let names: Vec<_> = group.consumers().map(|(_, consumer)| consumer.name()).collect();
        assert_eq!(names, [b"a".as_slice(), b"two"]);
    }

    #[test]
    fn a_pending_entry_changes_hands() {
        let mut group = Group::new(StreamId::MIN, 0);
        let one = group.create_consumer(b"one", 1).unwrap();
        let two = group.create_consumer(b"two", 1).unwrap();
        let id = StreamId::new(3, 1);
        group.set_pending(id, Pending::new(one, 5));
        group.set_pending(id, Pending::new(two, 6));
        assert!(!group.consumer(one).has_pending(id));
        assert!(group.consumer(two).has_pending(id));
        assert!(group.acknowledge(id));
        assert!(!group.acknowledge(id));
        assert_eq!(group.consumer(two).pending_len(), 0);
    }
}
