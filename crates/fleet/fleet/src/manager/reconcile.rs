//! The difference between the external list and the fleet, and the guard against mass stops.

use std::collections::{BTreeMap, BTreeSet};

use sha1::{Digest, Sha1};

use crate::name::WorkerId;
use crate::store::{Install, Place};

/// The changes that bring the fleet in line with the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Workers that are new, changed, or wanted again.
    pub puts: Vec<Install>,
    pub stops: Vec<WorkerId>,
}

/// Compares a list with the installed workers. Workers with unreadable records are left alone.
pub fn difference(
    list: &[Install],
    places: &BTreeMap<WorkerId, Place>,
    unreadable: &BTreeSet<String>,
) -> Difference {
    let mut difference = Difference::default();
    let mut listed = BTreeSet::new();
    for install in list {
        listed.insert(&install.worker);
        if unreadable.contains(install.worker.as_str()) {
            continue;
        }
        let same = places.get(&install.worker).is_some_and(|place| {
            !place.remove
                && install.has_config_name(&place.config)
                && place.constraints == install.constraints
        });
        if !same {
            difference.puts.push(install.clone());
        }
    }
    let stops = places
        .iter()
        .filter(|(worker, place)| !place.remove && !listed.contains(worker));
    difference.stops = stops.map(|(worker, _)| worker.clone()).collect();
    difference
}

/// Holds back lists that would stop too many workers at once: an external list that is suddenly empty is more
/// often broken than intended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MassStopGuard {
    /// Largest share of the fleet that one list may stop, 0 to 1.
    pub share_max: f64,
    /// A list may always stop up to this many workers.
    pub always_allowed: usize,
}

impl Default for MassStopGuard {
    fn default() -> MassStopGuard {
        MassStopGuard {
            share_max: 0.3,
            always_allowed: 3,
        }
    }
}

/// Stops that wait for an operator's confirmation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldStops {
    /// Identifies exactly these stops in a confirmation.
    pub digest: String,
    pub stops: usize,
    pub of: usize,
}

impl MassStopGuard {
    /// Returns the stops to hold back, or `None` if they are allowed or confirmed. `recent` is how many workers lists
    /// have stopped lately: a list that shrinks in small steps shrinks all the same.
    pub fn judge(
        &self,
        stops: &[WorkerId],
        installed: usize,
        recent: usize,
        confirmed: Option<&str>,
    ) -> Option<HeldStops> {
        let all = stops.len() + recent;
        let share = all as f64 / (installed + recent).max(1) as f64;
        if stops.is_empty() || all <= self.always_allowed || share <= self.share_max {
            return None;
        }
        let digest = digest(stops);
        (confirmed != Some(&digest)).then_some(HeldStops {
            digest,
            stops: stops.len(),
            of: installed,
        })
    }
}

fn digest(stops: &[WorkerId]) -> String {
    let mut hash = Sha1::new();
    for worker in stops {
        hash.update(worker.as_str().as_bytes());
        hash.update(b"\n");
    }
    hash.finalize()
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(count: usize) -> Vec<WorkerId> {
        (0..count)
            .map(|at| WorkerId::new(&format!("w{at}")).unwrap())
            .collect()
    }

    fn install(id: &str, config: &str) -> Install {
        Install {
            worker: WorkerId::new(id).unwrap(),
            config: config.into(),
            constraints: Default::default(),
        }
    }

    #[test]
    fn an_empty_list_is_held_until_these_very_stops_are_confirmed() {
        let mass_stop_guard = MassStopGuard::default();
        let all = workers(10);
        let held = mass_stop_guard.judge(&all, 10, 0, None).unwrap();
        assert_eq!((held.stops, held.of), (10, 10));
        assert!(mass_stop_guard.judge(&all, 10, 0, Some(&held.digest)).is_none());
        assert!(
            mass_stop_guard
                .judge(&all[1..], 10, 0, Some(&held.digest))
                .is_some()
        );
        assert!(mass_stop_guard.judge(&all[..3], 10, 0, None).is_none());
        assert!(mass_stop_guard.judge(&workers(3), 3, 0, None).is_none());
    }

    #[test]
    fn a_list_that_shrinks_in_small_steps_is_held() {
        let guard = MassStopGuard::default();
        let all = workers(20);
        let (mut recent, mut left) = (0, 20);
        let mut held = None;
        for next in [15, 12, 9, 7, 5, 4, 3, 0] {
            let stops = &all[next..left];
            held = guard.judge(stops, left, recent, None);
            if held.is_some() {
                break;
            }
            (recent, left) = (recent + stops.len(), next);
        }
        assert_eq!((left, held.map(|held| held.stops)), (15, Some(3)));
    }

    #[test]
    fn the_difference_is_what_is_new_changed_unwanted_or_wanted_again() {
        let place = |install: &Install, remove: &str| {
            let line = format!("assigned 1 r {remove} {} - - join 1 i", install.config_name());
            Place::parse(&line).unwrap()
        };
        let same = install("same", "1");
        let places = [
            (same.worker.clone(), place(&same, "0")),
            (
                install("changed", "").worker,
                place(&install("changed", "old"), "0"),
            ),
            (install("back", "").worker, place(&install("back", "1"), "1")),
            (install("gone", "").worker, place(&install("gone", "1"), "0")),
        ];
        let list = [
            same,
            install("changed", "new"),
            install("back", "1"),
            install("fresh", "1"),
            install("broken", "1"),
        ];
        let found = difference(&list, &places.into(), &["broken".to_owned()].into());
        let puts: Vec<&str> = found.puts.iter().map(|install| install.worker.as_str()).collect();
        assert_eq!(puts, ["changed", "back", "fresh"]);
        assert_eq!(found.stops, [install("gone", "").worker]);
    }
}
