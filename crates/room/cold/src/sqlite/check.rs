//! Looking for damage: the file itself, recorded sizes of tags, payloads that no
//! longer restore, keys without a tag, and the totals.

use nagaya_sql::block;
use nagaya_sqlite_client::scalar;
use nagaya_store::limits::EncodingLimits;
use nagaya_store::rdb;
use nagaya_tiering::cold::Finding;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Result};

use super::rows::{CountedTotals, PayloadRow, SizesRow, TagRange};
use super::totals::{self, TotalsDelta};

const FILE: &str = block(include_str!("queries/check.sql"), "file");
const TAG_RANGE: &str = block(include_str!("queries/check.sql"), "tag_range");
const TAG_FROM: &str = block(include_str!("queries/check.sql"), "tag_from");
const SIZES: &str = block(include_str!("queries/check.sql"), "sizes");
const PAYLOADS: &str = block(include_str!("queries/check.sql"), "payloads");
const ORPHANS: &str = block(include_str!("queries/check.sql"), "orphans");
const TOTALS: &str = block(include_str!("queries/check.sql"), "totals");
const DELETE_ORPHANS: &str = block(include_str!("queries/check.sql"), "delete_orphans");
const RECOUNT_TAGS: &str = block(include_str!("queries/check.sql"), "recount_tags");
const RECOUNT_TOTALS: &str = block(include_str!("queries/totals.sql"), "recount");

/// Findings after which a check stops. More of them would not change what an operator does.
const FINDINGS_MAX: usize = 100;

/// How much of a file to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    Whole,
    /// About this many tags, evenly spread over their age. Leaves out what would read the whole file.
    Sample { tags: u64 },
}

/// What to do about payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payloads {
    /// Checks rows without their payloads.
    Skip,
    /// Restores each payload as a load would, and drops the value.
    Restore,
}

/// How far a check has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub tags_done: u64,
    /// An estimate.
    pub tags_total: u64,
}

/// Looks for damage and reports progress after every thousand tags.
pub(super) fn check(
    connection: &Connection,
    scope: Scope,
    payloads: Payloads,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    if scope == Scope::Whole {
        check_file(connection, &mut findings)?;
        if !findings.is_empty() {
            return Ok(findings);
        }
    }
    // The rest is read in one snapshot: the server may be writing.
    let transaction = connection.unchecked_transaction()?;
    check_tags(connection, scope, payloads, progress, &mut findings)?;
    if scope == Scope::Whole {
        check_orphans(connection, &mut findings)?;
        check_totals(connection, &mut findings)?;
    }
    transaction.finish()?;
    Ok(findings)
}

/// Removes orphans and recounts everything.
pub(super) fn recount(connection: &Connection) -> Result<()> {
    connection.execute(DELETE_ORPHANS, [])?;
    connection.execute(RECOUNT_TAGS, [])?;
    connection.execute(RECOUNT_TOTALS, [])?;
    Ok(())
}

fn check_file(connection: &Connection, findings: &mut Vec<Finding>) -> Result<()> {
    let mut statement = connection.prepare(FILE)?;
    let lines = statement.query_map([], scalar::<String>)?;
    for line in lines {
        let line = line?;
        if line != "ok" {
            findings.push(Finding {
                what: format!("the file is damaged: {line}"),
                remedy: "stop the server and put a copy from before the damage in its place; \
                         `sqlite3 cold.db .recover` saves what can still be read"
                    .to_owned(),
            });
        }
    }
    Ok(())
}

fn check_tags(
    connection: &Connection,
    scope: Scope,
    payloads: Payloads,
    progress: &mut dyn FnMut(Progress),
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let TagRange { first, last } = connection.query_row(TAG_RANGE, [], TagRange::read)?;
    let tags = totals::get(connection)?.0.tags.unsigned_abs();
    let (tags_total, stride) = match scope {
        Scope::Whole => (tags, 1),
        Scope::Sample { tags: wanted } => {
            let wanted = wanted.clamp(1, tags.max(1));
            (wanted, ((last - first).unsigned_abs() / wanted).max(1) as i64)
        }
    };
    let mut tag_from = connection.prepare(TAG_FROM)?;
    let mut sizes = connection.prepare_cached(SIZES)?;
    let mut rows = connection.prepare_cached(PAYLOADS)?;
    let mut from = first;
    let mut tags_done = 0;
    while let Some(id) = tag_from.query_row([from], scalar::<i64>).optional()? {
        let tag = check_sizes(&mut sizes, id, findings)?;
        if payloads == Payloads::Restore {
            check_payloads(&mut rows, id, &tag, findings)?;
        }
        tags_done += 1;
        if tags_done % 1000 == 0 {
            progress(Progress {
                tags_done,
                tags_total,
            });
        }
        if findings.len() >= FINDINGS_MAX {
            return Ok(());
        }
        from = id + stride;
    }
    progress(Progress {
        tags_done,
        tags_total,
    });
    Ok(())
}

fn check_sizes(sizes: &mut CachedStatement<'_>, id: i64, findings: &mut Vec<Finding>) -> Result<String> {
    let SizesRow {
        tag,
        keys,
        bytes,
        tombstones,
        keys_found,
        bytes_found,
        tombstones_found,
    } = sizes.query_row([id], SizesRow::read)?;
    let tag = tag.escape_ascii().to_string();
    if (keys, bytes, tombstones) != (keys_found, bytes_found, tombstones_found) {
        findings.push(Finding {
            what: format!(
                "tag {tag} says {keys} keys, {bytes} bytes, {tombstones} tombstones; \
                 there are {keys_found}, {bytes_found}, {tombstones_found}"
            ),
            remedy: COUNT_ANEW.to_owned(),
        });
    }
    Ok(tag)
}

fn check_payloads(
    payloads: &mut CachedStatement<'_>,
    id: i64,
    tag: &str,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let mut rows = payloads.query([id])?;
    while let Some(row) = rows.next()? {
        let row = PayloadRow::read(row)?;
        if rdb::restore(&row.payload, &EncodingLimits::default()).is_err() {
            let key = row.key.escape_ascii();
            findings.push(Finding {
                what: format!("the payload of key {key} of tag {tag} cannot be restored"),
                remedy: "take the key from a copy of the file from before the damage, or delete it"
                    .to_owned(),
            });
        }
    }
    Ok(())
}

fn check_orphans(connection: &Connection, findings: &mut Vec<Finding>) -> Result<()> {
    let orphans: u64 = connection.query_row(ORPHANS, [], scalar)?;
    if orphans > 0 {
        findings.push(Finding {
            what: format!("{orphans} keys belong to no tag"),
            remedy: COUNT_ANEW.to_owned(),
        });
    }
    Ok(())
}

fn check_totals(connection: &Connection, findings: &mut Vec<Finding>) -> Result<()> {
    let (said, _) = totals::get(connection)?;
    let found = TotalsDelta::from(connection.query_row(TOTALS, [], CountedTotals::read)?);
    if said != found {
        findings.push(Finding {
            what: format!(
                "the sums say {} tags, {} keys, {} tombstones, {} bytes; there are {}, {}, {}, {}",
                said.tags,
                said.keys,
                said.tombstones,
                said.bytes,
                found.tags,
                found.keys,
                found.tombstones,
                found.bytes,
            ),
            remedy: COUNT_ANEW.to_owned(),
        });
    }
    Ok(())
}

/// The remedy of findings about sizes, which [`super::SqliteCold::recount`] brings about. Sizes serve people and
/// statistics only; no data is wrong because of them.
pub const COUNT_ANEW: &str = "let the sizes be counted anew; no value is lost by it";
