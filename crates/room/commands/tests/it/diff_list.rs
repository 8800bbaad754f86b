//! Lists beside a real redis-server, blocked clients included.
#![allow(clippy::unwrap_used, reason = "a step that fails ends the test")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use nagaya_clock::SystemClock;
use nagaya_commands::testing::{Engine, TestSession};
use nagaya_connections::client::Message;
use nagaya_resp::{Proto, encode_request};
use nagaya_store::rng::Rng;

use crate::harness::{Compare, drive, pick, server, words};

const KEYS: &[&str] = &["l1", "l2", "{t}a", "{t}b", "str"];
const ENDS: &[&str] = &["LEFT", "RIGHT", "left", "UP"];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "-3",
    "10",
    "-200",
    "500",
    "9223372036854775807",
    "-9223372036854775808",
    "x",
    "1.5",
];

#[test]
fn lists_reply_as_redis_replies() {
    drive(6000, |rng| (request(rng), Compare::Exact));
}

#[test]
fn long_lists_reply_as_redis_replies() {
    drive(2500, |rng| (long_request(rng), Compare::Exact));
}

fn element(rng: &mut Rng) -> String {
    match rng.below(8) {
        0..4 => pick(rng, &["a", "b", "c", "1", "-7", "007", "abc"]).to_owned(),
        4 => (rng.next_u64() as i64 >> rng.below(64)).to_string(),
        5 => "x".repeat(60 + rng.below(10)),
        6 => "y".repeat(rng.below(300)),
        _ => format!("value-{}", rng.below(10)),
    }
}

fn elements(rng: &mut Rng, most: usize) -> String {
    (0..1 + rng.below(most))
        .map(|_| element(rng))
        .collect::<Vec<_>>()
        .join(" ")
}

pub(crate) fn request(rng: &mut Rng) -> Vec<Vec<u8>> {
    let (key, other) = (pick(rng, KEYS), pick(rng, KEYS));
    let (from, to) = (pick(rng, ENDS), pick(rng, ENDS));
    let (start, stop) = (pick(rng, NUMBERS), pick(rng, NUMBERS));
    let element = element(rng);
    let text = match rng.below(34) {
        0..2 => format!("LPUSH {key} {}", elements(rng, 5)),
        2..4 => format!("RPUSH {key} {}", elements(rng, 5)),
        4 => format!("LPUSHX {key} {}", elements(rng, 2)),
        5 => format!("RPUSHX {key} {}", elements(rng, 2)),
        6 => format!("LPOP {key}"),
        7 => format!("RPOP {key}"),
        8 => format!("LPOP {key} {start}"),
        9 => format!("RPOP {key} {}", rng.below(4)),
        10 => format!("LLEN {key}"),
        11 => format!("LINDEX {key} {start}"),
        12 => format!(
            "LINSERT {key} {} {element} {}",
            pick(rng, &["BEFORE", "after", "x"]),
            elements(rng, 1)
        ),
        13..15 => format!("LRANGE {key} {start} {stop}"),
        15..17 => format!("LREM {key} {start} {element}"),
        17 => format!("LSET {key} {start} {element}"),
        18 if rng.below(4) == 0 => format!("LTRIM {key} {start} {stop}"),
        18 => format!("LTRIM {key} {} -1", rng.below(3)),
        19..22 => format!("LPOS {key} {element}{}", lpos_options(rng)),
        22..24 => format!("LMOVE {key} {other} {from} {to}"),
        24 => format!("RPOPLPUSH {key} {other}"),
        25 => format!("LMPOP 2 {key} {other} {from}"),
        26 => format!("LMPOP {start} {key} {from} COUNT {stop}"),
        27 => format!("BLMPOP {start} 1 {key} {from} COUNT {stop} extra"),
        28 => format!(
            "BLPOP {key} {other} {}",
            pick(rng, &["-1", "x", "nan", "1e30", "-inf", ""])
        ),
        29 => format!(
            "BLMOVE {key} {other} {from} {to} {}",
            pick(rng, &["-0.5", "0..1"])
        ),
        30 => format!("SET str {element}"),
        31 => pick(
            rng,
            &[
                "LPOP",
                "LPOP l1 1 1",
                "LPOS l1",
                "LMPOP 1 l1",
                "BLPOP l1",
                "BLMPOP 1 1 l1",
            ],
        )
        .to_owned(),
        32 => return blocking_in_a_transaction(rng, key, other),
        _ => format!("LRANGE {key} 0 -1"),
    };
    words(&text)
}

