//! The clients of a worker: reading, holding back, writing, coming and going.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagaya_commands::client::{Client, Mailbox, Message};

use super::session::{Hold, Session};
use super::slab::Key;
use super::transport::Transport;
use super::worker::{OUTPUT_SOFT_BYTES, READ_BYTES, Worker};

impl Worker<'_> {
    /// Reads from a client once and looks at its requests; true when there may be more to read.
    pub(super) fn read_client(&mut self, key: Key, is_over: bool) -> bool {
        let Some(mut session) = self.clients.take(key) else {
            return false;
        };
        if session.closing {
            self.clients.put(key, session);
            return false;
        }
        if session.hold != Hold::No && session.input.len() >= READ_BYTES {
            session.unread = true;
            self.clients.put(key, session);
            return false;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let read = session.transport.read(&mut scratch);
        let mut more = false;
        let mut is_closed = false;
        match read {
            // It may have closed its half only, and wait for what it asked for.
            Ok(0) if !session.ring.is_empty() => session.closing = true,
            Ok(0) => is_closed = true,
            Ok(read) => {
                more = read == scratch.len() || session.transport.is_tls() || is_over;
                session.active_us = self.now_us;
                self.core.count_read(read);
                self.take_input(key, &mut session, &scratch[..read]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => more = true,
            Err(_) => is_closed = true,
        }
        self.scratch = scratch;
        if is_closed {
            self.close_client(key, session);
            return false;
        }
        self.put_back(key, session);
        more
    }

    fn take_input(&mut self, key: Key, session: &mut Session, bytes: &[u8]) {
        if session.closing {
            return;
        }
        if session.hold == Hold::No && session.input.is_empty() {
            let consumed = self.look_at(key, session, bytes);
            session.input.extend_from_slice(&bytes[consumed..]);
        } else {
            session.input.extend_from_slice(bytes);
            if session.hold == Hold::No {
                self.look_at_input(key, session);
            }
        }
    }

    /// Looks at requests that have arrived already.
    fn look_at_input(&mut self, key: Key, session: &mut Session) {
        let mut input = std::mem::take(&mut session.input);
        let consumed = self.look_at(key, session, &input);
        if consumed == input.len() {
            input = Vec::new();
        } else {
            input.drain(..consumed);
        }
        session.input = input;
    }

    /// Puts a client back into its place after its requests were looked at.
    pub(super) fn put_back(&mut self, key: Key, session: Box<Session>) {
        self.clients.put(key, session);
        self.mark_client(key);
    }

    /// Goes on with clients that were held back.
    pub(super) fn resume(&mut self, key: Key) {
        let Some(mut session) = self.clients.take(key) else {
            return;
        };
        if session.hold == Hold::No && !session.closing {
            self.look_at_input(key, &mut session);
            if session.unread && session.hold == Hold::No {
                session.unread = false;
                self.again.push(key.token(false));
            }
        }
        self.put_back(key, session);
    }

    /// Lets a client go on as soon as the turn comes to it.
    pub(super) fn release(&mut self, key: Key) {
        if let Some(session) = self.clients.get_mut(key) {
            session.hold = Hold::No;
            self.runnable.push(key);
        }
    }

    pub(super) fn look_whether_released(&mut self, key: Key) {
        let Some(session) = self.clients.get(key) else {
            return;
        };
        let free = match session.hold {
            Hold::No | Hold::Busy | Hold::UntilNodes => false,
            Hold::UntilAnswered => session.ring.is_empty(),
            Hold::Full => {
                session.ring.len() < self.shared.config.pipeline_max / 2
                    && session.unwritten() < OUTPUT_SOFT_BYTES
            }
        };
        if free {
            self.release(key);
        }
    }

    pub(super) fn mark_client(&mut self, key: Key) {
        if let Some(session) = self.clients.get_mut(key)
            && !session.in_dirty
        {
            session.in_dirty = true;
            self.dirty_clients.push(key);
        }
    }

    pub(super) fn flush_clients(&mut self) {
        let dirty = std::mem::take(&mut self.dirty_clients);
        for key in dirty {
            let Some(session) = self.clients.get_mut(key) else {
                continue;
            };
            session.in_dirty = false;
            let is_open = session.flush();
            if !is_open || session.unwritten() > self.shared.config.output_bytes_max {
                if is_open {
                    let client = session.client.id();
                    tracing::warn!(client, "client reads too slowly, connection closed");
                }
                if let Some(session) = self.clients.take(key) {
                    self.close_client(key, session);
                }
                continue;
            }
            if session.hold == Hold::Full {
                self.look_whether_released(key);
            }
        }
    }

    pub(super) fn on_message(&mut self, id: u64, message: Message) {
        let Some(key) = self.by_id.get(&id).copied() else {
            return;
        };
        let Some(session) = self.clients.get_mut(key) else {
            return;
        };
        match message {
            Message::Push(bytes) => session.out.extend_from_slice(&bytes),
            Message::Close => {
                session.closing = true;
                session.ring = Default::default();
            }
            // Commands that wait never run on the engine without data.
            Message::Unblocked(_) | Message::GoOn(_) => {}
        }
        self.mark_client(key);
    }

    pub(super) fn open_client(&mut self, id: u64, transport: Transport) {
        let key = self.clients.reserve();
        if !self.watch(&transport, key.token(false)) {
            self.clients.remove(key);
            self.shared.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let mailbox = Arc::clone(&self.inbox) as Arc<dyn Mailbox>;
        let client = Client::new(id, mailbox, transport.peer.as_str(), transport.local.as_str());
        self.core.connect(&client);
        self.by_id.insert(id, key);
        self.clients
            .put(key, Box::new(Session::new(transport, client, self.now_us)));
    }

    /// Tells whether a client is one of this worker's.
    pub(super) fn serves(&self, id: u64) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(super) fn close_client(&mut self, key: Key, mut session: Box<Session>) {
        self.note_left(&session);
        self.end_subscribing(key);
        self.core.disconnect(&mut session.client);
        self.by_id.remove(&session.client.id());
        self.clients.remove(key);
        self.end_blocked(key, &mut session);
        self.end_watch(&mut session);
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        // Dropping the socket takes it out of the epoll set.
    }

    pub(super) fn close_idle(&mut self) {
        let idle_us = u64::from(self.core.config().timeout) * 1_000_000;
        if idle_us == 0 {
            return;
        }
        for key in self.clients.keys() {
            let is_idle = self.clients.get(key).is_some_and(|session| {
                session.active_us + idle_us < self.now_us
                    && session.hold == Hold::No
                    && session.ring.is_empty()
            });
            if is_idle && let Some(session) = self.clients.take(key) {
                self.close_client(key, session);
            }
        }
    }
}
