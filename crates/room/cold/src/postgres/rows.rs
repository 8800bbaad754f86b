//! The rows that statements return, and how domain values are stored in columns.

use nagaya_sql::row;
use nagaya_tiering::cold::{Kind, Status, Version};

use super::error::Failure;
use super::totals::TotalsDelta;
use crate::numbers;

row! {
    postgres;
    /// A tag in a listing.
    pub(super) struct ListedTag {
        tag: Vec<u8>,
        generation: u64 = i64::unsigned_abs,
        saved_generation: u64 = i64::unsigned_abs,
        saved_snap: u64 = i64::unsigned_abs,
        status: Option<Status> = status_of,
        read_at_ms: Option<i64>,
        written_at_ms: Option<i64>,
        saved_at_ms: Option<i64>,
        keys: u64 = i64::unsigned_abs,
        bytes: u64 = i64::unsigned_abs,
    }
}

row! {
    postgres;
    /// A key in a listing.
    pub(super) struct ListedKey {
        tag: Vec<u8>,
        key: Vec<u8>,
        kind: Option<Kind> = kind_of,
        expires_at_ms: Option<i64>,
    }
}

row! {
    postgres;
    /// A tag of a list, with one of its keys; one without a key for a tag that has none.
    pub(super) struct LoadedKey {
        place: i64,
        generation: u64 = i64::unsigned_abs,
        saved_generation: u64 = i64::unsigned_abs,
        saved_snap: u64 = i64::unsigned_abs,
        key: Option<Vec<u8>>,
        kind: Option<Kind> = kind_of,
        expires_at_ms: Option<i64>,
        payload: Option<Vec<u8>>,
    }
}

row! {
    postgres;
    /// A key of a tag that was claimed.
    pub(super) struct ClaimedKey {
        key: Vec<u8>,
        kind: Option<Kind> = kind_of,
        expires_at_ms: Option<i64>,
        payload: Option<Vec<u8>>,
    }
}

row! {
    postgres;
    /// A tag that was claimed.
    pub(super) struct ClaimedTag {
        generation: u64 = i64::unsigned_abs,
        saved_generation: u64 = i64::unsigned_abs,
        saved_snap: u64 = i64::unsigned_abs,
    }
}

row! {
    postgres;
    /// A tag of a list, and its generation.
    pub(super) struct GenerationRow {
        place: i64,
        generation: u64 = i64::unsigned_abs,
    }
}

row! {
    postgres;
    /// A tag of a list that has a row.
    pub(super) struct KnownTag {
        place: i64,
        is_saved as "?column?": bool,
    }
}

row! {
    postgres;
    /// The columns of a locked tag that a snapshot is compared with.
    pub(super) struct FenceRow<'r> {
        tag: &'r [u8],
        generation: u64 = i64::unsigned_abs,
        saved_generation: u64 = i64::unsigned_abs,
        saved_snap: u64 = i64::unsigned_abs,
        keys: i64,
        bytes: i64,
        tombstones: i64,
    }
}

row! {
    postgres;
    /// A key to be purged.
    pub(super) struct DueKey<'r> {
        tag: &'r [u8],
        key: &'r [u8],
    }
}

row! {
    postgres;
    /// What a statement replaced or removed of a tag's keys.
    pub(super) struct GoneKeys<'r> {
        tag: &'r [u8],
        keys as "count": i64,
        bytes as "coalesce": i64,
        tombstones as "count": i64,
    }
}

row! {
    postgres;
    /// Totals of many tags that were counted.
    pub(super) struct CountedTotals {
        tags as "count": i64,
        keys as "coalesce": i64,
        tombstones as "coalesce": i64,
        bytes as "coalesce": i64,
    }
}

row! {
    postgres;
    /// The sums as they are stored, over all parts.
    pub(super) struct StoredTotals {
        tags as "coalesce": i64,
        keys as "coalesce": i64,
        tombstones as "coalesce": i64,
        bytes as "coalesce": i64,
    }
}

row! {
    postgres;
    pub(super) struct NewestRow {
        newest_generation: u64 = i64::unsigned_abs,
        newest_snap: u64 = i64::unsigned_abs,
    }
}

row! {
    postgres;
    /// The sizes that a tag's row records, and those of its keys.
    pub(super) struct SizesRow<'r> {
        tag: &'r [u8],
        keys: i64,
        bytes: i64,
        tombstones: i64,
        keys_found as "coalesce": i64,
        bytes_found as "coalesce": i64,
        tombstones_found as "coalesce": i64,
    }
}

