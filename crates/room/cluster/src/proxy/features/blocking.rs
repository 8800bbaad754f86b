//! Commands that wait for data: BLPOP and its kind, XREAD with BLOCK.
//!
//! Each takes a connection of its own, because nothing behind it is answered before
//! it. Under the tiering protocol it waits no longer than its lease has left, and is
//! sent again under the next one until the client's own time is up: left waiting past
//! its lease it would change a tag that no server knows to be in use.

use std::collections::VecDeque;
use std::sync::Arc;

use nagaya_command_spec::table::Command;
use nagaya_reactor::{Key, Timers};
use nagaya_resp::{ArgVec, Args, Proto, encode_request, parse_f64, parse_i64};

use crate::proxy::env::Env;
use crate::proxy::forwarder::Forwarder;
use crate::proxy::leases::Lease;
use crate::proxy::model::client_state::{Blocked, Timeout};
use crate::proxy::model::in_flight::{NO_LEASE, Origin, Pending};
use crate::proxy::model::redirect::Redirect;
use crate::proxy::model::replicas::Asked;
use crate::proxy::model::reply::{bulk, elements_of, encoded};
use crate::proxy::model::request::{Handled, Request};
use crate::proxy::model::session::{ReadPause, Session};
use crate::proxy::model::sessions::Sessions;
use crate::proxy::model::target::{Target, Writes};

/// A lease with less left than this is renewed first: a shorter wait would mostly be round trips.
const LEAST_WAIT_US: u64 = 100_000;

/// When the replies of blocking commands are overdue.
#[derive(Default)]
pub(crate) struct Blocking {
    deadlines: Timers<u64, Key>,
}

/// Begins a command that may wait.
pub(crate) fn start(
    io: &mut Forwarder,
    env: &Env<'_>,
    session: &mut Session,
    request: &Request<'_>,
) -> Handled {
    let target = match env.rules.target(request.command, &request.args) {
        Ok(target) => target,
        Err(refusal) => {
            session.reply_error(&refusal.text());
            return Handled::Done;
        }
    };
    session.written_slots.note(&target);
    if never_waits(request.command, &request.args) {
        let delivery = session.next_delivery(request.client, env.give_up_us());
        session.pause = io.pause_behind(env, &target);
        io.submit(env, request.bytes, delivery, &target);
        return Handled::Done;
    }
    if !session.ring.is_empty() {
        return Handled::TooEarly;
    }
    let timeout = timeout_of(request.command, &request.args);
    let wait_us = timeout.and_then(|timeout| wait_us(timeout, &request.args));
    session.blocked = Some(Box::new(Blocked {
        args: ArgVec::from(&request.args),
        bytes: request.bytes.to_vec(),
        timeout: wait_us.and(timeout),
        slot: target.slot,
        tag: target.tag.map(<[u8]>::to_vec),
        others: target.others.iter().map(|tag| tag.to_vec()).collect(),
        writes: target.writes.as_slice().iter().map(|key| key.to_vec()).collect(),
        deadline_us: match wait_us {
            Some(wait_us) if wait_us > 0 => env.now_us + wait_us,
            _ => u64::MAX,
        },
        connection: None,
        is_cut: false,
        give_up_us: env.give_up_us(),
        wake_up_us: 0,
        waiter: Arc::clone(&session.client.shared),
        ends: if env.has_tiers() && is_stream_read(request.command) {
            stream_ends(&request.args)
        } else {
            VecDeque::new()
        },
        replicas: None,
    }));
    session.pause = ReadPause::Busy;
    io.upstream.send_soon(env, Pending::Blocked(request.client));
    Handled::Done
}

impl Blocking {
    /// Returns when the next reply is overdue.
    pub(crate) fn next_deadline_us(&self) -> u64 {
        self.deadlines.next().unwrap_or(u64::MAX)
    }

    /// Gives up the connections of commands whose replies are overdue.
    pub(crate) fn check_deadlines(&mut self, io: &mut Forwarder, sessions: &Sessions, env: &Env<'_>) {
        while let Some((_, client)) = self.deadlines.pop_due(env.now_us) {
            let blocked = sessions.get(client).and_then(|session| session.blocked.as_ref());
            if let Some(connection) = blocked.and_then(|blocked| blocked.connection) {
                io.upstream.lose(env, connection, "no answer in time");
            }
        }
    }

