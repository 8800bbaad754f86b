//! Helpers for prepared statements.

use nagaya_jobs::error::Error;
pub(crate) use nagaya_sqlite_client::scalar;
use rusqlite::{Connection, OptionalExtension, Params, Row};

use crate::error::store_error;

/// Returns the statement of a block: `query!(running.find)` is the block `find` of `queries/running.sql`.
macro_rules! query {
    ($file:ident.$block:ident) => {{
        const SQL: &str = nagaya_sql::block(
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/src/queries/",
                stringify!($file),
                ".sql"
            )),
            stringify!($block),
        );
        SQL
    }};
}
pub(crate) use query;

/// Runs a statement and returns how many rows it changed.
pub(crate) fn run(connection: &Connection, sql: &str, values: impl Params) -> Result<usize, Error> {
    let run = || connection.prepare_cached(sql)?.execute(values);
    run().map_err(store_error)
}

/// Reads the first row, if there is one.
pub(crate) fn first<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, Error> {
    let first = || connection.prepare_cached(sql)?.query_row(values, read).optional();
    first().map_err(store_error)
}

/// Reads all rows.
pub(crate) fn all<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Error> {
    let all =
        || -> rusqlite::Result<Vec<T>> { connection.prepare_cached(sql)?.query_map(values, read)?.collect() };
    all().map_err(store_error)
}
