//! A cold tier in plain maps.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::cold::{
    Access, Claimed, ColdError, ColdTier, Committed, Finding, KeyRow, Loaded, Row, Snapshot, Status,
    StoredValue, TagRow, Totals, Version,
};

/// A cold tier that forgets everything when it is dropped.
#[derive(Debug, Default)]
pub struct MemoryCold {
    tables: Mutex<Tables>,
    /// How long a new row is unknown to others.
    lag: Duration,
}

#[derive(Debug, Default)]
struct Tables {
    tags: BTreeMap<Vec<u8>, TagRows>,
    facts: BTreeMap<String, Vec<u8>>,
}

/// The rows of one tag.
#[derive(Debug)]
struct TagRows {
    generation: u64,
    saved: Version,
    status: Status,
    read_at_ms: Option<i64>,
    written_at_ms: Option<i64>,
    saved_at_ms: Option<i64>,
    keys: BTreeMap<Vec<u8>, Kept>,
}

#[derive(Debug)]
enum Kept {
    Value(StoredValue),
    Tombstone { buried_at_ms: i64 },
}

impl TagRows {
    fn new() -> TagRows {
        TagRows {
            generation: 1,
            saved: Version::default(),
            status: Status::NeedSynced,
            read_at_ms: None,
            written_at_ms: None,
            saved_at_ms: None,
            keys: BTreeMap::new(),
        }
    }

    fn values(&self) -> impl Iterator<Item = (&Vec<u8>, &StoredValue)> {
        self.keys.iter().filter_map(|(key, kept)| match kept {
            Kept::Value(value) => Some((key, value)),
            Kept::Tombstone { .. } => None,
        })
    }

    fn bytes(&self) -> u64 {
        self.values()
            .map(|(key, value)| (key.len() + value.payload.len()) as u64)
            .sum()
    }

    fn load(&self) -> Loaded {
        let rows = self.values().map(|(key, value)| Row {
            key: key.clone(),
            value: value.clone(),
        });
        let is_buried = |kept: &Kept| matches!(kept, Kept::Tombstone { .. });
        Loaded {
            generation: self.generation,
            saved: self.saved,
            rows: rows.collect(),
            tombstones: self
                .keys
                .iter()
                .filter(|(_, kept)| is_buried(kept))
                .map(|(key, _)| key.clone())
                .collect(),
        }
    }

    fn commit(&mut self, snapshot: &Snapshot, now_ms: i64) -> Committed {
        if snapshot.version.generation != self.generation || snapshot.version <= self.saved {
            return Committed::Refused;
        }
        for change in &snapshot.changes {
            let kept = match &change.value {
                Some(value) => Kept::Value(value.clone()),
                None => Kept::Tombstone { buried_at_ms: now_ms },
            };
            self.keys.insert(change.key.clone(), kept);
        }
        self.saved = snapshot.version;
        self.saved_at_ms = Some(now_ms);
        self.status = Status::Synced;
        self.note(snapshot.read_at_ms, snapshot.written_at_ms);
        Committed::Saved
    }

    fn note(&mut self, read_at_ms: Option<i64>, written_at_ms: Option<i64>) {
        // `None` orders before every time.
        self.read_at_ms = self.read_at_ms.max(read_at_ms);
        self.written_at_ms = self.written_at_ms.max(written_at_ms);
    }

    fn row(&self, tag: &[u8]) -> TagRow {
        TagRow {
            tag: tag.to_vec(),
            generation: self.generation,
            saved: self.saved,
            status: self.status,
            read_at_ms: self.read_at_ms,
            written_at_ms: self.written_at_ms,
            saved_at_ms: self.saved_at_ms,
            keys: self.values().count() as u64,
            bytes: self.bytes(),
        }
    }
}

