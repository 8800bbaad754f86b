//! One thread of the proxy: clients, nodes and everything between them.
//!
//! A turn of the loop takes what the kernel, the other threads and the clock have to
//! tell, and writes to each node and each client once at its end. That one write per
//! node and turn is what makes the proxy cheap: requests of many clients share it.
//!
//! A client is taken out of its place while its requests are looked at; what would be
//! told to it meanwhile waits in `outcomes`. Nodes' connections stay in place, because
//! a reply may cause requests on the same connection.
//!
//! Sockets are watched for changes (edge-triggered): a read that fills its buffer is
//! repeated in the next turn, a shorter one has emptied the socket, unless the kernel
//! says with the bytes that the other end has closed it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nagaya_commands::executor::Core;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::aim::Rules;
use super::backend::Backend;
use super::burst::Burst;
use super::flight::{Held, Origin};
use super::gate::Gate;
use super::holds::SlotHold;
use super::hub::Hub;
use super::inbox::{Inbox, Item};
use super::nodes::Nodes;
use super::routes::Routes;
use super::service::Shared;
use super::session::{Hold, Session};
use super::slab::{Key, Slab};
use super::split::Join;
use super::transport::Transport;

/// Bytes read from a connection per turn: large enough for a deep pipeline, small enough to be fair.
pub(super) const READ_BYTES: usize = 64 << 10;
/// Events taken from the kernel per turn.
const EVENTS_MAX: usize = 512;
/// How often the slow duties run.
const TICK_US: u64 = 50_000;
/// How long answers are waited for at the end.
const DRAIN_US: u64 = 1_000_000;
/// The token of the wake-up descriptor.
const WAKE: u64 = u64::MAX;
/// Replies waiting beyond this stop the reading of further requests.
pub(crate) const OUTPUT_SOFT_BYTES: usize = 1 << 20;

pub(crate) type Map<K, V> = HashMap<K, V, ahash::RandomState>;

pub(crate) struct Worker<'s> {
    pub(super) shared: &'s Shared,
    pub(super) core: Core<'s>,
    pub(super) routes: Routes,
    pub(super) rules: Rules,
    pub(super) inbox: Arc<Inbox>,
    pub(super) epoll: OwnedFd,
    pub(super) clients: Slab<Box<Session>>,
    pub(super) by_id: Map<u64, Key>,
    pub(super) backends: Slab<Box<Backend>>,
    pub(super) nodes: Nodes,
    /// What waits for slots that are on their way to another node, or whose node refuses them for now.
    pub(super) slot_holds: Map<u16, SlotHold>,
    /// What is to be sent, by when.
    pub(super) delayed: BTreeMap<(u64, u64), Held>,
    pub(super) delayed_count: u64,
    pub(super) joins: Slab<Join>,
    pub(super) bursts: Slab<Box<Burst>>,
    pub(super) gate: Option<Gate>,
    pub(super) hub: Hub,
    pub(super) questions: super::cold_names::Questions,
    /// What is to be told to clients that are out of their places.
    pub(super) outcomes: VecDeque<(Origin, Vec<u8>)>,
    /// Clients whose next request may be looked at again.
    pub(super) runnable: Vec<Key>,
    pub(super) dirty_clients: Vec<Key>,
    pub(super) dirty_backends: Vec<Key>,
    /// Tokens to read from again, although the kernel has nothing new to tell.
    pub(super) again: Vec<u64>,
    /// When waits of blocking commands end.
    pub(super) wake_ups: BTreeSet<(u64, Key)>,
    pub(super) scratch: Vec<u8>,
    /// The steady time at the start of this turn.
    pub(super) now_us: u64,
    pub(super) next_tick_us: u64,
    pub(super) stop: Arc<AtomicBool>,
}

