//! Requests that have to wait, without letting others overtake them.
//!
//! When a slot goes to another node, its later requests wait until the former node has
//! answered the earlier ones: those that it refuses are sent to the new node first. A
//! request that was refused for now, or never written, is retried after a pause, and
//! later requests for its slot wait behind it.

use std::collections::{BTreeMap, VecDeque};

use nagaya_reactor::Key;

use super::Upstream;
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
