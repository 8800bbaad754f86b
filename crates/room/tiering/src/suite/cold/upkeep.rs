//! Removal, facts and checks.

use super::{NOW_MS, commit, delete, pair, payloads, rows, save, set, snapshot, text, tombstones, version};
use crate::cold::{Change, ColdTier, Committed, StoredValue, Version};

fn expiring(key: &[u8], expires_at_ms: i64) -> Change {
    Change {
        key: key.to_vec(),
        value: Some(StoredValue {
            expires_at_ms: Some(expires_at_ms),
            ..text(b"v")
        }),
    }
}

pub fn an_erased_tag_leaves_nothing(tier: &dyn ColdTier) {
    save(
        tier,
        b"a",
        1,
        &[set(b"{a}x", b"1"), set(b"{a}y", b"1"), delete(b"{a}z")],
    );
    save(tier, b"ab", 1, &[set(b"ab", b"1")]);
    assert_eq!(tier.erase(b"a").unwrap(), 2);
    assert_eq!(tier.erase(b"a").unwrap(), 0);
    assert_eq!(tier.generations(&[b"a", b"ab"]).unwrap(), [None, Some(1)]);
    assert_eq!(tier.read(&[b"a"]).unwrap(), [None]);
    assert_eq!(tier.keys_after(None, 9).unwrap().len(), 1);
    // A tag of the same name starts afresh.
    save(tier, b"a", 1, &[set(b"{a}new", b"2")]);
    assert_eq!(payloads(tier, b"a"), [pair(b"{a}new", b"2")]);
    assert_eq!(tombstones(tier, b"a"), Vec::<Vec<u8>>::new());
}

pub fn a_wipe_spares_what_was_saved_after_it(tier: &dyn ColdTier) {
    tier.set_fact("settings", b"kept").unwrap();
    tier.ensure(&[b"never saved"]).unwrap();
    save(tier, b"before", 10, &[set(b"before", b"1"), delete(b"{before}")]);
    save(tier, b"at", 20, &[set(b"at", b"1")]);
    save(tier, b"after", 21, &[set(b"after", b"1")]);
    save(tier, b"later", 1, &[set(b"later", b"1")]);
    tier.claim(b"later", Some(1)).unwrap();
    assert_eq!(commit(tier, b"later", version(2, 1), &[]), Committed::Saved);

    tier.wipe(version(1, 20)).unwrap();

    let gone = [b"before".as_slice(), b"at", b"never saved"];
    assert_eq!(tier.read(&gone).unwrap(), [None, None, None]);
    assert_eq!(payloads(tier, b"after"), [pair(b"after", b"1")]);
    assert_eq!(payloads(tier, b"later"), [pair(b"later", b"1")]);
    let totals = tier.totals().unwrap();
    assert_eq!((totals.tags, totals.keys, totals.tombstones), (2, 2, 0));
    assert_eq!(tier.fact("settings").unwrap(), Some(b"kept".to_vec()));

    tier.wipe(Version {
        generation: u64::from(u32::MAX),
        snap: u64::from(u32::MAX),
    })
    .unwrap();
    assert_eq!(tier.totals().unwrap().tags, 0);
}

pub fn purge_removes_what_expired_and_was_buried_before(tier: &dyn ColdTier) {
    let first = [
        expiring(b"{a}1", 99),
        expiring(b"{a}2", 100),
        set(b"{a}3", b"v"),
        delete(b"{a}4"),
    ];
    tier.ensure(&[b"a"]).unwrap();
    assert_eq!(
        tier.commit(&[snapshot(b"a", version(1, 1), &first)], 50).unwrap(),
        [Committed::Saved]
    );
    let second = snapshot(b"a", version(1, 2), &[delete(b"{a}5")]);
    assert_eq!(tier.commit(&[second], 60).unwrap(), [Committed::Saved]);

    assert_eq!(tier.purge(99, 50, 100).unwrap(), 0, "before means before");
    assert_eq!(tier.purge(100, 60, 100).unwrap(), 2);
    let left: Vec<_> = rows(tier, b"a").into_iter().map(|row| row.key).collect();
    assert_eq!(left, [b"{a}2".to_vec(), b"{a}3".to_vec()]);
    assert_eq!(tombstones(tier, b"a"), [b"{a}5".to_vec()]);
    assert_eq!(tier.purge(i64::MAX, i64::MAX, 100).unwrap(), 2);
    assert_eq!(payloads(tier, b"a"), [pair(b"{a}3", b"v")]);
    let row = tier.tag(b"a").unwrap().unwrap();
    assert_eq!((row.keys, row.bytes), (1, 5));
}

