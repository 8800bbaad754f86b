//! The way of a reply from a node to its receiver.

use nagaya_reactor::Key;

use super::features::{flush, scripts, tag_commands, watch};
use super::leases::ReplyCheck;
use super::model::in_flight::{InFlight, Origin, QueuedRequest};
use super::worker::Worker;

impl Worker<'_> {
    #[inline]
    pub(super) fn on_reply(&mut self, key: Key, in_flight: &InFlight, reply: &[u8]) {
        if reply[0] == b'-' && self.is_sent_again(key, in_flight, reply) {
            return;
        }
        if in_flight.tag.is_some()
            && let Some(leases) = &mut self.io.leases
        {
            match leases.check_reply(&mut self.io.upstream, &self.env, in_flight, key, reply) {
                ReplyCheck::Deliver => {}
                ReplyCheck::HeldBack => return,
                ReplyCheck::Fail(text) => return self.io.outbox.fail(in_flight.delivery.origin, text),
            }
        }
        if reply[0] == b'-'
            && self.env.has_tiers()
            && let Some(error) = self.env.shared.scripts.restore_hash(reply)
        {
            return self.deliver(in_flight.delivery.origin, &error);
        }
        self.deliver(in_flight.delivery.origin, reply);
    }

    /// Sends a request again if the error reply says that it did not run; returns false if its client is to
    /// see the error.
    fn is_sent_again(&mut self, key: Key, in_flight: &InFlight, reply: &[u8]) -> bool {
        let origin = in_flight.delivery.origin;
        if !matches!(origin, Origin::Client { .. } | Origin::Part { .. }) {
            return false;
        }
        let is_awaited = self.sessions.awaits(origin);
        if self.env.has_tiers() && reply.starts_with(b"-NOSCRIPT") {
            let bytes = self.io.upstream.bytes_of(key, in_flight);
            let Some(bytes) = bytes.and_then(|bytes| scripts::as_eval(&self.env, bytes)) else {
                return false;
            };
            let delivery = in_flight.delivery.next_attempt();
            if is_awaited {
                self.io
                    .resubmit_first(&self.env, QueuedRequest { bytes, delivery });
            }
            return true;
        }
        self.io
            .follow_redirect(&self.env, key, in_flight, reply, is_awaited)
    }

    /// Delivers a reply to its receiver.
    #[inline]
    pub(super) fn deliver(&mut self, origin: Origin, reply: &[u8]) {
        match origin {
            Origin::Client { client, place } => {
                let pipeline_max = self.env.shared.config.pipeline_max;
                if !self.sessions.fill(client, place, reply, pipeline_max) {
                    self.io.outbox.push(origin, reply.to_vec());
                }
            }
            other => self.deliver_to_feature(other, reply),
        }
    }

    fn deliver_to_feature(&mut self, origin: Origin, reply: &[u8]) {
        let (io, sessions, env) = (&mut self.io, &mut self.sessions, &self.env);
        match origin {
            Origin::Client { .. } | Origin::Discard => {}
            Origin::Part { gather, part } => {
                let scatter = &mut self.features.scatter;
                scatter.on_part(io, env, gather, part as usize, reply);
            }
            Origin::Transaction { transaction } => {
                let transactions = &mut self.features.transactions;
                transactions.on_reply(io, sessions, env, transaction, reply);
            }
            Origin::Blocked { client } => {
                let blocking = &mut self.features.blocking;
                blocking.on_reply(io, sessions, env, client, reply);
            }
            Origin::TagCommand { client } if self.features.flushes.has(client) => {
                self.on_flushed(client, reply);
            }
            Origin::TagCommand { client } => tag_commands::end(&mut io.outbox, sessions, client, reply),
            Origin::Watched { client } => watch::on_reply(io, sessions, env, client, reply),
            Origin::Touch { .. }
            | Origin::RunId { .. }
            | Origin::ReplicationId { .. }
            | Origin::Register { .. }
            | Origin::RegisterAgain { .. } => self.deliver_to_leases(origin, reply),
        }
    }

    /// Goes on with a client's flush whose page of keys was deleted.
    fn on_flushed(&mut self, client: Key, reply: &[u8]) {
        let (io, sessions, env) = (&mut self.io, &mut self.sessions, &self.env);
        let flushes = &mut self.features.flushes;
        if reply[0] == b'-' {
            flushes.forget(client);
            return tag_commands::end(&mut io.outbox, sessions, client, reply);
        }
        let step = flushes.go_on(env, sessions, client);
        self.follow_flush(client, step);
    }

    pub(super) fn follow_flush(&mut self, client: Key, step: flush::FlushStep) {
        let (io, env) = (&mut self.io, &self.env);
        match step {
            flush::FlushStep::Delete(names) => self.features.scatter.delete(io, env, client, &names),
            flush::FlushStep::Asked => {}
            flush::FlushStep::Done => {
                tag_commands::end(&mut io.outbox, &mut self.sessions, client, b"+OK\r\n");
            }
        }
    }

    fn deliver_to_leases(&mut self, origin: Origin, reply: &[u8]) {
        let Some(leases) = &mut self.io.leases else {
            return;
        };
        let (upstream, outbox, env) = (&mut self.io.upstream, &mut self.io.outbox, &self.env);
        match origin {
            Origin::Touch { batch } => leases.on_touched(upstream, env, batch, reply),
            Origin::RunId { batch } => leases.on_run_id(batch, reply),
            Origin::ReplicationId { batch } => {
                leases.on_replication_id(upstream, env, batch, reply);
                // What waited for these tags goes before anything that comes for them later.
                self.pump();
            }
            Origin::Register { tag } => leases.on_registered(upstream, tag, reply),
            Origin::RegisterAgain { parked } => leases.on_registered_again(outbox, env, parked, reply),
            _ => {}
        }
    }
}
