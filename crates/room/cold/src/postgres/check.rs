//! Looking for damage: recorded sizes of tags, keys without a tag, and the totals.

use std::time::Duration;

use nagaya_postgres_client::{Session, scalar};
use nagaya_sql::block;
use nagaya_tiering::cold::Finding;

use super::error::Failure;
use super::rows::{CountedTotals, SizesRow};
use super::totals::{self, TotalsDelta};

const ANY_PLAN: &str = block(include_str!("queries/check.sql"), "any_plan");
const SIZES: &str = block(include_str!("queries/check.sql"), "sizes");
const ORPHANS: &str = block(include_str!("queries/check.sql"), "orphans");
const TOTALS: &str = block(include_str!("queries/check.sql"), "totals");
const DELETE_ORPHANS: &str = block(include_str!("queries/check.sql"), "delete_orphans");
const RECOUNT_TAGS: &str = block(include_str!("queries/check.sql"), "recount_tags");
const CLEAR_TOTALS: &str = block(include_str!("queries/totals.sql"), "clear");
const RECOUNT_TOTALS: &str = block(include_str!("queries/totals.sql"), "recount");
const LOCK_ALL: &str = block(include_str!("queries/tags.sql"), "lock_all");

/// Findings after which a check stops. More of them would not change what an operator does.
const FINDINGS_MAX: i64 = 100;
/// Time limit of one statement, which reads every row.
const LIMIT: Duration = Duration::from_secs(3600);
const REMEDY: &str = "let the sizes be counted anew; no value is lost by it";

/// Checks everything in one snapshot: other processes may be writing.
pub(super) async fn check(session: &Session) -> Result<Vec<Finding>, Failure> {
    session
        .batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        .await?;
    session.batch(ANY_PLAN).await?;
    let mut findings = Vec::new();
    for row in session.query_within(SIZES, &[&FINDINGS_MAX], LIMIT).await? {
        let SizesRow {
            tag,
            keys,
            bytes,
            tombstones,
            keys_found,
            bytes_found,
            tombstones_found,
        } = SizesRow::read(&row);
        let tag = tag.escape_ascii();
        let what = format!(
            "tag {tag} says {keys} keys, {bytes} bytes, {tombstones} tombstones; \
             there are {keys_found}, {bytes_found}, {tombstones_found}"
        );
        findings.push(finding(what));
    }
    let orphans = session.query_within(ORPHANS, &[], LIMIT).await?;
    let orphans: i64 = orphans.first().map_or(0, scalar);
    if orphans > 0 {
        findings.push(finding(format!("{orphans} keys belong to no tag")));
    }
    let said = totals::stored(session).await?;
    let found = session.query_within(TOTALS, &[], LIMIT).await?;
    let found = found.first().map(CountedTotals::read);
    let found = found.map_or(TotalsDelta::default(), TotalsDelta::from);
    session.batch("COMMIT").await?;
    if said != found {
        findings.push(finding(format!(
            "the sums say {} tags, {} keys, {} tombstones, {} bytes; there are {}, {}, {}, {}",
            said.tags,
            said.keys,
            said.tombstones,
            said.bytes,
            found.tags,
            found.keys,
            found.tombstones,
            found.bytes,
        )));
    }
    Ok(findings)
}

/// Removes orphans and recounts everything.
pub(super) async fn recount(session: &Session) -> Result<(), Failure> {
    session.batch("BEGIN").await?;
    session.batch(ANY_PLAN).await?;
    session.batch_within(LOCK_ALL, LIMIT).await?;
    for statement in [DELETE_ORPHANS, RECOUNT_TAGS, CLEAR_TOTALS, RECOUNT_TOTALS] {
        session.query_within(statement, &[], LIMIT).await?;
    }
    Ok(session.batch("COMMIT").await?)
}

fn finding(what: String) -> Finding {
    Finding {
        what,
        remedy: REMEDY.to_owned(),
    }
}
