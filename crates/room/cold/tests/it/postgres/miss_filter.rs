//! Answers about absent tags without a question to the server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nagaya_cold::PostgresCold;
use nagaya_cold::postgres::Options;
use nagaya_testkit::{Postgres, shared, wait};
use nagaya_tiering::cold::{Claimed, ColdTier, Committed};

use super::{PATIENCE, filtered, open_at, save};
use crate::support::{put, snapshot, version};

const LAG: Duration = Duration::from_millis(200);

fn slow() -> Options {
    Options {
        filter_lag: Some(LAG),
        ..Options::default()
    }
}

/// Opens a tier that soon gives a silent server up. The schema is made before, with patience.
fn open_impatient(postgres: &Postgres, lag: Duration) -> PostgresCold {
    let url = postgres.url("postgres");
    let patient = Options {
        filter_lag: Some(lag),
        ..Options::default()
    };
    drop(open_at(&url, patient.clone()));
    let impatient = Options {
        acquire_timeout: Duration::from_secs(1),
        call_timeout: Duration::from_secs(1),
        ..patient
    };
    open_at(&url, impatient)
}

/// Whether the tier answers for an absent tag although its server is stopped.
fn knows_absent(cold: &PostgresCold, tag: &[u8]) -> bool {
    matches!(cold.generations(&[tag]), Ok(found) if found == [None])
        && matches!(cold.claim(tag, None), Ok(Claimed::NoRow))
}

#[test]
fn absent_tags_cost_no_question() {
    let postgres = Postgres::start();
    let cold = open_impatient(&postgres, Duration::from_secs(3600));
    let refreshed =
        "SELECT count(*) > 0 FROM pg_stat_activity WHERE state = 'idle' AND query LIKE '%made_by >=%'";
    wait::until("the filter is read", PATIENCE, || {
        postgres.psql(&postgres.url("postgres"), refreshed) == "t"
    });
    wait::until("the filter is built", PATIENCE, || {
        postgres.stop();
        let is_known = knows_absent(&cold, b"unknown");
        postgres.cont();
        is_known
    });
    postgres.stop();
    let answers = (0..10_000u32).all(|number| knows_absent(&cold, &number.to_be_bytes()));
    postgres.cont();
    assert!(answers);
}

#[test]
fn a_filter_that_cannot_be_refreshed_is_not_trusted() {
    let postgres = Postgres::start();
    let cold = open_impatient(&postgres, LAG);
    postgres.stop();
    wait::until("the answer is an error", PATIENCE, || {
        cold.generations(&[b"unknown"]).is_err()
    });
    postgres.cont();
    wait::until("the answer is back", PATIENCE, || {
        cold.generations(&[b"unknown"]).is_ok()
    });
}

/// The race that matters: once the first snapshot of a tag is committed, no server may take it for absent.
#[test]
fn no_server_takes_a_saved_tag_for_absent() {
    const TAGS: u64 = 300;
    let url = shared::postgres().create_database();
    let servers: Vec<_> = (0..3).map(|_| open_at(&url, filtered())).collect();
    let committed = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let name = |number: u64| format!("tag:{number}").into_bytes();
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=TAGS {
                save(&servers[0], &name(number), 1, vec![put(b"k", b"v")]);
                committed.store(number, Ordering::SeqCst);
            }
            is_over.store(true, Ordering::SeqCst);
        });
        for server in &servers {
            scope.spawn(|| {
                let mut asked = 0u64;
                while !is_over.load(Ordering::SeqCst) {
                    let newest = committed.load(Ordering::SeqCst);
                    // Those to come are asked for, too: the filter must not remember an answer.
                    for number in newest.saturating_sub(3)..newest + 3 {
                        let tag = name(number);
                        let found = server.generations(&[&tag]).unwrap()[0];
                        let claimed = server.claim(&tag, None).unwrap();
                        if (1..=newest).contains(&number) {
                            assert_eq!(found, Some(1), "tag {number} of {newest}");
                            assert_eq!(claimed, Claimed::Moved, "tag {number} of {newest}");
                        }
                        asked += 1;
                    }
                }
                assert!(asked > 100, "{asked}");
            });
        }
    });
}

