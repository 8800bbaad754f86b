//! A transaction on its way: from MULTI to EXEC in one piece.
//!
//! A node that refuses one of its commands because the slot has moved refuses the EXEC
//! too, so the whole can be sent to the right node: it never runs in part.

use nagaya_resp::{Proto, encode_request};

use super::aim::{Aim, Writes};
use super::flight::{Flight, Held, Origin, Trip};
use super::replies::Trouble;
use super::slab::Key;
use super::split::elements_of;
use super::worker::Worker;

/// A transaction on its way.
pub(crate) struct Burst {
    pub(super) trip: Trip,
    pub(super) client: Key,
    pub(super) slot: Option<u16>,
    pub(super) tag: Option<Vec<u8>>,
    pub(super) writes: Vec<Vec<u8>>,
    /// What is sent, one request each, EXEC last.
    pub(super) requests: Vec<Vec<u8>>,
    /// The replies of commands that run here, by their place among all.
    pub(super) told: Vec<(usize, Vec<u8>)>,
    /// The connection that watches.
    pub(super) pinned: Option<Key>,
    /// It was sent before, so what waits for its slot comes after it.
    pub(super) goes_first: bool,
    /// The node to ask by exception.
    pub(super) asked: Option<usize>,
    pub(super) missing: usize,
    pub(super) trouble: Option<(Trouble, usize)>,
}

