//! When a registration fails although its write may have run.
//!
//! The write's reply is held back until a second registration, sent under the same
//! lease, succeeds; otherwise its client gets an error that says that the write may
//! have run. So no client sees success for a write that no saver would find.

use nagaya_commands::table;
use nagaya_reactor::Key;
use nagaya_resp::{Limits, Parsed, RequestParser};

use super::Leases;
use crate::hot_tier::scripts::{self, Form};
use crate::proxy::env::Env;
use crate::proxy::model::in_flight::{Delivery, InFlight, Lane, Origin};
use crate::proxy::model::outbox::Outbox;
use crate::proxy::model::target::Writes;
use crate::proxy::upstream::Upstream;

const UNKNOWN: &str = "ERR the write could not be registered in time; the command may have run";
const LATE: &str = "ERR the answer came too late; the command may have run";

/// Marks a tag whose registration failed: writes behind it may have run without one.
pub(super) struct Unregistered {
    connection: Key,
    /// How many requests of the connection must be over.
    until: u64,
}

/// A reply that is delivered once its write is registered after all.
pub(super) struct Parked {
    delivery: Delivery,
    reply: Vec<u8>,
    lease_end_us: u64,
}

/// What to do with a reply that came under a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyCheck {
    Deliver,
    /// The client gets this error instead.
    Fail(&'static str),
    /// It is delivered later, or fails.
    HeldBack,
}

impl Leases {
    /// Processes the reply to a registration.
    pub(crate) fn on_registered(&mut self, upstream: &Upstream, tag: Key, reply: &[u8]) {
        if reply[0] != b'-' {
            return;
        }
        tracing::debug!(reply = %String::from_utf8_lossy(reply), "a registration failed");
        self.drop_lease(tag);
        // The connection is not known here, so every one that carries requests of the tag is concerned.
        for (connection, until) in upstream.connections_with(tag) {
            self.unregistered.insert(tag, Unregistered { connection, until });
        }
    }

    /// Ends a lease before its time.
    fn drop_lease(&mut self, tag: Key) {
        if let Some(tag) = self.tags.get_mut(tag) {
            tag.lease_end_us = 0;
            tag.registered.clear();
        }
    }

    /// Decides whether a reply may be delivered as it is.
    #[inline]
    pub(crate) fn check_reply(
        &mut self,
        upstream: &mut Upstream,
        env: &Env<'_>,
        in_flight: &InFlight,
        connection: Key,
        reply: &[u8],
    ) -> ReplyCheck {
        if env.now_us > in_flight.lease_end_us.saturating_add(self.allowance_us) {
            env.shared.metrics.late.add(1);
            return ReplyCheck::Fail(LATE);
        }
        if self.unregistered.is_empty() || !in_flight.writes || reply[0] == b'-' {
            return ReplyCheck::Deliver;
        }
        self.check_registered(upstream, env, in_flight, connection, reply)
    }

    #[cold]
    fn check_registered(
        &mut self,
        upstream: &mut Upstream,
        env: &Env<'_>,
        in_flight: &InFlight,
        connection: Key,
        reply: &[u8],
    ) -> ReplyCheck {
        let (Some(answered), Some(tag)) = (upstream.answered(connection), in_flight.tag) else {
            return ReplyCheck::Deliver;
        };
        match self.unregistered.get(&tag) {
            Some(entry) if entry.connection == connection && answered <= entry.until => {}
            Some(entry) if entry.connection == connection => {
                self.unregistered.remove(&tag);
                return ReplyCheck::Deliver;
            }
            _ => return ReplyCheck::Deliver,
        }
        let delivery = in_flight.delivery;
        if !matches!(delivery.origin, Origin::Client { .. } | Origin::Part { .. }) {
            return ReplyCheck::Fail(UNKNOWN);
        }
        let bytes = upstream.bytes_of(connection, in_flight).unwrap_or_default();
        let Some(request) = self.registration(env, tag, bytes) else {
            return ReplyCheck::Fail(UNKNOWN);
        };
        let node = in_flight.slot.and_then(|slot| upstream.nodes.owner(slot));
        let Some(connection) = node.and_then(|node| upstream.shared_connection(env, node, Lane::default()))
        else {
            return ReplyCheck::Fail(UNKNOWN);
        };
        let parked = self.parked.insert(Parked {
            delivery,
            reply: reply.to_vec(),
            lease_end_us: in_flight.lease_end_us,
        });
        let delivery = env.delivery(Origin::RegisterAgain { parked }, false);
        let registration = InFlight {
            lease_end_us: in_flight.lease_end_us,
            ..env.in_flight(delivery, in_flight.slot)
        };
        upstream.send(env, connection, &request, registration);
        ReplyCheck::HeldBack
    }

    /// Returns the registration of a request's writes with the whole script, which works on a node that does
    /// not have the script.
    fn registration(&self, env: &Env<'_>, tag: Key, bytes: &[u8]) -> Option<Vec<u8>> {
        let tag = self.tags.get(tag)?;
        let mut parser = RequestParser::default();
        let Ok(Parsed::Complete { .. }) = parser.parse(bytes, &Limits::default()) else {
            return None;
        };
        let args = parser.args(bytes);
        let target =
            table::find_request(&args).and_then(|command| env.rules.target_of_sent(command, &args).ok());
        if target.as_ref().is_some_and(|target| !target.others.is_empty()) {
            return None;
        }
        let writes = target.map_or(Writes::None, |target| target.writes);
        let names = writes.as_slice().iter().copied();
        let call = scripts::register(&tag.name, env.shared.tokens.draw(), names);
        let mut request = Vec::new();
        call.encode(Form::Source, &mut request);
        Some(request)
    }

    /// Delivers the reply that waited for its registration.
    pub(crate) fn on_registered_again(
        &mut self,
        outbox: &mut Outbox,
        env: &Env<'_>,
        parked: Key,
        reply: &[u8],
    ) {
        let Some(parked) = self.parked.remove(parked) else {
            return;
        };
        let is_in_time = env.now_us <= parked.lease_end_us.saturating_add(self.allowance_us);
        if reply[0] != b'-' && is_in_time {
            outbox.push(parked.delivery.origin, parked.reply);
        } else {
            outbox.fail(parked.delivery.origin, UNKNOWN);
        }
    }
}
