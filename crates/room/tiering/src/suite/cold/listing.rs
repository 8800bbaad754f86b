//! Rows, lists and totals.

use std::collections::BTreeSet;

use super::{NOW_MS, commit, delete, save, set, snapshot, text, version};
use crate::cold::{Access, Change, ColdTier, Committed, KeyRow, Kind, Status, StoredValue, Version};

pub fn a_tag_row_tells_what_was_saved(tier: &dyn ColdTier) {
    tier.ensure(&[b"a"]).unwrap();
    let row = tier.tag(b"a").unwrap().unwrap();
    assert_eq!(row.status, Status::NeedSynced);
    assert_eq!(
        (row.read_at_ms, row.written_at_ms, row.saved_at_ms),
        (None, None, None)
    );

    let mut first = snapshot(
        b"a",
        version(1, 1),
        &[set(b"{a}x", b"12345"), set(b"{a}yy", b""), delete(b"{a}z")],
    );
    first.read_at_ms = Some(NOW_MS - 7);
    first.written_at_ms = Some(NOW_MS - 9);
    assert_eq!(tier.commit(&[first], NOW_MS).unwrap(), [Committed::Saved]);

    let row = tier.tag(b"a").unwrap().unwrap();
    assert_eq!(row.tag, b"a");
    assert_eq!(
        (row.generation, row.saved, row.status),
        (1, version(1, 1), Status::Synced)
    );
    assert_eq!(row.read_at_ms, Some(NOW_MS - 7));
    assert_eq!(row.written_at_ms, Some(NOW_MS - 9));
    assert_eq!(row.saved_at_ms, Some(NOW_MS));
    assert_eq!((row.keys, row.bytes), (2, 4 + 5 + 5));

    save(
        tier,
        b"a",
        2,
        &[set(b"{a}x", b"1"), delete(b"{a}yy"), delete(b"{a}z")],
    );
    let row = tier.tag(b"a").unwrap().unwrap();
    assert_eq!((row.keys, row.bytes), (1, 4 + 1));
}

pub fn a_status_is_kept_until_the_next_commit(tier: &dyn ColdTier) {
    save(tier, b"a", 1, &[set(b"a", b"1")]);
    save(tier, b"b", 1, &[set(b"b", b"1")]);
    let status = |tag: &[u8]| tier.tag(tag).unwrap().unwrap().status;
    for wanted in [
        Status::Cleaned,
        Status::NeedSynced,
        Status::Synced,
        Status::Cleaned,
    ] {
        tier.set_status(&[b"a", b"no row"], wanted).unwrap();
        assert_eq!((status(b"a"), status(b"b")), (wanted, Status::Synced));
    }
    assert_eq!(tier.tag(b"no row").unwrap(), None, "a status makes no row");
    save(tier, b"a", 2, &[set(b"a", b"2")]);
    assert_eq!(status(b"a"), Status::Synced);
}

pub fn later_uses_win(tier: &dyn ColdTier) {
    tier.ensure(&[b"a"]).unwrap();
    let note = |read_at_ms, written_at_ms| {
        tier.note_access(&[Access {
            tag: b"a".to_vec(),
            read_at_ms,
            written_at_ms,
        }])
        .unwrap();
        let row = tier.tag(b"a").unwrap().unwrap();
        (row.read_at_ms, row.written_at_ms)
    };
    assert_eq!(note(Some(5), None), (Some(5), None));
    assert_eq!(note(Some(3), Some(4)), (Some(5), Some(4)));
    assert_eq!(note(None, None), (Some(5), Some(4)));
    assert_eq!(note(Some(6), Some(7)), (Some(6), Some(7)));

    let mut late = snapshot(b"a", version(1, 1), &[]);
    (late.read_at_ms, late.written_at_ms) = (Some(1), Some(9));
    assert_eq!(tier.commit(&[late], NOW_MS).unwrap(), [Committed::Saved]);
    assert_eq!(note(None, None), (Some(6), Some(9)));
}

pub fn uses_of_tags_without_rows_are_dropped(tier: &dyn ColdTier) {
    let access = Access {
        tag: b"a".to_vec(),
        read_at_ms: Some(5),
        written_at_ms: Some(5),
    };
    tier.note_access(&[access]).unwrap();
    tier.note_access(&[]).unwrap();
    assert_eq!(tier.tag(b"a").unwrap(), None);
}

pub fn tags_are_listed_once_each_on_any_page_size(tier: &dyn ColdTier) {
    let mut wanted = BTreeSet::from([Vec::new(), vec![0], vec![255], b"a".to_vec(), b"a\0".to_vec()]);
    wanted.extend((0..60).map(|number| format!("tag{number}").into_bytes()));
    for tag in &wanted {
        tier.ensure(&[tag]).unwrap();
    }
    let list = |limit| {
        let mut tags: Vec<Vec<u8>> = Vec::new();
        loop {
            let page = tier.tags_after(tags.last().map(Vec::as_slice), limit).unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                return tags;
            }
            tags.extend(page.into_iter().map(|row| row.tag));
        }
    };
    let all = list(1000);
    assert_eq!(all.len(), wanted.len());
    assert_eq!(BTreeSet::from_iter(all.iter().cloned()), wanted);
    for limit in [1, 7, 64] {
        assert_eq!(list(limit), all, "the order is always the same");
    }
}

