//! Classes of SQLite's errors.

use rusqlite::{Error, ffi, types};

/// The class of an error, which decides how a store reacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The disk or the database is full; nothing was written.
    Full,
    /// Another connection holds the lock; the same call may succeed later.
    Busy,
    /// The file holds data that no version of this program writes.
    Damaged,
    /// Anything else.
    Failed,
}

/// Returns the class of an error.
pub fn classify(error: &Error) -> ErrorClass {
    match error {
        Error::SqliteFailure(failure, _) => match (failure.code, failure.extended_code) {
            (ffi::ErrorCode::DiskFull, _) => ErrorClass::Full,
            // The shared index of the write-ahead log could not grow.
            (_, ffi::SQLITE_IOERR_SHMSIZE) => ErrorClass::Full,
            (ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked, _) => ErrorClass::Busy,
            (ffi::ErrorCode::DatabaseCorrupt | ffi::ErrorCode::NotADatabase, _) => ErrorClass::Damaged,
            _ => ErrorClass::Failed,
        },
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..) => ErrorClass::Damaged,
        _ => ErrorClass::Failed,
    }
}

/// Returns an error about an unexpected value in a column.
pub fn unexpected_value(column: usize, what: &'static str) -> Error {
    Error::FromSqlConversionFailure(column, types::Type::Null, what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: i32) -> ErrorClass {
        classify(&Error::SqliteFailure(ffi::Error::new(code), None))
    }

    #[test]
    fn each_error_has_its_class() {
        assert_eq!(of(ffi::SQLITE_FULL), ErrorClass::Full);
        assert_eq!(of(ffi::SQLITE_IOERR_SHMSIZE), ErrorClass::Full);
        assert_eq!(of(ffi::SQLITE_BUSY_SNAPSHOT), ErrorClass::Busy);
        assert_eq!(of(ffi::SQLITE_CORRUPT), ErrorClass::Damaged);
        assert_eq!(of(ffi::SQLITE_NOTADB), ErrorClass::Damaged);
        assert_eq!(of(ffi::SQLITE_IOERR_FSYNC), ErrorClass::Failed);
        assert_eq!(classify(&unexpected_value(0, "kind")), ErrorClass::Damaged);
    }
}
