//! What SQLite's failures mean to the jobs.

use std::path::{Path, PathBuf};

use rusqlite::ffi;

use crate::error::Error;

/// Why the file of a job store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path} is not a job store: it is a database of something else")]
    NotOurs { path: PathBuf },
    #[error("{path} is in use by another process")]
    InUse { path: PathBuf },
    #[error("{path} has schema {found}, this program knows schemas up to {known}: use a newer program")]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error("{path} was made by another text of migration {number} ({name})")]
    Changed {
        path: PathBuf,
        number: u32,
        name: &'static str,
    },
    #[error("{path} cannot be opened")]
    Failed {
        path: PathBuf,
        #[source]
        source: Error,
    },
}

impl OpenError {
    pub(super) fn failed(path: &Path, error: impl Into<Error>) -> OpenError {
        OpenError::Failed {
            path: path.to_owned(),
            source: error.into(),
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        use rusqlite::Error as Sqlite;
        match &error {
            Sqlite::SqliteFailure(failure, _) => match (failure.code, failure.extended_code) {
                (ffi::ErrorCode::DiskFull, _) => Error::Full(error.into()),
                // The shared index of the write-ahead log could not grow.
                (_, ffi::SQLITE_IOERR_SHMSIZE) => Error::Full(error.into()),
                (ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked, _) => {
                    Error::Unavailable(error.into())
                }
                (ffi::ErrorCode::DatabaseCorrupt | ffi::ErrorCode::NotADatabase, _) => Error::Damaged {
                    what: error.to_string(),
                },
                _ => Error::Failed(error.into()),
            },
            // A column holds what no version of this program writes.
            Sqlite::FromSqlConversionFailure(..)
            | Sqlite::IntegralValueOutOfRange(..)
            | Sqlite::InvalidColumnType(..) => Error::Damaged {
                what: error.to_string(),
            },
            _ => Error::Failed(error.into()),
        }
    }
}

/// Tells whether nobody can know any more what is on the disk, so that the store has to stop.
pub(super) fn is_fatal(error: &Error) -> bool {
    let Error::Failed(source) = error else {
        return matches!(error, Error::Damaged { .. } | Error::Stopped { .. });
    };
    match source.downcast_ref::<rusqlite::Error>() {
        Some(rusqlite::Error::SqliteFailure(failure, _)) => matches!(
            failure.code,
            ffi::ErrorCode::SystemIoFailure | ffi::ErrorCode::CannotOpen | ffi::ErrorCode::ReadOnly
        ),
        _ => false,
    }
}

/// A value in column `column` that means nothing to us.
pub(super) fn strange_value(column: usize, what: &'static str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Null, what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: i32) -> Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
    }

    #[test]
    fn each_failure_has_its_meaning() {
        assert!(matches!(of(ffi::SQLITE_FULL), Error::Full(_)));
        assert!(matches!(of(ffi::SQLITE_IOERR_SHMSIZE), Error::Full(_)));
        assert!(matches!(of(ffi::SQLITE_BUSY_SNAPSHOT), Error::Unavailable(_)));
        assert!(matches!(of(ffi::SQLITE_CORRUPT), Error::Damaged { .. }));
        assert!(matches!(of(ffi::SQLITE_IOERR_FSYNC), Error::Failed(_)));
    }

    #[test]
    fn a_failed_sync_stops_the_store_and_a_full_disk_does_not() {
        assert!(is_fatal(&of(ffi::SQLITE_IOERR_FSYNC)));
        assert!(is_fatal(&of(ffi::SQLITE_IOERR_WRITE)));
        assert!(is_fatal(&of(ffi::SQLITE_CORRUPT)));
        assert!(!is_fatal(&of(ffi::SQLITE_FULL)));
        assert!(!is_fatal(&of(ffi::SQLITE_BUSY)));
        assert!(!is_fatal(&of(ffi::SQLITE_CONSTRAINT)));
    }
}
