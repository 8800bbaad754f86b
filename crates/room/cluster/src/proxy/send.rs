//! Takes requests to the nodes of their slots, at once or when they can go.

use nagaya_commands::table;
use nagaya_resp::{Limits, Parsed, RequestParser};

use super::aim::Aim;
use super::flight::{FOR_EVER, Flight, Held, Job, Origin, Trip};
use super::slab::Key;
use super::worker::Worker;

impl Worker<'_> {
    /// What a new request of a client is sent with.
    pub(super) fn trip(&self, origin: Origin, resp3: bool) -> Trip {
        Trip {
            origin,
            resp3,
            attempts: 0,
            give_up_us: self.now_us + self.shared.config.retry_for.as_micros() as u64,
        }
    }

    /// Sends a request to the node of its slot, behind those that wait for the slot or the tag.
    #[inline]
    pub(super) fn submit(&mut self, bytes: &[u8], trip: Trip, aim: &Aim<'_>) {
        if !self.slot_holds.is_empty() {
            let held = || {
                let bytes = bytes.to_vec();
                Held::Request(Job { bytes, trip })
            };
            if self.is_slot_held(aim.slot, held) {
                return;
            }
        }
        self.submit_past_holds(bytes, trip, aim);
    }

    /// As [`Worker::submit`], for a request that comes before those that wait for its slot.
    #[inline]
    pub(super) fn submit_past_holds(&mut self, bytes: &[u8], trip: Trip, aim: &Aim<'_>) {
        if self.gate.is_some() && aim.tag.is_some() {
            return self.submit_gated(bytes, trip, aim);
        }
        let node = self.nodes.owner(aim.slot);
        match node.and_then(|node| self.shared_connection(node, trip.resp3)) {
            Some(connection) => self.send_on(connection, bytes, self.flight(trip, aim.slot)),
            None => self.wait_for_node(bytes, trip, aim.slot),
        }
    }

    /// A flight without a lease.
    pub(super) fn flight(&self, trip: Trip, slot: u16) -> Flight {
        Flight {
            trip,
            start: 0,
            len: 0,
            slot,
            writes: false,
            queued_us: self.now_us,
            tag: None,
            lease_end_us: FOR_EVER,
        }
    }

    #[inline]
    pub(super) fn send_on(&mut self, connection: Key, bytes: &[u8], flight: Flight) {
        let Some(backend) = self.backends.get_mut(connection) else {
            return self.try_later(bytes.to_vec(), &flight, "the connection is gone");
        };
        backend.push(bytes, flight);
        if !backend.in_dirty {
            self.mark_backend(connection);
        }
    }

    /// Sends a request to one node, whatever slots it has. It makes no sense on another one.
    pub(super) fn send_to_node(&mut self, node: usize, bytes: &[u8], trip: Trip) {
        let trip = Trip {
            give_up_us: 0,
            ..trip
        };
        match self.shared_connection(node, trip.resp3) {
            Some(connection) => self.send_on(connection, bytes, self.flight(trip, 0)),
            None => {
                let name = self.nodes.list[node].info.name.clone();
                self.fail(trip.origin, &format!("CLUSTERDOWN node {name} cannot be reached"));
            }
        }
    }

    /// Tries again soon: nobody is known who has the slot, or the node cannot be reached.
    pub(super) fn wait_for_node(&mut self, bytes: &[u8], trip: Trip, slot: u16) {
        self.shared.refresher.ask();
        if self.now_us < trip.give_up_us {
            return self.delay(bytes.to_vec(), trip, slot);
        }
        let reason = match (self.nodes.owner(slot), &self.nodes.trouble) {
            (Some(node), _) => format!("node {} cannot be reached", self.nodes.list[node].info.name),
            (None, Some(trouble)) => trouble.replace(['\r', '\n'], " "),
            (None, None) => format!("no node serves slot {slot}"),
        };
        self.fail(trip.origin, &format!("CLUSTERDOWN {reason}"));
    }

    /// Tries a request again that was never written to its connection.
    pub(super) fn try_later(&mut self, bytes: Vec<u8>, flight: &Flight, reason: &str) {
        let origin = flight.trip.origin;
        if self.now_us >= flight.trip.give_up_us {
            return self.fail(origin, &format!("CLUSTERDOWN {reason}"));
        }
        match origin {
            Origin::Client { .. } | Origin::Part { .. } => self.delay(bytes, flight.trip, flight.slot),
            Origin::Blocked { client } => self.send_after_pause(Held::Blocked(client)),
            Origin::Watched { client } => self.send_after_pause(Held::Watch(client)),
            _ => self.fail(origin, &format!("CLUSTERDOWN {reason}")),
        }
    }

    /// Sends what had to wait.
    pub(super) fn send_held(&mut self, held: Held) {
        match held {
            Held::Request(job) => self.resubmit(job),
            Held::Burst(burst) => self.send_burst(burst),
            Held::Blocked(client) => self.send_blocked(client),
            Held::Watch(client) => self.send_watch(client),
        }
    }

    /// Finds anew where a request goes and sends it there.
    pub(super) fn resubmit(&mut self, job: Job) {
        self.resubmit_with(job, Worker::submit);
    }

    /// As [`Worker::resubmit`], ahead of those that wait for its slot.
    pub(super) fn resubmit_past_holds(&mut self, job: Job) {
        self.resubmit_with(job, Worker::submit_past_holds);
    }

    fn resubmit_with(&mut self, job: Job, submit: fn(&mut Self, &[u8], Trip, &Aim<'_>)) {
        if !self.is_awaited(job.trip.origin) {
            return;
        }
        let mut parser = RequestParser::default();
        let limits = Limits {
            bulk_bytes_max: usize::MAX,
            args_max: usize::MAX,
            query_bytes_max: usize::MAX,
            ..Limits::default()
        };
        let Ok(Parsed::Complete { .. }) = parser.parse(&job.bytes, &limits) else {
            return self.fail(job.trip.origin, "ERR the request could not be read again");
        };
        let args = parser.args(&job.bytes);
        let aim = table::find_request(&args).map(|command| self.rules.aim(command, &args));
        match aim {
            Some(Ok(aim)) => submit(self, &job.bytes, job.trip, &aim),
            Some(Err(refusal)) => self.fail(job.trip.origin, &refusal.text()),
            None => self.fail(job.trip.origin, "ERR the request could not be read again"),
        }
    }

    /// Tells whether anybody still waits for the reply; what nobody waits for need not be sent again.
    fn is_awaited(&self, origin: Origin) -> bool {
        match origin {
            Origin::Client { client, .. } => self.clients.is_live(client),
            _ => true,
        }
    }
}