    /// Sends the blocking command of a client.
    pub(crate) fn send(&mut self, io: &mut Forwarder, sessions: &mut Sessions, env: &Env<'_>, client: Key) {
        let Some(session) = sessions.get_mut(client) else {
            return;
        };
        let resp3 = session.client.proto() == Proto::Resp3;
        if let Some(blocked) = &mut session.blocked {
            self.send_blocked(io, env, client, resp3, blocked);
        }
    }

    fn send_blocked(
        &mut self,
        io: &mut Forwarder,
        env: &Env<'_>,
        client: Key,
        resp3: bool,
        blocked: &mut Blocked,
    ) {
        let pending = || Pending::Blocked(client);
        if io.upstream.waits_for_slot(blocked.slot, pending) {
            return;
        }
        let Some(connection) = connection_for(io, env, client, resp3, blocked) else {
            return;
        };
        let names: Vec<&[u8]> = blocked.writes.iter().map(Vec::as_slice).collect();
        let target = Target {
            slot: blocked.slot,
            tag: blocked.tag.as_deref(),
            others: blocked.others.iter().map(Vec::as_slice).collect(),
            writes: if names.is_empty() {
                Writes::None
            } else {
                Writes::Many(names)
            },
            registers_itself: false,
        };
        if let Some(leases) = &mut io.leases
            && leases.has_little_left(env, &target, LEAST_WAIT_US)
        {
            return leases.wait_for_next(env, &target, pending());
        }
        let Some(lease) = io.lease_for(env, &target, connection, pending) else {
            return;
        };
        let delivery = env.delivery(Origin::Blocked { client }, resp3);
        let in_flight = lease.on(env.in_flight(delivery, Some(blocked.slot)));
        if let Some((key_at, _)) = blocked.ends.front() {
            let key = &blocked.args.as_args()[*key_at];
            let bytes = encoded(&[b"XREVRANGE", key, b"+", b"-", b"COUNT", b"1"]);
            return io.upstream.send(env, connection, &bytes, in_flight);
        }
        if let Some(mark) = blocked
            .replicas
            .as_ref()
            .and_then(|asked| asked.mark(blocked.slot))
        {
            return io.upstream.send(env, connection, &mark, in_flight);
        }
        let bytes = self.bytes_to_send(env, client, blocked, &lease);
        io.upstream.send(env, connection, &bytes, in_flight);
        blocked.waiter.set_waits_elsewhere(true);
    }

    /// Returns the request with the time that it may wait under its lease, and sets its deadline.
    fn bytes_to_send(&mut self, env: &Env<'_>, client: Key, blocked: &mut Blocked, lease: &Lease) -> Vec<u8> {
        let left_us = lease.end_us.saturating_sub(env.now_us);
        let wanted_us = blocked.deadline_us.saturating_sub(env.now_us);
        blocked.is_cut = blocked.timeout.is_some() && lease.end_us != NO_LEASE && left_us < wanted_us;
        let reply_us = env.shared.config.reply_limit.as_micros() as u64;
        let wait_us = left_us.min(wanted_us);
        match blocked.timeout {
            Some(timeout) if blocked.is_cut || blocked.deadline_us != u64::MAX => {
                blocked.wake_up_us = env.now_us + wait_us.saturating_add(reply_us);
                self.deadlines.set(blocked.wake_up_us, client);
                with_timeout(&blocked.args, timeout, wait_us)
            }
            _ => blocked.bytes.clone(),
        }
    }

