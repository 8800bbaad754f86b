//! One client's connection: its unhandled input and the replies it is owed.

use std::io::ErrorKind;
use std::sync::Arc;

use nagaya_exec::session::Session as ExecSession;
use nagaya_exec::session::tracking::Mode;
use nagaya_reactor::{Key, Transport};
use nagaya_resp::{Out, Proto, RequestParser};

use super::client_state::{Blocked, TransactionQueue, Watch};
use super::in_flight::{Delivery, Origin};
use super::replicas::WrittenSlots;
use super::reply_ring::ReplyRing;

/// The largest output buffer that an idle connection keeps: there may be 10,000 of them.
const KEPT_BUFFER_BYTES: usize = 16 << 10;

/// Why a client's next request is not handled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPause {
    /// Requests are read.
    None,
    /// The next request needs all earlier ones to be answered first.
    UntilAnswered,
    /// The next request goes to all nodes, and none is known yet.
    UntilNodes,
    /// A command blocks the client (BLPOP), or could be overtaken by later ones.
    Busy,
    /// A request over several tags is under way; later ones could overtake it.
    Ordered,
    /// Too many replies are unread or awaited.
    Full,
}

pub(crate) struct Session {
    pub(crate) transport: Transport,
    pub(crate) client: ExecSession,
    pub(crate) parser: RequestParser,
    pub(crate) input: Vec<u8>,
    pub(crate) ring: ReplyRing,
    pub(crate) out: Vec<u8>,
    written: usize,
    pub(crate) pause: ReadPause,
    pub(crate) queue: Option<Box<TransactionQueue>>,
    pub(crate) watch: Option<Box<Watch>>,
    pub(crate) blocked: Option<Box<Blocked>>,
    /// The client waits for a command about tags; dropping this abandons it.
    pub(crate) tag_command: Option<Arc<()>>,
    /// Bytes were left in the socket.
    pub(crate) unread: bool,
    /// No more is read; the connection ends once the owed replies are written.
    pub(crate) closing: bool,
    pub(crate) in_dirty: bool,
    /// Bytes of requests since none was under way.
    pub(crate) under_way_bytes: usize,
    pub(crate) active_us: u64,
    /// What a WAIT of this client is about.
    pub(crate) written_slots: WrittenSlots,
}

impl Session {
    pub(crate) fn new(transport: Transport, client: ExecSession, now_us: u64) -> Session {
        Session {
            transport,
            client,
            parser: RequestParser::default(),
            input: Vec::new(),
            ring: ReplyRing::default(),
            out: Vec::new(),
            written: 0,
            pause: ReadPause::None,
            queue: None,
            watch: None,
            blocked: None,
            tag_command: None,
            unread: false,
            closing: false,
            in_dirty: false,
            under_way_bytes: 0,
            active_us: now_us,
            written_slots: WrittenSlots::default(),
        }
    }

    /// Puts a reply into its place among those that are owed.
    #[inline]
    pub(crate) fn fill(&mut self, place: u32, reply: &[u8]) {
        self.ring.fill(place, reply, &mut self.out);
    }

    /// Appends the reply to the current request.
    pub(crate) fn append_reply(&mut self, reply: &[u8]) {
        if self.ring.is_empty() {
            self.out.extend_from_slice(reply);
        } else {
            let place = self.ring.reserve(true);
            self.fill(place, reply);
        }
    }

    /// Replies to the current request, if the client wants replies.
    pub(crate) fn reply(&mut self, reply: &[u8]) {
        if self.client.takes_reply() {
            self.append_reply(reply);
        }
    }

    /// As [`Session::reply`], with an error.
    pub(crate) fn reply_error(&mut self, text: &str) {
        let mut out = Out::new(Proto::Resp2);
        out.error_bytes(text.as_bytes());
        self.reply(&out.buf);
    }

    /// Takes the next place among the replies that the client is owed; returns the delivery of its request.
    #[inline]
    pub(crate) fn next_delivery(&mut self, client: Key, give_up_us: u64) -> Delivery {
        let wanted = self.client.takes_reply();
        let place = self.ring.reserve(wanted);
        Delivery {
            origin: Origin::Client { client, place },
            resp3: self.client.proto() == Proto::Resp3,
            is_tracked: self
                .client
                .tracking
                .as_ref()
                .is_some_and(|tracking| tracking.mode != Mode::Broadcast),
            attempts: 0,
            give_up_us,
        }
    }

    /// Forgets what the client watches; returns the connection to close.
    #[must_use]
    pub(crate) fn end_watch(&mut self) -> Option<Key> {
        self.watch.take().and_then(|watch| watch.connection)
    }

    pub(crate) fn unwritten(&self) -> usize {
        self.out.len() - self.written
    }

    /// Writes as much as the socket takes; returns false if the connection is over.
    pub(crate) fn flush(&mut self) -> bool {
        while self.written < self.out.len() || self.transport.wants_write() {
            match self.transport.write(&self.out[self.written..]) {
                // Through TLS, bytes of earlier calls may have been written.
                Ok(0) if !self.transport.is_tls() => return false,
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.out.clear();
        self.written = 0;
        if self.out.capacity() > KEPT_BUFFER_BYTES {
            self.out = Vec::new();
        }
        !(self.closing && self.ring.is_empty())
    }
}
