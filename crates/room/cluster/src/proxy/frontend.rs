//! Parses the requests of a client and decides what becomes of each.

use nagaya_command_spec::spec::Category;
use nagaya_connections::pubsub::Kind;
use nagaya_exec::executor::Executor;
use nagaya_exec::session::Session as ExecSession;
use nagaya_reactor::Key;
use nagaya_resp::{Args, Limits, Parsed, RequestParser, encode_request};
use nagaya_tiering::tag::tag_of;

use super::features::info::{self, Info};
use super::features::settings::Settings;
use super::features::{
    Features, blocking, local, publish, replicas, scripts, settings, tag_commands, tracking, transaction,
    watch,
};
use super::model::layout::slot_of_tag;
use super::model::request::{Handled, Request};
use super::model::routes::{NodeMerge, Route, Script};
use super::model::session::{ReadPause, Session};
use super::model::sessions::OUTPUT_SOFT_BYTES;
use super::model::target::{Refusal, Target};
use super::worker::Worker;

/// Most arguments of one request, as in Redis.
const ARGS_MAX: usize = 1024 * 1024;

/// Bytes of one client's requests that may be under way; more are not handled until all are answered.
/// Requests are copied to the connections of nodes, so this bounds the memory that a client can take.
const UNDER_WAY_BYTES_MAX: usize = 64 << 20;

