//! Saves and loads on PostgreSQL: `cargo bench -p nagaya-cold --bench postgres -- [TAGS] [BATCH]`.
//!
//! Starts a server of its own with full durability, in the directory for temporary
//! files; that is the disk which is measured. Keys have 24 bytes and values 32. The
//! server shares the machine, so look at ratios.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench ends at its first failure and prints its result"
)]
// A bench is there to read the clock.
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nagaya_cold::PostgresCold;
use nagaya_cold::postgres::Options;
use nagaya_store::rdb;
use nagaya_store::value::{StrRef, ValueRef};
use nagaya_testkit::Postgres;
use nagaya_tiering::cold::{Change, Claimed, ColdTier, Committed, Kind, Snapshot, StoredValue, Version};

/// An odd factor shuffles the numbers below a power of two without repeating one.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const LOADS: u64 = 500;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse::<u64>().ok());
    let tags = numbers.next().unwrap_or(50_000);
    let batch = numbers.next().unwrap_or(1_000);

    let postgres = Postgres::start();
    let url = postgres.url("postgres");
    let cold = open(&url);
    println!("{tags} tags of one key, {batch} in a commit");
    timed("first save, ensure and commit", tags, || {
        save(&cold, 0..tags, batch, 1)
    });
    timed("second save", tags, || save(&cold, 0..tags, batch, 2));
    timed("second save, two threads", tags, || {
        std::thread::scope(|scope| {
            scope.spawn(|| save(&cold, 0..tags / 2, batch, 3));
            scope.spawn(|| save(&cold, tags / 2..tags, batch, 3));
        });
    });
    timed("save of one tag in a commit", 200, || save(&cold, 0..200, 1, 4));
    for keys in [1, 10, 1000] {
        loads(&cold, keys);
    }
    latency("base of one tag", LOADS, |at| {
        assert_eq!(cold.generations(&[&tag(at)]).unwrap(), [Some(1)]);
    });
    timed("base of a tag, 1000 in a call", tags, || {
        for start in (0..tags).step_by(1000) {
            let names: Vec<Vec<u8>> = (start..tags.min(start + 1000)).map(tag).collect();
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            assert!(cold.generations(&names).unwrap().iter().all(Option::is_some));
        }
    });
    wal(&postgres, &cold);
    println!("{:?}", cold.totals().unwrap());
    timed("check", tags, || assert_eq!(cold.check().unwrap(), []));
}

fn open(url: &str) -> PostgresCold {
    let options = Options {
        filter: false,
        filter_lag: None,
        ..Options::default()
    };
    PostgresCold::open(url, options).unwrap()
}

/// What loading tags of this many keys takes: the base, then the claim with all rows.
fn loads(cold: &PostgresCold, keys: u64) {
    let tags = LOADS.min(100_000 / keys);
    let name = |number: u64| format!("load:{keys}:{number}").into_bytes();
    for number in 0..tags {
        let tag = name(number);
        cold.ensure(&[&tag]).unwrap();
        let changes = (0..keys).map(|key| change(format!("{{load}}{key:018}").into_bytes(), key));
        let all = Snapshot {
            changes: changes.collect(),
            ..snapshot_of(tag, 1)
        };
        assert_eq!(cold.commit(&[all], 1).unwrap(), [Committed::Saved]);
    }
    latency(&format!("load of a tag of {keys} keys"), tags, |number| {
        let tag = name(number);
        let base = cold.generations(&[&tag]).unwrap()[0];
        let Claimed::Loaded(loaded) = cold.claim(&tag, base).unwrap() else {
            panic!("nobody else claims");
        };
        assert_eq!(loaded.rows.len() as u64, keys);
    });
    latency(&format!("read of a tag of {keys} keys"), tags, |number| {
        let loaded = cold.read(&[&name(number)]).unwrap().remove(0).unwrap();
        assert_eq!(loaded.rows.len() as u64, keys);
    });
}

