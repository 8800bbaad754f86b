//! Who waits for the disk, and for how many syncs.

use std::thread;
use std::time::Duration;

use nagaya_wal::faults::FaultyFiles;
use nagaya_wal::{LogError, Position, RECORD_BYTES_MAX, SyncMode};

use crate::kit;

/// Waits for something that another thread brings about.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if done() {
            return;
        }
        thread::park_timeout(Duration::from_millis(1));
    }
    panic!("waited too long until {what}");
}

#[test]
fn commits_that_come_during_a_sync_share_the_next_one() {
    let disk = FaultyFiles::new(1);
    let (log, _) = kit::open_always(&disk);
    let before = disk.syncs();
    disk.hold_syncs();
    thread::scope(|scope| {
        let commit = |n| {
            let position = log.append(&kit::record(n)).unwrap();
            log.commit(position).unwrap();
            assert!(log.durable() >= position);
        };
        scope.spawn(move || commit(0));
        until("the first sync has begun", || disk.syncs() == before + 1);
        let first = log.end();
        for n in 1..5 {
            scope.spawn(move || commit(n));
        }
        let others: u64 = (1..5).map(|n| 8 + kit::record(n).len() as u64).sum();
        until("all have appended", || log.end().0 == first.0 + 16 + others);
        assert_eq!(log.durable(), Position(0));
        disk.let_syncs_go();
    });
    assert_eq!(disk.syncs(), before + 2);
    disk.crash();
    assert_eq!(kit::reopened(&disk).len(), 5);
}

#[test]
fn threads_that_commit_side_by_side_all_keep_their_records() {
    let disk = FaultyFiles::new(1);
    let (log, _) = kit::open_always(&disk);
    thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || kit::write(log, thread * 1000..thread * 1000 + 200));
        }
    });
    disk.crash();
    let mut found: Vec<_> = kit::reopened(&disk)
        .into_iter()
        .map(|(_, record)| record)
        .collect();
    found.sort();
    let mut expected: Vec<_> = (0..4)
        .flat_map(|t| (t * 1000..t * 1000 + 200).map(kit::record))
        .collect();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn only_always_waits_for_the_disk_and_sync_waits_in_every_mode() {
    for mode in [SyncMode::EverySecond, SyncMode::No] {
        let disk = FaultyFiles::new(1);
        let (log, _) = kit::open(&disk, &kit::options(mode)).unwrap();
        let before = disk.syncs();
        let position = log.append(b"record").unwrap();
        log.commit(position).unwrap();
        assert_eq!((disk.syncs(), log.durable()), (before, Position(0)));
        log.sync(position).unwrap();
        assert_eq!((disk.syncs(), log.durable()), (before + 1, position));
        log.set_mode(SyncMode::Always);
        let position = log.append(b"record").unwrap();
        log.commit(position).unwrap();
        assert_eq!(log.durable(), position);
    }
}

#[test]
fn what_is_committed_survives_the_process_in_every_mode() {
    for mode in [SyncMode::Always, SyncMode::EverySecond, SyncMode::No] {
        let disk = FaultyFiles::new(1);
        let (log, _) = kit::open(&disk, &kit::options(mode)).unwrap();
        let position = log.append(b"record").unwrap();
        log.commit(position).unwrap();
        assert_eq!(log.written(), position);
        disk.restart();
        assert_eq!(kit::reopened(&disk), [(position, b"record".to_vec())], "{mode:?}");
    }
}

#[test]
fn who_only_writes_does_not_wait_for_the_flushers_sync() {
    let disk = FaultyFiles::new(1);
    let mut options = kit::options(SyncMode::EverySecond);
    options.write_every = Duration::from_millis(1);
    options.sync_every = Duration::from_millis(1);
    let (log, _) = kit::open(&disk, &options).unwrap();
    disk.hold_syncs();
    let before = disk.syncs();
    let first = log.append(b"first").unwrap();
    log.commit(first).unwrap();
    until("the flusher syncs", || disk.syncs() > before);
    let second = log.append(b"second").unwrap();
    log.commit(second).unwrap();
    assert_eq!((log.written(), log.durable()), (second, Position(0)));
    std::thread::scope(|scope| {
        // Who wants the disk's word waits for it, after the one under way.
        let syncing = scope.spawn(|| log.sync(second));
        disk.let_syncs_go();
        syncing.join().unwrap().unwrap();
    });
    assert_eq!(log.durable(), second);
}

