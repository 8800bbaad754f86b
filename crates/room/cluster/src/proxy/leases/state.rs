//! The tags that were used lately, their leases and the commands that wait for one.

use std::collections::{BTreeSet, VecDeque};

use nagaya_reactor::{Key, Slab};
use nagaya_tiering::tag::tag_of;

use super::touch::Batch;
use super::unregistered::{Parked, Unregistered};
use crate::hot_tier::scripts::{self, Form};
use crate::proxy::config::Tiering;
use crate::proxy::env::Env;
use crate::proxy::model::Map;
use crate::proxy::model::in_flight::{InFlight, NO_LEASE, Origin, Pending};
use crate::proxy::model::layout::slot_of_tag;
use crate::proxy::model::target::Target;
use crate::proxy::upstream::{Purpose, Upstream};

/// The leases of a worker.
pub(crate) struct Leases {
    pub(super) lease_us: u64,
    pub(super) margin_us: u64,
    pub(super) allowance_us: u64,
    pub(super) load_wait_us: u64,
    /// A load has succeeded since the last look at the time.
    pub(super) has_loaded: bool,
    /// When a load was last seen to have succeeded.
    pub(super) loaded_us: u64,
    pub(super) by_name: Map<Box<[u8]>, Key>,
    pub(super) tags: Slab<Box<Tag>>,
    /// Tags to be touched at the end of the turn.
    pub(super) wanted: Vec<Key>,
    pub(super) batches: Slab<Batch>,
    /// When to look at a tag again: to renew its lease, to touch it again, to forget it.
    pub(super) due: BTreeSet<(u64, Key)>,
    pub(super) unregistered: Map<Key, Unregistered>,
    pub(super) parked: Slab<Parked>,
    /// Commands whose tag was granted; the worker sends them next.
    pub(super) granted: VecDeque<Pending>,
    /// Commands whose tag cannot be used, with the error for their clients.
    pub(super) failed: Vec<(Pending, String)>,
}

/// What is known of a tag that was used lately.
pub(super) struct Tag {
    pub(super) name: Box<[u8]>,
    pub(super) slot: u16,
    /// The node that granted the lease, and the epoch of its connections.
    pub(super) node: usize,
    pub(super) epoch: u64,
    pub(super) lease_end_us: u64,
    pub(super) state: TagState,
    /// Keys that were registered under this lease, with a bit for each shared connection that carried it.
    pub(super) registered: Map<Box<[u8]>, u8>,
    pub(super) waiting: VecDeque<Pending>,
    pub(super) is_read: bool,
    pub(super) is_written: bool,
    /// Since when commands wait; after a while they fail.
    pub(super) waiting_since_us: u64,
    /// Its entry in `due`; 0 without one.
    pub(super) due_us: u64,
}

/// What is being done for a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagState {
    Idle,
    /// A touch is wanted or under way.
    Touching,
    Loading,
    /// A touch follows at the time in `due`.
    TouchLater,
}

/// The right to send a request now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    tag: Option<Key>,
    pub(crate) end_us: u64,
    writes: bool,
}

impl Lease {
    /// Returns the lease of a request that needs none.
    pub(crate) fn unlimited(target: &Target<'_>) -> Lease {
        Lease {
            tag: None,
            end_us: NO_LEASE,
            writes: target.registers_itself || !target.writes.as_slice().is_empty(),
        }
    }

