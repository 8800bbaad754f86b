//! What is kept of tags and keys.

use nagaya_tiering::cold::{Access, Claimed, ColdTier, Committed, Status, Totals};

use crate::support::{Place, assert_sound, expiring, gone, payload, put, rows, save, snapshot, version};

#[test]
fn bytes_of_every_value_are_kept_in_tags_and_keys() {
    let place = Place::new();
    let cold = place.open();
    let every: Vec<u8> = (0..=255).collect();
    let names: [&[u8]; 5] = [b"", b"\0", b"\0\0", b"\xff\xfe{\0}", &every];
    for tag in names {
        let changes = names.iter().map(|key| put(key, tag)).collect();
        save(&cold, tag, 1, changes);
    }
    for tag in names {
        let mut expected: Vec<_> = names.iter().map(|key| (key.to_vec(), payload(tag))).collect();
        expected.sort();
        assert_eq!(rows(&cold, tag), expected);
    }
    let mut sorted = names.map(<[u8]>::to_vec);
    sorted.sort();
    let listed = cold.tags_after(None, 10).unwrap();
    assert_eq!(listed.into_iter().map(|row| row.tag).collect::<Vec<_>>(), sorted);
    assert_sound(&cold);
}

#[test]
fn a_thousand_tags_go_into_one_commit() {
    let place = Place::new();
    let cold = place.open();
    let tags: Vec<Vec<u8>> = (0..1000)
        .map(|number| format!("tag:{number}").into_bytes())
        .collect();
    let names: Vec<&[u8]> = tags.iter().map(Vec::as_slice).collect();
    cold.ensure(&names).unwrap();
    let of = |tag: &&[u8]| snapshot(tag, version(1, 7), vec![put(tag, b"value")]);
    let snapshots: Vec<_> = names.iter().map(of).collect();
    assert_eq!(cold.commit(&snapshots, 5).unwrap(), vec![Committed::Saved; 1000]);
    let loaded = cold.read(&names).unwrap();
    assert!(loaded.iter().flatten().all(|loaded| loaded.rows.len() == 1));
    let totals = cold.totals().unwrap();
    assert_eq!((totals.tags, totals.keys), (1000, 1000));
    assert_eq!(cold.newest().unwrap(), version(1, 7));
    assert_sound(&cold);
}

#[test]
fn a_snapshot_enters_only_in_its_generation_and_after_the_last_one() {
    let place = Place::new();
    let cold = place.open();
    let commit = |generation, snap| {
        let one = snapshot(b"t", version(generation, snap), vec![put(b"k", b"v")]);
        cold.commit(&[one], 1).unwrap()[0]
    };
    assert_eq!(commit(1, 1), Committed::Refused, "there is no row yet");
    cold.ensure(&[b"t"]).unwrap();
    assert_eq!(commit(1, 5), Committed::Saved);
    assert_eq!(commit(1, 5), Committed::Refused);
    assert_eq!(commit(1, 4), Committed::Refused);
    assert_eq!(commit(2, 9), Committed::Refused);
    assert!(matches!(cold.claim(b"t", Some(1)).unwrap(), Claimed::Loaded(loaded) if loaded.generation == 2));
    assert_eq!(commit(1, 6), Committed::Refused);
    assert_eq!(commit(2, 1), Committed::Saved);
    assert_eq!(cold.newest().unwrap(), version(2, 1));
    assert_eq!(cold.tag(b"t").unwrap().unwrap().saved, version(2, 1));
}

#[test]
fn snapshots_of_one_tag_in_one_commit_go_in_their_order() {
    let place = Place::new();
    let cold = place.open();
    cold.ensure(&[b"t"]).unwrap();
    let snapshots = [
        snapshot(b"t", version(1, 1), vec![put(b"k", b"one"), put(b"k", b"two")]),
        snapshot(b"t", version(1, 3), vec![put(b"k", b"three")]),
        snapshot(b"t", version(1, 2), vec![put(b"k", b"late")]),
    ];
    let outcomes = cold.commit(&snapshots, 1).unwrap();
    assert_eq!(outcomes, [Committed::Saved, Committed::Saved, Committed::Refused]);
    assert_eq!(rows(&cold, b"t"), [(b"k".to_vec(), payload(b"three"))]);
    assert_sound(&cold);
}

