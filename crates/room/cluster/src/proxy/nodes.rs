//! The nodes, which slots they have, and the connections to them.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use nagaya_resp::encode_request;

use super::model::Map;
use super::model::in_flight::Origin;
use super::model::layout::{Layout, NodeInfo, Place, SLOTS};
use super::model::reply::{info_field, run_digest};
use super::model::session::ReadPause;
use super::node_connection::{HandshakeStep, NodeConnection, Purpose, State};
use super::slab::Key;
use super::transport::Transport;
use super::worker::Worker;
use crate::hot_tier::run::RunDigest;

/// Nobody has the slot, as far as we know.
const NOBODY: u16 = u16::MAX;
/// The first pause after a connection could not be opened; doubles up to the longest.
const RETRY_FIRST_US: u64 = 20_000;
const RETRY_LONGEST_US: u64 = 500_000;
/// Connections for single clients that are kept per node.
const IDLE_MAX: usize = 16;
/// What CLIENT LIST on the servers shows.
const NAME: &[u8] = b"nagaya-room";

/// One node.
pub(crate) struct Node {
    pub(crate) info: NodeInfo,
    /// The connections that all clients share: RESP2, RESP3.
    pub(crate) shared: [Option<Key>; 2],
    /// Connections for single clients, in RESP2 and RESP3, that nobody uses now.
    idle: [Vec<Key>; 2],
    /// Grows when a connection to it is lost; leases of earlier epochs are over.
    pub(crate) epoch: u64,
    /// Which life of the node the connection began with, once it is known.
    pub(crate) run: Option<RunDigest>,
    pub(crate) run_id: String,
    retry_at_us: u64,
    failures: u32,
}

/// All nodes that were ever heard of, by number.
pub(crate) struct Nodes {
    pub(crate) list: Vec<Node>,
    by_name: Map<String, usize>,
    owner: Box<[u16]>,
    /// Those that have slots.
    pub(crate) primaries: Vec<usize>,
    /// Why the layout is not known, while it is not.
    pub(crate) layout_error: Option<String>,
}

impl Default for Nodes {
    fn default() -> Self {
        Nodes {
            list: Vec::new(),
            by_name: Map::default(),
            owner: vec![NOBODY; SLOTS].into_boxed_slice(),
            primaries: Vec::new(),
            layout_error: None,
        }
    }
}

impl Nodes {
    /// Returns the node that has a slot.
    #[inline]
    pub(crate) fn owner(&self, slot: u16) -> Option<usize> {
        let owner = self.owner[usize::from(slot)];
        (owner != NOBODY).then_some(usize::from(owner))
    }

    pub(crate) fn set_owner(&mut self, slot: u16, node: usize) {
        self.owner[usize::from(slot)] = node as u16;
        if !self.primaries.contains(&node) {
            self.primaries.push(node);
        }
    }

    /// Returns the number of a node, new or known.
    fn number(&mut self, info: &NodeInfo) -> usize {
        if let Some(&known) = self.by_name.get(&info.name) {
            // The same name may lead elsewhere now.
            self.list[known].info = info.clone();
            return known;
        }
        self.list.push(Node {
            info: info.clone(),
            shared: [None; 2],
            idle: [Vec::new(), Vec::new()],
            epoch: 0,
            run: None,
            run_id: String::new(),
            retry_at_us: 0,
            failures: 0,
        });
        self.by_name.insert(info.name.clone(), self.list.len() - 1);
        self.list.len() - 1
    }

    /// Finds the node that a redirect names; one with only a port is at the host that said so.
    pub(crate) fn redirected(&mut self, target: &str, from: usize) -> Option<usize> {
        let (host, port) = target.rsplit_once(':')?;
        let host = if host.is_empty() || host == "?" {
            self.list[from].info.host.clone()
        } else {
            host.to_owned()
        };
        let name = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        if let Some(&known) = self.by_name.get(&name) {
            return Some(known);
        }
        // A name has to be resolved, which takes a new layout.
        let ip: IpAddr = host.parse().ok()?;
        let place = Place::Tcp(SocketAddr::new(ip, port.parse().ok()?));
        Some(self.number(&NodeInfo { name, host, place }))
    }
}

