//! Rows and facts one by one and in lists.

use nagaya_postgres_client::{Row, Session};
use nagaya_sql::block;
use nagaya_tiering::cold::{KeyRow, TagRow};

use super::error::Failure;
use super::rows::{kind_of, sql_limit, status_of, unsigned, version_at};

const TAG: &str = block(include_str!("queries/tags.sql"), "get");
const TAGS_FIRST: &str = block(include_str!("queries/tags.sql"), "list_first");
const TAGS_AFTER: &str = block(include_str!("queries/tags.sql"), "list_after");
const KEYS_FIRST: &str = block(include_str!("queries/keys.sql"), "list_first");
const KEYS_AFTER: &str = block(include_str!("queries/keys.sql"), "list_after");
const FACT: &str = block(include_str!("queries/facts.sql"), "get");
const SET_FACT: &str = block(include_str!("queries/facts.sql"), "set");

/// Returns the row of a tag.
pub(super) async fn tag(session: &Session, tag: &[u8]) -> Result<Option<TagRow>, Failure> {
    let row = session.query_opt(TAG, &[&tag]).await?;
    row.as_ref().map(tag_row).transpose()
}

/// Lists tags in the order of their bytes.
pub(super) async fn tags_after(
    session: &Session,
    tag: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<TagRow>, Failure> {
    let limit = sql_limit(limit);
    let rows = match tag {
        None => session.query(TAGS_FIRST, &[&limit]).await?,
        Some(tag) => session.query(TAGS_AFTER, &[&tag, &limit]).await?,
    };
    rows.iter().map(tag_row).collect()
}

/// Lists keys in the order of their tags' and their own bytes.
pub(super) async fn keys_after(
    session: &Session,
    after: Option<(&[u8], &[u8])>,
    limit: usize,
) -> Result<Vec<KeyRow>, Failure> {
    let limit = sql_limit(limit);
    let rows = match after {
        None => session.query(KEYS_FIRST, &[&limit]).await?,
        Some((tag, key)) => session.query(KEYS_AFTER, &[&tag, &key, &limit]).await?,
    };
    rows.iter().map(key_row).collect()
}

/// Reads a named value.
pub(super) async fn fact(session: &Session, name: &str) -> Result<Option<Vec<u8>>, Failure> {
    let row = session.query_opt(FACT, &[&name]).await?;
    Ok(row.map(|row| row.get(0)))
}

/// Keeps a named value.
pub(super) async fn set_fact(session: &Session, name: &str, value: &[u8]) -> Result<(), Failure> {
    session.execute(SET_FACT, &[&name, &value]).await?;
    Ok(())
}

fn tag_row(row: &Row) -> Result<TagRow, Failure> {
    Ok(TagRow {
        tag: row.get(0),
        generation: unsigned(row, 1),
        saved: version_at(row, 2),
        status: status_of(row, 4)?,
        read_at_ms: row.get(5),
        written_at_ms: row.get(6),
        saved_at_ms: row.get(7),
        keys: unsigned(row, 8),
        bytes: unsigned(row, 9),
    })
}

fn key_row(row: &Row) -> Result<KeyRow, Failure> {
    Ok(KeyRow {
        tag: row.get(0),
        key: row.get(1),
        kind: kind_of(row, 2)?,
        expires_at_ms: row.get(3),
    })
}
