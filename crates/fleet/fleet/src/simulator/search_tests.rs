use super::*;

/// `FLEET_STATES=1000000` searches deeper.
fn states() -> usize {
    std::env::var("FLEET_STATES").map_or(8000, |text| text.parse().expect("a number"))
}

const CALM: Budget = Budget {
    ticks: 4,
    crashes: 0,
    twins: 0,
    failovers: 0,
    moves: 0,
    leaves: 0,
};

#[track_caller]
fn expect_none(budget: Budget) {
    let found = search(None, budget, states());
    println!("{budget:?}: {} states, depth {}", found.states, found.depth);
    assert!(found.trace.is_none(), "{:#?}", found.trace);
}

#[test]
fn no_small_world_with_crashes_has_two_copies() {
    expect_none(Budget { crashes: 1, ..CALM });
}

#[test]
fn no_small_world_with_a_second_process_of_one_name_has_two_copies() {
    expect_none(Budget { twins: 1, ..CALM });
}

#[test]
fn no_small_world_with_a_move_and_a_failover_has_two_copies() {
    let budget = Budget {
        moves: 1,
        failovers: 1,
        ..CALM
    };
    expect_none(budget);
}

#[test]
fn no_small_world_with_a_leave_has_two_copies() {
    expect_none(Budget { leaves: 1, ..CALM });
}

/// The lack of the other guards shows only in deeper worlds; the random search reaches those.
#[test]
fn small_worlds_without_a_guard_have_two_copies_or_an_older_epoch() {
    let twins = Budget { twins: 1, ..CALM };
    let leaves = Budget { leaves: 1, ..CALM };
    for (guard, budget) in [
        (Guard::QuarantineAtJoin, twins),
        (Guard::JoinRenewsEpochs, twins),
        (Guard::HeartbeatCompares, twins),
        (Guard::LeaveStopsFirst, leaves),
    ] {
        let found = search(Some(guard), budget, 30_000);
        assert!(found.trace.is_some(), "{guard:?}: {found:?}");
    }
}