/// Requests of one transaction come one at a time: the pick of a step depends on nothing else.
fn blocking_in_a_transaction(rng: &mut Rng, key: &str, other: &str) -> Vec<Vec<u8>> {
    words(&match rng.below(6) {
        0 => "MULTI".to_owned(),
        1..4 => "EXEC".to_owned(),
        4 => format!("RPOPLPUSH {key} {other}"),
        _ => "DISCARD".to_owned(),
    })
}

fn lpos_options(rng: &mut Rng) -> String {
    let mut options = String::new();
    for word in ["RANK", "COUNT", "MAXLEN"] {
        if rng.below(3) == 0 {
            let number = pick(rng, &["0", "1", "2", "3", "-1", "-2", "x", "1000"]);
            options.push_str(&format!(" {word} {number}"));
        }
    }
    options
}

/// Requests that keep a list of a few thousand elements, over many nodes.
pub(crate) fn long_request(rng: &mut Rng) -> Vec<Vec<u8>> {
    let key = pick(rng, &["long", "other"]);
    let index = rng.below(4000) as i64 - 2000;
    let text = match rng.below(16) {
        0..4 => format!("RPUSH {key} {}", elements(rng, 60)),
        4..7 => format!("LPUSH {key} {}", elements(rng, 60)),
        7 => format!("LINSERT {key} BEFORE value-{} {}", rng.below(10), element(rng)),
        8 => format!("LSET {key} {index} {}", element(rng)),
        9 => format!("LRANGE {key} {index} {}", index + rng.below(50) as i64),
        10 => format!("LREM {key} {} {}", rng.below(40) as i64 - 20, element(rng)),
        11 => format!("LPOP {key} {}", rng.below(100)),
        12 => format!("LTRIM {key} {} {}", rng.below(60), -1 - rng.below(60) as i64),
        13 => format!("LINDEX {key} {index}"),
        14 => format!("LMOVE {key} other LEFT RIGHT"),
        _ => format!(
            "LPOS {key} {} COUNT 0 RANK {}",
            element(rng),
            pick(rng, &["1", "-1", "5", "-9"])
        ),
    };
    words(&text)
}

/// A client of ours and one of a real server's, told the same.
struct Twin {
    ours: TestSession,
    theirs: TcpStream,
}

/// Several clients on both sides, so that some can wait for others.
struct Crowd {
    clients: Vec<Twin>,
    /// A connection that only asks for signs of life.
    control: TcpStream,
    log: Vec<String>,
}

impl Crowd {
    fn new(proto: Proto, size: usize, database: &str) -> Crowd {
        let engine = Engine::new(Arc::new(SystemClock));
        let connect = || TcpStream::connect(server().address()).unwrap();
        let mut crowd = Crowd {
            clients: Vec::new(),
            control: connect(),
            log: Vec::new(),
        };
        for _ in 0..size {
            let mut twin = Twin {
                ours: TestSession::on(&engine),
                theirs: connect(),
            };
            twin.ours.client.set_proto(proto);
            twin.theirs.set_nonblocking(true).unwrap();
            let hello = if proto == Proto::Resp3 { "3" } else { "2" };
            send(&mut twin.theirs, &words(&format!("SELECT {database}")));
            send(&mut twin.theirs, &words(&format!("HELLO {hello}")));
            crowd.clients.push(twin);
        }
        crowd.settle();
        crowd
            .clients
            .iter_mut()
            .for_each(|twin| drop(received(&mut twin.theirs)));
        crowd
    }

