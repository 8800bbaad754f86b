//! The rows that statements return, and how domain values are stored in columns.

use nagaya_sql::row;
use nagaya_tiering::cold::{Kind, Status, Version};

use super::totals::TotalsDelta;
use crate::numbers;

row! {
    sqlite;
    /// A tag in a listing.
    pub(super) struct ListedTag {
        tag: Vec<u8>,
        generation: u64,
        saved_generation: u64,
        saved_snap: u64,
        status: Status = numbers::status else "not the number of a status",
        read_at_ms: Option<i64>,
        written_at_ms: Option<i64>,
        saved_at_ms: Option<i64>,
        keys: u64,
        bytes: u64,
    }
}

row! {
    sqlite;
    /// A key in a listing.
    pub(super) struct ListedKey {
        tag: Vec<u8>,
        key: Vec<u8>,
        kind: Kind = numbers::kind else "not the number of a type",
        expires_at_ms: Option<i64>,
    }
}

row! {
    sqlite;
    /// A tag with one of its keys; one without a key for a tag that has none.
    pub(super) struct LoadedKey {
        generation: u64,
        saved_generation: u64,
        saved_snap: u64,
        key: Option<Vec<u8>>,
        kind: Option<Kind> = optional_kind else "not the number of a type",
        expires_at_ms: Option<i64>,
        payload: Option<Vec<u8>>,
    }
}

row! {
    sqlite;
    /// The columns of a tag that a snapshot is compared with.
    pub(super) struct FenceRow {
        id: i64,
        generation: u64,
        saved_generation: u64,
        saved_snap: u64,
        keys: i64,
        bytes: i64,
        tombstones: i64,
    }
}

row! {
    sqlite;
    /// A tag to be removed, and what the rows of its keys sum up to.
    pub(super) struct NamedTag {
        id: i64,
        tag: Vec<u8>,
        keys: i64,
        bytes: i64,
        tombstones: i64,
    }
}

row! {
    sqlite;
    /// A key to be purged, and the size of its payload if it has one.
    pub(super) struct DueKey {
        tag_id: i64,
        key: Vec<u8>,
        payload_bytes as "length(payload)": Option<i64>,
    }
}

row! {
    sqlite;
    /// Totals of many tags.
    pub(super) struct CountedTotals {
        tags as "count(*)": i64,
        keys as "coalesce(sum(keys), 0)": i64,
        tombstones as "coalesce(sum(tombstones), 0)": i64,
        bytes as "coalesce(sum(bytes), 0)": i64,
    }
}

row! {
    sqlite;
    /// The sums as they are stored.
    pub(super) struct TotalsRow {
        tags: i64,
        keys: i64,
        tombstones: i64,
        bytes: i64,
        newest_generation: u64,
        newest_snap: u64,
    }
}

row! {
    sqlite;
    /// The lowest and the highest number of a tag.
    pub(super) struct TagRange {
        first as "coalesce(min(id), 0)": i64,
        last as "coalesce(max(id), 0)": i64,
    }
}

row! {
    sqlite;
    /// The sizes that a tag's row records, and those of its keys.
    pub(super) struct SizesRow {
        tag: Vec<u8>,
        keys: i64,
        bytes: i64,
        tombstones: i64,
        keys_found as "count(keys.payload)": i64,
        bytes_found as "coalesce(sum(length(keys.key) + length(keys.payload)), 0)": i64,
        tombstones_found as "count(keys.buried_at_ms)": i64,
    }
}

row! {
    sqlite;
    pub(super) struct PayloadRow {
        key: Vec<u8>,
        payload: Vec<u8>,
    }
}

row! {
    sqlite;
    /// What SQLite returns for a checkpoint.
    pub(super) struct CheckpointRow {
        busy: bool,
        log: i64,
        checkpointed: i64,
    }
}

impl FenceRow {
    pub(super) fn saved(&self) -> Version {
        Version {
            generation: self.saved_generation,
            snap: self.saved_snap,
        }
    }

    /// Returns what the rows of the tag's keys sum up to.
    pub(super) fn sizes(&self) -> TotalsDelta {
        TotalsDelta {
            tags: 0,
            keys: self.keys,
            bytes: self.bytes,
            tombstones: self.tombstones,
        }
    }
}

impl From<CountedTotals> for TotalsDelta {
    fn from(row: CountedTotals) -> TotalsDelta {
        TotalsDelta {
            tags: row.tags,
            keys: row.keys,
            tombstones: row.tombstones,
            bytes: row.bytes,
        }
    }
}

pub(super) fn kind_number(kind: Kind) -> i64 {
    numbers::of_kind(kind).into()
}

pub(super) fn status_number(status: Status) -> i64 {
    numbers::of_status(status).into()
}

/// Returns the kind of a key that may be a tombstone, which has none.
fn optional_kind(number: Option<i64>) -> Option<Option<Kind>> {
    match number {
        None => Some(None),
        Some(number) => numbers::kind(number).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nagaya_sql::{SCALAR, assert_columns, blocks_in};
    use rusqlite::Connection;

    use super::super::migrate::SCHEMA;
    use super::*;

    /// The row that reads each statement.
    const ROWS: &[(&str, &[&str])] = &[
        ("check/file", SCALAR),
        ("check/orphans", SCALAR),
        ("check/payloads", PayloadRow::COLUMNS),
        ("check/sizes", SizesRow::COLUMNS),
        ("check/tag_from", SCALAR),
        ("check/tag_range", TagRange::COLUMNS),
        ("check/totals", CountedTotals::COLUMNS),
        ("facts/get", SCALAR),
        ("keys/buried", DueKey::COLUMNS),
        ("keys/expired", DueKey::COLUMNS),
        ("keys/list_after_tag", ListedKey::COLUMNS),
        ("keys/list_first", ListedKey::COLUMNS),
        ("keys/list_in_tag", ListedKey::COLUMNS),
        ("keys/load", LoadedKey::COLUMNS),
        ("keys/size", SCALAR),
        ("tags/fence", FenceRow::COLUMNS),
        ("tags/generation", SCALAR),
        ("tags/get", ListedTag::COLUMNS),
        ("tags/last_of", SCALAR),
        ("tags/list_after", ListedTag::COLUMNS),
        ("tags/list_between", NamedTag::COLUMNS),
        ("tags/list_first", ListedTag::COLUMNS),
        ("tags/name", SCALAR),
        ("tags/sum_between", SCALAR),
        ("tags/sum_saved_up_to", CountedTotals::COLUMNS),
        ("totals/get", TotalsRow::COLUMNS),
    ];

    #[test]
    fn rows_have_the_columns_of_their_statements() {
        let connection = Connection::open_in_memory().unwrap();
        SCHEMA.upgrade(&connection, Path::new("cold.db")).unwrap();
        let columns = |sql: &str| -> Vec<String> {
            let statement = connection.prepare(sql).unwrap();
            statement.column_names().map(str::to_owned).collect()
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sqlite/queries");
        let mut found: std::collections::BTreeMap<_, _> = blocks_in(&folder)
            .into_iter()
            .map(|(name, sql)| (name, columns(&sql)))
            .collect();
        found.insert(
            "checkpoint".to_owned(),
            columns("PRAGMA wal_checkpoint(TRUNCATE)"),
        );
        let mut rows = ROWS.to_vec();
        rows.push(("checkpoint", CheckpointRow::COLUMNS));
        assert_columns(&found, &rows);
    }
}
