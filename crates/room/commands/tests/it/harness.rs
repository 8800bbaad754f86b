//! Feeds one stream of requests to an in-process engine and to a real redis-server.
//!
//! Both keep their own clocks, so requests should not depend on milliseconds.
//! A failure prints the seed, the step and the latest requests; run it again
//! with `NAGAYA_SEED=n`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use nagaya_clock::SystemClock;
use nagaya_commands::testing::{Engine, TestSession};
use nagaya_resp::{Frame, Proto, encode_request, parse_frame, scan_frame};
use nagaya_store::rng::Rng;
use nagaya_testkit::Redis;

/// How two replies are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each family uses its own")]
pub enum Compare {
    /// Byte for byte.
    Exact,
    /// As sets: the order of the elements of the outermost array does not matter.
    Unordered,
    /// As sets of pairs: the outermost array is flat field, value, field, value.
    UnorderedPairs,
    /// Same shape only (random picks).
    Shape,
    /// Integers may differ by this much (times).
    Near(i64),
    /// Not at all.
    Skip,
}

/// An engine of ours and a database of a real server, reached by one client each.
pub struct Pair {
    pub ours: TestSession,
    theirs: TcpStream,
    buffer: Vec<u8>,
    log: Vec<String>,
    context: String,
}

impl Pair {
    /// Connects to an empty engine and an empty database.
    pub fn new(proto: Proto) -> Pair {
        Pair::with(server(), proto)
    }

    /// Connects to an empty engine and to an empty database of a given server.
    pub fn with(server: &Redis, proto: Proto) -> Pair {
        let mut pair = Pair::on(server, proto);
        static DATABASE: AtomicU32 = AtomicU32::new(0);
        let database = DATABASE.fetch_add(1, Ordering::Relaxed).to_string();
        pair.ask(&[b"SELECT", database.as_bytes()]);
        pair
    }

    /// Connects to an empty engine and to a server of the test's own.
    pub fn on(server: &Redis, proto: Proto) -> Pair {
        let mut ours = TestSession::on(&Engine::new(Arc::new(SystemClock)));
        ours.client.set_proto(proto);
        let mut pair = Pair {
            ours,
            theirs: TcpStream::connect(server.address()).unwrap(),
            buffer: Vec::new(),
            log: Vec::new(),
            context: String::new(),
        };
        if proto == Proto::Resp3 {
            pair.ask(&[b"HELLO", b"3"]);
        }
        pair
    }

    /// Says what comes before the report of a difference.
    #[allow(dead_code, reason = "each family uses its own")]
    pub fn note(&mut self, context: String) {
        self.context = context;
    }

    /// Runs a request on both sides and returns our reply and theirs.
    pub fn run(&mut self, args: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
        let shown: Vec<String> = args.iter().map(|arg| arg.escape_ascii().to_string()).collect();
        self.log.push(shown.join(" "));
        let ours = self.ours.run(args);
        (ours, self.ask(args))
    }

    /// Runs a request on both sides and compares the replies.
    #[track_caller]
    pub fn check(&mut self, args: &[&[u8]], compare: Compare) {
        let (ours, theirs) = self.run(args);
        if !same(&ours, &theirs, compare) {
            let from = self.log.len().saturating_sub(40);
            panic!(
                "{}replies differ ({compare:?})\n ours:   {}\n theirs: {}\nlatest requests:\n  {}",
                self.context,
                ours.escape_ascii(),
                theirs.escape_ascii(),
                self.log[from..].join("\n  ")
            );
        }
    }

    /// Runs a request given as words parted by single spaces and compares byte for byte.
    #[track_caller]
    #[allow(dead_code, reason = "each family uses its own")]
    pub fn same(&mut self, request: &str) {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        self.check(&args, Compare::Exact);
    }

    fn ask(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut request = Vec::new();
        encode_request(args, &mut request);
        self.theirs.write_all(&request).unwrap();
        loop {
            if let Some(length) = scan_frame(&self.buffer).unwrap() {
                let rest = self.buffer.split_off(length);
                return std::mem::replace(&mut self.buffer, rest);
            }
            let mut chunk = [0; 64 * 1024];
            let read = self.theirs.read(&mut chunk).unwrap();
            assert!(read > 0, "redis-server closed the connection");
            self.buffer.extend_from_slice(&chunk[..read]);
        }
    }
}

