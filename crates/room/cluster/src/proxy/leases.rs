//! The tiering protocol's part on the way of a command.
//!
//! A tag may be used while this worker holds a lease on it: until L minus a margin
//! after it *sent* the touch that was granted. Under a lease a read costs nothing and
//! a write costs one registration per key. A tag without a lease is touched; its
//! commands wait in order, also while somebody loads it.
//!
//! Leases belong to a node and to the connections this worker has with it: when one is
//! lost, when the slot goes elsewhere or when the node starts another life, they are
//! over. The node's run is read again behind each batch of touches, on the same
//! connection, and the grants count only if it is the one that was passed.

use std::collections::{BTreeSet, VecDeque};

use super::config::Tiering;
use super::model::Map;
use super::model::in_flight::{Delivery, InFlight, Origin, Pending, QueuedRequest};
use super::model::target::Target;
use super::node_connection::Purpose;
use super::slab::{Key, Slab};
use super::touch::Batch;
use super::worker::Worker;
use crate::hot_tier::scripts::{self, Form};

/// The leases of a worker.
pub(crate) struct Leases {
    pub(super) lease_us: u64,
    pub(super) margin_us: u64,
    pub(super) allowance_us: u64,
    pub(super) by_name: Map<Box<[u8]>, Key>,
    pub(super) tags: Slab<Box<Tag>>,
    /// Tags to be touched at the end of the turn.
    pub(super) wanted: Vec<Key>,
    pub(super) batches: Slab<Batch>,
    /// When to look at a tag again: to renew its lease, to touch it again, to forget it.
    pub(super) due: BTreeSet<(u64, Key)>,
    pub(super) unregistered: Map<Key, Unregistered>,
    pub(super) parked: Slab<Parked>,
}

/// What is known of a tag that was used lately.
pub(crate) struct Tag {
    pub(super) name: Box<[u8]>,
    pub(super) slot: u16,
    /// Where the lease is, and in which epoch of its connections.
    pub(super) node: usize,
    pub(super) epoch: u64,
    pub(super) lease_end_us: u64,
    pub(super) state: TagState,
    /// Keys that were registered under this lease, with the connections that saw it: 1 RESP2, 2 RESP3.
    pub(super) registered: Map<Box<[u8]>, u8>,
    pub(super) waiting: VecDeque<Pending>,
    pub(super) is_read: bool,
    pub(super) is_written: bool,
    /// Since when commands wait, to tell them in the end.
    pub(super) waiting_since_us: u64,
    /// Its entry in `due`; 0 without one.
    pub(super) due_us: u64,
}

/// What is being done for a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagState {
    Nothing,
    /// A touch is wanted or on its way.
    Touching,
    Loading,
    /// A touch follows at a time that `due` knows.
    Later,
}

/// A registration failed, so writes behind it may have run without.
pub(super) struct Unregistered {
    pub(super) connection: Key,
    /// How many requests of the connection must be over.
    pub(super) until: u64,
}

/// A reply that is told once its write is registered after all.
pub(super) struct Parked {
    pub(super) delivery: Delivery,
    pub(super) reply: Vec<u8>,
    pub(super) lease_end_us: u64,
}

/// A right to send now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    tag: Option<Key>,
    pub(super) end_us: u64,
    writes: bool,
}

impl Lease {
    /// Notes on a flight under which lease it goes.
    pub(super) fn on(self, in_flight: InFlight) -> InFlight {
        InFlight {
            tag: self.tag,
            lease_end_us: self.end_us,
            writes: self.writes,
            ..in_flight
        }
    }
}

impl Leases {
    pub(crate) fn new(tiering: &Tiering) -> Leases {
        Leases {
            lease_us: tiering.lease.as_micros() as u64,
            margin_us: tiering.margin.as_micros() as u64,
            allowance_us: tiering.allowance.as_micros() as u64,
            by_name: Map::default(),
            tags: Slab::default(),
            wanted: Vec::new(),
            batches: Slab::default(),
            due: BTreeSet::new(),
            unregistered: Map::default(),
            parked: Slab::default(),
        }
    }

