//! Random histories of both tiers and every driver: reads always find the last write.

use std::collections::BTreeMap;
use std::time::Duration;

use nagaya_tiering::cold::ColdTier;
use proptest::prelude::*;

use crate::tiers::Tiers;

const KEYS: [&[u8]; 4] = [b"{a}x", b"{a}y", b"b", b""];

#[derive(Clone, Copy, Debug)]
enum Step {
    Set(usize, u8),
    Delete(usize),
    Read(usize),
    Save { saver: usize },
    Evict,
    Pass { seconds: u64 },
    NewLife,
    LoseEverything,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..KEYS.len(), any::<u8>()).prop_map(|(key, value)| Step::Set(key, value)),
        2 => (0..KEYS.len()).prop_map(Step::Delete),
        2 => (0..KEYS.len()).prop_map(Step::Read),
        4 => (0..2_usize).prop_map(|saver| Step::Save { saver }),
        2 => Just(Step::Evict),
        4 => (1..9_u64).prop_map(|seconds| Step::Pass { seconds }),
        1 => Just(Step::NewLife),
        1 => Just(Step::LoseEverything),
    ]
}

fn cold_copy(tiers: &Tiers) -> BTreeMap<Vec<u8>, Vec<u8>> {
    KEYS.iter()
        .filter_map(|key| Some((key.to_vec(), tiers.cold_value(key)?)))
        .collect()
}

fn check(tiers: &Tiers, steps: &[Step]) {
    let mut savers = [tiers.saver(), tiers.saver()];
    let evictor = tiers.evictor();
    let mut truth = BTreeMap::new();
    for step in steps {
        match *step {
            Step::Set(key, value) => {
                tiers.set(KEYS[key], &[value]);
                truth.insert(KEYS[key].to_vec(), vec![value]);
            }
            Step::Delete(key) => {
                tiers.delete(KEYS[key]);
                truth.remove(KEYS[key]);
            }
            Step::Read(key) => assert_eq!(tiers.get(KEYS[key]), truth.get(KEYS[key]).cloned()),
            Step::Save { saver } => drop(savers[saver].round().unwrap()),
            Step::Evict => drop(evictor.round(10, Duration::from_secs(3)).unwrap()),
            Step::Pass { seconds } => tiers.pass(Duration::from_secs(seconds)),
            Step::NewLife => tiers.hot.begin_new_life(),
            Step::LoseEverything => {
                tiers.hot.lose_everything();
                truth = cold_copy(tiers);
            }
        }
    }
    for key in KEYS {
        assert_eq!(
            tiers.get(key),
            truth.get(key).cloned(),
            "{}",
            String::from_utf8_lossy(key)
        );
    }
    tiers.save_all(&mut savers[0]);
    assert_eq!(cold_copy(tiers), truth, "everything can be saved in the end");
    assert_eq!(tiers.cold.check().unwrap(), []);
}

proptest! {
    #[test]
    fn with_leases_reads_find_the_last_write(steps in prop::collection::vec(step(), 0..60)) {
        check(&Tiers::with_leases(), &steps);
    }

    #[test]
    fn without_leases_reads_find_the_last_write(steps in prop::collection::vec(step(), 0..60)) {
        check(&Tiers::embedded(), &steps);
    }
}
