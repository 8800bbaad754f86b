//! Looks at the requests of a client and decides what becomes of each.

use nagaya_commands::client::Client;
use nagaya_commands::dispatch::Executed;
use nagaya_commands::executor::Core;
use nagaya_commands::spec::NO_MULTI;
use nagaya_commands::table::Command;
use nagaya_resp::{Args, Limits, Out, Parsed, Proto, RequestParser, encode_request};

use super::aim::Refusal;
use super::flight::Origin;
use super::routes::Route;
use super::session::{Hold, Session};
use super::slab::Key;
use super::worker::{OUTPUT_SOFT_BYTES, Worker};

/// Most arguments of one request.
const ARGS_MAX: usize = 1024 * 1024;

/// Bytes of one client's requests that may be under way; more are not looked at until all are answered.
const UNDER_WAY_BYTES_MAX: usize = 64 << 20;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The next one can be looked at.
    Done,
    /// It is to be looked at again when all earlier ones are answered.
    TooEarly,
    /// It is to be looked at again when the nodes are known.
    NoNodes,
}

/// One request of a client.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) client: Key,
    pub(crate) command: &'static Command,
    pub(crate) args: Args<'a>,
    /// As it came, or as it would have come from a client library.
    pub(crate) bytes: &'a [u8],
}

