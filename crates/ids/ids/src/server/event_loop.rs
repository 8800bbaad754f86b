//! One serving thread: waits for its connections and answers each once per turn.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::Shared;
use super::connection::{Connection, Next, Tools};
use super::inbox::Inbox;
use super::listener::{Listener, Stream};
use super::stats::GetCounts;
use crate::clock::BootTime;

/// Bytes read from a connection per turn: enough for a deep pipeline, few enough to be fair.
const READ_BYTES: usize = 64 << 10;
/// Events taken from the kernel per turn.
const EVENTS_MAX: usize = 256;
/// Connections accepted per turn and listener, so that a rush does not stop the serving.
const ACCEPT_MAX: usize = 64;
/// How often idle connections are looked for, and a failed accept is tried again.
const TICK: Duration = Duration::from_secs(1);
/// What memcached says above its limit.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// Tokens of what is watched; connections use their slot numbers, far below.
const WAKE: u64 = u64::MAX;
const FIRST_LISTENER: u64 = 1 << 32;

pub(super) struct EventLoop {
    shared: Arc<Shared>,
    own: usize,
    /// Of all threads; connections are dealt to them in turn.
    inboxes: Vec<Arc<Inbox>>,
    next_inbox: usize,
    listeners: Vec<Listener>,
    /// Accepting failed: the listeners are not watched until the next tick.
    accept_paused: bool,
    epoll: OwnedFd,
    slots: Vec<Option<Connection>>,
    free: Vec<usize>,
    scratch: Vec<u8>,
    ids: Vec<u64>,
    next_tick: BootTime,
}

impl EventLoop {
    pub(super) fn new(
        shared: Arc<Shared>,
        own: usize,
        inboxes: Vec<Arc<Inbox>>,
        listeners: Vec<Listener>,
    ) -> io::Result<EventLoop> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&epoll, &inboxes[own], epoll::EventData::new_u64(WAKE), readable)?;
        for (token, listener) in (FIRST_LISTENER..).zip(&listeners) {
            epoll::add(&epoll, listener, epoll::EventData::new_u64(token), readable)?;
        }
        let now = shared.mint.clock().boot();
        Ok(EventLoop {
            shared,
            own,
            inboxes,
            next_inbox: 0,
            listeners,
            accept_paused: false,
            epoll,
            slots: Vec::new(),
            free: Vec::new(),
            scratch: vec![0; READ_BYTES],
            ids: Vec::new(),
            next_tick: now + TICK,
        })
    }

    /// Serves until told to stop, then answers what has arrived and closes all connections.
    pub(super) fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !self.shared.stop.load(Ordering::Acquire) {
            self.turn(&mut events, TICK);
        }
        self.listeners.clear();
        self.turn(&mut events, Duration::ZERO);
        for slot in 0..self.slots.len() {
            if let Some(mut connection) = self.slots[slot].take() {
                // Slow readers lose what their socket does not take at once.
                connection.flush().ok();
                self.forget(slot);
            }
        }
    }

    fn turn(&mut self, events: &mut Vec<epoll::Event>, wait_max: Duration) {
        let timeout = Timespec {
            tv_sec: wait_max.as_secs() as _,
            tv_nsec: wait_max.subsec_nanos() as _,
        };
        events.clear();
        // An interrupted wait is a turn without events.
        epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)).ok();
        let now = self.shared.mint.clock().boot();
        let mut counts = GetCounts::default();
        for event in events.drain(..) {
            match event.data.u64() {
                WAKE => self.welcome(now),
                token if token >= FIRST_LISTENER => self.accept((token - FIRST_LISTENER) as usize, now),
                slot => self.on_event(slot as usize, event.flags, now, &mut counts),
            }
        }
        self.shared.stats.count_gets(counts);
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.close_idle(now);
            if self.accept_paused {
                self.accept_paused = false;
                self.watch_listeners(epoll::EventFlags::IN);
            }
        }
    }

    fn on_event(&mut self, slot: usize, flags: epoll::EventFlags, now: BootTime, counts: &mut GetCounts) {
        let Some(connection) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let mut tools = Tools {
            config: &self.shared.config,
            mint: &self.shared.mint,
            stats: &self.shared.stats,
            ids: &mut self.ids,
            counts,
            scratch: &mut self.scratch,
            now,
        };
        let next = if flags.contains(epoll::EventFlags::OUT) {
            connection.on_writable(&mut tools)
        } else {
            connection.on_readable(&mut tools)
        };
        let watch = match next {
            Next::Close => return self.close(slot),
            next if next == connection.watched => return,
            Next::Read => epoll::EventFlags::IN,
            Next::Write => epoll::EventFlags::OUT,
        };
        connection.watched = next;
        let data = epoll::EventData::new_u64(slot as u64);
        if epoll::modify(&self.epoll, &connection.stream, data, watch).is_err() {
            self.close(slot);
        }
    }

    fn accept(&mut self, listener: usize, now: BootTime) {
        for _ in 0..ACCEPT_MAX {
            let Some(listener) = self.listeners.get(listener) else {
                return;
            };
            match listener.accept() {
                Ok(stream) => self.admit(stream, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Out of descriptors, mostly: the listener stays readable, so do not spin.
                    tracing::warn!(%error, "could not accept a connection");
                    self.accept_paused = true;
                    return self.watch_listeners(epoll::EventFlags::empty());
                }
            }
        }
    }

    fn admit(&mut self, mut stream: Stream, now: BootTime) {
        let open = self.shared.open.fetch_add(1, Ordering::Relaxed);
        if open >= self.shared.config.connections_max {
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
            self.shared.stats.connection_rejected();
            stream.write(TOO_MANY).ok();
            return;
        }
        self.shared.stats.connection_opened();
        let inbox = self.next_inbox % self.inboxes.len();
        self.next_inbox += 1;
        if inbox == self.own {
            self.open(stream, now);
        } else {
            self.inboxes[inbox].push(stream);
        }
    }

    /// Takes over the connections that the accepting thread has sent.
    fn welcome(&mut self, now: BootTime) {
        for stream in self.inboxes[self.own].take() {
            self.open(stream, now);
        }
    }

    fn open(&mut self, stream: Stream, now: BootTime) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let data = epoll::EventData::new_u64(slot as u64);
        if epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN).is_err() {
            return self.forget(slot);
        }
        self.slots[slot] = Some(Connection::new(stream, now));
    }

    /// Dropping the socket takes it out of the epoll set.
    fn close(&mut self, slot: usize) {
        self.slots[slot] = None;
        self.forget(slot);
    }

    fn forget(&mut self, slot: usize) {
        self.free.push(slot);
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
        self.shared.stats.connection_closed();
    }

    fn close_idle(&mut self, now: BootTime) {
        let limit = self.shared.config.idle_timeout;
        if limit.is_zero() {
            return;
        }
        for slot in 0..self.slots.len() {
            let connection = self.slots[slot].as_ref();
            if connection.is_some_and(|connection| now.since(connection.active) > limit) {
                self.close(slot);
            }
        }
    }

    fn watch_listeners(&self, flags: epoll::EventFlags) {
        for (token, listener) in (FIRST_LISTENER..).zip(&self.listeners) {
            let data = epoll::EventData::new_u64(token);
            if let Err(error) = epoll::modify(&self.epoll, listener, data, flags) {
                tracing::error!(%error, "could not watch a listener");
            }
        }
    }
}
