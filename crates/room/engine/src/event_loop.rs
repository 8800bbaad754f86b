//! One I/O thread: waits for its connections, executes their requests and
//! writes each connection's replies once per turn.
//!
//! A connection never changes its thread. It is taken out of the slab while it
//! is served, so that a long-running script can enter the loop again (see
//! [`Pump`]) without touching it. Messages for such a connection are kept until
//! it is back in the slab.
//!
//! Plain sockets are watched edge-triggered, which saves the kernel a second
//! check of each of them per turn. A read that fills its buffer is repeated in
//! the next turn. A shorter one has emptied the socket, unless the peer has
//! closed it, which the kernel reports with the bytes. TLS keeps bytes of its
//! own, so its sockets are watched level-triggered.
//!
//! That there may be more to read is noted in the connection, not in a list: it
//! may be out of the slab, waiting for the journal, when its turn comes. The note
//! is acted on where every connection passes when it goes back into the slab.

mod ticks;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nagaya_connections::client::{Mailbox, Message};
use nagaya_exec::executor::Executor;
use nagaya_exec::executor::Pump;
use nagaya_exec::session::Session;
use nagaya_reactor::{Event, Events, Interest, Key, Poller, Ready, Slab, Timers, Transport, reserved_token};

use crate::connection::{Connection, Next};
use crate::engine::Shared;
use crate::inbox::{Inbox, Item};

/// Bytes read from a connection per turn: large enough for a deep pipeline, small enough to be fair.
const READ_BYTES: usize = 64 << 10;
/// Events taken from the kernel per turn.
const EVENTS_MAX: usize = 512;
/// The interval of the periodic tasks, in milliseconds.
const TICK_MS: i64 = 100;
/// The token of wake-ups.
pub(crate) const WAKE: u64 = reserved_token(0);

pub(crate) struct EventLoop<'s> {
    shared: &'s Shared,
    inbox: Arc<Inbox>,
    poller: Poller,
    connections: RefCell<Slab<Box<Connection>>>,
    by_id: RefCell<HashMap<u64, Key, ahash::RandomState>>,
    /// Blocked connections whose wait ends by itself, by Unix milliseconds.
    deadlines: RefCell<Timers<i64, u64>>,
    /// Taken from the inbox and not yet handled.
    pending: RefCell<VecDeque<Item>>,
    /// Messages for connections that an outer turn is serving.
    held: RefCell<Vec<Item>>,
    /// The number of nested turns inside the outermost one.
    depth: Cell<u32>,
    scratch: RefCell<Vec<u8>>,
    inner_events: RefCell<Option<Events>>,
    stop: Arc<AtomicBool>,
    next_tick_ms: Cell<i64>,
    /// Connections whose replies wait for the journal at the end of the turn.
    unsettled: RefCell<Vec<(Key, Box<Connection>, Next)>>,
    /// Events that the kernel has reported and that are not handled yet.
    events: RefCell<VecDeque<Event>>,
    /// Connections to read from again, although the kernel reports nothing new.
    again: RefCell<Vec<Key>>,
    /// The first thread also removes expired keys.
    expires_keys: bool,
    next_shard: Cell<usize>,
}

