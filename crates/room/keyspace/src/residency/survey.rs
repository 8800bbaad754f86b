//! Which tags there are: those used last, the largest ones, and what is known of one.
//!
//! Tags are not kept in such an order, and walking through millions of keys would make clients
//! wait. A call looks at a bounded number of keys, a few hundred per hold of a shard's lock, and the
//! next call goes on where it stopped; the best tags that were met are remembered and looked at anew
//! each time. So a small room is told exactly, and a large one better and better the more often it is
//! asked. The cold tier is walked in the same way, a page per call.

use std::collections::HashMap;

use nagaya_store::entry::{Entry, SyncFlags};
use nagaya_store::hasher::hash_bytes;
use nagaya_store::rng::with_thread_rng;
use nagaya_store::table::Keyed;
use nagaya_tiering::cold::{ColdError, Row, TagRow};

use crate::databases::{split_name, tag_name};
use crate::hash_tag::hash_tag;
use crate::keyspace::Keyspace;
use crate::residency::evict::{entries, residency};
use crate::residency::save::rest_of;
use crate::residency::statistics::{KNOWN_MAX, WalkPlace};
use crate::shard::{Busy, Shard, ShardGuard};

/// Keys that one call walks over.
const KEYS_PER_CALL: usize = 20_000;
/// Keys visited during one hold of a lock, about.
const KEYS_PER_HOLD: usize = 512;
/// Keys that one call looks at in each shard at random, beside its walk.
const SAMPLE: usize = 32;
/// Keys of one tag whose sizes are added up; those of the others are taken to be like them.
const SIZED_KEYS_MAX: usize = 1_000;
/// Where a tag's data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagPlace {
    Memory,
    Disk,
    Both,
}

impl TagPlace {
    /// The word in replies.
    pub fn name(self) -> &'static str {
        match self {
            TagPlace::Memory => "memory",
            TagPlace::Disk => "disk",
            TagPlace::Both => "both",
        }
    }
}

/// What is told of a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagFigures {
    /// The tag's name, which tells its space, too.
    pub tag: Vec<u8>,
    pub keys: u64,
    /// What its keys take in memory, about; or on disk, when it is only there.
    pub bytes: u64,
    /// How long it has not been used, in seconds; nothing when that is not known.
    pub idle_s: Option<u64>,
    pub place: TagPlace,
    /// Something of it is not in the cold tier yet, and will be.
    pub is_dirty: bool,
}

/// What is told of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFigures {
    pub key: Vec<u8>,
    /// As TYPE says it.
    pub kind: &'static str,
    pub bytes: u64,
    pub expires_at_ms: Option<i64>,
}

/// Why nothing can be told of a tag now.
#[derive(Debug, thiserror::Error)]
pub enum TagError {
    #[error("a script holds everything up; try again later")]
    Busy,
    #[error(transparent)]
    Cold(#[from] ColdError),
}

impl From<Busy> for TagError {
    fn from(_: Busy) -> TagError {
        TagError::Busy
    }
}

/// What makes a tag come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagOrder {
    Hottest,
    Biggest,
}

/// What a walk has seen of a tag, which need not be all of it.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    keys: u64,
    bytes: u64,
    stamp: u32,
}