impl MemoryCold {
    /// Returns a tier whose new rows are unknown to others for a while.
    pub fn with_lag(lag: Duration) -> MemoryCold {
        MemoryCold {
            lag,
            ..MemoryCold::default()
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ColdTier for MemoryCold {
    fn generations(&self, tags: &[&[u8]]) -> Result<Vec<Option<u64>>, ColdError> {
        let tables = self.tables();
        Ok(tags
            .iter()
            .map(|&tag| Some(tables.tags.get(tag)?.generation))
            .collect())
    }

    fn claim(&self, tag: &[u8], base: Option<u64>) -> Result<Claimed, ColdError> {
        let mut tables = self.tables();
        Ok(match tables.tags.get_mut(tag) {
            None if base.is_none() => Claimed::NoRow,
            Some(rows) if base == Some(rows.generation) => {
                rows.generation += 1;
                Claimed::Loaded(rows.load())
            }
            _ => Claimed::Moved,
        })
    }

    fn read(&self, tags: &[&[u8]]) -> Result<Vec<Option<Loaded>>, ColdError> {
        let tables = self.tables();
        Ok(tags
            .iter()
            .map(|&tag| Some(tables.tags.get(tag)?.load()))
            .collect())
    }

    fn ensure(&self, tags: &[&[u8]]) -> Result<(), ColdError> {
        let mut tables = self.tables();
        for &tag in tags {
            tables.tags.entry(tag.to_vec()).or_insert_with(TagRows::new);
        }
        Ok(())
    }

    fn make_rows(&self, tags: &[&[u8]]) -> Result<Duration, ColdError> {
        let is_new = |tag: &&[u8]| {
            self.tables()
                .tags
                .get(*tag)
                .is_none_or(|rows| rows.saved_at_ms.is_none())
        };
        let are_new = tags.iter().any(is_new);
        self.ensure(tags)?;
        Ok(if are_new { self.lag } else { Duration::ZERO })
    }

    fn commit(&self, snapshots: &[Snapshot], now_ms: i64) -> Result<Vec<Committed>, ColdError> {
        let mut tables = self.tables();
        let commit = |snapshot: &Snapshot| match tables.tags.get_mut(&snapshot.tag) {
            Some(rows) => rows.commit(snapshot, now_ms),
            None => Committed::Refused,
        };
        Ok(snapshots.iter().map(commit).collect())
    }

    fn set_status(&self, tags: &[&[u8]], status: Status) -> Result<(), ColdError> {
        let mut tables = self.tables();
        for &tag in tags {
            if let Some(rows) = tables.tags.get_mut(tag) {
                rows.status = status;
            }
        }
        Ok(())
    }

    fn note_access(&self, accesses: &[Access]) -> Result<(), ColdError> {
        let mut tables = self.tables();
        for access in accesses {
            if let Some(rows) = tables.tags.get_mut(&access.tag) {
                rows.note(access.read_at_ms, access.written_at_ms);
            }
        }
        Ok(())
    }

    fn tag(&self, tag: &[u8]) -> Result<Option<TagRow>, ColdError> {
        Ok(self.tables().tags.get(tag).map(|rows| rows.row(tag)))
    }

    fn tags_after(&self, tag: Option<&[u8]>, limit: usize) -> Result<Vec<TagRow>, ColdError> {
        let tables = self.tables();
        let start = tag.map_or(Bound::Unbounded, Bound::Excluded);
        let following = tables.tags.range::<[u8], _>((start, Bound::Unbounded));
        Ok(following.take(limit).map(|(tag, rows)| rows.row(tag)).collect())
    }

    fn keys_after(&self, after: Option<(&[u8], &[u8])>, limit: usize) -> Result<Vec<KeyRow>, ColdError> {
        let tables = self.tables();
        let start = after.map_or(Bound::Unbounded, |(tag, _)| Bound::Included(tag));
        let following = tables.tags.range::<[u8], _>((start, Bound::Unbounded));
        let keys = following.flat_map(|(tag, rows)| rows.values().map(move |(key, value)| (tag, key, value)));
        let rows = keys
            .filter(|(tag, key, _)| after.is_none_or(|place| (tag.as_slice(), key.as_slice()) > place))
            .take(limit)
            .map(|(tag, key, value)| KeyRow {
                tag: tag.clone(),
                key: key.clone(),
                kind: value.kind,
                expires_at_ms: value.expires_at_ms,
            });
        Ok(rows.collect())
    }

    fn erase(&self, tag: &[u8]) -> Result<u64, ColdError> {
        Ok(self
            .tables()
            .tags
            .remove(tag)
            .map_or(0, |rows| rows.values().count() as u64))
    }

    fn wipe(&self, up_to: Version) -> Result<(), ColdError> {
        self.tables().tags.retain(|_, rows| rows.saved > up_to);
        Ok(())
    }

    fn purge(&self, expired_before_ms: i64, buried_before_ms: i64, limit: usize) -> Result<usize, ColdError> {
        let mut purged = 0;
        for rows in self.tables().tags.values_mut() {
            rows.keys.retain(|_, kept| {
                let is_over = match kept {
                    Kept::Value(value) => value.expires_at_ms.is_some_and(|at| at < expired_before_ms),
                    Kept::Tombstone { buried_at_ms } => *buried_at_ms < buried_before_ms,
                };
                let goes = is_over && purged < limit;
                purged += usize::from(goes);
                !goes
            });
        }
        Ok(purged)
    }

    fn forget_empty(&self, up_to: Version, from: u64, limit: usize) -> Result<(usize, u64), ColdError> {
        let tags = &mut self.tables().tags;
        let (count, kept) = (tags.len(), from.saturating_sub(1) as usize);
        let looked_at = tags.iter().skip(kept).take(limit);
        let empty = looked_at.filter(|(_, rows)| rows.keys.is_empty() && rows.saved <= up_to);
        let empty: Vec<Vec<u8>> = empty.map(|(tag, _)| tag.clone()).collect();
        empty.iter().for_each(|tag| {
            tags.remove(tag);
        });
        // A place is the number of tags that were kept before it, plus one.
        let at_end = kept + limit >= count;
        let next = if at_end { 0 } else { kept + limit - empty.len() + 1 } as u64;
        Ok((empty.len(), next))
    }

    fn newest(&self) -> Result<Version, ColdError> {
        Ok(self
            .tables()
            .tags
            .values()
            .map(|rows| rows.saved)
            .max()
            .unwrap_or_default())
    }

    fn totals(&self) -> Result<Totals, ColdError> {
        let tables = self.tables();
        let mut totals = Totals::default();
        for rows in tables.tags.values() {
            let values = rows.values().count();
            totals.tags += 1;
            totals.keys += values as u64;
            totals.tombstones += (rows.keys.len() - values) as u64;
            totals.bytes += rows.bytes();
        }
        Ok(totals)
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, ColdError> {
        Ok(self.tables().facts.get(name).cloned())
    }

    fn set_fact(&self, name: &str, value: &[u8]) -> Result<(), ColdError> {
        self.tables().facts.insert(name.to_owned(), value.to_vec());
        Ok(())
    }

    fn check(&self) -> Result<Vec<Finding>, ColdError> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_memory(case: fn(&dyn ColdTier)) {
        case(&MemoryCold::default());
    }

    crate::cold_suite!(with_memory);
}
