use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A fleet with `counts` workers on the instances and `waiting` workers without a place.
fn fleet(counts: &[usize], waiting: usize) -> Fleet {
    let instances = (0..counts.len())
        .map(|at| Instance::new(format!("i{at:03}")))
        .collect();
    let mut workers = Vec::new();
    for (at, count) in counts.iter().enumerate() {
        workers.extend(vec![Worker::at(Some(at)); *count]);
    }
    workers.extend(vec![Worker::at(None); waiting]);
    Fleet {
        instances,
        workers,
        per_zone_max: None,
    }
}

fn after(fleet: &Fleet) -> Vec<usize> {
    fleet.after(&fleet.plan()).counts()
}

/// The fewest moves to any even distribution, found by trying every rounding.
fn fewest_moves(counts: &[usize], total: usize) -> usize {
    let (share, extra) = (total / counts.len(), total % counts.len());
    (0u32..1 << counts.len())
        .filter(|mask| mask.count_ones() as usize == extra)
        .map(|mask| {
            let targets = (0..counts.len()).map(|at| share + (mask >> at & 1) as usize);
            counts
                .iter()
                .zip(targets)
                .map(|(count, target)| count.saturating_sub(target))
                .sum()
        })
        .min()
        .unwrap()
}

#[test]
fn the_layouts_that_the_document_leaves_uneven_end_even() {
    for counts in [vec![3, 0, 0, 0], vec![5, 2, 2, 2], vec![10, 10, 0]] {
        let fleet = fleet(&counts, 0);
        let plan = fleet.plan();
        assert!(plan.cost.spread_after <= 1, "{counts:?}: {plan:?}");
        assert_eq!(plan.cost.moves, plan.cost.lower_bound);
    }
    assert_eq!(fleet(&[10, 10, 0], 0).plan().cost.moves, 6);
}

#[test]
fn a_million_workers_are_planned_anew_after_one_death() {
    let mut fleet = fleet(&vec![100; 10_000], 0);
    fleet.instances.remove(0);
    for worker in &mut fleet.workers {
        worker.place = worker.place.and_then(|at| at.checked_sub(1));
    }
    let plan = fleet.plan();
    assert_eq!((plan.steps.len(), plan.cost.moves), (100, 0));
    assert!(plan.cost.spread_after <= 1);
}

#[test]
fn shares_follow_weights_and_capacities() {
    let mut heavy = fleet(&[0, 0, 0], 8);
    heavy.instances[1].weight = 2;
    assert_eq!(after(&heavy), [2, 4, 2]);
    let mut full = fleet(&[0, 0, 0], 10);
    full.instances[0].capacity = Some(1);
    assert_eq!(after(&full), [1, 5, 4]);
    for instance in &mut full.instances {
        instance.capacity = Some(3);
    }
    let plan = full.plan();
    assert_eq!((plan.steps.len(), plan.unplaced.len()), (9, 1));
}

#[test]
fn workers_beyond_every_capacity_are_told_wherever_they_are() {
    let mut fleet = fleet(&[3, 0], 0);
    for instance in &mut fleet.instances {
        instance.capacity = Some(1);
    }
    let plan = fleet.plan();
    assert_eq!((plan.steps.len(), plan.unplaced.len()), (1, 1), "{plan:?}");
}

#[test]
fn a_draining_instance_is_emptied_and_gets_nothing() {
    let mut fleet = fleet(&[4, 2, 2], 1);
    fleet.instances[0].accepts = false;
    let plan = fleet.plan();
    assert_eq!(after(&fleet), [0, 5, 4]);
    assert_eq!((plan.cost.moves, plan.cost.lower_bound), (4, 4));
}

#[test]
fn workers_on_their_way_out_are_not_moved_again() {
    let mut fleet = fleet(&[4, 0], 0);
    fleet.workers[3].leaving = true;
    let plan = fleet.plan();
    let expected = Step::Move {
        worker: 2,
        from: 0,
        to: 1,
    };
    assert_eq!(plan.steps, [expected]);
}

#[test]
fn nobody_fits_where_no_instance_accepts() {
    let mut fleet = fleet(&[2], 1);
    fleet.instances[0].accepts = false;
    let plan = fleet.plan();
    assert!(plan.steps.is_empty());
    assert_eq!(plan.unplaced.len(), 3);
}

#[test]
fn the_choice_for_one_goes_to_the_least_busy_by_weight() {
    let mut instances = fleet(&[3, 5, 9], 0).instances;
    assert_eq!(least_busy(&instances, &[3, 5, 9], None), Some(0));
    assert_eq!(least_busy(&instances, &[3, 5, 9], Some(0)), Some(1));
    instances[2].weight = 4;
    assert_eq!(least_busy(&instances, &[3, 5, 9], None), Some(2));
    instances[2].capacity = Some(9);
    instances[0].accepts = false;
    assert_eq!(least_busy(&instances, &[3, 5, 9], None), Some(1));
}

