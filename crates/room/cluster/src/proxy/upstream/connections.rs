//! Opens connections to nodes, shares and closes them.

use nagaya_reactor::{Interest, Key};

use super::handshake::{TOLD_ELSEWHERE, connect, handshake, is_locked_out};
use super::node_connection::{HandshakeStep, NodeConnection, Purpose, State};
use super::{Upstream, UpstreamEvent};
use crate::proxy::env::Env;
use crate::proxy::model::in_flight::{InFlight, Lane, Origin, Pending};
use crate::proxy::model::reply::{info_field, int, run_digest};

/// The first pause after a connection could not be opened; it doubles up to the longest, which is short
/// enough to notice a restarted node at once.
const RETRY_FIRST_US: u64 = 20_000;
const RETRY_LONGEST_US: u64 = 500_000;
/// Free connections for single clients that are kept per node and protocol: enough for a few clients that
/// block again and again.
const IDLE_MAX: usize = 16;

impl Upstream {
    /// Returns the connection to a node that all clients share. It is opened if necessary; none while the
    /// node cannot be reached.
    #[inline]
    pub(crate) fn shared_connection(&mut self, env: &Env<'_>, node: usize, lane: Lane) -> Option<Key> {
        match self.nodes.list[node].shared[lane.number()] {
            Some(key) => Some(key),
            None => self.open_shared(env, node, lane),
        }
    }

    fn open_shared(&mut self, env: &Env<'_>, node: usize, lane: Lane) -> Option<Key> {
        let is_told_elsewhere = lane.is_tracked && lane != Lane::TELLING;
        if is_told_elsewhere && self.nodes.list[node].telling_id.is_none() {
            // In RESP2 the node has to be told which connection gets the messages.
            self.shared_connection(env, node, Lane::TELLING);
            return None;
        }
        self.open(env, node, Purpose::Shared(lane))
    }

    /// Returns the shared RESP2 connection to a node, opened if necessary, once its handshake is over.
    pub(crate) fn ready_connection(&mut self, env: &Env<'_>, node: usize) -> Option<Key> {
        let key = self.shared_connection(env, node, Lane::default())?;
        let connection = self.connections.get(key)?;
        (connection.state == State::Ready).then_some(key)
    }

    /// Returns a connection for one client.
    pub(crate) fn dedicated_connection(
        &mut self,
        env: &Env<'_>,
        node: usize,
        resp3: bool,
        client: Key,
    ) -> Option<Key> {
        let purpose = Purpose::Dedicated {
            client: Some(client),
            resp3,
        };
        while let Some(key) = self.nodes.list[node].idle[usize::from(resp3)].pop() {
            if let Some(connection) = self.connections.get_mut(key) {
                connection.purpose = purpose;
                return Some(key);
            }
        }
        self.open(env, node, purpose)
    }

    /// Returns a connection for messages of channels.
    pub(crate) fn pubsub_connection(&mut self, env: &Env<'_>, node: usize) -> Option<Key> {
        self.open(env, node, Purpose::PubSub)
    }

    /// Returns a connection for messages about every key that changes.
    pub(crate) fn broadcast_connection(&mut self, env: &Env<'_>, node: usize) -> Option<Key> {
        self.open(env, node, Purpose::Broadcast)
    }

    /// Keeps a connection that its client does not need any more.
    pub(crate) fn give_back(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let Purpose::Dedicated { resp3, .. } = connection.purpose else {
            return;
        };
        connection.purpose = Purpose::Dedicated { client: None, resp3 };
        let idle = &mut self.nodes.list[connection.node].idle[usize::from(resp3)];
        if connection.in_flight.is_empty() && idle.len() < IDLE_MAX {
            idle.push(key);
        } else {
            self.connections.remove(key);
        }
    }

    /// Closes a client's own connection, if it has one, with all that is under way on it.
    pub(crate) fn close(&mut self, key: Option<Key>) {
        if let Some(connection) = key.and_then(|key| self.connections.remove(key)) {
            for in_flight in &connection.in_flight {
                if let Origin::Transaction { transaction } = in_flight.delivery.origin {
                    self.events.push_back(UpstreamEvent::Dropped { transaction });
                }
            }
        }
    }

    pub(crate) fn is_open(&self, key: Key) -> bool {
        self.connections.is_live(key)
    }

    /// Returns the node of a connection.
    pub(crate) fn node_of(&self, key: Key) -> Option<usize> {
        self.connections.get(key).map(|connection| connection.node)
    }

    pub(crate) fn purpose_of(&self, key: Key) -> Option<Purpose> {
        self.connections.get(key).map(|connection| connection.purpose)
    }

