//! Removing rows: one tag, all tags, expired keys, old tombstones and empty tags.

use std::collections::BTreeMap;

use nagaya_sql::block;
use nagaya_sqlite_client::scalar;
use nagaya_tiering::cold::{TagNames, Version};
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::list::{self, sql_limit};
use super::rows::{CountedTotals, DueKey, FenceRow, NamedTag};
use super::totals::{self, TotalsDelta};

const FENCE: &str = block(include_str!("queries/tags.sql"), "fence");
const DELETE_TAG: &str = block(include_str!("queries/tags.sql"), "delete");
const DELETE_TAGS: &str = block(include_str!("queries/tags.sql"), "delete_all");
const DELETE_TAGS_UP_TO: &str = block(include_str!("queries/tags.sql"), "delete_saved_up_to");
const SUM_UP_TO: &str = block(include_str!("queries/tags.sql"), "sum_saved_up_to");
const TAGS_BETWEEN: &str = block(include_str!("queries/tags.sql"), "list_between");
const SUM_BETWEEN: &str = block(include_str!("queries/tags.sql"), "sum_between");
const TAG_NAME: &str = block(include_str!("queries/tags.sql"), "name");
const LAST_OF: &str = block(include_str!("queries/tags.sql"), "last_of");
const DELETE_EMPTY: &str = block(include_str!("queries/tags.sql"), "delete_empty");
const SHRINK: &str = block(include_str!("queries/tags.sql"), "shrink");
const DELETE_KEY: &str = block(include_str!("queries/keys.sql"), "delete");
const DELETE_KEYS_OF: &str = block(include_str!("queries/keys.sql"), "delete_of_tag");
const DELETE_KEYS: &str = block(include_str!("queries/keys.sql"), "delete_all");
const DELETE_KEYS_UP_TO: &str = block(include_str!("queries/keys.sql"), "delete_saved_up_to");
const EXPIRED: &str = block(include_str!("queries/keys.sql"), "expired");
const BURIED: &str = block(include_str!("queries/keys.sql"), "buried");
const CLEAR_TOTALS: &str = block(include_str!("queries/totals.sql"), "clear");

/// Removes a tag with all it has; returns how many keys with a value those were.
pub(super) fn erase(connection: &Connection, tag: &[u8]) -> Result<u64> {
    let found = connection
        .prepare_cached(FENCE)?
        .query_row([tag], FenceRow::read)
        .optional()?;
    let Some(found) = found else {
        return Ok(0);
    };
    connection.prepare_cached(DELETE_KEYS_OF)?.execute([found.id])?;
    connection.prepare_cached(DELETE_TAG)?.execute([found.id])?;
    let gone = TotalsDelta {
        tags: 1,
        ..found.sizes()
    };
    totals::add(connection, gone.negated())?;
    Ok(gone.keys.unsigned_abs())
}

/// Removes a tag that has no keys and was not saved after the checkpoint; returns whether anything is left.
pub(super) fn forget(connection: &Connection, tag: &[u8], checkpoint: u64) -> Result<bool> {
    match list::tag(connection, tag)? {
        None => Ok(false),
        Some(row) if row.keys > 0 || row.saved.snap > checkpoint => Ok(true),
        Some(_) => erase(connection, tag).map(|_| false),
    }
}

/// Removes all tags that were not saved after `up_to`.
pub(super) fn wipe(connection: &Connection, up_to: Version) -> Result<()> {
    let (_, newest) = totals::get(connection)?;
    if newest <= up_to {
        // Without a condition SQLite drops whole pages and looks at no row.
        connection.execute(DELETE_KEYS, [])?;
        connection.execute(DELETE_TAGS, [])?;
        connection.execute(CLEAR_TOTALS, [])?;
        return Ok(());
    }
    // Nothing is saved with a number that does not fit.
    let bounded = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let up_to = [bounded(up_to.generation), bounded(up_to.snap)];
    let gone = TotalsDelta::from(connection.query_row(SUM_UP_TO, up_to, CountedTotals::read)?);
    connection.execute(DELETE_KEYS_UP_TO, up_to)?;
    connection.execute(DELETE_TAGS_UP_TO, up_to)?;
    totals::add(connection, gone.negated())
}

/// Removes those of some tags that were not saved after `up_to`.
pub(super) fn wipe_some(connection: &Connection, names: &TagNames, up_to: Version) -> Result<()> {
    let bounded = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let (first, behind) = bounds(names);
    let named: Vec<NamedTag> = {
        let mut statement = connection.prepare_cached(TAGS_BETWEEN)?;
        let range = params![first, behind, bounded(up_to.generation), bounded(up_to.snap)];
        let rows = statement.query_map(range, NamedTag::read)?;
        rows.filter(|row| row.as_ref().map_or(true, |row| names.contain(&row.tag)))
            .collect::<Result<_>>()?
    };
    let mut gone = TotalsDelta::default();
    for tag in named {
        connection.prepare_cached(DELETE_KEYS_OF)?.execute([tag.id])?;
        connection.prepare_cached(DELETE_TAG)?.execute([tag.id])?;
        gone.add(TotalsDelta {
            tags: 1,
            keys: tag.keys,
            bytes: tag.bytes,
            tombstones: tag.tombstones,
        });
    }
    totals::add(connection, gone.negated())
}