impl Keyspace {
    /// Returns tags of a space that are in memory, the first ones of an order first.
    pub fn top_tags(&self, space: usize, order: TagOrder, limit: usize) -> Result<Vec<TagFigures>, Busy> {
        let mut seen = HashMap::new();
        let mut place = self.tag_statistics.0.lock().place;
        let mut left = KEYS_PER_CALL;
        let is_all = self.shards.keys() <= KEYS_PER_CALL;
        if is_all {
            place = WalkPlace::default();
        }
        while left > 0 {
            let walked = self.walk_some(&mut place, |of, entry| {
                if of == space {
                    see(&mut seen, space, entry);
                }
            })?;
            left = left.saturating_sub(walked.max(1));
            if place == WalkPlace::default() {
                break;
            }
        }
        self.tag_statistics.0.lock().place = place;
        if self.tiering.get().is_none() {
            return Ok(self.order_seen(seen, order, limit));
        }
        if !is_all {
            self.sample_tags(space, &mut seen)?;
        }
        let mut tags = best(seen, order, 2 * limit.max(KNOWN_MAX / 2));
        if order == TagOrder::Biggest {
            let notes = self.tag_statistics.0.lock();
            let large = notes.large.iter().filter(|name| split_name(name).0 == space);
            tags.extend(large.cloned());
            tags.sort_unstable();
            tags.dedup();
        }
        let figures = tags.iter().map(|tag| self.tag_in_memory(tag));
        let mut figures: Vec<TagFigures> = figures.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        sort(&mut figures, order);
        if order == TagOrder::Biggest {
            let large = figures.iter().take(KNOWN_MAX).map(|found| found.tag.clone());
            self.tag_statistics.0.lock().large = large.collect();
        }
        figures.truncate(limit);
        Ok(figures)
    }

    /// Visits the keys of one hold of a lock with their space, and moves the place on; after the last key it is the first
    /// one again. Returns how many were visited.
    pub fn walk_some(
        &self,
        place: &mut WalkPlace,
        mut visit: impl FnMut(usize, &Entry),
    ) -> Result<usize, Busy> {
        let (mut met, spaces) = (0, self.databases.spaces().len());
        let space = place.space % spaces;
        let shard = self.shards.lock_one(place.shard % self.shards.count(), space)?;
        loop {
            place.cursor = shard.keys.scan(place.cursor, |entry| {
                met += 1;
                visit(space, entry);
            });
            if place.cursor == 0 {
                place.shard = (place.shard + 1) % self.shards.count();
                if place.shard == 0 {
                    place.space = (space + 1) % spaces;
                }
                return Ok(met);
            }
            if met >= KEYS_PER_HOLD {
                return Ok(met);
            }
        }
    }

    fn sample_tags(&self, space: usize, seen: &mut HashMap<Vec<u8>, Seen>) -> Result<(), Busy> {
        for shard in 0..self.shards.count() {
            let shard = self.shards.lock_one(shard, space)?;
            with_thread_rng(|rng| shard.keys.sample(rng, SAMPLE, |entry| see(seen, space, entry)));
        }
        Ok(())
    }

    /// Returns what is known of a tag, with the row that the cold tier has of it; nothing when it is nowhere.
    ///
    /// Asks the cold tier in place: for threads that may wait.
    pub fn tag_figures(&self, tag: &[u8]) -> Result<Option<(TagFigures, Option<TagRow>)>, TagError> {
        let Some(tiering) = self.tiering.get() else {
            return Ok(self.tag_in_memory(tag)?.map(|figures| (figures, None)));
        };
        let row = tiering
            .cold
            .tag(tag)?
            .filter(|row| !tiering.is_void(split_name(tag).0, row.saved));
        let figures = match &row {
            Some(row) => self.figures_or(row)?,
            None => self.tag_in_memory(tag)?,
        };
        Ok(figures.map(|figures| (figures, row)))
    }

    /// Returns what memory has of a tag; nothing when it has none of its keys.
    ///
    /// Without a cold tier there is no index of a tag's keys, so all keys of its shard are examined.
    pub fn tag_in_memory(&self, tag: &[u8]) -> Result<Option<TagFigures>, Busy> {
        if self.tiering.get().is_none() {
            let mut seen = HashMap::new();
            let (space, _) = split_name(tag);
            self.walk_tag(tag, |entry| see(&mut seen, space, entry))?;
            return Ok(self.order_seen(seen, TagOrder::Biggest, 1).pop());
        }
        let shard = self.lock_tag(tag)?;
        Ok(self.figures(&shard, tag))
    }

