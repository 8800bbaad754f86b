//! Writing snapshots, and the rows of tags they need.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{join, join3};
use nagaya_postgres_client::{Param, Session, scalar};
use nagaya_sql::block;
use nagaya_tiering::cold::{Access, Change, Committed, Snapshot, Status, StoredValue, Version};
use tokio::time::Instant;

use super::error::Failure;
use super::json;
use super::load::at_place;
use super::miss_filter::MissFilter;
use super::rows::{FenceRow, GoneKeys, KnownTag, columns_of};
use super::totals::{self, TotalsDelta};
use crate::numbers;

const KNOWN: &str = block(include_str!("queries/tags.sql"), "known");
const ENSURE: &str = block(include_str!("queries/tags.sql"), "ensure");
const FENCE: &str = block(include_str!("queries/tags.sql"), "fence");
const SAVED: &str = block(include_str!("queries/tags.sql"), "saved");
const SET_STATUS: &str = block(include_str!("queries/tags.sql"), "set_status");
const NOTE_ACCESS: &str = block(include_str!("queries/tags.sql"), "note_access");
const UPSERT: &str = block(include_str!("queries/keys.sql"), "upsert");

/// Payload bytes that one statement takes, so that neither side holds a large commit twice.
const STATEMENT_BYTES: usize = 4 << 20;
/// Begins a transaction whose commit is not synced. A crash of the server may lose it; no decision depends on it.
const BEGIN_UNSYNCED: &str = "BEGIN; SET LOCAL synchronous_commit = off";

/// Makes rows for tags that have none. Returns the time to wait for until every server can know of those
/// that were never saved, if there are any.
pub(super) async fn ensure(
    session: &Session,
    miss_filter: &MissFilter,
    tags: &[&[u8]],
) -> Result<Option<Instant>, Failure> {
    let tags: Vec<&[u8]> = tags
        .iter()
        .copied()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut is_saved = vec![None; tags.len()];
    for row in session.query(KNOWN, &[&tags]).await? {
        let row = KnownTag::read(&row);
        *at_place(&mut is_saved, row.place)? = Some(row.is_saved);
    }
    let with = |state| {
        let places = is_saved
            .iter()
            .zip(&tags)
            .filter(move |(found, _)| **found == state);
        places.map(|(_, tag)| *tag).collect::<Vec<_>>()
    };
    let missing = with(None);
    if !missing.is_empty() {
        session.prepare(ENSURE).await?;
        let (begun, made) = join(session.batch("BEGIN"), session.query_one(ENSURE, &[&missing])).await;
        begun?;
        let tags = scalar(&made?);
        let made = TotalsDelta {
            tags,
            ..TotalsDelta::default()
        };
        finish(session, made, (0, 0)).await?;
    }
    let mut unsaved = missing;
    unsaved.extend(with(Some(false)));
    Ok(miss_filter.seen(&unsaved))
}

/// Writes those of the snapshots that are newer than what is saved.
pub(super) async fn commit(
    session: &Session,
    snapshots: &[Snapshot],
    decode: bool,
    now_ms: i64,
) -> Result<Vec<Committed>, Failure> {
    for snapshot in snapshots {
        columns_of(snapshot.version)?;
    }
    let tags: BTreeSet<&[u8]> = snapshots.iter().map(|snapshot| &snapshot.tag[..]).collect();
    if tags.is_empty() {
        return Ok(Vec::new());
    }
    let tags: Vec<&[u8]> = tags.into_iter().collect();
    session.prepare(SAVED).await?;
    totals::prepare(session).await?;
    session.prepare(FENCE).await?;
    let (begun, fences) = join(session.batch("BEGIN"), session.query(FENCE, &[&tags])).await;
    begun?;
    let fences = fences?;
    let mut saves: BTreeMap<&[u8], Save<'_>> = BTreeMap::new();
    for row in fences.iter().map(FenceRow::read) {
        saves.insert(row.tag, Save::new(row.generation, row.saved()));
    }
    let outcomes = snapshots
        .iter()
        .map(|snapshot| match saves.get_mut(&snapshot.tag[..]) {
            Some(save) => save.judge(snapshot),
            None => Committed::Refused,
        });
    let outcomes: Vec<Committed> = outcomes.collect();
    saves.retain(|_, save| save.is_newer);
    write_keys(session, &mut saves, decode, now_ms).await?;
    let mut change = TotalsDelta::default();
    saves.values().for_each(|save| change.add(save.change));
    let newest = saves.values().map(|save| save.saved).max().unwrap_or_default();
    // One round trip for the three statements at the end; a failure of one undoes all.
    let (written, finished) = join(
        write_tags(session, &saves, now_ms),
        finish(session, change, columns_of(newest)?),
    )
    .await;
    written?;
    finished?;
    Ok(outcomes)
}