    /// Notes the lease on a request that is about to be sent.
    #[inline]
    pub(crate) fn on(self, in_flight: InFlight) -> InFlight {
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
            load_wait_us: tiering.load_wait.as_micros() as u64,
            has_loaded: false,
            loaded_us: 0,
            by_name: Map::default(),
            tags: Slab::default(),
            wanted: Vec::new(),
            batches: Slab::default(),
            due: BTreeSet::new(),
            unregistered: Map::default(),
            parked: Slab::default(),
            granted: VecDeque::new(),
            failed: Vec::new(),
        }
    }

    /// Returns the lease under which a request may be sent on a connection now, after sending its
    /// registrations. Without one, what `pending` makes waits for the tag.
    pub(crate) fn lease_for(
        &mut self,
        upstream: &mut Upstream,
        env: &Env<'_>,
        target: &Target<'_>,
        connection: Key,
        pending: impl FnOnce() -> Pending,
    ) -> Option<Lease> {
        let mut lease = Lease::unlimited(target);
        let Some(name) = target.tag else {
            return Some(lease);
        };
        if !target.others.is_empty() {
            return self.lease_for_all(upstream, env, target, connection, pending);
        }
        let key = self.tag(name, target.slot);
        if !self.is_free(upstream, env, key) {
            self.wait_for(env, key, pending());
            return None;
        }
        let tag = self.tags.get_mut(key)?;
        tag.is_read |= !lease.writes;
        tag.is_written |= lease.writes;
        lease.tag = Some(key);
        lease.end_us = tag.lease_end_us;
        if lease.writes {
            self.register(upstream, env, key, connection, target);
        }
        Some(lease)
    }

    /// As [`Leases::lease_for`], for a request with several tags of one node: it needs leases of all of them at
    /// the same time. All that are missing or about to end are asked for in one turn; the request waits for the
    /// first that is missing, and looks for the others when it has that one.
    fn lease_for_all(
        &mut self,
        upstream: &mut Upstream,
        env: &Env<'_>,
        target: &Target<'_>,
        connection: Key,
        pending: impl FnOnce() -> Pending,
    ) -> Option<Lease> {
        let keys: Vec<Key> = target.tags().map(|tag| self.tag(tag, slot_of_tag(tag))).collect();
        let missing = keys
            .iter()
            .find(|key| !self.is_free(upstream, env, **key))
            .copied();
        if let Some(missing) = missing {
            let least_us = env.now_us + self.renew_ahead_us();
            for key in &keys {
                if self.tags.get(*key).is_some_and(|tag| tag.lease_end_us < least_us) {
                    self.want_touch(*key);
                }
            }
            self.wait_for(env, missing, pending());
            return None;
        }
        let mut lease = Lease::unlimited(target);
        lease.tag = keys.first().copied();
        for key in &keys {
            let tag = self.tags.get_mut(*key)?;
            tag.is_read |= !lease.writes;
            tag.is_written |= lease.writes;
            lease.end_us = lease.end_us.min(tag.lease_end_us);
        }
        if lease.writes {
            self.register_all(upstream, env, &keys, connection, target);
        }
        Some(lease)
    }

    /// Returns whether this worker has a lease of a tag that nothing waits for.
    fn is_free(&self, upstream: &Upstream, env: &Env<'_>, key: Key) -> bool {
        self.tags.get(key).is_some_and(|tag| {
            tag.lease_end_us > env.now_us
                && upstream.nodes.owner(tag.slot) == Some(tag.node)
                && upstream.nodes.list[tag.node].epoch == tag.epoch
                && tag.waiting.is_empty()
        })
    }

    /// Returns whether a request with these tags can be sent at once.
    pub(crate) fn holds_all(&self, upstream: &Upstream, env: &Env<'_>, target: &Target<'_>) -> bool {
        target.tags().all(|tag| {
            let key = self.by_name.get(tag);
            key.is_some_and(|key| self.is_free(upstream, env, *key))
        })
    }

    /// Lets something wait for the lease of a tag, behind what waits for it already.
    fn wait_for(&mut self, env: &Env<'_>, key: Key, pending: Pending) {
        let Some(tag) = self.tags.get_mut(key) else {
            return;
        };
        let is_first = tag.waiting.is_empty();
        if is_first {
            tag.waiting_since_us = env.now_us;
        }
        tag.waiting.push_back(pending);
        env.shared.metrics.waits.add(1);
        if is_first && tag.state == TagState::Loading {
            self.look_at(key, env.now_us + self.load_wait_us);
        }
        self.want_touch(key);
    }

    /// Returns whether a lease that a request needs ends sooner than this.
    pub(crate) fn has_little_left(&self, env: &Env<'_>, target: &Target<'_>, least_us: u64) -> bool {
        target.tags().any(|name| {
            let tag = self.by_name.get(name).and_then(|key| self.tags.get(*key));
            tag.is_some_and(|tag| tag.lease_end_us > env.now_us && tag.lease_end_us < env.now_us + least_us)
        })
    }

    /// Lets something wait for the leases after those that are about to end.
    pub(crate) fn wait_for_next(&mut self, env: &Env<'_>, target: &Target<'_>, pending: Pending) {
        let keys: Vec<Key> = target.tags().map(|tag| self.tag(tag, slot_of_tag(tag))).collect();
        keys.iter().for_each(|key| self.want_touch(*key));
        let ends = |key: &&Key| self.tags.get(**key).map_or(0, |tag| tag.lease_end_us);
        let Some(&first) = keys.iter().min_by_key(ends) else {
            return;
        };
        if let Some(tag) = self.tags.get_mut(first) {
            tag.waiting_since_us = env.now_us;
            tag.waiting.push_back(pending);
        }
    }

    /// Returns the next command whose tag was granted. It must be sent before the next one is asked for.
    pub(crate) fn next_granted(&mut self) -> Option<Pending> {
        self.granted.pop_front()
    }

    /// Returns the commands that wait for tags which cannot be used, each with the text of its error.
    pub(crate) fn take_failed(&mut self) -> Vec<(Pending, String)> {
        std::mem::take(&mut self.failed)
    }

    /// Returns when a tag is to be looked at next.
    pub(crate) fn next_due_us(&self) -> u64 {
        self.due.first().map_or(u64::MAX, |(due_us, _)| *due_us)
    }

    /// Returns how long before its end a lease in use is renewed.
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
            state: TagState::Idle,
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

    /// Has a tag looked at then, instead of at the time that was set before.
    pub(super) fn look_at(&mut self, key: Key, due_us: u64) {
        if let Some(tag) = self.tags.get_mut(key) {
            self.due.remove(&(tag.due_us, key));
            tag.due_us = due_us;
            self.due.insert((due_us, key));
        }
    }

    /// Announces the writes of a request on its connection, unless that was done under this lease.
    fn register(
        &mut self,
        upstream: &mut Upstream,
        env: &Env<'_>,
        key: Key,
        connection: Key,
        target: &Target<'_>,
    ) {
        let carried_by = match upstream.purpose_of(connection) {
            Some(Purpose::Shared(lane)) => 1 << lane.number(),
            // A client's own connection carried no registration of others.
            _ => 0,
        };
        let Some(tag) = self.tags.get_mut(key) else {
            return;
        };
        let names = target.writes.as_slice();
        let is_known = |name: &&[u8]| {
            carried_by != 0 && tag.registered.get(*name).is_some_and(|by| by & carried_by != 0)
        };
        let new: Vec<&[u8]> = names.iter().copied().filter(|name| !is_known(name)).collect();
        if new.is_empty() {
            return;
        }
        for name in &new {
            match tag.registered.get_mut(*name) {
                Some(by) => *by |= carried_by,
                None => drop(tag.registered.insert((*name).into(), carried_by)),
            }
        }
        let call = scripts::register(&tag.name, env.shared.tokens.draw(), new);
        let mut bytes = Vec::new();
        call.encode(Form::Hash, &mut bytes);
        env.shared.metrics.registrations.add(1);
        let delivery = env.delivery(Origin::Register { tag: key }, false);
        let in_flight = InFlight {
            lease_end_us: tag.lease_end_us,
            ..env.in_flight(delivery, Some(target.slot))
        };
        upstream.send(env, connection, &bytes, in_flight);
    }

    /// Announces the writes of a request with several tags. The whole script is sent, so that a node has it in any
    /// case, and nothing is noted: a failure concerns the first tag, whose lease ends, and this request alone.
    fn register_all(
        &mut self,
        upstream: &mut Upstream,
        env: &Env<'_>,
        keys: &[Key],
        connection: Key,
        target: &Target<'_>,
    ) {
        let Some(first) = keys.first() else {
            return;
        };
        for key in keys {
            let Some(tag) = self.tags.get(*key) else {
                continue;
            };
            let writes = target.writes.as_slice().iter();
            let names: Vec<&[u8]> = writes
                .filter(|name| tag_of(name) == &*tag.name)
                .copied()
                .collect();
            if names.is_empty() {
                continue;
            }
            let call = scripts::register(&tag.name, env.shared.tokens.draw(), names);
            let mut bytes = Vec::new();
            call.encode(Form::Source, &mut bytes);
            env.shared.metrics.registrations.add(1);
            let delivery = env.delivery(Origin::Register { tag: *first }, false);
            let in_flight = InFlight {
                lease_end_us: tag.lease_end_us,
                ..env.in_flight(delivery, Some(tag.slot))
            };
            upstream.send(env, connection, &bytes, in_flight);
        }
    }
}
