//! The clients of a worker: how they connect, are read from, paused and written to, and leave.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagaya_connections::client::{Mailbox, Message};
use nagaya_exec::session::Session as ExecSession;
use nagaya_reactor::{Interest, Key, Transport};

use super::features::tracking::waits_for_replies;
use super::model::session::{ReadPause, Session};
use super::worker::{READ_BYTES, Worker};

impl Worker<'_> {
    /// Reads from a client once and handles its requests; returns whether there may be more to read.
    pub(super) fn read_client(&mut self, key: Key, is_over: bool) -> bool {
        let Some(mut session) = self.sessions.take(key) else {
            return false;
        };
        if session.closing {
            self.sessions.put(key, session);
            return false;
        }
        if session.pause != ReadPause::None && session.input.len() >= READ_BYTES {
            session.unread = true;
            self.sessions.put(key, session);
            return false;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let read = session.transport.read(&mut scratch);
        let mut more = false;
        let mut is_closed = false;
        match read {
            // It may have closed its half only, and wait for its replies.
            Ok(0) if !session.ring.is_empty() => session.closing = true,
            Ok(0) => is_closed = true,
            Ok(read) => {
                more = read == scratch.len() || session.transport.is_tls() || is_over;
                session.active_us = self.env.now_us;
                self.executor.count_read(read);
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
        self.sessions.put_back(key, session);
        more
    }

    fn take_input(&mut self, key: Key, session: &mut Session, bytes: &[u8]) {
        if session.closing {
            return;
        }
        if session.pause == ReadPause::None && session.input.is_empty() {
            let consumed = self.handle_requests(key, session, bytes);
            session.input.extend_from_slice(&bytes[consumed..]);
        } else {
            session.input.extend_from_slice(bytes);
            if session.pause == ReadPause::None {
                self.handle_input(key, session);
            }
        }
    }

    /// Handles requests that have arrived already.
    fn handle_input(&mut self, key: Key, session: &mut Session) {
        let mut input = std::mem::take(&mut session.input);
        let consumed = self.handle_requests(key, session, &input);
        if consumed == input.len() {
            input = Vec::new();
        } else {
            input.drain(..consumed);
        }
        session.input = input;
    }

    /// Goes on with a client whose pause is over.
    pub(super) fn resume(&mut self, key: Key) {
        let Some(mut session) = self.sessions.take(key) else {
            return;
        };
        if session.pause == ReadPause::None && !session.closing {
            self.handle_input(key, &mut session);
            if session.unread && session.pause == ReadPause::None {
                session.unread = false;
                self.again.push(key.token(false));
            }
        }
        self.sessions.put_back(key, session);
    }

    pub(super) fn flush_clients(&mut self) {
        let config = &self.env.shared.config;
        for key in self.sessions.take_dirty() {
            let Some(session) = self.sessions.get_mut(key) else {
                continue;
            };
            session.in_dirty = false;
            let is_open = session.flush();
            if !is_open || session.unwritten() > config.output_bytes_max {
                if is_open {
                    let client = session.client.id();
                    tracing::warn!(client, "client reads too slowly, connection closed");
                }
                if let Some(session) = self.sessions.take(key) {
                    self.close_client(key, session);
                }
                continue;
            }
            if session.pause == ReadPause::Full {
                self.sessions.release_if_free(key, config.pipeline_max);
            }
        }
    }

    /// Processes a message from another thread to a client.
    pub(super) fn on_message(&mut self, id: u64, message: Message) {
        let Some(key) = self.sessions.key_of(id) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        match message {
            Message::Push(bytes) if session.blocked.is_none() && waits_for_replies(&bytes) => {
                session.append_reply(&bytes);
            }
            Message::Push(bytes) => session.out.extend_from_slice(&bytes),
            Message::Close | Message::Cut => {
                session.closing = true;
                session.ring = Default::default();
            }
            // Commands that wait never run on the engine without data.
            Message::Unblocked(_) | Message::Resume(_) => {}
        }
        self.sessions.mark(key);
    }

    pub(super) fn open_client(&mut self, id: u64, transport: Transport) {
        let key = self.sessions.reserve();
        let interest = Interest::READ_WRITE.edge();
        if self.poller.add(&transport, key.token(false), interest).is_err() {
            self.sessions.remove(key, id);
            self.env.shared.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let mailbox = Arc::clone(self.env.inbox) as Arc<dyn Mailbox>;
        let client = ExecSession::new(id, mailbox, transport.peer_name(), transport.local_name());
        self.executor.connect(&client);
        let session = Session::new(transport, client, self.env.now_us);
        self.sessions.add(key, Box::new(session));
    }

    /// Closes a client that was taken out of its place. Dropping the socket takes it out of the epoll set.
    pub(super) fn close_client(&mut self, key: Key, mut session: Box<Session>) {
        let features = &mut self.features;
        features.subscriptions.note_left(&session);
        features.subscriptions.forget_client(key);
        features.tracking.forget_client(&mut self.io.upstream, key);
        features.flushes.forget(key);
        self.executor.disconnect(&mut session.client);
        self.sessions.remove(key, session.client.id());
        features.blocking.end(&mut self.io, key, &mut session);
        self.io.upstream.close(session.end_watch());
        self.env.shared.connections.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn close_idle(&mut self) {
        let idle_us = u64::from(self.executor.config().timeout) * 1_000_000;
        if idle_us == 0 {
            return;
        }
        for key in self.sessions.keys() {
            let is_idle = self.sessions.get(key).is_some_and(|session| {
                session.active_us + idle_us < self.env.now_us
                    && session.pause == ReadPause::None
                    && session.ring.is_empty()
            });
            if is_idle && let Some(session) = self.sessions.take(key) {
                self.close_client(key, session);
            }
        }
    }
}
