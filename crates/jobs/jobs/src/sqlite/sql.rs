//! Small helpers around prepared statements.

use rusqlite::{Connection, OptionalExtension, Params, Result, Row};

/// The text of a query, by its name below `queries/`.
macro_rules! query {
    ($name:literal) => {
        include_str!(concat!("queries/", $name, ".sql"))
    };
}
pub(super) use query;

/// Runs a statement and returns how many rows it changed.
pub(super) fn run(connection: &Connection, sql: &str, values: impl Params) -> Result<usize> {
    connection.prepare_cached(sql)?.execute(values)
}

/// Reads the first row, if there is one.
pub(super) fn first<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    connection.prepare_cached(sql)?.query_row(values, read).optional()
}

/// Reads all rows.
pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    connection.prepare_cached(sql)?.query_map(values, read)?.collect()
}
