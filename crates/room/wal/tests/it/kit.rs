//! What the tests share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nagaya_wal::faults::FaultyFiles;
use nagaya_wal::{Files, Log, OpenError, Options, Position, Recovery, SyncMode};

pub(crate) const DIR: &str = "/wal";

/// Small segments, and a flusher that comes only when it is called.
pub(crate) fn options(mode: SyncMode) -> Options {
    Options {
        mode,
        segment_bytes: 1000,
        write_every: Duration::from_secs(3600),
        ..Options::default()
    }
}

pub(crate) fn open(disk: &FaultyFiles, options: &Options) -> Result<(Log, Recovery), OpenError> {
    Log::open(Path::new(DIR), options, disk.process())
}

pub(crate) fn open_always(disk: &FaultyFiles) -> (Log, Recovery) {
    open(disk, &options(SyncMode::Always)).unwrap()
}

pub(crate) fn open_real(dir: &Path, options: &Options) -> Result<(Log, Recovery), OpenError> {
    let files: Arc<dyn Files> = Arc::new(nagaya_wal::OsFiles);
    Log::open(dir, options, files)
}

pub(crate) type Records = Vec<(Position, Vec<u8>)>;

pub(crate) fn read(recovery: &mut Recovery) -> Result<Records, OpenError> {
    let mut records = Vec::new();
    while let Some((position, record)) = recovery.next_record()? {
        records.push((position, record.to_vec()));
    }
    assert_eq!(recovery.bytes_read(), recovery.bytes_total());
    Ok(records)
}

/// Opens the log, reads all of it and closes it again.
pub(crate) fn reopened(disk: &FaultyFiles) -> Records {
    let (_log, mut recovery) = open_always(disk);
    read(&mut recovery).unwrap()
}

/// The `n`th record of a test: of uneven length, and different from its neighbours.
pub(crate) fn record(n: usize) -> Vec<u8> {
    let mut bytes = format!("record {n} ").into_bytes();
    bytes.resize(bytes.len() + n * 7 % 50, b'a' + (n % 26) as u8);
    bytes
}

/// Appends and commits records `range`, and returns them as they should come back.
pub(crate) fn write(log: &Log, range: std::ops::Range<usize>) -> Records {
    let written = range.map(|n| {
        let position = log.append(&record(n)).unwrap();
        log.commit(position).unwrap();
        (position, record(n))
    });
    written.collect()
}

/// The segment files, oldest first.
pub(crate) fn segments(disk: &FaultyFiles) -> Vec<PathBuf> {
    disk.paths()
}