impl Worker<'_> {
    /// Handles the requests at the start of `bytes`; returns how many bytes are done with.
    pub(super) fn handle_requests(&mut self, client: Key, session: &mut Session, bytes: &[u8]) -> usize {
        let mut parser = std::mem::take(&mut session.parser);
        let mut limits = limits(&self.executor, &mut session.client);
        let pipeline_max = self.env.shared.config.pipeline_max;
        let (mut at, mut handled) = (0, 0);
        while at < bytes.len() && !session.closing && session.pause == ReadPause::None {
            let rest = &bytes[at..];
            if session.out.len() >= OUTPUT_SOFT_BYTES || session.ring.len() >= pipeline_max {
                session.pause = ReadPause::Full;
                break;
            }
            if session.ring.is_empty() {
                session.under_way_bytes = 0;
            } else if session.under_way_bytes >= UNDER_WAY_BYTES_MAX {
                session.pause = ReadPause::UntilAnswered;
                break;
            }
            match parser.parse(rest, &limits) {
                Ok(Parsed::Complete { consumed }) => {
                    session.pause = match self.on_request(client, session, &parser, rest, consumed) {
                        Handled::Done => session.pause,
                        Handled::TooEarly => ReadPause::UntilAnswered,
                        Handled::NoNodes => ReadPause::UntilNodes,
                    };
                    if matches!(session.pause, ReadPause::UntilAnswered | ReadPause::UntilNodes) {
                        break;
                    }
                    at += consumed;
                    handled += 1;
                    if !session.ring.is_empty() {
                        session.under_way_bytes += consumed;
                    }
                    if limits.args_max < ARGS_MAX {
                        limits = self::limits(&self.executor, &mut session.client);
                    }
                }
                Ok(Parsed::Empty { consumed }) => at += consumed,
                Ok(Parsed::Incomplete) => break,
                Err(error) => {
                    if !error.is_silent() {
                        session.append_reply(format!("-ERR {error}\r\n").as_bytes());
                    }
                    session.closing = true;
                }
            }
        }
        session.parser = parser;
        self.env.shared.metrics.commands.add(handled);
        if session.closing { bytes.len() } else { at }
    }

    fn on_request(
        &mut self,
        client: Key,
        session: &mut Session,
        parser: &RequestParser,
        rest: &[u8],
        consumed: usize,
    ) -> Handled {
        let args = parser.args(rest);
        let mut encoded = Vec::new();
        let bytes = if rest[0] == b'*' {
            &rest[..consumed]
        } else {
            let words: Vec<&[u8]> = args.iter().collect();
            encode_request(&words, &mut encoded);
            &encoded
        };
        match self.executor.admit(&mut session.client, &args) {
            Ok(command) => {
                let request = Request {
                    client,
                    command,
                    args,
                    bytes,
                };
                if let Some(refusal) = scripts::refuse_function(&session.client, &request) {
                    self.refuse(session, &args, &refusal);
                    return Handled::Done;
                }
                if session.client.tracking.is_some() {
                    tracking::remember(&self.executor, &self.env, session, &request);
                }
                let handled = self.dispatch(session, &request);
                if handled == Handled::Done && self.env.shared.server.monitors.any() {
                    self.show(session, &request);
                }
                handled
            }
            Err(error) => {
                self.refuse(session, &args, &error.to_string());
                Handled::Done
            }
        }
    }

    /// Shows a request to those who watch all requests. What is run here is shown as it runs.
    #[cold]
    fn show(&self, session: &Session, request: &Request<'_>) {
        let route = self.routes.of(request.command);
        let runs_here = matches!(
            route,
            Route::Here
                | Route::HereInTurn
                | Route::Info
                | Route::Settings
                | Route::Tracking
                | Route::Quit
                | Route::Reset
                | Route::Subscribe
                | Route::Unsubscribe
        );
        if !runs_here {
            let server = &self.env.shared.server;
            let now_us = server.clock.unix_us();
            let (command, args) = (request.command, &request.args);
            if command.spec.acl.has(Category::SCRIPTING) {
                server.monitors.feed(now_us, &session.client, command, args);
            } else {
                server
                    .monitors
                    .feed_command(now_us, &session.client, command, args);
            }
        }
    }

    /// Replies to a request that may not run. A transaction that it belongs to will not run either.
    fn refuse(&mut self, session: &mut Session, args: &Args<'_>, error: &str) {
        let name = args.get(0).unwrap_or_default();
        if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
            // A web page makes a browser send this; what follows may look like commands.
            session.closing = true;
            return;
        }
        if name.eq_ignore_ascii_case(b"exec") && session.queue.take().is_some() {
            self.io.upstream.close(session.end_watch());
            return session.reply_error(&format!("EXECABORT Transaction discarded because of: {error}"));
        }
        if let Some(queue) = &mut session.queue {
            queue.broken = true;
        }
        session.reply_error(error);
    }

    fn dispatch(&mut self, session: &mut Session, request: &Request<'_>) -> Handled {
        let route = self.routes.of(request.command);
        if session.queue.is_some() && !runs_at_once(route) {
            transaction::enqueue(&self.env, session, request, route);
            return Handled::Done;
        }
        self.follow(session, request, route)
    }

    /// Does with a request what its route says.
    fn follow(&mut self, session: &mut Session, request: &Request<'_>, route: Route) -> Handled {
        let env = self.env;
        let (io, executor, features) = (&mut self.io, &mut self.executor, &mut self.features);
        match route {
            Route::Keys | Route::Split(_) => match env.rules.target(request.command, &request.args) {
                Ok(target) => {
                    session.written_slots.note(&target);
                    let delivery = session.next_delivery(request.client, env.give_up_us());
                    session.pause = io.pause_behind(&env, &target);
                    io.submit(&env, request.bytes, delivery, &target);
                }
                Err(refusal) => match (route, refusal) {
                    (Route::Split(merge), Refusal::CrossSlot | Refusal::TooManyTags) => {
                        session.written_slots.note_all();
                        features.scatter.by_tag(io, &env, session, request, merge);
                    }
                    (_, refusal) => session.reply_error(&refusal.text()),
                },
            },
            Route::Anywhere => self.send_anywhere(session, request),
            Route::Publish => self.publish(session, request),
            Route::ShardPublish => self.publish_to_shard(session, request),
            Route::Everywhere(merge) => return self.send_everywhere(session, request, merge),
            Route::Info => return self.info(session, request),
            Route::Here | Route::Quit => return local::answer(executor, session, request),
            Route::HereInTurn => return local::answer_in_turn(executor, session, request),
            Route::Settings => return self.settings(session, request),
            Route::Tracking => {
                let handled = local::answer_in_turn(executor, session, request);
                let tracking = &mut features.tracking;
                tracking.note_client(&mut io.upstream, &env, request.client, &session.client);
                return handled;
            }
            Route::Refused(text) => session.reply_error(text),
            Route::Tags(kind) => return tag_commands::start(&env, session, request, kind),
            Route::Script(script) => return self.run_script(session, request, script),
            Route::Replicas => return replicas::start(io, &env, session, request),
            Route::Blocking => return blocking::start(io, &env, session, request),
            Route::Multi => transaction::multi(session),
            Route::Exec => {
                let sessions = &mut self.sessions;
                let transactions = &mut features.transactions;
                return transactions.exec(executor, io, sessions, &env, session, request);
            }
            Route::Discard => transaction::discard(io, session),
            Route::Watch => return watch::start(io, &env, session, request),
            Route::Unwatch => {
                io.upstream.close(session.end_watch());
                session.reply(b"+OK\r\n");
            }
            Route::Subscribe => {
                let subscriptions = &mut features.subscriptions;
                return subscriptions.subscribe(executor, &mut io.upstream, &env, session, request);
            }
            Route::Unsubscribe => return features.subscriptions.unsubscribe(executor, session, request),
            Route::Reset => return self.reset(session, request),
        }
        Handled::Done
    }

    /// Answers INFO. The keyspace is left out while no node is known.
    fn info(&mut self, session: &mut Session, request: &Request<'_>) -> Handled {
        let env = &self.env;
        match info::begin(&mut self.executor, session, request) {
            Info::Whole => {}
            Info::TooEarly => return Handled::TooEarly,
            Info::WithKeyspace(reply) => {
                let Features {
                    scatter, cold_keys, ..
                } = &mut self.features;
                let counted = info::recent_count(env, request);
                let parts = (reply, counted);
                if let Some(read) = scatter.info(&mut self.io, env, session, request, parts) {
                    cold_keys.start(env, read, request);
                }
            }
        }
        Handled::Done
    }

    fn settings(&mut self, session: &mut Session, request: &Request<'_>) -> Handled {
        match settings::start(&mut self.executor, session, request) {
            Settings::Answered(handled) => return handled,
            Settings::AnyNode => self.send_anywhere(session, request),
            Settings::EveryNode(bytes) => {
                let bytes = &bytes;
                let request = Request { bytes, ..*request };
                return self.send_everywhere(session, &request, NodeMerge::Same);
            }
        }
        Handled::Done
    }

    fn reset(&mut self, session: &mut Session, request: &Request<'_>) -> Handled {
        self.features.subscriptions.note_left(session);
        let handled = local::answer_in_turn(&mut self.executor, session, request);
        if handled == Handled::Done {
            session.queue = None;
            self.io.upstream.close(session.end_watch());
            let tracking = &mut self.features.tracking;
            tracking.forget_client(&mut self.io.upstream, request.client);
        }
        handled
    }

    /// Sends a request to a node that does not matter.
    fn send_anywhere(&mut self, session: &mut Session, request: &Request<'_>) {
        let (env, io) = (&self.env, &mut self.io);
        let delivery = session.next_delivery(request.client, env.give_up_us());
        match io.upstream.nodes.any(env.now_us) {
            Some(node) => io.upstream.send_to_node(env, node, request.bytes, delivery),
            None => io.submit(env, request.bytes, delivery, &Target::default()),
        }
    }

    /// Sends a request to every primary, and has the cold tier read if it has a part in the reply.
    fn send_everywhere(&mut self, session: &mut Session, request: &Request<'_>, merge: NodeMerge) -> Handled {
        let env = &self.env;
        if self.io.upstream.nodes.are_unknown() {
            return Handled::NoNodes;
        }
        let Features {
            scatter, cold_keys, ..
        } = &mut self.features;
        if let Some(read) = scatter.everywhere(&mut self.io, env, session, request, merge) {
            cold_keys.start(env, read, request);
        }
        Handled::Done
    }

    /// Publishes a message; the reply is the number of receivers, our own clients included.
    fn publish(&mut self, session: &mut Session, request: &Request<'_>) {
        let (env, io) = (&self.env, &mut self.io);
        let delivery = session.next_delivery(request.client, env.give_up_us());
        let Some(node) = io.upstream.nodes.any(env.now_us) else {
            return io.submit(env, request.bytes, delivery, &Target::default());
        };
        let rule = publish::receivers(env, &io.upstream.nodes, request, Kind::Channel, node);
        let delivery = self.features.scatter.single(delivery, rule);
        io.upstream.send_to_node(env, node, request.bytes, delivery);
    }

    /// As [`Worker::publish`], by the slot of a shard channel.
    fn publish_to_shard(&mut self, session: &mut Session, request: &Request<'_>) {
        let (env, io) = (&self.env, &mut self.io);
        let channel = request.args.get(1).unwrap_or_default();
        let slot = slot_of_tag(tag_of(channel));
        let mut delivery = session.next_delivery(request.client, env.give_up_us());
        if let Some(node) = io.upstream.nodes.owner(slot) {
            let rule = publish::receivers(env, &io.upstream.nodes, request, Kind::ShardChannel, node);
            delivery = self.features.scatter.single(delivery, rule);
        }
        let target = Target {
            slot,
            ..Target::default()
        };
        io.submit(env, request.bytes, delivery, &target);
    }

    fn run_script(&mut self, session: &mut Session, request: &Request<'_>, script: Script) -> Handled {
        let knows_nodes = !self.io.upstream.nodes.are_unknown();
        let prepared = match scripts::prepare(&self.env, &session.client, request, script, knows_nodes) {
            Ok(prepared) => prepared,
            Err(text) => {
                session.reply_error(&text);
                return Handled::Done;
            }
        };
        let request = Request {
            bytes: prepared.bytes.as_deref().unwrap_or(request.bytes),
            ..*request
        };
        let Some(text) = prepared.reply else {
            return self.follow(session, &request, prepared.route);
        };
        let scatter = &mut self.features.scatter;
        scatter.everywhere_with_text(&mut self.io, &self.env, session, &request, text);
        Handled::Done
    }
}

/// Returns the limits for a client's requests; they are low before it has authenticated.
fn limits(executor: &Executor<'_>, client: &mut ExecSession) -> Limits {
    if executor.must_authenticate(client) {
        return Limits::unauthenticated();
    }
    Limits {
        bulk_bytes_max: executor.config().proto_max_bulk_len,
        query_bytes_max: executor.config().client_query_buffer_limit,
        args_max: ARGS_MAX,
        ..Limits::default()
    }
}

/// Returns whether a command is not queued by MULTI.
fn runs_at_once(route: Route) -> bool {
    matches!(
        route,
        Route::Multi | Route::Exec | Route::Discard | Route::Watch | Route::Quit | Route::Reset
    )
}
