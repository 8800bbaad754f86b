//! A transaction on its way: from MULTI to EXEC in one piece.
//!
//! A node that refuses one of its commands because the slot has moved refuses the EXEC
//! too, so the whole can be sent to the right node: it never runs in part.

use nagaya_reactor::{Key, Slab};
use nagaya_resp::Proto;

use crate::proxy::env::Env;
use crate::proxy::forwarder::Forwarder;
use crate::proxy::model::in_flight::{Delivery, InFlight, Origin, Pending};
use crate::proxy::model::redirect::Redirect;
use crate::proxy::model::reply::{elements_of, encoded};
use crate::proxy::model::session::ReadPause;
use crate::proxy::model::sessions::Sessions;
use crate::proxy::model::target::{Target, Writes};

/// The transactions on their way.
#[derive(Default)]
pub(crate) struct Transactions {
    transactions: Slab<Box<Transaction>>,
}

/// A transaction on its way.
pub(super) struct Transaction {
    pub(super) delivery: Delivery,
    pub(super) client: Key,
    pub(super) slot: Option<u16>,
    pub(super) tag: Option<Vec<u8>>,
    /// Its other tags; some may be named more than once.
    pub(super) others: Vec<Vec<u8>>,
    pub(super) writes: Vec<Vec<u8>>,
    /// A script in it registers what it writes.
    pub(super) registers_itself: bool,
    /// The requests for the node, EXEC last.
    pub(super) requests: Vec<Vec<u8>>,
    /// The replies of commands that are answered here, by their place among all.
    pub(super) answered: Vec<(usize, Vec<u8>)>,
    /// The connection that watches.
    pub(super) pinned: Option<Key>,
    /// It was sent before, so what waits for its slot comes after it.
    pub(super) goes_first: bool,
    /// The node that an ASK redirect named.
    pub(super) asked: Option<usize>,
    /// Replies that are awaited.
    pub(super) missing: usize,
    /// The first redirect among the replies, and the node that sent it.
    pub(super) redirect: Option<(Redirect, usize)>,
}

impl Transactions {
    pub(super) fn add(&mut self, transaction: Transaction) -> Key {
        self.transactions.insert(Box::new(transaction))
    }

    /// Forgets a transaction whose client is gone.
    pub(crate) fn remove(&mut self, key: Key) {
        self.transactions.remove(key);
    }

    /// Sends a transaction whole, its registrations before it.
    pub(crate) fn send(&mut self, io: &mut Forwarder, sessions: &mut Sessions, env: &Env<'_>, key: Key) {
        let Some(transaction) = self.transactions.get(key) else {
            return;
        };
        let (slot, delivery, asked) = (transaction.slot, transaction.delivery, transaction.asked);
        let upstream = &mut io.upstream;
        if let Some(slot) = slot
            && asked.is_none()
            && !transaction.goes_first
            && upstream.waits_for_slot(slot, || Pending::Transaction(key))
        {
            return;
        }
        let node = match (asked, slot) {
            (Some(node), _) => Some(node),
            (None, Some(slot)) => upstream.nodes.owner(slot),
            (None, None) => upstream.nodes.primaries.first().copied(),
        };
        let connection = match transaction.pinned {
            Some(pinned) => Some(pinned),
            None => node.and_then(|node| upstream.shared_connection(env, node, delivery.lane())),
        };
        let Some(connection) = connection else {
            return self.retry_or_fail(io, sessions, env, key);
        };
        if !upstream.is_open(connection) {
            return self.end(io, sessions, key, nil_of(delivery));
        }
        let mut in_flight = env.in_flight(delivery, slot);
        if let Some(target) = transaction.target() {
            match io.lease_for(env, &target, connection, || Pending::Transaction(key)) {
                Some(lease) => in_flight = lease.on(in_flight),
                None => return,
            }
        }
        self.send_on(io, env, key, connection, in_flight);
    }