#[test]
fn claims_move_the_generation_only_from_where_they_read_it() {
    let place = Place::new();
    let cold = place.open();
    assert_eq!(cold.claim(b"t", None).unwrap(), Claimed::NoRow);
    assert_eq!(cold.claim(b"t", Some(1)).unwrap(), Claimed::Moved);
    save(&cold, b"t", 1, vec![put(b"k", b"v"), gone(b"old")]);
    assert_eq!(cold.claim(b"t", None).unwrap(), Claimed::Moved);
    let Claimed::Loaded(loaded) = cold.claim(b"t", Some(1)).unwrap() else {
        panic!("the base was right");
    };
    assert_eq!((loaded.generation, loaded.saved), (2, version(1, 1)));
    assert_eq!(loaded.tombstones, [b"old".to_vec()]);
    assert_eq!(loaded.rows.len(), 1);
    assert_eq!(cold.claim(b"t", Some(1)).unwrap(), Claimed::Moved);
    assert_eq!(cold.generations(&[b"t", b"u"]).unwrap(), [Some(2), None]);
}

#[test]
fn sizes_follow_every_change() {
    let place = Place::new();
    let cold = place.open();
    let size = |text: &[u8]| 1 + payload(text).len() as u64;
    let check = |keys, tombstones, bytes| {
        let row = cold.tag(b"t").unwrap().unwrap();
        assert_eq!((row.keys, row.bytes), (keys, bytes));
        let totals = cold.totals().unwrap();
        let expected = Totals {
            tags: 1,
            keys,
            tombstones,
            bytes,
            disk_bytes: totals.disk_bytes,
        };
        assert_eq!(totals, expected);
        assert!(totals.disk_bytes > 0);
        assert_sound(&cold);
    };
    save(&cold, b"t", 1, vec![put(b"a", b"one"), put(b"b", b"three")]);
    check(2, 0, size(b"one") + size(b"three"));
    save(&cold, b"t", 2, vec![put(b"a", b"longer"), gone(b"b"), gone(b"n")]);
    check(1, 2, size(b"longer"));
    save(&cold, b"t", 3, vec![gone(b"b"), put(b"n", b"now")]);
    check(2, 1, size(b"longer") + size(b"now"));
    save(&cold, b"t", 4, vec![]);
    check(2, 1, size(b"longer") + size(b"now"));
}

#[test]
fn later_times_win_and_missing_ones_change_nothing() {
    let place = Place::new();
    let cold = place.open();
    let note = |read_at_ms, written_at_ms| {
        let access = |tag: &[u8]| Access {
            tag: tag.to_vec(),
            read_at_ms,
            written_at_ms,
        };
        cold.note_access(&[access(b"t"), access(b"unknown")]).unwrap();
        let row = cold.tag(b"t").unwrap().unwrap();
        (row.read_at_ms, row.written_at_ms)
    };
    cold.ensure(&[b"t"]).unwrap();
    assert_eq!(note(None, None), (None, None));
    assert_eq!(note(Some(5), None), (Some(5), None));
    assert_eq!(note(Some(4), Some(9)), (Some(5), Some(9)));
    let mut late = snapshot(b"t", version(1, 1), vec![]);
    late.written_at_ms = Some(8);
    late.read_at_ms = Some(6);
    cold.commit(&[late], 77).unwrap();
    let row = cold.tag(b"t").unwrap().unwrap();
    assert_eq!(
        (row.read_at_ms, row.written_at_ms, row.saved_at_ms),
        (Some(6), Some(9), Some(77))
    );
    assert_eq!(row.status, Status::Synced);
    assert_eq!(cold.tag(b"unknown").unwrap(), None);
    cold.set_status(&[b"t", b"unknown"], Status::Cleaned).unwrap();
    assert_eq!(cold.tag(b"t").unwrap().unwrap().status, Status::Cleaned);
}

#[test]
fn walks_over_tags_and_keys_miss_nothing_and_repeat_nothing() {
    let place = Place::new();
    let cold = place.open();
    for number in 0..20u8 {
        let keys = (0..number % 4).map(|key| put(&[key, number], b"v"));
        save(
            &cold,
            &[number.reverse_bits()],
            1,
            keys.chain([gone(b"z")]).collect(),
        );
    }
    let mut tags = Vec::new();
    while let page = cold.tags_after(tags.last().map(Vec::as_slice), 3).unwrap()
        && !page.is_empty()
    {
        tags.extend(page.into_iter().map(|row| row.tag));
    }
    assert_eq!(tags.len(), 20);
    assert!(tags.is_sorted());
    let mut keys: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    while let after = keys.last().map(|(tag, key)| (tag.as_slice(), key.as_slice()))
        && let page = cold.keys_after(after, 4).unwrap()
        && !page.is_empty()
    {
        keys.extend(page.into_iter().map(|row| (row.tag, row.key)));
    }
    assert_eq!(keys.len(), 5 * (1 + 2 + 3));
    assert!(keys.is_sorted());
    assert_eq!(cold.keys_after(None, 0).unwrap(), []);
}

