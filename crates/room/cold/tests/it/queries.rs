//! The two databases' SQL files have the same blocks, but for those that only one of them needs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Blocks of one database only, and why.
const ONLY_SQLITE: &[&str] = &[
    // PostgreSQL's server looks after its files.
    "check/file",
    // PostgreSQL restores no payloads during a check and goes by sums over all tags.
    "check/payloads",
    "check/tag_from",
    "check/tag_range",
    // One statement upserts and buries.
    "keys/bury",
    // Wiping goes by versions only.
    "keys/delete_all",
    "tags/delete_all",
    "tags/sum_saved_up_to",
    // Only an embedded room has several databases.
    "tags/list_between",
    "tags/name",
    "tags/sum_between",
    // Keys carry their tag, so one statement goes on anywhere.
    "keys/list_after_tag",
    "keys/list_in_tag",
    // The statement that writes returns what it replaced.
    "keys/size",
    // Part of adding.
    "totals/raise_newest",
];
const ONLY_POSTGRES: &[&str] = &[
    // No other process changes a SQLite file.
    "miss_filter/horizon",
    "miss_filter/list_after",
    "miss_filter/list_first",
    "miss_filter/made_since",
    "facts/set_once",
    "tags/known",
    "tags/lock_all",
    // Planner and session settings.
    "check/any_plan",
    "connections/setup",
    // A claim reads after its lock, in a statement of its own.
    "keys/of_tag",
    "keys/list_after",
    // The sums have several rows, and there is no file to measure.
    "totals/disk",
    "totals/newest",
];

fn folder(database: &str, folder: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    source.join(database).join(folder)
}

fn queries(database: &str) -> BTreeSet<String> {
    nagaya_sql::blocks_in(&folder(database, "queries"))
        .into_keys()
        .collect()
}

fn migrations(database: &str) -> BTreeSet<OsString> {
    let entries = fs::read_dir(folder(database, "migrations")).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn queries_have_the_same_names_for_both_databases() {
    let sqlite = queries("sqlite");
    let postgres = queries("postgres");
    let only = |one: &BTreeSet<String>, other| one.difference(other).cloned().collect::<BTreeSet<_>>();
    let named = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(only(&sqlite, &postgres), named(ONLY_SQLITE));
    assert_eq!(only(&postgres, &sqlite), named(ONLY_POSTGRES));
}

#[test]
fn migrations_have_the_same_names_for_both_databases() {
    assert_eq!(migrations("sqlite"), migrations("postgres"));
}
