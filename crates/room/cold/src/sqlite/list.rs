//! Rows for people and for walks over everything.

use nagaya_sql::block;
use nagaya_tiering::cold::{KeyRow, TagRow, Version};
use rusqlite::{Connection, OptionalExtension, Params, Result, Row, params};

use super::rows::{kind_of, status_of};

const TAG: &str = block(include_str!("queries/tags.sql"), "get");
const TAGS_FIRST: &str = block(include_str!("queries/tags.sql"), "list_first");
const TAGS_AFTER: &str = block(include_str!("queries/tags.sql"), "list_after");
const KEYS_FIRST: &str = block(include_str!("queries/keys.sql"), "list_first");
const KEYS_IN_TAG: &str = block(include_str!("queries/keys.sql"), "list_in_tag");
const KEYS_AFTER_TAG: &str = block(include_str!("queries/keys.sql"), "list_after_tag");
const FACT: &str = block(include_str!("queries/facts.sql"), "get");
const SET_FACT: &str = block(include_str!("queries/facts.sql"), "set");

/// Returns the row of a tag.
pub(super) fn tag(connection: &Connection, tag: &[u8]) -> Result<Option<TagRow>> {
    connection
        .prepare_cached(TAG)?
        .query_row([tag], tag_row)
        .optional()
}

/// Lists tags in the order of their bytes.
pub(super) fn tags_after(connection: &Connection, tag: Option<&[u8]>, limit: usize) -> Result<Vec<TagRow>> {
    let limit = sql_limit(limit);
    match tag {
        None => all(connection, TAGS_FIRST, params![limit], tag_row),
        Some(tag) => all(connection, TAGS_AFTER, params![tag, limit], tag_row),
    }
}

/// Lists keys in the order of their tags' and their own bytes.
pub(super) fn keys_after(
    connection: &Connection,
    after: Option<(&[u8], &[u8])>,
    limit: usize,
) -> Result<Vec<KeyRow>> {
    let Some((tag, key)) = after else {
        return all(connection, KEYS_FIRST, params![sql_limit(limit)], key_row);
    };
    let mut rows = all(
        connection,
        KEYS_IN_TAG,
        params![tag, key, sql_limit(limit)],
        key_row,
    )?;
    if rows.len() < limit {
        let rest = sql_limit(limit - rows.len());
        rows.extend(all(connection, KEYS_AFTER_TAG, params![tag, rest], key_row)?);
    }
    Ok(rows)
}

/// Reads a named value.
pub(super) fn fact(connection: &Connection, name: &str) -> Result<Option<Vec<u8>>> {
    connection
        .prepare_cached(FACT)?
        .query_row([name], |row| row.get(0))
        .optional()
}

/// Keeps a named value.
pub(super) fn set_fact(connection: &Connection, name: &str, value: &[u8]) -> Result<()> {
    connection
        .prepare_cached(SET_FACT)?
        .execute(params![name, value])?;
    Ok(())
}

/// SQL takes no limit above this; nobody counts so far.
pub(super) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: fn(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map(params, read)?.collect()
}

fn tag_row(row: &Row<'_>) -> Result<TagRow> {
    Ok(TagRow {
        tag: row.get(0)?,
        generation: row.get(1)?,
        saved: Version {
            generation: row.get(2)?,
            snap: row.get(3)?,
        },
        status: status_of(row, 4)?,
        read_at_ms: row.get(5)?,
        written_at_ms: row.get(6)?,
        saved_at_ms: row.get(7)?,
        keys: row.get(8)?,
        bytes: row.get(9)?,
    })
}

fn key_row(row: &Row<'_>) -> Result<KeyRow> {
    Ok(KeyRow {
        tag: row.get(0)?,
        key: row.get(1)?,
        kind: kind_of(row, 2)?,
        expires_at_ms: row.get(3)?,
    })
}
