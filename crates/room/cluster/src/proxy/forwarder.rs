//! Takes requests to their nodes: past the slot queue, under the lease of their tag, to a connection.
//!
//! A request is sent again only after a reply that says it did not run (see [`Redirect`]).

use nagaya_commands::table;
use nagaya_reactor::Key;
use nagaya_resp::{Limits, Parsed, RequestParser};

use super::env::Env;
use super::leases::{Lease, Leases};
use super::model::in_flight::{Delivery, InFlight, Origin, Pending, QueuedRequest};
use super::model::outbox::Outbox;
use super::model::redirect::Redirect;
use super::model::reply::encoded;
use super::model::session::ReadPause;
use super::model::target::Target;
use super::upstream::Upstream;

/// Redirects of one request before its client gets an error, so that two nodes that disagree cannot send
/// it back and forth for ever.
const REDIRECTS_MAX: u8 = 16;
const UNREADABLE: &str = "ERR the request could not be read again";

/// How a request is handed over again.
type Submit = fn(&mut Forwarder, &Env<'_>, &[u8], Delivery, &Target<'_>);

/// The way to the nodes, and the replies that are found on it.
pub(crate) struct Forwarder {
    pub(crate) upstream: Upstream,
    /// None without the tiering protocol.
    pub(crate) leases: Option<Leases>,
    pub(crate) outbox: Outbox,
}

impl Forwarder {
    /// Sends a request to the node of its slot, behind those that wait for the slot or the tag.
    #[inline]
    pub(crate) fn submit(&mut self, env: &Env<'_>, bytes: &[u8], delivery: Delivery, target: &Target<'_>) {
        let pending = || pending_request(bytes, delivery);
        if self.upstream.waits_for_slot(target.slot, pending) {
            return;
        }
        self.submit_first(env, bytes, delivery, target);
    }

    /// As [`Forwarder::submit`], for a request that goes before those that wait for its slot.
    #[inline]
    pub(crate) fn submit_first(
        &mut self,
        env: &Env<'_>,
        bytes: &[u8],
        delivery: Delivery,
        target: &Target<'_>,
    ) {
        let node = self.upstream.nodes.owner(target.slot);
        let connection = node.and_then(|node| self.upstream.shared_connection(env, node, delivery.lane()));
        let Some(connection) = connection else {
            return self.upstream.wait_for_node(env, bytes, delivery, target.slot);
        };
        let mut in_flight = env.in_flight(delivery, Some(target.slot));
        if self.leases.is_some() && target.tag.is_some() {
            let pending = || pending_request(bytes, delivery);
            match self.lease_for(env, target, connection, pending) {
                Some(lease) => in_flight = lease.on(in_flight),
                None => return,
            }
        }
        self.upstream.send(env, connection, bytes, in_flight);
    }

    /// Returns the lease under which a request may be sent on a connection now; without one, what `pending`
    /// makes waits for it.
    #[inline]
    pub(crate) fn lease_for(
        &mut self,
        env: &Env<'_>,
        target: &Target<'_>,
        connection: Key,
        pending: impl FnOnce() -> Pending,
    ) -> Option<Lease> {
        match &mut self.leases {
            Some(leases) => leases.lease_for(&mut self.upstream, env, target, connection, pending),
            None => Some(Lease::unlimited(target)),
        }
    }

    /// Returns how a client is to be read from behind a request of its that has yet to be sent: later ones must
    /// not overtake one that waits for some of its tags.
    #[inline]
    pub(crate) fn pause_behind(&self, env: &Env<'_>, target: &Target<'_>) -> ReadPause {
        match &self.leases {
            Some(leases) if !target.others.is_empty() && !leases.holds_all(&self.upstream, env, target) => {
                ReadPause::Ordered
            }
            _ => ReadPause::None,
        }
    }

    /// Finds anew where a request goes and sends it there.
    pub(crate) fn resubmit(&mut self, env: &Env<'_>, queued: QueuedRequest) {
        self.resubmit_with(env, queued, Forwarder::submit);
    }

    /// As [`Forwarder::resubmit`], before those that wait for its slot.
    pub(crate) fn resubmit_first(&mut self, env: &Env<'_>, queued: QueuedRequest) {
        self.resubmit_with(env, queued, Forwarder::submit_first);
    }

