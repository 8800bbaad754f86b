//! Commits: what enters, what is refused, and what comes back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{NOW_MS, commit, delete, pair, payloads, rows, save, set, snapshot, text, tombstones, version};
use crate::cold::{Change, ColdTier, Committed, Kind, Row, StoredValue};

pub fn a_commit_without_a_row_is_refused(tier: &dyn ColdTier) {
    assert_eq!(
        commit(tier, b"a", version(1, 1), &[set(b"a", b"1")]),
        Committed::Refused
    );
    assert_eq!(tier.tag(b"a").unwrap(), None);
    assert_eq!(tier.totals().unwrap().keys, 0);
}

pub fn a_commit_of_another_generation_is_refused(tier: &dyn ColdTier) {
    save(tier, b"a", 1, &[set(b"a", b"1")]);
    tier.claim(b"a", Some(1)).unwrap();
    for generation in [0, 1, 3] {
        let end = commit(tier, b"a", version(generation, 9), &[set(b"a", b"2")]);
        assert_eq!(end, Committed::Refused, "generation {generation}");
    }
    assert_eq!(payloads(tier, b"a"), [pair(b"a", b"1")]);
    assert_eq!(
        commit(tier, b"a", version(2, 1), &[set(b"a", b"3")]),
        Committed::Saved
    );
    assert_eq!(payloads(tier, b"a"), [pair(b"a", b"3")]);
}

pub fn a_commit_that_is_not_newer_is_refused(tier: &dyn ColdTier) {
    save(tier, b"a", 5, &[set(b"a", b"5")]);
    for snap in [0, 4, 5] {
        assert_eq!(
            commit(tier, b"a", version(1, snap), &[set(b"a", b"old")]),
            Committed::Refused
        );
    }
    assert_eq!(payloads(tier, b"a"), [pair(b"a", b"5")]);
    assert_eq!(
        commit(tier, b"a", version(1, 1 << 40), &[set(b"a", b"far")]),
        Committed::Saved
    );
    assert_eq!(tier.tag(b"a").unwrap().unwrap().saved, version(1, 1 << 40));
}

pub fn a_refused_commit_writes_nothing(tier: &dyn ColdTier) {
    save(tier, b"a", 5, &[set(b"{a}x", b"5"), delete(b"{a}y")]);
    let before = tier.tag(b"a").unwrap();
    let late = [
        set(b"{a}x", b"4"),
        set(b"{a}y", b"4"),
        set(b"{a}new", b"4"),
        delete(b"{a}gone"),
    ];
    let mut late = snapshot(b"a", version(1, 4), &late);
    late.read_at_ms = Some(NOW_MS + 5);
    assert_eq!(tier.commit(&[late], NOW_MS + 10).unwrap(), [Committed::Refused]);

    assert_eq!(tier.tag(b"a").unwrap(), before);
    assert_eq!(payloads(tier, b"a"), [pair(b"{a}x", b"5")]);
    assert_eq!(tombstones(tier, b"a"), [b"{a}y".to_vec()]);
}

pub fn a_snapshot_without_changes_still_counts(tier: &dyn ColdTier) {
    save(tier, b"a", 1, &[set(b"a", b"1")]);
    save(tier, b"a", 2, &[]);
    assert_eq!(tier.tag(b"a").unwrap().unwrap().saved, version(1, 2));
    assert_eq!(payloads(tier, b"a"), [pair(b"a", b"1")]);
    assert_eq!(tier.commit(&[], NOW_MS).unwrap(), []);
}

