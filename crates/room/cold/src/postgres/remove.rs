//! Removing rows: one tag, all tags, expired keys, old tombstones and empty tags.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join;
use nagaya_postgres_client::{Row, Session, scalar};
use nagaya_sql::block;
use nagaya_tiering::cold::Version;

use super::error::Failure;
use super::rows::{CountedTotals, DueKey, FenceRow, GoneKeys, bounded, sql_limit};
use super::save::finish;
use super::totals::TotalsDelta;

const FENCE: &str = block(include_str!("queries/tags.sql"), "fence");
const LOCK_ALL: &str = block(include_str!("queries/tags.sql"), "lock_all");
const DELETE_TAG: &str = block(include_str!("queries/tags.sql"), "delete");
const DELETE_TAGS_UP_TO: &str = block(include_str!("queries/tags.sql"), "delete_saved_up_to");
const DELETE_EMPTY: &str = block(include_str!("queries/tags.sql"), "delete_empty");
const LAST_OF: &str = block(include_str!("queries/tags.sql"), "last_of");
const SHRINK: &str = block(include_str!("queries/tags.sql"), "shrink");
const DELETE_KEYS: &str = block(include_str!("queries/keys.sql"), "delete");
const DELETE_KEYS_OF: &str = block(include_str!("queries/keys.sql"), "delete_of_tag");
const DELETE_KEYS_UP_TO: &str = block(include_str!("queries/keys.sql"), "delete_saved_up_to");
const EXPIRED: &str = block(include_str!("queries/keys.sql"), "expired");
const BURIED: &str = block(include_str!("queries/keys.sql"), "buried");
const ANY_PLAN: &str = block(include_str!("queries/check.sql"), "any_plan");

/// Time limit of one statement of a wipe, which may remove every row.
const WIPE_LIMIT: Duration = Duration::from_secs(3600);

/// Removes a tag with all it has; returns how many keys with a value those were.
pub(super) async fn erase(session: &Session, tag: &[u8]) -> Result<u64, Failure> {
    let tags = [tag];
    let fences = lock(session, &tags).await?;
    let Some(found) = fences.first().map(FenceRow::read) else {
        session.batch("ROLLBACK").await?;
        return Ok(0);
    };
    let sums = TotalsDelta {
        tags: 1,
        ..found.sizes()
    };
    session.execute(DELETE_KEYS_OF, &[&tag]).await?;
    session.execute(DELETE_TAG, &[&tag]).await?;
    finish(session, sums.negated(), (0, 0)).await?;
    Ok(sums.keys.unsigned_abs())
}

/// Removes all tags that were not saved after `up_to`.
pub(super) async fn wipe(session: &Session, up_to: Version) -> Result<(), Failure> {
    let (generation, snap) = (bounded(up_to.generation), bounded(up_to.snap));
    session.batch("BEGIN").await?;
    session.batch(ANY_PLAN).await?;
    session.batch_within(LOCK_ALL, WIPE_LIMIT).await?;
    session
        .query_within(DELETE_KEYS_UP_TO, &[&generation, &snap], WIPE_LIMIT)
        .await?;
    let gone = session
        .query_within(DELETE_TAGS_UP_TO, &[&generation, &snap], WIPE_LIMIT)
        .await?;
    let gone = gone.first().map(CountedTotals::read);
    let change = gone.map_or(TotalsDelta::default(), TotalsDelta::from);
    finish(session, change.negated(), (0, 0)).await
}

/// Removes expired keys and old tombstones, the oldest of each first; returns how many.
pub(super) async fn purge(
    session: &Session,
    expired_before_ms: i64,
    buried_before_ms: i64,
    limit: usize,
) -> Result<usize, Failure> {
    let mut due = session
        .query(EXPIRED, &[&expired_before_ms, &sql_limit(limit)])
        .await?;
    let rest = sql_limit(limit.saturating_sub(due.len()));
    due.extend(session.query(BURIED, &[&buried_before_ms, &rest]).await?);
    if due.is_empty() {
        return Ok(0);
    }
    let (tags, keys): (Vec<&[u8]>, Vec<&[u8]>) =
        due.iter().map(DueKey::read).map(|row| (row.tag, row.key)).unzip();
    let locked: BTreeSet<&[u8]> = tags.iter().copied().collect();
    lock(session, &locked.into_iter().collect::<Vec<_>>()).await?;
    // Rows may have changed before the lock was ours; the statement looks again.
    let gone = session
        .query(
            DELETE_KEYS,
            &[&tags, &keys, &expired_before_ms, &buried_before_ms],
        )
        .await?;
    let (tags, sums): (Vec<&[u8]>, Vec<TotalsDelta>) = gone
        .iter()
        .map(GoneKeys::read)
        .map(|row| (row.tag, row.delta()))
        .unzip();
    let column = |read: fn(&TotalsDelta) -> i64| sums.iter().map(read).collect::<Vec<_>>();
    session
        .execute(
            SHRINK,
            &[
                &tags,
                &column(|sums| sums.keys),
                &column(|sums| sums.bytes),
                &column(|sums| sums.tombstones),
            ],
        )
        .await?;
    let mut change = TotalsDelta::default();
    sums.iter().for_each(|sums| change.add(*sums));
    finish(session, change.negated(), (0, 0)).await?;
    Ok(usize::try_from(change.keys + change.tombstones).unwrap_or_default())
}

/// Removes the empty tags among those that were made next after transaction `from`; returns how many, and
/// the transaction to continue from.
pub(super) async fn forget_empty(
    session: &Session,
    up_to: Version,
    from: u64,
    limit: usize,
) -> Result<(usize, u64), Failure> {
    let from = bounded(from).to_string();
    let Some(last) = session
        .query_opt(LAST_OF, &[&from, &sql_limit(limit.max(1))])
        .await?
    else {
        return Ok((0, 0));
    };
    let last: String = scalar(&last);
    let next: u64 = last
        .parse()
        .map_err(|_| Failure::Corrupt("a transaction has no number"))?;
    session.batch("BEGIN").await?;
    let (generation, snap) = (bounded(up_to.generation), bounded(up_to.snap));
    let removed = session
        .execute(DELETE_EMPTY, &[&from, &last, &generation, &snap])
        .await?;
    let change = TotalsDelta {
        tags: -bounded(removed),
        ..TotalsDelta::default()
    };
    finish(session, change, (0, 0)).await?;
    Ok((usize::try_from(removed).unwrap_or_default(), next))
}

/// Begins a transaction and locks tags in it.
async fn lock(session: &Session, tags: &[&[u8]]) -> Result<Vec<Row>, Failure> {
    session.prepare(FENCE).await?;
    let (begun, fences) = join(session.batch("BEGIN"), session.query(FENCE, &[&tags])).await;
    begun?;
    Ok(fences?)
}
