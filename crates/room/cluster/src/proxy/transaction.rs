//! A transaction on its way: from MULTI to EXEC in one piece.
//!
//! A node that refuses one of its commands because the slot has moved refuses the EXEC
//! too, so the whole can be sent to the right node: it never runs in part.

use nagaya_resp::Proto;

use super::model::in_flight::{Delivery, InFlight, Origin, Pending};
use super::model::redirect::Redirect;
use super::model::reply::{elements_of, encoded};
use super::model::target::{Target, Writes};
use super::slab::Key;
use super::worker::Worker;

/// A transaction on its way.
pub(crate) struct Transaction {
    pub(super) delivery: Delivery,
    pub(super) client: Key,
    pub(super) slot: Option<u16>,
    pub(super) tag: Option<Vec<u8>>,
    pub(super) writes: Vec<Vec<u8>>,
    /// What is sent, one request each, EXEC last.
    pub(super) requests: Vec<Vec<u8>>,
    /// The replies of commands that run here, by their place among all.
    pub(super) told: Vec<(usize, Vec<u8>)>,
    /// The connection that watches.
    pub(super) pinned: Option<Key>,
    /// It was sent before, so what waits for its slot comes after it.
    pub(super) goes_first: bool,
    /// The node to ask by exception.
    pub(super) asked: Option<usize>,
    pub(super) missing: usize,
    pub(super) redirect: Option<(Redirect, usize)>,
}

