//! How our words are kept in columns.

use nagaya_sqlite_client::strange_value;
use nagaya_tiering::cold::{Kind, Status};
use rusqlite::{Result, Row};

use crate::numbers;

pub(super) fn kind_number(kind: Kind) -> i64 {
    numbers::of_kind(kind).into()
}

/// Reads a type from a column.
pub(super) fn kind_of(row: &Row<'_>, column: usize) -> Result<Kind> {
    numbers::kind(row.get(column)?).ok_or_else(|| strange_value(column, "not the number of a type"))
}

pub(super) fn status_number(status: Status) -> i64 {
    numbers::of_status(status).into()
}

/// Reads a status from a column.
pub(super) fn status_of(row: &Row<'_>, column: usize) -> Result<Status> {
    numbers::status(row.get(column)?).ok_or_else(|| strange_value(column, "not the number of a status"))
}
