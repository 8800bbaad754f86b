//! One I/O thread: waits for its connections, runs their requests inline,
//! writes each connection's replies once per turn.
//!
//! A connection stays with its thread for good. It is taken out of its slot
//! while it is being served, so that the loop itself can be entered again from
//! inside a long-running script (see [`Pump`]) without touching it. What arrives
//! for such a connection meanwhile is held back until it is in its slot again.
//!
//! Plain sockets are watched for changes (edge-triggered), which spares the
//! kernel a second look at each of them per turn: a read that fills its buffer
//! is repeated in the next turn, a shorter one has emptied the socket, unless
//! the other end has closed it, which the kernel says with the bytes. Through
//! TLS bytes may stay in between, so those are watched for what is there.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nagaya_commands::client::{Client, Mailbox, Message};
use nagaya_commands::executor::Core;
use nagaya_commands::executor::Pump;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use crate::connection::{Connection, Next};
use crate::engine::Shared;
use crate::inbox::{Inbox, Item};
use crate::transport::Transport;

/// Bytes read from a connection per turn: large enough for a deep pipeline, small enough to be fair.
const READ_BYTES: usize = 64 << 10;
/// Events taken from the kernel per turn.
const EVENTS_MAX: usize = 512;
/// How often the slow duties run.
const TICK_MS: i64 = 100;
/// The token of the wake-up descriptor; connections use their slot numbers.
const WAKE: u64 = u64::MAX;

pub(crate) struct EventLoop<'s> {
    shared: &'s Shared,
    inbox: Arc<Inbox>,
    epoll: OwnedFd,
    slots: RefCell<Vec<Option<Box<Connection>>>>,
    free: RefCell<Vec<usize>>,
    by_id: RefCell<HashMap<u64, usize, ahash::RandomState>>,
    /// Blocked connections whose wait ends by itself.
    deadlines: RefCell<BTreeSet<(i64, u64)>>,
    /// Taken from the inbox and not yet looked at.
    pending: RefCell<VecDeque<Item>>,
    /// Messages for connections that are being served further out.
    held: RefCell<Vec<Item>>,
    /// How many turns are under way inside the outermost one.
    depth: Cell<u32>,
    scratch: RefCell<Vec<u8>>,
    inner_events: RefCell<Vec<epoll::Event>>,
    stop: Arc<AtomicBool>,
    next_tick_ms: Cell<i64>,
    /// Connections whose replies wait for the journal at the end of the turn.
    unsettled: RefCell<Vec<(usize, Box<Connection>, Next)>>,
    /// What the kernel has told and nobody has looked at yet: slots and what is up with them.
    told: RefCell<VecDeque<(u64, epoll::EventFlags)>>,
    /// Slots to read from again, although the kernel has nothing new to tell.
    again: RefCell<Vec<usize>>,
    /// The first thread also removes expired keys.
    expires_keys: bool,
    next_shard: Cell<usize>,
}