fn labelled(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn labels_zones_and_chains_are_kept() {
    let mut fleet = fleet(&[1, 0], 1);
    fleet.instances[0].labels = labelled(&["gpu"]);
    fleet.instances[0].capacity = Some(1);
    fleet.workers[1].constraints.labels = labelled(&["gpu"]);
    // The worker that needs the GPU gets in because the other one moves on.
    let plan = fleet.plan();
    assert!(plan.unplaced.is_empty(), "{plan:?}");
    assert_eq!(fleet.after(&plan).workers[1].place, Some(0));

    let mut zoned = super::tests::fleet(&[0, 0, 0], 4);
    for (instance, zone) in zoned.instances.iter_mut().zip(["a", "a", "b"]) {
        instance.zone = Some(zone.into());
    }
    for worker in &mut zoned.workers {
        worker.constraints.group = Some("g".into());
    }
    zoned.per_zone_max = Some(2);
    assert_eq!(after(&zoned), [1, 1, 2]);
    zoned.per_zone_max = Some(1);
    assert_eq!(zoned.plan().unplaced.len(), 2);
}

proptest! {
    #[test]
    fn p5_p6_equal_weights_end_even_with_the_fewest_moves(
        counts in vec(0usize..40, 1..9), waiting in 0usize..30,
    ) {
        let fleet = fleet(&counts, waiting);
        let plan = fleet.plan();
        let total = fleet.workers.len();
        prop_assert!(plan.unplaced.is_empty());
        prop_assert!(plan.cost.spread_after <= 1);
        prop_assert_eq!(plan.cost.moves, plan.cost.lower_bound);
        prop_assert_eq!(plan.cost.moves, fewest_moves(&counts, total));
        // Planning again moves nothing.
        prop_assert!(fleet.after(&plan).plan().steps.is_empty());
    }

    #[test]
    fn p6_a_death_moves_only_the_dead_ones_and_a_join_moves_none_between_the_old(
        instances in 2usize..9, total in 0usize..60,
    ) {
        let even = super::tests::fleet(&vec![0; instances], total);
        let even = even.after(&even.plan());
        let mut death = even.clone();
        death.instances[0].accepts = false;
        for step in death.plan().steps {
            let only_its_own = matches!(step, Step::Move { from: 0, .. });
            prop_assert!(only_its_own, "{step:?}");
        }
        let mut join = even;
        join.instances.push(Instance::new("new"));
        for step in join.plan().steps {
            let to_the_new_one = matches!(step, Step::Move { to, .. } if to == instances);
            prop_assert!(to_the_new_one, "{step:?}");
        }
    }

    #[test]
    fn weights_and_capacities_are_met_within_one_worker(
        bins in vec((1u32..5, proptest::option::of(0u32..12), 0usize..12), 1..7), waiting in 0usize..20,
    ) {
        let counts: Vec<usize> = bins.iter().map(|bin| bin.2).collect();
        let mut fleet = fleet(&counts, waiting);
        for (instance, (weight, capacity, _)) in fleet.instances.iter_mut().zip(&bins) {
            (instance.weight, instance.capacity) = (*weight, *capacity);
        }
        let targets = targets(&fleet.instances, &counts, fleet.workers.len());
        let open: Vec<usize> = (0..bins.len())
            .filter(|at| bins[*at].1.is_none_or(|capacity| targets[*at] < capacity as usize))
            .collect();
        for (at, (_, capacity, _)) in bins.iter().enumerate() {
            prop_assert!(capacity.is_none_or(|capacity| targets[at] <= capacity as usize));
        }
        // Loads of instances with free capacity differ by less than one worker.
        for &a in &open {
            for &b in &open {
                let (a_load, b_load) = (
                    targets[a] as f64 / f64::from(bins[a].0),
                    targets[b] as f64 / f64::from(bins[b].0),
                );
                let one = 1.0 / f64::from(bins[a].0) + 1.0 / f64::from(bins[b].0);
                prop_assert!((a_load - b_load).abs() < one, "{targets:?} {bins:?}");
            }
        }
        let placed = fleet.after(&fleet.plan());
        prop_assert!(placed.plan().steps.is_empty(), "{:?}", placed.plan());
    }

    #[test]
    fn constraints_are_never_broken(
        bins in vec((0u8..4, proptest::option::of(0u32..8), 0usize..4, any::<bool>()), 1..6),
        demands in vec((0u8..4, any::<bool>()), 0..30),
        per_zone in proptest::option::of(1u32..5),
    ) {
        let set = |bits: u8| (0..2).filter(|bit| bits >> bit & 1 == 1).map(|bit| format!("l{bit}")).collect();
        let mut fleet = fleet(&vec![0; bins.len()], 0);
        fleet.per_zone_max = per_zone;
        for (instance, (labels, capacity, zone, accepts)) in fleet.instances.iter_mut().zip(&bins) {
            instance.labels = set(*labels);
            instance.capacity = *capacity;
            instance.zone = Some(format!("z{}", zone % 2));
            instance.accepts = *accepts;
        }
        for (at, (labels, grouped)) in demands.iter().enumerate() {
            let place = (at % 3 == 0).then_some(at % bins.len());
            let group = grouped.then(|| "g".to_owned());
            let constraints = Constraints { labels: set(*labels), group };
            fleet.workers.push(Worker { constraints, ..Worker::at(place) });
        }
        let plan = fleet.plan();
        let end = fleet.after(&plan);
        let counts = end.counts();
        for (at, worker) in end.workers.iter().enumerate() {
            if let Some(place) = worker.place.filter(|_| !plan.unplaced.contains(&at)) {
                let instance = &end.instances[place];
                prop_assert!(instance.accepts && instance.labels.is_superset(&worker.constraints.labels));
            }
        }
        for (at, instance) in end.instances.iter().enumerate() {
            let stuck = plan.unplaced.iter().filter(|worker| fleet.workers[**worker].place == Some(at)).count();
            prop_assert!(instance.capacity.is_none_or(|capacity| counts[at] - stuck <= capacity as usize));
        }
    }
}