    /// Lists some keys of a tag that are in memory, and tells how many there are.
    pub fn tag_keys_in_memory(&self, tag: &[u8], limit: usize) -> Result<(Vec<KeyFigures>, u64), Busy> {
        let (mut listed, mut total) = (Vec::new(), 0);
        let list = |entry: &Entry| {
            total += 1;
            if listed.len() < limit {
                listed.push(KeyFigures {
                    key: entry.key().to_vec(),
                    kind: entry.kind().name(),
                    bytes: entry.mem_bytes() as u64,
                    expires_at_ms: entry.expiry(),
                });
            }
        };
        self.each_key_of(tag, list)?;
        listed.sort_by(|a, b| a.key.cmp(&b.key));
        Ok((listed, total))
    }

    /// Returns the keys of a tag that are in memory with their values, as the cold tier would have them.
    ///
    /// A tag with many keys is read in parts: a change meanwhile may be in it or not.
    pub fn tag_rows_in_memory(&self, tag: &[u8]) -> Result<Vec<Row>, Busy> {
        let mut names = Vec::new();
        self.each_key_of(tag, |entry| names.push(entry.key().to_vec()))?;
        names.sort_unstable();
        let mut rows = Vec::with_capacity(names.len());
        for some in names.chunks(KEYS_PER_HOLD) {
            let shard = self.lock_tag(tag)?;
            rows.extend(some.iter().filter_map(|key| {
                let entry = shard.keys.get(hash_bytes(key), key)?;
                Some(Row {
                    key: key.clone(),
                    value: rest_of(entry),
                })
            }));
        }
        Ok(rows)
    }

    fn each_key_of(&self, tag: &[u8], mut visit: impl FnMut(&Entry)) -> Result<(), Busy> {
        if self.tiering.get().is_none() {
            return self.walk_tag(tag, visit);
        }
        let shard = self.lock_tag(tag)?;
        entries(&shard.keys, &shard.tiers, split_name(tag).1).for_each(&mut visit);
        Ok(())
    }

