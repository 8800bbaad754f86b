//! Writing snapshots, and the rows of tags they need.
//!
//! Work is done in the order of the tags' bytes: neighbours are on the same pages
//! of the index, so a page is read and changed once per commit.

use nagaya_sql::block;
use nagaya_sqlite_client::scalar;
use nagaya_tiering::cold::{Access, Change, Committed, Snapshot, Status, Version};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Result, params};

use super::rows::{FenceRow, kind_number, status_number};
use super::totals::{self, TotalsDelta};

const ENSURE: &str = block(include_str!("queries/tags.sql"), "ensure");
const FENCE: &str = block(include_str!("queries/tags.sql"), "fence");
const SAVED: &str = block(include_str!("queries/tags.sql"), "saved");
const SET_STATUS: &str = block(include_str!("queries/tags.sql"), "set_status");
const NOTE_ACCESS: &str = block(include_str!("queries/tags.sql"), "note_access");
const SIZE: &str = block(include_str!("queries/keys.sql"), "size");
const UPSERT: &str = block(include_str!("queries/keys.sql"), "upsert");
const BURY: &str = block(include_str!("queries/keys.sql"), "bury");

/// JSON beside the payloads of a call's snapshots, by snapshot and change; empty when none is kept.
pub(super) type Decoded = Vec<Vec<Option<String>>>;

/// Makes rows for tags that have none.
pub(super) fn ensure(connection: &Connection, tags: &[&[u8]]) -> Result<()> {
    let mut insert = connection.prepare_cached(ENSURE)?;
    let mut made = TotalsDelta::default();
    for at in in_order(tags, |tag| tag) {
        made.tags += insert.execute([tags[at]])? as i64;
    }
    totals::add(connection, made)
}

/// Writes those of the snapshots that are newer than what is saved.
pub(super) fn commit(
    connection: &Connection,
    snapshots: &[Snapshot],
    decoded: &Decoded,
    now_ms: i64,
) -> Result<Vec<Committed>> {
    let mut save = Save::prepare(connection, now_ms)?;
    let mut outcomes = vec![Committed::Refused; snapshots.len()];
    let mut newest = None;
    for at in in_order(snapshots, |snapshot| &snapshot.tag) {
        let json = decoded.get(at).map_or(&[][..], Vec::as_slice);
        outcomes[at] = save.snapshot(&snapshots[at], json)?;
        if outcomes[at] == Committed::Saved {
            newest = newest.max(Some(snapshots[at].version));
        }
    }
    totals::add(connection, save.change)?;
    if let Some(version) = newest {
        totals::raise_newest(connection, version)?;
    }
    Ok(outcomes)
}

/// Records the status of tags.
pub(super) fn set_status(connection: &Connection, tags: &[&[u8]], status: Status) -> Result<()> {
    let mut update = connection.prepare_cached(SET_STATUS)?;
    for at in in_order(tags, |tag| tag) {
        update.execute(params![tags[at], status_number(status)])?;
    }
    Ok(())
}

/// Records uses of tags.
pub(super) fn note_access(connection: &Connection, accesses: &[Access]) -> Result<()> {
    let mut update = connection.prepare_cached(NOTE_ACCESS)?;
    for at in in_order(accesses, |access| &access.tag) {
        let access = &accesses[at];
        update.execute(params![access.tag, access.read_at_ms, access.written_at_ms])?;
    }
    Ok(())
}

/// Returns the places of items in the order of their tags; those of one tag stay in their order.
fn in_order<T>(items: &[T], tag: impl Fn(&T) -> &[u8]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|&left, &right| tag(&items[left]).cmp(tag(&items[right])));
    order
}

/// The statements of a commit, looked up once for all its snapshots.
struct Save<'a> {
    fence: CachedStatement<'a>,
    saved: CachedStatement<'a>,
    size: CachedStatement<'a>,
    upsert: CachedStatement<'a>,
    bury: CachedStatement<'a>,
    now_ms: i64,
    change: TotalsDelta,
}

impl<'a> Save<'a> {
    fn prepare(connection: &'a Connection, now_ms: i64) -> Result<Save<'a>> {
        Ok(Save {
            fence: connection.prepare_cached(FENCE)?,
            saved: connection.prepare_cached(SAVED)?,
            size: connection.prepare_cached(SIZE)?,
            upsert: connection.prepare_cached(UPSERT)?,
            bury: connection.prepare_cached(BURY)?,
            now_ms,
            change: TotalsDelta::default(),
        })
    }

    fn snapshot(&mut self, snapshot: &Snapshot, json: &[Option<String>]) -> Result<Committed> {
        let Some(fence) = self.find(&snapshot.tag)? else {
            return Ok(Committed::Refused);
        };
        let version = snapshot.version;
        if fence.generation != version.generation || version <= fence.saved() {
            return Ok(Committed::Refused);
        }
        // The first save of a tag with one key is the most frequent of all and has nothing to replace.
        let replaces = fence.sizes() != TotalsDelta::default() || snapshot.changes.len() > 1;
        let mut change = TotalsDelta::default();
        for (at, key) in snapshot.changes.iter().enumerate() {
            if replaces && let Some(payload_bytes) = self.size_of(fence.id, &key.key)? {
                change.remove_row(&key.key, payload_bytes);
            }
            self.write(fence.id, version, key, json.get(at).and_then(Option::as_deref))?;
            let payload_bytes = key.value.as_ref().map(|value| value.payload.len() as i64);
            change.add_row(&key.key, payload_bytes);
        }
        self.change.add(change);
        let mut sizes = fence.sizes();
        sizes.add(change);
        self.saved.execute(params![
            fence.id,
            version.generation,
            version.snap,
            snapshot.read_at_ms,
            snapshot.written_at_ms,
            self.now_ms,
            sizes.keys,
            sizes.bytes,
            sizes.tombstones,
        ])?;
        Ok(Committed::Saved)
    }

    fn find(&mut self, tag: &[u8]) -> Result<Option<FenceRow>> {
        self.fence.query_row([tag], FenceRow::read).optional()
    }

    /// Returns the size of a row's payload in bytes, `Some(None)` for a tombstone, or `None` without a row.
    fn size_of(&mut self, tag_id: i64, key: &[u8]) -> Result<Option<Option<i64>>> {
        self.size.query_row(params![tag_id, key], scalar).optional()
    }

    fn write(&mut self, tag_id: i64, version: Version, change: &Change, json: Option<&str>) -> Result<()> {
        let Version { generation, snap } = version;
        match &change.value {
            Some(value) => self.upsert.execute(params![
                tag_id,
                change.key,
                kind_number(value.kind),
                value.expires_at_ms,
                generation,
                snap,
                value.payload,
                json,
            ])?,
            None => self
                .bury
                .execute(params![tag_id, change.key, generation, snap, self.now_ms])?,
        };
        Ok(())
    }
}
