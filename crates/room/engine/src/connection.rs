//! One connection: requests that have not been executed, replies that have not been written.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagaya_exec::config::Config;
use nagaya_exec::dispatch::Executed;
use nagaya_exec::executor::Executor;
use nagaya_exec::session::Session;
use nagaya_reactor::Transport;
use nagaya_resp::{Limits, Out, Parsed, RequestParser};

/// Bytes of unwritten replies above which no further requests are read.
const OUTPUT_SOFT_BYTES: usize = 1 << 20;
/// The most arguments of one request: Redis's own limit.
const ARGS_MAX: usize = 1024 * 1024;
/// Bytes of unwritten replies that no limit counts, as in Redis, which has a buffer of this size beside the list
/// that its limits are about.
const OUTPUT_FREE_BYTES: usize = 16 << 10;
/// The largest buffer, in bytes, that an idle connection keeps.
const KEPT_BUFFER_BYTES: usize = 4 << 10;

/// What to do with a connection next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Keep,
    Close,
}

pub(crate) struct Connection {
    pub(crate) transport: Transport,
    pub(crate) client: Session,
    parser: RequestParser,
    /// Bytes of requests that have not been executed.
    input: Vec<u8>,
    pub(crate) out: Out,
    /// How much of `out` has been written.
    written: usize,
    /// Bytes written and not yet counted.
    uncounted: usize,
    /// The event loop waits for the socket to become writable.
    pub(crate) watches_output: bool,
    /// No more is read or executed; the connection ends once its replies are written.
    closing: bool,
    /// Requests that have arrived wait until the replies before them are written.
    stalled: bool,
    /// When the unwritten replies passed the soft limit, in Unix milliseconds.
    over_soft_since_ms: Option<i64>,
    /// The next request waits for the end of a pause, or is retried at each tick.
    pub(crate) postponed: bool,
    /// The next request waits for a message of another thread, such as a finished load.
    pub(crate) waits: bool,
    /// The peer will send no more; its end is behind the bytes that are still to be read.
    pub(crate) hung_up: bool,
    /// The last read filled its buffer, or the peer has hung up: there may be more.
    pub(crate) read_more: bool,
    /// The event loop is about to read again.
    pub(crate) is_read_again: bool,
    /// When the last bytes arrived, in Unix milliseconds.
    pub(crate) active_ms: i64,
}

impl Connection {
    pub(crate) fn new(transport: Transport, client: Session, now_ms: i64) -> Connection {
        Connection {
            transport,
            out: Out::new(client.proto()),
            client,
            parser: RequestParser::default(),
            input: Vec::new(),
            written: 0,
            uncounted: 0,
            watches_output: false,
            closing: false,
            stalled: false,
            over_soft_since_ms: None,
            postponed: false,
            waits: false,
            hung_up: false,
            read_more: false,
            is_read_again: false,
            active_ms: now_ms,
        }
    }