pub fn keys_are_listed_in_order_without_tombstones(tier: &dyn ColdTier) {
    save(
        tier,
        b"b",
        1,
        &[set(b"{b}2", b"v"), set(b"{b}1", b"v"), delete(b"{b}3")],
    );
    let value = StoredValue {
        kind: Kind::Stream,
        expires_at_ms: Some(77),
        ..text(b"v")
    };
    save(
        tier,
        b"a",
        1,
        &[Change {
            key: b"{a}9".to_vec(),
            value: Some(value),
        }],
    );
    tier.ensure(&[b"aa"]).unwrap();
    save(tier, b"c", 1, &[delete(b"c")]);

    let row = |tag: &[u8], key: &[u8], kind, expires_at_ms| KeyRow {
        tag: tag.to_vec(),
        key: key.to_vec(),
        kind,
        expires_at_ms,
    };
    let wanted = [
        row(b"a", b"{a}9", Kind::Stream, Some(77)),
        row(b"b", b"{b}1", Kind::String, None),
        row(b"b", b"{b}2", Kind::String, None),
    ];
    assert_eq!(tier.keys_after(None, 100).unwrap(), wanted);
    assert_eq!(tier.keys_after(None, 2).unwrap(), wanted[..2]);
    assert_eq!(tier.keys_after(Some((b"a", b"{a}9")), 2).unwrap(), wanted[1..]);
    assert_eq!(tier.keys_after(Some((b"b", b"{b}1")), 2).unwrap(), wanted[2..]);
    assert_eq!(tier.keys_after(Some((b"b", b"{b}2")), 2).unwrap(), []);
}

pub fn binary_names_are_listed_in_byte_order(tier: &dyn ColdTier) {
    let names: [&[u8]; 7] = [b"", b"\0", b"\0\0", b"A", b"a", b"a\xff", b"\xff"];
    for tag in names.iter().rev() {
        let changes: Vec<Change> = names.iter().rev().map(|key| set(key, b"v")).collect();
        save(tier, tag, 1, &changes);
    }
    let mut listed: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    loop {
        let after = listed.last().map(|(tag, key)| (tag.as_slice(), key.as_slice()));
        let page = tier.keys_after(after, 5).unwrap();
        if page.is_empty() {
            break;
        }
        listed.extend(page.into_iter().map(|row| (row.tag, row.key)));
    }
    let pairs = names
        .iter()
        .flat_map(|tag| names.iter().map(move |key| (tag.to_vec(), key.to_vec())));
    assert_eq!(listed, pairs.collect::<Vec<_>>());
}

pub fn listing_goes_on_after_a_place_that_is_gone(tier: &dyn ColdTier) {
    for tag in [b"a", b"b", b"c", b"d"] {
        save(tier, tag, 1, &[set(tag, b"v")]);
    }
    let keys = |after| -> Vec<_> {
        tier.keys_after(after, 9)
            .unwrap()
            .into_iter()
            .map(|row| row.key)
            .collect()
    };
    tier.erase(b"b").unwrap();
    assert_eq!(keys(Some((b"b", b"b"))), [b"c".to_vec(), b"d".to_vec()]);
    assert_eq!(
        commit(tier, b"c", version(1, 2), &[delete(b"c")]),
        Committed::Saved
    );
    assert_eq!(keys(Some((b"a", b"a"))), [b"d".to_vec()]);
    // The place of a tag that is gone need not be known, but nothing may be listed twice.
    let order: Vec<_> = tier
        .tags_after(None, 9)
        .unwrap()
        .into_iter()
        .map(|row| row.tag)
        .collect();
    assert_eq!(order.len(), 3);
    let rest = tier.tags_after(Some(&order[0]), 9).unwrap();
    assert_eq!(
        rest.into_iter().map(|row| row.tag).collect::<Vec<_>>(),
        order[1..]
    );
}

pub fn totals_count_what_there_is(tier: &dyn ColdTier) {
    let sums = || {
        let totals = tier.totals().unwrap();
        (totals.tags, totals.keys, totals.tombstones, totals.bytes)
    };
    assert_eq!(sums(), (0, 0, 0, 0));
    save(
        tier,
        b"a",
        1,
        &[set(b"{a}x", b"123"), set(b"{a}y", b"4567"), delete(b"{a}z")],
    );
    save(tier, b"b", 1, &[set(b"b", b"")]);
    assert_eq!(sums(), (2, 3, 1, 7 + 8 + 1));
    save(tier, b"a", 2, &[delete(b"{a}x"), set(b"{a}y", b"")]);
    assert_eq!(sums(), (2, 2, 2, 4 + 1));
    tier.erase(b"a").unwrap();
    assert_eq!(sums(), (1, 1, 0, 1));
}

pub fn the_newest_version_is_the_highest_of_all_tags(tier: &dyn ColdTier) {
    assert_eq!(tier.newest().unwrap(), Version::default());
    save(tier, b"a", 900, &[set(b"a", b"1")]);
    save(tier, b"b", 30, &[set(b"b", b"1")]);
    assert_eq!(tier.newest().unwrap(), version(1, 900));
    tier.claim(b"b", Some(1)).unwrap();
    assert_eq!(tier.newest().unwrap(), version(1, 900), "a claim saves nothing");
    assert_eq!(
        commit(tier, b"b", version(2, 5), &[set(b"b", b"2")]),
        Committed::Saved
    );
    assert_eq!(tier.newest().unwrap(), version(2, 5));
}
