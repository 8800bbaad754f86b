//! Requests that have to wait, without letting others overtake them.
//!
//! When a slot goes to another node, its later requests wait until the former node has
//! answered the earlier ones: those that it refuses are sent to the new node first. A
//! request that was refused for now, or never written, is retried after a pause, and
//! later requests for its slot wait behind it.

use std::collections::{BTreeMap, VecDeque};

use nagaya_reactor::Key;

use super::{Upstream, UpstreamEvent};
use crate::proxy::env::Env;
use crate::proxy::model::Map;
use crate::proxy::model::in_flight::{Delivery, Pending, QueuedRequest};

/// How long to wait before a request is retried: short against a failover, long against a round trip.
const PAUSE_US: u64 = 20_000;

/// What waits for a slot.
#[derive(Default)]
struct SlotQueue {
    /// Connections, and how many of their requests must be over.
    until: Vec<(Key, u64)>,
    retry_at_us: u64,
    /// Requests that were sent before and came back. They go first.
    returned: VecDeque<Pending>,
    fresh: VecDeque<Pending>,
}

/// All that waits to be sent.
#[derive(Default)]
pub(super) struct Waiting {
    slots: Map<u16, SlotQueue>,
    /// What is sent at a time of its own; the second number keeps the order of equal times.
    delayed: BTreeMap<(u64, u64), Pending>,
    delayed_count: u64,
    /// What may be sent now. A request that was sent before carries its slot: it waits again if one before
    /// it comes back once more.
    released: VecDeque<(Option<u16>, Pending)>,
}

impl Upstream {
    /// Holds later requests for a slot back until its former node has answered all earlier ones.
    pub(super) fn hold_slot(&mut self, slot: u16, former: usize) {
        let shared = self.nodes.list[former].shared;
        let until: Vec<(Key, u64)> = shared
            .into_iter()
            .flatten()
            .filter_map(|key| Some((key, self.connections.get(key)?)))
            .filter(|(_, connection)| connection.answered < connection.queued)
            .map(|(key, connection)| (key, connection.queued))
            .collect();
        if !until.is_empty() {
            self.waiting.slots.entry(slot).or_default().until = until;
        }
    }

    /// Notes that a slot is at another node now.
    pub(crate) fn slot_moved(&mut self, slot: u16, former: usize, target: usize) {
        if self.nodes.owner(slot) != Some(target) {
            self.hold_slot(slot, former);
            self.nodes.set_owner(slot, target);
            self.events.push_back(UpstreamEvent::SlotsMoved);
        }
    }

    /// Queues a request if others wait for its slot; returns whether it has to wait.
    #[inline]
    pub(crate) fn waits_for_slot(&mut self, slot: u16, pending: impl FnOnce() -> Pending) -> bool {
        if self.waiting.slots.is_empty() {
            return false;
        }
        let queue = self.waiting.slots.get_mut(&slot);
        queue.is_some_and(|queue| {
            queue.fresh.push_back(pending());
            true
        })
    }

    /// Retries a request after a pause that surely did not run; later ones for its slot wait behind it.
    pub(crate) fn delay(&mut self, env: &Env<'_>, bytes: Vec<u8>, delivery: Delivery, slot: Option<u16>) {
        self.delay_pending(env, Pending::Request(QueuedRequest { bytes, delivery }), slot);
    }

    /// As [`Upstream::delay`]. What has no slot cannot be overtaken by requests for it.
    pub(crate) fn delay_pending(&mut self, env: &Env<'_>, pending: Pending, slot: Option<u16>) {
        let Some(slot) = slot else {
            return self.send_after_pause(env, pending);
        };
        env.shared.metrics.retries.add(1);
        let queue = self.waiting.slots.entry(slot).or_default();
        queue.retry_at_us = env.now_us + PAUSE_US;
        queue.returned.push_back(pending);
    }

    /// Sends something after a pause. Its client sends nothing else until then.
    pub(crate) fn send_after_pause(&mut self, env: &Env<'_>, pending: Pending) {
        env.shared.metrics.retries.add(1);
        self.waiting.delay_until(env.now_us + PAUSE_US, pending);
    }

    /// Sends something in this turn, once the session that is being handled is in its place again.
    pub(crate) fn send_soon(&mut self, env: &Env<'_>, pending: Pending) {
        self.waiting.delay_until(env.now_us, pending);
    }

