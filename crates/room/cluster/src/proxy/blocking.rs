//! Commands that wait for data: BLPOP and its kind, XREAD with BLOCK.
//!
//! Each takes a connection of its own, because nothing behind it is answered before
//! it. Under the tiering protocol it waits no longer than its lease has left, and is
//! sent again under the next one until the client's own time is up: left waiting past
//! its lease it would change a tag that nobody knows to be in use.

use std::collections::VecDeque;
use std::sync::Arc;

use nagaya_commands::table::Command;
use nagaya_resp::{ArgVec, Args, Proto, encode_request, parse_f64, parse_i64};

use super::model::client_state::{Blocked, Timeout};
use super::model::in_flight::{Origin, Pending};
use super::model::redirect::Redirect;
use super::model::reply::{bulk, elements_of};
use super::model::request::{Handled, Request};
use super::model::session::{ReadPause, Session};
use super::model::target::{Target, Writes};
use super::slab::Key;
use super::worker::Worker;

/// A lease with less left than this is renewed first.
const LEAST_WAIT_US: u64 = 100_000;

impl Worker<'_> {
    /// Begins a command that may wait.
    pub(super) fn block(&mut self, session: &mut Session, request: &Request<'_>) -> Handled {
        let target = match self.rules.target(request.command, &request.args) {
            Ok(target) => target,
            Err(refusal) => {
                self.reply_error(session, &refusal.text());
                return Handled::Done;
            }
        };
        if never_waits(request.command, &request.args) {
            let delivery = self.client_delivery(session, request.client);
            self.submit(request.bytes, delivery, &target);
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
            writes: target.writes.as_slice().iter().map(|key| key.to_vec()).collect(),
            deadline_us: match wait_us {
                Some(wait_us) if wait_us > 0 => self.now_us + wait_us,
                _ => u64::MAX,
            },
            connection: None,
            is_cut: false,
            give_up_us: self.now_us + self.shared.config.retry_for.as_micros() as u64,
            wake_up_us: 0,
            waiter: Arc::clone(&session.client.shared),
            ends: match self.leases {
                Some(_) if is_stream_read(request.command) => stream_ends(&request.args),
                _ => VecDeque::new(),
            },
        }));
        session.pause = ReadPause::Busy;
        self.send_soon(Pending::Blocked(request.client));
        Handled::Done
    }

    /// Sends the blocking command of a client.
    pub(super) fn send_blocked(&mut self, client: Key) {
        let Some(mut session) = self.clients.take(client) else {
            return;
        };
        let resp3 = session.client.proto() == Proto::Resp3;
        if let Some(mut blocked) = session.blocked.take() {
            self.send_blocked_of(client, resp3, &mut blocked);
            session.blocked = Some(blocked);
        }
        self.clients.put(client, session);
    }

    fn send_blocked_of(&mut self, client: Key, resp3: bool, blocked: &mut Blocked) {
        let pending = || Pending::Blocked(client);
        let origin = Origin::Blocked { client };
        if self.waits_for_slot(blocked.slot, pending) {
            return;
        }
        let node = self.nodes.owner(blocked.slot);
        let kept = blocked.connection.filter(|key| {
            self.backends
                .get(*key)
                .is_some_and(|backend| Some(backend.node) == node)
        });
        let connection =
            kept.or_else(|| node.and_then(|node| self.dedicated_connection(node, resp3, client)));
        let Some(connection) = connection else {
            self.shared.refresher.ask();
            if self.now_us < blocked.give_up_us {
                return self.send_after_pause(pending());
            }
            return self.fail(origin, "CLUSTERDOWN the node of the keys cannot be reached");
        };
        blocked.connection = Some(connection);
        let names: Vec<&[u8]> = blocked.writes.iter().map(Vec::as_slice).collect();
        let target = Target {
            slot: blocked.slot,
            tag: blocked.tag.as_deref(),
            writes: if names.is_empty() {
                Writes::None
            } else {
                Writes::Many(names)
            },
        };
        if let Some(tag) = &blocked.tag
            && self.has_little_left(tag, LEAST_WAIT_US)
        {
            return self.wait_for_next_lease(&target, pending());
        }
        let Some(lease) = self.lease_for(&target, connection, pending) else {
            return;
        };
        if let Some((key_at, _)) = blocked.ends.front() {
            let key = &blocked.args.as_args()[*key_at];
            let mut bytes = Vec::new();
            encode_request(&[b"XREVRANGE", key, b"+", b"-", b"COUNT", b"1"], &mut bytes);
            let in_flight = lease.on(self.in_flight(self.delivery(origin, resp3), blocked.slot));
            return self.send_on(connection, &bytes, in_flight);
        }
        let left_us = lease.end_us.saturating_sub(self.now_us);
        let wanted_us = blocked.deadline_us.saturating_sub(self.now_us);
        blocked.is_cut = blocked.timeout.is_some()
            && lease.end_us != super::model::in_flight::FOR_EVER
            && left_us < wanted_us;
        let reply_us = self.shared.config.reply_limit.as_micros() as u64;
        let wait_us = left_us.min(wanted_us);
        let bytes = match blocked.timeout {
            Some(timeout) if blocked.is_cut || blocked.deadline_us != u64::MAX => {
                blocked.wake_up_us = self.now_us + wait_us.saturating_add(reply_us);
                self.wake_ups.insert((blocked.wake_up_us, client));
                with_timeout(&blocked.args, timeout, wait_us)
            }
            _ => blocked.bytes.clone(),
        };
        let delivery = self.delivery(origin, resp3);
        let in_flight = lease.on(self.in_flight(delivery, blocked.slot));
        self.send_on(connection, &bytes, in_flight);
        blocked.waiter.set_waits_elsewhere(true);
    }

    /// Takes the reply to a blocking command.
    pub(super) fn on_blocked(&mut self, client: Key, reply: &[u8]) {
        let Some(session) = self.clients.get_mut(client) else {
            if self.clients.is_live(client) {
                self.deliver_later(Origin::Blocked { client }, reply.to_vec());
            }
            return;
        };
        let Some(blocked) = &mut session.blocked else {
            return;
        };
        self.wake_ups.remove(&(blocked.wake_up_us, client));
        if reply[0] == b'-'
            && self.now_us < blocked.give_up_us
            && let Some(redirect) = Redirect::of(reply)
        {
            let connection = blocked.connection;
            return self.follow_blocked(client, connection, &redirect);
        }
        if reply[0] != b'-'
            && let Some((_, id_at)) = blocked.ends.pop_front()
        {
            blocked.args = with_id(&blocked.args, id_at, &last_id(reply));
            let words: Vec<&[u8]> = blocked.args.as_args().iter().collect();
            blocked.bytes.clear();
            encode_request(&words, &mut blocked.bytes);
            return self.send_soon(Pending::Blocked(client));
        }
        if is_nil(reply) && blocked.is_cut && self.now_us < blocked.deadline_us {
            return self.send_soon(Pending::Blocked(client));
        }
        let connection = blocked.connection;
        session.blocked = None;
        session.client.shared.set_waits_elsewhere(false);
        if session.client.takes_reply() {
            session.reply(reply);
        }
        if let Some(connection) = connection {
            self.give_back(connection);
        }
        self.mark_client(client);
        self.release(client);
    }

    fn follow_blocked(&mut self, client: Key, connection: Option<Key>, redirect: &Redirect) {
        let from = connection.and_then(|key| Some(self.backends.get(key)?.node));
        if let (Redirect::Moved { slot, target }, Some(from)) = (redirect, from)
            && let Some(target) = self.nodes.redirected(target, from)
        {
            self.slot_moved(*slot, from, target);
        }
        self.shared.refresher.ask();
        if let Some(connection) = connection {
            self.give_back(connection);
        }
        if let Some(blocked) = self
            .clients
            .get_mut(client)
            .and_then(|session| session.blocked.as_mut())
        {
            blocked.connection = None;
        }
        self.send_after_pause(Pending::Blocked(client));
    }

    /// A reply that should have come by now did not: the connection is of no use.
    pub(super) fn blocked_too_long(&mut self, client: Key) {
        let blocked = self
            .clients
            .get(client)
            .and_then(|session| session.blocked.as_ref());
        if let Some(connection) = blocked.and_then(|blocked| blocked.connection) {
            self.lose(connection, "no answer in time");
        }
    }

    /// Ends the wait of a client that is gone.
    pub(super) fn end_blocked(&mut self, client: Key, session: &mut Session) {
        if let Some(blocked) = session.blocked.take() {
            self.wake_ups.remove(&(blocked.wake_up_us, client));
            if let Some(connection) = blocked.connection {
                self.close_backend(connection);
            }
        }
    }
}

