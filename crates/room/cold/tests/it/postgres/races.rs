//! Many at once on one database, each with a tier of its own.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use nagaya_testkit::shared;
use nagaya_tiering::cold::{Claimed, ColdTier, Committed};

use super::{load, open, open_at, save, unfiltered};
use crate::support::{gone, payload, put, snapshot, version};

/// The double load: of all that claim on one base, one wins, and it reads the last commit.
#[test]
fn thousands_of_claims_on_one_base_have_one_winner_each() {
    const ROUNDS: u64 = 1000;
    const SERVERS: usize = 3;
    let url = shared::postgres().create_database();
    let servers: Vec<_> = (0..SERVERS).map(|_| open_at(&url, unfiltered())).collect();
    servers[0].ensure(&[b"t"]).unwrap();
    let barrier = Barrier::new(SERVERS);
    let wins = AtomicU64::new(0);
    thread::scope(|scope| {
        for server in &servers {
            let (barrier, wins) = (&barrier, &wins);
            scope.spawn(move || {
                for base in 1..=ROUNDS {
                    barrier.wait();
                    if let Claimed::Loaded(loaded) = server.claim(b"t", Some(base)).unwrap() {
                        assert_eq!(loaded.generation, base + 1);
                        // What the last winner committed is what this one reads.
                        assert_eq!(loaded.rows.len(), usize::from(base > 1));
                        let saved = snapshot(b"t", version(base + 1, 1), vec![put(b"k", b"v")]);
                        assert_eq!(server.commit(&[saved], 1).unwrap(), [Committed::Saved]);
                        wins.fetch_add(1, Ordering::Relaxed);
                    }
                    barrier.wait();
                }
            });
        }
    });
    assert_eq!(wins.into_inner(), ROUNDS);
    assert_eq!(servers[0].check().unwrap(), []);
}

/// A claim that waited for a commit reads that commit's rows, not those from before its wait.
#[test]
fn a_claim_never_reads_rows_older_than_the_version_it_returns() {
    let url = shared::postgres().create_database();
    let (saver, loader) = (open_at(&url, unfiltered()), open_at(&url, unfiltered()));
    saver.ensure(&[b"t"]).unwrap();
    let generation = AtomicU64::new(1);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for snap in 1.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let version = version(generation.load(Ordering::Relaxed), snap);
                let text = format!("{}-{}", version.generation, version.snap);
                let keys = (0..20u8).map(|key| put(&[key], text.as_bytes()));
                saver
                    .commit(&[snapshot(b"t", version, keys.collect())], 1)
                    .unwrap();
            }
        });
        for base in 1..=500 {
            let Claimed::Loaded(loaded) = loader.claim(b"t", Some(base)).unwrap() else {
                panic!("nobody else claims");
            };
            generation.store(base + 1, Ordering::Relaxed);
            let saved = loaded.saved;
            let text = payload(format!("{}-{}", saved.generation, saved.snap).as_bytes());
            assert!(
                loaded.rows.iter().all(|row| row.value.payload == text),
                "{saved:?}"
            );
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_older_snapshot_is_refused_from_any_process() {
    let url = shared::postgres().create_database();
    let savers: Vec<_> = (0..4).map(|_| open_at(&url, unfiltered())).collect();
    savers[0].ensure(&[b"t"]).unwrap();
    let next = AtomicU64::new(1);
    let highest = AtomicU64::new(0);
    thread::scope(|scope| {
        for saver in &savers {
            scope.spawn(|| {
                loop {
                    let snap = next.fetch_add(1, Ordering::Relaxed);
                    if snap > 800 {
                        break;
                    }
                    let before = highest.load(Ordering::SeqCst);
                    let one = snapshot(b"t", version(1, snap), vec![put(b"k", &snap.to_be_bytes())]);
                    let outcome = saver.commit(&[one], 1).unwrap()[0];
                    if outcome == Committed::Saved {
                        assert!(snap > before, "{snap} entered after {before}");
                        highest.fetch_max(snap, Ordering::SeqCst);
                    }
                    let loaded = load(saver, b"t");
                    assert_eq!(
                        loaded.rows[0].value.payload,
                        payload(&loaded.saved.snap.to_be_bytes())
                    );
                }
            });
        }
    });
    assert_eq!(load(&savers[0], b"t").saved.snap, highest.into_inner());
    assert_eq!(savers[0].check().unwrap(), []);
}

/// Each thread takes its tags in another order; commits, erasures, purges and notes meet all the time.
#[test]
fn calls_on_the_same_tags_in_any_order_do_not_stop_each_other() {
    const TAGS: u8 = 24;
    let url = shared::postgres().create_database();
    let shared_tier = open_at(&url, unfiltered());
    thread::scope(|scope| {
        for thread in 0..6u64 {
            let cold = &shared_tier;
            scope.spawn(move || {
                for round in 0..40u64 {
                    let names: Vec<[u8; 1]> = (0..TAGS)
                        .map(
                            |tag| [(tag.wrapping_mul(5 + 2 * thread as u8).wrapping_add(round as u8)) % TAGS],
                        )
                        .collect();
                    let tags: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
                    cold.ensure(&tags).unwrap();
                    let snap = round * 10 + thread + 1;
                    let snapshots = tags.iter().map(|tag| {
                        let changes = vec![put(&[thread as u8], b"v"), gone(&[100])];
                        snapshot(tag, version(1, snap), changes)
                    });
                    cold.commit(&snapshots.collect::<Vec<_>>(), 1).unwrap();
                    match thread {
                        0 => drop(cold.erase(tags[0]).unwrap()),
                        1 => drop(cold.purge(0, i64::MAX, 10).unwrap()),
                        2 => cold
                            .set_status(&tags, nagaya_tiering::cold::Status::Cleaned)
                            .unwrap(),
                        3 => cold.wipe(version(1, snap / 2)).unwrap(),
                        _ => {
                            let accesses = tags.iter().map(|tag| nagaya_tiering::cold::Access {
                                tag: tag.to_vec(),
                                read_at_ms: Some(snap as i64),
                                written_at_ms: None,
                            });
                            cold.note_access(&accesses.collect::<Vec<_>>()).unwrap();
                        }
                    }
                }
            });
        }
    });
    assert_eq!(shared_tier.check().unwrap(), []);
}

#[test]
fn commits_of_different_tags_do_not_wait_for_each_other() {
    let cold = open(unfiltered());
    thread::scope(|scope| {
        for thread in 0..8u8 {
            let cold = &cold;
            scope.spawn(move || {
                for snap in 1..=50 {
                    save(cold, &[thread], snap, vec![put(&snap.to_be_bytes(), b"v")]);
                }
            });
        }
    });
    assert_eq!(cold.totals().unwrap().keys, 400);
    assert_eq!(cold.check().unwrap(), []);
}
