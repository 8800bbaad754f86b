//! When a registration fails although its write may have run.
//!
//! The write's reply is held back until a second registration, sent under the same
//! lease, succeeds; otherwise its client is told that nobody knows. So no client hears
//! of success for a write that no saver would find.

use super::leases::{Parked, Unregistered};
use super::model::in_flight::{InFlight, Origin};
use super::model::target::Writes;
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
        let Some(leases) = &mut self.leases else {
            return;
        };
        leases.drop_lease(tag);
        // The connection is not known here; every one that has requests of this tag under way is concerned.
        for connection in self.backends.keys() {
            if let Some(backend) = self.backends.get(connection)
                && backend
                    .in_flight
                    .iter()
                    .any(|in_flight| in_flight.tag == Some(tag))
            {
                let unregistered = Unregistered {
                    connection,
                    until: backend.queued,
                };
                if let Some(leases) = &mut self.leases {
                    leases.unregistered.insert(tag, unregistered);
                }
            }
        }
    }

    /// Keeps a reply back that may not be told as it is; false when it may.
    #[inline]
    pub(super) fn is_kept_back(&mut self, in_flight: &InFlight, connection: Key, reply: &[u8]) -> bool {
        if self.now_us > in_flight.lease_end_us.saturating_add(self.allowance_us()) {
            self.shared.metrics.late.add(1);
            self.fail(in_flight.delivery.origin, LATE);
            return true;
        }
        let Some(leases) = &mut self.leases else {
            return false;
        };
        if leases.unregistered.is_empty() || !in_flight.writes || reply[0] == b'-' {
            return false;
        }
        self.is_parked(in_flight, connection, reply)
    }

    #[cold]
    fn is_parked(&mut self, in_flight: &InFlight, connection: Key, reply: &[u8]) -> bool {
        let (Some(leases), Some(backend)) = (&mut self.leases, self.backends.get(connection)) else {
            return false;
        };
        let Some(tag) = in_flight.tag else {
            return false;
        };
        match leases.unregistered.get(&tag) {
            Some(entry) if entry.connection == connection && backend.answered <= entry.until => {}
            Some(entry) if entry.connection == connection => {
                leases.unregistered.remove(&tag);
                return false;
            }
            _ => return false,
        }
        if !matches!(
            in_flight.delivery.origin,
            Origin::Client { .. } | Origin::Part { .. }
        ) {
            self.fail(in_flight.delivery.origin, UNKNOWN);
            return true;
        }
        let bytes = backend.bytes_of(in_flight).to_vec();
        let parked = leases.parked.insert(Parked {
            delivery: in_flight.delivery,
            reply: reply.to_vec(),
            lease_end_us: in_flight.lease_end_us,
        });
        self.register_again(tag, in_flight, &bytes, parked);
        true
    }

    /// Registers the writes of a request once more, in full, so that a missing script is no obstacle.
    fn register_again(&mut self, tag: Key, in_flight: &InFlight, bytes: &[u8], parked: Key) {
        let mut parser = RequestParser::default();
        let name = self
            .leases
            .as_ref()
            .and_then(|leases| leases.name_of(tag))
            .map(<[u8]>::to_vec);
        let parsed = parser.parse(bytes, &Limits::default());
        let (Some(name), Ok(Parsed::Complete { .. })) = (name, parsed) else {
            return self.fail(Origin::Again { parked }, UNKNOWN);
        };
        let args = parser.args(bytes);
        let target = table::find_request(&args).and_then(|command| self.rules.target(command, &args).ok());
        let writes = target.map_or(Writes::None, |target| target.writes);
        let call = scripts::register(
            &name,
            self.shared.tokens.draw(),
            writes.as_slice().iter().copied(),
        );
        let mut request = Vec::new();
        call.encode(Form::Source, &mut request);
        let node = self.nodes.owner(in_flight.slot);
        let Some(connection) = node.and_then(|node| self.shared_connection(node, false)) else {
            return self.fail(Origin::Again { parked }, UNKNOWN);
        };
        let delivery = self.delivery(Origin::Again { parked }, false);
        let in_flight = InFlight {
            lease_end_us: in_flight.lease_end_us,
            ..self.in_flight(delivery, in_flight.slot)
        };
        self.send_on(connection, &request, in_flight);
    }

    /// Tells the reply that waited for its registration.
    pub(super) fn on_registered_again(&mut self, key: Key, reply: &[u8]) {
        let Some(parked) = self.leases.as_mut().and_then(|leases| leases.parked.remove(key)) else {
            return;
        };
        let is_in_time = self.now_us <= parked.lease_end_us.saturating_add(self.allowance_us());
        if reply[0] != b'-' && is_in_time {
            self.deliver(parked.delivery.origin, &parked.reply);
        } else {
            self.fail(parked.delivery.origin, UNKNOWN);
        }
    }
}
