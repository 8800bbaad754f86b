//! What a save costs: it grows with what changed, not with the tag.

use nagaya_tiering::cold::{Change, Kind, StoredValue};

use super::{open_at, save, unfiltered};

/// Bytes that nothing can compress.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn key(number: u64, seed: u64) -> Change {
    Change {
        key: format!("{{user:1}}key:{number}").into_bytes(),
        value: Some(StoredValue {
            kind: Kind::String,
            payload: noise(seed, 1024),
            expires_at_ms: None,
        }),
    }
}

#[test]
fn a_kilobyte_changed_in_a_tag_of_a_hundred_writes_at_most_five_of_wal() {
    const SAVES: u64 = 200;
    let postgres = nagaya_testkit::Postgres::start();
    let cold = open_at(&postgres.url("postgres"), unfiltered());
    save(
        &cold,
        b"user:1",
        1,
        (0..100).map(|number| key(number, number)).collect(),
    );
    // The first change of a page after a checkpoint logs the whole page, once; that is not a save's cost.
    for snap in 2..=101 {
        save(&cold, b"user:1", snap, vec![key(snap - 2, snap)]);
    }
    let position = || {
        let sql = "SELECT pg_current_wal_insert_lsn() - '0/0'";
        let text = postgres.psql(&postgres.url("postgres"), sql);
        text.parse::<f64>().unwrap()
    };
    let before = position();
    for number in 0..SAVES {
        save(
            &cold,
            b"user:1",
            102 + number,
            vec![key(number % 100, 1000 + number)],
        );
    }
    let each = (position() - before) / SAVES as f64;
    println!("{each:.0} bytes of WAL per save of 1024 bytes in a tag of 100 KB");
    assert!(each < 5.0 * 1024.0, "{each} bytes");
}
