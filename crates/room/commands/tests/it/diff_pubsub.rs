//! Several connections at once: what each of them gets after every step, messages included.
//!
//! Replies and messages of one step are compared as a set per connection: where
//! a message to a client's own command comes is a promise of the unit tests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use nagaya_clock::SystemClock;
use nagaya_commands::testing::{Engine, TestSession};
use nagaya_connections::client::Message;
use nagaya_resp::{Proto, encode_request, scan_frame};
use nagaya_store::rng::Rng;
use nagaya_testkit::Redis;

use crate::harness::{pick, seed};

/// The protocol of each connection. The last one only writes and never listens.
const PROTOS: [Proto; 4] = [Proto::Resp3, Proto::Resp3, Proto::Resp2, Proto::Resp2];
const WRITER: usize = 3;
const MARKER: &[u8] = b"all-has-arrived";
const KEYS: &[&str] = &["a:1", "a:2", "b:1", "c", "{a:}x"];
const NAMES: &[&str] = &["news", "nets", "a.b", "__redis__:invalidate"];
const PATTERNS: &[&str] = &["n*", "ne[wt]s", "*", "a.?"];

/// A connection to the real server.
struct Theirs {
    stream: TcpStream,
    buffer: Vec<u8>,
    id: String,
}

impl Theirs {
    fn new(redis: &Redis, proto: Proto) -> Theirs {
        let mut theirs = Theirs {
            stream: TcpStream::connect(redis.address()).unwrap(),
            buffer: Vec::new(),
            id: String::new(),
        };
        if proto == Proto::Resp3 {
            theirs.send(&["HELLO", "3"]);
            theirs.frame();
        }
        theirs.send(&["CLIENT", "SETNAME", std::str::from_utf8(MARKER).unwrap()]);
        theirs.frame();
        theirs.send(&["CLIENT", "ID"]);
        let id = String::from_utf8(theirs.frame()).unwrap();
        theirs.id = id.trim_matches([':', '\r', '\n']).to_owned();
        theirs
    }

    fn send(&mut self, words: &[&str]) {
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut request = Vec::new();
        encode_request(&args, &mut request);
        self.stream.write_all(&request).unwrap();
    }

    fn frame(&mut self) -> Vec<u8> {
        loop {
            if let Some(length) = scan_frame(&self.buffer).unwrap() {
                let rest = self.buffer.split_off(length);
                return std::mem::replace(&mut self.buffer, rest);
            }
            let mut chunk = [0; 16 * 1024];
            let read = self.stream.read(&mut chunk).unwrap();
            assert!(read > 0, "redis-server closed the connection");
            self.buffer.extend_from_slice(&chunk[..read]);
        }
    }

    /// Returns all that arrived until now: what comes before the reply of a request that leaves no
    /// trace. (CLIENT commands do not end what CLIENT CACHING announced; PING does.)
    fn arrived(&mut self, subscribed: bool) -> Vec<Vec<u8>> {
        if subscribed {
            self.send(&["PING", std::str::from_utf8(MARKER).unwrap()]);
        } else {
            self.send(&["CLIENT", "GETNAME"]);
        }
        let mut frames = Vec::new();
        loop {
            let frame = self.frame();
            if frame.windows(MARKER.len()).any(|window| window == MARKER) {
                return frames;
            }
            frames.push(frame);
        }
    }
}

#[test]
fn listeners_and_caching_clients_hear_what_redis_tells_them() {
    let seed = seed();
    let mut rng = Rng::seeded(seed);
    let redis = Redis::start();
    let engine = Engine::new(Arc::new(SystemClock));
    let mut control = redis.client();
    let mut theirs = PROTOS.map(|proto| Theirs::new(&redis, proto));
    let mut ours = PROTOS.map(|proto| {
        let mut session = TestSession::on(&engine);
        session.client.set_proto(proto);
        session
    });
    let (mut log, mut heard) = (Vec::new(), 0);
    for step in 0..3000 {
        let requests = requests(&mut rng);
        log.extend(requests.iter().map(|(who, request)| format!("{who}: {request}")));
        let mut our_frames: [Vec<Vec<u8>>; PROTOS.len()] = Default::default();
        for (who, request) in &requests {
            let words = with_ids(request, |at| ours[at].client.id().to_string());
            let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            our_frames[*who].extend(frames(&ours[*who].run(&args)));
            let words = with_ids(request, |at| theirs[at].id.clone());
            theirs[*who].send(&words.iter().map(String::as_str).collect::<Vec<_>>());
            // Two turns of the server's loop: the request has run, and what it broadcasts is sent.
            control.cmd(&["PING"]).unwrap();
            control.cmd(&["PING"]).unwrap();
        }
        for (at, our_frames) in our_frames.iter_mut().enumerate() {
            for message in ours[at].messages() {
                let Message::Push(bytes) = message else {
                    panic!("not a push: {message:?}")
                };
                our_frames.push(bytes.to_vec());
                heard += 1;
            }
            let mut their_frames = theirs[at].arrived(ours[at].client.in_subscribed_mode());
            // Replies that name a client are short; elsewhere its number could be anything.
            if requests.iter().any(|(_, request)| names_a_client(request)) {
                for (at, session) in ours.iter().enumerate() {
                    rename(our_frames, &session.client.id().to_string(), at);
                    rename(&mut their_frames, &theirs[at].id, at);
                }
            }
            our_frames.sort();
            their_frames.sort();
            let show = |frames: &[Vec<u8>]| {
                let shown: Vec<String> = frames
                    .iter()
                    .map(|frame| frame.escape_ascii().to_string())
                    .collect();
                shown.join("\n          ")
            };
            assert!(
                *our_frames == their_frames,
                "NAGAYA_SEED={seed} step {step}, connection {at}\n ours:   {}\n theirs: {}\nlatest requests:\n  {}",
                show(our_frames),
                show(&their_frames),
                log[log.len().saturating_sub(40)..].join("\n  ")
            );
        }
    }
    assert!(
        heard > 300,
        "only {heard} messages: the steps do not test what they should"
    );
}

