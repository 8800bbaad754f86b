use nagaya_store::rng::Rng;

use crate::harness::{Compare, drive, pick, words};

const KEYS: &[&str] = &["h1", "h2", "h3", "{t}h4", "dense", "text", "missing"];

#[test]
fn hyperloglogs_reply_and_look_as_in_redis() {
    drive(3000, |rng| (request(rng), Compare::Exact));
}

pub(crate) fn request(rng: &mut Rng) -> Vec<Vec<u8>> {
    let (key, other) = (pick(rng, KEYS), pick(rng, KEYS));
    let text = match rng.below(16) {
        0..=3 => add(rng, key),
        4 => format!("PFCOUNT {key}"),
        5 => format!("PFCOUNT {key} {other} missing"),
        6 => format!("PFMERGE {key} {other}"),
        7 => format!("PFMERGE merged {key} {other}"),
        // The bytes of the value: registers and cached count.
        8..=10 => format!("GET {key}"),
        11 => "GET merged".to_owned(),
        12 => format!(
            "PFDEBUG {} {key}",
            pick(
                rng,
                &["ENCODING", "DECODE", "ENCODING", "DECODE", "foo", "GETREG"]
            )
        ),
        13 => "PFDEBUG TODENSE dense".to_owned(),
        14 => return broken(rng),
        _ => format!("STRLEN {key}"),
    };
    words(&text)
}

fn add(rng: &mut Rng, key: &str) -> String {
    let count = match rng.below(10) {
        0 => 0,
        1 => 400,
        _ => 1 + rng.below(5),
    };
    let elements: String = (0..count)
        .map(|_| format!(" {}", "e".repeat(rng.below(12)) + &rng.below(5000).to_string()))
        .collect();
    format!("PFADD {key}{elements}")
}

/// Strings that only look like HyperLogLogs.
fn broken(rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut value = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    match rng.below(5) {
        0 => value.truncate(rng.below(16)),
        1 => value[4] = 2,
        2 => value[4] = 0,
        3 => {
            value.extend((0..rng.below(6)).map(|_| rng.next_u64() as u8));
            // Never ends in the first half of a long run: there Redis reads what lies behind the string.
            value.push(rng.next_u64() as u8 | 0x80);
        }
        _ => value = b"12345".to_vec(),
    }
    if value.len() == 16 && rng.below(2) == 0 {
        value[15] = 0x80;
    }
    vec![b"SET".to_vec(), b"text".to_vec(), value]
}
