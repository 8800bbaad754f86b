//! A server that is killed, cut off or full in the middle of commits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nagaya_cold::PostgresCold;
use nagaya_cold::postgres::Options;
use nagaya_testkit::{Direction, Postgres, TcpProxy, shared, wait};
use nagaya_tiering::cold::{ColdError, ColdTier, Committed};

use super::{PATIENCE, load, open_at, save, unfiltered};
use crate::support::{payload, put, snapshot, version};

const WRITERS: u64 = 3;
const KEYS: u8 = 5;

fn impatient() -> Options {
    Options {
        acquire_timeout: Duration::from_secs(3),
        call_timeout: Duration::from_secs(3),
        ..unfiltered()
    }
}

/// Opens a tier that soon gives a silent server up. The schema is made before, with patience.
fn open_impatient(url: &str) -> PostgresCold {
    drop(open_at(url, unfiltered()));
    open_at(url, impatient())
}

/// Commits one snapshot after the other, each until it is answered; notes the last that was.
fn commit_for_ever(cold: &PostgresCold, writer: u64, answered: &AtomicU64, is_over: &AtomicBool) {
    let tag = writer.to_be_bytes();
    while let Err(error) = cold.ensure(&[&tag]) {
        assert!(error.is_retryable(), "{error:?}");
    }
    for snap in 1u64.. {
        let keys = (0..KEYS).map(|key| put(&[key], &snap.to_be_bytes()));
        let one = snapshot(&tag, version(1, snap), keys.collect());
        let mut tries = 0;
        loop {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            tries += 1;
            match cold.commit(std::slice::from_ref(&one), 1) {
                // An earlier try may have entered, its answer lost.
                Ok(outcomes) => {
                    assert!(outcomes == [Committed::Saved] || tries > 1, "{outcomes:?}");
                    break;
                }
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
        }
        answered.store(snap, Ordering::SeqCst);
    }
}

#[test]
fn commits_that_were_answered_survive_a_killed_server_and_others_are_whole_or_absent() {
    let postgres = Postgres::start();
    let cold = open_impatient(&postgres.url("postgres"));
    let answered: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (writer, answered) in (0..).zip(&answered) {
            let (cold, is_over) = (&cold, &is_over);
            scope.spawn(move || commit_for_ever(cold, writer, answered, is_over));
        }
        for _ in 0..4 {
            let before: Vec<u64> = answered.iter().map(|snap| snap.load(Ordering::SeqCst)).collect();
            wait::until("every writer goes on", PATIENCE, || {
                (answered.iter().zip(&before)).all(|(now, before)| now.load(Ordering::SeqCst) > before + 3)
            });
            postgres.kill9();
            let least: Vec<u64> = answered.iter().map(|snap| snap.load(Ordering::SeqCst)).collect();
            postgres.restart();
            let reader = open_impatient(&postgres.url("postgres"));
            for (writer, least) in (0..WRITERS).zip(least) {
                let loaded = load(&reader, &writer.to_be_bytes());
                assert!(loaded.saved.snap >= least, "{} of {least}", loaded.saved.snap);
                assert_eq!(loaded.rows.len(), usize::from(KEYS));
                let text = payload(&loaded.saved.snap.to_be_bytes());
                assert!(loaded.rows.iter().all(|row| row.value.payload == text));
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(cold.check().unwrap(), []);
}

#[test]
fn a_commit_whose_answer_was_lost_may_be_made_again() {
    let postgres = shared::postgres();
    let url = postgres.create_database();
    let proxy = TcpProxy::start(postgres.address());
    let database = url.rsplit_once('/').unwrap().1;
    let through = format!("postgres://postgres@{}/{database}", proxy.address());
    let cold = open_impatient(&through);
    save(&cold, b"t", 1, vec![put(b"k", b"1")]);
    let direct = open_at(&url, unfiltered());
    let second = [snapshot(b"t", version(1, 2), vec![put(b"k", b"2")])];
    thread::scope(|scope| {
        let lost = scope.spawn(|| cold.commit(&second, 1));
        // Whatever the cut hits, the outcome is whole, and the call can be repeated.
        proxy.cut(Direction::ToClient);
        let error = lost.join().unwrap();
        if let Err(error) = error {
            assert!(error.is_retryable(), "{error:?}");
        }
    });
    proxy.restore();
    let snap = load(&direct, b"t").saved.snap;
    assert!(snap == 1 || snap == 2);
    loop {
        match cold.commit(&second, 1) {
            Ok(_) => break,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
    }
    assert_eq!(load(&direct, b"t").rows[0].value.payload, payload(b"2"));
    assert_eq!(direct.check().unwrap(), []);
}

#[test]
fn a_server_that_is_down_is_a_retryable_error_within_the_limit_and_comes_back() {
    let postgres = Postgres::start();
    let cold = open_impatient(&postgres.url("postgres"));
    save(&cold, b"t", 1, vec![put(b"k", b"1")]);
    postgres.kill9();
    let error = cold.read(&[b"t"]).unwrap_err();
    assert!(matches!(error, ColdError::Unavailable(_)), "{error:?}");
    postgres.restart();
    wait::until("the tier is back", PATIENCE, || cold.read(&[b"t"]).is_ok());
    assert_eq!(load(&cold, b"t").rows.len(), 1);
}

/// The server answers with the code of a full disk where the payloads are written; a full disk itself would
/// need one of our own.
#[test]
fn a_full_disk_is_told_as_such() {
    let postgres = shared::postgres();
    let url = postgres.create_database();
    let cold = open_at(&url, unfiltered());
    save(&cold, b"t", 1, vec![put(b"k", b"1")]);
    postgres.psql(
        &url,
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full', MESSAGE = 'no space left on device'; END $$;
         CREATE TRIGGER full_disk BEFORE INSERT ON room_keys FOR EACH ROW EXECUTE FUNCTION full_disk()",
    );
    let second = [snapshot(b"t", version(1, 2), vec![put(b"k", b"2")])];
    let error = cold.commit(&second, 1).unwrap_err();
    assert!(matches!(error, ColdError::Full(_)), "{error:?}");
    assert_eq!(load(&cold, b"t").saved, version(1, 1));
    postgres.psql(&url, "DROP TRIGGER full_disk ON room_keys");
    assert_eq!(cold.commit(&second, 1).unwrap(), [Committed::Saved]);
}
