//! One connection to a node.
//!
//! Requests of all clients share it: bytes are appended as they came, written once
//! per turn of the loop, and kept until they are answered, so that one that was
//! refused, or never written, can be sent elsewhere.

use std::collections::VecDeque;
use std::io::ErrorKind;

use nagaya_resp::{FrameError, FrameScanner};

use super::model::in_flight::InFlight;
use super::slab::Key;
use super::transport::Transport;

/// Answered bytes kept at the front before the rest is moved up.
const COMPACT_BYTES: usize = 256 << 10;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Requests of all clients; `resp3` tells which protocol it speaks.
    Shared { resp3: bool },
    /// One client's blocking command or WATCH; nobody's while it waits to be used again.
    Dedicated { client: Option<Key>, resp3: bool },
    /// Messages of channels.
    PubSub,
}

/// A request of the login, whose reply matters differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeStep {
    /// Nothing works without it: AUTH, HELLO, SELECT.
    Needed,
    /// Good to have: the connection's name.
    Wanted,
    /// `INFO server` and `INFO replication`: which life of the node this is.
    RunId,
    ReplicationId,
}

/// How far the connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Connecting and logging in; requests wait.
    Handshake,
    Ready,
}

pub(crate) struct NodeConnection {
    pub(crate) transport: Transport,
    pub(crate) node: usize,
    pub(crate) purpose: Purpose,
    pub(crate) state: State,
    pub(crate) opened_us: u64,
    pub(crate) ready_us: u64,
    /// When it was last heard of, and last asked whether it is there (messages only).
    pub(crate) heard_us: u64,
    pub(crate) pinged_us: u64,
    /// What is written before anything else.
    handshake: Vec<u8>,
    handshake_written: usize,
    /// The replies of the login that are missing.
    pub(crate) handshake_steps: VecDeque<HandshakeStep>,
    out: Vec<u8>,
    /// How much was handed in before the first byte of `out`.
    base: u64,
    /// How much was written, of all that was ever handed in.
    written: u64,
    pub(crate) in_flight: VecDeque<InFlight>,
    /// How many flights were handed in and how many are over.
    pub(crate) queued: u64,
    pub(crate) answered: u64,
    /// The beginning of a reply that is not whole yet.
    pub(crate) input: Vec<u8>,
    scanner: FrameScanner,
    pub(crate) in_dirty: bool,
}

impl NodeConnection {
    pub(crate) fn new(
        transport: Transport,
        node: usize,
        purpose: Purpose,
        handshake: (Vec<u8>, VecDeque<HandshakeStep>),
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
    pub(crate) fn push(&mut self, bytes: &[u8], in_flight: InFlight) {
        let start = self.base + self.out.len() as u64;
        self.out.extend_from_slice(bytes);
        self.in_flight.push_back(InFlight {
            start,
            len: bytes.len() as u32,
            ..in_flight
        });
        self.queued += 1;
    }

    /// Appends bytes whose replies nobody counts (Pub/Sub).
    pub(crate) fn push_raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Returns the bytes of a request that is not answered yet.
    pub(crate) fn bytes_of(&self, in_flight: &InFlight) -> &[u8] {
        let start = (in_flight.start - self.base) as usize;
        &self.out[start..start + in_flight.len as usize]
    }

    /// Takes the oldest request off: it was answered. Its bytes stay until [`NodeConnection::forget_answered`].
    #[inline]
    pub(crate) fn next_answered(&mut self) -> Option<InFlight> {
        let in_flight = self.in_flight.pop_front();
        self.answered += u64::from(in_flight.is_some());
        in_flight
    }

    /// Gives up the bytes of answered requests.
    #[inline]
    pub(crate) fn forget_answered(&mut self) {
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

    /// Takes back the requests that were not written at all, in order; they can go elsewhere.
    pub(crate) fn take_unwritten(&mut self) -> Vec<(InFlight, Vec<u8>)> {
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

    /// Tells whether the oldest request that is not written at all was admitted under a lease that is over.
    pub(crate) fn has_stale_unwritten(&self, now_us: u64) -> bool {
        let first = self
            .in_flight
            .partition_point(|in_flight| in_flight.start < self.written);
        self.in_flight
            .range(first..)
            .any(|in_flight| in_flight.lease_end_us < now_us)
    }

    pub(crate) fn has_unwritten(&self) -> bool {
        self.handshake_written < self.handshake.len()
            || (self.state == State::Ready && self.written < self.base + self.out.len() as u64)
            || self.transport.wants_write()
    }

    /// Writes as much as the socket takes. An error ends the connection.
    pub(crate) fn flush(&mut self) -> std::io::Result<()> {
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
    pub(crate) fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
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
