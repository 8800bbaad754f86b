//! Keeps requests back without letting others overtake them.
//!
//! When a slot goes to another node, its later requests wait until the former node has
//! answered the earlier ones: those that it refuses are sent to the new node first. A
//! request that was refused for now, or never written, is tried again after a pause,
//! and whatever comes for its slot meanwhile waits behind it.

use std::collections::VecDeque;

use super::model::in_flight::{Delivery, Pending, QueuedRequest};
use super::slab::Key;
use super::worker::Worker;

/// How long to wait before something that did not work is tried again.
const PAUSE_US: u64 = 20_000;

/// What waits for a slot.
#[derive(Default)]
pub(crate) struct SlotQueue {
    /// Connections, and how many of their requests must be over.
    until: Vec<(Key, u64)>,
    retry_at_us: u64,
    /// Requests that were sent before and came back. They go first.
    returned: VecDeque<Pending>,
    fresh: VecDeque<Pending>,
}

impl Worker<'_> {
    /// Keeps later requests for a slot back until its former node has answered all earlier ones.
    pub(super) fn hold_slot(&mut self, slot: u16, former: usize) {
        let shared = self.nodes.list[former].shared;
        let until: Vec<(Key, u64)> = shared
            .into_iter()
            .flatten()
            .filter_map(|key| Some((key, self.backends.get(key)?)))
            .filter(|(_, backend)| backend.answered < backend.queued)
            .map(|(key, backend)| (key, backend.queued))
            .collect();
        if !until.is_empty() {
            self.slot_queues.entry(slot).or_default().until = until;
        }
    }

    /// Takes note that a slot is at another node now.
    pub(super) fn slot_moved(&mut self, slot: u16, former: usize, target: usize) {
        if self.nodes.owner(slot) != Some(target) {
            self.hold_slot(slot, former);
            self.nodes.set_owner(slot, target);
        }
    }

    /// Keeps something back while others wait for its slot; true when it has to wait.
    pub(super) fn waits_for_slot(&mut self, slot: u16, pending: impl FnOnce() -> Pending) -> bool {
        let queue = self.slot_queues.get_mut(&slot);
        queue.is_some_and(|queue| {
            queue.fresh.push_back(pending());
            true
        })
    }

    /// Puts a request off that surely did not run, and with it what comes for its slot later.
    pub(super) fn delay(&mut self, bytes: Vec<u8>, delivery: Delivery, slot: u16) {
        self.delay_pending(Pending::Request(QueuedRequest { bytes, delivery }), slot);
    }

    pub(super) fn delay_pending(&mut self, pending: Pending, slot: u16) {
        self.shared.metrics.retries.add(1);
        let queue = self.slot_queues.entry(slot).or_default();
        queue.retry_at_us = self.now_us + PAUSE_US;
        queue.returned.push_back(pending);
    }

    /// Sends something after a pause. Only for those whom nothing of their own can overtake.
    pub(super) fn send_after_pause(&mut self, pending: Pending) {
        self.shared.metrics.retries.add(1);
        self.delayed_count += 1;
        self.delayed
            .insert((self.now_us + PAUSE_US, self.delayed_count), pending);
    }

    /// Sends something once the client at hand is in its place again.
    pub(super) fn send_soon(&mut self, pending: Pending) {
        self.delayed_count += 1;
        self.delayed.insert((self.now_us, self.delayed_count), pending);
    }

    /// Ends all pauses: the layout is fresh.
    pub(super) fn end_pauses(&mut self) {
        self.slot_queues
            .values_mut()
            .for_each(|queue| queue.retry_at_us = 0);
        self.release_slots();
        for (_, pending) in std::mem::take(&mut self.delayed) {
            self.send_pending(pending);
        }
    }

    /// Lets those go whose time has come and for whose slots all earlier requests are over.
    pub(super) fn release_slots(&mut self) {
        if self.slot_queues.is_empty() {
            return;
        }
        let (backends, now_us) = (&self.backends, self.now_us);
        let is_over = |queue: &SlotQueue| {
            let mut until = queue.until.iter();
            queue.retry_at_us <= now_us
                && until.all(|(key, count)| {
                    backends
                        .get(*key)
                        .is_none_or(|backend| backend.answered >= *count)
                })
        };
        let over = self.slot_queues.iter().filter(|(_, queue)| is_over(queue));
        let over: Vec<u16> = over.map(|(slot, _)| *slot).collect();
        for slot in over {
            let Some(queue) = self.slot_queues.remove(&slot) else {
                continue;
            };
            for pending in queue.returned {
                match (self.slot_queues.get_mut(&slot), pending) {
                    // One before it came back again.
                    (Some(queue), pending) => queue.returned.push_back(pending),
                    (None, Pending::Request(queued)) => self.resubmit_first(queued),
                    (None, pending) => self.send_pending(pending),
                }
            }
            for pending in queue.fresh {
                self.send_pending(pending);
            }
        }
    }

    /// When a pause of some slot ends.
    pub(super) fn next_release_us(&self) -> u64 {
        let times = self.slot_queues.values().map(|queue| queue.retry_at_us);
        times.filter(|at| *at > 0).min().unwrap_or(u64::MAX)
    }
}
