//! Random keyspaces: every type in every encoding, from a seed.

use std::io;

use crate::resp_client::RespClient;

/// Requests sent before their replies are read.
const PIPELINE: usize = 200;
const FUNCTION: &str =
    "#!lua name=LIB\nredis.register_function('fn_LIB', function(keys, args) return 'SEED' end)";

/// What a random keyspace has.
#[derive(Clone, Copy, Debug)]
pub struct Keyspace {
    pub seed: u64,
    pub keys: usize,
    /// Keys are spread over this many databases.
    pub databases: usize,
    /// Libraries of functions.
    pub functions: usize,
    /// Whether some keys get an expiry, hours ahead.
    pub expiries: bool,
}

impl Keyspace {
    /// A few hundred keys in one database, with functions and expiries.
    pub fn seeded(seed: u64) -> Keyspace {
        Keyspace {
            seed,
            keys: 300,
            databases: 1,
            functions: 2,
            expiries: true,
        }
    }

    /// Writes the keyspace into an empty server. `now_ms` is what expiries are counted from.
    pub fn fill(&self, client: &mut RespClient, now_ms: i64) -> io::Result<()> {
        let mut dice = Dice(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5151);
        let mut requests = Vec::new();
        for number in 0..self.functions {
            let code = FUNCTION
                .replace("LIB", &format!("lib{number}"))
                .replace("SEED", &self.seed.to_string());
            requests.push(words(&["FUNCTION", "LOAD", &code]));
        }
        for number in 0..self.keys {
            if number * self.databases % self.keys.max(1) < self.databases {
                let db = number * self.databases / self.keys.max(1);
                requests.push(words(&["SELECT", &db.to_string()]));
            }
            let key = name(&mut dice, number);
            value(&mut dice, &key, &mut requests);
            if self.expiries && dice.below(4) == 0 {
                let at_ms = now_ms + 3_600_000 + dice.below(36_000_000) as i64;
                requests.push(vec![b"PEXPIREAT".to_vec(), key, at_ms.to_string().into_bytes()]);
            }
        }
        requests.push(words(&["SELECT", "0"]));
        for batch in requests.chunks(PIPELINE) {
            for request in batch {
                client.send(request)?;
            }
            for request in batch {
                if let Some(error) = client.receive()?.error() {
                    let shown: Vec<_> = request
                        .iter()
                        .take(3)
                        .map(|word| word.escape_ascii().to_string())
                        .collect();
                    panic!("seed {}: {}: {error}", self.seed, shown.join(" "));
                }
            }
        }
        Ok(())
    }
}

type Request = Vec<Vec<u8>>;

fn words(words: &[&str]) -> Request {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// A sequence of numbers that a seed decides (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A number whose size varies by magnitudes.
    fn int(&mut self) -> i64 {
        let number = self.next() as i64;
        number >> self.below(64)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let is_text = self.below(2) == 0;
        let letters = 1 + self.below(20);
        let mut bytes = Vec::with_capacity(len);
        for _ in 0..len {
            bytes.push(if is_text {
                b'a' + self.below(letters) as u8
            } else {
                self.next() as u8
            });
        }
        bytes
    }

    fn element(&mut self) -> Vec<u8> {
        match self.below(10) {
            0..=3 => self.int().to_string().into_bytes(),
            4..=7 => {
                let len = self.below(40);
                self.bytes(len)
            }
            8 => {
                let len = 60 + self.below(300);
                self.bytes(len)
            }
            _ => Vec::new(),
        }
    }

    /// Few elements mostly, sometimes more than any compact encoding takes.
    fn count(&mut self) -> usize {
        match self.below(8) {
            0 => 1,
            1 => 100 + self.below(100),
            2 => 600,
            _ => 1 + self.below(20),
        }
    }
}

