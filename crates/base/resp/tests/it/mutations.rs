//! A small fuzzer for every test run: good inputs, damaged at random.
//!
//! `NAGAYA_TEST_SEED` repeats a failed run; `NAGAYA_TEST_LONG` makes a run a hundred times longer.

use std::hash::{BuildHasher, RandomState};
use std::panic::catch_unwind;

use crate::checks::{check_frame, check_request};

const ROUNDS: usize = 5_000;

const REQUESTS: &[&[u8]] = &[
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nv\r\nal\r\n",
    b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n",
    b"SET key \"quoted \\x41\\n\" 'single \\' quote'\r\nPING\n\r\n",
    b"*0\r\n*-1\r\n*12\r\n$40\r\n",
    b"*10\r\n$16384\r\n",
    b"*1048576\r\n$536870912\r\n",
];

const FRAMES: &[&[u8]] = &[
    b"*2\r\n:1\r\n*3\r\n$3\r\nabc\r\n$-1\r\n*-1\r\n",
    b"%2\r\n+key\r\n,3.14\r\n$1\r\nk\r\n#t\r\n",
    b"~2\r\n(12345678901234567890\r\n_\r\n",
    b"|1\r\n+ttl\r\n:3600\r\n>2\r\n+message\r\n$2\r\nhi\r\n",
    b"*1\r\n|1\r\n+a\r\n:1\r\n=15\r\ntxt:Some string\r\n",
    b"!21\r\nSYNTAX invalid syntax\r\n-ERR no\r\n,-inf\r\n,nan\r\n",
];

/// Pieces that mean something to a parser, to be dropped in anywhere.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\r",
    b"\n",
    b"$",
    b"*",
    b"-1",
    b"0",
    b"01",
    b"9",
    b"2147483648",
    b"9223372036854775807",
    b"\"",
    b"'",
    b"\\x4",
    b"\0",
    b" ",
    b"*1\r\n",
    b"|0\r\n",
    b"|1\r\n",
    b"%1\r\n",
    b"$0\r\n\r\n",
    b"_\r\n",
    b":1\r\n",
];

#[test]
fn damaged_requests_are_parsed_alike_however_they_arrive() {
    fuzz(REQUESTS, check_request);
}

#[test]
fn damaged_frames_are_scanned_as_they_are_parsed() {
    fuzz(FRAMES, check_frame);
}

fn fuzz(inputs: &[&[u8]], check: fn(&[u8])) {
    let seed = match std::env::var("NAGAYA_TEST_SEED") {
        Ok(seed) => seed.parse().expect("NAGAYA_TEST_SEED is a number"),
        Err(_) => RandomState::new().hash_one(0),
    };
    eprintln!("seed {seed}");
    let rounds = if std::env::var_os("NAGAYA_TEST_LONG").is_some() {
        ROUNDS * 100
    } else {
        ROUNDS
    };
    let mut random = Random(seed);
    for _ in 0..rounds {
        let mut bytes = random.pick(inputs).to_vec();
        for _ in 0..=random.below(6) {
            damage(&mut bytes, inputs, &mut random);
        }
        bytes.truncate(2_000);
        if catch_unwind(|| check(&bytes)).is_err() {
            panic!(
                "repeat with NAGAYA_TEST_SEED={seed}; the input was {}",
                bytes.escape_ascii()
            );
        }
    }
}

fn damage(bytes: &mut Vec<u8>, inputs: &[&[u8]], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let end = at + random.below((bytes.len() - at).min(12) + 1);
    match random.below(6) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => drop(bytes.splice(at..end, random.pick(PIECES).iter().copied())),
        3 => drop(bytes.splice(at..at, random.pick(PIECES).iter().copied())),
        4 => drop(bytes.splice(at..at, random.pick(inputs).iter().copied())),
        _ if at < bytes.len() => bytes[at] = random.next() as u8,
        _ => bytes.push(random.next() as u8),
    }
}

/// The splitmix64 generator: tiny, and a seed is all there is to repeat a run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a [u8]]) -> &'a [u8] {
        from[self.below(from.len())]
    }
}