#[test]
fn a_failed_sync_of_the_flusher_is_told_and_healed() {
    let disk = FaultyFiles::new(1);
    let mut options = kit::options(SyncMode::EverySecond);
    options.write_every = Duration::from_millis(1);
    options.sync_every = Duration::from_millis(1);
    let (log, _) = kit::open(&disk, &options).unwrap();
    disk.fail_sync_after(0);
    let position = log.append(b"record").unwrap();
    until("the failure is known", || !log.is_ok());
    assert!(log.commit(position).is_err());
    log.try_heal().unwrap();
    log.sync(position).unwrap();
    disk.crash();
    assert_eq!(kit::reopened(&disk), [(position, b"record".to_vec())]);
}

#[test]
fn the_flusher_brings_records_to_the_disk_by_itself() {
    for mode in [SyncMode::Always, SyncMode::EverySecond] {
        let disk = FaultyFiles::new(1);
        let mut options = kit::options(mode);
        options.write_every = Duration::from_millis(1);
        options.sync_every = Duration::from_millis(10);
        let (log, _) = kit::open(&disk, &options).unwrap();
        for _ in 0..3 {
            let position = log.append(b"record").unwrap();
            until("the record is durable", || log.durable() >= position);
        }
    }
}

#[test]
fn without_sync_the_system_still_gets_every_record() {
    let disk = FaultyFiles::new(1);
    let mut options = kit::options(SyncMode::No);
    options.write_every = Duration::from_millis(1);
    let (log, _) = kit::open(&disk, &options).unwrap();
    let position = log.append(b"record").unwrap();
    until("the record is written", || log.segments()[0].end >= position);
    assert_eq!(log.durable(), Position(0));
    disk.restart();
    assert_eq!(kit::reopened(&disk), [(position, b"record".to_vec())]);
}

#[test]
fn an_append_that_finds_no_room_waits_for_the_disk() {
    for mode in [SyncMode::Always, SyncMode::EverySecond, SyncMode::No] {
        let disk = FaultyFiles::new(1);
        let mut options = kit::options(mode);
        options.buffer_bytes_max = 500;
        let (log, _) = kit::open(&disk, &options).unwrap();
        let records: Vec<_> = (0..300)
            .map(|n| (log.append(&kit::record(n)).unwrap(), kit::record(n)))
            .collect();
        assert!(log.end().0 - log.durable().0 < 2000 || mode == SyncMode::No);
        log.close().unwrap();
        disk.crash();
        assert_eq!(kit::reopened(&disk), records);
    }
}

#[test]
fn records_longer_than_buffer_and_segment_are_taken() {
    let disk = FaultyFiles::new(1);
    let mut options = kit::options(SyncMode::Always);
    options.buffer_bytes_max = 500;
    let (log, _) = kit::open(&disk, &options).unwrap();
    let long = vec![7; 5000];
    for record in [b"short".as_slice(), &long, b"short", &long, &long] {
        log.commit(log.append(record).unwrap()).unwrap();
    }
    disk.crash();
    let lengths: Vec<_> = kit::reopened(&disk)
        .iter()
        .map(|(_, record)| record.len())
        .collect();
    assert_eq!(lengths, [5, 5000, 5, 5000, 5000]);
}

#[test]
fn empty_and_overlong_records_are_refused() {
    let disk = FaultyFiles::new(1);
    let (log, _) = kit::open_always(&disk);
    assert!(matches!(log.append(b""), Err(LogError::RecordEmpty)));
    let overlong = vec![0; RECORD_BYTES_MAX + 1];
    assert!(matches!(
        log.append(&overlong),
        Err(LogError::RecordTooLong { .. })
    ));
    assert!(log.is_ok());
}