    /// Has one client send a request, then compares what every client got.
    fn step(&mut self, sender: usize, request: &[Vec<u8>], context: &str) {
        let shown: Vec<_> = request.iter().map(|arg| arg.escape_ascii().to_string()).collect();
        self.log.push(format!("{sender}: {}", shown.join(" ")));
        let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let mut reply = self.clients[sender].ours.run(&args);
        send(&mut self.clients[sender].theirs, request);
        self.settle();
        for (at, twin) in self.clients.iter_mut().enumerate() {
            let mut ours = if at == sender {
                std::mem::take(&mut reply)
            } else {
                Vec::new()
            };
            for message in twin.ours.messages() {
                if let Message::Unblocked(bytes) = message {
                    ours.extend(bytes);
                }
            }
            let theirs = received(&mut twin.theirs);
            if ours != theirs {
                let from = self.log.len().saturating_sub(40);
                panic!(
                    "{context}client {at} differs\n ours:   {}\n theirs: {}\nlatest requests:\n  {}",
                    ours.escape_ascii(),
                    theirs.escape_ascii(),
                    self.log[from..].join("\n  ")
                );
            }
        }
    }

    /// Waits until the real server has done all it was asked: it reads its connections in rounds, so
    /// two answers after the request leave none of its replies unsent.
    fn settle(&mut self) {
        for _ in 0..2 {
            send(&mut self.control, &words("PING"));
            self.control.read_exact(&mut [0; 7]).unwrap();
        }
    }
}

fn send(connection: &mut TcpStream, request: &[Vec<u8>]) {
    let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
    let mut bytes = Vec::new();
    encode_request(&args, &mut bytes);
    connection.write_all(&bytes).unwrap();
}

/// What has arrived on a connection that does not block.
fn received(connection: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(read) = connection.read(&mut chunk) {
        assert!(read > 0, "redis-server closed the connection");
        bytes.extend_from_slice(&chunk[..read]);
    }
    bytes
}

#[test]
fn blocked_clients_are_served_as_redis_serves_them() {
    let seed = match std::env::var("NAGAYA_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => Rng::from_entropy().next_u64(),
    };
    let steps = if std::env::var_os("NAGAYA_TEST_LONG").is_some() {
        60_000
    } else {
        3000
    };
    for (proto, database) in [(Proto::Resp2, "1000"), (Proto::Resp3, "1001")] {
        let mut rng = Rng::seeded(seed);
        let mut crowd = Crowd::new(proto, 6, database);
        for step in 0..steps {
            let free: Vec<usize> = (0..6)
                .filter(|at| !crowd.clients[*at].ours.client.is_blocked())
                .collect();
            let sender = free[rng.below(free.len())];
            // The last free client must not wait, or nobody could wake the others.
            let request = crowd_request(&mut rng, free.len() > 1);
            crowd.step(
                sender,
                &request,
                &format!("NAGAYA_SEED={seed} {proto:?} step {step}: "),
            );
        }
    }
}

pub(crate) fn crowd_request(rng: &mut Rng, may_wait: bool) -> Vec<Vec<u8>> {
    const NAMES: &[&str] = &["k1", "k2", "k3"];
    let (key, other) = (pick(rng, NAMES), pick(rng, NAMES));
    let (from, to) = (pick(rng, &["LEFT", "RIGHT"]), pick(rng, &["LEFT", "RIGHT"]));
    let number = rng.below(100);
    let text = match rng.below(if may_wait { 17 } else { 9 }) {
        0 => format!("LPUSH {key} {number}"),
        1 => format!("RPUSH {key} {number} b c"),
        2 => format!("LMOVE {key} {other} {from} {to}"),
        3 => format!("LPOP {key} 2"),
        4 => format!("SET {key} string"),
        5 => format!("GETDEL {key}"),
        6 => "MULTI".to_owned(),
        7..9 => "EXEC".to_owned(),
        9 => format!("BLPOP {key} {other} 0"),
        10 => format!("BRPOP {key} {other} k2 0"),
        11 => format!("BLMOVE {key} {other} {from} {to} 0"),
        12 => format!("BRPOPLPUSH {key} {other} 0"),
        13 => format!("BLMPOP 0 2 {key} {other} {from} COUNT 2"),
        14 => format!("RPUSH {key} {number}"),
        15 => format!("LTRIM {key} 1 0"),
        _ => "EXEC".to_owned(),
    };
    words(&text)
}
