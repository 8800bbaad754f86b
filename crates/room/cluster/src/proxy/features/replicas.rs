//! WAIT, as a command that blocks its client: see [`Replicas`].

use std::collections::VecDeque;
use std::sync::Arc;

use nagaya_resp::{ArgVec, parse_i64};

use crate::proxy::env::Env;
use crate::proxy::forwarder::Forwarder;
use crate::proxy::model::client_state::{Blocked, Timeout};
use crate::proxy::model::in_flight::Pending;
use crate::proxy::model::layout::SLOTS;
use crate::proxy::model::replicas::Replicas;
use crate::proxy::model::request::{Handled, Request};
use crate::proxy::model::session::{ReadPause, Session};
use crate::proxy::upstream::Nodes;

/// Begins to ask the nodes that a client has written to.
pub(crate) fn start(
    io: &mut Forwarder,
    env: &Env<'_>,
    session: &mut Session,
    request: &Request<'_>,
) -> Handled {
    if !session.ring.is_empty() {
        return Handled::TooEarly;
    }
    let timeout_ms = match timeout_ms(request) {
        Ok(timeout_ms) => timeout_ms,
        Err(text) => {
            session.reply_error(text);
            return Handled::Done;
        }
    };
    let nodes = &io.upstream.nodes;
    if nodes.are_unknown() {
        return Handled::NoNodes;
    }
    let all = nodes
        .primaries
        .iter()
        .filter_map(|node| slot_of_node(nodes, *node));
    let mut left = session.written_slots.one_per_node(|slot| nodes.owner(slot), all);
    let Some(slot) = left.pop_front() else {
        session.reply_error("CLUSTERDOWN no node is known");
        return Handled::Done;
    };
    session.blocked = Some(Box::new(Blocked {
        args: ArgVec::from(&request.args),
        bytes: request.bytes.to_vec(),
        timeout: Some(Timeout::Milliseconds(2)),
        slot,
        tag: None,
        others: Vec::new(),
        writes: Vec::new(),
        deadline_us: match timeout_ms {
            0 => u64::MAX,
            limit_ms => env.now_us.saturating_add(limit_ms.saturating_mul(1000)),
        },
        connection: None,
        is_cut: false,
        give_up_us: env.give_up_us(),
        wake_up_us: 0,
        waiter: Arc::clone(&session.client.shared),
        ends: VecDeque::new(),
        replicas: Some(Replicas::new(left)),
    }));
    session.pause = ReadPause::Busy;
    io.upstream.send_soon(env, Pending::Blocked(request.client));
    Handled::Done
}

/// Returns how long a WAIT may take, zero for ever; fails with the text of an error reply.
fn timeout_ms(request: &Request<'_>) -> Result<u64, &'static str> {
    let word = |at: usize| request.args.get(at).and_then(parse_i64);
    word(1).ok_or("ERR value is not an integer or out of range")?;
    let timeout_ms = word(2).ok_or("ERR timeout is not an integer or out of range")?;
    u64::try_from(timeout_ms).map_err(|_| "ERR timeout is negative")
}

fn slot_of_node(nodes: &Nodes, node: usize) -> Option<u16> {
    (0..SLOTS as u16).find(|slot| nodes.owner(*slot) == Some(node))
}
