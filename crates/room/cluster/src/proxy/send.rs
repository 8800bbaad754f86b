//! Takes requests to the nodes of their slots, at once or when they can go.

use nagaya_commands::table;
use nagaya_resp::{Limits, Parsed, RequestParser};

use super::model::in_flight::{Delivery, FOR_EVER, InFlight, Origin, Pending, QueuedRequest};
use super::model::target::Target;
use super::slab::Key;
use super::worker::Worker;

impl Worker<'_> {
    /// What a new request of a client is sent with.
    pub(super) fn delivery(&self, origin: Origin, resp3: bool) -> Delivery {
        Delivery {
            origin,
            resp3,
            attempts: 0,
            give_up_us: self.now_us + self.shared.config.retry_for.as_micros() as u64,
        }
    }

    /// Sends a request to the node of its slot, behind those that wait for the slot or the tag.
    #[inline]
    pub(super) fn submit(&mut self, bytes: &[u8], delivery: Delivery, target: &Target<'_>) {
        if !self.slot_queues.is_empty() {
            let pending = || {
                let bytes = bytes.to_vec();
                Pending::Request(QueuedRequest { bytes, delivery })
            };
            if self.waits_for_slot(target.slot, pending) {
                return;
            }
        }
        self.submit_first(bytes, delivery, target);
    }

    /// As [`Worker::submit`], for a request that comes before those that wait for its slot.
    #[inline]
    pub(super) fn submit_first(&mut self, bytes: &[u8], delivery: Delivery, target: &Target<'_>) {
        if self.leases.is_some() && target.tag.is_some() {
            return self.submit_leased(bytes, delivery, target);
        }
        let node = self.nodes.owner(target.slot);
        match node.and_then(|node| self.shared_connection(node, delivery.resp3)) {
            Some(connection) => self.send_on(connection, bytes, self.in_flight(delivery, target.slot)),
            None => self.wait_for_node(bytes, delivery, target.slot),
        }
    }

    /// A flight without a lease.
    pub(super) fn in_flight(&self, delivery: Delivery, slot: u16) -> InFlight {
        InFlight {
            delivery,
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
    pub(super) fn send_on(&mut self, connection: Key, bytes: &[u8], in_flight: InFlight) {
        let Some(backend) = self.backends.get_mut(connection) else {
            return self.try_later(bytes.to_vec(), &in_flight, "the connection is gone");
        };
        backend.push(bytes, in_flight);
        if !backend.in_dirty {
            self.mark_backend(connection);
        }
    }

    /// Sends a request to one node, whatever slots it has. It makes no sense on another one.
    pub(super) fn send_to_node(&mut self, node: usize, bytes: &[u8], delivery: Delivery) {
        let delivery = Delivery {
            give_up_us: 0,
            ..delivery
        };
        match self.shared_connection(node, delivery.resp3) {
            Some(connection) => self.send_on(connection, bytes, self.in_flight(delivery, 0)),
            None => {
                let name = self.nodes.list[node].info.name.clone();
                self.fail(
                    delivery.origin,
                    &format!("CLUSTERDOWN node {name} cannot be reached"),
                );
            }
        }
    }

    /// Tries again soon: nobody is known who has the slot, or the node cannot be reached.
    pub(super) fn wait_for_node(&mut self, bytes: &[u8], delivery: Delivery, slot: u16) {
        self.shared.refresher.ask();
        if self.now_us < delivery.give_up_us {
            return self.delay(bytes.to_vec(), delivery, slot);
        }
        let reason = match (self.nodes.owner(slot), &self.nodes.layout_error) {
            (Some(node), _) => format!("node {} cannot be reached", self.nodes.list[node].info.name),
            (None, Some(layout_error)) => layout_error.replace(['\r', '\n'], " "),
            (None, None) => format!("no node serves slot {slot}"),
        };
        self.fail(delivery.origin, &format!("CLUSTERDOWN {reason}"));
    }

    /// Tries a request again that was never written to its connection.
    pub(super) fn try_later(&mut self, bytes: Vec<u8>, in_flight: &InFlight, reason: &str) {
        let origin = in_flight.delivery.origin;
        if self.now_us >= in_flight.delivery.give_up_us {
            return self.fail(origin, &format!("CLUSTERDOWN {reason}"));
        }
        match origin {
            Origin::Client { .. } | Origin::Part { .. } => {
                self.delay(bytes, in_flight.delivery, in_flight.slot)
            }
            Origin::Blocked { client } => self.send_after_pause(Pending::Blocked(client)),
            Origin::Watched { client } => self.send_after_pause(Pending::Watch(client)),
            _ => self.fail(origin, &format!("CLUSTERDOWN {reason}")),
        }
    }

    /// Sends what had to wait.
    pub(super) fn send_pending(&mut self, pending: Pending) {
        match pending {
            Pending::Request(queued) => self.resubmit(queued),
            Pending::Transaction(transaction) => self.send_transaction(transaction),
            Pending::Blocked(client) => self.send_blocked(client),
            Pending::Watch(client) => self.send_watch(client),
        }
    }

    /// Finds anew where a request goes and sends it there.
    pub(super) fn resubmit(&mut self, queued: QueuedRequest) {
        self.resubmit_with(queued, Worker::submit);
    }

    /// As [`Worker::resubmit`], ahead of those that wait for its slot.
    pub(super) fn resubmit_first(&mut self, queued: QueuedRequest) {
        self.resubmit_with(queued, Worker::submit_first);
    }

    fn resubmit_with(&mut self, queued: QueuedRequest, submit: fn(&mut Self, &[u8], Delivery, &Target<'_>)) {
        if !self.is_awaited(queued.delivery.origin) {
            return;
        }
        let mut parser = RequestParser::default();
        let limits = Limits {
            bulk_bytes_max: usize::MAX,
            args_max: usize::MAX,
            query_bytes_max: usize::MAX,
            ..Limits::default()
        };
        let Ok(Parsed::Complete { .. }) = parser.parse(&queued.bytes, &limits) else {
            return self.fail(queued.delivery.origin, "ERR the request could not be read again");
        };
        let args = parser.args(&queued.bytes);
        let target = table::find_request(&args).map(|command| self.rules.target(command, &args));
        match target {
            Some(Ok(target)) => submit(self, &queued.bytes, queued.delivery, &target),
            Some(Err(refusal)) => self.fail(queued.delivery.origin, &refusal.text()),
            None => self.fail(queued.delivery.origin, "ERR the request could not be read again"),
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