    /// When a tag is to be looked at next.
    pub(super) fn next_due_us(&self) -> u64 {
        self.due.first().map_or(u64::MAX, |(due_us, _)| *due_us)
    }

    /// How long before its end a lease in use is renewed.
    pub(super) fn renew_ahead_us(&self) -> u64 {
        (self.lease_us - self.margin_us) / 4
    }

    fn tag(&mut self, name: &[u8], slot: u16) -> Key {
        if let Some(key) = self.by_name.get(name) {
            return *key;
        }
        let key = self.tags.insert(Box::new(Tag {
            name: name.into(),
            slot,
            node: usize::MAX,
            epoch: 0,
            lease_end_us: 0,
            state: TagState::Nothing,
            registered: Map::default(),
            waiting: VecDeque::new(),
            is_read: false,
            is_written: false,
            waiting_since_us: 0,
            due_us: 0,
        }));
        self.by_name.insert(name.into(), key);
        key
    }

    /// Has a tag looked at then, and not at the time that was set before.
    pub(super) fn look_at(&mut self, key: Key, due_us: u64) {
        if let Some(tag) = self.tags.get_mut(key) {
            self.due.remove(&(tag.due_us, key));
            tag.due_us = due_us;
            self.due.insert((due_us, key));
        }
    }

    pub(super) fn name_of(&self, tag: Key) -> Option<&[u8]> {
        self.tags.get(tag).map(|tag| &*tag.name)
    }

    /// Ends a lease before its time.
    pub(super) fn drop_lease(&mut self, tag: Key) {
        if let Some(tag) = self.tags.get_mut(tag) {
            tag.lease_end_us = 0;
            tag.registered.clear();
        }
    }
}

