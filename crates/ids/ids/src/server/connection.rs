//! One client: its unread input, its unsent output, and which protocol it speaks.

use std::io::{self, ErrorKind};

use nagaya_reactor::Transport;

use super::stats::{GetCounts, ServerStats, Stats};
use super::{ServerConfig, binary, text};
use crate::mint::{Mint, MintError};
use nagaya_clock::BootTime;

/// Bytes of answers at which they are written out; the rest of the input waits.
const OUT_BYTES_MAX: usize = 256 << 10;
/// Buffers larger than this, in bytes, are freed once they are empty.
const KEEP_BYTES_MAX: usize = 64 << 10;

/// What a request may use: ids, counters, and the buffer for its answer.
pub(super) struct Answers<'a> {
    pub(super) config: &'a ServerConfig,
    pub(super) mint: &'a Mint,
    pub(super) stats: &'a Stats,
    /// The ids of the last [`Answers::make_ids`].
    pub(super) ids: &'a mut Vec<u64>,
    pub(super) counts: &'a mut GetCounts,
    pub(super) out: &'a mut Vec<u8>,
}

/// The outcome of parsing the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// A request of this many bytes was answered.
    Bytes(usize),
    /// The request is not complete yet.
    More,
    /// The connection ends once the answers so far are sent.
    Close,
}

impl Answers<'_> {
    /// Makes `count` ids and counts the request.
    pub(super) fn make_ids(&mut self, count: usize) -> Result<(), MintError> {
        self.ids.clear();
        let result = self.mint.fill(count, self.ids);
        self.counts.add(match result {
            Ok(()) => GetCounts::hit(count as u64),
            Err(_) => GetCounts::miss(),
        });
        result
    }

    /// Returns the counters, those of this turn included.
    pub(super) fn snapshot(&mut self) -> ServerStats {
        self.stats.count_gets(std::mem::take(self.counts));
        self.stats.snapshot(self.mint)
    }
}

#[derive(Clone, Copy, Debug)]
enum Protocol {
    Text,
    Binary,
}

/// The state of a connection, without its socket.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Known from the first byte on.
    protocol: Option<Protocol>,
    /// Received and not yet answered; empty in most turns.
    input: Vec<u8>,
    out: Vec<u8>,
    /// How much of `out` has been sent.
    sent: usize,
    /// Nothing more is read or answered; the connection ends when `out` is sent.
    closing: bool,
}

impl Session {
    /// Answers the complete requests that have arrived. Returns whether there was one.
    fn receive(&mut self, bytes: &[u8], context: &mut TurnContext<'_>) -> bool {
        if self.input.is_empty() {
            let taken = self.process(bytes, context);
            self.input.extend_from_slice(&bytes[taken..]);
            return taken > 0;
        }
        self.input.extend_from_slice(bytes);
        self.resume(context)
    }

    /// Continues with input that was kept. Returns whether a request was answered.
    fn resume(&mut self, context: &mut TurnContext<'_>) -> bool {
        let mut input = std::mem::take(&mut self.input);
        let taken = self.process(&input, context);
        input.drain(..taken);
        if !input.is_empty() || input.capacity() <= KEEP_BYTES_MAX {
            self.input = input;
        }
        taken > 0
    }

    /// Returns how many bytes were consumed.
    fn process(&mut self, input: &[u8], context: &mut TurnContext<'_>) -> usize {
        let mut taken = 0;
        while !self.closing && taken < input.len() && self.out.len() < OUT_BYTES_MAX {
            let protocol = *self.protocol.get_or_insert(match input[taken] {
                binary::REQUEST_MAGIC => Protocol::Binary,
                _ => Protocol::Text,
            });
            let mut answers = context.answers(&mut self.out);
            let result = match protocol {
                Protocol::Text => text::answer(&input[taken..], &mut answers),
                Protocol::Binary => binary::answer(&input[taken..], &mut answers),
            };
            match result {
                Taken::Bytes(bytes) => taken += bytes,
                Taken::More => break,
                Taken::Close => self.closing = true,
            }
        }
        if self.closing { input.len() } else { taken }
    }
}

/// What the thread shares with the connection that it serves.
pub(super) struct TurnContext<'a> {
    pub(super) config: &'a ServerConfig,
    pub(super) mint: &'a Mint,
    pub(super) stats: &'a Stats,
    pub(super) ids: &'a mut Vec<u64>,
    pub(super) counts: &'a mut GetCounts,
    /// The buffer for reads.
    pub(super) scratch: &'a mut [u8],
    pub(super) now: BootTime,
}

impl TurnContext<'_> {
    fn answers<'b>(&'b mut self, out: &'b mut Vec<u8>) -> Answers<'b> {
        Answers {
            config: self.config,
            mint: self.mint,
            stats: self.stats,
            ids: self.ids,
            counts: self.counts,
            out,
        }
    }
}

/// Whether a connection stays open, and what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Read,
    /// The client reads its answers slowly: nothing more is read from it until it has.
    Write,
    Close,
}

/// A session and its socket.
pub(super) struct Connection {
    pub(super) transport: Transport,
    session: Session,
    /// When it last completed a request (or began).
    pub(super) active: BootTime,
    /// What its descriptor is watched for.
    pub(super) watched: Next,
}

impl Connection {
    pub(super) fn new(transport: Transport, now: BootTime) -> Connection {
        Connection {
            transport,
            session: Session::default(),
            active: now,
            watched: Next::Read,
        }
    }

