//! One connection: what was read and not yet run, what is to be written.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagaya_commands::client::Client;
use nagaya_commands::config::{Config, OutputLimit};
use nagaya_commands::dispatch::Executed;
use nagaya_commands::executor::Core;
use nagaya_reactor::Transport;
use nagaya_resp::{Limits, Out, Parsed, RequestParser};

/// Replies waiting beyond this stop the reading of further requests.
const OUTPUT_SOFT_BYTES: usize = 1 << 20;
/// Most arguments of one request.
const ARGS_MAX: usize = 1024 * 1024;
/// Idle connections keep no larger buffer than this.
const KEPT_BUFFER_BYTES: usize = 4 << 10;

/// What to do with a connection next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Keep,
    Close,
}

pub(crate) struct Connection {
    pub(crate) transport: Transport,
    pub(crate) client: Client,
    parser: RequestParser,
    /// Bytes of requests that have not run yet.
    input: Vec<u8>,
    pub(crate) out: Out,
    /// How much of `out` has been written.
    written: usize,
    /// Bytes written and not yet counted.
    uncounted: usize,
    /// The event loop watches for room to write.
    pub(crate) watches_output: bool,
    /// No more is read or run; what is owed is written, then the connection ends.
    closing: bool,
    /// Requests that have arrived wait until the replies before them are written.
    stalled: bool,
    /// When the unwritten replies passed the soft limit, in Unix milliseconds.
    over_soft_since_ms: Option<i64>,
    /// The next request waits for the end of a pause, or is tried again from time to time.
    pub(crate) postponed: bool,
    /// The next request waits for something that is on its way.
    pub(crate) waits: bool,
    /// The last read took all it could: there may be more.
    pub(crate) read_more: bool,
    /// When the last bytes came, in Unix milliseconds.
    pub(crate) active_ms: i64,
}

impl Connection {
    pub(crate) fn new(transport: Transport, client: Client, now_ms: i64) -> Connection {
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
            read_more: false,
            active_ms: now_ms,
        }
    }

    /// Reads once and runs what has arrived whole.
    pub(crate) fn on_readable(&mut self, core: &mut Core<'_>, scratch: &mut [u8]) -> Next {
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
        self.read_more = read == scratch.len();
        self.active_ms = core.now_ms();
        core.count_read(read);
        if self.closing {
            return Next::Keep;
        }
        if self.waits {
            self.input.extend_from_slice(&scratch[..read]);
            let too_much = self.input.len() > core.config().client_query_buffer_limit;
            return if too_much { Next::Close } else { Next::Keep };
        }
        if self.input.is_empty() {
            let consumed = self.run(core, &scratch[..read]);
            self.input.extend_from_slice(&scratch[consumed..read]);
            Next::Keep
        } else {
            self.input.extend_from_slice(&scratch[..read]);
            self.resume(core)
        }
    }

    /// Runs what has arrived whole already; after a wait, a pause or a full output buffer.
    pub(crate) fn resume(&mut self, core: &mut Core<'_>) -> Next {
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

    /// Runs requests until the bytes or the connection's right to go on are used up.
    fn run(&mut self, core: &mut Core<'_>, bytes: &[u8]) -> usize {
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

    /// What a request of this client may take; little before it has authenticated.
    fn limits(&mut self, core: &Core<'_>) -> Limits {
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

    /// Tells whether requests wait for replies that have been written since.
    pub(crate) fn can_go_on(&self) -> bool {
        self.stalled && !self.needs_output()
    }

    /// Tells whether more replies wait, or for longer, than the settings allow.
    pub(crate) fn reads_too_slowly(&mut self, config: &Config, now_ms: i64) -> bool {
        let unwritten = self.unwritten() as u64;
        let subscriber = usize::from(self.client.is_subscribed()) * 2;
        let OutputLimit {
            hard_bytes,
            soft_bytes,
            soft_seconds,
        } = config.client_output_buffer_limit[subscriber];
        if soft_bytes == 0 || unwritten <= soft_bytes {
            self.over_soft_since_ms = None;
        }
        if hard_bytes > 0 && unwritten > hard_bytes {
            return true;
        }
        if soft_bytes == 0 || unwritten <= soft_bytes {
            return false;
        }
        let since_ms = *self.over_soft_since_ms.get_or_insert(now_ms);
        now_ms - since_ms > soft_seconds as i64 * 1000
    }

    /// Counts what was written and tells other threads how full the buffers are (INFO, CLIENT LIST).
    pub(crate) fn show_buffers(&mut self, core: &Core<'_>) {
        if self.uncounted > 0 {
            core.count_written(std::mem::take(&mut self.uncounted));
        }
        let shared = &self.client.shared;
        shared.input_bytes.store(self.input.len(), Ordering::Relaxed);
        shared
            .input_free_bytes
            .store(self.input.capacity() - self.input.len(), Ordering::Relaxed);
        shared.output_bytes.store(self.unwritten(), Ordering::Relaxed);
    }

    /// Writes as much as the socket takes.
    pub(crate) fn flush(&mut self) -> Next {
        while self.written < self.out.buf.len() || self.transport.wants_write() {
            match self.transport.write(&self.out.buf[self.written..]) {
                // Through TLS it may have been older bytes that went out.
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

    /// Runs the request that waited, now that what it needs is there, or refuses it.
    pub(crate) fn go_on(&mut self, core: &mut Core<'_>, refusal: Option<Arc<str>>) -> Next {
        if !self.waits {
            // It was tried again meanwhile.
            return Next::Keep;
        }
        self.client.refusal = refusal;
        self.resume(core)
    }

    /// Ends the connection once what it is owed has been written.
    pub(crate) fn close_after_flush(&mut self) {
        self.closing = true;
        self.input = Vec::new();
    }

    /// Returns the bytes that wait to be written.
    pub(crate) fn unwritten(&self) -> usize {
        self.out.buf.len() - self.written
    }

    /// Tells whether the event loop has to watch for room to write.
    pub(crate) fn needs_output(&self) -> bool {
        self.unwritten() > 0 || self.transport.wants_write()
    }
}
