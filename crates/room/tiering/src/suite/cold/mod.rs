//! What every cold tier must do.

pub mod commit;
pub mod listing;
pub mod residency;
pub mod upkeep;

use crate::cold::{Change, ColdTier, Committed, Kind, Row, Snapshot, StoredValue, Version};

/// Makes one test of each case. Takes a `fn(fn(&dyn ColdTier))` that calls what it is given with a fresh and
/// empty tier.
#[macro_export]
macro_rules! cold_suite {
    ($with_tier:path) => {
        $crate::cold_suite! { @cases $with_tier;
            residency: [
                a_tag_without_a_row_has_no_generation,
                ensure_makes_rows_with_generation_one_and_leaves_others_alone,
                a_claim_moves_the_generation_by_one_and_reads_the_rows,
                a_claim_of_a_tag_without_a_row_writes_nothing,
                a_claim_on_another_base_finds_the_tag_moved,
                of_many_claims_on_one_base_one_wins,
                reading_claims_nothing,
                many_tags_are_asked_about_at_once,
            ];
            commit: [
                a_commit_without_a_row_is_refused,
                a_commit_of_another_generation_is_refused,
                a_commit_that_is_not_newer_is_refused,
                a_refused_commit_writes_nothing,
                a_snapshot_without_changes_still_counts,
                snapshots_of_one_call_are_judged_one_by_one,
                a_claim_shuts_the_snapshots_before_it_out,
                a_deleted_key_leaves_a_tombstone,
                a_tombstone_goes_when_the_key_is_back,
                a_tombstone_is_left_by_a_key_that_had_no_row,
                rows_come_back_byte_for_byte,
                expiry_comes_back_exactly,
                an_expired_row_is_still_given_back,
                many_snapshots_share_a_call,
                a_reader_sees_all_of_a_snapshot_or_nothing,
            ];
            listing: [
                a_tag_row_tells_what_was_saved,
                a_status_is_kept_until_the_next_commit,
                later_uses_win,
                uses_of_tags_without_rows_are_dropped,
                tags_are_listed_once_each_on_any_page_size,
                keys_are_listed_in_order_without_tombstones,
                binary_names_are_listed_in_byte_order,
                listing_goes_on_after_a_place_that_is_gone,
                totals_count_what_there_is,
                the_newest_version_is_the_highest_of_all_tags,
            ];
            upkeep: [
                an_erased_tag_leaves_nothing,
                a_wipe_spares_what_was_saved_after_it,
                purge_removes_what_expired_and_was_buried_before,
                purge_stops_at_its_limit,
                empty_tags_are_forgotten_once_their_version_is_not_needed,
                a_purged_tag_keeps_its_generation,
                facts_are_kept_and_replaced,
                a_sound_tier_has_no_findings,
            ];
        }
    };
    (@cases $with_tier:path; $($file:ident: [$($case:ident,)*];)*) => {
        $($(
            #[test]
            fn $case() {
                $with_tier($crate::suite::cold::$file::$case);
            }
        )*)*
    };
}

/// The time at which most cases commit, Unix milliseconds.
const NOW_MS: i64 = 1_700_000_000_000;

fn version(generation: u64, snap: u64) -> Version {
    Version { generation, snap }
}

fn text(payload: &[u8]) -> StoredValue {
    StoredValue {
        kind: Kind::String,
        payload: payload.to_vec(),
        expires_at_ms: None,
    }
}

fn set(key: &[u8], payload: &[u8]) -> Change {
    Change {
        key: key.to_vec(),
        value: Some(text(payload)),
    }
}

fn delete(key: &[u8]) -> Change {
    Change {
        key: key.to_vec(),
        value: None,
    }
}

fn snapshot(tag: &[u8], version: Version, changes: &[Change]) -> Snapshot {
    Snapshot {
        tag: tag.to_vec(),
        version,
        changes: changes.to_vec(),
        read_at_ms: None,
        written_at_ms: None,
    }
}

/// Commits one snapshot.
fn commit(tier: &dyn ColdTier, tag: &[u8], version: Version, changes: &[Change]) -> Committed {
    let committed = tier.commit(&[snapshot(tag, version, changes)], NOW_MS).unwrap();
    assert_eq!(committed.len(), 1, "one answer for each snapshot");
    committed[0]
}

/// Saves keys into a tag that need not have a row yet. The tag has generation 1.
fn save(tier: &dyn ColdTier, tag: &[u8], snap: u64, changes: &[Change]) {
    tier.ensure(&[tag]).unwrap();
    assert_eq!(commit(tier, tag, version(1, snap), changes), Committed::Saved);
}

/// Returns the rows of a tag in key order.
fn rows(tier: &dyn ColdTier, tag: &[u8]) -> Vec<Row> {
    let mut rows = tier.read(&[tag]).unwrap().remove(0).unwrap().rows;
    rows.sort_by(|one, other| one.key.cmp(&other.key));
    rows
}

/// Returns the payload of each key of a tag, in key order.
fn payloads(tier: &dyn ColdTier, tag: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    rows(tier, tag)
        .into_iter()
        .map(|row| (row.key, row.value.payload))
        .collect()
}

fn tombstones(tier: &dyn ColdTier, tag: &[u8]) -> Vec<Vec<u8>> {
    let mut names = tier.read(&[tag]).unwrap().remove(0).unwrap().tombstones;
    names.sort();
    names
}

fn pair(key: &[u8], payload: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (key.to_vec(), payload.to_vec())
}
