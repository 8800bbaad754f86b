//! PUBLISH and SPUBLISH: the number of receivers.
//!
//! A node replies with the number of connections that got the message. One of ours stands for all clients
//! that listen here, so our own clients are counted in place of our connections.

use nagaya_connections::pubsub::Kind;

use crate::proxy::env::Env;
use crate::proxy::model::merge::MergeRule;
use crate::proxy::model::request::Request;
use crate::proxy::upstream::Nodes;

/// Returns how the number of receivers follows from the node's reply.
pub(crate) fn receivers(
    env: &Env<'_>,
    nodes: &Nodes,
    request: &Request<'_>,
    kind: Kind,
    node: usize,
) -> MergeRule {
    let channel = request.args.get(1).unwrap_or_default();
    MergeRule::Receivers {
        clients: env.shared.server.receivers(kind, channel),
        ours: env.shared.listeners.count(nodes.name(node), kind, channel),
    }
}
