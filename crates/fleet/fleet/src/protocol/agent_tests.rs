use std::time::Duration;

use super::*;
use crate::store::Listed;

fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

fn listed(epoch: u64, state: ListedState) -> Listed {
    Listed {
        epoch,
        state,
        config: "c".into(),
    }
}

fn list(entries: &[(&str, u64, ListedState)]) -> List {
    let entries = entries.iter();
    entries
        .map(|(name, epoch, state)| (worker(name), listed(*epoch, *state)))
        .collect()
}

fn at(millis: u64) -> BootTime {
    BootTime::from_millis(millis)
}

fn joined(settled: &str, before: &[&str], list: List) -> Joined {
    Joined {
        inc: 7,
        settled: settled.into(),
        before: before.iter().map(|token| (*token).to_owned()).collect(),
        version: 1,
        list,
    }
}

fn beat(settled: &str, version: u64, list: Option<List>) -> Beat {
    Beat::Alive {
        settled: settled.into(),
        version,
        list,
    }
}

/// An agent that has run `w` under epoch 5 since 1000 ms; run `r` is settled.
fn running() -> AgentCore {
    let mut core = AgentCore::new(Timing::default(), "me".into());
    let list = list(&[("w", 5, ListedState::Run)]);
    core.on_joined(at(1000), at(1010), "r", joined("r", &[], list), |_| false);
    let actions = core.take_actions(at(1010));
    assert!(
        matches!(&actions[..], [AgentAction::Start { epoch: 5, .. }]),
        "{actions:?}"
    );
    core
}

fn is_stop(actions: &[AgentAction]) -> bool {
    matches!(actions, [AgentAction::Stop { .. }])
}