    /// Ends all pauses, because the layout is fresh.
    pub(super) fn end_pauses(&mut self, env: &Env<'_>) {
        let queues = self.waiting.slots.values_mut();
        queues.for_each(|queue| queue.retry_at_us = 0);
        self.release_slots(env.now_us);
        let delayed = std::mem::take(&mut self.waiting.delayed).into_values();
        self.waiting
            .released
            .extend(delayed.map(|pending| (None, pending)));
    }

    /// Returns the next request whose pause is over and whose slot is free. It must be sent before the next
    /// one is asked for.
    pub(crate) fn next_released(&mut self, env: &Env<'_>) -> Option<Pending> {
        loop {
            while let Some((slot, pending)) = self.waiting.released.pop_front() {
                match slot.and_then(|slot| self.waiting.slots.get_mut(&slot)) {
                    // One before it came back again.
                    Some(queue) => queue.returned.push_back(pending),
                    None => return Some(pending),
                }
            }
            if self.waiting.slots.is_empty() || !self.release_slots(env.now_us) {
                return None;
            }
        }
    }

    /// Returns the next request that was put off to a time that has come.
    pub(crate) fn next_due(&mut self, env: &Env<'_>) -> Option<Pending> {
        let due = self.waiting.delayed.first_entry()?;
        (due.key().0 <= env.now_us).then(|| due.remove())
    }

    /// Opens the slots whose pauses are over and whose earlier requests are answered; returns whether there
    /// were any.
    fn release_slots(&mut self, now_us: u64) -> bool {
        let connections = &self.connections;
        let is_over = |queue: &SlotQueue| {
            let mut until = queue.until.iter();
            queue.retry_at_us <= now_us
                && until.all(|(key, count)| {
                    connections
                        .get(*key)
                        .is_none_or(|connection| connection.answered >= *count)
                })
        };
        let over = self.waiting.slots.iter().filter(|(_, queue)| is_over(queue));
        let over: Vec<u16> = over.map(|(slot, _)| *slot).collect();
        for slot in &over {
            if let Some(queue) = self.waiting.slots.remove(slot) {
                let returned = queue.returned.into_iter().map(|pending| (Some(*slot), pending));
                self.waiting.released.extend(returned);
                let fresh = queue.fresh.into_iter().map(|pending| (None, pending));
                self.waiting.released.extend(fresh);
            }
        }
        !over.is_empty()
    }

    /// Returns when the next pause ends.
    pub(crate) fn next_wake_us(&self) -> u64 {
        let delayed = self.waiting.delayed.keys().next();
        let delayed_us = delayed.map_or(u64::MAX, |(due_us, _)| *due_us);
        let retries = self.waiting.slots.values().map(|queue| queue.retry_at_us);
        let retry_us = retries.filter(|at| *at > 0).min().unwrap_or(u64::MAX);
        delayed_us.min(retry_us)
    }
}