impl Worker<'_> {
    /// Sends a request under the lease of its tag, or lets it wait for one.
    #[inline]
    pub(super) fn submit_leased(&mut self, bytes: &[u8], delivery: Delivery, target: &Target<'_>) {
        let node = self.nodes.owner(target.slot);
        let Some(connection) = node.and_then(|node| self.shared_connection(node, delivery.resp3)) else {
            return self.wait_for_node(bytes, delivery, target.slot);
        };
        let pending = || {
            let bytes = bytes.to_vec();
            Pending::Request(QueuedRequest { bytes, delivery })
        };
        if let Some(lease) = self.lease_for(target, connection, pending) {
            let in_flight = lease.on(self.in_flight(delivery, target.slot));
            self.send_on(connection, bytes, in_flight);
        }
    }

    /// Returns the lease under which a request may be sent on a connection now, its registrations ahead of
    /// it; without one, what `held` makes waits.
    pub(super) fn lease_for(
        &mut self,
        target: &Target<'_>,
        connection: Key,
        pending: impl FnOnce() -> Pending,
    ) -> Option<Lease> {
        let writes = !target.writes.as_slice().is_empty();
        let free = Lease {
            tag: None,
            end_us: super::model::in_flight::FOR_EVER,
            writes,
        };
        let (Some(leases), Some(name)) = (&mut self.leases, target.tag) else {
            return Some(free);
        };
        let key = leases.tag(name, target.slot);
        let owner = self.nodes.owner(target.slot);
        let tag = leases.tags.get_mut(key)?;
        let is_valid = tag.lease_end_us > self.now_us
            && owner == Some(tag.node)
            && self.nodes.list[tag.node].epoch == tag.epoch;
        if !is_valid || !tag.waiting.is_empty() {
            tag.waiting_since_us = if tag.waiting.is_empty() {
                self.now_us
            } else {
                tag.waiting_since_us
            };
            tag.waiting.push_back(pending());
            self.shared.metrics.waits.add(1);
            self.want_touch(key);
            return None;
        }
        tag.is_read |= !writes;
        tag.is_written |= writes;
        let lease = Lease {
            tag: Some(key),
            end_us: tag.lease_end_us,
            writes,
        };
        if writes {
            self.register(key, connection, target);
        }
        Some(lease)
    }

    /// Tells whether a tag's lease ends sooner than this; not, when there is none.
    pub(super) fn has_little_left(&self, name: &[u8], least_us: u64) -> bool {
        let Some(leases) = &self.leases else {
            return false;
        };
        let tag = leases.by_name.get(name).and_then(|key| leases.tags.get(*key));
        tag.is_some_and(|tag| tag.lease_end_us > self.now_us && tag.lease_end_us < self.now_us + least_us)
    }

    /// Lets something wait for the lease behind the one that is about to end.
    pub(super) fn wait_for_next_lease(&mut self, target: &Target<'_>, pending: Pending) {
        let (Some(leases), Some(name)) = (&mut self.leases, target.tag) else {
            return;
        };
        let key = leases.tag(name, target.slot);
        if let Some(tag) = leases.tags.get_mut(key) {
            tag.waiting_since_us = self.now_us;
            tag.waiting.push_back(pending);
        }
        self.want_touch(key);
    }

    /// Announces the writes of a request on the connection that it goes on, unless that was done.
    fn register(&mut self, key: Key, connection: Key, target: &Target<'_>) {
        let seen_by = match self.backends.get(connection).map(|backend| backend.purpose) {
            Some(Purpose::Shared { resp3 }) => 1 << u8::from(resp3),
            // A connection of a client's own saw none of the others' registrations.
            _ => 0,
        };
        let Some(tag) = self.leases.as_mut().and_then(|leases| leases.tags.get_mut(key)) else {
            return;
        };
        let names = target.writes.as_slice();
        let is_known =
            |name: &&[u8]| seen_by != 0 && tag.registered.get(*name).is_some_and(|by| by & seen_by != 0);
        let new: Vec<&[u8]> = names.iter().copied().filter(|name| !is_known(name)).collect();
        if new.is_empty() {
            return;
        }
        for name in &new {
            match tag.registered.get_mut(*name) {
                Some(by) => *by |= seen_by,
                None => drop(tag.registered.insert((*name).into(), seen_by)),
            }
        }
        let lease_end_us = tag.lease_end_us;
        let call = scripts::register(&tag.name, self.shared.tokens.draw(), new);
        let mut bytes = Vec::new();
        call.encode(Form::Hash, &mut bytes);
        self.shared.metrics.registrations.add(1);
        let delivery = self.delivery(Origin::Register { tag: key }, false);
        let in_flight = InFlight {
            lease_end_us,
            ..self.in_flight(delivery, target.slot)
        };
        self.send_on(connection, &bytes, in_flight);
    }

    /// Takes requests back that were admitted under a lease which ended before they were written.
    pub(super) fn call_back_stale(&mut self, key: Key, now_us: u64) {
        let Some(backend) = self.backends.get_mut(key) else {
            return;
        };
        if !backend.has_stale_unwritten(now_us) {
            return;
        }
        let unwritten = backend.take_unwritten();
        let is_cut = |in_flight: &InFlight| match in_flight.delivery.origin {
            Origin::Transaction { .. } => {
                backend.in_flight.back().map(|last| last.delivery.origin) == Some(in_flight.delivery.origin)
            }
            _ => false,
        };
        let cuts_transaction = unwritten.first().is_some_and(|(in_flight, _)| is_cut(in_flight));
        let transactions = self.call_back_transactions(&unwritten);
        for (in_flight, bytes) in unwritten {
            match in_flight.delivery.origin {
                Origin::Transaction { transaction } if transactions.contains(&transaction) => {}
                Origin::Client { .. } | Origin::Part { .. } => {
                    self.delay(bytes, in_flight.delivery, in_flight.slot)
                }
                origin => self.fail(
                    origin,
                    "TRYAGAIN the lease ended before the command could be sent",
                ),
            }
        }
        if cuts_transaction {
            // Half of a transaction was written: it must not be completed by others' commands.
            self.lose(key, "a lease ended in the middle of a transaction");
        }
    }

    pub(super) fn allowance_us(&self) -> u64 {
        self.leases.as_ref().map_or(0, |leases| leases.allowance_us)
    }
}
