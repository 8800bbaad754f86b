//! What every hot tier must do.

use std::time::Duration;

use crate::cold::{Change, Row, Version};
use crate::hot::{Chunk, DirtyTag, HotTier, Installed, SavedKeys, TagCopy};
use crate::protocol::{LoadStart, Part, Token, Touched};

/// A hot tier together with the front door that clients write through.
pub trait HotBench {
    fn tier(&self) -> &dyn HotTier;

    /// Sets a string as a client does: touch, registration, command. The tag is hot.
    fn set(&self, key: &[u8], value: &[u8]);

    /// Deletes a key as a client does. The tag is hot.
    fn delete(&self, key: &[u8]);

    /// Returns the string that memory holds under a key, whether its tag is resident or not.
    fn peek(&self, key: &[u8]) -> Option<Vec<u8>>;

    /// Begins a new run of the node that loses nothing; returns whether this tier can.
    fn begin_new_life(&self) -> bool;
}

/// Makes one test of each case. Takes a `fn(fn(&dyn HotBench))` that calls what it is given with a fresh and
/// empty tier.
#[macro_export]
macro_rules! hot_suite {
    ($with_bench:path) => {
        $crate::hot_suite! { @cases $with_bench;
            an_unknown_tag_is_cold,
            a_load_makes_a_tag_hot_with_its_last_chunk,
            a_begin_on_a_hot_tag_finds_it_resident,
            a_second_begin_takes_the_load_over,
            rows_and_tombstones_are_installed,
            a_write_makes_its_tag_dirty_until_it_is_removed,
            a_snapshot_has_every_changed_key_and_nothing_else,
            snapshots_grow_newer,
            a_tag_that_is_not_hot_has_no_snapshot,
            a_key_written_after_the_snapshot_stays_dirty,
            nothing_is_removed_for_another_residency,
            a_dirty_tag_is_not_marked,
            an_eviction_takes_the_keys_out,
            a_touch_calls_an_eviction_off,
            a_write_calls_an_eviction_off,
            a_snapshot_calls_an_eviction_off,
            a_second_mark_takes_the_eviction_over,
            an_evicted_tag_comes_back_as_it_was,
            many_dirty_tags_are_listed_page_by_page,
            idle_tags_are_candidates,
            a_suspect_tag_is_refused_until_it_is_loaded,
            a_suspect_tag_behind_its_backup_is_replaced,
        }
    };
    (@cases $with_bench:path; $($case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                $with_bench($crate::suite::hot::$case);
            }
        )*
    };
}

fn part(generation: u64, saved: u64, is_last: bool) -> Part {
    Part {
        generation,
        saved: Version {
            generation: generation - 1,
            snap: saved,
        },
        is_last,
    }
}

fn empty_chunk(part: Part) -> Chunk {
    Chunk {
        part,
        rows: Vec::new(),
        tombstones: Vec::new(),
    }
}

/// Loads a tag without rows; its residency has generation 1.
fn load(bench: &dyn HotBench, tag: &[u8], token: u128) {
    assert_eq!(bench.tier().begin(tag, Token(token)).unwrap(), LoadStart::Begun);
    let chunk = empty_chunk(part(1, 0, true));
    assert_eq!(
        bench.tier().install(tag, Token(token), &chunk).unwrap(),
        Installed::Put
    );
}

fn touch(bench: &dyn HotBench, tag: &[u8]) -> Touched {
    bench.tier().touch(&[tag]).unwrap()[0]
}

fn copy(bench: &dyn HotBench, tag: &[u8]) -> TagCopy {
    bench.tier().snapshot(&[tag]).unwrap().remove(0).unwrap()
}

fn settled(copy: &TagCopy) -> SavedKeys {
    let names = copy.snapshot.changes.iter().map(|change| change.key.clone());
    SavedKeys {
        tag: copy.snapshot.tag.clone(),
        generation: copy.snapshot.version.generation,
        keys: names.zip(copy.tokens.iter().copied()).collect(),
    }
}

/// Takes every changed key off the dirty list; returns the last copy of them.
fn clean(bench: &dyn HotBench, tag: &[u8]) -> TagCopy {
    let copy = copy(bench, tag);
    assert_eq!(bench.tier().remove(&[settled(&copy)]).unwrap(), [true]);
    copy
}

/// Returns the rows that a committed copy leaves in the cold tier.
fn rows(copy: &TagCopy) -> Vec<Row> {
    let row = |change: &Change| {
        Some(Row {
            key: change.key.clone(),
            value: change.value.clone()?,
        })
    };
    copy.snapshot.changes.iter().filter_map(row).collect()
}

