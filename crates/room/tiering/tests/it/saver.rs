use std::time::Duration;

use nagaya_clock::Clock;
use nagaya_tiering::cold::{ColdTier, Status};
use nagaya_tiering::hot::HotTier;
use nagaya_tiering::saver::SaveReport;

use crate::tiers::{SETTLE, STALENESS, Tiers};

fn is_dirty(tiers: &Tiers) -> bool {
    !tiers.hot.dirty_tags(None, 100).unwrap().tags.is_empty()
}

#[test]
fn a_change_is_saved_at_half_of_what_is_allowed() {
    let tiers = Tiers::with_leases();
    let mut saver = tiers.saver();
    tiers.set(b"a", b"1");
    tiers.pass(STALENESS / 2 - Duration::from_millis(1));
    let early = saver.round().unwrap();
    assert_eq!((early.saved, early.waiting), (0, 1));
    assert_eq!(tiers.cold_value(b"a"), None);
    tiers.pass(Duration::from_millis(1));
    let due = saver.round().unwrap();
    assert_eq!((due.saved, due.oldest), (1, STALENESS / 2));
    assert_eq!(tiers.cold_value(b"a"), Some(b"1".to_vec()));
}

#[test]
fn with_leases_a_key_stays_dirty_until_its_token_has_settled() {
    let tiers = Tiers::with_leases();
    let mut saver = tiers.saver();
    tiers.set(b"a", b"1");
    saver.flush().unwrap();
    tiers.pass(SETTLE - Duration::from_millis(1));
    assert_eq!(saver.flush().unwrap().cleaned, 0);
    assert!(is_dirty(&tiers));
    tiers.pass(Duration::from_millis(1));
    assert_eq!(saver.flush().unwrap().cleaned, 1);
    assert!(!is_dirty(&tiers));
    assert_eq!(tiers.cold.tag(b"a").unwrap().unwrap().status, Status::Synced);
}

#[test]
fn without_leases_one_round_cleans() {
    let tiers = Tiers::embedded();
    let mut saver = tiers.saver();
    tiers.set(b"a", b"1");
    assert_eq!(
        saver.flush().unwrap(),
        SaveReport {
            saved: 1,
            cleaned: 1,
            ..SaveReport::default()
        }
    );
    assert!(!is_dirty(&tiers));
}

#[test]
fn a_tag_that_is_written_all_the_time_is_saved_all_the_same() {
    let tiers = Tiers::with_leases();
    let mut saver = tiers.saver();
    for number in 0..20_u8 {
        tiers.set(b"a", &[number]);
        tiers.pass(Duration::from_secs(1));
        saver.round().unwrap();
        let behind = tiers.cold_value(b"a").map_or(number, |value| number - value[0]);
        assert!(u64::from(behind) <= STALENESS.as_secs(), "{behind} writes behind");
    }
    assert!(is_dirty(&tiers));
    let report = saver.round().unwrap();
    assert!(
        report.oldest <= STALENESS,
        "the copy is younger than the first write: {report:?}"
    );
}

#[test]
fn a_row_that_is_too_new_holds_up_nobody() {
    let lag = Duration::from_secs(1);
    let tiers = Tiers::with_lag(lag);
    let mut saver = tiers.saver();
    tiers.set(b"old", b"1");
    let before = tiers.clock.steady();
    saver.flush().unwrap();
    assert_eq!(tiers.clock.steady() - before, lag, "a flush waits");
    tiers.pass(STALENESS);
    tiers.set(b"old", b"2");
    for number in 0..20_u8 {
        tiers.set(&[number], b"1");
    }
    tiers.pass(STALENESS / 2);
    let before = tiers.clock.steady();
    let first = saver.round().unwrap();
    assert_eq!(tiers.clock.steady(), before, "a round does not wait");
    assert_eq!((first.saved, first.waiting, first.ripe_in), (1, 20, Some(lag)));
    assert_eq!(tiers.cold_value(b"old"), Some(b"2".to_vec()));
    assert_eq!(
        tiers.cold_value(&[7]),
        None,
        "no snapshot before others can know of the row"
    );
    tiers.pass(lag - Duration::from_millis(1));
    assert_eq!(saver.round().unwrap().saved, 0);
    tiers.pass(Duration::from_millis(1));
    assert_eq!(saver.round().unwrap().saved, 20);
}