pub fn snapshots_of_one_call_are_judged_one_by_one(tier: &dyn ColdTier) {
    tier.ensure(&[b"a", b"b"]).unwrap();
    let call = [
        snapshot(b"a", version(1, 2), &[set(b"a", b"2")]),
        snapshot(b"no row", version(1, 1), &[set(b"no row", b"1")]),
        snapshot(b"a", version(1, 1), &[set(b"a", b"1")]),
        snapshot(b"b", version(2, 1), &[set(b"b", b"1")]),
        snapshot(b"a", version(1, 3), &[set(b"a", b"3")]),
    ];
    let ends = tier.commit(&call, NOW_MS).unwrap();
    use Committed::{Refused, Saved};
    assert_eq!(ends, [Saved, Refused, Refused, Refused, Saved]);
    assert_eq!(payloads(tier, b"a"), [pair(b"a", b"3")]);
    assert_eq!(payloads(tier, b"b"), []);
}

pub fn a_claim_shuts_the_snapshots_before_it_out(tier: &dyn ColdTier) {
    save(tier, b"a", 1, &[set(b"a", b"1")]);
    let late = snapshot(b"a", version(1, 2), &[delete(b"a")]);
    tier.claim(b"a", Some(1)).unwrap();
    assert_eq!(tier.commit(&[late], NOW_MS).unwrap(), [Committed::Refused]);
    assert_eq!(payloads(tier, b"a"), [pair(b"a", b"1")]);
}

pub fn a_deleted_key_leaves_a_tombstone(tier: &dyn ColdTier) {
    save(tier, b"a", 1, &[set(b"{a}x", b"1"), set(b"{a}y", b"1")]);
    save(tier, b"a", 2, &[delete(b"{a}x")]);
    assert_eq!(payloads(tier, b"a"), [pair(b"{a}y", b"1")]);
    assert_eq!(tombstones(tier, b"a"), [b"{a}x".to_vec()]);
    // A late snapshot that still had the key cannot bring it back.
    assert_eq!(
        commit(tier, b"a", version(1, 1), &[set(b"{a}x", b"1")]),
        Committed::Refused
    );
    assert_eq!(payloads(tier, b"a"), [pair(b"{a}y", b"1")]);
}

pub fn a_tombstone_goes_when_the_key_is_back(tier: &dyn ColdTier) {
    save(tier, b"a", 1, &[set(b"a", b"1")]);
    save(tier, b"a", 2, &[delete(b"a")]);
    save(tier, b"a", 3, &[set(b"a", b"3")]);
    assert_eq!(tombstones(tier, b"a"), Vec::<Vec<u8>>::new());
    assert_eq!(payloads(tier, b"a"), [pair(b"a", b"3")]);
}

pub fn a_tombstone_is_left_by_a_key_that_had_no_row(tier: &dyn ColdTier) {
    save(tier, b"a", 1, &[delete(b"a")]);
    save(tier, b"a", 2, &[delete(b"a")]);
    assert_eq!(tombstones(tier, b"a"), [b"a".to_vec()]);
    assert_eq!(tier.totals().unwrap().tombstones, 1);
}

pub fn rows_come_back_byte_for_byte(tier: &dyn ColdTier) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let long = vec![0xA5; 300_000];
    let names: [&[u8]; 6] = [
        b"",
        b"\0",
        b"a\0b",
        b"\xff\xfe",
        "\u{3042}".as_bytes(),
        &every_byte,
    ];
    for (place, tag) in names.iter().enumerate() {
        let mut wanted = Vec::new();
        for (number, key) in names.iter().enumerate() {
            let payload = match number {
                0 => Vec::new(),
                1 => long.clone(),
                _ => [every_byte.as_slice(), &[place as u8, number as u8]].concat(),
            };
            let value = StoredValue {
                kind: Kind::ALL[number],
                payload,
                expires_at_ms: None,
            };
            wanted.push(Row {
                key: key.to_vec(),
                value,
            });
        }
        let changes: Vec<Change> = wanted
            .iter()
            .map(|row| Change {
                key: row.key.clone(),
                value: Some(row.value.clone()),
            })
            .collect();
        save(tier, tag, 1, &changes);
        wanted.sort_by(|one, other| one.key.cmp(&other.key));
        assert_eq!(rows(tier, tag), wanted);
        assert_eq!(tier.tag(tag).unwrap().unwrap().tag, *tag);
    }
    assert_eq!(tier.totals().unwrap().tags, names.len() as u64);
}

