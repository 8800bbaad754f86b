//! Many threads and several processes on one file.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nagaya_cold::{Options, SqliteCold};
use nagaya_tiering::cold::{Claimed, ColdTier, Committed};

use crate::support::{Place, assert_sound, payload, put, rows, save, snapshot, version};

const THREADS: u64 = 8;
const ROUNDS: u64 = 40;

#[test]
fn commits_of_many_threads_are_all_there() {
    let place = Place::new();
    let cold = place.open();
    thread::scope(|scope| {
        for number in 0..THREADS {
            let cold = &cold;
            scope.spawn(move || {
                for snap in 1..=ROUNDS {
                    let key = snap.to_be_bytes();
                    save(cold, &number.to_be_bytes(), snap, vec![put(&key, b"v")]);
                }
            });
        }
    });
    for number in 0..THREADS {
        assert_eq!(rows(&cold, &number.to_be_bytes()).len() as u64, ROUNDS);
    }
    assert_sound(&cold);
}

#[test]
fn a_call_that_fails_does_not_fail_those_it_shares_a_commit_with() {
    let place = Place::new();
    let cold = place.open();
    thread::scope(|scope| {
        for number in 0..THREADS {
            let cold = &cold;
            scope.spawn(move || {
                let tag = number.to_be_bytes();
                for snap in 1..=ROUNDS {
                    let key = snap.to_be_bytes();
                    save(cold, &tag, snap, vec![put(&key, b"v")]);
                    // The first key of this one is written before the version turns out not to fit.
                    let broken = [
                        snapshot(&tag, version(1, snap + 1), vec![put(b"broken", b"v")]),
                        snapshot(&tag, version(1, u64::MAX), vec![put(b"broken", b"v")]),
                    ];
                    assert!(cold.commit(&broken, 1).is_err());
                }
            });
        }
    });
    for number in 0..THREADS {
        assert_eq!(rows(&cold, &number.to_be_bytes()).len() as u64, ROUNDS);
    }
    assert_sound(&cold);
}

#[test]
fn a_reader_sees_each_commit_whole_while_it_is_written() {
    let place = Place::new();
    let cold = place.open();
    let keys: Vec<Vec<u8>> = (0..50).map(|key| vec![key]).collect();
    let write = |snap: u64| {
        let changes = keys.iter().map(|key| put(key, &snap.to_be_bytes()));
        save(&cold, b"t", snap, changes.collect());
    };
    write(1);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let loaded = cold.read(&[b"t", b"u"]).unwrap().remove(0).unwrap();
                    let snap = loaded.saved.snap;
                    assert!(snap >= last);
                    last = snap;
                    let expected = payload(&snap.to_be_bytes());
                    assert_eq!(loaded.rows.len(), keys.len());
                    assert!(loaded.rows.iter().all(|row| row.value.payload == expected));
                }
            });
        }
        (2..200).for_each(write);
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn only_one_of_many_claims_gets_a_generation() {
    let place = Place::new();
    let cold = place.open();
    cold.ensure(&[b"t"]).unwrap();
    for base in 1..20 {
        let claim = || matches!(cold.claim(b"t", Some(base)).unwrap(), Claimed::Loaded(_));
        let won = thread::scope(|scope| {
            let claims = [(); 4].map(|()| scope.spawn(claim));
            claims
                .into_iter()
                .map(|claim| claim.join().unwrap())
                .filter(|&won| won)
                .count()
        });
        assert_eq!(won, 1);
    }
}

#[test]
fn several_openers_of_a_new_file_take_turns() {
    for _ in 0..5 {
        let place = Place::new();
        let start = Barrier::new(4);
        thread::scope(|scope| {
            for number in 0..4u8 {
                let (place, start) = (&place, &start);
                scope.spawn(move || {
                    start.wait();
                    let cold = place.open();
                    for snap in 1..10 {
                        save(&cold, &[number], snap, vec![put(b"k", b"v")]);
                    }
                });
            }
        });
        let cold = place.open();
        assert_eq!(cold.totals().unwrap().keys, 4);
        assert_sound(&cold);
    }
}

#[test]
fn the_write_ahead_log_stays_within_its_bound_under_reads() {
    let place = Place::new();
    let options = Options {
        wal_bytes_max: 1 << 20,
        ..Options::default()
    };
    let cold = SqliteCold::open(place.path(), options).unwrap();
    cold.ensure(&[b"t"]).unwrap();
    let done = AtomicBool::new(false);
    let wal = place.path().with_extension("db-wal");
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    cold.read(&[b"t"]).unwrap();
                }
            });
        }
        let mut most_bytes = 0;
        for snap in 1..=200 {
            let noise: Vec<u8> = (0..40_000u64).map(|at| ((at * at * snap) >> 3) as u8).collect();
            let outcome = cold
                .commit(&[snapshot(b"t", version(1, snap), vec![put(b"k", &noise)])], 1)
                .unwrap();
            assert_eq!(outcome, [Committed::Saved]);
            most_bytes = most_bytes.max(std::fs::metadata(&wal).map_or(0, |file| file.len()));
        }
        done.store(true, Ordering::Relaxed);
        assert!(most_bytes < 3 << 20, "{most_bytes}");
    });
}
