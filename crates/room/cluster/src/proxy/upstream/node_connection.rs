//! One connection to a node.
//!
//! Requests of all clients share it: bytes are appended as they came, written once
//! per turn of the loop, and kept until they are answered, so that a request that was
//! refused, or never written, can be sent elsewhere.

use std::collections::VecDeque;
use std::io::ErrorKind;

use nagaya_reactor::{Key, Transport};
use nagaya_resp::{FrameError, FrameScanner};

use crate::proxy::model::in_flight::{InFlight, Lane};

/// Bytes of answered requests that may stay at the front: moving the rest costs more than they do.
const COMPACT_BYTES: usize = 256 << 10;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Requests of all clients.
    Shared(Lane),
    /// One client's blocking command or WATCH. Without a client it is idle and can be reused.
    Dedicated { client: Option<Key>, resp3: bool },
    /// Messages of channels.
    PubSub,
    /// Messages about every key that changes.
    Broadcast,
}

/// A request of the handshake; the steps differ in what their replies mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeStep {
    /// The connection is useless without it: AUTH, HELLO, SELECT.
    Required,
    /// The connection works without it: its name, scripts.
    Optional,
    /// `INFO server`, the first half of the node's run.
    RunId,
    /// `INFO replication`, the second half.
    ReplicationId,
    /// CLIENT ID, by which other connections name this one.
    ClientId,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Connecting and logging in; requests wait.
    Handshake,
    Ready,
}

/// The bytes that begin a connection, and the replies that they get.
pub(super) type Handshake = (Vec<u8>, VecDeque<HandshakeStep>);

/// A connection to a node.
pub(super) struct NodeConnection {
    pub(super) transport: Transport,
    pub(super) node: usize,
    pub(super) purpose: Purpose,
    pub(super) state: State,
    pub(super) opened_us: u64,
    pub(super) ready_us: u64,
    /// When bytes last arrived.
    pub(super) heard_us: u64,
    /// When the node was last asked whether it is alive, where only it speaks.
    pub(super) pinged_us: u64,
    /// The bytes that are written before any request.
    handshake: Vec<u8>,
    handshake_written: usize,
    /// The replies of the handshake that are missing.
    pub(super) handshake_steps: VecDeque<HandshakeStep>,
    out: Vec<u8>,
    /// The position of the first byte of `out` among all bytes ever queued.
    base: u64,
    /// How many bytes were written, of all that were ever queued.
    written: u64,
    pub(super) in_flight: VecDeque<InFlight>,
    /// How many requests were ever queued, and how many of them are over.
    pub(super) queued: u64,
    pub(super) answered: u64,
    /// The beginning of a reply that is not complete yet.
    pub(super) input: Vec<u8>,
    scanner: FrameScanner,
    pub(super) in_dirty: bool,
}

impl NodeConnection {
    pub(super) fn new(
        transport: Transport,
        node: usize,
        purpose: Purpose,
        handshake: Handshake,
        now_us: u64,
    ) -> NodeConnection {
        NodeConnection {
            transport,
            node,
            purpose,
            state: State::Handshake,
            opened_us: now_us,
            ready_us: 0,
            heard_us: now_us,
            pinged_us: 0,
            handshake: handshake.0,
            handshake_steps: handshake.1,
            handshake_written: 0,
            out: Vec::new(),
            base: 0,
            written: 0,
            in_flight: VecDeque::new(),
            queued: 0,
            answered: 0,
            input: Vec::new(),
            scanner: FrameScanner::default(),
            in_dirty: false,
        }
    }

    /// Appends a request.
    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8], in_flight: InFlight) {
        let start = self.base + self.out.len() as u64;
        self.out.extend_from_slice(bytes);
        self.in_flight.push_back(InFlight {
            start,
            len: bytes.len() as u32,
            ..in_flight
        });
        self.queued += 1;
    }

    /// Appends bytes whose replies are not counted (Pub/Sub).
    pub(super) fn push_raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Returns the bytes of a request that is not answered yet.
    pub(super) fn bytes_of(&self, in_flight: &InFlight) -> &[u8] {
        let start = (in_flight.start - self.base) as usize;
        &self.out[start..start + in_flight.len as usize]
    }

    /// Removes the oldest request, which was answered. Its bytes stay until
    /// [`NodeConnection::forget_answered`].
    #[inline]
    pub(super) fn next_answered(&mut self) -> Option<InFlight> {
        let in_flight = self.in_flight.pop_front();
        self.answered += u64::from(in_flight.is_some());
        in_flight
    }

    /// Drops the bytes of answered requests.
    #[inline]
    pub(super) fn forget_answered(&mut self) {
        let kept_from = match self.in_flight.front() {
            Some(in_flight) => in_flight.start.min(self.written),
            None => self.written,
        };
        let answered = (kept_from - self.base) as usize;
        if answered == self.out.len() {
            self.out.clear();
            if self.out.capacity() > COMPACT_BYTES {
                self.out = Vec::new();
            }
            self.base = kept_from;
        } else if answered > COMPACT_BYTES && answered > self.out.len() / 2 {
            self.out.drain(..answered);
            self.base = kept_from;
        }
    }

    /// Removes the requests of which no byte was written, in order; they can be sent elsewhere.
    pub(super) fn take_unwritten(&mut self) -> Vec<(InFlight, Vec<u8>)> {
        let first = self
            .in_flight
            .partition_point(|in_flight| in_flight.start < self.written);
        let in_flight: Vec<InFlight> = self.in_flight.drain(first..).collect();
        let taken: Vec<_> = in_flight
            .iter()
            .map(|in_flight| (*in_flight, self.bytes_of(in_flight).to_vec()))
            .collect();
        if let Some((in_flight, _)) = taken.first() {
            self.out.truncate((in_flight.start - self.base) as usize);
            self.answered += taken.len() as u64;
        }
        taken
    }

    /// Returns whether an unwritten request was admitted under a lease that is over.
    pub(super) fn has_stale_unwritten(&self, now_us: u64) -> bool {
        let first = self
            .in_flight
            .partition_point(|in_flight| in_flight.start < self.written);
        self.in_flight
            .range(first..)
            .any(|in_flight| in_flight.lease_end_us < now_us)
    }

    pub(super) fn has_unwritten(&self) -> bool {
        self.handshake_written < self.handshake.len()
            || (self.state == State::Ready && self.written < self.base + self.out.len() as u64)
            || self.transport.wants_write()
    }

    /// Writes as much as the socket takes. An error ends the connection.
    pub(super) fn flush(&mut self) -> std::io::Result<()> {
        while self.has_unwritten() {
            let is_handshake = self.handshake_written < self.handshake.len();
            let bytes = if is_handshake {
                &self.handshake[self.handshake_written..]
            } else if self.state == State::Ready {
                &self.out[(self.written - self.base) as usize..]
            } else {
                &[]
            };
            match self.transport.write(bytes) {
                Ok(0) if !self.transport.is_tls() => return Err(ErrorKind::WriteZero.into()),
                Ok(written) if is_handshake => self.handshake_written += written,
                Ok(written) => self.written += written as u64,
                // Not connected yet is not writable yet.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the length of the reply at the start of `bytes`, once it is whole. `bytes` are the same as
    /// last time and more.
    #[inline]
    pub(super) fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        // Most replies are one short line.
        if let [b'+' | b':', rest @ ..] = bytes {
            let line = &rest[..rest.len().min(32)];
            if let Some(end) = line.iter().position(|&byte| byte == b'\r')
                && line.get(end + 1) == Some(&b'\n')
            {
                return Ok(Some(end + 3));
            }
        }
        self.scanner.scan(bytes)
    }
}
