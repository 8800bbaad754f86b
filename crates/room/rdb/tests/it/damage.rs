//! Damaged files: an error with its place, quickly, and no memory for what is only claimed.

use std::fs;

use nagaya_store::rng::Rng;
use nagaya_testkit::Redis;

use super::real_files::saved;
use super::*;

/// A file of a few KiB with every type.
fn small_file() -> Vec<u8> {
    let redis = Redis::start();
    let requests = [
        "SET text hello",
        "SET number 123456",
        "SETRANGE packed 300 x",
        "RPUSH list a b 1 2 3",
        "SADD ints 1 2 70000",
        "SADD members a b c",
        "HSET hash f v g 7",
        "ZADD zset 1 a 2.5 b inf c",
        "XADD stream 1-1 f v g w",
        "XADD stream 2-1 f v g w",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >",
        "PEXPIREAT text 4102444800000",
        "CONFIG SET hash-max-listpack-entries 1",
        "CONFIG SET zset-max-listpack-entries 0",
        "CONFIG SET set-max-intset-entries 0",
        "HSET hash:large a b c d e f",
        "ZADD zset:large 1 a 2 b",
        "SADD set:large 1 2 3",
    ];
    for request in requests {
        let words: Vec<&str> = request.split(' ').collect();
        assert_eq!(redis.cmd(&words).error(), None, "{request}");
    }
    redis.cmd(&[
        "FUNCTION",
        "LOAD",
        "#!lua name=lib\nredis.register_function('f', function() return 1 end)",
    ]);
    saved(&redis)
}

/// The largest size that this process has had, in KiB.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_file_cut_anywhere_is_refused_there() {
    let bytes = small_file();
    assert_eq!(read(&bytes).unwrap().keys.len(), 12);
    for len in 0..bytes.len() {
        let error = read(&bytes[..len]).unwrap_err();
        let expected = if len < 9 { 0 } else { len as u64 };
        assert_eq!(error.offset(), expected, "cut at {len}: {error}");
    }
}

#[test]
fn a_changed_byte_anywhere_is_noticed() {
    let bytes = small_file();
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0x40, 0xff, 0xc0] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            assert!(read(&changed).is_err(), "byte {at} changed by {change:#x}");
        }
    }
}

#[test]
fn random_damage_ends_in_an_error_without_large_memory() {
    let bytes = small_file();
    let mut rng = Rng::seeded(11);
    let before = peak_kib();
    let rounds = match std::env::var_os("NAGAYA_TEST_LONG") {
        Some(_) => 2_000_000,
        None => 30_000,
    };
    for round in 0..rounds {
        let mut changed = bytes.clone();
        let at = 9 + rng.below(changed.len() - 9);
        match rng.below(4) {
            // A length of hundreds of MiB, or of more than there is in the world.
            0 if at + 9 < changed.len() => {
                changed[at] = [0x80, 0x81][rng.below(2)];
                changed[at + 1] = rng.below(32) as u8;
            }
            1 => changed.truncate(at),
            2 => {
                let from = 9 + rng.below(changed.len() - 9);
                let piece: Vec<u8> = changed[from..].iter().take(1 + rng.below(40)).copied().collect();
                changed.splice(at..at, piece);
            }
            _ => {
                for _ in 0..=rng.below(4) {
                    let at = 9 + rng.below(changed.len() - 9);
                    changed[at] = rng.next_u64() as u8;
                }
            }
        }
        if changed != bytes {
            assert!(read(&changed).is_err(), "round {round}");
        }
    }
    let grown = peak_kib() - before;
    assert!(grown < 64 << 10, "{grown} KiB more than before");
}

#[test]
fn nothing_comes_after_an_error() {
    let bytes = small_file();
    let mut reader = Reader::new(&bytes[..200], Limits::default()).unwrap();
    while let Ok(item) = reader.next() {
        assert!(item.is_some());
    }
    assert!(reader.next().is_err());
    assert!(reader.value(&mut Vec::new()).is_err());
    assert_eq!(reader.checksum(), None);
}