/// Records the status of tags.
pub(super) async fn set_status(session: &Session, tags: &[&[u8]], status: Status) -> Result<(), Failure> {
    unsynced(session, SET_STATUS, &[&tags, &numbers::of_status(status)]).await
}

/// Records uses of tags.
pub(super) async fn note_access(session: &Session, accesses: &[Access]) -> Result<(), Failure> {
    // The statement would take one of several uses of a tag, any of them.
    let mut latest: BTreeMap<&[u8], (Option<i64>, Option<i64>)> = BTreeMap::new();
    for access in accesses {
        let (read, written) = latest.entry(&access.tag).or_default();
        *read = (*read).max(access.read_at_ms);
        *written = (*written).max(access.written_at_ms);
    }
    if latest.is_empty() {
        return Ok(());
    }
    let tags: Vec<&[u8]> = latest.keys().copied().collect();
    let (reads, writes): (Vec<_>, Vec<_>) = latest.into_values().unzip();
    unsynced(session, NOTE_ACCESS, &[&tags, &reads, &writes]).await
}

async fn unsynced(session: &Session, sql: &str, params: &[Param<'_>]) -> Result<(), Failure> {
    session.prepare(sql).await?;
    let (begun, done, committed) = join3(
        session.batch(BEGIN_UNSYNCED),
        session.execute(sql, params),
        session.batch("COMMIT"),
    )
    .await;
    begun?;
    done?;
    Ok(committed?)
}

/// Adds to the totals and commits.
pub(super) async fn finish(
    session: &Session,
    change: TotalsDelta,
    newest: (i64, i64),
) -> Result<(), Failure> {
    totals::prepare(session).await?;
    let (added, committed) = join(totals::add(session, change, newest), session.batch("COMMIT")).await;
    added?;
    Ok(committed?)
}

/// What a call writes for one tag: all its accepted snapshots, the later over the earlier.
struct Save<'a> {
    generation: u64,
    saved: Version,
    is_newer: bool,
    keys: BTreeMap<&'a [u8], (Version, Option<&'a StoredValue>)>,
    read_at_ms: Option<i64>,
    written_at_ms: Option<i64>,
    change: TotalsDelta,
}

impl<'a> Save<'a> {
    fn new(generation: u64, saved: Version) -> Save<'a> {
        Save {
            generation,
            saved,
            is_newer: false,
            keys: BTreeMap::new(),
            read_at_ms: None,
            written_at_ms: None,
            change: TotalsDelta::default(),
        }
    }

    fn judge(&mut self, snapshot: &'a Snapshot) -> Committed {
        let version = snapshot.version;
        if version.generation != self.generation || version <= self.saved {
            return Committed::Refused;
        }
        self.saved = version;
        self.is_newer = true;
        self.read_at_ms = self.read_at_ms.max(snapshot.read_at_ms);
        self.written_at_ms = self.written_at_ms.max(snapshot.written_at_ms);
        for Change { key, value } in &snapshot.changes {
            self.keys.insert(key, (version, value.as_ref()));
        }
        Committed::Saved
    }
}

