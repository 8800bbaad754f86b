//! Generations and claims: which process may load a tag, and what it reads.

use std::thread;

use super::{commit, delete, pair, payloads, save, set, tombstones, version};
use crate::cold::{Claimed, ColdTier, Committed, Loaded, Version};

fn loaded(claimed: Claimed) -> Loaded {
    match claimed {
        Claimed::Loaded(loaded) => loaded,
        other => panic!("the claim should have loaded, not ended as {other:?}"),
    }
}

pub fn a_tag_without_a_row_has_no_generation(tier: &dyn ColdTier) {
    assert_eq!(tier.generations(&[b"a", b"b"]).unwrap(), [None, None]);
    assert_eq!(tier.generations(&[]).unwrap(), []);
    assert_eq!(tier.read(&[b"a"]).unwrap(), [None]);
    assert_eq!(tier.tag(b"a").unwrap(), None);
}

pub fn ensure_makes_rows_with_generation_one_and_leaves_others_alone(tier: &dyn ColdTier) {
    tier.ensure(&[b"a"]).unwrap();
    loaded(tier.claim(b"a", Some(1)).unwrap());

    tier.ensure(&[b"a", b"b", b"b"]).unwrap();

    assert_eq!(
        tier.generations(&[b"b", b"c", b"a", b"b"]).unwrap(),
        [Some(1), None, Some(2), Some(1)]
    );
    let row = tier.tag(b"b").unwrap().unwrap();
    assert_eq!(row.saved, Version::default());
    assert_eq!(row.keys, 0);
}

pub fn a_claim_moves_the_generation_by_one_and_reads_the_rows(tier: &dyn ColdTier) {
    save(
        tier,
        b"a",
        4,
        &[set(b"{a}x", b"1"), set(b"{a}y", b"2"), delete(b"{a}z")],
    );

    let claim = loaded(tier.claim(b"a", Some(1)).unwrap());

    assert_eq!(claim.generation, 2);
    assert_eq!(claim.saved, version(1, 4));
    let mut keys: Vec<_> = claim
        .rows
        .iter()
        .map(|row| (row.key.clone(), row.value.payload.clone()))
        .collect();
    keys.sort();
    assert_eq!(keys, [pair(b"{a}x", b"1"), pair(b"{a}y", b"2")]);
    assert_eq!(claim.tombstones, [b"{a}z".to_vec()]);
    assert_eq!(tier.generations(&[b"a"]).unwrap(), [Some(2)]);

    assert_eq!(loaded(tier.claim(b"a", Some(2)).unwrap()).generation, 3);
}

pub fn a_claim_of_a_tag_without_a_row_writes_nothing(tier: &dyn ColdTier) {
    assert_eq!(tier.claim(b"a", None).unwrap(), Claimed::NoRow);
    assert_eq!(tier.claim(b"a", None).unwrap(), Claimed::NoRow);
    assert_eq!(tier.generations(&[b"a"]).unwrap(), [None]);
    assert_eq!(tier.totals().unwrap().tags, 0);
}

pub fn a_claim_on_another_base_finds_the_tag_moved(tier: &dyn ColdTier) {
    assert_eq!(
        tier.claim(b"a", Some(1)).unwrap(),
        Claimed::Moved,
        "the row is gone"
    );
    tier.ensure(&[b"a"]).unwrap();
    assert_eq!(tier.claim(b"a", None).unwrap(), Claimed::Moved, "the row is new");
    loaded(tier.claim(b"a", Some(1)).unwrap());
    assert_eq!(
        tier.claim(b"a", Some(1)).unwrap(),
        Claimed::Moved,
        "somebody claimed it"
    );
    assert_eq!(
        tier.claim(b"a", Some(3)).unwrap(),
        Claimed::Moved,
        "a base from nowhere"
    );
    assert_eq!(tier.generations(&[b"a"]).unwrap(), [Some(2)]);
}

pub fn of_many_claims_on_one_base_one_wins(tier: &dyn ColdTier) {
    tier.ensure(&[b"a"]).unwrap();
    for base in 1..=5 {
        let wins = thread::scope(|scope| {
            let claims: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| tier.claim(b"a", Some(base)).unwrap()))
                .collect();
            let ends = claims.into_iter().map(|claim| claim.join().unwrap());
            ends.filter(|end| matches!(end, Claimed::Loaded(_))).count()
        });
        assert_eq!(wins, 1);
        assert_eq!(tier.generations(&[b"a"]).unwrap(), [Some(base + 1)]);
    }
}

pub fn reading_claims_nothing(tier: &dyn ColdTier) {
    save(tier, b"a", 1, &[set(b"a", b"1")]);
    let read = tier.read(&[b"b", b"a"]).unwrap();
    assert_eq!(read[0], None);
    let found = read[1].as_ref().unwrap();
    assert_eq!((found.generation, found.saved), (1, version(1, 1)));
    assert_eq!(tier.generations(&[b"a"]).unwrap(), [Some(1)]);
    assert_eq!(
        commit(tier, b"a", version(1, 2), &[delete(b"a")]),
        Committed::Saved
    );
    assert_eq!(tombstones(tier, b"a"), [b"a".to_vec()]);
}

pub fn many_tags_are_asked_about_at_once(tier: &dyn ColdTier) {
    let names: Vec<Vec<u8>> = (0..3000)
        .map(|number| format!("tag{number}").into_bytes())
        .collect();
    let tags: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    tier.ensure(&tags[..2000]).unwrap();

    let generations = tier.generations(&tags).unwrap();
    assert!(
        generations[..2000]
            .iter()
            .all(|generation| *generation == Some(1))
    );
    assert!(generations[2000..].iter().all(Option::is_none));

    save(tier, tags[1999], 1, &[set(b"{tag1999}k", b"v")]);
    let read = tier.read(&tags).unwrap();
    assert_eq!(read.len(), 3000);
    assert_eq!(read[1999].as_ref().unwrap().rows.len(), 1);
    assert_eq!(read.iter().flatten().count(), 2000);
    assert_eq!(payloads(tier, tags[1999]), [pair(b"{tag1999}k", b"v")]);
}