impl Worker<'_> {
    /// Takes over a layout. A slot that goes to another node waits until all that was sent for it to the
    /// one before has been answered, so that later requests do not overtake earlier ones.
    pub(super) fn take_layout(&mut self, layout: &Layout) {
        self.shared.metrics.layouts.add(1);
        self.nodes.layout_error = None;
        let numbers: Vec<usize> = layout.nodes.iter().map(|info| self.nodes.number(info)).collect();
        let mut owner = vec![NOBODY; SLOTS];
        for &(first, last, node) in &layout.ranges {
            owner[usize::from(first)..=usize::from(last)].fill(numbers[node] as u16);
        }
        for (slot, &new) in owner.iter().enumerate() {
            let old = self.nodes.owner[slot];
            if old != new && old != NOBODY {
                self.hold_slot(slot as u16, usize::from(old));
            }
        }
        self.nodes.owner = owner.into_boxed_slice();
        let mut primaries: Vec<(u16, usize)> = layout
            .ranges
            .iter()
            .map(|&(first, _, node)| (first, numbers[node]))
            .collect();
        primaries.sort_unstable();
        self.nodes.primaries.clear();
        for (_, node) in primaries {
            if !self.nodes.primaries.contains(&node) {
                self.nodes.primaries.push(node);
            }
        }
        self.end_pauses();
        self.release_those_without_nodes();
        self.layout_changed();
        self.close_unused();
    }

    /// Tells whether the nodes are still being asked for.
    pub(super) fn knows_no_nodes(&self) -> bool {
        self.nodes.primaries.is_empty() && self.nodes.layout_error.is_none()
    }

    fn release_those_without_nodes(&mut self) {
        for key in self.clients.keys() {
            let session = self.clients.get(key);
            if session.is_some_and(|session| session.pause == ReadPause::UntilNodes) {
                self.release(key);
            }
        }
    }

    pub(super) fn layout_failed(&mut self, reason: &str) {
        if self.nodes.layout_error.as_deref() != Some(reason) {
            tracing::warn!(reason, "the layout of the servers could not be read");
        }
        self.nodes.layout_error = Some(reason.to_owned());
        self.release_those_without_nodes();
    }

    /// Returns the connection to a node that all clients share, opened if need be; nothing while the node
    /// cannot be reached.
    #[inline]
    pub(super) fn shared_connection(&mut self, node: usize, resp3: bool) -> Option<Key> {
        match self.nodes.list[node].shared[usize::from(resp3)] {
            Some(key) => Some(key),
            None => self.open_backend(node, Purpose::Shared { resp3 }),
        }
    }

    /// Returns a connection for one client.
    pub(super) fn dedicated_connection(&mut self, node: usize, resp3: bool, client: Key) -> Option<Key> {
        let purpose = Purpose::Dedicated {
            client: Some(client),
            resp3,
        };
        while let Some(key) = self.nodes.list[node].idle[usize::from(resp3)].pop() {
            if let Some(backend) = self.backends.get_mut(key) {
                backend.purpose = purpose;
                return Some(key);
            }
        }
        self.open_backend(node, purpose)
    }

    /// Keeps a connection that its client needs no more.
    pub(super) fn give_back(&mut self, key: Key) {
        let Some(backend) = self.backends.get_mut(key) else {
            return;
        };
        let Purpose::Dedicated { resp3, .. } = backend.purpose else {
            return;
        };
        backend.purpose = Purpose::Dedicated { client: None, resp3 };
        let idle = &mut self.nodes.list[backend.node].idle[usize::from(resp3)];
        if backend.in_flight.is_empty() && idle.len() < IDLE_MAX {
            idle.push(key);
        } else {
            self.backends.remove(key);
        }
    }

    pub(super) fn open_backend(&mut self, number: usize, purpose: Purpose) -> Option<Key> {
        let node = &self.nodes.list[number];
        if node.retry_at_us > self.now_us {
            return None;
        }
        let tls = self
            .shared
            .tls
            .as_ref()
            .map(|config| (config, node.info.host.as_str()));
        let transport = match Transport::connecting(&node.info.place, tls, self.shared.unheard_limit()) {
            Ok(transport) => transport,
            Err(error) => {
                self.could_not_connect(number, &error.to_string());
                return None;
            }
        };
        let key = self.backends.reserve();
        if !self.watch(&transport, key.token(true)) {
            self.backends.remove(key);
            return None;
        }
        self.shared.metrics.connects.add(1);
        let handshake = self.handshake(purpose);
        let backend = NodeConnection::new(transport, number, purpose, handshake, self.now_us);
        self.backends.put(key, Box::new(backend));
        if let Purpose::Shared { resp3 } = purpose {
            self.nodes.list[number].shared[usize::from(resp3)] = Some(key);
        }
        self.mark_backend(key);
        Some(key)
    }

    fn handshake(&self, purpose: Purpose) -> (Vec<u8>, VecDeque<HandshakeStep>) {
        let (mut bytes, mut handshake_steps) = (Vec::new(), VecDeque::new());
        let url = &self.shared.config.redis;
        let mut say = |step, words: &[&[u8]]| {
            encode_request(words, &mut bytes);
            handshake_steps.push_back(step);
        };
        if let Some(password) = &url.password {
            let password = password.reveal().as_bytes();
            match &url.user {
                Some(user) => say(HandshakeStep::Needed, &[b"AUTH", user.as_bytes(), password]),
                None => say(HandshakeStep::Needed, &[b"AUTH", password]),
            }
        }
        let resp3 = matches!(
            purpose,
            Purpose::Shared { resp3: true } | Purpose::Dedicated { resp3: true, .. }
        );
        if resp3 {
            say(HandshakeStep::Needed, &[b"HELLO", b"3"]);
        }
        if url.db != 0 {
            say(HandshakeStep::Needed, &[b"SELECT", url.db.to_string().as_bytes()]);
        }
        if self.leases.is_some() && purpose != Purpose::PubSub {
            for script in crate::hot_tier::scripts::all() {
                if matches!(script.name, "touch" | "register") {
                    say(
                        HandshakeStep::Wanted,
                        &[b"SCRIPT", b"LOAD", script.source.as_bytes()],
                    );
                }
            }
            if purpose == (Purpose::Shared { resp3: false }) {
                say(HandshakeStep::RunId, &[b"INFO", b"server"]);
                say(HandshakeStep::ReplicationId, &[b"INFO", b"replication"]);
            }
        }
        say(HandshakeStep::Wanted, &[b"CLIENT", b"SETNAME", NAME]);
        (bytes, handshake_steps)
    }

    /// Takes a reply of the login; false when the connection is of no use.
    pub(super) fn on_handshake_reply(&mut self, key: Key, reply: &[u8]) -> bool {
        let Some(backend) = self.backends.get_mut(key) else {
            return false;
        };
        let Some(step) = backend.handshake_steps.pop_front() else {
            return false;
        };
        let (number, is_done) = (backend.node, backend.handshake_steps.is_empty());
        if is_done {
            backend.state = State::Ready;
            backend.ready_us = self.now_us;
        }
        let node = &mut self.nodes.list[number];
        if reply.first() == Some(&b'-') && (step != HandshakeStep::Wanted || is_locked_out(reply)) {
            let reason = String::from_utf8_lossy(reply.trim_ascii()).into_owned();
            tracing::warn!(node = node.info.name, reason, "a node refused the login");
            self.lose(key, &reason);
            return false;
        }
        match step {
            HandshakeStep::Needed | HandshakeStep::Wanted => {}
            HandshakeStep::RunId => node.run_id = info_field(reply, "run_id").unwrap_or_default(),
            HandshakeStep::ReplicationId => {
                let replication_id = info_field(reply, "master_replid").unwrap_or_default();
                node.run = Some(run_digest(&node.run_id, replication_id));
            }
        }
        if is_done {
            self.nodes.list[number].failures = 0;
            self.backend_ready(key);
        }
        true
    }

    /// Ends a connection that nobody needs any more, with whatever is under way on it.
    pub(super) fn close_backend(&mut self, key: Key) {
        if let Some(backend) = self.backends.remove(key) {
            for in_flight in &backend.in_flight {
                if let Origin::Transaction { transaction } = in_flight.delivery.origin {
                    self.transactions.remove(transaction);
                }
            }
        }
    }

    /// Ends a connection: what was not written goes elsewhere, what was gets an error, because nobody knows
    /// whether it ran.
    pub(super) fn lose(&mut self, key: Key, reason: &str) {
        let Some(mut backend) = self.backends.remove(key) else {
            return;
        };
        let number = backend.node;
        let node = &mut self.nodes.list[number];
        for shared in &mut node.shared {
            if *shared == Some(key) {
                *shared = None;
            }
        }
        let was_idle = matches!(backend.purpose, Purpose::Dedicated { client: None, .. });
        node.epoch += u64::from(!was_idle);
        if backend.purpose == (Purpose::Shared { resp3: false }) {
            node.run = None;
        }
        if backend.state == State::Handshake {
            self.could_not_connect(number, reason);
        } else if !was_idle {
            let name = self.nodes.list[number].info.name.as_str();
            tracing::info!(
                node = name,
                reason,
                commands = backend.in_flight.len(),
                "connection to a node lost"
            );
        }
        self.shared.refresher.ask();
        let unwritten = backend.take_unwritten();
        // A transaction whose EXEC was not written has not run, whatever of it was.
        let transactions = self.call_back_transactions(&unwritten);
        let name = self.nodes.list[number].info.name.clone();
        let text = format!("ERR backend connection to {name} lost ({reason}); the command may have run");
        for in_flight in backend.in_flight.drain(..) {
            if matches!(in_flight.delivery.origin, Origin::Transaction { transaction } if transactions.contains(&transaction))
            {
                continue;
            }
            self.shared.metrics.lost.add(1);
            self.fail(in_flight.delivery.origin, &text);
        }
        for (in_flight, bytes) in unwritten {
            self.try_later(bytes, &in_flight, reason);
        }
        if backend.purpose == Purpose::PubSub {
            self.subscriptions_lost(key, backend.node);
        }
        if let Purpose::Dedicated {
            client: Some(client), ..
        } = backend.purpose
        {
            self.dedicated_lost(client, key);
        }
        self.release_slots();
    }

    /// Closes connections to nodes that have no slots any more.
    fn close_unused(&mut self) {
        for (number, node) in self.nodes.list.iter_mut().enumerate() {
            if self.nodes.primaries.contains(&number) {
                continue;
            }
            for shared in &mut node.shared {
                let is_quiet = |key| {
                    self.backends
                        .get(key)
                        .is_some_and(|backend| backend.in_flight.is_empty())
                };
                if let Some(key) = shared.filter(|key| is_quiet(*key)) {
                    self.backends.remove(key);
                    *shared = None;
                    node.epoch += 1;
                }
            }
        }
    }

    /// Returns a node that can be asked what any can answer: always the same one while it can be reached, so
    /// that messages are published where they are listened for and keep their order.
    pub(super) fn any_node(&self) -> Option<usize> {
        let primaries = &self.nodes.primaries;
        let reachable = primaries
            .iter()
            .find(|node| self.nodes.list[**node].retry_at_us <= self.now_us);
        reachable.or(primaries.first()).copied()
    }

    fn could_not_connect(&mut self, number: usize, reason: &str) {
        let node = &mut self.nodes.list[number];
        let pause_us = (RETRY_FIRST_US << node.failures.min(8)).min(RETRY_LONGEST_US);
        node.failures += 1;
        node.retry_at_us = self.now_us + pause_us;
        tracing::debug!(node = node.info.name, reason, "could not connect to a node");
        self.shared.refresher.ask();
    }

    /// Gives up connections whose replies or whose login take too long.
    pub(super) fn check_deadlines(&mut self) {
        let reply_us = self.shared.config.reply_limit.as_micros() as u64;
        let connect_us = self.shared.config.connect_limit.as_micros() as u64;
        for key in self.backends.keys() {
            let Some(backend) = self.backends.get(key) else {
                continue;
            };
            let late = match (backend.state, backend.in_flight.front()) {
                (State::Handshake, _) => backend.opened_us + connect_us < self.now_us,
                (State::Ready, None) => false,
                // It waits on purpose, and has a deadline of its own.
                (State::Ready, Some(in_flight))
                    if matches!(in_flight.delivery.origin, Origin::Blocked { .. }) =>
                {
                    false
                }
                (State::Ready, Some(in_flight)) => {
                    in_flight.queued_us.max(backend.ready_us) + reply_us < self.now_us
                }
            };
            if late {
                self.lose(key, "no answer in time");
            }
        }
        self.shared.open_nodes.store(
            self.nodes
                .list
                .iter()
                .filter(|node| node.shared[0].is_some())
                .count(),
            Ordering::Relaxed,
        );
    }
}

/// Tells whether a node will take no command of ours.
fn is_locked_out(reply: &[u8]) -> bool {
    let refusals: [&[u8]; 3] = [b"-ERR max number of clients", b"-NOAUTH", b"-DENIED"];
    refusals.iter().any(|text| reply.starts_with(text))
}