impl<'s> EventLoop<'s> {
    pub(crate) fn new(
        shared: &'s Shared,
        inbox: Arc<Inbox>,
        stop: Arc<AtomicBool>,
        first: bool,
    ) -> std::io::Result<EventLoop<'s>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            inbox.wake_fd(),
            epoll::EventData::new_u64(WAKE),
            epoll::EventFlags::IN,
        )?;
        Ok(EventLoop {
            shared,
            inbox,
            epoll,
            slots: RefCell::default(),
            free: RefCell::default(),
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
            told: RefCell::default(),
            again: RefCell::default(),
            expires_keys: first,
            next_shard: Cell::new(0),
        })
    }

    /// Serves until told to stop, then closes every connection.
    pub(crate) fn run(&self, core: &mut Core<'s>) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !self.stop.load(Ordering::Relaxed) {
            let timeout_ms = self.timeout_ms(core);
            self.turn(core, &mut events, timeout_ms);
        }
        let open: Vec<usize> = self.by_id.borrow().values().copied().collect();
        for slot in open {
            if let Some(mut connection) = self.take(slot) {
                connection.flush();
                self.close(core, slot, connection);
            }
        }
    }

    /// Waits at most `timeout_ms` and serves what there is to serve.
    fn turn(&self, core: &mut Core<'s>, events: &mut Vec<epoll::Event>, timeout_ms: i64) {
        let awaited = self.inbox.go_to_sleep() && self.again.borrow().is_empty();
        let timeout_ms = if awaited { timeout_ms } else { 0 };
        let timeout = Timespec {
            tv_sec: timeout_ms / 1000,
            tv_nsec: (timeout_ms % 1000 * 1_000_000) as _,
        };
        events.clear();
        // An interrupted wait is a turn without events.
        epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)).ok();
        self.inbox.awake();
        core.begin_batch();
        let told = events.drain(..).map(|event| (event.data.u64(), event.flags));
        self.told.borrow_mut().extend(told);
        // Turns further in go on with what was told further out: the kernel will not tell it again.
        loop {
            let next = self.told.borrow_mut().pop_front();
            let Some((token, flags)) = next else { break };
            if token == WAKE {
                self.inbox.drain_wake();
                continue;
            }
            self.on_event(core, token as usize, flags);
        }
        let again = std::mem::take(&mut *self.again.borrow_mut());
        for slot in again {
            self.on_event(core, slot, epoll::EventFlags::IN);
        }
        self.settle_all(core);
        self.deliver(core);
        self.end_waits(core);
        self.tick(core);
    }

    fn on_event(&self, core: &mut Core<'s>, slot: usize, flags: epoll::EventFlags) {
        let Some(mut connection) = self.take(slot) else {
            if self.depth.get() > 0 {
                // It is being served further out; the kernel will not tell again.
                self.again.borrow_mut().push(slot);
            }
            return;
        };
        let mut next = Next::Keep;
        if flags.contains(epoll::EventFlags::OUT) {
            next = connection.flush();
            if next == Next::Keep && !connection.needs_output() {
                next = connection.resume(core);
            }
        }
        let readable = epoll::EventFlags::IN
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::HUP
            | epoll::EventFlags::ERR;
        if next == Next::Keep && flags.intersects(readable) {
            let mut scratch = self.scratch.take();
            scratch.resize(READ_BYTES, 0);
            next = connection.on_readable(core, &mut scratch);
            self.scratch.replace(scratch);
            let over = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
            if connection.read_more || flags.intersects(over) {
                self.again.borrow_mut().push(slot);
            }
        }
        if self.depth.get() == 0 && core.wants_commit() {
            self.unsettled.borrow_mut().push((slot, connection, next));
        } else {
            self.settle(core, slot, connection, next);
        }
    }

    /// Makes durable what this turn's requests did, once for all of them, and lets their replies go.
    fn settle_all(&self, core: &mut Core<'s>) {
        if self.unsettled.borrow().is_empty() {
            return;
        }
        let durable = core.commit();
        let unsettled = std::mem::take(&mut *self.unsettled.borrow_mut());
        for (slot, connection, next) in unsettled {
            if durable || core.is_durable(&connection.client) {
                self.settle(core, slot, connection, next);
            } else {
                self.close(core, slot, connection);
            }
        }
    }

    /// Writes what a connection is owed and puts it back, or ends it. What it is owed is made durable
    /// first; when that fails, nobody knows what became of its writes, and it ends without replies. Those
    /// who only read are served.
    fn settle(&self, core: &mut Core<'s>, slot: usize, mut connection: Box<Connection>, next: Next) {
        if !is_durable(core, &connection) {
            return self.close(core, slot, connection);
        }
        if next == Next::Close || connection.flush() == Next::Close {
            return self.close(core, slot, connection);
        }
        while connection.can_go_on() {
            let next = connection.resume(core);
            if !is_durable(core, &connection) || next == Next::Close || connection.flush() == Next::Close {
                return self.close(core, slot, connection);
            }
        }
        connection.show_buffers(core);
        // A reader that lags behind by more than the limit loses its connection.
        let too_much = connection.unwritten() > self.shared.output_bytes_max;
        if too_much || connection.reads_too_slowly(core.config(), core.now_ms()) {
            tracing::warn!(
                client = connection.client.id(),
                "client reads too slowly, connection closed"
            );
            return self.close(core, slot, connection);
        }
        let needs_output = connection.needs_output();
        if needs_output != connection.watches_output {
            connection.watches_output = needs_output;
            // While replies wait, no more is read: a client that does not read cannot make us buffer.
            let flags = watch_flags(&connection.transport, needs_output);
            let data = epoll::EventData::new_u64(slot as u64);
            if epoll::modify(&self.epoll, &connection.transport, data, flags).is_err() {
                return self.close(core, slot, connection);
            }
        }
        if let Some(deadline_ms) = connection.client.block_deadline_ms() {
            self.deadlines
                .borrow_mut()
                .insert((deadline_ms, connection.client.id()));
        }
        self.slots.borrow_mut()[slot] = Some(connection);
    }

    /// Takes what other threads, and commands on this one, have sent.
    fn deliver(&self, core: &mut Core<'s>) {
        loop {
            let item = {
                let mut pending = self.pending.borrow_mut();
                if self.depth.get() == 0 {
                    // Everybody is in their slots again: what was held back comes first.
                    let held = self.held.take();
                    held.into_iter().rev().for_each(|item| pending.push_front(item));
                }
                if self.inbox.has_items() {
                    pending.extend(self.inbox.take());
                }
                pending.pop_front()
            };
            match item {
                Some(Item::Connection(id, transport)) => self.open(core, id, *transport),
                Some(Item::Message(id, message)) => self.on_message(core, id, message),
                None => return,
            }
        }
    }

    fn on_message(&self, core: &mut Core<'s>, id: u64, message: Message) {
        let Some(slot) = self.by_id.borrow().get(&id).copied() else {
            return;
        };
        let Some(mut connection) = self.take(slot) else {
            self.held.borrow_mut().push(Item::Message(id, message));
            return;
        };
        let mut next = Next::Keep;
        match message {
            Message::Push(bytes) => connection.out.raw(&bytes),
            Message::Unblocked(reply) => {
                if let Some(deadline_ms) = connection.client.block_deadline_ms() {
                    self.deadlines.borrow_mut().remove(&(deadline_ms, id));
                }
                connection.out.raw(&reply);
                connection.client.unblocked();
                next = connection.resume(core);
            }
            Message::GoOn(refusal) => next = connection.go_on(core, refusal),
            Message::Close => connection.close_after_flush(),
        }
        self.settle(core, slot, connection, next);
    }

    fn open(&self, core: &mut Core<'s>, id: u64, transport: Transport) {
        let slot = self.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut slots = self.slots.borrow_mut();
            slots.push(None);
            slots.len() - 1
        });
        let data = epoll::EventData::new_u64(slot as u64);
        if epoll::add(&self.epoll, &transport, data, watch_flags(&transport, false)).is_err() {
            self.free.borrow_mut().push(slot);
            self.shared.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let mailbox = Arc::clone(&self.inbox) as Arc<dyn Mailbox>;
        let client = Client::new(id, mailbox, transport.peer.as_str(), transport.local.as_str());
        client
            .shared
            .fd
            .store(transport.as_fd().as_raw_fd(), Ordering::Relaxed);
        core.connect(&client);
        self.by_id.borrow_mut().insert(id, slot);
        let connection = Box::new(Connection::new(transport, client, core.now_ms()));
        self.slots.borrow_mut()[slot] = Some(connection);
    }

    fn close(&self, core: &mut Core<'s>, slot: usize, mut connection: Box<Connection>) {
        if let Some(deadline_ms) = connection.client.block_deadline_ms() {
            self.deadlines
                .borrow_mut()
                .remove(&(deadline_ms, connection.client.id()));
        }
        core.disconnect(&mut connection.client);
        self.by_id.borrow_mut().remove(&connection.client.id());
        self.free.borrow_mut().push(slot);
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        // Dropping the socket takes it out of the epoll set.
    }

    fn take(&self, slot: usize) -> Option<Box<Connection>> {
        self.slots.borrow_mut().get_mut(slot)?.take()
    }

    /// Ends the waits whose time is up.
    fn end_waits(&self, core: &mut Core<'s>) {
        loop {
            let due = self.deadlines.borrow().first().copied();
            let Some((deadline_ms, id)) = due.filter(|(at, _)| *at <= core.now_ms()) else {
                return;
            };
            self.deadlines.borrow_mut().remove(&(deadline_ms, id));
            let Some(slot) = self.by_id.borrow().get(&id).copied() else {
                continue;
            };
            let Some(mut connection) = self.take(slot) else {
                continue;
            };
            if connection.client.block_deadline_ms() != Some(deadline_ms) {
                self.slots.borrow_mut()[slot] = Some(connection);
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
            // When somebody was just serving it, `settle` books the deadline again: ask once more soon.
            self.settle(core, slot, connection, next);
            if !ended {
                return;
            }
        }
    }

    /// The slow duties, ten times a second.
    fn tick(&self, core: &mut Core<'s>) {
        let now_ms = core.now_ms();
        if now_ms < self.next_tick_ms.get() && now_ms + TICK_MS >= self.next_tick_ms.get() {
            return;
        }
        self.next_tick_ms.set(now_ms + TICK_MS);
        self.resume_postponed(core);
        self.close_idle(core);
        if self.expires_keys {
            core.relieve_memory();
        }
        if self.expires_keys && !self.expire_keys(core) {
            // There is more: come back soon, but let clients in between.
            self.next_tick_ms.set(now_ms + TICK_MS / 10);
        }
    }

    /// Removes expired keys, a bounded number per turn; true when none is left.
    fn expire_keys(&self, core: &mut Core<'s>) -> bool {
        const KEYS_PER_SHARD: usize = 64;
        let started_us = self.shared.server.clock.steady_us();
        let count = self.shared.server.keyspace.shards.count();
        let mut done_in_a_row = 0;
        while done_in_a_row < count {
            let shard = self.next_shard.get() % count;
            self.next_shard.set(shard + 1);
            let more = core.expire_shard(shard, KEYS_PER_SHARD);
            done_in_a_row = if more { 0 } else { done_in_a_row + 1 };
            let spent_us = self.shared.server.clock.steady_us() - started_us;
            if spent_us > 2_000 {
                core.note_expire_cycle(spent_us);
                return false;
            }
        }
        core.note_expire_cycle(self.shared.server.clock.steady_us() - started_us);
        true
    }

    fn resume_postponed(&self, core: &mut Core<'s>) {
        let count = self.slots.borrow().len();
        for slot in 0..count {
            let waits = self.slots.borrow()[slot]
                .as_ref()
                .is_some_and(|connection| connection.postponed);
            if waits && let Some(mut connection) = self.take(slot) {
                let next = connection.resume(core);
                self.settle(core, slot, connection, next);
            }
        }
    }

    fn close_idle(&self, core: &mut Core<'s>) {
        let idle_ms = i64::from(core.config().timeout) * 1000;
        if idle_ms == 0 {
            return;
        }
        let count = self.slots.borrow().len();
        for slot in 0..count {
            let idle = self.slots.borrow()[slot].as_ref().is_some_and(|connection| {
                connection.active_ms + idle_ms < core.now_ms() && !connection.client.is_blocked()
            });
            if idle && let Some(connection) = self.take(slot) {
                self.close(core, slot, connection);
            }
        }
    }

    fn timeout_ms(&self, core: &Core<'s>) -> i64 {
        let next = self.next_tick_ms.get();
        let deadline = self
            .deadlines
            .borrow()
            .first()
            .map_or(next, |(at, _)| next.min(*at));
        // A look at the clock for every turn is saved; a wait ends late by no more than the turn took.
        (deadline - core.now_ms()).clamp(0, TICK_MS)
    }
}

/// What the kernel is to tell of a connection.
fn watch_flags(transport: &Transport, for_output: bool) -> epoll::EventFlags {
    let flags = if for_output {
        epoll::EventFlags::OUT
    } else {
        epoll::EventFlags::IN
    };
    if transport.is_tls() {
        flags
    } else {
        flags | epoll::EventFlags::ET | epoll::EventFlags::RDHUP
    }
}

impl<'s> Pump<'s> for EventLoop<'s> {
    fn pump(&self, core: &mut Core<'s>) {
        self.depth.set(self.depth.get() + 1);
        let mut events = self.inner_events.take();
        events.reserve(EVENTS_MAX);
        self.turn(core, &mut events, 0);
        self.inner_events.replace(events);
        self.depth.set(self.depth.get() - 1);
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Makes durable what a connection is owed replies for; false when that failed.
fn is_durable(core: &mut Core<'_>, connection: &Connection) -> bool {
    !core.wants_commit() || core.commit() || core.is_durable(&connection.client)
}