    fn open(&mut self, env: &Env<'_>, number: usize, purpose: Purpose) -> Option<Key> {
        let node = &self.nodes.list[number];
        if node.retry_at_us > env.now_us {
            return None;
        }
        let shared = env.shared;
        let transport = match connect(shared, &node.info) {
            Ok(transport) => transport,
            Err(error) => {
                self.could_not_connect(env, number, &error.to_string());
                return None;
            }
        };
        let key = self.connections.reserve();
        let interest = Interest::READ_WRITE.edge();
        if self.poller.add(&transport, key.token(true), interest).is_err() {
            self.connections.remove(key);
            return None;
        }
        shared.metrics.connects.add(1);
        let handshake = handshake(env, purpose, self.nodes.list[number].telling_id);
        let connection = NodeConnection::new(transport, number, purpose, handshake, env.now_us);
        self.connections.put(key, Box::new(connection));
        if let Purpose::Shared(lane) = purpose {
            self.nodes.list[number].shared[lane.number()] = Some(key);
        }
        self.mark(key);
        Some(key)
    }

    /// Processes a reply of the handshake; returns false if the connection is of no use.
    pub(super) fn on_handshake_reply(&mut self, env: &Env<'_>, key: Key, reply: &[u8]) -> bool {
        let Some(connection) = self.connections.get_mut(key) else {
            return false;
        };
        let Some(step) = connection.handshake_steps.pop_front() else {
            return false;
        };
        let (number, is_done) = (connection.node, connection.handshake_steps.is_empty());
        let purpose = connection.purpose;
        if is_done {
            connection.state = State::Ready;
            connection.ready_us = env.now_us;
        }
        let node = &mut self.nodes.list[number];
        if reply.first() == Some(&b'-') && (step != HandshakeStep::Optional || is_locked_out(reply)) {
            let reason = String::from_utf8_lossy(reply.trim_ascii()).into_owned();
            tracing::warn!(node = node.info.name, reason, "a node refused the login");
            self.lose(env, key, &reason);
            return false;
        }
        match step {
            HandshakeStep::Required | HandshakeStep::Optional => {}
            HandshakeStep::RunId => node.run_id = info_field(reply, "run_id").unwrap_or_default(),
            HandshakeStep::ReplicationId => {
                let replication_id = info_field(reply, "master_replid").unwrap_or_default();
                node.run = Some(run_digest(&node.run_id, replication_id));
            }
            HandshakeStep::ClientId => node.telling_id = int(reply),
        }
        if is_done {
            node.failures = 0;
            self.mark(key);
            self.events.push_back(UpstreamEvent::Ready { purpose });
        }
        true
    }

    /// Ends a connection. Requests that were not written wait for their slots again when this returns, in
    /// their order; those that were written get an error, because they may have run.
    pub(crate) fn lose(&mut self, env: &Env<'_>, key: Key, reason: &str) {
        let Some(mut connection) = self.connections.remove(key) else {
            return;
        };
        let number = connection.node;
        let node = &mut self.nodes.list[number];
        for shared in &mut node.shared {
            if *shared == Some(key) {
                *shared = None;
            }
        }
        let was_idle = matches!(connection.purpose, Purpose::Dedicated { client: None, .. });
        node.epoch += u64::from(!was_idle);
        if connection.purpose == Purpose::Shared(Lane::default()) {
            node.run = None;
        }
        let mut told_here = None;
        if connection.purpose == Purpose::Shared(Lane::TELLING) {
            node.telling_id = None;
            told_here = node.shared[TOLD_ELSEWHERE.number()];
        }
        if connection.state == State::Handshake {
            self.could_not_connect(env, number, reason);
        } else if !was_idle {
            let node = self.nodes.name(number);
            let commands = connection.in_flight.len();
            tracing::info!(node, reason, commands, "connection to a node lost");
        }
        env.shared.refresher.ask();
        let unwritten = connection.take_unwritten();
        // A transaction whose EXEC was not written has not run, even if a part of it was written.
        let transactions = transactions_of(&unwritten);
        let name = self.nodes.name(number);
        let text = format!("ERR backend connection to {name} lost ({reason}); the command may have run");
        for in_flight in connection.in_flight.drain(..) {
            let origin = in_flight.delivery.origin;
            if matches!(origin, Origin::Transaction { transaction } if transactions.contains(&transaction)) {
                continue;
            }
            env.shared.metrics.lost.add(1);
            self.fail(origin, text.clone());
        }
        self.requeue(env, unwritten, connection.purpose, reason);
        let (node, purpose) = (connection.node, connection.purpose);
        self.events.push_back(UpstreamEvent::Lost {
            connection: key,
            node,
            purpose,
        });
        if let Some(told_here) = told_here {
            self.lose(env, told_here, "the connection that tells of its reads is gone");
        }
    }