impl Worker<'_> {
    /// Looks at the requests at the start of `bytes`; returns how many bytes are done with.
    pub(super) fn look_at(&mut self, client: Key, session: &mut Session, bytes: &[u8]) -> usize {
        let mut parser = std::mem::take(&mut session.parser);
        let mut limits = limits(&self.core, &mut session.client);
        let (mut at, mut seen) = (0, 0);
        while at < bytes.len() && !session.closing && session.hold == Hold::No {
            let rest = &bytes[at..];
            if session.out.len() >= OUTPUT_SOFT_BYTES || session.ring.len() >= self.shared.config.pipeline_max
            {
                session.hold = Hold::Full;
                break;
            }
            if session.ring.is_empty() {
                session.under_way_bytes = 0;
            } else if session.under_way_bytes >= UNDER_WAY_BYTES_MAX {
                session.hold = Hold::UntilAnswered;
                break;
            }
            match parser.parse(rest, &limits) {
                Ok(Parsed::Complete { consumed }) => {
                    session.hold = match self.on_request(client, session, &parser, rest, consumed) {
                        Seen::Done => session.hold,
                        Seen::TooEarly => Hold::UntilAnswered,
                        Seen::NoNodes => Hold::UntilNodes,
                    };
                    if matches!(session.hold, Hold::UntilAnswered | Hold::UntilNodes) {
                        break;
                    }
                    at += consumed;
                    seen += 1;
                    if !session.ring.is_empty() {
                        session.under_way_bytes += consumed;
                    }
                    if limits.args_max < ARGS_MAX {
                        limits = self::limits(&self.core, &mut session.client);
                    }
                }
                Ok(Parsed::Empty { consumed }) => at += consumed,
                Ok(Parsed::Incomplete) => break,
                Err(error) => {
                    if !error.is_silent() {
                        session.reply(format!("-ERR {error}\r\n").as_bytes());
                    }
                    session.closing = true;
                }
            }
        }
        session.parser = parser;
        self.shared.metrics.commands.add(seen);
        if session.closing { bytes.len() } else { at }
    }

    fn on_request(
        &mut self,
        client: Key,
        session: &mut Session,
        parser: &RequestParser,
        rest: &[u8],
        consumed: usize,
    ) -> Seen {
        let args = parser.args(rest);
        let mut encoded = Vec::new();
        let bytes = if rest[0] == b'*' {
            &rest[..consumed]
        } else {
            let words: Vec<&[u8]> = args.iter().collect();
            encode_request(&words, &mut encoded);
            &encoded
        };
        match self.core.admit(&mut session.client, &args) {
            Ok(command) => {
                let request = Request {
                    client,
                    command,
                    args,
                    bytes,
                };
                self.dispatch(session, &request)
            }
            Err(error) => {
                self.refuse(session, &args, &error.to_string());
                Seen::Done
            }
        }
    }

    /// Replies to a request that may not run. One that belongs to a transaction ends that, too.
    fn refuse(&mut self, session: &mut Session, args: &Args<'_>, error: &str) {
        let name = args.get(0).unwrap_or_default();
        if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
            // A web page makes a browser send this; what follows may look like commands.
            session.closing = true;
            return;
        }
        if name.eq_ignore_ascii_case(b"exec") && session.queue.take().is_some() {
            self.end_watch(session);
            let text = format!("EXECABORT Transaction discarded because of: {error}");
            return self.reply_error(session, &text);
        }
        if let Some(queue) = &mut session.queue {
            queue.broken = true;
        }
        self.reply_error(session, error);
    }

    fn dispatch(&mut self, session: &mut Session, request: &Request<'_>) -> Seen {
        let route = self.routes.of(request.command);
        if session.queue.is_some() && !runs_at_once(route) {
            self.enqueue(session, request, route);
            return Seen::Done;
        }
        self.follow(session, request, route)
    }

    /// Does with a request what its route says.
    pub(super) fn follow(&mut self, session: &mut Session, request: &Request<'_>, route: Route) -> Seen {
        match route {
            Route::Keys => match self.rules.aim(request.command, &request.args) {
                Ok(aim) => {
                    let trip = self.client_trip(session, request.client);
                    self.submit(request.bytes, trip, &aim);
                }
                Err(refusal) => self.reply_error(session, &refusal.text()),
            },
            Route::Split(split) => match self.rules.aim(request.command, &request.args) {
                Ok(aim) => {
                    let trip = self.client_trip(session, request.client);
                    self.submit(request.bytes, trip, &aim);
                }
                Err(Refusal::CrossSlot) => self.split(session, request, split),
                Err(refusal) => self.reply_error(session, &refusal.text()),
            },
            Route::Anywhere => self.send_anywhere(session, request),
            Route::Publish => self.publish(session, request),
            Route::ShardPublish => self.publish_to_shard(session, request),
            Route::Everywhere(_) if self.knows_no_nodes() => return Seen::NoNodes,
            Route::Everywhere(gather) => self.send_everywhere(session, request, gather),
            Route::Here => return self.answer_here(session, request),
            Route::HereInTurn => return self.answer_in_turn(session, request),
            Route::Refused(text) => self.reply_error(session, text),
            Route::Room(room) => return self.room(session, request, room),
            Route::Script(script) => return self.script(session, request, script),
            Route::Blocking => return self.block(session, request),
            Route::Multi => self.multi(session),
            Route::Exec => return self.exec(session, request),
            Route::Discard => self.discard(session),
            Route::Watch => return self.watch_keys(session, request),
            Route::Unwatch => {
                self.end_watch(session);
                self.reply(session, b"+OK\r\n");
            }
            Route::Subscribe => return self.subscribe(session, request),
            Route::Unsubscribe => return self.unsubscribe(session, request),
            Route::Quit => return self.answer_here(session, request),
            Route::Reset => {
                self.note_left(session);
                let seen = self.answer_in_turn(session, request);
                if seen == Seen::Done {
                    session.queue = None;
                    self.end_watch(session);
                }
                return seen;
            }
        }
        Seen::Done
    }

    /// Takes the next place among the replies that a client is owed.
    #[inline]
    pub(super) fn client_trip(&self, session: &mut Session, client: Key) -> super::flight::Trip {
        let wanted = session.client.takes_reply();
        let place = session.ring.reserve(wanted);
        let resp3 = session.client.proto() == Proto::Resp3;
        self.trip(Origin::Client { client, place }, resp3)
    }

    /// Replies to the request at hand, if its client wants replies.
    pub(super) fn reply(&mut self, session: &mut Session, reply: &[u8]) {
        if session.client.takes_reply() {
            session.reply(reply);
        }
    }

    pub(super) fn reply_error(&mut self, session: &mut Session, text: &str) {
        let mut out = Out::new(Proto::Resp2);
        out.error_bytes(text.as_bytes());
        self.reply(session, &out.buf);
    }

    /// Runs a command on the engine without data, which knows about connections, the table and settings.
    pub(super) fn answer_here(&mut self, session: &mut Session, request: &Request<'_>) -> Seen {
        let mut out = Out::new(session.client.proto());
        let executed = self.core.execute(&mut session.client, request.args, &mut out);
        if executed != Executed::Done {
            return Seen::TooEarly;
        }
        session.reply(&out.buf);
        session.closing |= session.client.close_after_reply;
        Seen::Done
    }

    /// As [`Worker::answer_here`], for what changes the connection under requests that are under way.
    pub(super) fn answer_in_turn(&mut self, session: &mut Session, request: &Request<'_>) -> Seen {
        if session.ring.is_empty() {
            self.answer_here(session, request)
        } else {
            Seen::TooEarly
        }
    }

    fn send_anywhere(&mut self, session: &mut Session, request: &Request<'_>) {
        let trip = self.client_trip(session, request.client);
        match self.any_node() {
            Some(node) => self.send_to_node(node, request.bytes, trip),
            None => {
                let aim = super::aim::Aim::default();
                self.submit(request.bytes, trip, &aim);
            }
        }
    }
}

/// What a request of a client may take; little before it has authenticated.
fn limits(core: &Core<'_>, client: &mut Client) -> Limits {
    if core.must_authenticate(client) {
        return Limits::unauthenticated();
    }
    Limits {
        bulk_bytes_max: core.config().proto_max_bulk_len,
        query_bytes_max: core.config().client_query_buffer_limit,
        args_max: ARGS_MAX,
        ..Limits::default()
    }
}

/// Tells whether a command is not queued by MULTI.
fn runs_at_once(route: Route) -> bool {
    matches!(
        route,
        Route::Multi | Route::Exec | Route::Discard | Route::Watch | Route::Quit | Route::Reset
    )
}

/// Tells whether a command may not be part of a transaction.
pub(super) fn is_not_for_transactions(command: &Command) -> bool {
    command.spec.flags.has(NO_MULTI)
}
