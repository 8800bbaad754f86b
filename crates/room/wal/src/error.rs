//! Errors of opening and of using a log.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::RECORD_BYTES_MAX;
use crate::position::Position;

/// Why a log in use did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// The disk refused. Nothing past [`Log::durable`](crate::Log::durable) is safe, and no
    /// record is taken until [`Log::try_heal`](crate::Log::try_heal) succeeds.
    #[error("the write-ahead log has failed: {0}")]
    Failed(Arc<Failure>),
    #[error("the write-ahead log is closed")]
    Closed,
    #[error("a log record of {bytes} bytes is longer than the {RECORD_BYTES_MAX} allowed")]
    RecordTooLong { bytes: usize },
    #[error("a log record cannot be empty")]
    RecordEmpty,
    /// A segment that is no longer needed could not be removed. The log keeps working; a later
    /// release tries again.
    #[error("{path} could not be removed: {source}")]
    Release { path: PathBuf, source: Arc<io::Error> },
}

/// The first thing that the disk refused.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {path} failed: {source}")]
pub struct Failure {
    pub operation: DiskOperation,
    pub path: PathBuf,
    pub source: io::Error,
}

/// What was being done when the disk refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOperation {
    Write,
    Sync,
    NewSegment,
}

impl Failure {
    pub(crate) fn new(operation: DiskOperation, path: &Path, source: io::Error) -> Self {
        Self {
            operation,
            path: path.to_owned(),
            source,
        }
    }

    /// Returns whether the disk, or the owner's share of it, was full.
    pub fn is_full(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    }
}

impl fmt::Display for DiskOperation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            DiskOperation::Write => "writing to",
            DiskOperation::Sync => "syncing",
            DiskOperation::NewSegment => "beginning",
        })
    }
}

/// Why a log could not be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{operation} {path} failed: {source}")]
    Io {
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "{0}; nothing was changed: restore the folder from a backup, or copy it and let the salvage option \
         of `room doctor` cut the log there"
    )]
    Damaged(Damage),
    #[error(
        "{path} has log format {found}, this program reads {}",
        crate::format::VERSION
    )]
    Version { path: PathBuf, found: u32 },
    /// The reader asked for records that were released, or whose files are gone.
    #[error("records from position {wanted} on are needed, but the log begins at {first}")]
    Missing { wanted: Position, first: Position },
}

impl OpenError {
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| OpenError::Io {
            operation,
            path,
            source,
        }
    }
}

/// Bytes that had been confirmed by the disk and are no longer what they were.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} is damaged at byte {offset}: {what}")]
pub struct Damage {
    pub path: PathBuf,
    /// Where in the file the sound part ends.
    pub offset: u64,
    pub what: String,
}
