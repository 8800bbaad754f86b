//! Commits and reads of tags with one key: `cargo bench -p nagaya-cold -- [TAGS] [BATCH]`.
//!
//! Tags come in random order, keys have 24 bytes and values 32. The file is made
//! in the directory for temporary files; that is the disk which is measured. On
//! a machine that others use, look at the CPU time.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench ends at its first failure and prints its result"
)]
// A bench is there to read the clock.
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]

use std::time::Instant;

use nagaya_cold::{Options, SqliteCold};
use nagaya_store::rdb;
use nagaya_store::value::{StrRef, ValueRef};
use nagaya_tiering::cold::{Change, ColdTier, Committed, Kind, Snapshot, StoredValue, Version};

const READS: u64 = 50_000;
/// An odd factor shuffles the numbers below a power of two without repeating one.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse::<u64>().ok());
    let tags = numbers.next().unwrap_or(1_000_000);
    let batch = numbers.next().unwrap_or(20_000);

    let place = tempfile::TempDir::new().unwrap();
    let cold = SqliteCold::open(place.path().join("cold.db"), Options::default()).unwrap();
    println!("{tags} tags of one key, {batch} in a commit");
    timed("first save, ensure and commit", tags, || {
        save(&cold, 0..tags, batch, 1)
    });
    let updates = tags / 5;
    timed("second save of a fifth", updates, || {
        save(&cold, 0..updates, batch, 2)
    });
    let order = |at: u64| (at * 7_919) % tags;
    timed("read of one tag", READS, || {
        for at in 0..READS {
            let loaded = cold.read(&[&tag(order(at))]).unwrap().remove(0).unwrap();
            assert_eq!(loaded.rows.len(), 1);
        }
    });
    timed("read of one tag, 1000 in a call", READS, || {
        for start in (0..READS).step_by(1000) {
            let names: Vec<Vec<u8>> = (start..start + 1000).map(|at| tag(order(at))).collect();
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            assert!(cold.read(&names).unwrap().iter().all(Option::is_some));
        }
    });
    timed("read of a tag that is not there", READS, || {
        for at in 0..READS {
            assert_eq!(cold.read(&[&at.to_be_bytes()]).unwrap(), [None]);
        }
    });
    timed("save of one tag in a commit", 200, || save(&cold, 0..200, 1, 3));
    println!("{:?}", cold.totals().unwrap());
    timed("check", tags, || assert_eq!(cold.check().unwrap(), []));
    timed("wipe", tags, || {
        cold.wipe(Version {
            generation: 1,
            snap: 9,
        })
        .unwrap()
    });
}

fn timed(what: &str, count: u64, work: impl FnOnce()) {
    let (start, cpu_start_us) = (Instant::now(), cpu_us());
    work();
    let (took, cpu_us) = (start.elapsed().as_secs_f64(), cpu_us() - cpu_start_us);
    let rate = count as f64 / took;
    let (each_us, each_cpu_us) = (took * 1e6 / count as f64, cpu_us / count as f64);
    println!("{what:<32} {took:>8.2} s {rate:>9.0}/s {each_us:>9.1} us, CPU {each_cpu_us:>6.1} us");
}

/// Returns the CPU time of this process, or nothing measured where there is no /proc.
fn cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // User and system time are the 12th and 13th word after the name, in hundredths of a second.
    let words = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = words.skip(11).take(2).filter_map(|word| word.parse::<f64>().ok());
    ticks.sum::<f64>() * 10_000.0
}

/// 24 bytes, so spread that neighbours in time are strangers in order.
fn tag(number: u64) -> Vec<u8> {
    format!("user:{:019}", number.wrapping_mul(FACTOR) >> 1).into_bytes()
}

fn save(cold: &SqliteCold, numbers: std::ops::Range<u64>, batch: u64, snap: u64) {
    let mut start = numbers.start;
    while start < numbers.end {
        let end = numbers.end.min(start + batch);
        let snapshots: Vec<Snapshot> = (start..end).map(|number| snapshot(number, snap)).collect();
        let names: Vec<&[u8]> = snapshots.iter().map(|snapshot| snapshot.tag.as_slice()).collect();
        if snap == 1 {
            cold.ensure(&names).unwrap();
        }
        let outcomes = cold.commit(&snapshots, 1_700_000_000_000).unwrap();
        assert!(outcomes.iter().all(|&outcome| outcome == Committed::Saved));
        start = end;
    }
}

fn snapshot(number: u64, snap: u64) -> Snapshot {
    let tag = tag(number);
    let value = format!("{number:016}{snap:016}");
    let value = StoredValue {
        kind: Kind::String,
        payload: rdb::dump_value(ValueRef::Str(StrRef::Bytes(value.as_bytes()))),
        expires_at_ms: None,
    };
    Snapshot {
        changes: vec![Change {
            key: tag.clone(),
            value: Some(value),
        }],
        tag,
        version: Version { generation: 1, snap },
        read_at_ms: None,
        written_at_ms: Some(1_700_000_000_000),
    }
}