fn dirty(bench: &dyn HotBench) -> Vec<DirtyTag> {
    let mut tags = Vec::new();
    let mut from = None;
    loop {
        let page = bench.tier().dirty_tags(from, 7).unwrap();
        tags.extend(page.tags);
        from = page.next;
        if from.is_none() {
            return tags;
        }
    }
}

fn mark(bench: &dyn HotBench, tag: &[u8], token: u128) -> bool {
    bench.tier().mark(&[tag], Token(token)).unwrap()[0]
}

fn confirm(bench: &dyn HotBench, tag: &[u8], token: u128, names: &[&[u8]]) -> bool {
    let names: Vec<Vec<u8>> = names.iter().map(|name| name.to_vec()).collect();
    bench.tier().confirm(tag, Token(token), &names).unwrap()
}

pub fn an_unknown_tag_is_cold(bench: &dyn HotBench) {
    assert_eq!(touch(bench, b"a"), Touched::Cold);
    assert!(!mark(bench, b"a", 1));
    assert!(!confirm(bench, b"a", 1, &[]));
    assert_eq!(bench.tier().snapshot(&[b"a"]).unwrap(), [None]);
    let chunk = empty_chunk(part(1, 0, true));
    assert_eq!(
        bench.tier().install(b"a", Token(1), &chunk).unwrap(),
        Installed::Lost
    );
    assert_eq!(touch(bench, b"a"), Touched::Cold);
    bench.tier().probe().unwrap();
}

pub fn a_load_makes_a_tag_hot_with_its_last_chunk(bench: &dyn HotBench) {
    let tier = bench.tier();
    assert_eq!(tier.begin(b"a", Token(1)).unwrap(), LoadStart::Begun);
    assert_eq!(touch(bench, b"a"), Touched::Wait);
    let install = |is_last| {
        tier.install(b"a", Token(1), &empty_chunk(part(1, 0, is_last)))
            .unwrap()
    };
    assert_eq!(install(false), Installed::Put);
    assert_eq!(touch(bench, b"a"), Touched::Wait);
    assert_eq!(install(true), Installed::Put);
    assert_eq!(touch(bench, b"a"), Touched::Granted);
    assert_eq!(
        tier.touch(&[b"b", b"a"]).unwrap(),
        [Touched::Cold, Touched::Granted]
    );
    assert_eq!(install(true), Installed::Lost, "the load is over");
}

pub fn a_begin_on_a_hot_tag_finds_it_resident(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    assert_eq!(bench.tier().begin(b"a", Token(2)).unwrap(), LoadStart::Resident);
    assert_eq!(touch(bench, b"a"), Touched::Granted);
}

pub fn a_second_begin_takes_the_load_over(bench: &dyn HotBench) {
    let tier = bench.tier();
    tier.begin(b"a", Token(1)).unwrap();
    assert_eq!(tier.begin(b"a", Token(2)).unwrap(), LoadStart::Begun);
    let chunk = empty_chunk(part(1, 0, true));
    assert_eq!(tier.install(b"a", Token(1), &chunk).unwrap(), Installed::Lost);
    assert_eq!(touch(bench, b"a"), Touched::Wait);
    assert_eq!(tier.install(b"a", Token(2), &chunk).unwrap(), Installed::Put);
    assert_eq!(touch(bench, b"a"), Touched::Granted);
}

pub fn rows_and_tombstones_are_installed(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    bench.set(b"{a}x", b"\0one\xff");
    bench.set(b"{a}y", b"two");
    let copied = clean(bench, b"a");
    assert!(mark(bench, b"a", 2));
    // One name is not unlinked, as if it had been forgotten.
    assert!(confirm(bench, b"a", 2, &[b"{a}x"]));
    assert_eq!(bench.peek(b"{a}x"), None);

    bench.tier().begin(b"a", Token(3)).unwrap();
    let mut rows = rows(&copied);
    rows.retain(|row| row.key == b"{a}x");
    let chunk = Chunk {
        part: part(2, 1, true),
        rows,
        tombstones: vec![b"{a}y".to_vec()],
    };
    assert_eq!(
        bench.tier().install(b"a", Token(3), &chunk).unwrap(),
        Installed::Put
    );
    assert_eq!(bench.peek(b"{a}x"), Some(b"\0one\xff".to_vec()));
    assert_eq!(bench.peek(b"{a}y"), None);
    assert_eq!(dirty(bench), [], "what was loaded is saved");
}

pub fn a_write_makes_its_tag_dirty_until_it_is_removed(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    assert_eq!(dirty(bench), []);
    bench.set(b"{a}x", b"1");
    bench.set(b"{a}y", b"1");
    let listed = dirty(bench);
    assert_eq!(
        listed
            .iter()
            .map(|dirty| dirty.tag.as_slice())
            .collect::<Vec<_>>(),
        [b"a"]
    );
    let mut half = settled(&copy(bench, b"a"));
    half.keys.pop();
    assert_eq!(bench.tier().remove(&[half]).unwrap(), [false]);
    assert_eq!(dirty(bench).len(), 1);
    clean(bench, b"a");
    assert_eq!(dirty(bench), []);
}