    fn resubmit_with(&mut self, env: &Env<'_>, queued: QueuedRequest, submit: Submit) {
        let QueuedRequest { bytes, delivery } = queued;
        let mut parser = RequestParser::default();
        let limits = Limits {
            bulk_bytes_max: usize::MAX,
            args_max: usize::MAX,
            query_bytes_max: usize::MAX,
            ..Limits::default()
        };
        let Ok(Parsed::Complete { .. }) = parser.parse(&bytes, &limits) else {
            return self.outbox.fail(delivery.origin, UNREADABLE);
        };
        let args = parser.args(&bytes);
        let target = table::find_request(&args).map(|command| env.rules.target_of_sent(command, &args));
        match target {
            Some(Ok(target)) => submit(self, env, &bytes, delivery, &target),
            Some(Err(refusal)) => self.outbox.fail(delivery.origin, &refusal.text()),
            None => self.outbox.fail(delivery.origin, UNREADABLE),
        }
    }

    /// Sends a request again if the error reply says that it did not run; returns false if its client is to
    /// see the error. A request that is not awaited any more is dropped instead.
    pub(crate) fn follow_redirect(
        &mut self,
        env: &Env<'_>,
        connection: Key,
        in_flight: &InFlight,
        reply: &[u8],
        is_awaited: bool,
    ) -> bool {
        let Some(redirect) = Redirect::of(reply) else {
            return false;
        };
        let upstream = &mut self.upstream;
        let (Some(bytes), Some(node)) = (
            upstream.bytes_of(connection, in_flight).map(<[u8]>::to_vec),
            upstream.node_of(connection),
        ) else {
            return false;
        };
        let delivery = in_flight.delivery.next_attempt();
        if delivery.attempts > REDIRECTS_MAX && redirect != Redirect::NotNow {
            let last = String::from_utf8_lossy(reply[1..].trim_ascii_end()).into_owned();
            let text = format!("ERR too many redirections, the last was: {last}");
            self.outbox.fail(delivery.origin, &text);
            return true;
        }
        match redirect {
            Redirect::Moved { slot, target } => {
                env.shared.metrics.redirects.add(1);
                env.shared.refresher.ask();
                match upstream.nodes.redirected(&target, node) {
                    Some(target) => {
                        upstream.slot_moved(slot, node, target);
                        if is_awaited {
                            self.resubmit_first(env, QueuedRequest { bytes, delivery });
                        }
                    }
                    None => upstream.delay(env, bytes, delivery, Some(slot)),
                }
            }
            Redirect::Ask { slot, target } => {
                env.shared.metrics.redirects.add(1);
                match upstream.nodes.redirected(&target, node) {
                    // A write needs its registration beside it, and that may be on either node now.
                    Some(target) if self.leases.is_none() || !in_flight.writes => {
                        self.ask(env, (target, slot), &bytes, in_flight, delivery);
                    }
                    _ if env.now_us < delivery.give_up_us => {
                        upstream.delay(env, bytes, delivery, Some(slot));
                    }
                    _ => return false,
                }
            }
            Redirect::NotNow if env.now_us < delivery.give_up_us => {
                env.shared.refresher.ask();
                upstream.delay(env, bytes, delivery, in_flight.slot);
            }
            Redirect::NotNow => return false,
        }
        true
    }

    /// Sends a request to the node that a slot is moving to.
    fn ask(
        &mut self,
        env: &Env<'_>,
        (target, slot): (usize, u16),
        bytes: &[u8],
        in_flight: &InFlight,
        delivery: Delivery,
    ) {
        let upstream = &mut self.upstream;
        let Some(connection) = upstream.shared_connection(env, target, delivery.lane()) else {
            return upstream.delay(env, bytes.to_vec(), delivery, Some(slot));
        };
        let asking = Delivery {
            origin: Origin::Discard,
            ..delivery
        };
        upstream.send(
            env,
            connection,
            &encoded(&[b"ASKING"]),
            env.in_flight(asking, Some(slot)),
        );
        let in_flight = InFlight {
            delivery,
            queued_us: env.now_us,
            ..*in_flight
        };
        upstream.send(env, connection, bytes, in_flight);
    }

    /// Returns the next command that had to wait and can be sent now. It must be sent before the next one is
    /// asked for.
    pub(crate) fn next_released(&mut self, env: &Env<'_>) -> Option<Pending> {
        let granted = self.leases.as_mut().and_then(Leases::next_granted);
        granted.or_else(|| self.upstream.next_released(env))
    }

    /// Returns when something that waits is to be looked at next.
    pub(crate) fn next_wake_us(&self) -> u64 {
        let tag_us = self.leases.as_ref().map_or(u64::MAX, Leases::next_due_us);
        tag_us.min(self.upstream.next_wake_us())
    }
}

fn pending_request(bytes: &[u8], delivery: Delivery) -> Pending {
    let bytes = bytes.to_vec();
    Pending::Request(QueuedRequest { bytes, delivery })
}
