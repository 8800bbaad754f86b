//! Sends requests to nodes and reads their replies.

use std::io::ErrorKind;

use nagaya_reactor::Key;

use super::Upstream;
use super::node_connection::{Purpose, State};
use crate::proxy::env::Env;
use crate::proxy::model::in_flight::{Delivery, InFlight, Lane, Origin, Pending};

/// A reply that a node sent, lent from the buffer it was read into.
pub(crate) enum NodeReply<'b> {
    /// The reply to a request.
    Reply(InFlight, &'b [u8]),
    /// A message of a node, or a confirmation on a Pub/Sub connection.
    Message(Purpose, &'b [u8]),
}

/// What a read from a connection brought.
pub(crate) enum NodeRead {
    /// Bytes to process: those in `input`, or `read` bytes of the caller's buffer if it is empty.
    Input {
        /// The beginning of a reply that came earlier, and the new bytes behind it.
        input: Vec<u8>,
        read: usize,
        /// There may be more to read.
        more: bool,
    },
    /// The read was interrupted and has to be repeated.
    Interrupted,
    Nothing,
}

impl Upstream {
    /// Appends a request to a connection.
    #[inline]
    pub(crate) fn send(&mut self, env: &Env<'_>, connection: Key, bytes: &[u8], in_flight: InFlight) {
        let Some(open) = self.connections.get_mut(connection) else {
            return self.retry_later(env, bytes.to_vec(), &in_flight, "the connection is gone");
        };
        open.push(bytes, in_flight);
        if !open.in_dirty {
            self.mark(connection);
        }
    }

    /// Appends bytes to a Pub/Sub connection.
    pub(crate) fn send_raw(&mut self, connection: Key, bytes: &[u8]) {
        if let Some(open) = self.connections.get_mut(connection) {
            open.push_raw(bytes);
        }
        self.mark(connection);
    }

    /// Sends a request to one node, whatever slots it has. It is not retried on another one.
    pub(crate) fn send_to_node(&mut self, env: &Env<'_>, node: usize, bytes: &[u8], delivery: Delivery) {
        let delivery = Delivery {
            give_up_us: 0,
            ..delivery
        };
        match self.shared_connection(env, node, delivery.lane()) {
            Some(connection) => self.send(env, connection, bytes, env.in_flight(delivery, None)),
            None => {
                let name = self.nodes.name(node);
                let text = format!("CLUSTERDOWN node {name} cannot be reached");
                self.fail(delivery.origin, text);
            }
        }
    }

    /// Retries a request soon whose slot has no known owner, or whose node cannot be reached.
    pub(crate) fn wait_for_node(&mut self, env: &Env<'_>, bytes: &[u8], delivery: Delivery, slot: u16) {
        env.shared.refresher.ask();
        if env.now_us < delivery.give_up_us {
            return self.delay(env, bytes.to_vec(), delivery, Some(slot));
        }
        let reason = match (self.nodes.owner(slot), &self.nodes.layout_error) {
            (Some(node), _) => format!("node {} cannot be reached", self.nodes.name(node)),
            (None, Some(error)) => error.replace(['\r', '\n'], " "),
            (None, None) => format!("no node serves slot {slot}"),
        };
        self.fail(delivery.origin, format!("CLUSTERDOWN {reason}"));
    }

    /// Retries a request that was never written to its connection.
    pub(super) fn retry_later(&mut self, env: &Env<'_>, bytes: Vec<u8>, in_flight: &InFlight, reason: &str) {
        let delivery = in_flight.delivery;
        if env.now_us >= delivery.give_up_us {
            return self.fail(delivery.origin, format!("CLUSTERDOWN {reason}"));
        }
        match delivery.origin {
            Origin::Client { .. } | Origin::Part { .. } => self.delay(env, bytes, delivery, in_flight.slot),
            Origin::Blocked { client } => self.send_after_pause(env, Pending::Blocked(client)),
            Origin::Watched { client } => self.send_after_pause(env, Pending::Watch(client)),
            origin => self.fail(origin, format!("CLUSTERDOWN {reason}")),
        }
    }

    /// Reads from a connection once. The caller processes the bytes with [`Upstream::next_reply`] and hands
    /// the rest to [`Upstream::end_read`].
    pub(crate) fn read(&mut self, env: &Env<'_>, key: Key, buffer: &mut [u8]) -> NodeRead {
        let Some(connection) = self.connections.get_mut(key) else {
            return NodeRead::Nothing;
        };
        match connection.transport.read(buffer) {
            Ok(0) => self.lose(env, key, "closed by the node"),
            Ok(read) => {
                connection.heard_us = env.now_us;
                let more = read == buffer.len() || connection.transport.is_tls();
                let mut input = std::mem::take(&mut connection.input);
                if !input.is_empty() {
                    input.extend_from_slice(&buffer[..read]);
                }
                return NodeRead::Input { input, read, more };
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => return NodeRead::Interrupted,
            Err(error) => self.lose(env, key, &error.to_string()),
        }
        NodeRead::Nothing
    }

    /// Keeps the beginning of a reply that is not complete, and drops the bytes of answered requests.
    pub(crate) fn end_read(&mut self, key: Key, rest: Vec<u8>) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.input = rest;
            connection.forget_answered();
        }
    }

    /// Returns the next complete reply behind `at`, which moves on. Replies of the handshake are processed
    /// here. A connection that sends anything else is lost, and the rest of its bytes skipped.
    #[inline]
    pub(crate) fn next_reply<'b>(
        &mut self,
        env: &Env<'_>,
        key: Key,
        bytes: &'b [u8],
        at: &mut usize,
    ) -> Option<NodeReply<'b>> {
        while *at < bytes.len() {
            let Some(connection) = self.connections.get_mut(key) else {
                break;
            };
            let length = match connection.scan(&bytes[*at..]) {
                Ok(Some(length)) => length,
                Ok(None) => return None,
                Err(error) => {
                    self.lose(env, key, &format!("not a reply: {error}"));
                    break;
                }
            };
            let reply = &bytes[*at..*at + length];
            *at += length;
            if connection.state == State::Handshake {
                if !self.on_handshake_reply(env, key, reply) {
                    break;
                }
                continue;
            }
            if matches!(connection.purpose, Purpose::PubSub | Purpose::Broadcast) {
                return Some(NodeReply::Message(connection.purpose, reply));
            }
            match reply[0] {
                b'>' if connection.purpose == Purpose::Shared(Lane::TELLING) => {
                    return Some(NodeReply::Message(connection.purpose, reply));
                }
                b'>' | b'|' => continue,
                _ => {}
            }
            match connection.next_answered() {
                Some(in_flight) => return Some(NodeReply::Reply(in_flight, reply)),
                None => {
                    self.lose(env, key, "an answer that nobody asked for");
                    break;
                }
            }
        }
        *at = bytes.len();
        None
    }

    /// Returns the bytes of a request that was just answered.
    pub(crate) fn bytes_of(&self, key: Key, in_flight: &InFlight) -> Option<&[u8]> {
        Some(self.connections.get(key)?.bytes_of(in_flight))
    }

    /// Returns how many requests of a connection are over.
    pub(crate) fn answered(&self, key: Key) -> Option<u64> {
        Some(self.connections.get(key)?.answered)
    }

    /// Returns the connections that carry requests of a tag, each with the number of its requests so far.
    pub(crate) fn connections_with(&self, tag: Key) -> Vec<(Key, u64)> {
        let keys = self.connections.keys().into_iter();
        keys.filter_map(|key| {
            let connection = self.connections.get(key)?;
            let mut in_flight = connection.in_flight.iter();
            let carries = in_flight.any(|in_flight| in_flight.tag == Some(tag));
            carries.then_some((key, connection.queued))
        })
        .collect()
    }
}
