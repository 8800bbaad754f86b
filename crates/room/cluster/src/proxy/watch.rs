//! WATCH and UNWATCH.
//!
//! WATCH takes a connection of its own, and the EXEC goes there. When that is lost, or
//! the slot moves, the watched keys may have changed: EXEC replies as if they had.

use nagaya_resp::Proto;

use super::model::client_state::Watch;
use super::model::in_flight::{Delivery, Origin, Pending};
use super::model::redirect::Redirect;
use super::model::request::{Handled, Request};
use super::model::session::{ReadPause, Session};
use super::model::target::{KeyScope, Refusal, Target, Writes};
use super::slab::Key;
use super::worker::Worker;

impl Worker<'_> {
    /// Watches keys from now on, on a connection of the client's own.
    pub(super) fn watch_keys(&mut self, session: &mut Session, request: &Request<'_>) -> Handled {
        if session.queue.is_some() {
            self.reply_error(session, "ERR WATCH inside MULTI is not allowed");
            return Handled::Done;
        }
        if !session.ring.is_empty() {
            return Handled::TooEarly;
        }
        let target = match self.rules.target(request.command, &request.args) {
            Ok(target) => target,
            Err(refusal) => {
                self.reply_error(session, &refusal.text());
                return Handled::Done;
            }
        };
        let tag = target.tag.unwrap_or_default();
        let give_up_us = self.now_us + self.shared.config.retry_for.as_micros() as u64;
        let pending = Some((request.bytes.to_vec(), give_up_us));
        match &mut session.watch {
            Some(watch) => {
                let fits = match self.rules.key_scope {
                    KeyScope::OneTag => watch.tag == tag,
                    KeyScope::OneSlot => watch.slot == target.slot,
                    KeyScope::Anywhere => true,
                };
                if !fits {
                    self.reply_error(session, &Refusal::CrossSlot.text());
                    return Handled::Done;
                }
                watch.pending = pending;
            }
            None => {
                session.watch = Some(Box::new(Watch {
                    tag: tag.to_vec(),
                    slot: target.slot,
                    connection: None,
                    holds_any: false,
                    lost: false,
                    pending,
                }));
            }
        }
        session.pause = ReadPause::Busy;
        self.send_soon(Pending::Watch(request.client));
        Handled::Done
    }

    pub(super) fn send_watch(&mut self, client: Key) {
        let Some(mut session) = self.clients.take(client) else {
            return;
        };
        self.send_watch_of(client, &mut session);
        self.clients.put(client, session);
    }

    fn send_watch_of(&mut self, client: Key, session: &mut Session) {
        let resp3 = session.client.proto() == Proto::Resp3;
        let Some(watch) = &mut session.watch else {
            return;
        };
        let Some((bytes, give_up_us)) = watch.pending.clone() else {
            return;
        };
        let origin = Origin::Watched { client };
        if watch.lost {
            // EXEC will tell; nothing more is needed of the servers.
            return self.deliver_later(origin, b"+OK\r\n".to_vec());
        }
        let pending = || Pending::Watch(client);
        if self.waits_for_slot(watch.slot, pending) {
            return;
        }
        let connection = match watch.connection {
            Some(connection) => Some(connection),
            None => {
                let node = self.nodes.owner(watch.slot);
                node.and_then(|node| self.dedicated_connection(node, resp3, client))
            }
        };
        let Some(connection) = connection else {
            self.shared.refresher.ask();
            if self.now_us < give_up_us {
                return self.send_after_pause(pending());
            }
            return self.fail(origin, "CLUSTERDOWN the node of the key cannot be reached");
        };
        watch.connection = Some(connection);
        let delivery = Delivery {
            give_up_us,
            ..self.delivery(origin, resp3)
        };
        let target = Target {
            slot: watch.slot,
            tag: Some(&watch.tag),
            writes: Writes::None,
        };
        let mut in_flight = self.in_flight(delivery, watch.slot);
        match self.lease_for(&target, connection, pending) {
            Some(lease) => in_flight = lease.on(in_flight),
            None => return,
        }
        self.send_on(connection, &bytes, in_flight);
    }

    /// Takes the reply to a WATCH.
    pub(super) fn on_watched(&mut self, client: Key, reply: &[u8]) {
        let Some(session) = self.clients.get_mut(client) else {
            if self.clients.is_live(client) {
                self.deliver_later(Origin::Watched { client }, reply.to_vec());
            }
            return;
        };
        let Some(watch) = &mut session.watch else {
            return;
        };
        let Some((_, give_up_us)) = watch.pending else {
            return;
        };
        if reply[0] == b'-'
            && let Some(redirect) = Redirect::of(reply)
            && self.now_us < give_up_us
        {
            // What was watched before is forgotten with its connection.
            watch.lost |= watch.holds_any;
            let connection = watch.connection.take();
            return self.follow_watch(client, connection, &redirect);
        }
        watch.pending = None;
        watch.holds_any |= reply[0] == b'+';
        session.reply(reply);
        self.mark_client(client);
        self.release(client);
    }

    fn follow_watch(&mut self, client: Key, connection: Option<Key>, redirect: &Redirect) {
        let from = connection.and_then(|key| Some(self.backends.get(key)?.node));
        if let (Redirect::Moved { slot, target }, Some(from)) = (redirect, from)
            && let Some(target) = self.nodes.redirected(target, from)
        {
            self.slot_moved(*slot, from, target);
        }
        self.shared.refresher.ask();
        if let Some(connection) = connection {
            self.close_backend(connection);
        }
        self.send_after_pause(Pending::Watch(client));
    }

    /// Forgets what a client watches.
    pub(super) fn end_watch(&mut self, session: &mut Session) {
        if let Some(watch) = session.watch.take()
            && let Some(connection) = watch.connection
        {
            self.close_backend(connection);
        }
    }

    /// The connection that was one client's own is gone.
    pub(super) fn dedicated_lost(&mut self, client: Key, connection: Key) {
        if let Some(session) = self.clients.get_mut(client)
            && let Some(watch) = &mut session.watch
            && watch.connection == Some(connection)
        {
            watch.connection = None;
            watch.lost |= watch.holds_any;
        }
    }
}
