//! How our words are kept in columns.

use nagaya_room::cold::{Kind, Status};
use rusqlite::{Result, Row};

use super::error::strange_value;

/// Returns the number that stands for a type. Numbers are never given anew.
pub(super) fn kind_number(kind: Kind) -> i64 {
    match kind {
        Kind::String => 0,
        Kind::List => 1,
        Kind::Set => 2,
        Kind::SortedSet => 3,
        Kind::Hash => 4,
        Kind::Stream => 5,
    }
}

/// Reads a type from a column.
pub(super) fn kind_of(row: &Row<'_>, column: usize) -> Result<Kind> {
    let number: i64 = row.get(column)?;
    Kind::ALL
        .into_iter()
        .find(|&kind| kind_number(kind) == number)
        .ok_or_else(|| strange_value(column, "not the number of a type"))
}

/// Returns the number that stands for a status. Numbers are never given anew.
pub(super) fn status_number(status: Status) -> i64 {
    match status {
        Status::NeedSynced => 0,
        Status::Synced => 1,
        Status::Cleaned => 2,
    }
}

/// Reads a status from a column.
pub(super) fn status_of(row: &Row<'_>, column: usize) -> Result<Status> {
    let number: i64 = row.get(column)?;
    [Status::NeedSynced, Status::Synced, Status::Cleaned]
        .into_iter()
        .find(|&status| status_number(status) == number)
        .ok_or_else(|| strange_value(column, "not the number of a status"))
}
