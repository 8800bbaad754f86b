//! One thread of the proxy: its clients, its connections to nodes and everything between them.
//!
//! A turn of the loop takes what the kernel, the other threads and the clock report,
//! and writes to each node and each client once at its end. That one write per
//! node and turn is what makes the proxy cheap: requests of many clients share it.
//!
//! A session is taken out of its place while its requests are handled; replies to it
//! wait in the outbox meanwhile. Connections to nodes stay in place, because a reply may
//! cause requests on the same connection.
//!
//! Only the worker knows all parts: upstream reports events, leases and slot queues hand out
//! what may be sent, and the worker passes each to the feature it concerns. Events are
//! processed before anything else is sent.
//!
//! Sockets are watched for changes (edge-triggered): a read that fills its buffer is
//! repeated in the next turn, a shorter one has emptied the socket, unless the kernel
//! reports with the bytes that the other end has closed it.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nagaya_exec::executor::Executor;
use nagaya_reactor::{Event, Events, Key, Poller, Ready, reserved_token};

use super::env::{Env, Shared};
use super::features::tag_commands::Deletion;
use super::features::{Features, pubsub, tag_commands, watch};
use super::forwarder::Forwarder;
use super::inbox::{Inbox, Item};
use super::leases::Leases;
use super::model::in_flight::{Origin, Pending};
use super::model::outbox::Outbox;
use super::model::routes::Routes;
use super::model::session::ReadPause;
use super::model::sessions::Sessions;
use super::upstream::{NodeRead, NodeReply, Purpose, Upstream, UpstreamEvent};

/// Bytes read from a connection per turn: large enough for a deep pipeline, small enough to be fair.
pub(super) const READ_BYTES: usize = 64 << 10;
/// Events taken from the kernel per turn; more wait for the next one.
const EVENTS_MAX: usize = 512;
/// How often the slow duties run: well below every time limit that they watch.
const TICK_US: u64 = 50_000;
/// How long replies are waited for at the end: longer than nearly all commands take.
const DRAIN_US: u64 = 1_000_000;
/// The token of the wake-up descriptor.
const WAKE: u64 = reserved_token(0);

pub(crate) struct Worker<'s> {
    pub(super) env: Env<'s>,
    /// Runs the commands that are answered here.
    pub(super) executor: Executor<'s>,
    pub(super) routes: Routes,
    pub(super) poller: Rc<Poller>,
    pub(super) sessions: Sessions,
    pub(super) io: Forwarder,
    pub(super) features: Features,
    /// Tokens to read from again without a new event.
    pub(super) again: Vec<u64>,
    /// The buffer that sockets are read into.
    pub(super) scratch: Vec<u8>,
    next_tick_us: u64,
    stop: Arc<AtomicBool>,
}