    /// Processes the reply to a blocking command.
    pub(crate) fn on_reply(
        &mut self,
        io: &mut Forwarder,
        sessions: &mut Sessions,
        env: &Env<'_>,
        client: Key,
        reply: &[u8],
    ) {
        let Some(session) = sessions.get_mut(client) else {
            if sessions.is_live(client) {
                io.outbox.push(Origin::Blocked { client }, reply.to_vec());
            }
            return;
        };
        let Some(blocked) = &mut session.blocked else {
            return;
        };
        self.deadlines.cancel(blocked.wake_up_us, client);
        if reply[0] == b'-'
            && env.now_us < blocked.give_up_us
            && let Some(redirect) = Redirect::of(reply)
        {
            let connection = blocked.connection.take();
            return follow(io, env, client, connection, &redirect);
        }
        if reply[0] != b'-'
            && let Some((_, id_at)) = blocked.ends.pop_front()
        {
            blocked.args = with_id(&blocked.args, id_at, &last_id(reply));
            let words: Vec<&[u8]> = blocked.args.as_args().iter().collect();
            blocked.bytes = encoded(&words);
            return io.upstream.send_soon(env, Pending::Blocked(client));
        }
        let mut reply = reply;
        let least;
        if let Some(asked) = &mut blocked.replicas {
            match asked.on_reply(reply) {
                Asked::Same => return io.upstream.send_soon(env, Pending::Blocked(client)),
                Asked::Next(slot) => {
                    blocked.slot = slot;
                    if let Some(connection) = blocked.connection.take() {
                        io.upstream.give_back(connection);
                    }
                    return io.upstream.send_soon(env, Pending::Blocked(client));
                }
                Asked::Done(counted) => {
                    least = counted;
                    reply = &least;
                }
            }
        }
        if is_nil(reply) && blocked.is_cut && env.now_us < blocked.deadline_us {
            return io.upstream.send_soon(env, Pending::Blocked(client));
        }
        if let Some(connection) = blocked.connection {
            io.upstream.give_back(connection);
        }
        session.blocked = None;
        session.client.shared.set_waits_elsewhere(false);
        session.reply(reply);
        sessions.mark(client);
        sessions.release(client);
    }

    /// Ends the wait of a client that is gone.
    pub(crate) fn end(&mut self, io: &mut Forwarder, client: Key, session: &mut Session) {
        if let Some(blocked) = session.blocked.take() {
            self.deadlines.cancel(blocked.wake_up_us, client);
            io.upstream.close(blocked.connection);
        }
    }
}

/// Returns a connection to the node of a blocking command, the same as before if possible. Without one the
/// command is retried or fails.
fn connection_for(
    io: &mut Forwarder,
    env: &Env<'_>,
    client: Key,
    resp3: bool,
    blocked: &mut Blocked,
) -> Option<Key> {
    let upstream = &mut io.upstream;
    let node = upstream.nodes.owner(blocked.slot);
    let kept = blocked.connection;
    let kept = kept.filter(|key| node.is_some() && upstream.node_of(*key) == node);
    let connection =
        kept.or_else(|| node.and_then(|node| upstream.dedicated_connection(env, node, resp3, client)));
    match connection {
        Some(connection) => blocked.connection = Some(connection),
        None => {
            env.shared.refresher.ask();
            if env.now_us < blocked.give_up_us {
                upstream.send_after_pause(env, Pending::Blocked(client));
            } else {
                let text = "CLUSTERDOWN the node of the keys cannot be reached";
                io.outbox.fail(Origin::Blocked { client }, text);
            }
        }
    }
    connection
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
    if let Some(connection) = connection {
        upstream.give_back(connection);
    }
    upstream.send_after_pause(env, Pending::Blocked(client));
}

/// Returns whether a command does not block: XREAD and XREADGROUP without BLOCK.
fn never_waits(command: &Command, args: &Args<'_>) -> bool {
    is_stream_read(command) && block_option(args).is_none()
}

fn is_stream_read(command: &Command) -> bool {
    command.full_name.starts_with("xread")
}

/// Finds the argument behind BLOCK, which comes before the streams.
fn block_option(args: &Args<'_>) -> Option<usize> {
    let before = (1..args.len()).take_while(|at| !args[*at].eq_ignore_ascii_case(b"STREAMS"));
    before
        .into_iter()
        .find(|at| args[*at].eq_ignore_ascii_case(b"BLOCK"))
        .map(|at| at + 1)
}

fn timeout_of(command: &Command, args: &Args<'_>) -> Option<Timeout> {
    if is_stream_read(command) {
        return block_option(args).map(Timeout::Milliseconds);
    }
    // Commands with a count of keys have the timeout first, the others last.
    if command.full_name.ends_with("mpop") {
        return Some(Timeout::Seconds(1));
    }
    Some(Timeout::Seconds(args.len() - 1))
}

/// Returns how long a command waits: 0 without limit, none if the node will refuse it.
fn wait_us(timeout: Timeout, args: &Args<'_>) -> Option<u64> {
    let us = match timeout {
        Timeout::Seconds(at) => parse_f64(args.get(at)?)? * 1e6,
        Timeout::Milliseconds(at) => parse_i64(args.get(at)?)? as f64 * 1e3,
    };
    (us.is_finite() && (0.0..1e15).contains(&us)).then_some(us as u64)
}