impl<'s> Worker<'s> {
    pub(crate) fn new(
        shared: &'s Shared,
        core: Core<'s>,
        inbox: Arc<Inbox>,
        stop: Arc<AtomicBool>,
    ) -> std::io::Result<Worker<'s>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = epoll::EventData::new_u64(WAKE);
        epoll::add(&epoll, inbox.wake_fd(), wake, epoll::EventFlags::IN)?;
        Ok(Worker {
            shared,
            core,
            routes: Routes::new(),
            rules: shared.rules(),
            inbox,
            epoll,
            clients: Slab::default(),
            by_id: Map::default(),
            backends: Slab::default(),
            nodes: Nodes::default(),
            slot_holds: Map::default(),
            delayed: BTreeMap::new(),
            delayed_count: 0,
            joins: Slab::default(),
            bursts: Slab::default(),
            gate: shared.config.tiering.as_ref().map(Gate::new),
            hub: Hub::default(),
            questions: Default::default(),
            outcomes: VecDeque::new(),
            runnable: Vec::new(),
            dirty_clients: Vec::new(),
            dirty_backends: Vec::new(),
            again: Vec::new(),
            wake_ups: BTreeSet::new(),
            scratch: vec![0; READ_BYTES],
            now_us: shared.server.clock.steady_us(),
            next_tick_us: 0,
            stop,
        })
    }

    /// Serves until told to stop; then takes no more requests, waits a little for the answers to those that
    /// are under way, and closes every connection.
    pub(crate) fn run(&mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !self.stop.load(Ordering::Relaxed) {
            self.turn(&mut events);
        }
        let deadline_us = self.now_us + DRAIN_US;
        while self.now_us < deadline_us && self.is_any_under_way() {
            self.turn(&mut events);
        }
        for key in self.clients.keys() {
            if let Some(mut session) = self.clients.take(key) {
                session.flush();
                self.close_client(key, session);
            }
        }
    }

    /// Holds every client back; tells whether any of them is still owed a reply.
    fn is_any_under_way(&mut self) -> bool {
        let mut is_any = false;
        for key in self.clients.keys() {
            if let Some(session) = self.clients.get_mut(key) {
                session.closing = true;
                is_any |= !session.ring.is_empty();
                self.mark_client(key);
            }
        }
        is_any
    }

    fn turn(&mut self, events: &mut Vec<epoll::Event>) {
        let awaited = self.inbox.go_to_sleep() && self.again.is_empty() && self.runnable.is_empty();
        let timeout_us = if awaited { self.timeout_us() } else { 0 };
        let timeout = Timespec {
            tv_sec: (timeout_us / 1_000_000) as i64,
            tv_nsec: (timeout_us % 1_000_000 * 1000) as _,
        };
        events.clear();
        // An interrupted wait is a turn without events.
        epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)).ok();
        self.inbox.awake();
        self.now_us = self.shared.server.clock.steady_us();
        self.core.begin_batch();
        let again = std::mem::take(&mut self.again);
        for token in again {
            self.on_event(token, epoll::EventFlags::IN);
        }
        for event in events.drain(..) {
            if event.data.u64() == WAKE {
                self.inbox.drain_wake();
            } else {
                self.on_event(event.data.u64(), event.flags);
            }
        }
        for item in self.inbox.take() {
            self.on_item(item);
        }
        self.on_time();
        loop {
            self.settle();
            self.leave_topics();
            self.send_due();
            self.send_touches();
            self.flush_backends();
            self.flush_clients();
            if self.outcomes.is_empty() && self.dirty_clients.is_empty() && self.dirty_backends.is_empty() {
                break;
            }
        }
    }

    fn on_event(&mut self, token: u64, flags: epoll::EventFlags) {
        let (key, is_backend) = Key::of_token(token);
        let over = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        if flags.contains(epoll::EventFlags::OUT) {
            if is_backend {
                self.mark_backend(key);
            } else {
                self.mark_client(key);
            }
        }
        if !flags.intersects(over | epoll::EventFlags::IN) {
            return;
        }
        let is_over = flags.intersects(over);
        let more = if is_backend {
            self.read_backend(key)
        } else {
            self.read_client(key, is_over)
        };
        if more || is_over && self.is_open(key, is_backend) {
            self.again.push(token);
        }
    }

    fn is_open(&self, key: Key, is_backend: bool) -> bool {
        if is_backend {
            self.backends.is_live(key)
        } else {
            // One that is held back is looked at again when it goes on.
            let session = self.clients.get(key);
            session.is_some_and(|session| session.hold == Hold::No && !session.closing)
        }
    }

    fn settle(&mut self) {
        loop {
            while let Some((origin, reply)) = self.outcomes.pop_front() {
                self.deliver(origin, &reply);
            }
            let runnable = std::mem::take(&mut self.runnable);
            if runnable.is_empty() {
                return;
            }
            runnable.into_iter().for_each(|key| self.resume(key));
        }
    }

    /// Gives a reply to whoever waits for it.
    #[inline]
    pub(super) fn deliver(&mut self, origin: Origin, reply: &[u8]) {
        match origin {
            Origin::Client { client, place } => {
                let Some(session) = self.clients.get_mut(client) else {
                    if self.clients.is_live(client) {
                        self.outcomes.push_back((origin, reply.to_vec()));
                    }
                    return;
                };
                session.fill(place, reply);
                if !session.in_dirty {
                    session.in_dirty = true;
                    self.dirty_clients.push(client);
                }
                if session.hold != Hold::No {
                    self.look_whether_released(client);
                }
            }
            other => self.deliver_slowly(other, reply),
        }
    }

    fn deliver_slowly(&mut self, origin: Origin, reply: &[u8]) {
        match origin {
            Origin::Client { .. } | Origin::Nobody => {}
            Origin::Part { join, part } => self.join(join, part as usize, reply),
            Origin::Burst { burst } => self.on_burst(burst, reply),
            Origin::Blocked { client } => self.on_blocked(client, reply),
            Origin::Errand { client } => self.end_errand(client, reply),
            Origin::Watched { client } => self.on_watched(client, reply),
            Origin::Touch { batch } => self.on_touched(batch, reply),
            Origin::RunId { batch } => self.on_run_id(batch, reply),
            Origin::ReplicationId { batch } => self.on_replication_id(batch, reply),
            Origin::Register { tag } => self.on_registered(tag, reply),
            Origin::Again { parked } => self.on_registered_again(parked, reply),
        }
    }

    /// Tells an error to whoever waits for a reply.
    pub(super) fn fail(&mut self, origin: Origin, text: &str) {
        self.outcomes
            .push_back((origin, format!("-{text}\r\n").into_bytes()));
    }

    /// Gives a reply to whoever waits for it, once everybody is in their place.
    pub(super) fn deliver_later(&mut self, origin: Origin, reply: Vec<u8>) {
        self.outcomes.push_back((origin, reply));
    }

    pub(super) fn mark_backend(&mut self, key: Key) {
        if let Some(backend) = self.backends.get_mut(key)
            && !backend.in_dirty
        {
            backend.in_dirty = true;
            self.dirty_backends.push(key);
        }
    }

    fn flush_backends(&mut self) {
        let dirty = std::mem::take(&mut self.dirty_backends);
        if dirty.is_empty() {
            return;
        }
        let now_us = match self.gate {
            Some(_) => self.shared.server.clock.steady_us(),
            None => self.now_us,
        };
        for key in dirty {
            if self.gate.is_some() {
                self.call_back_stale(key, now_us);
            }
            let Some(backend) = self.backends.get_mut(key) else {
                continue;
            };
            backend.in_dirty = false;
            if let Err(error) = backend.flush() {
                self.lose(key, &error.to_string());
            }
        }
    }

    fn on_item(&mut self, item: Item) {
        match item {
            Item::Connection(id, transport) => self.open_client(id, *transport),
            Item::Message(id, message) => self.on_message(id, message),
            Item::Layout(layout) => self.take_layout(&layout),
            Item::LayoutFailed(reason) => self.layout_failed(&reason),
            Item::Loaded { tag, ending } => self.on_loaded(&tag, ending),
            Item::Cold(number, answer) => self.on_cold(number, answer),
            Item::Errand { client, outcome } => self.on_errand(client, outcome),
        }
    }

    /// Has the kernel tell of a socket.
    pub(super) fn watch(&self, transport: &Transport, token: u64) -> bool {
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, transport, epoll::EventData::new_u64(token), flags).is_ok()
    }

    /// What is due by the clock.
    fn on_time(&mut self) {
        self.send_due();
        self.release_holds();
        while let Some(&(due_us, key)) = self.wake_ups.first()
            && due_us <= self.now_us
        {
            self.wake_ups.pop_first();
            self.blocked_too_long(key);
        }
        self.tick_gate();
        if self.now_us < self.next_tick_us {
            return;
        }
        self.next_tick_us = self.now_us + TICK_US;
        self.check_deadlines();
        self.tick_hub();
        self.close_idle();
    }

    fn send_due(&mut self) {
        while let Some(due) = self.delayed.first_entry()
            && due.key().0 <= self.now_us
        {
            let held = due.remove();
            self.send_held(held);
        }
    }

    fn timeout_us(&self) -> u64 {
        let delayed = self.delayed.keys().next().map_or(u64::MAX, |(due_us, _)| *due_us);
        let wake_up = self.wake_ups.first().map_or(u64::MAX, |(due_us, _)| *due_us);
        let tag = self.gate.as_ref().map_or(u64::MAX, Gate::next_due_us);
        let next = self.next_tick_us.min(delayed).min(wake_up).min(tag);
        let next = next.min(self.next_release_us());
        match next.saturating_sub(self.now_us) {
            0 => 0,
            // A millisecond at least, so that rounding does not make the loop spin.
            left => left.clamp(1000, TICK_US),
        }
    }
}
