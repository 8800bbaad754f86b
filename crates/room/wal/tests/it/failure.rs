//! A disk that refuses: nothing is acknowledged and lost, and what can be healed is.

use nagaya_wal::faults::FaultyFiles;
use nagaya_wal::{DiskOperation, Log, LogError, State, SyncMode};

use crate::kit;

fn failure(log: &Log) -> (DiskOperation, bool) {
    let State::Failed(failure) = log.state() else {
        panic!("the log has not failed");
    };
    (failure.operation, failure.is_full())
}

fn is_failed(result: Result<impl Sized, LogError>) -> bool {
    matches!(result, Err(LogError::Failed(_)))
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room_again() {
    for mode in [SyncMode::Always, SyncMode::EverySecond, SyncMode::No] {
        let disk = FaultyFiles::new(1);
        let (log, _) = kit::open(&disk, &kit::options(mode)).unwrap();
        let mut expected = kit::write(&log, 0..5);
        let safe = log.end();
        log.sync(safe).unwrap();
        disk.limit_space(Some(30));
        let refused = log.append(&kit::record(5)).unwrap();
        expected.push((refused, kit::record(5)));
        assert!(is_failed(log.sync(refused)));
        assert_eq!(
            (failure(&log), log.is_ok(), log.durable()),
            ((DiskOperation::Write, true), false, safe)
        );
        assert!(is_failed(log.append(b"no")) && is_failed(log.commit(refused)) && is_failed(log.try_heal()));
        log.commit(safe).unwrap();

        disk.limit_space(None);
        log.try_heal().unwrap();
        assert!(log.is_ok() && matches!(log.state(), State::Ok));
        assert!(
            log.durable() >= refused,
            "healing makes good what was left undone"
        );
        expected.extend(kit::write(&log, 6..60));
        log.sync(log.end()).unwrap();
        disk.crash();
        assert_eq!(kit::reopened(&disk), expected);
    }
}

#[test]
fn a_disk_that_fills_at_any_byte_can_be_healed_and_loses_nothing() {
    for room in 0..1500 {
        let disk = FaultyFiles::new(room);
        let (log, _) = kit::open_always(&disk);
        let mut expected = kit::write(&log, 0..3);
        disk.limit_space(Some(room));
        for n in 3..40 {
            let Ok(position) = log.append(&kit::record(n)) else {
                break;
            };
            expected.push((position, kit::record(n)));
            if log.commit(position).is_err() {
                break;
            }
        }
        assert!(!log.is_ok(), "room {room}");
        disk.limit_space(None);
        log.try_heal().unwrap();
        expected.extend(kit::write(&log, 40..45));
        disk.crash();
        assert_eq!(kit::reopened(&disk), expected, "room {room}");
    }
}

#[test]
fn a_failed_sync_is_never_repeated_and_healing_begins_a_segment() {
    for (others, seed) in (0..30).flat_map(|others| [(others, 1), (others, 2), (others, 3)]) {
        let disk = FaultyFiles::new(seed);
        let (log, _) = kit::open_always(&disk);
        let mut expected = kit::write(&log, 0..2);
        disk.fail_sync_after(others);
        let mut n = 2;
        let failed = loop {
            let position = log.append(&kit::record(n)).unwrap();
            expected.push((position, kit::record(n)));
            n += 1;
            if log.commit(position).is_err() {
                break position;
            }
        };
        let syncs = disk.syncs();
        assert!(log.durable() < failed);
        assert!(is_failed(log.commit(failed)) && is_failed(log.sync(failed)) && is_failed(log.append(b"no")));
        assert_eq!(disk.syncs(), syncs, "no sync is tried again");
        log.try_heal().unwrap();
        expected.extend(kit::write(&log, n..n + 5));
        disk.crash();
        assert_eq!(kit::reopened(&disk), expected, "others {others}, seed {seed}");
    }
}

#[test]
fn a_crash_after_a_failed_sync_keeps_what_was_confirmed_before() {
    for seed in 0..100 {
        let disk = FaultyFiles::new(seed);
        let (log, _) = kit::open_always(&disk);
        let safe = kit::write(&log, 0..5);
        disk.fail_sync_after(0);
        let position = log.append(b"lost").unwrap();
        assert!(is_failed(log.commit(position)));
        // The process ends and starts again on the same system, which has cached what the
        // disk may not have; only then the power goes.
        disk.restart();
        let found = kit::reopened(&disk);
        assert!(found.starts_with(&safe));
        disk.crash();
        assert_eq!(kit::reopened(&disk), found, "seed {seed}");
    }
}

#[test]
fn without_sync_a_failed_sync_stays_a_failure_because_the_memory_is_gone() {
    let disk = FaultyFiles::new(1);
    let mut options = kit::options(SyncMode::No);
    options.buffer_bytes_max = 200;
    let (log, _) = kit::open(&disk, &options).unwrap();
    for n in 0..10 {
        log.append(&kit::record(n)).unwrap();
    }
    disk.fail_sync_after(0);
    assert!(is_failed(log.sync(log.end())));
    assert_eq!(failure(&log).0, DiskOperation::Sync);
    assert!(is_failed(log.try_heal()) && is_failed(log.try_heal()));
    assert!(is_failed(log.close()));
}

#[test]
fn appends_that_wait_for_room_are_told_of_the_failure() {
    let disk = FaultyFiles::new(1);
    let mut options = kit::options(SyncMode::EverySecond);
    options.buffer_bytes_max = 200;
    let (log, _) = kit::open(&disk, &options).unwrap();
    disk.limit_space(Some(0));
    let refused = (0..100).find_map(|n| log.append(&kit::record(n)).err());
    assert!(matches!(refused, Some(LogError::Failed(_))));
}

#[test]
fn short_writes_are_completed() {
    let disk = FaultyFiles::new(1);
    let (log, _) = kit::open_always(&disk);
    disk.limit_writes(Some(3));
    let written = kit::write(&log, 0..40);
    disk.crash();
    assert_eq!(kit::reopened(&disk), written);
}

#[test]
fn closing_a_failed_log_says_so() {
    let disk = FaultyFiles::new(1);
    let (log, _) = kit::open_always(&disk);
    disk.limit_space(Some(0));
    let position = log.append(b"record").unwrap();
    assert!(is_failed(log.commit(position)));
    assert!(is_failed(log.close()));
}