/// Returns the request with another timeout, which is never 0.
fn with_timeout(args: &ArgVec, timeout: Timeout, wait_us: u64) -> Vec<u8> {
    let wait_ms = (wait_us / 1000).max(1);
    let (at, text) = match timeout {
        Timeout::Seconds(at) => (at, format!("{}.{:03}", wait_ms / 1000, wait_ms % 1000)),
        Timeout::Milliseconds(at) => (at, wait_ms.to_string()),
    };
    let args = args.as_args();
    let mut words: Vec<&[u8]> = args.iter().collect();
    words[at] = text.as_bytes();
    let mut bytes = Vec::new();
    encode_request(&words, &mut bytes);
    bytes
}

/// Returns the streams that are read from their present end.
fn stream_ends(args: &Args<'_>) -> VecDeque<(usize, usize)> {
    let streams = (1..args.len()).find(|at| args[*at].eq_ignore_ascii_case(b"STREAMS"));
    let first = streams.map_or(args.len(), |at| at + 1);
    let count = (args.len() - first) / 2;
    let pairs = (first..first + count).map(|at| (at, at + count));
    pairs.filter(|(_, id_at)| &args[*id_at] == b"$").collect()
}

/// Returns the id in a reply that lists the last entry of a stream; the id before all entries if it is empty.
fn last_id(reply: &[u8]) -> Vec<u8> {
    let entries = elements_of(reply);
    let entry = entries.first().map(|entry| elements_of(entry));
    let id = entry.and_then(|entry| bulk(entry.first()?));
    id.unwrap_or(b"0").to_vec()
}

fn with_id(args: &ArgVec, at: usize, id: &[u8]) -> ArgVec {
    let args = args.as_args();
    let words = args.iter().enumerate();
    words
        .map(|(place, word)| if place == at { id } else { word })
        .collect()
}

fn is_nil(reply: &[u8]) -> bool {
    matches!(reply, b"*-1\r\n" | b"$-1\r\n" | b"_\r\n")
}

#[cfg(test)]
mod tests {
    use nagaya_commands::table;

    use super::*;

    #[track_caller]
    fn check(request: &str, expected: Option<u64>, cut: &str) {
        let owned: ArgVec = request.split(' ').collect();
        let args = owned.as_args();
        let command = table::find_request(&args).unwrap();
        assert!(!never_waits(command, &args), "{request}");
        let timeout = timeout_of(command, &args).unwrap();
        assert_eq!(wait_us(timeout, &args), expected, "{request}");
        let words: ArgVec = cut.split(' ').collect();
        let mut bytes = Vec::new();
        encode_request(&words.as_args().iter().collect::<Vec<_>>(), &mut bytes);
        assert_eq!(with_timeout(&owned, timeout, 1_500_000), bytes, "{request}");
    }

    #[test]
    fn every_form_of_timeout_is_found_and_replaced() {
        check("blpop a b 0.5", Some(500_000), "blpop a b 1.500");
        check("bzmpop 0 1 a min", Some(0), "bzmpop 1.500 1 a min");
        check(
            "blmove a b left right 3",
            Some(3_000_000),
            "blmove a b left right 1.500",
        );
        check(
            "xread block 20 streams s $",
            Some(20_000),
            "xread block 1500 streams s $",
        );
        check("blpop a -1", None, "blpop a 1.500");
    }

    #[test]
    fn the_end_of_a_stream_is_the_id_of_its_last_entry() {
        let owned: ArgVec = "xread block 0 streams a b $ 7".split(' ').collect();
        assert_eq!(stream_ends(&owned.as_args()), [(4, 6)]);
        assert_eq!(
            last_id(b"*1\r\n*2\r\n$3\r\n5-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"),
            b"5-1"
        );
        assert_eq!(last_id(b"*0\r\n"), b"0");
        assert_eq!(&with_id(&owned, 6, b"5-1").as_args()[6], b"5-1");
    }

    #[test]
    fn a_stream_read_without_block_does_not_wait() {
        let owned: ArgVec = "xread count 1 streams block 0".split(' ').collect();
        let args = owned.as_args();
        assert!(never_waits(table::find_request(&args).unwrap(), &args));
    }
}
