//! Reading the stored keys of a tag, with and without claiming it.

use futures_util::future::join4;
use nagaya_postgres_client::Session;
use nagaya_sql::block;
use nagaya_tiering::cold::{Claimed, Loaded, Row, StoredValue, Version};

use super::error::Failure;
use super::miss_filter::MissFilter;
use super::rows::{ClaimedKey, ClaimedTag, GenerationRow, LoadedKey, bounded, known_kind};

const GENERATION: &str = block(include_str!("queries/tags.sql"), "generation");
const CLAIM: &str = block(include_str!("queries/tags.sql"), "claim");
const OF_TAG: &str = block(include_str!("queries/keys.sql"), "of_tag");
const LOAD: &str = block(include_str!("queries/keys.sql"), "load");

/// Reads the generation of each tag.
pub(super) async fn generations(session: &Session, tags: &[&[u8]]) -> Result<Vec<Option<u64>>, Failure> {
    let mut generations = vec![None; tags.len()];
    for row in session.query(GENERATION, &[&tags]).await? {
        let row = GenerationRow::read(&row);
        *at_place(&mut generations, row.place)? = Some(row.generation);
    }
    Ok(generations)
}

/// Reads tags with all their keys.
pub(super) async fn read(session: &Session, tags: &[&[u8]]) -> Result<Vec<Option<Loaded>>, Failure> {
    let mut loaded: Vec<Option<Loaded>> = vec![None; tags.len()];
    for row in session.query(LOAD, &[&tags]).await? {
        let row = LoadedKey::read(&row);
        let tag = at_place(&mut loaded, row.place)?.get_or_insert_with(|| Loaded {
            generation: row.generation,
            saved: Version {
                generation: row.saved_generation,
                snap: row.saved_snap,
            },
            ..Loaded::default()
        });
        if let Some(key) = row.key {
            let key = ClaimedKey {
                key,
                kind: row.kind,
                expires_at_ms: row.expires_at_ms,
                payload: row.payload,
            };
            add_key(tag, key)?;
        }
    }
    Ok(loaded)
}

/// Moves a tag's generation on and reads it.
pub(super) async fn claim(
    session: &Session,
    miss_filter: &MissFilter,
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
    if let Some(loaded) = claim_now(session, tag, base, !miss_filter.is_used()).await? {
        return Ok(Claimed::Loaded(loaded));
    }
    let Some(until) = miss_filter.known_to_all_at(session, tag).await? else {
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
    let Some(tag) = claimed.first().map(ClaimedTag::read) else {
        return Ok(None);
    };
    let mut loaded = Loaded {
        generation: tag.generation,
        saved: Version {
            generation: tag.saved_generation,
            snap: tag.saved_snap,
        },
        ..Loaded::default()
    };
    for row in keys {
        add_key(&mut loaded, ClaimedKey::read(&row))?;
    }
    Ok(Some(loaded))
}

/// Adds a key, or a tombstone when it has no payload.
fn add_key(loaded: &mut Loaded, row: ClaimedKey) -> Result<(), Failure> {
    match row.payload {
        None => loaded.tombstones.push(row.key),
        Some(payload) => {
            let value = StoredValue {
                kind: known_kind(row.kind)?,
                payload,
                expires_at_ms: row.expires_at_ms,
            };
            loaded.rows.push(Row { key: row.key, value });
        }
    }
    Ok(())
}

/// Finds the item that a row is about. Places count from 1.
pub(super) fn at_place<T>(items: &mut [T], place: i64) -> Result<&mut T, Failure> {
    let index = usize::try_from(place - 1).ok();
    let item = index.and_then(|index| items.get_mut(index));
    item.ok_or(Failure::Corrupt("an answer about something that was not asked"))
}
