use super::*;
use crate::protocol::{Rebalance, decide};

fn instance(name: &str) -> InstanceName {
    InstanceName::new(name).unwrap()
}

fn worker(at: usize) -> WorkerId {
    WorkerId::new(&format!("w{at:02}")).unwrap()
}

struct World {
    instances: BTreeMap<InstanceName, InstanceRecord>,
    places: BTreeMap<WorkerId, Place>,
    care: Care,
}

/// So many workers on each instance, with this health.
fn world(counts: &[(&str, usize, &str, u32)]) -> World {
    let mut world = World {
        instances: BTreeMap::new(),
        places: BTreeMap::new(),
        care: Care::default(),
    };
    for (name, count, state, failures) in counts {
        let line = format!("live 7 1 t - 1 {count} 1 - - - 1");
        world
            .instances
            .insert(instance(name), InstanceRecord::parse(&line).unwrap());
        for _ in 0..*count {
            let id = worker(world.places.len());
            let place = Place::parse(&format!("assigned 5 r 0 c - - place 1 {name}")).unwrap();
            world.places.insert(id.clone(), place);
            let health = WorkerHealth::parse(&format!("{name} 5 {state} {failures} 1 a reason")).unwrap();
            world.care.health.insert(id, health);
        }
    }
    world
}

impl World {
    fn judge(&self) -> Judgement {
        self.care.judge(&self.instances, &self.places)
    }

    fn decide(&self) -> crate::protocol::Decision {
        decide(&self.instances, &self.places, &self.care, Rebalance::default())
    }
}

#[test]
fn a_host_on_which_everything_fails_is_cordoned_and_its_workers_are_kept_from_it() {
    let world = world(&[("good", 6, "healthy", 0), ("broken", 6, "failing", 3)]);
    let judgement = world.judge();
    assert_eq!(judgement.cordon, [(instance("broken"), 7)]);
    assert_eq!(judgement.avoid.len(), 6);
}

#[test]
fn nothing_is_cordoned_for_few_failures_for_early_ones_or_if_they_fail_everywhere() {
    for counts in [
        [("good", 6, "healthy", 0), ("other", 2, "failing", 3)],
        [("good", 6, "healthy", 0), ("other", 6, "failing", 1)],
        [("good", 6, "failing", 3), ("other", 6, "failing", 3)],
        [("good", 6, "starting", 0), ("other", 6, "failing", 3)],
    ] {
        assert_eq!(world(&counts).judge().cordon, [], "{counts:?}");
    }
    let alone = world(&[("only", 6, "failing", 9)]);
    assert_eq!(
        alone.judge(),
        Judgement::default(),
        "there is nowhere else to try"
    );
}

#[test]
fn a_worker_moves_away_from_where_it_failed_unless_it_failed_everywhere() {
    let mut world = world(&[("a", 2, "healthy", 0), ("b", 2, "healthy", 0)]);
    world.care.avoided.insert(worker(3), [instance("b")].into());
    // Another one takes its place, so that both have two.
    let decision = world.decide();
    assert!(decision.revokes.contains(&(worker(3), 5)), "{decision:?}");
    assert_eq!(decision.revokes.len(), 2, "{decision:?}");
    world
        .care
        .avoided
        .insert(worker(3), [instance("a"), instance("b")].into());
    assert_eq!(world.decide().revokes, []);
}

#[test]
fn an_instance_that_has_proven_nothing_gets_a_few_workers_first() {
    let mut world = world(&[("a", 12, "healthy", 0), ("new", 0, "starting", 0)]);
    assert_eq!(world.decide().revokes.len(), PROBATION_WORKERS as usize);
    // With a healthy one there, it gets its share.
    let (first, place) = world.places.iter_mut().next().unwrap();
    place.owner = Some(instance("new"));
    let health = WorkerHealth::parse("new 5 healthy 0 1 ").unwrap();
    world.care.health.insert(first.clone(), health);
    assert_eq!(world.decide().revokes.len(), 5);
    // Where nobody has proven anything, nobody is preferred.
    for health in world.care.health.values_mut() {
        health.state = "starting".into();
    }
    assert_eq!(world.decide().revokes.len(), 5);
}