    /// Returns how a client is to be read from behind a transaction of its that has yet to be sent.
    pub(super) fn pause_behind(&self, io: &Forwarder, env: &Env<'_>, key: Key) -> ReadPause {
        let target = self
            .transactions
            .get(key)
            .and_then(|transaction| transaction.target());
        match target {
            Some(target) => io.pause_behind(env, &target),
            None => ReadPause::None,
        }
    }

    fn send_on(&mut self, io: &mut Forwarder, env: &Env<'_>, key: Key, connection: Key, in_flight: InFlight) {
        let Some(transaction) = self.transactions.get_mut(key) else {
            return;
        };
        transaction.missing = transaction.requests.len();
        transaction.redirect = None;
        if transaction.asked.is_some() {
            let asking = Delivery {
                origin: Origin::Discard,
                ..transaction.delivery
            };
            let asking = env.in_flight(asking, in_flight.slot);
            io.upstream.send(env, connection, &encoded(&[b"ASKING"]), asking);
        }
        let delivery = Delivery {
            origin: Origin::Transaction { transaction: key },
            ..transaction.delivery
        };
        for request in &transaction.requests {
            let in_flight = InFlight {
                delivery,
                ..in_flight
            };
            io.upstream.send(env, connection, request, in_flight);
        }
    }

    /// Processes the next reply of a transaction.
    pub(crate) fn on_reply(
        &mut self,
        io: &mut Forwarder,
        sessions: &mut Sessions,
        env: &Env<'_>,
        key: Key,
        reply: &[u8],
    ) {
        let Some(transaction) = self.transactions.get_mut(key) else {
            return;
        };
        transaction.missing = transaction.missing.saturating_sub(1);
        let is_lost =
            reply.starts_with(b"-ERR backend connection") || reply.starts_with(b"-CLUSTERDOWN node");
        if is_lost {
            return self.end(io, sessions, key, reply.to_vec());
        }
        if transaction.redirect.is_none()
            && reply[0] == b'-'
            && let Some(redirect) = Redirect::of(reply)
        {
            let pinned = transaction.pinned.and_then(|key| io.upstream.node_of(key));
            let owner = transaction.slot.and_then(|slot| io.upstream.nodes.owner(slot));
            let node = pinned.or(transaction.asked).or(owner);
            transaction.redirect = Some((redirect, node.unwrap_or(0)));
        }
        if transaction.missing > 0 {
            return;
        }
        if reply[0] != b'-' {
            let reply = transaction.whole_reply(reply);
            return self.end(io, sessions, key, reply);
        }
        let delivery = transaction.delivery;
        match transaction.redirect.take() {
            None => self.end(io, sessions, key, reply.to_vec()),
            // What was watched is on another node now and may have changed.
            Some(_) if transaction.pinned.is_some() => self.end(io, sessions, key, nil_of(delivery)),
            Some(_) if env.now_us >= delivery.give_up_us => self.end(io, sessions, key, reply.to_vec()),
            Some((redirect, from)) => self.follow(io, sessions, env, key, (redirect, from)),
        }
    }

    fn follow(
        &mut self,
        io: &mut Forwarder,
        sessions: &mut Sessions,
        env: &Env<'_>,
        key: Key,
        (redirect, from): (Redirect, usize),
    ) {
        let Some(transaction) = self.transactions.get_mut(key) else {
            return;
        };
        transaction.asked = None;
        transaction.delivery = transaction.delivery.next_attempt();
        env.shared.refresher.ask();
        match redirect {
            Redirect::Moved { slot, target } => {
                env.shared.metrics.redirects.add(1);
                if let Some(target) = io.upstream.nodes.redirected(&target, from) {
                    io.upstream.slot_moved(slot, from, target);
                    transaction.goes_first = true;
                    return self.send(io, sessions, env, key);
                }
            }
            Redirect::Ask { target, .. } if !env.has_tiers() => {
                env.shared.metrics.redirects.add(1);
                transaction.asked = io.upstream.nodes.redirected(&target, from);
                if transaction.asked.is_some() {
                    return self.send(io, sessions, env, key);
                }
            }
            Redirect::Ask { .. } | Redirect::NotNow => {}
        }
        let slot = transaction.slot;
        io.upstream.delay_pending(env, Pending::Transaction(key), slot);
    }