    fn lock_tag(&self, name: &[u8]) -> Result<ShardGuard<'_>, Busy> {
        let (space, _) = split_name(name);
        self.shards.lock_one(self.shards.shard_of_tag(name), space)
    }

    /// Walks through the shard of a tag and visits the tag's keys.
    fn walk_tag(&self, tag: &[u8], mut visit: impl FnMut(&Entry)) -> Result<(), Busy> {
        let shard = self.shards.shard_of_tag(tag);
        let (space, tag) = split_name(tag);
        let mut place = WalkPlace {
            space,
            shard,
            cursor: 0,
        };
        loop {
            self.walk_some(&mut place, |_, entry| {
                if hash_tag(entry.key()) == tag {
                    visit(entry);
                }
            })?;
            if place.cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Returns the changed tags of a space that begin with something and that the cold tier has not seen.
    pub fn new_tags(&self, space: usize, prefix: &[u8], limit: usize) -> Result<Vec<TagFigures>, Busy> {
        let (mut found, mut looked_at) = (Vec::new(), 0);
        for number in 0..self.shards.count() {
            let shard = self.shards.lock_one(number, space)?;
            let names = shard.tiers.queue.iter().take(KEYS_PER_CALL - looked_at);
            for tag in names {
                looked_at += 1;
                if tag.starts_with(prefix)
                    && let Some(figures) = self.figures(&shard, &tag_name(space, tag))
                    && figures.place == TagPlace::Memory
                {
                    found.push(figures);
                }
            }
            if found.len() >= limit || looked_at >= KEYS_PER_CALL {
                break;
            }
        }
        found.sort_by(|a, b| a.tag.cmp(&b.tag));
        found.dedup_by(|a, b| a.tag == b.tag);
        found.truncate(limit);
        Ok(found)
    }

    /// Describes a tag from memory, or from the cold tier when memory has none of it.
    pub fn figures_or(&self, row: &TagRow) -> Result<Option<TagFigures>, Busy> {
        let tag = row.tag.as_slice();
        let shard = self.lock_tag(tag)?;
        if let Some(figures) = self.figures(&shard, tag) {
            return Ok(Some(figures));
        }
        // Resident and without keys: what the cold tier has is about to be removed.
        let is_gone = residency(&shard, split_name(tag).1).resident;
        let used_at_ms = row.read_at_ms.max(row.written_at_ms).or(row.saved_at_ms);
        let now_ms = self.clock.unix_us() / 1000;
        Ok((row.keys > 0 && !is_gone).then(|| TagFigures {
            tag: tag.to_vec(),
            keys: row.keys,
            bytes: row.bytes,
            idle_s: used_at_ms.map(|at_ms| u64::try_from((now_ms - at_ms) / 1000).unwrap_or(0)),
            place: TagPlace::Disk,
            is_dirty: false,
        }))
    }

    fn figures(&self, shard: &Shard, name: &[u8]) -> Option<TagFigures> {
        let (_, tag) = split_name(name);
        let (mut seen, mut copied, mut keys) = (Seen::default(), false, 0);
        for entry in entries(&shard.keys, &shard.tiers, tag) {
            keys += 1;
            if seen.keys < SIZED_KEYS_MAX as u64 {
                seen.add(entry);
                copied |= entry.has_flag(SyncFlags::COPIED);
            }
        }
        if keys == 0 {
            return None;
        }
        Some(TagFigures {
            tag: name.to_vec(),
            keys,
            bytes: (seen.bytes as f64 * keys as f64 / seen.keys as f64) as u64,
            idle_s: self.idle_s(seen.stamp),
            place: if copied { TagPlace::Both } else { TagPlace::Memory },
            is_dirty: !residency(shard, tag).saved,
        })
    }

    fn order_seen(&self, seen: HashMap<Vec<u8>, Seen>, order: TagOrder, limit: usize) -> Vec<TagFigures> {
        let figures = seen.into_iter().map(|(tag, seen)| TagFigures {
            tag,
            keys: seen.keys,
            bytes: seen.bytes,
            idle_s: self.idle_s(seen.stamp),
            place: TagPlace::Memory,
            is_dirty: false,
        });
        let mut figures: Vec<TagFigures> = figures.collect();
        sort(&mut figures, order);
        figures.truncate(limit);
        figures
    }

    /// Under a policy that counts uses, a stamp does not say when the last one was.
    fn idle_s(&self, stamp: u32) -> Option<u64> {
        let now_s = self.clock.unix_us() / 1_000_000;
        (!self.memory.counts_uses()).then(|| u64::try_from(now_s - i64::from(stamp)).unwrap_or(0))
    }
}

impl Seen {
    fn add(&mut self, entry: &Entry) {
        self.keys += 1;
        self.bytes += entry.mem_bytes() as u64;
        self.stamp = self.stamp.max(entry.stamp());
    }
}

fn see(seen: &mut HashMap<Vec<u8>, Seen>, space: usize, entry: &Entry) {
    let tag = tag_name(space, hash_tag(entry.key()));
    match seen.get_mut(&*tag) {
        Some(known) => known.add(entry),
        None => seen.entry(tag.into_owned()).or_default().add(entry),
    }
}

fn best(seen: HashMap<Vec<u8>, Seen>, order: TagOrder, limit: usize) -> Vec<Vec<u8>> {
    let mut seen: Vec<(Vec<u8>, Seen)> = seen.into_iter().collect();
    seen.sort_unstable_by_key(|(_, seen)| match order {
        TagOrder::Hottest => std::cmp::Reverse(u64::from(seen.stamp)),
        TagOrder::Biggest => std::cmp::Reverse(seen.bytes),
    });
    seen.truncate(limit);
    seen.into_iter().map(|(tag, _)| tag).collect()
}

/// Puts the first ones of an order first; equal ones by size, then by name.
pub fn sort(figures: &mut [TagFigures], order: TagOrder) {
    let by_size = |a: &TagFigures, b: &TagFigures| b.bytes.cmp(&a.bytes).then_with(|| a.tag.cmp(&b.tag));
    figures.sort_unstable_by(|a, b| match order {
        TagOrder::Hottest => {
            let idle = |one: &TagFigures| one.idle_s.unwrap_or(u64::MAX);
            idle(a).cmp(&idle(b)).then_with(|| by_size(a, b))
        }
        TagOrder::Biggest => by_size(a, b),
    });
}