/// Splits what a session wrote into frames.
fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let length = scan_frame(bytes).unwrap().expect("whole frames");
        frames.push(bytes[..length].to_vec());
        bytes = &bytes[length..];
    }
    frames
}

/// Splits a request into words, with the number of connection n for `@n`.
fn with_ids(request: &str, id: impl Fn(usize) -> String) -> Vec<String> {
    let word = |word: &str| match word.strip_prefix('@') {
        Some(at) => id(at.parse().unwrap()),
        None => word.to_owned(),
    };
    request.split(' ').map(word).collect()
}

fn names_a_client(request: &str) -> bool {
    request == "CLIENT TRACKINGINFO" || request == "CLIENT GETREDIR"
}

fn rename(frames: &mut [Vec<u8>], id: &str, at: usize) {
    for frame in frames {
        let text = String::from_utf8(frame.clone()).unwrap();
        *frame = text
            .replace(&format!(":{id}\r\n"), &format!(":@{at}\r\n"))
            .into_bytes();
    }
}

/// One request, or several that belong together, each with the connection that sends it.
fn requests(rng: &mut Rng) -> Vec<(usize, String)> {
    let who = rng.below(WRITER);
    let (name, pattern, key) = (pick(rng, NAMES), pick(rng, PATTERNS), pick(rng, KEYS));
    let (other_name, other_key) = (pick(rng, NAMES), pick(rng, KEYS));
    let anyone = rng.below(PROTOS.len());
    let one = |who: usize, request: String| vec![(who, request)];
    match rng.below(30) {
        0 => one(who, format!("SUBSCRIBE {name} {other_name}")),
        1 => one(who, format!("PSUBSCRIBE {pattern}")),
        2 => one(who, format!("SSUBSCRIBE {name}")),
        3 | 4 => one(who, format!("UNSUBSCRIBE {name} {other_name}")),
        5 => one(who, format!("PUNSUBSCRIBE {pattern}")),
        6 => one(who, "PUNSUBSCRIBE".to_owned()),
        7 => one(who, format!("SUNSUBSCRIBE {name}")),
        8 | 9 => one(anyone, format!("PUBLISH {name} hello")),
        10 => one(anyone, format!("SPUBLISH {name} hello")),
        11 => one(anyone, format!("PUBSUB NUMSUB {name} {other_name}")),
        12 => one(anyone, "PUBSUB NUMPAT".to_owned()),
        13 => one(anyone, format!("PUBSUB CHANNELS {name}")),
        14 | 15 => one(who, format!("CLIENT TRACKING ON{}", tracking_options(rng))),
        // Redis remembers keys beyond an end of tracking; writing them all makes it forget.
        16 => vec![
            (who, "CLIENT TRACKING OFF".to_owned()),
            (WRITER, "MSET a:1 1 a:2 1 b:1 1 c 1 {a:}x 1".to_owned()),
        ],
        17 => one(
            who,
            format!("CLIENT CACHING {}", pick(rng, &["YES", "NO", "MAYBE"])),
        ),
        18 => one(who, "CLIENT TRACKINGINFO".to_owned()),
        19 => one(who, "CLIENT GETREDIR".to_owned()),
        20 | 21 => one(who, format!("GET {key}")),
        22 => one(who, format!("MGET {key} {other_key}")),
        23 => one(anyone, format!("SET {key} v")),
        24 => one(anyone, format!("MSET {key} 1 {other_key} 2")),
        25 => one(anyone, format!("SETBIT {key} 3 {}", rng.below(2))),
        26 => one(anyone, format!("BITCOUNT {key}")),
        27 => one(anyone, format!("GETDEL {key}")),
        28 => vec![
            (WRITER, "MULTI".to_owned()),
            (WRITER, format!("SET {key} m")),
            (WRITER, format!("APPEND {other_key} m")),
            (WRITER, format!("PUBLISH {name} m")),
            (WRITER, "EXEC".to_owned()),
        ],
        _ => one(WRITER, format!("SET {key} w")),
    }
}

fn tracking_options(rng: &mut Rng) -> String {
    let mut options = String::new();
    if rng.below(3) == 0 {
        options.push_str(&format!(
            " REDIRECT {}",
            pick(rng, &["@0", "@1", "@2", "@2", "99999999"])
        ));
    }
    let mode = pick(
        rng,
        &[
            "",
            "",
            " OPTIN",
            " OPTOUT",
            " BCAST",
            " BCAST PREFIX a:",
            " BCAST PREFIX a: PREFIX b:",
            " BCAST PREFIX a: PREFIX a:1",
            " PREFIX a:",
            " OPTIN OPTOUT",
        ],
    );
    options.push_str(mode);
    if rng.below(3) == 0 {
        options.push_str(" NOLOOP");
    }
    options
}
