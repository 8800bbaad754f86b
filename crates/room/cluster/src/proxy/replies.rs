//! Takes the replies of nodes to those who wait for them, and follows redirects.
//!
//! A request is sent again only after a reply that says it did not run: MOVED, ASK,
//! TRYAGAIN, LOADING, CLUSTERDOWN, MASTERDOWN, READONLY, in the servers' own words.

use nagaya_resp::encode_request;

use super::model::in_flight::{Delivery, InFlight, Origin, QueuedRequest};
use super::model::redirect::Redirect;
use super::node_connection::{Purpose, State};
use super::slab::Key;
use super::worker::Worker;

/// Redirects of one request before its client gets an error.
const REDIRECTS_MAX: u8 = 16;

impl Worker<'_> {
    /// Reads from a node once and hands its replies out; true when there may be more to read.
    pub(super) fn read_backend(&mut self, key: Key) -> bool {
        let Some(backend) = self.backends.get_mut(key) else {
            return false;
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        let read = backend.transport.read(&mut scratch);
        let mut more = false;
        match read {
            Ok(0) => self.lose(key, "closed by the node"),
            Ok(read) => {
                backend.heard_us = self.now_us;
                more = read == scratch.len() || backend.transport.is_tls();
                if self.leases.is_some() {
                    // Whether a reply is late is judged by when it is read.
                    self.now_us = self.shared.server.clock.steady_us();
                }
                let mut input = std::mem::take(&mut backend.input);
                if input.is_empty() {
                    let consumed = self.take_replies(key, &scratch[..read]);
                    input.extend_from_slice(&scratch[consumed..read]);
                } else {
                    input.extend_from_slice(&scratch[..read]);
                    let consumed = self.take_replies(key, &input);
                    input.drain(..consumed);
                    if input.is_empty() {
                        input = Vec::new();
                    }
                }
                if let Some(backend) = self.backends.get_mut(key) {
                    backend.input = input;
                    backend.forget_answered();
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => more = true,
            Err(error) => self.lose(key, &error.to_string()),
        }
        self.scratch = scratch;
        if !self.slot_queues.is_empty() {
            self.release_slots();
        }
        more
    }

    /// Hands out the whole replies at the start of `bytes`; returns how many bytes they took.
    fn take_replies(&mut self, key: Key, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let Some(backend) = self.backends.get_mut(key) else {
                return bytes.len();
            };
            let length = match backend.scan(&bytes[at..]) {
                Ok(Some(length)) => length,
                Ok(None) => break,
                Err(error) => {
                    self.lose(key, &format!("not a reply: {error}"));
                    return bytes.len();
                }
            };
            let reply = &bytes[at..at + length];
            at += length;
            if backend.state == State::Handshake {
                if !self.on_handshake_reply(key, reply) {
                    return bytes.len();
                }
                continue;
            }
            if backend.purpose == Purpose::PubSub {
                self.on_pubsub_message(key, reply);
                continue;
            }
            if matches!(reply[0], b'>' | b'|') {
                continue;
            }
            let Some(in_flight) = backend.next_answered() else {
                self.lose(key, "an answer that nobody asked for");
                return bytes.len();
            };
            self.on_reply(key, &in_flight, reply);
        }
        at
    }

    #[inline]
    fn on_reply(&mut self, key: Key, in_flight: &InFlight, reply: &[u8]) {
        if reply[0] == b'-' && self.is_followed(key, in_flight, reply) {
            return;
        }
        if in_flight.tag.is_some() && self.is_kept_back(in_flight, key, reply) {
            return;
        }
        self.deliver(in_flight.delivery.origin, reply);
    }

    /// Sends a request again if the error says that it did not run; false when the client is to see it.
    fn is_followed(&mut self, key: Key, in_flight: &InFlight, reply: &[u8]) -> bool {
        if !matches!(
            in_flight.delivery.origin,
            Origin::Client { .. } | Origin::Part { .. }
        ) {
            return false;
        }
        if self.leases.is_some() && reply.starts_with(b"-NOSCRIPT") {
            return self.is_script_sent_in_full(key, in_flight);
        }
        let Some(redirect) = Redirect::of(reply) else {
            return false;
        };
        let Some(backend) = self.backends.get(key) else {
            return false;
        };
        let (bytes, node) = (backend.bytes_of(in_flight).to_vec(), backend.node);
        let delivery = Delivery {
            attempts: in_flight.delivery.attempts.saturating_add(1),
            ..in_flight.delivery
        };
        if delivery.attempts > REDIRECTS_MAX && redirect != Redirect::NotNow {
            let last = String::from_utf8_lossy(reply[1..].trim_ascii_end()).into_owned();
            self.fail(
                delivery.origin,
                &format!("ERR too many redirections, the last was: {last}"),
            );
            return true;
        }
        match redirect {
            Redirect::Moved { slot, target } => {
                self.shared.metrics.redirects.add(1);
                self.shared.refresher.ask();
                match self.nodes.redirected(&target, node) {
                    Some(target) => {
                        self.slot_moved(slot, node, target);
                        self.resubmit_first(QueuedRequest { bytes, delivery });
                    }
                    None => self.delay(bytes, delivery, slot),
                }
            }
            Redirect::Ask { slot, target } => {
                self.shared.metrics.redirects.add(1);
                match self.nodes.redirected(&target, node) {
                    // A write needs its registration beside it, and that may be on either node now.
                    Some(target) if self.leases.is_none() || !in_flight.writes => {
                        self.ask(target, slot, &bytes, in_flight, delivery);
                    }
                    _ if self.now_us < delivery.give_up_us => self.delay(bytes, delivery, slot),
                    _ => return false,
                }
            }
            Redirect::NotNow if self.now_us < delivery.give_up_us => {
                self.shared.refresher.ask();
                self.delay(bytes, delivery, in_flight.slot);
            }
            Redirect::NotNow => return false,
        }
        true
    }

    /// Sends a request to the node that a slot is moving to.
    fn ask(&mut self, target: usize, slot: u16, bytes: &[u8], in_flight: &InFlight, delivery: Delivery) {
        let Some(connection) = self.shared_connection(target, delivery.resp3) else {
            return self.delay(bytes.to_vec(), delivery, slot);
        };
        let mut asking = Vec::new();
        encode_request(&[b"ASKING"], &mut asking);
        let nobody = Delivery {
            origin: Origin::Nobody,
            ..delivery
        };
        self.send_on(connection, &asking, self.in_flight(nobody, slot));
        let in_flight = InFlight {
            delivery,
            queued_us: self.now_us,
            ..*in_flight
        };
        self.send_on(connection, bytes, in_flight);
    }
}
