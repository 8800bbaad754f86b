//! Lists tags for ROOM.TAGS: by their last use, by their size, by their names.
//!
//! Saved tags are listed by the rows of the cold tier, new ones by the lists of dirty tags. Every tag is in
//! one of the two.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use nagaya_tiering::cold::{ColdTier, TagRow};
use nagaya_tiering::hot::HotTier;

use super::state::{Failure, Shared};
use crate::hot_tier::TagInfo;
use crate::proxy::{ListedTag, TagOrder, TagQuery};

/// Rows per page.
const PAGE: usize = 1000;
/// Rows that are read to find the biggest tags, which takes some seconds.
const ROWS_MAX: usize = 1_000_000;

/// A tag with its row, if it has one.
type Candidate = (Vec<u8>, Option<TagRow>);

/// Returns the tags, and the cursor of the next page if there are more.
pub(super) fn list(shared: &Shared, query: &TagQuery) -> Result<(Vec<ListedTag>, Option<Vec<u8>>), Failure> {
    match &query.order {
        TagOrder::Hottest => {
            let tags = shared.tier.hottest(query.limit)?;
            let rows = tags.into_iter().map(|tag| {
                let row = shared.cold.tag(&tag)?;
                Ok((tag, row))
            });
            let rows: Vec<_> = rows.collect::<Result<_, Failure>>()?;
            Ok((stats(shared, rows)?, None))
        }
        TagOrder::Biggest => {
            let rows = biggest(&*shared.cold, query.limit)?;
            let mut tags = stats(shared, rows)?;
            tags.extend(new_tags(shared, b"", query.limit)?);
            tags.sort_by_key(|listed| Reverse(listed.bytes));
            tags.dedup_by(|one, other| one.tag == other.tag);
            tags.truncate(query.limit);
            Ok((tags, None))
        }
        TagOrder::Prefix { prefix, after } => by_name(shared, prefix, after.as_deref(), query.limit),
    }
}

/// Returns a page of tags by name. The first page includes the tags without a row.
fn by_name(
    shared: &Shared,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> Result<(Vec<ListedTag>, Option<Vec<u8>>), Failure> {
    let mut rows = Vec::new();
    if after.is_none() {
        // The list below begins behind the name it is given.
        rows.extend(shared.cold.tag(prefix)?.filter(|_| !prefix.is_empty()));
    }
    let from = after.or(Some(prefix).filter(|prefix| !prefix.is_empty()));
    rows.extend(shared.cold.tags_after(from, limit)?);
    rows.retain(|row| row.tag.starts_with(prefix));
    let is_full = rows.len() >= limit;
    rows.truncate(limit);
    let cursor = rows.last().filter(|_| is_full).map(|row| row.tag.clone());
    let rows = rows.into_iter().map(|row| (row.tag.clone(), Some(row)));
    let mut tags = stats(shared, rows.collect())?;
    if after.is_none() {
        for new in new_tags(shared, prefix, limit)? {
            if tags.iter().all(|listed| listed.tag != new.tag) {
                tags.push(new);
            }
        }
        tags.sort_by(|one, other| one.tag.cmp(&other.tag));
    }
    Ok((tags, cursor))
}

/// Returns the largest tags by their rows.
fn biggest(cold: &dyn ColdTier, limit: usize) -> Result<Vec<Candidate>, Failure> {
    let (mut found, mut after, mut seen) = (BTreeMap::new(), None::<Vec<u8>>, 0);
    while seen < ROWS_MAX {
        let page = cold.tags_after(after.as_deref(), PAGE)?;
        seen += page.len();
        after = page.last().map(|row| row.tag.clone());
        let is_last = page.len() < PAGE;
        for row in page.into_iter().filter(|row| row.keys > 0) {
            found.insert((row.bytes, row.tag.clone()), row);
            if found.len() > limit {
                found.pop_first();
            }
        }
        if is_last {
            break;
        }
    }
    let rows = found.into_iter().rev();
    Ok(rows.map(|((_, tag), row)| (tag, Some(row))).collect())
}

/// Returns tags in memory that were never saved.
fn new_tags(shared: &Shared, prefix: &[u8], limit: usize) -> Result<Vec<ListedTag>, Failure> {
    let (mut new, mut from) = (Vec::new(), None);
    loop {
        let page = shared.tier.dirty_tags(from, PAGE)?;
        for dirty in page.tags {
            let is_wanted = dirty.tag.starts_with(prefix) && new.len() < limit;
            if is_wanted
                && shared
                    .cold
                    .tag(&dirty.tag)?
                    .is_none_or(|row| row.saved_at_ms.is_none())
            {
                new.push((dirty.tag, None));
            }
        }
        from = page.next;
        if from.is_none() || new.len() >= limit {
            break;
        }
    }
    stats(shared, new)
}

/// Adds what the nodes know of tags; those without keys are left out.
fn stats(shared: &Shared, rows: Vec<Candidate>) -> Result<Vec<ListedTag>, Failure> {
    let names: Vec<&[u8]> = rows.iter().map(|(tag, _)| tag.as_slice()).collect();
    let mut info = Vec::with_capacity(names.len());
    for turn in names.chunks(PAGE) {
        info.extend(shared.tier.tag_info(turn)?);
    }
    let mut listed = Vec::new();
    for ((tag, row), info) in rows.into_iter().zip(info) {
        let one = figures_of(shared, tag, row.as_ref(), &info)?;
        if one.keys > 0 {
            listed.push(one);
        }
    }
    Ok(listed)
}

fn figures_of(
    shared: &Shared,
    tag: Vec<u8>,
    row: Option<&TagRow>,
    info: &TagInfo,
) -> Result<ListedTag, Failure> {
    let saved = row.filter(|row| row.keys > 0);
    let (keys, bytes) = match saved {
        Some(row) => (row.keys, row.bytes),
        None => shared.tier.weigh(&tag, &shared.tier.dirty_names(&tag)?)?,
    };
    let used_ms = row.and_then(|row| row.read_at_ms.max(row.written_at_ms));
    let since = |at_ms: i64| u64::try_from(shared.clock.unix_ms() - at_ms).unwrap_or(0);
    let idle = used_ms.map(|at_ms| Duration::from_millis(since(at_ms)));
    Ok(ListedTag {
        tag,
        keys,
        bytes,
        idle: info.idle.or(idle),
        is_resident: info.is_resident,
        is_cold: saved.is_some(),
        is_dirty: info.dirty_keys > 0,
    })
}