    /// Retries a transaction soon whose node cannot be reached, or fails it after its time.
    fn retry_or_fail(&mut self, io: &mut Forwarder, sessions: &mut Sessions, env: &Env<'_>, key: Key) {
        env.shared.refresher.ask();
        let Some(transaction) = self.transactions.get(key) else {
            return;
        };
        if env.now_us < transaction.delivery.give_up_us {
            let slot = transaction.slot;
            io.upstream.delay_pending(env, Pending::Transaction(key), slot);
        } else {
            let text = "CLUSTERDOWN the node of the transaction cannot be reached";
            self.fail(io, sessions, key, text);
        }
    }

    /// Ends a transaction that could not be sent.
    pub(crate) fn fail(&mut self, io: &mut Forwarder, sessions: &mut Sessions, key: Key, text: &str) {
        self.end(io, sessions, key, format!("-{text}\r\n").into_bytes());
    }

    /// Ends a transaction whose connection was lost with the keys that it watched, before the EXEC was
    /// written.
    pub(crate) fn on_unsent(&mut self, io: &mut Forwarder, sessions: &mut Sessions, key: Key) {
        if let Some(transaction) = self.transactions.get(key) {
            let nil = nil_of(transaction.delivery);
            self.end(io, sessions, key, nil);
        }
    }

    fn end(&mut self, io: &mut Forwarder, sessions: &mut Sessions, key: Key, reply: Vec<u8>) {
        let Some(transaction) = self.transactions.remove(key) else {
            return;
        };
        io.outbox.push(transaction.delivery.origin, reply);
        if transaction.pinned.is_some() {
            unpin(io, sessions, transaction.client);
        }
    }
}

/// Ends a client's WATCH after its EXEC.
fn unpin(io: &mut Forwarder, sessions: &mut Sessions, client: Key) {
    if let Some(session) = sessions.get_mut(client) {
        if let Some(watch) = session.watch.take()
            && let Some(connection) = watch.connection
        {
            io.upstream.give_back(connection);
        }
        sessions.release(client);
    }
}

impl Transaction {
    /// Returns its target; none without keys.
    fn target(&self) -> Option<Target<'_>> {
        let tag = self.tag.as_ref()?;
        let mut others: Vec<&[u8]> = Vec::new();
        for other in self.others.iter().filter(|other| *other != tag) {
            if !others.contains(&other.as_slice()) {
                others.push(other);
            }
        }
        Some(Target {
            slot: self.slot.unwrap_or(0),
            tag: Some(tag),
            others,
            writes: Writes::Many(self.writes.iter().map(Vec::as_slice).collect()),
            registers_itself: self.registers_itself,
        })
    }

    /// Puts the replies of commands that were answered here between those of the node.
    fn whole_reply(&self, reply: &[u8]) -> Vec<u8> {
        if self.answered.is_empty() || reply.starts_with(b"*-1") || reply[0] == b'_' {
            return reply.to_vec();
        }
        let mut elements = elements_of(reply);
        for (place, answered) in &self.answered {
            elements.insert((*place).min(elements.len()), answered);
        }
        let mut whole = format!("*{}\r\n", elements.len()).into_bytes();
        elements
            .iter()
            .for_each(|element| whole.extend_from_slice(element));
        whole
    }
}

fn nil_of(delivery: Delivery) -> Vec<u8> {
    let proto = if delivery.resp3 {
        Proto::Resp3
    } else {
        Proto::Resp2
    };
    nil_array(proto).to_vec()
}

/// Returns the reply to an EXEC whose watched keys have changed.
pub(super) fn nil_array(proto: Proto) -> &'static [u8] {
    match proto {
        Proto::Resp2 => b"*-1\r\n",
        Proto::Resp3 => b"_\r\n",
    }
}
