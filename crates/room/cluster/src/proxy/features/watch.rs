//! WATCH and UNWATCH.
//!
//! WATCH takes a connection of its own, and the EXEC goes there. When that is lost, or
//! the slot moves, the watched keys may have changed: EXEC replies as if they had.

use nagaya_reactor::Key;
use nagaya_resp::Proto;

use crate::proxy::env::Env;
use crate::proxy::forwarder::Forwarder;
use crate::proxy::model::client_state::Watch;
use crate::proxy::model::in_flight::{Delivery, Origin, Pending};
use crate::proxy::model::redirect::Redirect;
use crate::proxy::model::request::{Handled, Request};
use crate::proxy::model::session::{ReadPause, Session};
use crate::proxy::model::sessions::Sessions;
use crate::proxy::model::target::{KeyScope, Refusal, Target, Writes};

/// Watches keys from now on, on a connection of the client's own.
pub(crate) fn start(
    io: &mut Forwarder,
    env: &Env<'_>,
    session: &mut Session,
    request: &Request<'_>,
) -> Handled {
    if session.queue.is_some() {
        session.reply_error("ERR WATCH inside MULTI is not allowed");
        return Handled::Done;
    }
    if !session.ring.is_empty() {
        return Handled::TooEarly;
    }
    let target = match env.rules.target(request.command, &request.args) {
        Ok(target) => target,
        Err(refusal) => {
            session.reply_error(&refusal.text());
            return Handled::Done;
        }
    };
    let tag = target.tag.unwrap_or_default();
    let pending = Some((request.bytes.to_vec(), env.give_up_us()));
    match &mut session.watch {
        Some(watch) => {
            let fits = match env.rules.key_scope {
                KeyScope::OneTag => watch.tag == tag,
                KeyScope::OneSlot => watch.slot == target.slot,
                KeyScope::Anywhere | KeyScope::Tags => true,
            };
            if !fits {
                session.reply_error(&Refusal::CrossSlot.text());
                return Handled::Done;
            }
            let new = std::iter::once(&tag).chain(&target.others);
            watch.others.extend(new.map(|tag| tag.to_vec()));
            watch.pending = pending;
        }
        None => {
            session.watch = Some(Box::new(Watch {
                tag: tag.to_vec(),
                others: target.others.iter().map(|tag| tag.to_vec()).collect(),
                slot: target.slot,
                connection: None,
                holds_any: false,
                lost: false,
                pending,
            }));
        }
    }
    session.pause = ReadPause::Busy;
    io.upstream.send_soon(env, Pending::Watch(request.client));
    Handled::Done
}

/// Sends the WATCH of a client.
pub(crate) fn send(io: &mut Forwarder, sessions: &mut Sessions, env: &Env<'_>, client: Key) {
    let Some(session) = sessions.get_mut(client) else {
        return;
    };
    let resp3 = session.client.proto() == Proto::Resp3;
    let Some(watch) = &mut session.watch else {
        return;
    };
    let Some((bytes, give_up_us)) = watch.pending.clone() else {
        return;
    };
    let origin = Origin::Watched { client };
    if watch.lost {
        // The EXEC will fail anyway, so the servers are not asked.
        return io.outbox.push(origin, b"+OK\r\n".to_vec());
    }
    let pending = || Pending::Watch(client);
    let upstream = &mut io.upstream;
    if upstream.waits_for_slot(watch.slot, pending) {
        return;
    }
    let node = upstream.nodes.owner(watch.slot);
    let connection = watch
        .connection
        .or_else(|| node.and_then(|node| upstream.dedicated_connection(env, node, resp3, client)));
    let Some(connection) = connection else {
        env.shared.refresher.ask();
        if env.now_us < give_up_us {
            return upstream.send_after_pause(env, pending());
        }
        return io
            .outbox
            .fail(origin, "CLUSTERDOWN the node of the key cannot be reached");
    };
    watch.connection = Some(connection);
    let delivery = Delivery {
        give_up_us,
        ..env.delivery(origin, resp3)
    };
    let target = Target {
        slot: watch.slot,
        tag: Some(&watch.tag),
        others: watch.others.iter().map(Vec::as_slice).collect(),
        writes: Writes::None,
        registers_itself: false,
    };
    if let Some(lease) = io.lease_for(env, &target, connection, pending) {
        let in_flight = lease.on(env.in_flight(delivery, Some(watch.slot)));
        io.upstream.send(env, connection, &bytes, in_flight);
    }
}

/// Processes the reply to a WATCH.
pub(crate) fn on_reply(
    io: &mut Forwarder,
    sessions: &mut Sessions,
    env: &Env<'_>,
    client: Key,
    reply: &[u8],
) {
    let Some(session) = sessions.get_mut(client) else {
        if sessions.is_live(client) {
            io.outbox.push(Origin::Watched { client }, reply.to_vec());
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
        && env.now_us < give_up_us
    {
        // The keys watched before are forgotten with their connection.
        watch.lost |= watch.holds_any;
        let connection = watch.connection.take();
        return follow(io, env, client, connection, &redirect);
    }
    watch.pending = None;
    watch.holds_any |= reply[0] == b'+';
    session.append_reply(reply);
    sessions.mark(client);
    sessions.release(client);
}

fn follow(io: &mut Forwarder, env: &Env<'_>, client: Key, connection: Option<Key>, redirect: &Redirect) {
    let upstream = &mut io.upstream;
    let from = connection.and_then(|key| upstream.node_of(key));
    if let (Redirect::Moved { slot, target }, Some(from)) = (redirect, from)
        && let Some(target) = upstream.nodes.redirected(target, from)
    {
        upstream.slot_moved(*slot, from, target);
    }
    env.shared.refresher.ask();
    upstream.close(connection);
    upstream.send_after_pause(env, Pending::Watch(client));
}

/// Notes that a client's own connection is gone, and what was watched on it.
pub(crate) fn on_connection_lost(sessions: &mut Sessions, client: Key, connection: Key) {
    if let Some(session) = sessions.get_mut(client)
        && let Some(watch) = &mut session.watch
        && watch.connection == Some(connection)
    {
        watch.connection = None;
        watch.lost |= watch.holds_any;
    }
}
