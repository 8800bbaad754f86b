//! Client-side caching: tells clients of this server when nodes say that keys have changed.
//!
//! The requests of a client that tracks go to connections on which the nodes remember what is read
//! ([`Lane::TELLING`](crate::proxy::model::in_flight::Lane::TELLING)). Each of its reads is remembered here before it is sent, so that no message about a later
//! change finds nobody to tell. A message may be about an earlier change as well, and then tells too much, which
//! is allowed. Messages to a client wait for the replies that it is owed: one that came before the value it is
//! about would leave the client with an old value for good.
//!
//! For clients in broadcast mode each node is asked for all changes, on a connection of its own.
//!
//! Whenever changes may have been missed (a connection is lost or new, slots have moved), all that the clients
//! of this worker keep is declared invalid.

use std::collections::HashSet;

use nagaya_command_spec::key_positions::each_key;
use nagaya_command_spec::spec::{Category, READONLY};
use nagaya_exec::executor::Executor;
use nagaya_exec::session::Session as ExecSession;
use nagaya_exec::session::tracking::Mode;
use nagaya_exec::tracking::end_request;
use nagaya_reactor::Key;
use nagaya_resp::{Frame, parse_frame};

use crate::hot_tier::keys::is_reserved;
use crate::proxy::env::Env;
use crate::proxy::model::Map;
use crate::proxy::model::request::Request;
use crate::proxy::model::session::Session;
use crate::proxy::model::sessions::Sessions;
use crate::proxy::upstream::{Purpose, Upstream};

/// How long nodes may be silent before they are asked whether they are alive.
const SILENCE_US: u64 = 5_000_000;
/// Most keys forgotten after one read while there are more than the limit allows.
const EVICTIONS_PER_READ: usize = 100;

/// What the clients of a worker are told of changed keys.
#[derive(Default)]
pub(crate) struct Tracking {
    /// The clients that want to be told of everything under their prefixes.
    broadcasting: HashSet<Key>,
    /// The connection to each node that tells of all changes.
    connections: Map<usize, Key>,
    /// Some client has tracked its reads.
    is_used: bool,
}

impl Tracking {
    /// Notes how a client tracks after a command that may have changed it.
    pub(crate) fn note_client(
        &mut self,
        upstream: &mut Upstream,
        env: &Env<'_>,
        client: Key,
        session: &ExecSession,
    ) {
        let mode = session.tracking.as_ref().map(|tracking| tracking.mode);
        self.is_used |= mode.is_some();
        if mode == Some(Mode::Broadcast) {
            self.broadcasting.insert(client);
            self.connect(upstream, env);
        } else {
            self.forget_client(upstream, client);
        }
    }

    pub(crate) fn forget_client(&mut self, upstream: &mut Upstream, client: Key) {
        if self.broadcasting.remove(&client) && self.broadcasting.is_empty() {
            for (_, connection) in self.connections.drain() {
                upstream.close(Some(connection));
            }
        }
    }

    /// Connects to the nodes whose changes are not told yet.
    fn connect(&mut self, upstream: &mut Upstream, env: &Env<'_>) {
        for node in upstream.nodes.primaries.clone() {
            if !self.connections.contains_key(&node)
                && let Some(connection) = upstream.broadcast_connection(env, node)
            {
                self.connections.insert(node, connection);
            }
        }
    }

    /// Processes a message about changed keys.
    pub(crate) fn on_message(&self, env: &Env<'_>, sessions: &Sessions, purpose: Purpose, message: &[u8]) {
        let Ok(Some((Frame::Push(items), _))) = parse_frame(message) else {
            return;
        };
        let [Frame::Bulk(kind), invalid] = &items[..] else {
            return;
        };
        if kind != b"invalidate" {
            return;
        }
        let Frame::Array(names) = invalid else {
            return tell_all(env, sessions);
        };
        let names = names.iter().filter_map(|name| match name {
            Frame::Bulk(name) if !is_reserved(name) => Some(name.as_slice()),
            _ => None,
        });
        let names: Vec<&[u8]> = names.collect();
        let subscribers = &env.shared.server.subscribers;
        let (tracking, clients) = (&subscribers.tracking, &subscribers.clients);
        if purpose == Purpose::Broadcast {
            return tracking.broadcast_elsewhere(clients, &names, |id| sessions.serves(id));
        }
        for name in names {
            tracking.changed_elsewhere(clients, name);
        }
    }