/// Returns how many keys some tags have together.
pub(super) fn keys_of(connection: &Connection, names: &TagNames) -> Result<u64> {
    let braced = |first: &[u8], behind: &[u8]| {
        let range = params![first, behind];
        connection.prepare_cached(SUM_BETWEEN)?.query_row(range, scalar)
    };
    let keys: i64 = match names {
        TagNames::Beginning(_) => {
            let (first, behind) = bounds(names);
            braced(&first, &behind.unwrap_or_default())?
        }
        TagNames::Unbraced => {
            let (first, behind) = (b"{".to_vec(), b"|".to_vec());
            let all = totals::get(connection)?.0.keys;
            let others: i64 = braced(&first, &behind)?;
            let mut unbraced = all - others;
            let mut statement = connection.prepare_cached(TAGS_BETWEEN)?;
            let rows = statement.query_map(params![first, behind, i64::MAX, i64::MAX], NamedTag::read)?;
            for row in rows {
                let row = row?;
                if names.contain(&row.tag) {
                    unbraced += row.keys;
                }
            }
            unbraced
        }
    };
    Ok(keys.unsigned_abs())
}

/// Returns the first name that some tags may have, and the one behind the last if there is one.
fn bounds(names: &TagNames) -> (Vec<u8>, Option<Vec<u8>>) {
    let TagNames::Beginning(prefix) = names else {
        return (Vec::new(), None);
    };
    // The next name that does not begin so: the last byte that can be raised is, and what follows it goes.
    let raised = prefix.iter().rposition(|&byte| byte < u8::MAX);
    let behind = raised.map(|at| [&prefix[..at], &[prefix[at] + 1]].concat());
    (prefix.clone(), behind)
}

/// What a purge has removed.
pub(super) struct Purged {
    pub(super) rows: usize,
    /// From which tags how many keys with a value.
    pub(super) keys: Vec<(Vec<u8>, u64)>,
}

/// Removes expired keys and old tombstones, the oldest of each first.
pub(super) fn purge(
    connection: &Connection,
    expired_before_ms: i64,
    buried_before_ms: i64,
    limit: usize,
) -> Result<Purged> {
    let mut rows = due(connection, EXPIRED, expired_before_ms, limit)?;
    if rows.len() < limit {
        let rest = limit - rows.len();
        rows.extend(due(connection, BURIED, buried_before_ms, rest)?);
    }
    let mut change = TotalsDelta::default();
    let mut by_tag: BTreeMap<i64, TotalsDelta> = BTreeMap::new();
    let mut delete = connection.prepare_cached(DELETE_KEY)?;
    for row in &rows {
        delete.execute(params![row.tag_id, row.key])?;
        change.remove_row(&row.key, row.payload_bytes);
        by_tag
            .entry(row.tag_id)
            .or_default()
            .remove_row(&row.key, row.payload_bytes);
    }
    let mut shrink = connection.prepare_cached(SHRINK)?;
    let mut gone = Vec::new();
    for (tag_id, sizes) in by_tag {
        shrink.execute([tag_id, -sizes.keys, -sizes.bytes, -sizes.tombstones])?;
        if sizes.keys != 0 {
            let name = connection.prepare_cached(TAG_NAME)?.query_row([tag_id], scalar);
            let name: Option<Vec<u8>> = name.optional()?;
            gone.push((name.unwrap_or_default(), sizes.keys.unsigned_abs()));
        }
    }
    totals::add(connection, change)?;
    Ok(Purged {
        rows: rows.len(),
        keys: gone,
    })
}

/// Removes the empty tags among the next ones after number `from`; returns how many, and the number to continue
/// from.
pub(super) fn forget_empty(
    connection: &Connection,
    up_to: Version,
    from: u64,
    limit: usize,
) -> Result<(usize, u64)> {
    let bounded = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let from = bounded(from);
    let last: Option<i64> = connection
        .prepare_cached(LAST_OF)?
        .query_row(params![from, sql_limit(limit)], scalar)?;
    let Some(last) = last else {
        return Ok((0, 0));
    };
    let removed = connection.prepare_cached(DELETE_EMPTY)?.execute(params![
        from,
        last,
        bounded(up_to.generation),
        bounded(up_to.snap)
    ])?;
    let change = TotalsDelta {
        tags: -(removed as i64),
        ..TotalsDelta::default()
    };
    totals::add(connection, change)?;
    Ok((removed, last.unsigned_abs()))
}

fn due(connection: &Connection, sql: &str, before_ms: i64, limit: usize) -> Result<Vec<DueKey>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![before_ms, sql_limit(limit)], DueKey::read)?;
    rows.collect()
}
