//! The end of the log after a crash, and damage, which is something else.

use std::path::Path;

use nagaya_wal::faults::FaultyFiles;
use nagaya_wal::{OpenError, Options, Position, SyncMode, TornReason, salvage};

use crate::kit;

/// A log whose only segment ends with records that no mark vouches for: `(disk, records, marked)`
/// where the last mark vouches for the first `marked` records.
fn log_that_was_killed(last_batch: usize) -> (FaultyFiles, kit::Records, usize) {
    let disk = FaultyFiles::new(1);
    let mut options = kit::options(SyncMode::Always);
    options.segment_bytes = 1 << 20;
    let (log, _) = kit::open(&disk, &options).unwrap();
    let mut records = kit::write(&log, 0..5);
    let marked = records.len();
    for n in marked..marked + last_batch {
        records.push((log.append(&kit::record(n)).unwrap(), kit::record(n)));
    }
    log.sync(log.end()).unwrap();
    disk.restart();
    (disk, records, marked)
}

#[test]
fn a_missing_or_empty_folder_is_an_empty_log() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("a/b/wal");
    for _ in 0..2 {
        let (log, mut recovery) = kit::open_real(&missing, &Options::default()).unwrap();
        assert_eq!(kit::read(&mut recovery).unwrap(), []);
        assert_eq!((log.first(), log.end()), (Position(0), Position(0)));
        log.close().unwrap();
    }
    let file = missing.join("00000000000000000000.wal");
    assert_eq!(std::fs::metadata(file).unwrap().len(), 40);
}

#[test]
fn records_come_back_from_a_real_disk() {
    let dir = tempfile::tempdir().unwrap();
    let options = kit::options(SyncMode::EverySecond);
    let (log, _) = kit::open_real(dir.path(), &options).unwrap();
    let written = kit::write(&log, 0..200);
    log.close().unwrap();
    assert!(matches!(log.append(b"late"), Err(nagaya_wal::LogError::Closed)));
    assert!(log.segments().len() > 5);
    let (_log, mut recovery) = kit::open_real(dir.path(), &options).unwrap();
    assert_eq!(recovery.torn_tail(), None);
    assert_eq!(kit::read(&mut recovery).unwrap(), written);
}

#[test]
fn a_tail_cut_at_any_byte_loses_only_the_records_it_cuts() {
    let (disk, records, _) = log_that_was_killed(4);
    let path = &kit::segments(&disk)[0];
    let whole = disk.contents(path);
    for size in 40..whole.len() {
        disk.restart();
        disk.set_contents(path, &whole[..size]);
        let (_log, mut recovery) = kit::open_always(&disk);
        let fits = records
            .iter()
            .filter(|(end, _)| end.0 + 40 <= size as u64)
            .count();
        let torn = recovery.torn_tail().cloned();
        assert_eq!(kit::read(&mut recovery).unwrap(), records[..fits], "size {size}");
        assert!(torn.is_none_or(|torn| torn.reason == TornReason::UnfinishedRecord && &torn.segment == path));
    }
}

#[test]
fn a_segment_whose_header_was_never_finished_is_removed() {
    for size in 0..40 {
        let disk = FaultyFiles::new(1);
        let (log, _) = kit::open_always(&disk);
        let written = kit::write(&log, 0..3);
        let name = format!("{}/{:020}.wal", kit::DIR, log.end().0);
        disk.restart();
        disk.set_contents(Path::new(&name), &vec![0; size]);
        let (log, mut recovery) = kit::open_always(&disk);
        let torn = recovery.torn_tail().unwrap();
        assert_eq!(
            (torn.bytes, torn.reason),
            (size as u64, TornReason::UnfinishedSegment)
        );
        assert_eq!(kit::read(&mut recovery).unwrap(), written);
        kit::write(&log, 3..40);
    }
}

#[test]
fn zeros_and_garbage_after_the_end_are_cut_and_counted() {
    let (disk, records, _) = log_that_was_killed(2);
    let path = &kit::segments(&disk)[0];
    let whole = disk.contents(path);
    for (junk, reason) in [
        (vec![0; 5000], TornReason::BadLength),
        (b"\x05\0\0\0abcdefghi".to_vec(), TornReason::BadChecksum),
    ] {
        disk.restart();
        disk.set_contents(path, &[whole.clone(), junk.clone()].concat());
        let (log, mut recovery) = kit::open_always(&disk);
        let torn = recovery.torn_tail().unwrap();
        assert_eq!((torn.bytes, torn.reason), (junk.len() as u64, reason));
        assert_eq!(kit::read(&mut recovery).unwrap(), records);
        drop(log);
        assert_eq!(kit::reopened(&disk), records, "the cut is lasting");
    }
}