/// Rows of keys as the columns of one statement.
#[derive(Default)]
struct KeyColumns<'a> {
    tags: Vec<&'a [u8]>,
    keys: Vec<&'a [u8]>,
    kinds: Vec<Option<i16>>,
    expiries: Vec<Option<i64>>,
    generations: Vec<i64>,
    snaps: Vec<i64>,
    payloads: Vec<Option<&'a [u8]>>,
    decoded: Vec<Option<String>>,
    bytes: usize,
}

impl<'a> KeyColumns<'a> {
    fn push(
        &mut self,
        tag: &'a [u8],
        key: &'a [u8],
        version: Version,
        value: Option<&'a StoredValue>,
        decode: bool,
    ) -> Result<(), Failure> {
        let (generation, snap) = columns_of(version)?;
        let payload = value.map(|value| &value.payload[..]);
        self.bytes += key.len() + payload.map_or(0, <[u8]>::len);
        self.tags.push(tag);
        self.keys.push(key);
        self.kinds.push(value.map(|value| numbers::of_kind(value.kind)));
        self.expiries.push(value.and_then(|value| value.expires_at_ms));
        self.generations.push(generation);
        self.snaps.push(snap);
        self.payloads.push(payload);
        self.decoded
            .push(payload.filter(|_| decode).and_then(json::for_column));
        Ok(())
    }

    /// Writes the rows and subtracts from the tags' totals what they replaced.
    async fn write(
        self,
        session: &Session,
        saves: &mut BTreeMap<&[u8], TotalsDelta>,
        now_ms: i64,
    ) -> Result<(), Failure> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let params: [Param<'_>; 9] = [
            &self.tags,
            &self.keys,
            &self.kinds,
            &self.expiries,
            &self.generations,
            &self.snaps,
            &self.payloads,
            &self.decoded,
            &now_ms,
        ];
        for row in session.query(UPSERT, &params).await? {
            let gone = GoneKeys::read(&row);
            if let Some(change) = saves.get_mut(gone.tag) {
                change.add(gone.delta().negated());
            }
        }
        Ok(())
    }
}

async fn write_keys(
    session: &Session,
    saves: &mut BTreeMap<&[u8], Save<'_>>,
    decode: bool,
    now_ms: i64,
) -> Result<(), Failure> {
    let mut changes: BTreeMap<&[u8], TotalsDelta> =
        saves.keys().map(|tag| (*tag, TotalsDelta::default())).collect();
    let mut columns = KeyColumns::default();
    for (tag, save) in saves.iter() {
        for (key, (version, value)) in &save.keys {
            columns.push(tag, key, *version, *value, decode)?;
            if let Some(change) = changes.get_mut(tag) {
                change.add_row(key, value.map(|value| &value.payload[..]));
            }
            if columns.bytes >= STATEMENT_BYTES {
                std::mem::take(&mut columns)
                    .write(session, &mut changes, now_ms)
                    .await?;
            }
        }
    }
    columns.write(session, &mut changes, now_ms).await?;
    for (tag, change) in changes {
        if let Some(save) = saves.get_mut(tag) {
            save.change = change;
        }
    }
    Ok(())
}

async fn write_tags(
    session: &Session,
    saves: &BTreeMap<&[u8], Save<'_>>,
    now_ms: i64,
) -> Result<(), Failure> {
    if saves.is_empty() {
        return Ok(());
    }
    let tags: Vec<&[u8]> = saves.keys().copied().collect();
    let versions = saves.values().map(|save| columns_of(save.saved));
    let (generations, snaps): (Vec<_>, Vec<_>) = versions.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    let column = |read: fn(&Save<'_>) -> i64| saves.values().map(read).collect::<Vec<_>>();
    let times = |read: fn(&Save<'_>) -> Option<i64>| saves.values().map(read).collect::<Vec<_>>();
    let params: [Param<'_>; 9] = [
        &tags,
        &generations,
        &snaps,
        &times(|save| save.read_at_ms),
        &times(|save| save.written_at_ms),
        &column(|save| save.change.keys),
        &column(|save| save.change.bytes),
        &column(|save| save.change.tombstones),
        &now_ms,
    ];
    session.execute(SAVED, &params).await?;
    Ok(())
}
