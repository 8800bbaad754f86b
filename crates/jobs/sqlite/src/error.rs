//! Maps SQLite's errors to those of the job store.

use std::path::{Path, PathBuf};

use nagaya_jobs::error::Error;
use nagaya_sqlite_client::{ErrorClass, SchemaError, classify};
use rusqlite::ffi;

/// Why the file of a job store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Schema(SchemaError),
    #[error("{path} is in use by another process")]
    InUse { path: PathBuf },
    #[error("{path} cannot be opened")]
    Failed {
        path: PathBuf,
        #[source]
        source: Error,
    },
}

impl OpenError {
    pub(crate) fn failed(path: &Path, source: Error) -> OpenError {
        let path = path.to_owned();
        OpenError::Failed { path, source }
    }
}

impl From<SchemaError> for OpenError {
    fn from(error: SchemaError) -> OpenError {
        match error {
            SchemaError::Failed { path, source } => OpenError::failed(&path, store_error(source)),
            error => OpenError::Schema(error),
        }
    }
}

/// Returns the store's error for one of SQLite's.
pub(crate) fn store_error(error: rusqlite::Error) -> Error {
    match classify(&error) {
        ErrorClass::Full => Error::Full(error.into()),
        ErrorClass::Busy => Error::Unavailable(error.into()),
        ErrorClass::Damaged => Error::Damaged {
            what: error.to_string(),
        },
        ErrorClass::Failed => Error::Failed(error.into()),
    }
}

/// Returns whether the state on disk is unknown, so that the store has to stop.
pub(crate) fn is_fatal(error: &Error) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: i32) -> Error {
        store_error(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
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