impl Worker<'_> {
    /// Sends a transaction whole, its registrations ahead of it.
    pub(super) fn send_burst(&mut self, key: Key) {
        let Some(burst) = self.bursts.get(key) else {
            return;
        };
        let (slot, trip, pinned, asked) = (burst.slot, burst.trip, burst.pinned, burst.asked);
        let goes_first = burst.goes_first;
        if let Some(slot) = slot
            && asked.is_none()
            && !goes_first
            && self.is_slot_held(slot, || Held::Burst(key))
        {
            return;
        }
        let node = match (asked, slot) {
            (Some(node), _) => Some(node),
            (None, Some(slot)) => self.nodes.owner(slot),
            (None, None) => self.nodes.primaries.first().copied(),
        };
        let connection = match pinned {
            Some(pinned) => Some(pinned),
            None => node.and_then(|node| self.shared_connection(node, trip.resp3)),
        };
        let Some(connection) = connection else {
            return self.burst_not_now(key, "CLUSTERDOWN the node of the transaction cannot be reached");
        };
        if !self.backends.is_live(connection) {
            return self.end_burst(key, nil_of(trip));
        }
        let mut flight = self.flight(trip, slot.unwrap_or(0));
        let tag = self.bursts.get_mut(key).and_then(|burst| burst.tag.take());
        if let Some(tag) = &tag {
            let writes = self
                .bursts
                .get_mut(key)
                .map_or_else(Vec::new, |burst| std::mem::take(&mut burst.writes));
            let names: Vec<&[u8]> = writes.iter().map(Vec::as_slice).collect();
            let aim = Aim {
                slot: slot.unwrap_or(0),
                tag: Some(tag),
                writes: Writes::Many(names),
            };
            let lease = self.lease_for(&aim, connection, || Held::Burst(key));
            if let Some(burst) = self.bursts.get_mut(key) {
                burst.tag = Some(tag.clone());
                burst.writes = writes;
            }
            match lease {
                Some(lease) => flight = Flight { ..lease.on(flight) },
                None => return,
            }
        }
        self.send_burst_on(key, connection, flight);
    }

    fn send_burst_on(&mut self, key: Key, connection: Key, flight: Flight) {
        let Some(mut burst) = self.bursts.take(key) else {
            return;
        };
        burst.missing = burst.requests.len();
        burst.trouble = None;
        if burst.asked.is_some() {
            let nobody = Trip {
                origin: Origin::Nobody,
                ..burst.trip
            };
            let trip = self.flight(nobody, flight.slot);
            self.send_on(connection, &encoded(&[b"ASKING"]), trip);
        }
        let trip = Trip {
            origin: Origin::Burst { burst: key },
            ..burst.trip
        };
        for request in &burst.requests {
            self.send_on(connection, request, Flight { trip, ..flight });
        }
        self.bursts.put(key, burst);
    }

    /// Takes the next reply of a transaction.
    pub(super) fn on_burst(&mut self, key: Key, reply: &[u8]) {
        let node = {
            let Some(burst) = self.bursts.get(key) else {
                return;
            };
            let connection = burst.pinned;
            let pinned = connection.and_then(|key| Some(self.backends.get(key)?.node));
            pinned
                .or(burst.asked)
                .or(burst.slot.and_then(|slot| self.nodes.owner(slot)))
        };
        let Some(burst) = self.bursts.get_mut(key) else {
            return;
        };
        burst.missing = burst.missing.saturating_sub(1);
        let is_lost =
            reply.starts_with(b"-ERR backend connection") || reply.starts_with(b"-CLUSTERDOWN node");
        if is_lost {
            return self.end_burst(key, reply.to_vec());
        }
        if burst.trouble.is_none()
            && reply[0] == b'-'
            && let Some(trouble) = Trouble::of(reply)
        {
            burst.trouble = Some((trouble, node.unwrap_or(0)));
        }
        if burst.missing > 0 {
            return;
        }
        if reply[0] != b'-' {
            let reply = burst.whole_reply(reply);
            return self.end_burst(key, reply);
        }
        let trip = burst.trip;
        match burst.trouble.take() {
            None => self.end_burst(key, reply.to_vec()),
            // What was watched is on another node now and may have changed.
            Some(_) if burst.pinned.is_some() => self.end_burst(key, nil_of(trip)),
            Some((trouble, from)) => self.follow_burst(key, trouble, from, reply),
        }
    }

    fn follow_burst(&mut self, key: Key, trouble: Trouble, from: usize, reply: &[u8]) {
        let Some(burst) = self.bursts.get_mut(key) else {
            return;
        };
        burst.asked = None;
        burst.trip.attempts = burst.trip.attempts.saturating_add(1);
        if self.now_us >= burst.trip.give_up_us {
            return self.end_burst(key, reply.to_vec());
        }
        self.shared.refresher.ask();
        match trouble {
            Trouble::Moved { slot, target } => {
                self.shared.metrics.redirects.add(1);
                if let Some(target) = self.nodes.redirected(&target, from) {
                    self.slot_moved(slot, from, target);
                    if let Some(burst) = self.bursts.get_mut(key) {
                        burst.goes_first = true;
                    }
                    return self.send_burst(key);
                }
                self.delay_burst(key);
            }
            Trouble::Ask { target, .. } if self.gate.is_none() => {
                self.shared.metrics.redirects.add(1);
                let target = self.nodes.redirected(&target, from);
                if let Some(burst) = self.bursts.get_mut(key) {
                    burst.asked = target;
                }
                if target.is_some() {
                    return self.send_burst(key);
                }
                self.delay_burst(key);
            }
            Trouble::Ask { .. } | Trouble::NotNow => self.delay_burst(key),
        }
    }

    fn delay_burst(&mut self, key: Key) {
        match self.bursts.get(key).map(|burst| burst.slot) {
            Some(Some(slot)) => self.delay_held(Held::Burst(key), slot),
            Some(None) => self.send_after_pause(Held::Burst(key)),
            None => {}
        }
    }

    /// Tries a transaction again soon, unless that has been done for long enough.
    fn burst_not_now(&mut self, key: Key, text: &str) {
        self.shared.refresher.ask();
        let give_up_us = self.bursts.get(key).map_or(0, |burst| burst.trip.give_up_us);
        if self.now_us < give_up_us {
            self.delay_burst(key);
        } else {
            self.end_burst(key, format!("-{text}\r\n").into_bytes());
        }
    }

    /// Ends a transaction that could not be sent.
    pub(super) fn fail_burst(&mut self, key: Key, text: &str) {
        self.end_burst(key, format!("-{text}\r\n").into_bytes());
    }

    /// Takes transactions back whose EXEC was not written when their connection was lost.
    pub(super) fn call_back_bursts(&mut self, unwritten: &[(Flight, Vec<u8>)]) -> Vec<Key> {
        let mut bursts: Vec<Key> = Vec::new();
        for (flight, _) in unwritten {
            if let Origin::Burst { burst } = flight.trip.origin
                && bursts.last() != Some(&burst)
            {
                bursts.push(burst);
            }
        }
        for &key in &bursts {
            match self.bursts.get(key).map(|burst| (burst.pinned, burst.trip)) {
                Some((Some(_), trip)) => self.end_burst(key, nil_of(trip)),
                Some((None, _)) => self.delay_burst(key),
                None => {}
            }
        }
        bursts
    }

    fn end_burst(&mut self, key: Key, reply: Vec<u8>) {
        let Some(burst) = self.bursts.remove(key) else {
            return;
        };
        self.deliver_later(burst.trip.origin, reply);
        if burst.pinned.is_some() {
            self.unpin(burst.client);
        }
    }

    /// Ends a client's WATCH after its EXEC.
    fn unpin(&mut self, client: Key) {
        if let Some(mut session) = self.clients.take(client) {
            if let Some(watch) = session.watch.take()
                && let Some(connection) = watch.connection
            {
                self.give_back(connection);
            }
            self.clients.put(client, session);
            self.release(client);
        }
    }
}

impl Burst {
    /// Puts the replies of commands that ran here between those of the node.
    fn whole_reply(&self, reply: &[u8]) -> Vec<u8> {
        if self.told.is_empty() || reply.starts_with(b"*-1") || reply[0] == b'_' {
            return reply.to_vec();
        }
        let mut elements = elements_of(reply);
        for (place, told) in &self.told {
            elements.insert((*place).min(elements.len()), told);
        }
        let mut whole = format!("*{}\r\n", elements.len()).into_bytes();
        elements
            .iter()
            .for_each(|element| whole.extend_from_slice(element));
        whole
    }
}

pub(super) fn encoded(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_request(words, &mut bytes);
    bytes
}

fn nil_of(trip: Trip) -> Vec<u8> {
    nil_array(if trip.resp3 { Proto::Resp3 } else { Proto::Resp2 }).to_vec()
}

pub(super) fn nil_array(proto: Proto) -> &'static [u8] {
    match proto {
        Proto::Resp2 => b"*-1\r\n",
        Proto::Resp3 => b"_\r\n",
    }
}