    /// Reads once and executes the complete requests.
    pub(crate) fn on_readable(&mut self, core: &mut Executor<'_>, scratch: &mut [u8]) -> Next {
        self.read_more = false;
        let read = match self.transport.read(scratch) {
            Ok(0) => return Next::Close,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Next::Keep,
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                self.read_more = true;
                return Next::Keep;
            }
            Err(_) => return Next::Close,
        };
        self.read_more = read == scratch.len() || self.hung_up;
        self.active_ms = core.now_ms();
        core.count_read(read);
        if self.closing {
            return Next::Keep;
        }
        if self.waits {
            self.input.extend_from_slice(&scratch[..read]);
        } else if self.input.is_empty() {
            let consumed = self.run(core, &scratch[..read]);
            self.input.extend_from_slice(&scratch[consumed..read]);
        } else {
            self.input.extend_from_slice(&scratch[..read]);
            self.resume(core);
        }
        // Requests gather while the client is blocked, paused, or waits for a load.
        if self.input.len() > core.config().client_query_buffer_limit {
            Next::Close
        } else {
            Next::Keep
        }
    }

    /// Executes complete requests that had to wait for a load, a pause or a full output buffer.
    pub(crate) fn resume(&mut self, core: &mut Executor<'_>) -> Next {
        if self.input.is_empty() {
            return Next::Keep;
        }
        let mut input = std::mem::take(&mut self.input);
        let consumed = self.run(core, &input);
        if consumed == input.len() {
            input.clear();
            if input.capacity() > KEPT_BUFFER_BYTES {
                input = Vec::new();
            }
        } else {
            input.drain(..consumed);
        }
        self.input = input;
        Next::Keep
    }

    /// Executes requests until the bytes are used up or the connection has to wait. Returns the bytes consumed.
    fn run(&mut self, core: &mut Executor<'_>, bytes: &[u8]) -> usize {
        let mut at = 0;
        self.postponed = false;
        self.waits = false;
        self.stalled = false;
        let mut limits = self.limits(core);
        while !self.closing && !self.client.is_blocked() {
            let rest = &bytes[at..];
            if rest.is_empty() {
                break;
            }
            if self.out.buf.len() >= OUTPUT_SOFT_BYTES {
                self.stalled = true;
                break;
            }
            match self.parser.parse(rest, &limits) {
                Ok(Parsed::Complete { consumed }) => {
                    let args = self.parser.args(rest);
                    self.out.proto = self.client.proto();
                    let executed = core.execute(&mut self.client, args, &mut self.out);
                    if executed != Executed::Done {
                        self.postponed = true;
                        self.waits = executed == Executed::Waiting;
                        break;
                    }
                    at += consumed;
                    self.closing = self.client.close_after_reply;
                    if self.is_over_hard_limit(core.config()) {
                        break;
                    }
                    if limits.args_max < ARGS_MAX {
                        limits = self.limits(core);
                    }
                }
                Ok(Parsed::Empty { consumed }) => at += consumed,
                Ok(Parsed::Incomplete) => break,
                Err(error) => {
                    if !error.is_silent() {
                        self.out.error(&format!("ERR {error}"));
                    }
                    self.closing = true;
                }
            }
        }
        if self.closing { bytes.len() } else { at }
    }

    /// Returns the limits of a request. They are low before the client has authenticated.
    fn limits(&mut self, core: &Executor<'_>) -> Limits {
        if core.must_authenticate(&mut self.client) {
            return Limits::unauthenticated();
        }
        Limits {
            bulk_bytes_max: core.config().proto_max_bulk_len,
            query_bytes_max: core.config().client_query_buffer_limit,
            args_max: ARGS_MAX,
            ..Limits::default()
        }
    }

    /// Returns whether requests waited for replies that have been written since.
    pub(crate) fn can_go_on(&self) -> bool {
        self.stalled && !self.needs_output()
    }

    /// Returns whether more replies are unwritten than the settings ever allow. As in Redis nothing of them is
    /// written then.
    #[inline]
    pub(crate) fn is_over_hard_limit(&self, config: &Config) -> bool {
        if self.unwritten() <= OUTPUT_FREE_BYTES {
            return false;
        }
        let hard_bytes = config.output_limit(self.client.is_subscribed()).hard_bytes;
        hard_bytes > 0 && self.unwritten() as u64 >= hard_bytes
    }

    /// Returns whether more replies have been unwritten for longer than the settings allow.
    pub(crate) fn reads_too_slowly(&mut self, config: &Config, now_ms: i64) -> bool {
        let limit = config.output_limit(self.client.is_subscribed());
        if limit.soft_bytes == 0 || (self.unwritten() as u64) < limit.soft_bytes {
            self.over_soft_since_ms = None;
            return false;
        }
        let since_ms = *self.over_soft_since_ms.get_or_insert(now_ms);
        now_ms - since_ms > limit.soft_seconds as i64 * 1000
    }

    /// Returns whether replies that were over the soft limit when last looked at have been for too long.
    pub(crate) fn is_slow(&self, config: &Config, now_ms: i64) -> bool {
        let limit = config.output_limit(self.client.is_subscribed());
        let is_over = limit.soft_bytes > 0 && self.unwritten() as u64 >= limit.soft_bytes;
        self.over_soft_since_ms
            .is_some_and(|since_ms| is_over && now_ms - since_ms > limit.soft_seconds as i64 * 1000)
    }

    /// Tells how much memory the connection takes, if somebody wants to know.
    pub(crate) fn note_memory(&self, core: &Executor<'_>) {
        let buffers = self.input.capacity() + self.out.buf.capacity();
        core.note_client_memory(&self.client, size_of::<Connection>() + buffers);
    }

    /// Counts written bytes and publishes the sizes of the buffers (INFO, CLIENT LIST).
    pub(crate) fn show_buffers(&mut self, core: &Executor<'_>) {
        if self.uncounted > 0 {
            core.count_written(std::mem::take(&mut self.uncounted));
        }
        let shared = &self.client.shared;
        shared.input_bytes.store(self.input.len(), Ordering::Relaxed);
        shared
            .input_free_bytes
            .store(self.input.capacity() - self.input.len(), Ordering::Relaxed);
        shared.output_bytes.store(self.unwritten(), Ordering::Relaxed);
        self.note_memory(core);
    }

    /// Writes as much as the socket takes.
    pub(crate) fn flush(&mut self) -> Next {
        while self.written < self.out.buf.len() || self.transport.wants_write() {
            match self.transport.write(&self.out.buf[self.written..]) {
                // Through TLS, only older bytes may have been written.
                Ok(0) if !self.transport.is_tls() => return Next::Close,
                Ok(written) => {
                    self.written += written;
                    self.uncounted += written;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Next::Keep,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Next::Close,
            }
        }
        self.out.buf.clear();
        self.written = 0;
        if self.out.buf.capacity() > KEPT_BUFFER_BYTES {
            self.out.buf = Vec::new();
        }
        if self.closing { Next::Close } else { Next::Keep }
    }

    /// Executes the request that waited for a load, or refuses it.
    pub(crate) fn go_on(&mut self, core: &mut Executor<'_>, refusal: Option<Arc<str>>) -> Next {
        if !self.waits {
            // It has been retried in the meantime.
            return Next::Keep;
        }
        self.client.refusal = refusal;
        self.resume(core)
    }

    /// Ends the connection once its replies are written.
    pub(crate) fn close_after_flush(&mut self) {
        self.closing = true;
        self.input = Vec::new();
    }

    /// Returns the number of unwritten bytes.
    pub(crate) fn unwritten(&self) -> usize {
        self.out.buf.len() - self.written
    }

    /// Returns whether the event loop has to wait for the socket to become writable.
    pub(crate) fn needs_output(&self) -> bool {
        self.unwritten() > 0 || self.transport.wants_write()
    }
}