pub fn a_snapshot_has_every_changed_key_and_nothing_else(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    bench.set(b"{a}clean", b"0");
    clean(bench, b"a");
    bench.set(b"{a}x", b"1");
    bench.set(b"{a}gone", b"1");
    bench.delete(b"{a}gone");
    let copied = copy(bench, b"a");
    assert_eq!(copied.snapshot.tag, b"a");
    assert_eq!(copied.tokens.len(), 2);
    let mut changes: Vec<_> = copied
        .snapshot
        .changes
        .iter()
        .map(|change| (change.key.clone(), change.value.is_some()))
        .collect();
    changes.sort();
    assert_eq!(changes, [(b"{a}gone".to_vec(), false), (b"{a}x".to_vec(), true)]);
}

pub fn snapshots_grow_newer(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    bench.set(b"a", b"1");
    let first = copy(bench, b"a").snapshot.version;
    assert_eq!(first.generation, 1);
    bench.set(b"a", b"2");
    let second = copy(bench, b"a").snapshot.version;
    assert!(second > first);
}

pub fn a_tag_that_is_not_hot_has_no_snapshot(bench: &dyn HotBench) {
    load(bench, b"b", 1);
    bench.set(b"b", b"1");
    bench.tier().begin(b"a", Token(2)).unwrap();
    let copies = bench.tier().snapshot(&[b"a", b"b", b"c"]).unwrap();
    assert_eq!(
        copies.iter().map(Option::is_some).collect::<Vec<_>>(),
        [false, true, false]
    );
}

pub fn a_key_written_after_the_snapshot_stays_dirty(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    bench.set(b"{a}x", b"1");
    bench.set(b"{a}y", b"1");
    let early = settled(&copy(bench, b"a"));
    bench.set(b"{a}x", b"2");
    assert_eq!(bench.tier().remove(&[early]).unwrap(), [false]);
    let late = copy(bench, b"a");
    assert_eq!(late.snapshot.changes.len(), 1);
    assert_eq!(late.snapshot.changes[0].key, b"{a}x");
}

pub fn nothing_is_removed_for_another_residency(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    bench.set(b"a", b"1");
    let mut other = settled(&copy(bench, b"a"));
    other.generation += 1;
    let mut unknown = other.clone();
    unknown.tag = b"nobody".to_vec();
    assert_eq!(bench.tier().remove(&[other, unknown]).unwrap(), [false, false]);
    assert_eq!(dirty(bench).len(), 1);
}

pub fn a_dirty_tag_is_not_marked(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    bench.set(b"a", b"1");
    assert!(!mark(bench, b"a", 2));
    clean(bench, b"a");
    assert!(mark(bench, b"a", 3));
}

pub fn an_eviction_takes_the_keys_out(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    bench.set(b"{a}x", b"1");
    bench.set(b"{a}y", b"1");
    clean(bench, b"a");
    assert!(mark(bench, b"a", 2));
    assert!(!confirm(bench, b"a", 3, &[b"{a}x"]), "somebody else's token");
    assert_eq!(bench.peek(b"{a}x"), Some(b"1".to_vec()));
    assert!(confirm(bench, b"a", 2, &[b"{a}x", b"{a}y", b"{a}never was"]));
    assert_eq!((bench.peek(b"{a}x"), bench.peek(b"{a}y")), (None, None));
    assert_eq!(touch(bench, b"a"), Touched::Cold);
    assert!(!confirm(bench, b"a", 2, &[]));
}

pub fn a_touch_calls_an_eviction_off(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    assert!(mark(bench, b"a", 2));
    assert_eq!(touch(bench, b"a"), Touched::Granted);
    assert!(!confirm(bench, b"a", 2, &[]));
    assert_eq!(touch(bench, b"a"), Touched::Granted);
}

pub fn a_write_calls_an_eviction_off(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    assert!(mark(bench, b"a", 2));
    bench.set(b"a", b"1");
    assert!(!confirm(bench, b"a", 2, &[b"a"]));
    assert_eq!(bench.peek(b"a"), Some(b"1".to_vec()));
}

pub fn a_snapshot_calls_an_eviction_off(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    assert!(mark(bench, b"a", 2));
    copy(bench, b"a");
    assert!(!confirm(bench, b"a", 2, &[]));
}

pub fn a_second_mark_takes_the_eviction_over(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    assert!(mark(bench, b"a", 2));
    assert!(mark(bench, b"a", 3));
    assert!(!confirm(bench, b"a", 2, &[]));
    assert!(confirm(bench, b"a", 3, &[]));
}

