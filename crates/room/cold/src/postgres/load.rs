//! Reading what rests of a tag, with and without claiming it.

use futures_util::future::join4;
use nagaya_postgres_client::{Row, Session};
use nagaya_sql::block;
use nagaya_tiering::cold::{self, Claimed, Loaded, Rest};

use super::absence::Absence;
use super::error::Failure;
use super::rows::{bounded, kind_of, unsigned, version_at};

const GENERATION: &str = block(include_str!("queries/tags.sql"), "generation");
const CLAIM: &str = block(include_str!("queries/tags.sql"), "claim");
const OF_TAG: &str = block(include_str!("queries/keys.sql"), "of_tag");
const LOAD: &str = block(include_str!("queries/keys.sql"), "load");

/// Reads the generation of each tag.
pub(super) async fn generations(session: &Session, tags: &[&[u8]]) -> Result<Vec<Option<u64>>, Failure> {
    let mut generations = vec![None; tags.len()];
    for row in session.query(GENERATION, &[&tags]).await? {
        *at_place(&mut generations, &row)? = Some(unsigned(&row, 1));
    }
    Ok(generations)
}

/// Reads tags with all their keys.
pub(super) async fn read(session: &Session, tags: &[&[u8]]) -> Result<Vec<Option<Loaded>>, Failure> {
    let mut loaded: Vec<Option<Loaded>> = vec![None; tags.len()];
    for row in session.query(LOAD, &[&tags]).await? {
        let tag = at_place(&mut loaded, &row)?.get_or_insert_with(|| Loaded {
            generation: unsigned(&row, 1),
            saved: version_at(&row, 2),
            ..Loaded::default()
        });
        if let Some(key) = row.get(4) {
            add_key(tag, key, &row, 5)?;
        }
    }
    Ok(loaded)
}

/// Moves a tag's generation on and reads it.
pub(super) async fn claim(
    session: &Session,
    absence: &Absence,
    tag: &[u8],
    base: Option<u64>,
) -> Result<Claimed, Failure> {
    let Some(base) = base else {
        return Ok(match generations(session, &[tag]).await?[0] {
            None => Claimed::NoRow,
            Some(_) => Claimed::Moved,
        });
    };
    // Most tags were saved; only one that was not has to be looked at more closely.
    if let Some(loaded) = claim_now(session, tag, base, !absence.is_used()).await? {
        return Ok(Claimed::Loaded(loaded));
    }
    let Some(until) = absence.known_to_all_at(session, tag).await? else {
        return Ok(Claimed::Moved);
    };
    tokio::time::sleep_until(until).await;
    let claimed = claim_now(session, tag, base, true).await?;
    Ok(claimed.map_or(Claimed::Moved, Claimed::Loaded))
}

/// Sends the whole transaction at once. The keys are read by a statement of their own, after the one that
/// waited for the tag's lock: what was committed under the lock meanwhile is seen.
async fn claim_now(
    session: &Session,
    tag: &[u8],
    base: u64,
    is_known: bool,
) -> Result<Option<Loaded>, Failure> {
    session.prepare(CLAIM).await?;
    session.prepare(OF_TAG).await?;
    let base = bounded(base);
    let (begun, claimed, keys, committed) = join4(
        session.batch("BEGIN"),
        session.query(CLAIM, &[&tag, &base, &is_known]),
        session.query(OF_TAG, &[&tag]),
        session.batch("COMMIT"),
    )
    .await;
    begun?;
    let claimed = claimed?;
    let keys = keys?;
    committed?;
    let Some(row) = claimed.first() else {
        return Ok(None);
    };
    let mut loaded = Loaded {
        generation: unsigned(row, 0),
        saved: version_at(row, 1),
        ..Loaded::default()
    };
    for row in keys {
        add_key(&mut loaded, row.get(0), &row, 1)?;
    }
    Ok(Some(loaded))
}

/// Adds a key whose kind, expiry and payload stand from a column on.
fn add_key(loaded: &mut Loaded, key: Vec<u8>, row: &Row, column: usize) -> Result<(), Failure> {
    match row.get(column + 2) {
        None => loaded.tombstones.push(key),
        Some(payload) => {
            let rest = Rest {
                kind: kind_of(row, column)?,
                payload,
                expires_at_ms: row.get(column + 1),
            };
            loaded.rows.push(cold::Row { key, rest });
        }
    }
    Ok(())
}

/// Finds the item that a row is about: the first column counts places from 1.
pub(super) fn at_place<'a, T>(items: &'a mut [T], row: &Row) -> Result<&'a mut T, Failure> {
    let place = usize::try_from(row.get::<_, i64>(0) - 1).ok();
    let item = place.and_then(|place| items.get_mut(place));
    item.ok_or(Failure::Strange("an answer about something that was not asked"))
}
