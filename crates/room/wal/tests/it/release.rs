//! Letting go of what a checkpoint has.

use nagaya_wal::faults::FaultyFiles;
use nagaya_wal::{OpenError, Position};

use crate::kit;

#[test]
fn release_keeps_every_segment_that_holds_something_later() {
    let disk = FaultyFiles::new(1);
    let (log, _) = kit::open_always(&disk);
    let records = kit::write(&log, 0..100);
    let all = log.segments();
    for (end, _) in &records {
        log.release(*end).unwrap();
        let first = log.segments()[0];
        assert!(first.end > *end || log.segments().len() == 1);
    }
    let left = log.segments();
    assert_eq!(left, all[all.len() - 1..]);
    assert_eq!(kit::segments(&disk).len(), 1);
    assert_eq!(log.first(), left[0].start);
    assert_eq!(log.bytes_on_disk(), 40 + left[0].end.0 - left[0].start.0);
}

#[test]
fn reading_goes_on_from_a_checkpoint_and_notices_when_more_was_released() {
    let disk = FaultyFiles::new(1);
    let (log, _) = kit::open_always(&disk);
    let records = kit::write(&log, 0..100);
    log.release(records[50].0).unwrap();
    log.close().unwrap();
    for from in 50..100 {
        let (_log, mut recovery) = kit::open_always(&disk);
        recovery.skip_to(records[from].0).unwrap();
        assert_eq!(
            kit::read(&mut recovery).unwrap(),
            records[from + 1..],
            "from {from}"
        );
    }
    let (_log, mut recovery) = kit::open_always(&disk);
    let error = recovery.skip_to(records[10].0).unwrap_err();
    assert!(
        matches!(error, OpenError::Missing { wanted, .. } if wanted == records[10].0),
        "{error}"
    );
}

#[test]
fn a_crash_during_release_leaves_a_log_that_opens() {
    for seed in 0..100 {
        let disk = FaultyFiles::new(seed);
        let (log, _) = kit::open_always(&disk);
        let records = kit::write(&log, 0..100);
        log.release(records[80].0).unwrap();
        disk.crash();
        let (_log, mut recovery) = kit::open_always(&disk);
        recovery.skip_to(records[80].0).unwrap();
        assert_eq!(kit::read(&mut recovery).unwrap(), records[81..]);
    }
}

#[test]
fn releasing_everything_keeps_the_positions() {
    let disk = FaultyFiles::new(1);
    let (log, _) = kit::open_always(&disk);
    kit::write(&log, 0..100);
    let end = log.end();
    log.release(Position(u64::MAX)).unwrap();
    log.close().unwrap();
    let (log, _) = kit::open_always(&disk);
    assert!(log.end() >= end);
}
