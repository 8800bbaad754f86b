//! Reading the stored keys of a tag, with and without claiming it.

use nagaya_sql::{block, position};
use nagaya_sqlite_client::{scalar, unexpected_value};
use nagaya_tiering::cold::{Claimed, Loaded, Row, StoredValue, Version};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Result, params};

use super::rows::LoadedKey;

const GENERATION: &str = block(include_str!("queries/tags.sql"), "generation");
const CLAIM: &str = block(include_str!("queries/tags.sql"), "claim");
const LOAD: &str = block(include_str!("queries/keys.sql"), "load");

/// Reads the generation of each tag.
pub(super) fn generations(connection: &Connection, tags: &[&[u8]]) -> Result<Vec<Option<u64>>> {
    let mut generation = connection.prepare_cached(GENERATION)?;
    tags.iter()
        .map(|tag| generation.query_row([tag], scalar).optional())
        .collect()
}

/// Reads tags with all their keys.
pub(super) fn read(connection: &Connection, tags: &[&[u8]]) -> Result<Vec<Option<Loaded>>> {
    let mut load = connection.prepare_cached(LOAD)?;
    tags.iter().map(|tag| read_tag(&mut load, tag)).collect()
}

/// Moves a tag's generation on and reads it. Runs in the writer's transaction.
pub(super) fn claim(connection: &Connection, tag: &[u8], base: Option<u64>) -> Result<Claimed> {
    let Some(base) = base else {
        let row = generations(connection, &[tag])?[0];
        return Ok(if row.is_none() {
            Claimed::NoRow
        } else {
            Claimed::Moved
        });
    };
    let moved = connection.prepare_cached(CLAIM)?.execute(params![tag, base])?;
    if moved == 0 {
        return Ok(Claimed::Moved);
    }
    let loaded = read_tag(&mut connection.prepare_cached(LOAD)?, tag)?;
    Ok(Claimed::Loaded(
        loaded.expect("its row was just changed in this transaction"),
    ))
}

fn read_tag(load: &mut CachedStatement<'_>, tag: &[u8]) -> Result<Option<Loaded>> {
    let mut rows = load.query([tag])?;
    let mut loaded: Option<Loaded> = None;
    while let Some(row) = rows.next()? {
        let row = LoadedKey::read(row)?;
        let loaded = loaded.get_or_insert_with(|| Loaded {
            generation: row.generation,
            saved: Version {
                generation: row.saved_generation,
                snap: row.saved_snap,
            },
            ..Loaded::default()
        });
        let Some(key) = row.key else {
            break;
        };
        match row.payload {
            None => loaded.tombstones.push(key),
            Some(payload) => {
                let column = const { position(LoadedKey::COLUMNS, "kind") };
                let kind = row
                    .kind
                    .ok_or_else(|| unexpected_value(column, "a value without a type"))?;
                let value = StoredValue {
                    kind,
                    payload,
                    expires_at_ms: row.expires_at_ms,
                };
                loaded.rows.push(Row { key, value });
            }
        }
    }
    Ok(loaded)
}