row! {
    postgres;
    /// How far transactions have come.
    pub(super) struct TransactionHorizon {
        /// The oldest transaction under way.
        oldest as "pg_snapshot_xmin": i64,
        /// The next one to begin.
        next as "pg_snapshot_xmax": i64,
        timeline as "left": String,
    }
}

impl FenceRow<'_> {
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

impl GoneKeys<'_> {
    pub(super) fn delta(&self) -> TotalsDelta {
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

impl From<StoredTotals> for TotalsDelta {
    fn from(row: StoredTotals) -> TotalsDelta {
        TotalsDelta {
            tags: row.tags,
            keys: row.keys,
            tombstones: row.tombstones,
            bytes: row.bytes,
        }
    }
}

/// Returns the kind of a key, or why there is none.
pub(super) fn known_kind(kind: Option<Kind>) -> Result<Kind, Failure> {
    kind.ok_or(Failure::Corrupt("a key has a type that does not exist"))
}

fn kind_of(number: Option<i16>) -> Option<Kind> {
    number.and_then(|number| numbers::kind(number.into()))
}

fn status_of(number: i16) -> Option<Status> {
    numbers::status(number.into())
}

/// Makes a version fit its columns.
pub(super) fn columns_of(version: Version) -> Result<(i64, i64), Failure> {
    let fit = |number: u64, what| i64::try_from(number).map_err(|_| Failure::TooLarge(what));
    Ok((
        fit(version.generation, "a generation")?,
        fit(version.snap, "the number of a snapshot")?,
    ))
}

/// Clamps a number to what a column can hold; no stored number is larger.
pub(super) fn bounded(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Clamps a limit to the largest that SQL takes.
pub(super) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use nagaya_sql::{SCALAR, assert_columns, blocks_in};
    use nagaya_testkit::shared;

    use super::super::{Options, PostgresCold};
    use super::*;

    /// The row that reads each statement.
    const ROWS: &[(&str, &[&str])] = &[
        ("miss_filter/horizon", TransactionHorizon::COLUMNS),
        ("miss_filter/list_after", SCALAR),
        ("miss_filter/list_first", SCALAR),
        ("miss_filter/made_since", SCALAR),
        ("check/orphans", SCALAR),
        ("check/sizes", SizesRow::COLUMNS),
        ("check/totals", CountedTotals::COLUMNS),
        ("facts/get", SCALAR),
        ("keys/buried", DueKey::COLUMNS),
        ("keys/delete", GoneKeys::COLUMNS),
        ("keys/expired", DueKey::COLUMNS),
        ("keys/list_after", ListedKey::COLUMNS),
        ("keys/list_first", ListedKey::COLUMNS),
        ("keys/load", LoadedKey::COLUMNS),
        ("keys/of_tag", ClaimedKey::COLUMNS),
        ("keys/upsert", GoneKeys::COLUMNS),
        ("tags/claim", ClaimedTag::COLUMNS),
        ("tags/delete_saved_up_to", CountedTotals::COLUMNS),
        ("tags/ensure", SCALAR),
        ("tags/fence", FenceRow::COLUMNS),
        ("tags/generation", GenerationRow::COLUMNS),
        ("tags/get", ListedTag::COLUMNS),
        ("tags/known", KnownTag::COLUMNS),
        ("tags/last_of", SCALAR),
        ("tags/list_after", ListedTag::COLUMNS),
        ("tags/list_first", ListedTag::COLUMNS),
        ("totals/disk", SCALAR),
        ("totals/get", StoredTotals::COLUMNS),
        ("totals/newest", NewestRow::COLUMNS),
    ];
    /// Several statements at once, which cannot be prepared. They set parameters and return nothing that is read.
    const BATCHES: &[&str] = &["check/any_plan", "connections/setup"];

    #[test]
    fn rows_have_the_columns_of_their_statements() {
        let url = shared::postgres().create_database();
        let options = Options {
            filter: false,
            ..Options::default()
        };
        let cold = PostgresCold::open(&url, options).unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/postgres/queries");
        let blocks = blocks_in(&folder);
        let found = cold.run(async |session| {
            let mut found = BTreeMap::new();
            for (name, sql) in &blocks {
                if BATCHES.contains(&name.as_str()) {
                    session.batch(sql).await?;
                    continue;
                }
                let statement = session.driver().prepare(sql).await.unwrap();
                let columns = statement.columns().iter();
                found.insert(
                    name.clone(),
                    columns.map(|column| column.name().to_owned()).collect(),
                );
            }
            Ok(found)
        });
        assert_columns(&found.unwrap(), ROWS);
    }
}