/// Transactions end in another order than they began: the one that began first is seen although later ones
/// were read before it ended.
#[test]
fn a_row_of_a_transaction_that_took_long_is_not_overlooked() {
    let postgres = shared::postgres();
    let url = postgres.create_database();
    let (cold, saver) = (open_at(&url, filtered()), open_at(&url, filtered()));
    let slow_insert = "BEGIN; INSERT INTO room_tags (tag, generation) VALUES ('slow', 1);
                       SELECT pg_sleep(0.5); COMMIT";
    thread::scope(|scope| {
        let slow = scope.spawn(|| postgres.psql(&url, slow_insert));
        // Later ones come and go, and are read.
        let mut number = 0u64;
        while !slow.is_finished() {
            save(&saver, &number.to_be_bytes(), 1, vec![put(b"k", b"v")]);
            number += 1;
        }
        slow.join().unwrap();
    });
    save(&saver, b"slow", 1, vec![put(b"k", b"v")]);
    assert_eq!(cold.generations(&[b"slow"]).unwrap(), [Some(1)]);
    assert_eq!(cold.claim(b"slow", None).unwrap(), Claimed::Moved);
}

/// A promoted standby begins a timeline of its own; so does a server that ends a recovery.
#[test]
fn a_new_timeline_makes_a_new_filter() {
    let postgres = Postgres::start();
    let url = postgres.url("postgres");
    let (cold, saver) = (open_at(&url, filtered()), open_at(&url, filtered()));
    save(&saver, b"before", 1, vec![put(b"k", b"v")]);
    let data = postgres.psql(&url, "SHOW data_directory");
    postgres.psql(&url, "ALTER SYSTEM SET restore_command = 'false'");
    std::fs::write(format!("{data}/recovery.signal"), "").unwrap();
    postgres.restart();
    let timeline = "SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)";
    wait::until("the recovery has ended", PATIENCE, || {
        postgres.try_psql(&url, timeline).as_deref() == Ok("00000002")
    });
    wait::until("the tier is back", PATIENCE, || {
        cold.totals().is_ok() && saver.totals().is_ok()
    });
    save(&saver, b"after", 1, vec![put(b"k", b"v")]);
    for _ in 0..100 {
        let found = cold.generations(&[b"before", b"after", b"never"]).unwrap();
        assert_eq!(found, [Some(1), Some(1), None]);
    }
}

#[test]
fn a_first_save_waits_for_the_lag_and_later_ones_do_not() {
    let url = shared::postgres().create_database();
    let cold = open_at(&url, slow());
    let timed = |work: &dyn Fn()| {
        let start = tokio::time::Instant::now();
        work();
        start.elapsed()
    };
    assert!(timed(&|| cold.ensure(&[b"t"]).unwrap()) >= LAG);
    assert!(timed(&|| cold.ensure(&[b"t"]).unwrap()) < LAG);
    // Another process cannot know how old the row is.
    let other = open_at(&url, slow());
    assert!(timed(&|| other.ensure(&[b"t"]).unwrap()) >= LAG);
    let one = snapshot(b"t", version(1, 1), vec![put(b"k", b"v")]);
    assert_eq!(cold.commit(&[one], 1).unwrap(), [Committed::Saved]);
    let third = open_at(&url, slow());
    assert!(timed(&|| third.ensure(&[b"t"]).unwrap()) < LAG);
}

#[test]
fn a_claim_of_a_row_that_was_never_saved_waits_for_the_lag() {
    let url = shared::postgres().create_database();
    let (maker, loader) = (open_at(&url, slow()), open_at(&url, slow()));
    thread::scope(|scope| {
        let made = scope.spawn(|| maker.ensure(&[b"t"]).unwrap());
        wait::until("the row is there", PATIENCE, || {
            loader.generations(&[b"t"]).unwrap() == [Some(1)]
        });
        let start = tokio::time::Instant::now();
        let claimed = loader.claim(b"t", Some(1)).unwrap();
        assert!(
            start.elapsed() >= LAG - Duration::from_millis(20),
            "{:?}",
            start.elapsed()
        );
        assert!(matches!(claimed, Claimed::Loaded(loaded) if loaded.generation == 2));
        made.join().unwrap();
    });
    assert_eq!(loader.claim(b"t", Some(7)).unwrap(), Claimed::Moved);
}

#[test]
fn the_first_process_settles_the_lag_for_all() {
    let url = shared::postgres().create_database();
    drop(open_at(&url, slow()));
    let other = open_at(&url, filtered());
    let start = tokio::time::Instant::now();
    other.ensure(&[b"t"]).unwrap();
    assert!(start.elapsed() >= LAG);
}