#[test]
fn a_flipped_bit_is_damage_where_a_mark_vouches_and_a_torn_tail_where_none_does() {
    let (disk, records, marked) = log_that_was_killed(4);
    let path = &kit::segments(&disk)[0];
    let whole = disk.contents(path);
    let vouched = 40 + records[marked - 1].0.0 as usize;
    for at in 40..whole.len() {
        disk.restart();
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        disk.set_contents(path, &flipped);
        match kit::open(&disk, &kit::options(SyncMode::Always)) {
            Err(OpenError::Damaged(damage)) => {
                assert!(at < vouched, "byte {at}");
                assert!(damage.offset <= at as u64 && &damage.path == path);
                assert_eq!(disk.contents(path), flipped, "nothing is cut");
            }
            Ok((_log, mut recovery)) => {
                assert!(at >= vouched, "byte {at}");
                let found = kit::read(&mut recovery).unwrap();
                assert!(found.len() >= marked && records.starts_with(&found));
            }
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
}

#[test]
fn after_an_orderly_close_every_flipped_bit_is_noticed_as_damage() {
    let disk = FaultyFiles::new(1);
    let (log, _) = kit::open_always(&disk);
    let records = kit::write(&log, 0..6);
    log.close().unwrap();
    let path = &kit::segments(&disk)[0];
    let whole = disk.contents(path);
    let last = 40 + records.last().unwrap().0.0 as usize;
    for at in (0..32).chain(40..last) {
        disk.restart();
        let mut flipped = whole.clone();
        flipped[at] ^= 0x40;
        disk.set_contents(path, &flipped);
        let error = kit::open(&disk, &kit::options(SyncMode::Always)).unwrap_err();
        assert!(matches!(error, OpenError::Damaged(_)), "byte {at}: {error}");
    }
}

/// A log of several segments, closed in order.
fn many_segments() -> (FaultyFiles, kit::Records) {
    let disk = FaultyFiles::new(1);
    let (log, _) = kit::open_always(&disk);
    let records = kit::write(&log, 0..60);
    log.close().unwrap();
    assert!(kit::segments(&disk).len() >= 4);
    disk.restart();
    (disk, records)
}

#[test]
fn a_bad_record_in_an_earlier_segment_stops_the_reading_with_its_place() {
    let (disk, records) = many_segments();
    let path = &kit::segments(&disk)[1];
    let mut bytes = disk.contents(path);
    bytes[100] ^= 4;
    disk.set_contents(path, &bytes);
    let (_log, mut recovery) = kit::open_always(&disk);
    let error = kit::read(&mut recovery).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(path.to_str().unwrap()) && text.contains("damaged at byte"),
        "{text}"
    );
    assert!(text.contains("salvage"), "{text}");
    drop((_log, recovery));
    let salvaged = salvage(Path::new(kit::DIR), &*disk.process()).unwrap();
    assert_eq!(&salvaged.damage.unwrap().path, path);
    assert!(salvaged.removed.len() >= 2 && salvaged.bytes_cut > 1000);
    let found = kit::reopened(&disk);
    assert!(!found.is_empty() && records.starts_with(&found));
}

#[test]
fn a_lost_or_shortened_segment_in_the_middle_is_damage() {
    let (disk, records) = many_segments();
    let path = &kit::segments(&disk)[2];
    let bytes = disk.contents(path);
    disk.process().remove(path).unwrap();
    let error = kit::open(&disk, &kit::options(SyncMode::Always)).unwrap_err();
    assert!(error.to_string().contains("are missing"), "{error}");
    disk.set_contents(path, &bytes[..bytes.len() - 1]);
    let error = kit::open(&disk, &kit::options(SyncMode::Always)).unwrap_err();
    assert!(error.to_string().contains("are missing"), "{error}");
    disk.set_contents(path, &[0; 40]);
    assert!(matches!(
        kit::open(&disk, &kit::options(SyncMode::Always)),
        Err(OpenError::Damaged(_))
    ));
    let salvaged = salvage(Path::new(kit::DIR), &*disk.process()).unwrap();
    assert!(salvaged.removed.contains(path));
    let found = kit::reopened(&disk);
    assert!(found.len() > 10 && records.starts_with(&found));
}

#[test]
fn salvage_leaves_a_sound_log_alone() {
    let (disk, records) = many_segments();
    let salvaged = salvage(Path::new(kit::DIR), &*disk.process()).unwrap();
    assert_eq!(salvaged, nagaya_wal::Salvaged::default());
    assert_eq!(kit::reopened(&disk), records);
}

#[test]
fn a_newer_format_is_refused_by_its_number() {
    let (disk, _, _) = log_that_was_killed(1);
    let path = &kit::segments(&disk)[0];
    let mut bytes = disk.contents(path);
    bytes[8] = 9;
    let crc = crc32fast::hash(&bytes[..32]);
    bytes[32..36].copy_from_slice(&crc.to_le_bytes());
    disk.set_contents(path, &bytes);
    let error = kit::open(&disk, &kit::options(SyncMode::Always)).unwrap_err();
    assert!(matches!(error, OpenError::Version { found: 9, .. }), "{error}");
}

#[test]
fn positions_start_above_what_a_checkpoint_knows() {
    let disk = FaultyFiles::new(1);
    let mut options = kit::options(SyncMode::Always);
    let (log, _) = kit::open(&disk, &options).unwrap();
    let before = kit::write(&log, 0..3);
    drop(log);
    options.start_at_least = Position(1_000_000);
    let (log, mut recovery) = kit::open(&disk, &options).unwrap();
    assert_eq!(kit::read(&mut recovery).unwrap(), before);
    assert_eq!(log.end(), Position(1_000_000));
    let after = kit::write(&log, 3..30);
    drop(log);
    let (log, mut recovery) = kit::open(&disk, &options).unwrap();
    assert_eq!(kit::read(&mut recovery).unwrap(), [before, after].concat());
    assert!(log.end() > Position(1_000_000));
}
