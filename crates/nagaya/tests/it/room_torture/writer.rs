//! One writer with tags of its own, and an engine in this process that did all it was promised.
//!
//! The twin engine runs what the server has acknowledged, and every reply must be the same. What was
//! under way when the server died was done up to some point, each operation wholly or not at all.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nagaya_clock::SystemClock;
use nagaya_commands::testing::{Engine, TestSession};
use nagaya_resp::Frame;
use nagaya_store::rng::Rng;

use super::Round;
use super::ops::{self, Op};
use super::state::{self, State};
use super::wire::{Request, Wire, frame, words};

/// Operations that a writer has under way at most.
const PIPELINE_MAX: usize = 6;

/// What readers may find of a tag's counter.
#[derive(Default)]
pub(super) struct Counter {
    pub(super) sent: AtomicU64,
    pub(super) acknowledged: AtomicU64,
    /// The highest value that any client was told.
    pub(super) seen: AtomicU64,
}

pub(super) struct Writer {
    pub(super) tags: Vec<String>,
    pub(super) counters: Arc<Vec<Counter>>,
    rng: Rng,
    twin: TestSession,
    /// Sent and not acknowledged, oldest first.
    under_way: VecDeque<Op>,
    pub(super) acknowledged: u64,
    /// Refused because memory was full.
    pub(super) refused: u64,
}

impl Writer {
    pub(super) fn new(number: usize, tags: usize, seed: u64) -> Writer {
        Writer {
            tags: (0..tags).map(|tag| format!("w{number}t{tag}")).collect(),
            counters: Arc::new((0..tags).map(|_| Counter::default()).collect()),
            rng: Rng::seeded(seed ^ (number as u64) << 32),
            twin: TestSession::on(&Engine::new(Arc::new(SystemClock))),
            under_way: VecDeque::new(),
            acknowledged: 0,
            refused: 0,
        }
    }

    /// Writes until the server is gone.
    pub(super) fn run(&mut self, round: &Round<'_>) {
        let Ok(mut wire) = Wire::connect(round.address) else {
            return;
        };
        while round.goes_on() {
            for _ in 0..1 + self.rng.below(PIPELINE_MAX) {
                let op = self.next();
                let requests = op.requests();
                self.under_way.push_back(op);
                if wire.send(&requests).is_err() {
                    return;
                }
            }
            while let Some(op) = self.under_way.front().cloned() {
                let mut replies = Vec::new();
                for _ in op.requests() {
                    match wire.receive() {
                        Ok(reply) => replies.push(reply),
                        Err(_) => return,
                    }
                }
                self.done(&op, &replies);
                self.under_way.pop_front();
                round.wrote();
            }
        }
    }

    fn next(&mut self) -> Op {
        if self.rng.below(4) > 0 {
            return ops::next(&mut self.rng, &self.tags);
        }
        let tag = self.rng.below(self.tags.len());
        self.counters[tag].sent.fetch_add(1, Ordering::SeqCst);
        Op::Fixed(vec![words(&format!("INCR {{{}}}n", self.tags[tag]))])
    }