impl Waiting {
    fn delay_until(&mut self, due_us: u64, pending: Pending) {
        self.delayed_count += 1;
        self.delayed.insert((due_us, self.delayed_count), pending);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::rc::Rc;
    use std::sync::Arc;

    use nagaya_reactor::{Address, Poller, Slab};

    use super::*;
    use crate::proxy::env::{Shared, testing};
    use crate::proxy::inbox::Inbox;
    use crate::proxy::model::in_flight::{Lane, Origin};
    use crate::proxy::model::layout::{Layout, NodeInfo, SLOTS};
    use crate::proxy::upstream::UpstreamEvent;

    const SLOT: u16 = 7;

    struct Bench {
        shared: Shared,
        inbox: Arc<Inbox>,
        upstream: Upstream,
        layout: Layout,
        now_us: u64,
        // Two nodes that accept connections and never answer.
        _nodes: [TcpListener; 2],
    }

    impl Bench {
        fn new() -> Bench {
            let nodes = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
            let infos = nodes.each_ref().map(|node| {
                let address = node.local_addr().unwrap();
                NodeInfo {
                    name: address.to_string(),
                    host: address.ip().to_string(),
                    address: Address::Tcp(address),
                }
            });
            let mut bench = Bench {
                shared: testing::shared(),
                inbox: Arc::new(Inbox::new().unwrap()),
                upstream: Upstream::new(Rc::new(Poller::new().unwrap())),
                layout: Layout {
                    nodes: infos.to_vec(),
                    ranges: Vec::new(),
                },
                now_us: 1_000_000,
                _nodes: nodes,
            };
            bench.move_slots_to(0);
            bench
        }

        fn move_slots_to(&mut self, node: usize) {
            self.layout.ranges = vec![(0, SLOTS as u16 - 1, node)];
            let layout = self.layout.clone();
            self.with(|upstream, env| upstream.take_layout(env, &layout));
        }

        fn with<T>(&mut self, work: impl FnOnce(&mut Upstream, &Env<'_>) -> T) -> T {
            let mut env = Env::new(&self.shared, &self.inbox);
            env.now_us = self.now_us;
            work(&mut self.upstream, &env)
        }

        fn send(&mut self, origin: Origin, bytes: &[u8]) {
            self.with(|upstream, env| {
                let node = upstream.nodes.owner(SLOT).unwrap();
                let connection = upstream.shared_connection(env, node, Lane::default()).unwrap();
                let in_flight = env.in_flight(env.delivery(origin, false), Some(SLOT));
                upstream.send(env, connection, bytes, in_flight);
            });
        }

        /// Loses the connection to the owner of the slot.
        fn lose(&mut self) {
            self.with(|upstream, env| {
                let node = upstream.nodes.owner(SLOT).unwrap();
                let connection = upstream.shared_connection(env, node, Lane::default()).unwrap();
                upstream.lose(env, connection, "test");
            });
        }

        /// Offers a new request; returns whether it has to wait.
        fn waits(&mut self, client: Key, bytes: &[u8]) -> bool {
            self.with(|upstream, env| {
                let delivery = env.delivery(request_of(client), false);
                let bytes = bytes.to_vec();
                let pending = || Pending::Request(QueuedRequest { bytes, delivery });
                upstream.waits_for_slot(SLOT, pending)
            })
        }

        fn released(&mut self) -> Vec<String> {
            let mut released = Vec::new();
            while let Some(pending) = self.with(|upstream, env| upstream.next_released(env)) {
                released.push(match pending {
                    Pending::Request(queued) => String::from_utf8(queued.bytes).unwrap(),
                    Pending::Transaction(_) => "transaction".to_owned(),
                    Pending::Blocked(_) | Pending::Watch(_) => unreachable!(),
                });
            }
            released
        }
    }

    fn keys() -> (Key, Key) {
        let mut slab = Slab::default();
        (slab.insert(()), slab.insert(()))
    }

    fn request_of(client: Key) -> Origin {
        Origin::Client { client, place: 0 }
    }

    #[test]
    fn unwritten_requests_keep_their_order_and_go_before_later_ones() {
        let mut bench = Bench::new();
        let (client, transaction) = keys();
        bench.send(request_of(client), b"first");
        for part in [&b"MULTI"[..], b"EXEC"] {
            bench.send(Origin::Transaction { transaction }, part);
        }
        bench.send(request_of(client), b"second");
        assert!(!bench.waits(client, b"nothing is in the way"));
        bench.lose();
        assert!(bench.waits(client, b"third"));
        assert_eq!(bench.released(), [""; 0], "the pause is not over");
        bench.now_us += PAUSE_US;
        assert_eq!(bench.released(), ["first", "transaction", "second", "third"]);
        assert!(!bench.waits(client, b"the slot is free"));
    }

    #[test]
    fn one_that_comes_back_again_holds_up_those_behind_it() {
        let mut bench = Bench::new();
        let (client, _) = keys();
        bench.send(request_of(client), b"first");
        bench.send(request_of(client), b"second");
        bench.lose();
        bench.now_us += PAUSE_US;
        let first = bench.with(|upstream, env| upstream.next_released(env)).unwrap();
        bench.with(|upstream, env| upstream.delay_pending(env, first, Some(SLOT)));
        assert_eq!(bench.released(), [""; 0]);
        bench.now_us += PAUSE_US;
        assert_eq!(bench.released(), ["first", "second"]);
    }

    #[test]
    fn a_slot_that_moves_waits_for_the_answers_of_its_former_node() {
        let mut bench = Bench::new();
        let (client, _) = keys();
        bench.send(request_of(client), b"first");
        let former = bench.with(|upstream, env| upstream.shared_connection(env, 0, Lane::default()).unwrap());
        bench.move_slots_to(1);
        assert!(bench.waits(client, b"second"));
        assert_eq!(bench.released(), [""; 0]);
        // The former node is gone: what it did not get goes first.
        bench.with(|upstream, env| upstream.lose(env, former, "test"));
        bench.now_us += PAUSE_US;
        assert_eq!(bench.released(), ["first", "second"]);
        let event = std::iter::from_fn(|| bench.upstream.next_event()).last();
        assert!(
            matches!(event, Some(UpstreamEvent::Lost { node: 0, .. })),
            "{event:?}"
        );
    }
}
