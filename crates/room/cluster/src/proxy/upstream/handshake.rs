//! How a connection to a node begins: what is said to the node first, and what its replies are for.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use nagaya_reactor::Transport;
use nagaya_resp::encode_request;
use rustls::ClientConnection;

use super::node_connection::{Handshake, HandshakeStep, Purpose};
use crate::hot_tier::scripts;
use crate::proxy::env::{Env, Shared};
use crate::proxy::model::in_flight::Lane;
use crate::proxy::model::layout::NodeInfo;

/// The connection in RESP2 whose reads are told of on another one.
pub(super) const TOLD_ELSEWHERE: Lane = Lane {
    resp3: false,
    is_tracked: true,
};
/// The name of our connections in CLIENT LIST on the servers.
const NAME: &[u8] = b"nagaya-room";

/// Begins to connect to a node.
pub(super) fn connect(shared: &Shared, node: &NodeInfo) -> io::Result<Transport> {
    let tls = match &shared.tls {
        None => None,
        Some(config) => {
            let name = nagaya_net::tls::server_name(&node.host).map_err(io::Error::other)?;
            Some(ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?)
        }
    };
    Transport::connecting(&node.address, tls, shared.unacknowledged_limit())
}

/// Returns the requests that begin a connection, and how their replies are used.
pub(super) fn handshake(env: &Env<'_>, purpose: Purpose, telling_id: Option<i64>) -> Handshake {
    let (mut bytes, mut steps) = (Vec::new(), VecDeque::new());
    let url = &env.shared.config.redis;
    let mut add = |step, words: &[&[u8]]| {
        encode_request(words, &mut bytes);
        steps.push_back(step);
    };
    if let Some(password) = &url.password {
        let password = password.reveal().as_bytes();
        match &url.user {
            Some(user) => add(HandshakeStep::Required, &[b"AUTH", user.as_bytes(), password]),
            None => add(HandshakeStep::Required, &[b"AUTH", password]),
        }
    }
    let resp3 = match purpose {
        Purpose::Shared(Lane { resp3, .. }) | Purpose::Dedicated { resp3, .. } => resp3,
        Purpose::Broadcast => true,
        Purpose::PubSub => false,
    };
    if resp3 {
        add(HandshakeStep::Required, &[b"HELLO", b"3"]);
    }
    if url.db != 0 {
        add(
            HandshakeStep::Required,
            &[b"SELECT", url.db.to_string().as_bytes()],
        );
    }
    let carries_requests = !matches!(purpose, Purpose::PubSub | Purpose::Broadcast);
    if env.has_tiers() && carries_requests {
        for script in scripts::all() {
            if matches!(script.name, "touch" | "register") {
                add(
                    HandshakeStep::Optional,
                    &[b"SCRIPT", b"LOAD", script.source.as_bytes()],
                );
            }
        }
        if purpose == Purpose::Shared(Lane::default()) {
            add(HandshakeStep::RunId, &[b"INFO", b"server"]);
            add(HandshakeStep::ReplicationId, &[b"INFO", b"replication"]);
        }
    }
    add(HandshakeStep::Optional, &[b"CLIENT", b"SETNAME", NAME]);
    let tracking: &[&[u8]] = &[b"CLIENT", b"TRACKING", b"ON"];
    match (purpose, telling_id) {
        (Purpose::Broadcast, _) => add(HandshakeStep::Required, &[tracking, &[b"BCAST"]].concat()),
        (Purpose::Shared(Lane::TELLING), _) => {
            add(HandshakeStep::ClientId, &[b"CLIENT", b"ID"]);
            add(HandshakeStep::Required, tracking);
        }
        (Purpose::Shared(TOLD_ELSEWHERE), Some(id)) => {
            let id = id.to_string();
            let redirect: &[&[u8]] = &[b"REDIRECT", id.as_bytes()];
            add(HandshakeStep::Required, &[tracking, redirect].concat());
        }
        _ => {}
    }
    (bytes, steps)
}

/// Returns whether a node will run no command of ours.
pub(super) fn is_locked_out(reply: &[u8]) -> bool {
    let refusals: [&[u8]; 3] = [b"-ERR max number of clients", b"-NOAUTH", b"-DENIED"];
    refusals.iter().any(|text| reply.starts_with(text))
}
