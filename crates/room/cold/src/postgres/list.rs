//! Rows one by one and in lists, and named values.

use nagaya_postgres_client::{Session, scalar};
use nagaya_sql::block;
use nagaya_tiering::cold::{KeyRow, TagRow, Version};

use super::error::Failure;
use super::rows::{ListedKey, ListedTag, known_kind, sql_limit};

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
    row.as_ref()
        .map(ListedTag::read)
        .map(TagRow::try_from)
        .transpose()
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
    rows.iter().map(ListedTag::read).map(TagRow::try_from).collect()
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
    rows.iter().map(ListedKey::read).map(KeyRow::try_from).collect()
}

/// Reads a named value.
pub(super) async fn fact(session: &Session, name: &str) -> Result<Option<Vec<u8>>, Failure> {
    let row = session.query_opt(FACT, &[&name]).await?;
    Ok(row.as_ref().map(scalar))
}

/// Stores a named value.
pub(super) async fn set_fact(session: &Session, name: &str, value: &[u8]) -> Result<(), Failure> {
    session.execute(SET_FACT, &[&name, &value]).await?;
    Ok(())
}

impl TryFrom<ListedTag> for TagRow {
    type Error = Failure;

    fn try_from(row: ListedTag) -> Result<TagRow, Failure> {
        let corrupt = Failure::Corrupt("a tag has a status that does not exist");
        Ok(TagRow {
            tag: row.tag,
            generation: row.generation,
            saved: Version {
                generation: row.saved_generation,
                snap: row.saved_snap,
            },
            status: row.status.ok_or(corrupt)?,
            read_at_ms: row.read_at_ms,
            written_at_ms: row.written_at_ms,
            saved_at_ms: row.saved_at_ms,
            keys: row.keys,
            bytes: row.bytes,
        })
    }
}

impl TryFrom<ListedKey> for KeyRow {
    type Error = Failure;

    fn try_from(row: ListedKey) -> Result<KeyRow, Failure> {
        Ok(KeyRow {
            tag: row.tag,
            key: row.key,
            kind: known_kind(row.kind)?,
            expires_at_ms: row.expires_at_ms,
        })
    }
}