    /// Lets the twin do what was acknowledged and compares the replies.
    fn done(&mut self, op: &Op, replies: &[Vec<u8>]) {
        let last = replies.last().unwrap();
        if last.starts_with(b"-OOM") || last.starts_with(b"-EXECABORT") {
            self.refused += 1;
            if let Some(counter) = self.counter_of(op) {
                counter.sent.fetch_sub(1, Ordering::SeqCst);
            }
            return;
        }
        match op {
            Op::Fixed(requests) => {
                for (request, reply) in requests.iter().zip(replies) {
                    let twin = ask(&mut self.twin, request);
                    assert_eq!(
                        reply.escape_ascii().to_string(),
                        twin.escape_ascii().to_string(),
                        "the reply to {}",
                        shown(request)
                    );
                }
            }
            Op::Pop(key) => match frame(last) {
                Frame::Bulk(member) => self.remove(key, &member),
                other => assert_eq!(other, Frame::Nil, "SPOP {key}"),
            },
        }
        if let Some(counter) = self.counter_of(op) {
            counter.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
        self.acknowledged += 1;
    }

    fn remove(&mut self, key: &str, member: &[u8]) {
        let request = vec![b"SREM".to_vec(), key.as_bytes().to_vec(), member.to_vec()];
        assert_eq!(
            ask(&mut self.twin, &request),
            b":1\r\n",
            "SPOP {key} gave what is not there"
        );
    }

    fn counter_of(&self, op: &Op) -> Option<&Counter> {
        let Op::Fixed(requests) = op else { return None };
        let [request] = requests.as_slice() else {
            return None;
        };
        let [name, key] = request.as_slice() else {
            return None;
        };
        let tag = self
            .tags
            .iter()
            .position(|tag| key == format!("{{{tag}}}n").as_bytes())?;
        (name == b"INCR").then(|| &self.counters[tag])
    }

    /// Compares everything after a restart. The twin catches up with what was under way and was done.
    pub(super) fn verify(&mut self, address: SocketAddr, context: &str) {
        let keys: Vec<String> = self.tags.iter().flat_map(|tag| ops::keys_of(tag)).collect();
        let mut wire = Wire::connect(address).unwrap();
        let server = state::read(&keys, |requests| wire.ask_all(requests));
        let under_way = std::mem::take(&mut self.under_way);
        let mut rest = under_way.iter();
        loop {
            let twin = self.state(&keys);
            if twin == server {
                break;
            }
            let Some(op) = rest.next() else {
                panic!(
                    "{context}: what is there is not what was acknowledged\n{}\nunder way: {under_way:?}",
                    difference(&server, &twin)
                );
            };
            self.catch_up(op, &server, &twin);
        }
        for (tag, counter) in self.tags.iter().zip(self.counters.iter()) {
            let reply = ask(&mut self.twin, &words(&format!("GET {{{tag}}}n")));
            let count = match frame(&reply) {
                Frame::Nil => 0,
                other => state::text(&other).parse().unwrap(),
            };
            assert!(
                count >= counter.seen.load(Ordering::SeqCst),
                "{context}: a reader was told more of {tag} than is there"
            );
            counter.sent.store(count, Ordering::SeqCst);
            counter.acknowledged.store(count, Ordering::SeqCst);
        }
    }

    /// Lets the twin do something that was under way.
    fn catch_up(&mut self, op: &Op, server: &State, twin: &State) {
        match op {
            Op::Fixed(requests) => {
                for request in requests {
                    ask(&mut self.twin, request);
                }
            }
            Op::Pop(key) => {
                // The one member that is missing; when it is not one, the comparison will tell.
                let there = server.get(key);
                let members = twin
                    .get(key)
                    .map(|_| ask(&mut self.twin, &words(&format!("SMEMBERS {key}"))));
                let Some(members) = members else { return };
                for member in state::items(&frame(&members)) {
                    let shown = format!("{:?}", std::slice::from_ref(member));
                    if !there.is_some_and(|there| there[2].contains(&shown)) {
                        return self.remove(key, state::text(member).as_bytes());
                    }
                }
            }
        }
    }

    fn state(&mut self, keys: &[String]) -> State {
        let twin = &mut self.twin;
        state::read(keys, |requests| {
            let replies = requests.iter().map(|request| frame(&ask(twin, request)));
            replies.collect()
        })
    }
}

fn ask(twin: &mut TestSession, request: &Request) -> Vec<u8> {
    let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
    twin.run(&args)
}

fn shown(request: &Request) -> String {
    let words: Vec<String> = request
        .iter()
        .map(|word| word.escape_ascii().to_string())
        .collect();
    words.join(" ")
}

fn difference(server: &State, twin: &State) -> String {
    let keys = server.keys().chain(twin.keys());
    let differs = keys.filter(|key| server.get(*key) != twin.get(*key));
    let mut lines: Vec<String> = differs
        .map(|key| {
            format!(
                "{key}\n  there: {:?}\n  ought: {:?}",
                server.get(key),
                twin.get(key)
            )
        })
        .collect();
    lines.sort();
    lines.dedup();
    lines.join("\n")
}
