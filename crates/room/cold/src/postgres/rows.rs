//! How our words are kept in columns.

use nagaya_postgres_client::Row;
use nagaya_tiering::cold::{Kind, Status, Version};

use super::error::Failure;
use crate::numbers;

/// Reads a type from a column.
pub(super) fn kind_of(row: &Row, column: usize) -> Result<Kind, Failure> {
    let number: Option<i16> = row.get(column);
    let kind = number.and_then(|number| numbers::kind(number.into()));
    kind.ok_or(Failure::Strange("a key has a type that does not exist"))
}

/// Reads a status from a column.
pub(super) fn status_of(row: &Row, column: usize) -> Result<Status, Failure> {
    let number: i16 = row.get(column);
    numbers::status(number.into()).ok_or(Failure::Strange("a tag has a status that does not exist"))
}

/// Reads a number that is never negative.
pub(super) fn unsigned(row: &Row, column: usize) -> u64 {
    row.get::<_, i64>(column).unsigned_abs()
}

/// Reads a version from a column and the next.
pub(super) fn version_at(row: &Row, column: usize) -> Version {
    Version {
        generation: unsigned(row, column),
        snap: unsigned(row, column + 1),
    }
}

/// Makes a version fit its columns.
pub(super) fn columns_of(version: Version) -> Result<(i64, i64), Failure> {
    let fit = |number: u64, what| i64::try_from(number).map_err(|_| Failure::TooLarge(what));
    Ok((
        fit(version.generation, "a generation")?,
        fit(version.snap, "the number of a snapshot")?,
    ))
}

/// Brings a number down to what a column can hold; nothing there is larger.
pub(super) fn bounded(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// SQL takes no limit above this; nobody counts so far.
pub(super) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
