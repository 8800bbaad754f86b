//! Rows one by one and in lists, and named values.

use nagaya_sql::block;
use nagaya_sqlite_client::scalar;
use nagaya_tiering::cold::{KeyRow, TagRow, Version};
use rusqlite::{Connection, OptionalExtension, Params, Result, Row, params};

use super::rows::{ListedKey, ListedTag};

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
    let row = connection
        .prepare_cached(TAG)?
        .query_row([tag], ListedTag::read)
        .optional()?;
    Ok(row.map(TagRow::from))
}

/// Lists tags in the order of their bytes.
pub(super) fn tags_after(connection: &Connection, tag: Option<&[u8]>, limit: usize) -> Result<Vec<TagRow>> {
    let limit = sql_limit(limit);
    match tag {
        None => all(connection, TAGS_FIRST, params![limit], ListedTag::read),
        Some(tag) => all(connection, TAGS_AFTER, params![tag, limit], ListedTag::read),
    }
}

/// Lists keys in the order of their tags' and their own bytes.
pub(super) fn keys_after(
    connection: &Connection,
    after: Option<(&[u8], &[u8])>,
    limit: usize,
) -> Result<Vec<KeyRow>> {
    let Some((tag, key)) = after else {
        return all(connection, KEYS_FIRST, params![sql_limit(limit)], ListedKey::read);
    };
    let mut rows = all(
        connection,
        KEYS_IN_TAG,
        params![tag, key, sql_limit(limit)],
        ListedKey::read,
    )?;
    if rows.len() < limit {
        let rest = sql_limit(limit - rows.len());
        rows.extend(all::<_, KeyRow>(
            connection,
            KEYS_AFTER_TAG,
            params![tag, rest],
            ListedKey::read,
        )?);
    }
    Ok(rows)
}

/// Reads a named value.
pub(super) fn fact(connection: &Connection, name: &str) -> Result<Option<Vec<u8>>> {
    connection
        .prepare_cached(FACT)?
        .query_row([name], scalar)
        .optional()
}

/// Stores a named value.
pub(super) fn set_fact(connection: &Connection, name: &str, value: &[u8]) -> Result<()> {
    connection
        .prepare_cached(SET_FACT)?
        .execute(params![name, value])?;
    Ok(())
}

/// Clamps a limit to the largest that SQL takes.
pub(super) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn all<R, T: From<R>>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: fn(&Row<'_>) -> Result<R>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params, read)?;
    rows.map(|row| row.map(T::from)).collect()
}

impl From<ListedTag> for TagRow {
    fn from(row: ListedTag) -> TagRow {
        TagRow {
            tag: row.tag,
            generation: row.generation,
            saved: Version {
                generation: row.saved_generation,
                snap: row.saved_snap,
            },
            status: row.status,
            read_at_ms: row.read_at_ms,
            written_at_ms: row.written_at_ms,
            saved_at_ms: row.saved_at_ms,
            keys: row.keys,
            bytes: row.bytes,
        }
    }
}

impl From<ListedKey> for KeyRow {
    fn from(row: ListedKey) -> KeyRow {
        KeyRow {
            tag: row.tag,
            key: row.key,
            kind: row.kind,
            expires_at_ms: row.expires_at_ms,
        }
    }
}
