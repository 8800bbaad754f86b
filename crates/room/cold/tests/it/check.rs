//! Finding damage that was made on purpose.

use nagaya_cold::sqlite::Scope;
use rusqlite::Connection;

use crate::support::{Place, assert_sound, put, save};

#[track_caller]
fn check(damage: &str, expected: &str) {
    let place = Place::new();
    let cold = place.open();
    for number in 0..30u8 {
        save(&cold, &[b't', number], 1, vec![put(b"k", b"v")]);
    }
    assert_sound(&cold);
    let vandal = Connection::open(place.path()).unwrap();
    vandal.execute_batch(damage).unwrap();
    let findings = cold.check_with(Scope::Whole, &mut |_| ()).unwrap();
    assert!(
        findings.iter().any(|finding| finding.what.contains(expected)),
        "{findings:?}"
    );
    assert!(findings.iter().all(|finding| !finding.remedy.is_empty()));
    if !expected.contains("payload") {
        cold.recount().unwrap();
        assert_sound(&cold);
    }
}

#[test]
fn each_kind_of_damage_is_found_and_named() {
    check("UPDATE tags SET keys = 9 WHERE id = 3", "says 9 keys");
    check("UPDATE tags SET bytes = bytes + 1 WHERE id = 7", "bytes");
    check("DELETE FROM tags WHERE id = 5", "1 keys belong to no tag");
    check("UPDATE totals SET tags = 4", "the sums say 4 tags");
    check(
        "UPDATE keys SET payload = x'00' WHERE tag_id = 2",
        "the payload of key k",
    );
}

#[test]
fn a_sample_looks_at_some_tags_and_tells_how_far_it_is() {
    let place = Place::new();
    let cold = place.open();
    for number in 0..100u8 {
        save(&cold, &[number], 1, vec![put(b"k", b"v")]);
    }
    let mut seen = Vec::new();
    let scope = Scope::Sample { tags: 10 };
    let findings = cold
        .check_with(scope, &mut |progress| seen.push(progress))
        .unwrap();
    assert_eq!(findings, []);
    let last = seen.last().unwrap();
    assert_eq!(last.tags_total, 10);
    assert!((10..=12).contains(&last.tags_done), "{last:?}");
}

#[test]
fn an_empty_tier_is_sound() {
    assert_sound(&Place::new().open());
}