fn name(dice: &mut Dice, number: usize) -> Vec<u8> {
    match dice.below(5) {
        0 => format!("{{user:{}}}:{number}", dice.below(20)).into_bytes(),
        1 => number.to_string().into_bytes(),
        2 => {
            let mut name = dice.bytes(30);
            name.extend_from_slice(number.to_string().as_bytes());
            name
        }
        _ => format!("key:{number}").into_bytes(),
    }
}

fn value(dice: &mut Dice, key: &[u8], requests: &mut Vec<Request>) {
    let command = |name: &str| vec![name.as_bytes().to_vec(), key.to_vec()];
    match dice.below(12) {
        0 | 1 => {
            let mut request = command("SET");
            request.push(match dice.below(6) {
                0 => Vec::new(),
                1 => vec![b'x'; 20 + dice.below(5000)],
                2 => {
                    let len = 20_000 + dice.below(80_000);
                    dice.bytes(len)
                }
                _ => dice.element(),
            });
            requests.push(request);
        }
        2 => elements(dice, command("SADD"), requests, |dice, request| {
            request.push(dice.element());
        }),
        3 => elements(dice, command("SADD"), requests, |dice, request| {
            request.push(dice.int().to_string().into_bytes());
        }),
        4 | 5 => {
            elements(dice, command("RPUSH"), requests, |dice, request| {
                request.push(dice.element());
            });
            if dice.below(10) == 0 {
                let mut request = command("RPUSH");
                request.push(vec![b'L'; 9000]);
                requests.push(request);
            }
        }
        6 | 7 => elements(dice, command("HSET"), requests, |dice, request| {
            request.push(dice.element());
            request.push(dice.element());
        }),
        8 | 9 => elements(dice, command("ZADD"), requests, |dice, request| {
            let score = match dice.below(8) {
                0 => "-inf".to_owned(),
                1 => "inf".to_owned(),
                2..=4 => dice.int().to_string(),
                _ => (dice.int() as f64 / 7.0).to_string(),
            };
            request.push(score.into_bytes());
            request.push(dice.element());
        }),
        10 => elements(dice, command("PFADD"), requests, |dice, request| {
            request.push(dice.element());
        }),
        _ => stream(dice, key, requests),
    }
}

/// One request with some elements.
fn elements(
    dice: &mut Dice,
    mut request: Request,
    requests: &mut Vec<Request>,
    mut add: impl FnMut(&mut Dice, &mut Request),
) {
    for _ in 0..dice.count() {
        add(dice, &mut request);
    }
    requests.push(request);
}

fn stream(dice: &mut Dice, key: &[u8], requests: &mut Vec<Request>) {
    let entries = dice.count();
    let request = |parts: &[&[u8]]| parts.iter().map(|part| part.to_vec()).collect::<Request>();
    for number in 0..entries {
        let id = format!("{}-{}", 1000 + number / 3, number % 3 + 1);
        let mut add = request(&[b"XADD", key, id.as_bytes()]);
        for _ in 0..=dice.below(3) {
            add.push(dice.element());
            add.push(dice.element());
        }
        requests.push(add);
    }
    for _ in 0..dice.below(3) {
        let id = format!("{}-1", 1000 + dice.below(entries.div_ceil(3)));
        requests.push(request(&[b"XDEL", key, id.as_bytes()]));
    }
    for group in 0..dice.below(3) {
        let group = format!("group{group}");
        let group = group.as_bytes();
        requests.push(request(&[b"XGROUP", b"CREATE", key, group, b"0"]));
        for consumer in 0..dice.below(3) {
            let consumer = format!("consumer{consumer}");
            let count = (1 + dice.below(10)).to_string();
            requests.push(request(&[
                b"XREADGROUP",
                b"GROUP",
                group,
                consumer.as_bytes(),
                b"COUNT",
                count.as_bytes(),
                b"STREAMS",
                key,
                b">",
            ]));
        }
        requests.push(request(&[b"XACK", key, group, b"1000-1"]));
    }
}