pub fn empty_tags_are_forgotten_once_their_version_is_not_needed(tier: &dyn ColdTier) {
    for (number, tag) in [b"a", b"b", b"c", b"d"].into_iter().enumerate() {
        save(tier, tag, 10 + number as u64, &[set(tag, b"v")]);
    }
    save(tier, b"a", 20, &[delete(b"a")]);
    save(tier, b"b", 21, &[delete(b"b")]);
    save(tier, b"c", 30, &[delete(b"c")]);
    tier.purge(i64::MIN, i64::MAX, 100).unwrap();
    let up_to = Version {
        generation: 1,
        snap: 21,
    };
    let (mut forgotten, mut from) = (0, 0);
    loop {
        let (some, next) = tier.forget_empty(up_to, from, 1).unwrap();
        forgotten += some;
        from = next;
        if from == 0 {
            break;
        }
    }
    assert_eq!(forgotten, 2);
    assert!(tier.tag(b"a").unwrap().is_none());
    assert!(tier.tag(b"c").unwrap().is_some(), "saved after that");
    assert_eq!(tier.tag(b"d").unwrap().map(|row| row.keys), Some(1));
    assert_eq!(tier.totals().unwrap().tags, 2);
}

pub fn purge_stops_at_its_limit(tier: &dyn ColdTier) {
    let expired: Vec<Change> = (0..10).map(|number| expiring(&[number], 5)).collect();
    save(tier, b"a", 1, &expired);
    save(
        tier,
        b"b",
        1,
        &(0..10).map(|number| delete(&[number])).collect::<Vec<_>>(),
    );
    let mut purged = Vec::new();
    loop {
        let count = tier.purge(NOW_MS, NOW_MS + 1, 6).unwrap();
        if count == 0 {
            break;
        }
        assert!(count <= 6);
        purged.push(count);
    }
    assert_eq!(purged.iter().sum::<usize>(), 20);
    let totals = tier.totals().unwrap();
    assert_eq!((totals.keys, totals.tombstones, totals.bytes), (0, 0, 0));
}

/// Generations must not start over: a late snapshot would fit again.
pub fn a_purged_tag_keeps_its_generation(tier: &dyn ColdTier) {
    save(tier, b"a", 1, &[expiring(b"a", 5)]);
    tier.claim(b"a", Some(1)).unwrap();
    assert_eq!(tier.purge(NOW_MS, NOW_MS, 100).unwrap(), 1);
    assert_eq!(tier.generations(&[b"a"]).unwrap(), [Some(2)]);
    assert_eq!(tier.tag(b"a").unwrap().unwrap().saved, version(1, 1));
}

pub fn facts_are_kept_and_replaced(tier: &dyn ColdTier) {
    assert_eq!(tier.fact("functions").unwrap(), None);
    tier.set_fact("functions", b"\0\xff one").unwrap();
    tier.set_fact("other", b"").unwrap();
    tier.set_fact("functions", b"\0\xff two").unwrap();
    assert_eq!(tier.fact("functions").unwrap(), Some(b"\0\xff two".to_vec()));
    assert_eq!(tier.fact("other").unwrap(), Some(Vec::new()));
    assert_eq!(tier.fact("function").unwrap(), None);
    assert_eq!(tier.totals().unwrap().tags, 0, "a fact is no tag");
}

pub fn a_sound_tier_has_no_findings(tier: &dyn ColdTier) {
    assert_eq!(tier.check().unwrap(), []);
    save(tier, b"a", 1, &[set(b"a", b"1"), delete(b"b")]);
    tier.claim(b"a", Some(1)).unwrap();
    tier.erase(b"a").unwrap();
    save(tier, b"b", 1, &[set(b"b", b"1")]);
    assert_eq!(tier.check().unwrap(), []);
}