    /// A connection to a node can be used: what changed before that was not told on it.
    pub(crate) fn on_ready(&self, env: &Env<'_>, sessions: &Sessions, purpose: Purpose) {
        if purpose == Purpose::Broadcast {
            tell_all(env, sessions);
        }
    }

    /// A connection to a node is gone, and with it what the node would have told.
    pub(crate) fn on_lost(&mut self, env: &Env<'_>, sessions: &Sessions, connection: Key, purpose: Purpose) {
        self.connections.retain(|_, known| *known != connection);
        let tells = match purpose {
            Purpose::Broadcast => true,
            Purpose::Shared(lane) => lane.is_tracked,
            Purpose::Dedicated { .. } | Purpose::PubSub => false,
        };
        if tells {
            tell_all(env, sessions);
        }
    }

    /// Slots have gone to other nodes, which know nothing of earlier reads.
    pub(crate) fn on_slots_moved(&self, env: &Env<'_>, sessions: &Sessions) {
        if self.is_used {
            tell_all(env, sessions);
        }
    }

    /// Connects again where it is necessary, and notices silent nodes.
    pub(crate) fn tick(&mut self, upstream: &mut Upstream, env: &Env<'_>) {
        if self.is_used {
            upstream.check_telling(env, SILENCE_US);
        }
        if self.broadcasting.is_empty() {
            return;
        }
        let primaries = &upstream.nodes.primaries;
        let mut left = Vec::new();
        self.connections.retain(|node, connection| {
            let stays = primaries.contains(node);
            if !stays {
                left.push(*connection);
            }
            stays
        });
        left.into_iter()
            .for_each(|connection| upstream.close(Some(connection)));
        self.connect(upstream, env);
        for connection in self.connections.values() {
            upstream.check_silence(env, *connection, SILENCE_US);
        }
    }
}

/// Remembers the keys that a client is about to read, if it wants to be told when they change. Called before
/// the request is sent.
pub(crate) fn remember(executor: &Executor<'_>, env: &Env<'_>, session: &mut Session, request: &Request<'_>) {
    let Some(tracking) = &session.client.tracking else {
        return;
    };
    let command = request.command;
    let wanted = match tracking.mode {
        Mode::Every => true,
        Mode::OptIn => tracking.caching,
        Mode::OptOut => !tracking.caching,
        Mode::Broadcast => false,
    };
    let reads = command.spec.flags.has(READONLY) || command.spec.acl.has(Category::SCRIPTING);
    if wanted && reads {
        let subscribers = &env.shared.server.subscribers;
        // Arguments whose keys cannot be told make the command fail: it reads nothing.
        let found = each_key(command.spec, &request.args, |at, _| {
            subscribers
                .tracking
                .remember(&request.args[at], &tracking.tracker);
        });
        if found.is_ok() {
            let keys_max = executor.config().tracking_table_max_keys;
            let clients = &subscribers.clients;
            subscribers.tracking.trim(clients, keys_max, EVICTIONS_PER_READ);
        }
    }
    if session.queue.is_none() {
        end_request(&mut session.client, Some(command));
    }
}

/// Returns whether a message to a client has to wait for the replies that it is owed.
pub(crate) fn waits_for_replies(message: &[u8]) -> bool {
    message.starts_with(b">2\r\n$10\r\ninvalidate\r\n")
}

/// Declares all invalid that the clients of this worker keep.
fn tell_all(env: &Env<'_>, sessions: &Sessions) {
    let subscribers = &env.shared.server.subscribers;
    if subscribers.tracking.is_active() {
        let is_meant = |id| sessions.serves(id);
        subscribers
            .tracking
            .lost_elsewhere(&subscribers.clients, is_meant);
    }
}