/// XREAD and XREADGROUP wait only when told to.
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
    // Those with a count of keys say first how long they wait, the others last.
    if command.full_name.ends_with("mpop") {
        return Some(Timeout::Seconds(1));
    }
    Some(Timeout::Seconds(args.len() - 1))
}

/// Returns how long a command waits; 0 for ever, nothing when it will be refused.
fn wait_us(timeout: Timeout, args: &Args<'_>) -> Option<u64> {
    let us = match timeout {
        Timeout::Seconds(at) => parse_f64(args.get(at)?)? * 1e6,
        Timeout::Milliseconds(at) => parse_i64(args.get(at)?)? as f64 * 1e3,
    };
    (us.is_finite() && (0.0..1e15).contains(&us)).then_some(us as u64)
}

/// The same request with another timeout, never for ever.
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

/// Finds the streams that are read from their present end.
fn stream_ends(args: &Args<'_>) -> VecDeque<(usize, usize)> {
    let streams = (1..args.len()).find(|at| args[*at].eq_ignore_ascii_case(b"STREAMS"));
    let first = streams.map_or(args.len(), |at| at + 1);
    let count = (args.len() - first) / 2;
    let pairs = (first..first + count).map(|at| (at, at + count));
    pairs.filter(|(_, id_at)| &args[*id_at] == b"$").collect()
}

/// Returns the id in the reply that lists the last entry of a stream; before all others without one.
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