pub fn expiry_comes_back_exactly(tier: &dyn ColdTier) {
    let times = [
        None,
        Some(1),
        Some(NOW_MS + 1),
        Some(NOW_MS + 999),
        Some(i64::MAX),
    ];
    let changes: Vec<Change> = times
        .iter()
        .enumerate()
        .map(|(number, &expires_at_ms)| Change {
            key: vec![number as u8],
            value: Some(StoredValue {
                expires_at_ms,
                ..text(b"v")
            }),
        })
        .collect();
    save(tier, b"a", 1, &changes);
    let found: Vec<_> = rows(tier, b"a")
        .into_iter()
        .map(|row| row.value.expires_at_ms)
        .collect();
    assert_eq!(found, times);

    save(tier, b"a", 2, &[set(&[2], b"v")]);
    assert_eq!(
        rows(tier, b"a")[2].value.expires_at_ms,
        None,
        "a new value without expiry has none"
    );
}

/// The hot tier's clock decides what has expired, not the cold tier's.
pub fn an_expired_row_is_still_given_back(tier: &dyn ColdTier) {
    let value = StoredValue {
        expires_at_ms: Some(1),
        ..text(b"v")
    };
    save(
        tier,
        b"a",
        1,
        &[Change {
            key: b"a".to_vec(),
            value: Some(value.clone()),
        }],
    );
    assert_eq!(
        rows(tier, b"a"),
        [Row {
            key: b"a".to_vec(),
            value
        }]
    );
    assert_eq!(tier.keys_after(None, 10).unwrap().len(), 1);
    assert_eq!(tier.tag(b"a").unwrap().unwrap().keys, 1);
}

pub fn many_snapshots_share_a_call(tier: &dyn ColdTier) {
    let names: Vec<Vec<u8>> = (0..1500)
        .map(|number| format!("tag{number}").into_bytes())
        .collect();
    let tags: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    tier.ensure(&tags).unwrap();
    let call: Vec<_> = tags
        .iter()
        .map(|tag| {
            snapshot(
                tag,
                version(1, 1),
                &[set(tag, tag), delete(&[tag, &b".gone"[..]].concat())],
            )
        })
        .collect();
    let ends = tier.commit(&call, NOW_MS).unwrap();
    assert_eq!(ends.len(), 1500);
    assert!(ends.iter().all(|end| *end == Committed::Saved));
    let totals = tier.totals().unwrap();
    assert_eq!((totals.tags, totals.keys, totals.tombstones), (1500, 1500, 1500));
    assert_eq!(payloads(tier, tags[777]), [pair(tags[777], tags[777])]);
}

/// Both keys always carry the same value, so a reader that finds two different ones saw half a commit.
pub fn a_reader_sees_all_of_a_snapshot_or_nothing(tier: &dyn ColdTier) {
    save(tier, b"a", 1, &[set(b"{a}x", &[0]), set(b"{a}y", &[0])]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !is_over.load(Ordering::Relaxed) || reads == 0 {
                let loaded = tier.read(&[b"a"]).unwrap().remove(0).unwrap();
                assert_eq!(loaded.rows.len(), 2);
                assert_eq!(loaded.rows[0].value, loaded.rows[1].value, "half a snapshot");
                let first = u64::from(loaded.rows[0].value.payload[0]);
                assert_eq!(
                    loaded.saved.snap,
                    first + 1,
                    "a version that is not that of the rows"
                );
                reads += 1;
            }
        });
        for value in 1..=50 {
            save(
                tier,
                b"a",
                u64::from(value) + 1,
                &[set(b"{a}x", &[value]), set(b"{a}y", &[value])],
            );
        }
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}