pub fn an_evicted_tag_comes_back_as_it_was(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    bench.set(b"{a}x", b"1");
    bench.set(b"{a}y", b"2");
    let copied = clean(bench, b"a");
    assert!(mark(bench, b"a", 2));
    assert!(confirm(bench, b"a", 2, &[b"{a}x", b"{a}y"]));

    let tier = bench.tier();
    assert_eq!(tier.begin(b"a", Token(3)).unwrap(), LoadStart::Begun);
    let mut rows = rows(&copied);
    let last = Chunk {
        part: part(2, 1, true),
        rows: rows.split_off(1),
        tombstones: Vec::new(),
    };
    let first = Chunk {
        part: part(2, 1, false),
        rows,
        tombstones: Vec::new(),
    };
    assert_eq!(tier.install(b"a", Token(3), &first).unwrap(), Installed::Put);
    assert_eq!(tier.install(b"a", Token(3), &last).unwrap(), Installed::Put);

    assert_eq!(
        (bench.peek(b"{a}x"), bench.peek(b"{a}y")),
        (Some(b"1".to_vec()), Some(b"2".to_vec()))
    );
    bench.set(b"{a}x", b"3");
    assert_eq!(copy(bench, b"a").snapshot.version.generation, 2);
}

pub fn many_dirty_tags_are_listed_page_by_page(bench: &dyn HotBench) {
    for number in 0..40_u8 {
        load(bench, &[number], u128::from(number));
        if number % 2 == 0 {
            bench.set(&[number], b"1");
        }
    }
    let mut listed: Vec<_> = dirty(bench).into_iter().map(|dirty| dirty.tag).collect();
    listed.sort();
    listed.dedup();
    assert_eq!(
        listed,
        (0..40).step_by(2).map(|number| vec![number]).collect::<Vec<_>>()
    );
}

pub fn idle_tags_are_candidates(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    load(bench, b"b", 2);
    let mut candidates = bench.tier().coldest(10, Duration::ZERO).unwrap();
    candidates.sort();
    assert_eq!(candidates, [b"a".to_vec(), b"b".to_vec()]);
    assert_eq!(bench.tier().coldest(1, Duration::ZERO).unwrap().len(), 1);
    assert_eq!(
        bench.tier().coldest(10, Duration::from_secs(3600)).unwrap(),
        Vec::<Vec<u8>>::new()
    );
}

pub fn a_suspect_tag_is_refused_until_it_is_loaded(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    bench.set(b"a", b"1");
    let before = copy(bench, b"a");
    if !bench.begin_new_life() {
        return;
    }
    let tier = bench.tier();
    assert_eq!(touch(bench, b"a"), Touched::Suspect);
    assert_eq!(tier.snapshot(&[b"a"]).unwrap(), [None]);
    assert_eq!(tier.remove(&[settled(&before)]).unwrap(), [false]);
    assert!(!mark(bench, b"a", 2));

    // Nothing newer was saved: the keys stay, and stay dirty.
    assert_eq!(tier.begin(b"a", Token(3)).unwrap(), LoadStart::Begun);
    let chunk = empty_chunk(part(2, 1, true));
    assert_eq!(tier.install(b"a", Token(3), &chunk).unwrap(), Installed::Kept);
    assert_eq!(touch(bench, b"a"), Touched::Granted);
    assert_eq!(bench.peek(b"a"), Some(b"1".to_vec()));
    let after = copy(bench, b"a");
    assert_eq!(after.snapshot.changes, before.snapshot.changes);
    assert_eq!(after.snapshot.version.generation, 2);
}

pub fn a_suspect_tag_behind_its_backup_is_replaced(bench: &dyn HotBench) {
    load(bench, b"a", 1);
    bench.set(b"{a}saved", b"old");
    let row = rows(&clean(bench, b"a"));
    bench.set(b"{a}lost", b"1");
    bench.set(b"{a}saved", b"new");
    if !bench.begin_new_life() {
        return;
    }
    let tier = bench.tier();
    tier.begin(b"a", Token(3)).unwrap();
    // Snapshot 9 was committed, but this copy has only seen the first.
    let chunk = Chunk {
        part: part(2, 9, true),
        rows: row,
        tombstones: Vec::new(),
    };
    assert_eq!(tier.install(b"a", Token(3), &chunk).unwrap(), Installed::Put);
    assert_eq!(bench.peek(b"{a}lost"), None);
    assert_eq!(bench.peek(b"{a}saved"), Some(b"old".to_vec()));
    assert_eq!(dirty(bench), []);
    assert_eq!(touch(bench, b"a"), Touched::Granted);
}
