//! One serving thread: waits for its connections and answers each once per turn.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nagaya_reactor::{
    Events, Inbox, Interest, Key, Listener, Poller, Ready, Slab, Transport, reserved_number, reserved_token,
};

use super::Shared;
use super::connection::{Connection, Next, TurnContext};
use super::stats::GetCounts;
use nagaya_clock::BootTime;

/// Bytes read from a connection per turn: enough for a deep pipeline, few enough to be fair.
const READ_BYTES: usize = 64 << 10;
/// Events taken from the kernel per turn.
const EVENTS_MAX: usize = 256;
/// Connections accepted per turn and listener: a burst must not delay the connected clients.
const ACCEPT_MAX: usize = 64;
/// The interval of the search for idle connections, and of retries after a failed accept.
const TICK: Duration = Duration::from_secs(1);
/// memcached's own text above its limit.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// The token of wake-ups: reserved token 0.
const WAKE: u64 = reserved_token(0);

/// Returns the token of a listener: the reserved ones from 1 on.
const fn listener_token(listener: usize) -> u64 {
    reserved_token(1 + listener as u16)
}

pub(super) struct EventLoop {
    shared: Arc<Shared>,
    own: usize,
    /// The inboxes of all threads; they get new connections in turn.
    inboxes: Vec<Arc<Inbox<Transport>>>,
    next_inbox: usize,
    listeners: Vec<Listener>,
    /// Accepting failed: the listeners are not watched until the next tick.
    accept_paused: bool,
    poller: Poller,
    connections: Slab<Connection>,
    /// Taken from the inbox and not yet watched; empty between turns.
    arrived: Vec<Transport>,
    scratch: Vec<u8>,
    ids: Vec<u64>,
    next_tick: BootTime,
}

impl EventLoop {
    pub(super) fn new(
        shared: Arc<Shared>,
        own: usize,
        inboxes: Vec<Arc<Inbox<Transport>>>,
        listeners: Vec<Listener>,
    ) -> io::Result<EventLoop> {
        let poller = Poller::new()?;
        inboxes[own].watch(&poller, WAKE)?;
        for (number, listener) in listeners.iter().enumerate() {
            poller.add(listener, listener_token(number), Interest::READ)?;
        }
        let now = shared.mint.clock().boot();
        Ok(EventLoop {
            shared,
            own,
            inboxes,
            next_inbox: 0,
            listeners,
            accept_paused: false,
            poller,
            connections: Slab::default(),
            arrived: Vec::new(),
            scratch: vec![0; READ_BYTES],
            ids: Vec::new(),
            next_tick: now + TICK,
        })
    }

    /// Serves until told to stop, then answers what has arrived and closes all connections.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.shared.stop.load(Ordering::Acquire) {
            self.turn(&mut events, TICK);
        }
        self.listeners.clear();
        self.turn(&mut events, Duration::ZERO);
        for key in self.connections.keys() {
            if let Some(connection) = self.connections.get_mut(key) {
                // A slow reader loses what its socket does not take at once.
                connection.flush().ok();
                self.close(key);
            }
        }
    }

    fn turn(&mut self, events: &mut Events, wait_max: Duration) {
        self.inboxes[self.own].wait(&self.poller, events, wait_max);
        let now = self.shared.mint.clock().boot();
        let mut counts = GetCounts::default();
        for event in events.iter() {
            match reserved_number(event.token) {
                None => self.on_event(Key::from_token(event.token).0, event.ready, now, &mut counts),
                Some(0) => {}
                Some(listener) => self.accept(listener as usize - 1, now),
            }
        }
        self.open_arrived(now);
        self.shared.stats.count_gets(counts);
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.close_idle(now);
            if self.accept_paused {
                self.accept_paused = false;
                self.watch_listeners(Interest::READ);
            }
        }
    }

    fn on_event(&mut self, key: Key, ready: Ready, now: BootTime, counts: &mut GetCounts) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let mut context = TurnContext {
            config: &self.shared.config,
            mint: &self.shared.mint,
            stats: &self.shared.stats,
            ids: &mut self.ids,
            counts,
            scratch: &mut self.scratch,
            now,
        };
        let next = if ready.is_writable() {
            connection.on_writable(&mut context)
        } else {
            connection.on_readable(&mut context)
        };
        let watch = match next {
            Next::Close => return self.close(key),
            next if next == connection.watched => return,
            Next::Read => Interest::READ,
            Next::Write => Interest::WRITE,
        };
        connection.watched = next;
        let transport = &connection.transport;
        if self.poller.modify(transport, key.token(false), watch).is_err() {
            self.close(key);
        }
    }

    fn accept(&mut self, listener: usize, now: BootTime) {
        for _ in 0..ACCEPT_MAX {
            let Some(listener) = self.listeners.get(listener) else {
                return;
            };
            match listener.accept() {
                Ok(transport) => self.admit(transport, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Mostly the process is out of descriptors. The listener stays readable, so a pause is needed.
                    tracing::warn!(%error, "could not accept a connection");
                    self.accept_paused = true;
                    return self.watch_listeners(Interest::NONE);
                }
            }
        }
    }

    fn admit(&mut self, mut transport: Transport, now: BootTime) {
        let open = self.shared.open.fetch_add(1, Ordering::Relaxed);
        if open >= self.shared.config.connections_max {
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
            self.shared.stats.connection_rejected();
            transport.write(TOO_MANY).ok();
            return;
        }
        self.shared.stats.connection_opened();
        let inbox = self.next_inbox % self.inboxes.len();
        self.next_inbox += 1;
        if inbox == self.own {
            self.open(transport, now);
        } else {
            self.inboxes[inbox].push(transport);
        }
    }

    /// Takes over the connections that the accepting thread has sent.
    fn open_arrived(&mut self, now: BootTime) {
        let mut arrived = std::mem::take(&mut self.arrived);
        self.inboxes[self.own].take(&mut arrived);
        arrived.drain(..).for_each(|transport| self.open(transport, now));
        self.arrived = arrived;
    }

    fn open(&mut self, transport: Transport, now: BootTime) {
        let key = self.connections.reserve();
        if self
            .poller
            .add(&transport, key.token(false), Interest::READ)
            .is_err()
        {
            return self.close(key);
        }
        self.connections.put(key, Connection::new(transport, now));
    }

    /// Dropping the socket removes it from the poller.
    fn close(&mut self, key: Key) {
        self.connections.remove(key);
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
        self.shared.stats.connection_closed();
    }

    fn close_idle(&mut self, now: BootTime) {
        let limit = self.shared.config.idle_timeout;
        if limit.is_zero() {
            return;
        }
        let is_idle = |connection: &Connection| now.since(connection.active) > limit;
        for key in self.connections.keys_where(is_idle) {
            self.close(key);
        }
    }

    fn watch_listeners(&self, interest: Interest) {
        for (number, listener) in self.listeners.iter().enumerate() {
            if let Err(error) = self.poller.modify(listener, listener_token(number), interest) {
                tracing::error!(%error, "could not watch a listener");
            }
        }
    }
}