    /// Reads once and answers what has arrived with one write.
    pub(super) fn on_readable(&mut self, context: &mut TurnContext<'_>) -> Next {
        let scratch = std::mem::take(&mut context.scratch);
        let received = self.transport.read(scratch);
        let next = match received {
            Ok(0) => Next::Close,
            Ok(count) => {
                if self.session.receive(&scratch[..count], context) {
                    self.active = context.now;
                }
                self.settle(context)
            }
            Err(error) if is_passing(&error) => Next::Read,
            Err(_) => Next::Close,
        };
        context.scratch = scratch;
        next
    }

    /// Sends the rest, then continues with the input that waited.
    pub(super) fn on_writable(&mut self, context: &mut TurnContext<'_>) -> Next {
        self.settle(context)
    }

    fn settle(&mut self, context: &mut TurnContext<'_>) -> Next {
        loop {
            match self.flush() {
                Ok(true) => {}
                Ok(false) => return Next::Write,
                Err(_) => return Next::Close,
            }
            if self.session.closing {
                return Next::Close;
            }
            if self.session.input.is_empty() || !self.session.resume(context) {
                return Next::Read;
            }
            self.active = context.now;
        }
    }

    /// Writes what the socket takes. Returns whether everything is sent.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        let Session { out, sent, .. } = &mut self.session;
        while *sent < out.len() {
            match self.transport.write(&out[*sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => *sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        *sent = 0;
        out.clear();
        if out.capacity() > KEEP_BYTES_MAX {
            *out = Vec::new();
        }
        Ok(true)
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
pub(super) mod testing {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::id_clock::RunningClock;
    use crate::layout::Layout;
    use crate::permit::FixedPermit;

    /// A session whose client is the test: worker 5, version 9.9.
    pub(in super::super) struct TestSession {
        pub(in super::super) config: ServerConfig,
        pub(in super::super) mint: Mint,
        pub(in super::super) closed: bool,
        stats: Stats,
        session: Session,
    }

    impl TestSession {
        pub(in super::super) fn new() -> TestSession {
            let mint = Mint::new(Layout::default(), RunningClock::system());
            mint.set_permit(Some(Arc::new(FixedPermit::new(5))));
            TestSession {
                config: ServerConfig::default(),
                stats: Stats::new(&mint, "9.9"),
                mint,
                closed: false,
                session: Session::default(),
            }
        }

        /// Sends bytes and returns the answer's.
        pub(in super::super) fn raw(&mut self, bytes: &[u8]) -> Vec<u8> {
            let (mut ids, mut counts) = (Vec::new(), GetCounts::default());
            let mut context = TurnContext {
                config: &self.config,
                mint: &self.mint,
                stats: &self.stats,
                ids: &mut ids,
                counts: &mut counts,
                scratch: &mut [],
                now: BootTime::ZERO,
            };
            self.session.receive(bytes, &mut context);
            self.stats.count_gets(counts);
            self.closed = self.session.closing;
            std::mem::take(&mut self.session.out)
        }

        /// Sends text and returns the answer's, each id in it as its place among them: `<0>`.
        pub(in super::super) fn text(&mut self, text: &str) -> String {
            let answer = self.raw(text.as_bytes());
            let mut shown = String::from_utf8(answer.clone()).unwrap();
            for (place, id) in ids_of(&answer).iter().enumerate() {
                shown = shown.replace(&id.to_string(), &format!("<{place}>"));
            }
            shown
        }
    }

    pub(in super::super) fn ids_of(answer: &[u8]) -> Vec<u64> {
        let text = std::str::from_utf8(answer).unwrap();
        let digits = |line: &&str| line.len() == 19 && line.bytes().all(|byte| byte.is_ascii_digit());
        text.lines()
            .filter(digits)
            .map(|line| line.parse().unwrap())
            .collect()
    }

    #[test]
    fn a_flood_is_answered_in_portions() {
        let mut session = TestSession::new();
        let flood = b"get a\r\n".repeat(10_000);
        let mut answered = 0;
        let mut input: &[u8] = &flood;
        loop {
            let answer = session.raw(input);
            input = &[];
            assert!(answer.len() < OUT_BYTES_MAX + 100);
            if answer.is_empty() {
                break;
            }
            answered += ids_of(&answer).len();
        }
        assert_eq!(answered, 10_000);
    }

    /// Pieces of both protocols, well formed and not.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let text = [
            "get a b\r\n",
            "gets",
            " ",
            "\r\n",
            "\n",
            "version\r\n",
            "set a 0 0 1\r\nx\r\n",
            "quit",
            "GET x\n",
        ];
        let noop = [0x80, 0x0a].into_iter().chain([0; 22]).collect::<Vec<u8>>();
        prop_oneof![
            prop::sample::select(text.map(|text| text.as_bytes().to_vec()).to_vec()),
            Just(noop),
            prop::collection::vec(any::<u8>(), 0..40),
            prop::collection::vec(Just(0x80), 24..30),
        ]
    }

    proptest! {
        #[test]
        fn no_input_does_harm_and_its_portions_do_not_matter(
            pieces in prop::collection::vec(piece(), 0..20), cuts in prop::collection::vec(1usize..50, 1..20)
        ) {
            let whole = pieces.concat();
            let (mut at_once, mut in_portions) = (TestSession::new(), TestSession::new());
            let expected = at_once.raw(&whole);
            let (mut got, mut rest, mut cuts) = (Vec::new(), &whole[..], cuts.iter().cycle());
            while !rest.is_empty() && !in_portions.closed {
                let (portion, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                got.extend(in_portions.raw(portion));
                rest = later;
            }
            prop_assert_eq!(at_once.closed, in_portions.closed);
            // Ids and counters differ, their lengths do not: both began at the same counts.
            prop_assert_eq!(expected.len(), got.len());
        }
    }
}