#[test]
fn the_lease_counts_from_the_sending_and_ends_with_the_worker_dead() {
    let timing = Timing::default();
    let mut core = running();
    let last = at(1000) + timing.lease - timing.stop_budget();
    assert_eq!(core.next_at(), Some(last));
    assert!(core.take_actions(last - Duration::from_millis(1)).is_empty());
    let actions = core.take_actions(last);
    let [AgentAction::Stop { kill_at, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(*kill_at, at(1000) + timing.lease - timing.margin);
    // Nothing is restarted after the lease has ended.
    core.gone(&worker("w"));
    assert!(core.take_actions(last).is_empty());
    core.on_beat(at(9000), at(9900), "r", beat("r", 1, None)).unwrap();
    assert!(core.take_actions(at(9900)).is_empty(), "epoch 5 was used");
    assert!(core.take_hurry(at(9900)) && !core.take_hurry(at(9900)));
    let pulse = core.pulse(7, at(9900));
    assert_eq!(pulse.again, [(worker("w"), 5)].into());
    let renewed = list(&[("w", 6, ListedState::Run)]);
    core.on_beat(at(9900), at(9901), "r", beat("r", 2, Some(renewed)))
        .unwrap();
    assert!(matches!(
        &core.take_actions(at(9901))[..],
        [AgentAction::Start { epoch: 6, .. }]
    ));
    assert!(core.due_restarts(at(9901)).is_empty());
}

#[test]
fn a_worker_that_rests_is_not_asked_for_unless_its_config_changes() {
    let mut core = running();
    core.gone_until(&worker("w"), at(3000));
    assert_eq!(core.next_at(), Some(at(3000)));
    assert!(core.due_restarts(at(2999)).is_empty());
    assert_eq!(core.due_restarts(at(3000)).len(), 1);
    let mut mended = list(&[("w", 5, ListedState::Run)]);
    mended.get_mut(&worker("w")).unwrap().config = "d".into();
    core.on_beat(at(2000), at(2001), "r", beat("r", 2, Some(mended)))
        .unwrap();
    assert_eq!(core.due_restarts(at(2001)).len(), 1);
    let gone = list(&[]);
    core.on_beat(at(2500), at(2501), "r", beat("r", 3, Some(gone)))
        .unwrap();
    assert_eq!((core.due_restarts(at(3000)).len(), core.next_at()), (0, None));
}

#[test]
fn what_is_not_listed_with_its_epoch_is_stopped_and_not_renewed() {
    let timing = Timing::default();
    for other in [list(&[]), list(&[("w", 6, ListedState::Run)])] {
        let mut core = running();
        core.on_beat(at(3000), at(3001), "r", beat("r", 2, Some(other)))
            .unwrap();
        let actions = core.take_actions(at(3001));
        let [AgentAction::Stop { kill_at, .. }] = &actions[..] else {
            panic!("{actions:?}")
        };
        assert!(*kill_at <= at(1000) + timing.lease);
        assert!(
            core.due_acknowledgements(at(3001)).is_empty(),
            "nobody asked for a stop"
        );
    }
}

#[test]
fn a_stop_is_acknowledged_only_when_the_worker_is_gone() {
    let mut core = running();
    let stop = list(&[("w", 5, ListedState::Stop)]);
    core.on_beat(at(2000), at(2001), "r", beat("r", 2, Some(stop)))
        .unwrap();
    assert!(is_stop(&core.take_actions(at(2001))));
    assert!(core.due_acknowledgements(at(2002)).is_empty());
    core.gone(&worker("w"));
    let due = core.due_acknowledgements(at(2003));
    assert_eq!(due.get(&worker("w")), Some(&5));
    core.acknowledged(&due);
    assert!(core.due_acknowledgements(at(2004)).is_empty());
    assert_eq!(core.known(), ("r", None), "the next answer brings the list");
}

#[test]
fn a_new_run_stops_nothing_and_starts_nothing_until_it_is_settled() {
    let timing = Timing::default();
    let mut core = running();
    let more = list(&[("w", 5, ListedState::Run), ("x", 9, ListedState::Run)]);
    core.on_beat(at(2000), at(2001), "r2", beat("r", 2, Some(more.clone())))
        .unwrap();
    assert!(core.take_actions(at(2001)).is_empty());
    core.on_beat(at(5000), at(5001), "r2", beat("r", 2, None))
        .unwrap();
    assert!(core.take_actions(at(5001)).is_empty());
    let mut settled = core.clone();
    settled
        .on_beat(at(5500), at(5501), "r2", beat("r2", 2, None))
        .unwrap();
    assert_eq!(settled.take_actions(at(5501)).len(), 1);
    // Without a manager that settles the run, the agent's own clock decides.
    let over = at(2001) + timing.quarantine;
    core.on_beat(over, over, "r2", beat("r", 2, None)).unwrap();
    assert_eq!(core.take_actions(over).len(), 1);
}

#[test]
fn a_join_after_a_process_that_may_live_waits_and_acknowledges_nothing() {
    let entries = list(&[("w", 5, ListedState::Run), ("x", 6, ListedState::Stop)]);
    let check = |before: &[&str], proven, starts| {
        let mut core = AgentCore::new(Timing::default(), "me".into());
        core.on_joined(
            at(1000),
            at(1001),
            "r",
            joined("r", before, entries.clone()),
            |_| proven,
        );
        assert_eq!(core.take_actions(at(1001)).len(), starts, "{before:?}");
        assert_eq!(core.due_acknowledgements(at(1001)).len(), starts);
    };
    check(&[], false, 1);
    check(&["me"], false, 1);
    check(&["other"], true, 1);
    check(&["other"], false, 0);
    check(&["me", "other"], false, 0);
}

#[test]
fn a_refusal_stops_everything_and_allows_a_join_only_when_all_is_gone() {
    let mut core = running();
    let refused = Beat::Refused {
        state: Some(InstanceState::Dead),
        token: "me".into(),
        inc: 1,
    };
    let answer = core.on_beat(at(2000), at(2001), "r", refused);
    assert_eq!(answer, Err(Refused { by: None }));
    assert!(is_stop(&core.take_actions(at(2001))));
    assert!(!core.may_join());
    core.gone(&worker("w"));
    assert!(core.may_join());
    let taken = Beat::Refused {
        state: Some(InstanceState::Live),
        token: "you".into(),
        inc: u64::MAX,
    };
    let answer = core.on_beat(at(2000), at(2001), "r", taken);
    assert_eq!(answer.unwrap_err().by.as_deref(), Some("you"));
}

#[test]
fn an_older_incarnation_that_came_back_with_an_older_store_has_not_taken_the_name() {
    let mut core = running();
    let older = Beat::Refused {
        state: Some(InstanceState::Live),
        token: "my last process".into(),
        inc: 0,
    };
    let answer = core.on_beat(at(2000), at(2001), "r2", older);
    assert_eq!(answer, Err(Refused { by: None }));
}

#[test]
fn a_record_that_cannot_be_read_changes_nothing() {
    let mut core = running();
    let broken = list(&[("w", 0, ListedState::Unknown), ("x", 0, ListedState::Unknown)]);
    core.on_beat(at(2000), at(2001), "r", beat("r", 2, Some(broken)))
        .unwrap();
    assert!(core.take_actions(at(2001)).is_empty());
    assert!(core.due_acknowledgements(at(2001)).is_empty());
    assert!(core.take_actions(at(5500)).is_empty(), "its lease was renewed");
}

#[test]
fn a_new_config_is_an_update_and_no_restart() {
    let mut core = running();
    let mut changed = list(&[("w", 5, ListedState::Run)]);
    changed.get_mut(&worker("w")).unwrap().config = "d".into();
    core.on_beat(at(2000), at(2001), "r", beat("r", 2, Some(changed)))
        .unwrap();
    assert!(
        matches!(&core.take_actions(at(2001))[..], [AgentAction::Update { config, .. }] if config == "d")
    );
    assert!(core.take_actions(at(2002)).is_empty());
}
