//! Statements that return one value.

use rusqlite::types::FromSql;
use rusqlite::{Result, Row};

/// Reads the value of a statement that returns one column.
///
/// Rows of several columns are declared with [`nagaya_sql::row!`].
#[inline]
pub fn scalar<T: FromSql>(row: &Row<'_>) -> Result<T> {
    row.get(0)
}
