//! What SQLite's failures mean to the room.

use std::path::{Path, PathBuf};

use nagaya_room::cold::ColdError;
use rusqlite::ffi;

/// Why the file of a cold tier could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path} is not a cold tier: it is a database of something else")]
    NotOurs { path: PathBuf },
    #[error("{path} has schema {found}, this program knows schemas up to {known}: use a newer program")]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error(
        "{path} has schema {found}, reading it needs schema {known}: start the house once to bring it up to date"
    )]
    Older { path: PathBuf, found: u32, known: u32 },
    #[error("{path} was made by another text of migration {number} ({name})")]
    Changed {
        path: PathBuf,
        number: u32,
        name: &'static str,
    },
    #[error("schema {wanted} is unknown, the newest is {known}")]
    Unknown { wanted: u32, known: u32 },
    #[error("{path} cannot be opened")]
    Failed {
        path: PathBuf,
        #[source]
        source: ColdError,
    },
}

impl OpenError {
    pub(super) fn failed(path: &Path, error: rusqlite::Error) -> OpenError {
        OpenError::Failed {
            path: path.to_owned(),
            source: cold_error(error),
        }
    }
}

/// Returns what a failure of SQLite means.
pub(super) fn cold_error(error: rusqlite::Error) -> ColdError {
    use rusqlite::Error;
    match &error {
        Error::SqliteFailure(failure, _) => match (failure.code, failure.extended_code) {
            (ffi::ErrorCode::DiskFull, _) => ColdError::Full(error.into()),
            // The shared index of the write-ahead log could not grow.
            (_, ffi::SQLITE_IOERR_SHMSIZE) => ColdError::Full(error.into()),
            (ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked, _) => {
                ColdError::Unavailable(error.into())
            }
            (ffi::ErrorCode::DatabaseCorrupt | ffi::ErrorCode::NotADatabase, _) => ColdError::Damaged {
                what: error.to_string(),
            },
            _ => ColdError::Failed(error.into()),
        },
        // A column holds what no version of this program writes.
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..) => ColdError::Damaged {
            what: error.to_string(),
        },
        _ => ColdError::Failed(error.into()),
    }
}

/// A value in column `column` that means nothing to us.
pub(super) fn strange_value(column: usize, what: &'static str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Null, what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: i32) -> ColdError {
        cold_error(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }

    #[test]
    fn each_failure_has_its_meaning() {
        assert!(matches!(of(ffi::SQLITE_FULL), ColdError::Full(_)));
        assert!(matches!(of(ffi::SQLITE_IOERR_SHMSIZE), ColdError::Full(_)));
        assert!(matches!(of(ffi::SQLITE_BUSY_SNAPSHOT), ColdError::Unavailable(_)));
        assert!(matches!(of(ffi::SQLITE_CORRUPT), ColdError::Damaged { .. }));
        assert!(matches!(of(ffi::SQLITE_NOTADB), ColdError::Damaged { .. }));
        assert!(matches!(of(ffi::SQLITE_IOERR_FSYNC), ColdError::Failed(_)));
        assert!(matches!(
            cold_error(strange_value(0, "kind")),
            ColdError::Damaged { .. }
        ));
    }

    #[test]
    fn only_a_busy_tier_is_worth_the_same_call_again() {
        assert!(of(ffi::SQLITE_BUSY).is_retryable());
        assert!(!of(ffi::SQLITE_FULL).is_retryable());
    }
}