/// Returns the seed to use: the one that is asked for, or a new one.
pub fn seed() -> u64 {
    match std::env::var("NAGAYA_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => Rng::from_entropy().next_u64(),
    }
}

/// Drives both sides with `steps` generated requests, in both protocols.
#[track_caller]
pub fn drive(steps: usize, generate: impl Fn(&mut Rng) -> (Vec<Vec<u8>>, Compare)) {
    drive_with(server(), steps, generate);
}

/// Drives an engine and a given server, for requests that what other tests do would disturb.
#[track_caller]
pub fn drive_with(server: &Redis, steps: usize, generate: impl Fn(&mut Rng) -> (Vec<Vec<u8>>, Compare)) {
    let seed = seed();
    let steps = if std::env::var_os("NAGAYA_TEST_LONG").is_some() {
        steps * 50
    } else {
        steps
    };
    for proto in [Proto::Resp2, Proto::Resp3] {
        let mut rng = Rng::seeded(seed);
        let mut pair = Pair::with(server, proto);
        for step in 0..steps {
            let (request, compare) = generate(&mut rng);
            let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            pair.context = format!("NAGAYA_SEED={seed} {proto:?} step {step}: ");
            pair.check(&args, compare);
        }
    }
}

/// Picks one of several things.
#[allow(dead_code, reason = "each family uses its own")]
pub fn pick<'a, T: ?Sized>(rng: &mut Rng, choices: &[&'a T]) -> &'a T {
    choices[rng.below(choices.len())]
}

/// Splits a request at its spaces.
#[allow(dead_code, reason = "each family uses its own")]
pub fn words(request: &str) -> Vec<Vec<u8>> {
    request.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn same(ours: &[u8], theirs: &[u8], compare: Compare) -> bool {
    if ours == theirs || compare == Compare::Skip {
        return true;
    }
    let (Ok(Some((ours, _))), Ok(Some((theirs, _)))) = (parse_frame(ours), parse_frame(theirs)) else {
        return false;
    };
    match compare {
        Compare::Exact | Compare::Skip => false,
        Compare::Near(distance) => match (&ours, &theirs) {
            (Frame::Int(ours), Frame::Int(theirs)) => (ours - theirs).abs() <= distance,
            _ => false,
        },
        Compare::Shape => shape(&ours) == shape(&theirs),
        Compare::Unordered => sorted(&ours, 1) == sorted(&theirs, 1),
        Compare::UnorderedPairs => sorted(&ours, 2) == sorted(&theirs, 2),
    }
}

fn sorted(frame: &Frame, group: usize) -> (String, Vec<String>) {
    let show = |frames: &[Frame]| {
        frames
            .iter()
            .map(|frame| format!("{frame:?}"))
            .collect::<String>()
    };
    let (kind, mut elements): (&str, Vec<String>) = match frame {
        Frame::Array(items) => ("array", items.chunks(group).map(show).collect()),
        Frame::Set(items) => ("set", items.chunks(group).map(show).collect()),
        Frame::Map(pairs) => ("map", pairs.iter().map(|pair| format!("{pair:?}")).collect()),
        other => return (format!("{other:?}"), Vec::new()),
    };
    elements.sort_unstable();
    (kind.to_owned(), elements)
}

fn shape(frame: &Frame) -> String {
    match frame {
        Frame::Array(items) => format!("array {}", items.len()),
        Frame::Set(items) => format!("set {}", items.len()),
        Frame::Map(pairs) => format!("map {}", pairs.len()),
        Frame::Error(_) => format!("{frame:?}"),
        other => format!("{:?}", std::mem::discriminant(other)),
    }
}

/// Returns the one redis-server that all tests of this binary share, a database each.
pub fn server() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(|| Redis::with_config(&["databases 1024"]))
}
