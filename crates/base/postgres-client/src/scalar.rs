//! Statements that return one value.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// Reads the value of a statement that returns one column.
///
/// Rows of several columns are declared with [`nagaya_sql::row!`].
#[inline]
pub fn scalar<'r, T: FromSql<'r>>(row: &'r Row) -> T {
    row.get(0)
}