impl<'s> EventLoop<'s> {
    pub(crate) fn new(
        shared: &'s Shared,
        poller: Poller,
        inbox: Arc<Inbox>,
        stop: Arc<AtomicBool>,
        first: bool,
    ) -> EventLoop<'s> {
        EventLoop {
            shared,
            inbox,
            poller,
            connections: RefCell::default(),
            by_id: RefCell::default(),
            deadlines: RefCell::default(),
            pending: RefCell::default(),
            held: RefCell::default(),
            depth: Cell::new(0),
            scratch: RefCell::default(),
            inner_events: RefCell::default(),
            stop,
            next_tick_ms: Cell::new(0),
            unsettled: RefCell::default(),
            events: RefCell::default(),
            again: RefCell::default(),
            expires_keys: first,
            next_shard: Cell::new(0),
        }
    }

    /// Serves until `stop` is set, then closes every connection.
    pub(crate) fn run(&self, core: &mut Executor<'s>) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.stop.load(Ordering::Relaxed) {
            let timeout = Duration::from_millis(self.timeout_ms(core) as u64);
            self.turn(core, &mut events, timeout);
        }
        let open: Vec<Key> = self.by_id.borrow().values().copied().collect();
        for key in open {
            if let Some(mut connection) = self.take(key) {
                connection.flush();
                self.close(core, key, connection);
            }
        }
    }

    /// Waits at most `timeout`, then handles events, messages and timers.
    fn turn(&self, core: &mut Executor<'s>, events: &mut Events, timeout: Duration) {
        let is_idle = self.again.borrow().is_empty();
        let timeout = if is_idle { timeout } else { Duration::ZERO };
        self.inbox.wait(&self.poller, events, timeout);
        core.begin_batch();
        self.events.borrow_mut().extend(events.iter());
        // A nested turn continues with the events of the outer one: the kernel does not report them again.
        loop {
            let next = self.events.borrow_mut().pop_front();
            let Some(Event { token, ready }) = next else { break };
            if token != WAKE {
                self.on_event(core, Key::from_token(token).0, ready);
            }
        }
        let again = std::mem::take(&mut *self.again.borrow_mut());
        for key in again {
            if let Some(connection) = self.connections.borrow_mut().get_mut(key) {
                connection.is_read_again = false;
            }
            self.on_event(core, key, Ready::READ);
        }
        self.settle_all(core);
        self.deliver(core);
        self.end_waits(core);
        self.tick(core);
    }

    fn on_event(&self, core: &mut Executor<'s>, key: Key, ready: Ready) {
        let Some(mut connection) = self.take(key) else {
            if self.connections.borrow().is_live(key) {
                // An outer turn is serving it, or its replies wait for the journal. The kernel does not report
                // this again, so it is looked at again in the next turn.
                self.again.borrow_mut().push(key);
            }
            return;
        };
        let mut next = Next::Keep;
        if ready.is_writable() {
            next = connection.flush();
            if next == Next::Keep && !connection.needs_output() {
                next = connection.resume(core);
            }
        }
        connection.hung_up |= ready.is_hung_up();
        if next == Next::Keep && ready.is_readable() {
            let mut scratch = self.scratch.take();
            scratch.resize(READ_BYTES, 0);
            next = connection.on_readable(core, &mut scratch);
            self.scratch.replace(scratch);
        }
        if self.depth.get() == 0 && core.wants_commit() {
            self.unsettled.borrow_mut().push((key, connection, next));
        } else {
            self.settle(core, key, connection, next);
        }
    }

    /// Commits the journal once for all requests of this turn, then sends their replies.
    fn settle_all(&self, core: &mut Executor<'s>) {
        if self.unsettled.borrow().is_empty() {
            return;
        }
        let durable = core.commit();
        let unsettled = std::mem::take(&mut *self.unsettled.borrow_mut());
        for (key, connection, next) in unsettled {
            if durable || core.is_durable(&connection.client) {
                self.settle(core, key, connection, next);
            } else {
                self.close(core, key, connection);
            }
        }
    }

    /// Writes the replies of a connection and puts it back into the slab, or closes it. Its writes are made
    /// durable first. If that fails, their state is unknown, and the connection is closed without replies;
    /// clients that only read are served.
    fn settle(&self, core: &mut Executor<'s>, key: Key, mut connection: Box<Connection>, next: Next) {
        if !is_durable(core, &connection) {
            return self.close(core, key, connection);
        }
        if next == Next::Close {
            return self.close(core, key, connection);
        }
        // Before anything is written: of a reply that is too long the client gets nothing.
        if connection.is_over_hard_limit(core.config()) {
            return self.close_slow(core, key, connection);
        }
        if connection.flush() == Next::Close {
            return self.close(core, key, connection);
        }
        while connection.can_go_on() {
            let next = connection.resume(core);
            if connection.is_over_hard_limit(core.config()) {
                return self.close_slow(core, key, connection);
            }
            if !is_durable(core, &connection) || next == Next::Close || connection.flush() == Next::Close {
                return self.close(core, key, connection);
            }
        }
        connection.show_buffers(core);
        // A client that lags behind by more than the limit is disconnected.
        let too_much = connection.unwritten() > self.shared.output_bytes_max;
        if too_much || connection.reads_too_slowly(core.config(), core.now_ms()) {
            return self.close_slow(core, key, connection);
        }
        let needs_output = connection.needs_output();
        if needs_output != connection.watches_output {
            connection.watches_output = needs_output;
            // While replies are unwritten, no more is read, so that a client cannot make the buffer grow.
            let interest = interest(&connection.transport, needs_output);
            let watched = self
                .poller
                .modify(&connection.transport, key.token(false), interest);
            if watched.is_err() {
                return self.close(core, key, connection);
            }
        }
        if let Some(deadline_ms) = connection.client.block_deadline_ms() {
            self.deadlines
                .borrow_mut()
                .set(deadline_ms, connection.client.id());
        }
        // While replies are unwritten, the note stays until they are written.
        if connection.read_more && !needs_output && !connection.is_read_again {
            connection.is_read_again = true;
            self.again.borrow_mut().push(key);
        }
        self.connections.borrow_mut().put(key, connection);
    }

    /// Handles what other threads, and commands on this one, have sent.
    fn deliver(&self, core: &mut Executor<'s>) {
        loop {
            let item = {
                let mut pending = self.pending.borrow_mut();
                if self.depth.get() == 0 {
                    // All connections are in the slab again: the kept messages come first.
                    let held = self.held.take();
                    held.into_iter().rev().for_each(|item| pending.push_front(item));
                }
                self.inbox.take(&mut *pending);
                pending.pop_front()
            };
            match item {
                Some(Item::Connection(id, transport)) => self.open(core, id, *transport),
                Some(Item::Message(id, message)) => self.on_message(core, id, message),
                None => return,
            }
        }
    }

    fn on_message(&self, core: &mut Executor<'s>, id: u64, message: Message) {
        let Some(key) = self.by_id.borrow().get(&id).copied() else {
            return;
        };
        let Some(mut connection) = self.take(key) else {
            self.held.borrow_mut().push(Item::Message(id, message));
            return;
        };
        let mut next = Next::Keep;
        match message {
            Message::Push(bytes) => connection.out.raw(&bytes),
            Message::Unblocked(reply) => {
                if let Some(deadline_ms) = connection.client.block_deadline_ms() {
                    self.deadlines.borrow_mut().cancel(deadline_ms, id);
                }
                connection.out.raw(&reply);
                connection.client.unblocked();
                next = connection.resume(core);
            }
            Message::Resume(refusal) => next = connection.go_on(core, refusal),
            Message::Close => connection.close_after_flush(),
            Message::Cut => {
                tracing::warn!(client = id, "connection closed: all of them take too much memory");
                return self.close(core, key, connection);
            }
        }
        self.settle(core, key, connection, next);
    }

    fn open(&self, core: &mut Executor<'s>, id: u64, transport: Transport) {
        let key = self.connections.borrow_mut().reserve();
        let watched = self
            .poller
            .add(&transport, key.token(false), interest(&transport, false));
        if watched.is_err() {
            self.connections.borrow_mut().remove(key);
            self.shared.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let mailbox = Arc::clone(&self.inbox) as Arc<dyn Mailbox>;
        let client = Session::new(id, mailbox, transport.peer_name(), transport.local_name());
        client
            .shared
            .fd
            .store(transport.as_fd().as_raw_fd(), Ordering::Relaxed);
        core.connect(&client);
        self.by_id.borrow_mut().insert(id, key);
        let connection = Box::new(Connection::new(transport, client, core.now_ms()));
        self.connections.borrow_mut().put(key, connection);
    }

    fn close(&self, core: &mut Executor<'s>, key: Key, mut connection: Box<Connection>) {
        if let Some(deadline_ms) = connection.client.block_deadline_ms() {
            self.deadlines
                .borrow_mut()
                .cancel(deadline_ms, connection.client.id());
        }
        core.disconnect(&mut connection.client);
        self.by_id.borrow_mut().remove(&connection.client.id());
        self.connections.borrow_mut().remove(key);
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        // Dropping the socket removes it from the poller.
    }

    fn close_slow(&self, core: &mut Executor<'s>, key: Key, connection: Box<Connection>) {
        tracing::warn!(
            client = connection.client.id(),
            "client reads too slowly, connection closed"
        );
        self.close(core, key, connection);
    }

    #[inline]
    fn take(&self, key: Key) -> Option<Box<Connection>> {
        self.connections.borrow_mut().take(key)
    }

    /// Ends blocked waits whose timeout has passed.
    fn end_waits(&self, core: &mut Executor<'s>) {
        loop {
            let due = self.deadlines.borrow_mut().pop_due(core.now_ms());
            let Some((deadline_ms, id)) = due else {
                return;
            };
            let Some(key) = self.by_id.borrow().get(&id).copied() else {
                continue;
            };
            let Some(mut connection) = self.take(key) else {
                continue;
            };
            if connection.client.block_deadline_ms() != Some(deadline_ms) {
                self.connections.borrow_mut().put(key, connection);
                continue;
            }
            let mut out = std::mem::replace(
                &mut connection.out,
                nagaya_resp::Out::new(connection.client.proto()),
            );
            out.proto = connection.client.proto();
            let ended = core.time_out(&mut connection.client, &mut out);
            connection.out = out;
            let next = if ended {
                connection.resume(core)
            } else {
                Next::Keep
            };
            // If another thread was just serving it, `settle` sets the deadline again: retry soon.
            self.settle(core, key, connection, next);
            if !ended {
                return;
            }
        }
    }

    fn timeout_ms(&self, core: &Executor<'s>) -> i64 {
        let next = self.next_tick_ms.get();
        let deadline = self.deadlines.borrow().next().map_or(next, |at| next.min(at));
        // This saves reading the clock in every turn; a wait ends late by no more than the turn took.
        (deadline - core.now_ms()).clamp(0, TICK_MS)
    }
}

/// Returns the events that a connection is watched for.
fn interest(transport: &Transport, for_output: bool) -> Interest {
    let interest = if for_output {
        Interest::WRITE
    } else {
        Interest::READ
    };
    if transport.is_tls() {
        interest
    } else {
        interest.edge()
    }
}

impl<'s> Pump<'s> for EventLoop<'s> {
    fn pump(&self, core: &mut Executor<'s>) {
        self.depth.set(self.depth.get() + 1);
        let events = self.inner_events.take();
        let mut events = events.unwrap_or_else(|| Events::with_capacity(EVENTS_MAX));
        self.turn(core, &mut events, Duration::ZERO);
        self.inner_events.replace(Some(events));
        self.depth.set(self.depth.get() - 1);
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Makes the writes of a connection durable. Returns false if that failed.
fn is_durable(core: &mut Executor<'_>, connection: &Connection) -> bool {
    !core.wants_commit() || core.commit() || core.is_durable(&connection.client)
}