impl Worker<'_> {
    /// Sends a transaction whole, its registrations ahead of it.
    pub(super) fn send_transaction(&mut self, key: Key) {
        let Some(transaction) = self.transactions.get(key) else {
            return;
        };
        let (slot, delivery, pinned, asked) = (
            transaction.slot,
            transaction.delivery,
            transaction.pinned,
            transaction.asked,
        );
        let goes_first = transaction.goes_first;
        if let Some(slot) = slot
            && asked.is_none()
            && !goes_first
            && self.waits_for_slot(slot, || Pending::Transaction(key))
        {
            return;
        }
        let node = match (asked, slot) {
            (Some(node), _) => Some(node),
            (None, Some(slot)) => self.nodes.owner(slot),
            (None, None) => self.nodes.primaries.first().copied(),
        };
        let connection = match pinned {
            Some(pinned) => Some(pinned),
            None => node.and_then(|node| self.shared_connection(node, delivery.resp3)),
        };
        let Some(connection) = connection else {
            return self
                .transaction_not_now(key, "CLUSTERDOWN the node of the transaction cannot be reached");
        };
        if !self.backends.is_live(connection) {
            return self.end_transaction(key, nil_of(delivery));
        }
        let mut in_flight = self.in_flight(delivery, slot.unwrap_or(0));
        let tag = self
            .transactions
            .get_mut(key)
            .and_then(|transaction| transaction.tag.take());
        if let Some(tag) = &tag {
            let writes = self
                .transactions
                .get_mut(key)
                .map_or_else(Vec::new, |transaction| std::mem::take(&mut transaction.writes));
            let names: Vec<&[u8]> = writes.iter().map(Vec::as_slice).collect();
            let target = Target {
                slot: slot.unwrap_or(0),
                tag: Some(tag),
                writes: Writes::Many(names),
            };
            let lease = self.lease_for(&target, connection, || Pending::Transaction(key));
            if let Some(transaction) = self.transactions.get_mut(key) {
                transaction.tag = Some(tag.clone());
                transaction.writes = writes;
            }
            match lease {
                Some(lease) => {
                    in_flight = InFlight {
                        ..lease.on(in_flight)
                    }
                }
                None => return,
            }
        }
        self.send_transaction_on(key, connection, in_flight);
    }

    fn send_transaction_on(&mut self, key: Key, connection: Key, in_flight: InFlight) {
        let Some(mut transaction) = self.transactions.take(key) else {
            return;
        };
        transaction.missing = transaction.requests.len();
        transaction.redirect = None;
        if transaction.asked.is_some() {
            let nobody = Delivery {
                origin: Origin::Nobody,
                ..transaction.delivery
            };
            let delivery = self.in_flight(nobody, in_flight.slot);
            self.send_on(connection, &encoded(&[b"ASKING"]), delivery);
        }
        let delivery = Delivery {
            origin: Origin::Transaction { transaction: key },
            ..transaction.delivery
        };
        for request in &transaction.requests {
            self.send_on(
                connection,
                request,
                InFlight {
                    delivery,
                    ..in_flight
                },
            );
        }
        self.transactions.put(key, transaction);
    }

    /// Takes the next reply of a transaction.
    pub(super) fn on_transaction(&mut self, key: Key, reply: &[u8]) {
        let node = {
            let Some(transaction) = self.transactions.get(key) else {
                return;
            };
            let connection = transaction.pinned;
            let pinned = connection.and_then(|key| Some(self.backends.get(key)?.node));
            pinned
                .or(transaction.asked)
                .or(transaction.slot.and_then(|slot| self.nodes.owner(slot)))
        };
        let Some(transaction) = self.transactions.get_mut(key) else {
            return;
        };
        transaction.missing = transaction.missing.saturating_sub(1);
        let is_lost =
            reply.starts_with(b"-ERR backend connection") || reply.starts_with(b"-CLUSTERDOWN node");
        if is_lost {
            return self.end_transaction(key, reply.to_vec());
        }
        if transaction.redirect.is_none()
            && reply[0] == b'-'
            && let Some(redirect) = Redirect::of(reply)
        {
            transaction.redirect = Some((redirect, node.unwrap_or(0)));
        }
        if transaction.missing > 0 {
            return;
        }
        if reply[0] != b'-' {
            let reply = transaction.whole_reply(reply);
            return self.end_transaction(key, reply);
        }
        let delivery = transaction.delivery;
        match transaction.redirect.take() {
            None => self.end_transaction(key, reply.to_vec()),
            // What was watched is on another node now and may have changed.
            Some(_) if transaction.pinned.is_some() => self.end_transaction(key, nil_of(delivery)),
            Some((redirect, from)) => self.follow_transaction(key, redirect, from, reply),
        }
    }

    fn follow_transaction(&mut self, key: Key, redirect: Redirect, from: usize, reply: &[u8]) {
        let Some(transaction) = self.transactions.get_mut(key) else {
            return;
        };
        transaction.asked = None;
        transaction.delivery.attempts = transaction.delivery.attempts.saturating_add(1);
        if self.now_us >= transaction.delivery.give_up_us {
            return self.end_transaction(key, reply.to_vec());
        }
        self.shared.refresher.ask();
        match redirect {
            Redirect::Moved { slot, target } => {
                self.shared.metrics.redirects.add(1);
                if let Some(target) = self.nodes.redirected(&target, from) {
                    self.slot_moved(slot, from, target);
                    if let Some(transaction) = self.transactions.get_mut(key) {
                        transaction.goes_first = true;
                    }
                    return self.send_transaction(key);
                }
                self.delay_transaction(key);
            }
            Redirect::Ask { target, .. } if self.leases.is_none() => {
                self.shared.metrics.redirects.add(1);
                let target = self.nodes.redirected(&target, from);
                if let Some(transaction) = self.transactions.get_mut(key) {
                    transaction.asked = target;
                }
                if target.is_some() {
                    return self.send_transaction(key);
                }
                self.delay_transaction(key);
            }
            Redirect::Ask { .. } | Redirect::NotNow => self.delay_transaction(key),
        }
    }

    fn delay_transaction(&mut self, key: Key) {
        match self.transactions.get(key).map(|transaction| transaction.slot) {
            Some(Some(slot)) => self.delay_pending(Pending::Transaction(key), slot),
            Some(None) => self.send_after_pause(Pending::Transaction(key)),
            None => {}
        }
    }

    /// Tries a transaction again soon, unless that has been done for long enough.
    fn transaction_not_now(&mut self, key: Key, text: &str) {
        self.shared.refresher.ask();
        let give_up_us = self
            .transactions
            .get(key)
            .map_or(0, |transaction| transaction.delivery.give_up_us);
        if self.now_us < give_up_us {
            self.delay_transaction(key);
        } else {
            self.end_transaction(key, format!("-{text}\r\n").into_bytes());
        }
    }

    /// Ends a transaction that could not be sent.
    pub(super) fn fail_transaction(&mut self, key: Key, text: &str) {
        self.end_transaction(key, format!("-{text}\r\n").into_bytes());
    }

    /// Takes transactions back whose EXEC was not written when their connection was lost.
    pub(super) fn call_back_transactions(&mut self, unwritten: &[(InFlight, Vec<u8>)]) -> Vec<Key> {
        let mut transactions: Vec<Key> = Vec::new();
        for (in_flight, _) in unwritten {
            if let Origin::Transaction { transaction } = in_flight.delivery.origin
                && transactions.last() != Some(&transaction)
            {
                transactions.push(transaction);
            }
        }
        for &key in &transactions {
            match self
                .transactions
                .get(key)
                .map(|transaction| (transaction.pinned, transaction.delivery))
            {
                Some((Some(_), delivery)) => self.end_transaction(key, nil_of(delivery)),
                Some((None, _)) => self.delay_transaction(key),
                None => {}
            }
        }
        transactions
    }

    fn end_transaction(&mut self, key: Key, reply: Vec<u8>) {
        let Some(transaction) = self.transactions.remove(key) else {
            return;
        };
        self.deliver_later(transaction.delivery.origin, reply);
        if transaction.pinned.is_some() {
            self.unpin(transaction.client);
        }
    }

    /// Ends a client's WATCH after its EXEC.
    fn unpin(&mut self, client: Key) {
        if let Some(mut session) = self.clients.take(client) {
            if let Some(watch) = session.watch.take()
                && let Some(connection) = watch.connection
            {
                self.give_back(connection);
            }
            self.clients.put(client, session);
            self.release(client);
        }
    }
}

impl Transaction {
    /// Puts the replies of commands that ran here between those of the node.
    fn whole_reply(&self, reply: &[u8]) -> Vec<u8> {
        if self.told.is_empty() || reply.starts_with(b"*-1") || reply[0] == b'_' {
            return reply.to_vec();
        }
        let mut elements = elements_of(reply);
        for (place, told) in &self.told {
            elements.insert((*place).min(elements.len()), told);
        }
        let mut whole = format!("*{}\r\n", elements.len()).into_bytes();
        elements
            .iter()
            .for_each(|element| whole.extend_from_slice(element));
        whole
    }
}

fn nil_of(delivery: Delivery) -> Vec<u8> {
    nil_array(if delivery.resp3 {
        Proto::Resp3
    } else {
        Proto::Resp2
    })
    .to_vec()
}

pub(super) fn nil_array(proto: Proto) -> &'static [u8] {
    match proto {
        Proto::Resp2 => b"*-1\r\n",
        Proto::Resp3 => b"_\r\n",
    }
}
