//! Keeps requests back without letting others overtake them.
//!
//! When a slot goes to another node, its later requests wait until the former node has
//! answered the earlier ones: those that it refuses are sent to the new node first. A
//! request that was refused for now, or never written, is tried again after a pause,
//! and whatever comes for its slot meanwhile waits behind it.

use std::collections::VecDeque;

use super::flight::{Held, Job, Trip};
use super::slab::Key;
use super::worker::Worker;

/// How long to wait before something that did not work is tried again.
const PAUSE_US: u64 = 20_000;

/// What waits for a slot.
#[derive(Default)]
pub(crate) struct SlotHold {
    /// Connections, and how many of their requests must be over.
    until: Vec<(Key, u64)>,
    retry_at_us: u64,
    /// Requests that were sent before and came back. They go first.
    returned: VecDeque<Held>,
    fresh: VecDeque<Held>,
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
            self.slot_holds.entry(slot).or_default().until = until;
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
    pub(super) fn is_slot_held(&mut self, slot: u16, held: impl FnOnce() -> Held) -> bool {
        let hold = self.slot_holds.get_mut(&slot);
        hold.is_some_and(|hold| {
            hold.fresh.push_back(held());
            true
        })
    }

    /// Puts a request off that surely did not run, and with it what comes for its slot later.
    pub(super) fn delay(&mut self, bytes: Vec<u8>, trip: Trip, slot: u16) {
        self.delay_held(Held::Request(Job { bytes, trip }), slot);
    }

    pub(super) fn delay_held(&mut self, held: Held, slot: u16) {
        self.shared.metrics.retries.add(1);
        let hold = self.slot_holds.entry(slot).or_default();
        hold.retry_at_us = self.now_us + PAUSE_US;
        hold.returned.push_back(held);
    }

    /// Sends something after a pause. Only for those whom nothing of their own can overtake.
    pub(super) fn send_after_pause(&mut self, held: Held) {
        self.shared.metrics.retries.add(1);
        self.delayed_count += 1;
        self.delayed
            .insert((self.now_us + PAUSE_US, self.delayed_count), held);
    }

    /// Sends something once the client at hand is in its place again.
    pub(super) fn send_soon(&mut self, held: Held) {
        self.delayed_count += 1;
        self.delayed.insert((self.now_us, self.delayed_count), held);
    }

    /// Ends all pauses: the layout is fresh.
    pub(super) fn end_pauses(&mut self) {
        self.slot_holds.values_mut().for_each(|hold| hold.retry_at_us = 0);
        self.release_holds();
        for (_, held) in std::mem::take(&mut self.delayed) {
            self.send_held(held);
        }
    }

    /// Lets those go whose time has come and for whose slots all earlier requests are over.
    pub(super) fn release_holds(&mut self) {
        if self.slot_holds.is_empty() {
            return;
        }
        let (backends, now_us) = (&self.backends, self.now_us);
        let is_over = |hold: &SlotHold| {
            let mut until = hold.until.iter();
            hold.retry_at_us <= now_us
                && until.all(|(key, count)| {
                    backends
                        .get(*key)
                        .is_none_or(|backend| backend.answered >= *count)
                })
        };
        let over = self.slot_holds.iter().filter(|(_, hold)| is_over(hold));
        let over: Vec<u16> = over.map(|(slot, _)| *slot).collect();
        for slot in over {
            let Some(hold) = self.slot_holds.remove(&slot) else {
                continue;
            };
            for held in hold.returned {
                match (self.slot_holds.get_mut(&slot), held) {
                    // One before it came back again.
                    (Some(hold), held) => hold.returned.push_back(held),
                    (None, Held::Request(job)) => self.resubmit_past_holds(job),
                    (None, held) => self.send_held(held),
                }
            }
            for held in hold.fresh {
                self.send_held(held);
            }
        }
    }

    /// When a pause of some slot ends.
    pub(super) fn next_release_us(&self) -> u64 {
        let times = self.slot_holds.values().map(|hold| hold.retry_at_us);
        times.filter(|at| *at > 0).min().unwrap_or(u64::MAX)
    }
}