/// What a change of 1 KB in a tag of 100 KB writes.
fn wal(postgres: &Postgres, cold: &PostgresCold) {
    const SAVES: u64 = 200;
    let tag = b"wal".to_vec();
    let large = |key: u64, snap: u64| {
        let text: String = (0..64)
            .map(|part| format!("{:016x}", (key * 977 + snap * 31 + part).wrapping_mul(FACTOR)))
            .collect();
        Change {
            key: format!("{{wal}}{key}").into_bytes(),
            value: Some(StoredValue {
                kind: Kind::String,
                payload: text.into_bytes(),
                expires_at_ms: None,
            }),
        }
    };
    cold.ensure(&[&tag]).unwrap();
    let commit = |snap: u64, changes: Vec<Change>| {
        let one = Snapshot {
            changes,
            ..snapshot_of(tag.clone(), snap)
        };
        assert_eq!(cold.commit(&[one], 1).unwrap(), [Committed::Saved]);
    };
    commit(1, (0..100).map(|key| large(key, 0)).collect());
    let position = || {
        let sql = "SELECT pg_current_wal_insert_lsn() - '0/0'";
        let text = postgres.psql(&postgres.url("postgres"), sql);
        text.parse::<f64>().unwrap()
    };
    let before = position();
    (0..SAVES).for_each(|at| commit(at + 2, vec![large(at % 100, at)]));
    let each = (position() - before) / SAVES as f64;
    println!(
        "{:<32} {each:>8.0} bytes of WAL",
        "1 KB changed in a tag of 100 KB"
    );
}

fn timed(what: &str, count: u64, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    let took = start.elapsed().as_secs_f64();
    let (rate, each_us) = (count as f64 / took, took * 1e6 / count as f64);
    println!("{what:<32} {took:>8.2} s {rate:>9.0}/s {each_us:>9.1} us");
}

fn latency(what: &str, count: u64, mut work: impl FnMut(u64)) {
    let mut times = Histogram::<u64>::new(3).unwrap();
    for number in 0..count {
        let start = Instant::now();
        work(number);
        times.record(micros(start.elapsed())).unwrap();
    }
    let at = |quantile| times.value_at_quantile(quantile) as f64 / 1000.0;
    println!("{what:<32} p50 {:>7.3} ms  p99 {:>7.3} ms", at(0.5), at(0.99));
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// 24 bytes, so spread that neighbours in time are strangers in order.
fn tag(number: u64) -> Vec<u8> {
    format!("user:{:019}", number.wrapping_mul(FACTOR) >> 1).into_bytes()
}

fn save(cold: &PostgresCold, numbers: std::ops::Range<u64>, batch: u64, snap: u64) {
    let mut start = numbers.start;
    while start < numbers.end {
        let end = numbers.end.min(start + batch);
        let snapshots: Vec<Snapshot> = (start..end)
            .map(|number| Snapshot {
                changes: vec![change(tag(number), number + snap)],
                ..snapshot_of(tag(number), snap)
            })
            .collect();
        let names: Vec<&[u8]> = snapshots.iter().map(|snapshot| snapshot.tag.as_slice()).collect();
        if snap == 1 {
            cold.ensure(&names).unwrap();
        }
        let outcomes = cold.commit(&snapshots, 1_700_000_000_000).unwrap();
        assert!(outcomes.iter().all(|&outcome| outcome == Committed::Saved));
        start = end;
    }
}

fn snapshot_of(tag: Vec<u8>, snap: u64) -> Snapshot {
    Snapshot {
        tag,
        version: Version { generation: 1, snap },
        changes: Vec::new(),
        read_at_ms: None,
        written_at_ms: Some(1_700_000_000_000),
    }
}

fn change(key: Vec<u8>, number: u64) -> Change {
    let value = format!("{number:032}");
    Change {
        key,
        value: Some(StoredValue {
            kind: Kind::String,
            payload: rdb::dump_value(ValueRef::Str(StrRef::Bytes(value.as_bytes()))),
            expires_at_ms: None,
        }),
    }
}
