use nagaya_store::rng::Rng;

use crate::harness::{Compare, drive, pick, words};

const KEYS: &[&str] = &["b1", "b2", "b3", "{tag}x", "{tag}y"];

#[test]
fn bitmaps_reply_as_redis_replies() {
    drive(6000, |rng| (request(rng), Compare::Exact));
}

pub(crate) fn request(rng: &mut Rng) -> Vec<Vec<u8>> {
    let (key, other) = (pick(rng, KEYS), pick(rng, KEYS));
    // Long even runs now and then, so that the word-wise loops are walked.
    if rng.below(8) == 0 {
        let byte = pick(rng, &[b"\xff".as_slice(), b"\0", b"\x80", b"\x01", b"\x5a"])[0];
        let mut value = vec![byte; rng.below(40)];
        if rng.below(2) == 0 && !value.is_empty() {
            let at = rng.below(value.len());
            value[at] ^= 1 << rng.below(8);
        }
        return vec![b"SET".to_vec(), key.as_bytes().to_vec(), value];
    }
    let offset = rng.below(400);
    let range = range(rng);
    let text = match rng.below(16) {
        0 | 1 => format!("SETBIT {key} {offset} {}", pick(rng, &["0", "1", "1", "2", "x"])),
        2 => format!("GETBIT {key} {offset}"),
        3 => format!("BITCOUNT {key}{range}"),
        4 | 5 => format!("BITPOS {key} {}{range}", pick(rng, &["0", "1", "0", "1", "7"])),
        6 => format!("BITPOS {key} {} {}", rng.below(2), rng.below(60) as i64 - 30),
        7 => format!(
            "BITOP {} {key} {other} {key}",
            pick(rng, &["AND", "or", "XOR", "NOT", "no"])
        ),
        8 => format!("BITOP XOR {key} {other} b1 b2 b3"),
        9 => format!("BITOP NOT {key} {other}"),
        10 => format!("GET {key}"),
        11 => format!("SET {key} {}", pick(rng, &["12345", "-1", "", "hello"])),
        12 => format!("BITFIELD_RO {key} {}", get(rng)),
        13 => pick(
            rng,
            &[
                "SETBIT b1 -1 1",
                "SETBIT b1 4294967296 1",
                "GETBIT b1 zz",
                "BITFIELD b1 GET u64 0",
                "BITFIELD b1 GET i65 0",
                "BITFIELD b1 GET x8 0",
                "BITFIELD b1 GET u0 0",
                "BITFIELD b1 GET u8 #-1",
                "BITFIELD b1 GET u8 -8",
                "BITFIELD b1 GET u8 #536870912",
                "BITFIELD b1 OVERFLOW NO",
                "BITFIELD b1 SET u8 0 a",
                "BITFIELD_RO b1 INCRBY u8 0 1",
                "BITFIELD b1",
                "BITCOUNT b1 0",
                "BITCOUNT b1 0 5 BITS",
                "BITCOUNT b1 a 5",
                "BITPOS b1 1 0 5 BITS",
                "BITPOS b1 1 a",
                "BITPOS b1 1 0 1 BIT x",
            ],
        )
        .to_owned(),
        _ => {
            let operations: Vec<String> = (0..=rng.below(3)).map(|_| operation(rng)).collect();
            format!("BITFIELD {key} {}", operations.join(" "))
        }
    };
    words(&text)
}

fn range(rng: &mut Rng) -> String {
    let (start, end) = (rng.below(80) as i64 - 40, rng.below(80) as i64 - 40);
    match rng.below(5) {
        0 => String::new(),
        1 => format!(" {start} {end}"),
        2 => format!(" {start} {end} BYTE"),
        _ => format!(" {} {} BIT", start * 7, end * 7),
    }
}

fn field(rng: &mut Rng) -> String {
    let bits = pick(
        rng,
        &[
            "u1", "u4", "u7", "u8", "u31", "u63", "i1", "i5", "i8", "i33", "i63", "i64",
        ],
    );
    match rng.below(3) {
        0 => format!("{bits} #{}", rng.below(5)),
        _ => format!("{bits} {}", rng.below(200)),
    }
}

fn get(rng: &mut Rng) -> String {
    format!("GET {}", field(rng))
}

fn operation(rng: &mut Rng) -> String {
    let overflow = pick(
        rng,
        &["", "", "OVERFLOW WRAP ", "OVERFLOW sat ", "OVERFLOW FAIL "],
    );
    let value = pick(
        rng,
        &[
            "0",
            "1",
            "-1",
            "15",
            "200",
            "-129",
            "2147483648",
            "9223372036854775807",
            "-9223372036854775808",
            "4611686018427387904",
        ],
    );
    match rng.below(4) {
        0 => format!("{overflow}{}", get(rng)),
        // Redis saturates a number so low that its distance to the highest value overflows 64 bits to
        // that highest value; we take the lowest.
        1 => {
            let value = if value == i64::MIN.to_string() {
                "-4611686018427387904"
            } else {
                value
            };
            format!("{overflow}SET {} {value}", field(rng))
        }
        _ => format!("{overflow}INCRBY {} {value}", field(rng)),
    }
}