#[test]
fn a_tag_that_is_not_written_again_is_copied_three_times_at_most() {
    let tiers = Tiers::with_leases();
    let mut saver = tiers.saver();
    tiers.set(b"a", b"1");
    let mut copies = 0;
    for _ in 0..80 {
        tiers.pass(Duration::from_millis(250));
        copies += saver.round().unwrap().saved;
    }
    assert!(!is_dirty(&tiers));
    assert!(copies <= 3, "{copies} copies");
}

#[test]
fn a_tag_whose_row_is_gone_gets_another() {
    let tiers = Tiers::with_leases();
    let mut saver = tiers.saver();
    tiers.set(b"a", b"1");
    saver.flush().unwrap();
    tiers.cold.erase(b"a").unwrap();
    assert_eq!(saver.flush().unwrap().refused, 1);
    assert_eq!(saver.flush().unwrap().saved, 1);
    assert_eq!(tiers.cold_value(b"a"), Some(b"1".to_vec()));
}

#[test]
fn a_key_that_is_written_again_starts_its_wait_again() {
    let tiers = Tiers::with_leases();
    let mut saver = tiers.saver();
    tiers.set(b"a", b"1");
    saver.flush().unwrap();
    tiers.pass(SETTLE);
    tiers.set(b"a", b"2");
    assert_eq!(saver.flush().unwrap().cleaned, 0);
    assert_eq!(tiers.cold_value(b"a"), Some(b"2".to_vec()));
    tiers.pass(SETTLE);
    assert_eq!(saver.flush().unwrap().cleaned, 1);
}

#[test]
fn many_tags_are_saved_in_batches() {
    let tiers = Tiers::with_leases();
    let mut saver = tiers.saver();
    for number in 0..20_u8 {
        tiers.set(&[number], b"1");
    }
    assert_eq!(saver.flush().unwrap().saved, 20);
    tiers.pass(SETTLE);
    assert_eq!(saver.flush().unwrap().cleaned, 20);
    assert_eq!(tiers.cold.totals().unwrap().keys, 20);
}

#[test]
fn a_saver_that_is_late_is_refused_and_says_so() {
    let tiers = Tiers::with_leases();
    let (mut early, mut late) = (tiers.saver(), tiers.saver());
    tiers.set(b"a", b"1");
    early.flush().unwrap();
    // Another fleet member loads the tag anew: the cold row belongs to a later residency.
    tiers.cold.claim(b"a", Some(1)).unwrap();
    tiers.set(b"a", b"2");
    let report = late.flush().unwrap();
    assert_eq!((report.saved, report.refused), (0, 1));
    assert_eq!(tiers.cold_value(b"a"), Some(b"1".to_vec()));
}

#[test]
fn a_saver_never_empties_the_backup_of_a_node_that_lost_everything() {
    let tiers = Tiers::with_leases();
    let mut saver = tiers.saver();
    tiers.set(b"{a}x", b"1");
    tiers.save_all(&mut saver);
    tiers.set(b"{a}x", b"2");
    tiers.hot.lose_everything();
    saver.flush().unwrap();
    assert_eq!(tiers.cold_value(b"{a}x"), Some(b"1".to_vec()));
}

#[test]
fn a_suspect_tag_is_skipped_until_it_is_loaded_again() {
    let tiers = Tiers::with_leases();
    let mut saver = tiers.saver();
    tiers.set(b"a", b"1");
    tiers.hot.begin_new_life();
    assert_eq!(saver.flush().unwrap().skipped, 1);
    assert_eq!(tiers.get(b"a"), Some(b"1".to_vec()));
    assert_eq!(saver.flush().unwrap().saved, 1);
}

#[test]
fn a_deleted_key_does_not_come_back() {
    let tiers = Tiers::with_leases();
    let mut saver = tiers.saver();
    tiers.set(b"{a}x", b"1");
    tiers.set(b"{a}y", b"1");
    tiers.save_all(&mut saver);
    tiers.delete(b"{a}x");
    tiers.save_all(&mut saver);
    tiers.hot.lose_everything();
    assert_eq!(
        (tiers.get(b"{a}x"), tiers.get(b"{a}y")),
        (None, Some(b"1".to_vec()))
    );
}
