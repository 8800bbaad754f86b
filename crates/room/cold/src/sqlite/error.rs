//! What SQLite's errors mean to the tiering protocol.

use std::path::{Path, PathBuf};

use nagaya_sqlite_client::{ErrorClass, SchemaError, classify};
use nagaya_tiering::cold::ColdError;

/// Why the file of a cold tier could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Schema(SchemaError),
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

impl From<SchemaError> for OpenError {
    fn from(error: SchemaError) -> OpenError {
        match error {
            SchemaError::Failed { path, source } => OpenError::failed(&path, source),
            error => OpenError::Schema(error),
        }
    }
}

/// Returns what a failure of SQLite means.
pub(super) fn cold_error(error: rusqlite::Error) -> ColdError {
    match classify(&error) {
        ErrorClass::Full => ColdError::Full(error.into()),
        ErrorClass::Busy => ColdError::Unavailable(error.into()),
        ErrorClass::Damaged => ColdError::Damaged {
            what: error.to_string(),
        },
        ErrorClass::Failed => ColdError::Failed(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn only_a_busy_tier_is_worth_the_same_call_again() {
        let of = |code| cold_error(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        assert!(of(ffi::SQLITE_BUSY).is_retryable());
        assert!(!of(ffi::SQLITE_FULL).is_retryable());
        assert!(!of(ffi::SQLITE_CORRUPT).is_retryable());
        assert!(!of(ffi::SQLITE_IOERR_FSYNC).is_retryable());
    }
}