    /// Puts requests off that were not written, in their order.
    fn requeue(
        &mut self,
        env: &Env<'_>,
        unwritten: Vec<(InFlight, Vec<u8>)>,
        purpose: Purpose,
        reason: &str,
    ) {
        let mut last = None;
        for (in_flight, bytes) in unwritten {
            match in_flight.delivery.origin {
                Origin::Transaction { transaction } => {
                    if last.replace(transaction) != Some(transaction) {
                        self.requeue_transaction(env, transaction, &in_flight, purpose);
                    }
                }
                _ => self.retry_later(env, bytes, &in_flight, reason),
            }
        }
    }

    /// Puts a transaction off whose EXEC was not written. One that watches keys ends with its connection.
    fn requeue_transaction(
        &mut self,
        env: &Env<'_>,
        transaction: Key,
        in_flight: &InFlight,
        purpose: Purpose,
    ) {
        match purpose {
            Purpose::Shared(_) => {
                self.delay_pending(env, Pending::Transaction(transaction), in_flight.slot);
            }
            Purpose::Dedicated { .. } | Purpose::PubSub | Purpose::Broadcast => {
                self.events.push_back(UpstreamEvent::Unsent { transaction });
            }
        }
    }

    /// Takes requests back that were admitted under a lease which ended before they were written.
    fn take_back_stale(&mut self, env: &Env<'_>, key: Key, now_us: u64) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if !connection.has_stale_unwritten(now_us) {
            return;
        }
        let unwritten = connection.take_unwritten();
        let purpose = connection.purpose;
        let last_written = connection.in_flight.back().map(|last| last.delivery.origin);
        let cuts_transaction = unwritten.first().is_some_and(|(first, _)| {
            let origin = first.delivery.origin;
            matches!(origin, Origin::Transaction { .. }) && last_written == Some(origin)
        });
        let mut last = None;
        for (in_flight, bytes) in unwritten {
            let delivery = in_flight.delivery;
            match delivery.origin {
                Origin::Transaction { transaction } => {
                    if last.replace(transaction) != Some(transaction) {
                        self.requeue_transaction(env, transaction, &in_flight, purpose);
                    }
                }
                Origin::Client { .. } | Origin::Part { .. } => {
                    self.delay(env, bytes, delivery, in_flight.slot);
                }
                origin => {
                    let text = "TRYAGAIN the lease ended before the command could be sent";
                    self.fail(origin, text.to_owned());
                }
            }
        }
        if cuts_transaction {
            // A part of a transaction was written: commands of others must not complete it.
            self.lose(env, key, "a lease ended in the middle of a transaction");
        }
    }

    /// Writes to the connections that have something to write.
    pub(crate) fn flush(&mut self, env: &Env<'_>) {
        let dirty = std::mem::take(&mut self.dirty);
        if dirty.is_empty() {
            return;
        }
        let has_tiers = env.has_tiers();
        let now_us = if has_tiers {
            env.shared.server.clock.steady_us()
        } else {
            env.now_us
        };
        for key in dirty {
            if has_tiers {
                self.take_back_stale(env, key, now_us);
            }
            let Some(connection) = self.connections.get_mut(key) else {
                continue;
            };
            connection.in_dirty = false;
            if let Err(error) = connection.flush() {
                self.lose(env, key, &error.to_string());
            }
        }
    }

    /// Has a connection written to at the end of the turn.
    pub(crate) fn mark(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key)
            && !connection.in_dirty
        {
            connection.in_dirty = true;
            self.dirty.push(key);
        }
    }

    /// Closes connections to nodes that have no slots any more.
    pub(super) fn close_unused(&mut self) {
        for (number, node) in self.nodes.list.iter_mut().enumerate() {
            if self.nodes.primaries.contains(&number) {
                continue;
            }
            for shared in &mut node.shared {
                let is_quiet = |key| {
                    self.connections
                        .get(key)
                        .is_some_and(|connection| connection.in_flight.is_empty())
                };
                if let Some(key) = shared.filter(|key| is_quiet(*key)) {
                    self.connections.remove(key);
                    *shared = None;
                    node.epoch += 1;
                }
            }
        }
    }

    fn could_not_connect(&mut self, env: &Env<'_>, number: usize, reason: &str) {
        let node = &mut self.nodes.list[number];
        let pause_us = (RETRY_FIRST_US << node.failures.min(8)).min(RETRY_LONGEST_US);
        node.failures += 1;
        node.retry_at_us = env.now_us + pause_us;
        tracing::debug!(node = node.info.name, reason, "could not connect to a node");
        env.shared.refresher.ask();
    }
}

/// Returns the transactions that unwritten requests belong to.
fn transactions_of(unwritten: &[(InFlight, Vec<u8>)]) -> Vec<Key> {
    let origins = unwritten.iter().map(|(in_flight, _)| in_flight.delivery.origin);
    let mut transactions: Vec<Key> = origins
        .filter_map(|origin| match origin {
            Origin::Transaction { transaction } => Some(transaction),
            _ => None,
        })
        .collect();
    transactions.dedup();
    transactions
}
