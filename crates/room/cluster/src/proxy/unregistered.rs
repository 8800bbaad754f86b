//! When a registration fails although its write may have run.
//!
//! The write's reply is held back until a second registration, sent under the same
//! lease, succeeds; otherwise its client is told that nobody knows. So no client hears
//! of success for a write that no saver would find.

use super::aim::Writes;
use super::flight::{Flight, Origin};
use super::gate::{Parked, Unregistered};
use super::slab::Key;
use super::worker::Worker;
use crate::hot_tier::scripts::{self, Form};
use nagaya_commands::table;
use nagaya_resp::{Limits, Parsed, RequestParser};

const UNKNOWN: &str = "ERR the write could not be registered in time; the command may have run";
const LATE: &str = "ERR the answer came too late; the command may have run";

impl Worker<'_> {
    /// Takes the reply to a registration.
    pub(super) fn on_registered(&mut self, tag: Key, reply: &[u8]) {
        if reply[0] != b'-' {
            return;
        }
        tracing::debug!(reply = %String::from_utf8_lossy(reply), "a registration failed");
        let Some(gate) = &mut self.gate else {
            return;
        };
        gate.drop_lease(tag);
        // The connection is not known here; every one that has requests of this tag under way is concerned.
        for connection in self.backends.keys() {
            if let Some(backend) = self.backends.get(connection)
                && backend.flights.iter().any(|flight| flight.tag == Some(tag))
            {
                let unregistered = Unregistered {
                    connection,
                    until: backend.queued,
                };
                if let Some(gate) = &mut self.gate {
                    gate.unregistered.insert(tag, unregistered);
                }
            }
        }
    }

    /// Keeps a reply back that may not be told as it is; false when it may.
    #[inline]
    pub(super) fn is_kept_back(&mut self, flight: &Flight, connection: Key, reply: &[u8]) -> bool {
        if self.now_us > flight.lease_end_us.saturating_add(self.allowance_us()) {
            self.shared.metrics.late.add(1);
            self.fail(flight.trip.origin, LATE);
            return true;
        }
        let Some(gate) = &mut self.gate else {
            return false;
        };
        if gate.unregistered.is_empty() || !flight.writes || reply[0] == b'-' {
            return false;
        }
        self.is_parked(flight, connection, reply)
    }

    #[cold]
    fn is_parked(&mut self, flight: &Flight, connection: Key, reply: &[u8]) -> bool {
        let (Some(gate), Some(backend)) = (&mut self.gate, self.backends.get(connection)) else {
            return false;
        };
        let Some(tag) = flight.tag else {
            return false;
        };
        match gate.unregistered.get(&tag) {
            Some(entry) if entry.connection == connection && backend.answered <= entry.until => {}
            Some(entry) if entry.connection == connection => {
                gate.unregistered.remove(&tag);
                return false;
            }
            _ => return false,
        }
        if !matches!(flight.trip.origin, Origin::Client { .. } | Origin::Part { .. }) {
            self.fail(flight.trip.origin, UNKNOWN);
            return true;
        }
        let bytes = backend.bytes_of(flight).to_vec();
        let parked = gate.parked.insert(Parked {
            trip: flight.trip,
            reply: reply.to_vec(),
            lease_end_us: flight.lease_end_us,
        });
        self.register_again(tag, flight, &bytes, parked);
        true
    }

    /// Registers the writes of a request once more, in full, so that a missing script is no obstacle.
    fn register_again(&mut self, tag: Key, flight: &Flight, bytes: &[u8], parked: Key) {
        let mut parser = RequestParser::default();
        let name = self
            .gate
            .as_ref()
            .and_then(|gate| gate.name_of(tag))
            .map(<[u8]>::to_vec);
        let parsed = parser.parse(bytes, &Limits::default());
        let (Some(name), Ok(Parsed::Complete { .. })) = (name, parsed) else {
            return self.fail(Origin::Again { parked }, UNKNOWN);
        };
        let args = parser.args(bytes);
        let aim = table::find_request(&args).and_then(|command| self.rules.aim(command, &args).ok());
        let writes = aim.map_or(Writes::None, |aim| aim.writes);
        let call = scripts::register(
            &name,
            self.shared.tokens.draw(),
            writes.as_slice().iter().copied(),
        );
        let mut request = Vec::new();
        call.encode(Form::Source, &mut request);
        let node = self.nodes.owner(flight.slot);
        let Some(connection) = node.and_then(|node| self.shared_connection(node, false)) else {
            return self.fail(Origin::Again { parked }, UNKNOWN);
        };
        let trip = self.trip(Origin::Again { parked }, false);
        let flight = Flight {
            lease_end_us: flight.lease_end_us,
            ..self.flight(trip, flight.slot)
        };
        self.send_on(connection, &request, flight);
    }

    /// Tells the reply that waited for its registration.
    pub(super) fn on_registered_again(&mut self, key: Key, reply: &[u8]) {
        let Some(parked) = self.gate.as_mut().and_then(|gate| gate.parked.remove(key)) else {
            return;
        };
        let is_in_time = self.now_us <= parked.lease_end_us.saturating_add(self.allowance_us());
        if reply[0] != b'-' && is_in_time {
            self.deliver(parked.trip.origin, &parked.reply);
        } else {
            self.fail(parked.trip.origin, UNKNOWN);
        }
    }
}