#[test]
fn an_erased_tag_leaves_nothing() {
    let place = Place::new();
    let cold = place.open();
    save(&cold, b"t", 1, vec![put(b"a", b"v"), put(b"b", b"v"), gone(b"c")]);
    save(&cold, b"u", 2, vec![put(b"a", b"v")]);
    assert_eq!(cold.erase(b"t").unwrap(), 2);
    assert_eq!(cold.erase(b"t").unwrap(), 0);
    assert_eq!(cold.read(&[b"t"]).unwrap(), [None]);
    let totals = cold.totals().unwrap();
    assert_eq!((totals.tags, totals.keys, totals.tombstones), (1, 1, 0));
    assert_sound(&cold);
}

#[test]
fn a_wipe_takes_what_was_saved_up_to_it_and_keeps_facts() {
    let place = Place::new();
    let cold = place.open();
    cold.set_fact("functions", b"code\0").unwrap();
    save(&cold, b"old", 3, vec![put(b"a", b"v"), gone(b"b")]);
    save(&cold, b"new", 8, vec![put(b"a", b"v")]);
    cold.ensure(&[b"unsaved"]).unwrap();
    cold.wipe(version(1, 7)).unwrap();
    assert_eq!(
        cold.generations(&[b"old", b"new", b"unsaved"]).unwrap(),
        [None, Some(1), None]
    );
    let totals = cold.totals().unwrap();
    assert_eq!((totals.tags, totals.keys, totals.tombstones), (1, 1, 0));
    assert_sound(&cold);
    cold.wipe(version(u64::MAX, u64::MAX)).unwrap();
    assert_eq!(cold.tags_after(None, 9).unwrap(), []);
    assert_eq!(cold.totals().unwrap().bytes, 0);
    assert_eq!(cold.fact("functions").unwrap(), Some(b"code\0".to_vec()));
    assert_eq!(cold.fact("other").unwrap(), None);
    assert_sound(&cold);
}

#[test]
fn a_purge_takes_the_oldest_first_and_no_more_than_its_limit() {
    let place = Place::new();
    let cold = place.open();
    save(
        &cold,
        b"t",
        1,
        vec![
            expiring(b"a", b"v", 30),
            expiring(b"b", b"v", 10),
            put(b"c", b"v"),
        ],
    );
    save(
        &cold,
        b"u",
        2,
        vec![expiring(b"d", b"v", 20), gone(b"e"), gone(b"f")],
    );
    assert_eq!(cold.purge(30, 1_000, 1).unwrap(), 1);
    let left = |tag| {
        rows(&cold, tag)
            .into_iter()
            .map(|(key, _)| key)
            .collect::<Vec<_>>()
    };
    assert_eq!(left(b"t"), [b"a", b"c"]);
    assert_eq!(
        cold.purge(30, 1_000, 100).unwrap(),
        1,
        "30 is not before 30, 1000 not before 1000"
    );
    assert!(left(b"u").is_empty());
    assert_eq!(cold.purge(31, 1_001, 2).unwrap(), 2);
    assert_eq!(cold.purge(31, 1_001, 2).unwrap(), 1);
    assert_eq!(cold.purge(i64::MAX, i64::MAX, 2).unwrap(), 0);
    assert_eq!(left(b"t"), [b"c"]);
    let totals = cold.totals().unwrap();
    assert_eq!((totals.tags, totals.keys, totals.tombstones), (2, 1, 0));
    assert_sound(&cold);
}

#[test]
fn a_version_that_does_not_fit_fails_and_writes_nothing() {
    let place = Place::new();
    let cold = place.open();
    cold.ensure(&[b"t"]).unwrap();
    let huge = snapshot(b"t", version(1, u64::MAX), vec![put(b"k", b"v")]);
    assert!(cold.commit(&[huge], 1).is_err());
    assert!(rows(&cold, b"t").is_empty());
    save(&cold, b"t", i64::MAX as u64, vec![put(b"k", b"v")]);
    assert_sound(&cold);
}