impl<'s> Worker<'s> {
    pub(crate) fn new(
        shared: &'s Shared,
        executor: Executor<'s>,
        inbox: &'s Arc<Inbox>,
        stop: Arc<AtomicBool>,
    ) -> std::io::Result<Worker<'s>> {
        let poller = Rc::new(Poller::new()?);
        inbox.watch(&poller, WAKE)?;
        Ok(Worker {
            env: Env::new(shared, inbox),
            executor,
            routes: Routes::new(),
            sessions: Sessions::default(),
            io: Forwarder {
                upstream: Upstream::new(Rc::clone(&poller)),
                leases: shared.config.tiering.as_ref().map(Leases::new),
                outbox: Outbox::default(),
            },
            poller,
            features: Features::default(),
            again: Vec::new(),
            scratch: vec![0; READ_BYTES],
            next_tick_us: 0,
            stop,
        })
    }

    /// Serves until told to stop. Then it reads no more requests, waits a little for the replies to those
    /// that are under way, and closes every connection.
    pub(crate) fn run(&mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.stop.load(Ordering::Relaxed) {
            self.turn(&mut events);
        }
        let deadline_us = self.env.now_us + DRAIN_US;
        while self.env.now_us < deadline_us && self.is_any_under_way() {
            self.turn(&mut events);
        }
        for key in self.sessions.keys() {
            if let Some(mut session) = self.sessions.take(key) {
                session.flush();
                self.close_client(key, session);
            }
        }
    }

    /// Stops reading from every client; returns whether any of them is still owed a reply.
    fn is_any_under_way(&mut self) -> bool {
        let mut is_any = false;
        for key in self.sessions.keys() {
            if let Some(session) = self.sessions.get_mut(key) {
                session.closing = true;
                is_any |= !session.ring.is_empty();
                self.sessions.mark(key);
            }
        }
        is_any
    }

    fn turn(&mut self, events: &mut Events) {
        let inbox = self.env.inbox;
        let may_wait = self.again.is_empty() && !self.sessions.has_runnable();
        let timeout_us = if may_wait { self.timeout_us() } else { 0 };
        inbox.wait(&self.poller, events, Duration::from_micros(timeout_us));
        self.env.now_us = self.env.shared.server.clock.steady_us();
        self.executor.begin_batch();
        let again = std::mem::take(&mut self.again);
        for token in again {
            let ready = Ready::READ;
            self.on_event(Event { token, ready });
        }
        for event in events.iter().filter(|event| event.token != WAKE) {
            self.on_event(event);
        }
        let mut items = Vec::new();
        inbox.take(&mut items);
        items.into_iter().for_each(|item| self.on_item(item));
        self.on_time();
        loop {
            self.settle();
            self.end_turn();
            let has_work = !self.io.outbox.is_empty() || self.io.upstream.has_work();
            if !has_work && !self.sessions.has_dirty() {
                break;
            }
        }
    }

    /// Sends what this turn has made ready, and writes to nodes and clients.
    fn end_turn(&mut self) {
        let env = self.env;
        let upstream = &mut self.io.upstream;
        self.features
            .subscriptions
            .leave_topics(upstream, &self.sessions, &env);
        self.send_due();
        if let Some(leases) = &mut self.io.leases {
            leases.send_touches(&mut self.io.upstream, &env);
        }
        self.io.upstream.flush(&env);
        self.pump();
        self.flush_clients();
    }

    fn on_event(&mut self, Event { token, ready }: Event) {
        let (key, is_node) = Key::from_token(token);
        if ready.is_writable() {
            if is_node {
                self.io.upstream.mark(key);
            } else {
                self.sessions.mark(key);
            }
        }
        if !ready.is_readable() {
            return;
        }
        let is_over = ready.is_hung_up();
        let more = if is_node {
            self.read_node(key)
        } else {
            self.read_client(key, is_over)
        };
        if more || is_over && self.is_read(key, is_node) {
            self.again.push(token);
        }
    }

    /// Returns whether a connection is open and read from. A paused client is read when its pause ends.
    fn is_read(&self, key: Key, is_node: bool) -> bool {
        if is_node {
            self.io.upstream.is_open(key)
        } else {
            let session = self.sessions.get(key);
            session.is_some_and(|session| session.pause == ReadPause::None && !session.closing)
        }
    }

    /// Delivers replies and handles the requests that may go on because of them.
    fn settle(&mut self) {
        loop {
            self.pump();
            while let Some((origin, reply)) = self.io.outbox.pop() {
                self.deliver(origin, &reply);
            }
            self.pump();
            let runnable = self.sessions.take_runnable();
            if runnable.is_empty() && self.io.outbox.is_empty() {
                return;
            }
            runnable.into_iter().for_each(|key| self.resume(key));
        }
    }

    /// Processes the events of upstream, then sends what waited and may go now. Called after everything that
    /// upstream or leases have done, before other requests are handled.
    pub(super) fn pump(&mut self) {
        loop {
            while let Some(event) = self.io.upstream.next_event() {
                self.on_upstream_event(event);
            }
            match self.io.next_released(&self.env) {
                Some(pending) => self.send_pending(pending),
                None => break,
            }
        }
        if let Some(leases) = &mut self.io.leases {
            for (pending, text) in leases.take_failed() {
                self.fail_pending(&pending, &text);
            }
        }
    }

    fn on_upstream_event(&mut self, event: UpstreamEvent) {
        let env = &self.env;
        match event {
            UpstreamEvent::Failed { origin, text } => self.io.outbox.fail(origin, &text),
            UpstreamEvent::Ready { purpose } => {
                self.features.tracking.on_ready(env, &self.sessions, purpose);
                if let Some(leases) = &mut self.io.leases {
                    leases.on_ready();
                }
            }
            UpstreamEvent::LayoutChanged => {
                self.sessions.release_those_without_nodes();
                let subscriptions = &mut self.features.subscriptions;
                subscriptions.on_layout_changed(&mut self.io.upstream, env);
            }
            UpstreamEvent::SlotsMoved => self.features.tracking.on_slots_moved(env, &self.sessions),
            UpstreamEvent::Lost {
                connection,
                node,
                purpose,
            } => self.on_connection_lost(connection, node, purpose),
            UpstreamEvent::Unsent { transaction } => {
                let transactions = &mut self.features.transactions;
                transactions.on_unsent(&mut self.io, &mut self.sessions, transaction);
            }
            UpstreamEvent::Dropped { transaction } => self.features.transactions.remove(transaction),
        }
    }

    fn on_connection_lost(&mut self, connection: Key, node: usize, purpose: Purpose) {
        let (env, features) = (&self.env, &mut self.features);
        match purpose {
            Purpose::PubSub => {
                let node = self.io.upstream.nodes.name(node);
                features.subscriptions.on_connection_lost(env, connection, node);
            }
            Purpose::Dedicated {
                client: Some(client), ..
            } => watch::on_connection_lost(&mut self.sessions, client, connection),
            Purpose::Shared(_) | Purpose::Broadcast => {
                features
                    .tracking
                    .on_lost(env, &self.sessions, connection, purpose);
            }
            Purpose::Dedicated { client: None, .. } => {}
        }
    }

    /// Sends what had to wait.
    fn send_pending(&mut self, pending: Pending) {
        let (io, sessions, env) = (&mut self.io, &mut self.sessions, &self.env);
        match pending {
            Pending::Request(queued) => {
                if sessions.awaits(queued.delivery.origin) {
                    io.resubmit(env, queued);
                }
            }
            Pending::Transaction(key) => self.features.transactions.send(io, sessions, env, key),
            Pending::Blocked(client) => self.features.blocking.send(io, sessions, env, client),
            Pending::Watch(client) => watch::send(io, sessions, env, client),
        }
    }

    /// Fails something that waited and cannot be sent.
    fn fail_pending(&mut self, pending: &Pending, text: &str) {
        let outbox = &mut self.io.outbox;
        match *pending {
            Pending::Request(ref queued) => outbox.fail(queued.delivery.origin, text),
            Pending::Blocked(client) => outbox.fail(Origin::Blocked { client }, text),
            Pending::Watch(client) => outbox.fail(Origin::Watched { client }, text),
            Pending::Transaction(key) => {
                let transactions = &mut self.features.transactions;
                transactions.fail(&mut self.io, &mut self.sessions, key, text);
            }
        }
    }

    /// Sends what was put off to a time that has come.
    fn send_due(&mut self) {
        while let Some(pending) = self.io.upstream.next_due(&self.env) {
            self.send_pending(pending);
        }
    }

    /// Reads from a node once and delivers its replies; returns whether there may be more to read.
    fn read_node(&mut self, key: Key) -> bool {
        let mut scratch = std::mem::take(&mut self.scratch);
        let read = self.io.upstream.read(&self.env, key, &mut scratch);
        let more = match read {
            NodeRead::Nothing => false,
            NodeRead::Interrupted => true,
            NodeRead::Input {
                mut input,
                read,
                more,
            } => {
                if self.env.has_tiers() {
                    // Whether a reply is late is judged by when it is read.
                    self.env.now_us = self.env.shared.server.clock.steady_us();
                }
                if input.is_empty() {
                    let consumed = self.take_replies(key, &scratch[..read]);
                    input.extend_from_slice(&scratch[consumed..read]);
                } else {
                    let consumed = self.take_replies(key, &input);
                    input.drain(..consumed);
                    if input.is_empty() {
                        input = Vec::new();
                    }
                }
                self.io.upstream.end_read(key, input);
                more
            }
        };
        self.scratch = scratch;
        self.pump();
        more
    }

    /// Delivers the complete replies at the start of `bytes`; returns how many bytes they took.
    fn take_replies(&mut self, key: Key, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(reply) = self.io.upstream.next_reply(&self.env, key, bytes, &mut at) {
            match reply {
                NodeReply::Reply(in_flight, reply) => self.on_reply(key, &in_flight, reply),
                NodeReply::Message(purpose, message) if purpose != Purpose::PubSub => {
                    let tracking = &self.features.tracking;
                    tracking.on_message(&self.env, &self.sessions, purpose, message);
                }
                NodeReply::Message(_, message) => {
                    let subscriptions: &mut pubsub::Subscriptions = &mut self.features.subscriptions;
                    subscriptions.on_message(
                        &mut self.executor,
                        &self.io.upstream,
                        &mut self.sessions,
                        &self.env,
                        key,
                        message,
                    );
                }
            }
        }
        at
    }

    fn on_item(&mut self, item: Item) {
        let env = self.env;
        match item {
            Item::Connection(id, transport) => self.open_client(id, *transport),
            Item::Message(id, message) => self.on_message(id, message),
            Item::Layout(layout) => {
                self.io.upstream.take_layout(&env, &layout);
                self.pump();
            }
            Item::LayoutFailed(reason) => {
                self.io.upstream.layout_failed(&reason);
                self.sessions.release_those_without_nodes();
            }
            Item::Loaded { tag, ending } => {
                if let Some(leases) = &mut self.io.leases {
                    leases.on_loaded(&tag, ending);
                }
            }
            Item::Cold(number, answer) => {
                let outbox = &mut self.io.outbox;
                self.features.cold_keys.on_answer(outbox, &env, number, answer);
            }
            Item::TagCommand { client, outcome } => {
                let outbox = &mut self.io.outbox;
                let (executor, sessions) = (&mut self.executor, &mut self.sessions);
                let erase = tag_commands::on_outcome(executor, outbox, sessions, client, outcome);
                match erase {
                    Some(Deletion::Tag(erase)) => {
                        let scatter = &mut self.features.scatter;
                        scatter.delete(&mut self.io, &env, erase.client, &erase.names);
                    }
                    Some(Deletion::Page(page)) => {
                        let (client, flushes) = (page.client, &mut self.features.flushes);
                        let step = flushes.on_page(&env, &mut self.sessions, page);
                        self.follow_flush(client, step);
                    }
                    None => {}
                }
            }
        }
    }

    /// Does what is due by the clock.
    fn on_time(&mut self) {
        let env = self.env;
        self.send_due();
        self.pump();
        let blocking = &mut self.features.blocking;
        blocking.check_deadlines(&mut self.io, &self.sessions, &env);
        if let Some(leases) = &mut self.io.leases {
            leases.tick(&env);
        }
        self.pump();
        if env.now_us < self.next_tick_us {
            return;
        }
        self.next_tick_us = env.now_us + TICK_US;
        self.io.upstream.check_deadlines(&env);
        self.pump();
        let upstream = &mut self.io.upstream;
        self.features
            .subscriptions
            .tick(upstream, &mut self.sessions, &env);
        self.features.tracking.tick(upstream, &env);
        self.pump();
        self.close_idle();
    }

    fn timeout_us(&self) -> u64 {
        let deadline_us = self.features.blocking.next_deadline_us();
        let next = self.next_tick_us.min(deadline_us).min(self.io.next_wake_us());
        match next.saturating_sub(self.env.now_us) {
            0 => 0,
            // A millisecond at least, so that rounding does not make the loop spin.
            left => left.clamp(1000, TICK_US),
        }
    }
}
