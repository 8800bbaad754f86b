//! One guard away at a time: the search must find what that guard prevents.
//!
//! Each test is one row of the table in `docs/tiering.md`. The bounds are the smallest that show the harm;
//! the same bounds with the guard in place show nothing, which every test also checks.

use super::scenario::{Budget, ChunkToken, Claim, Fence, Guards, Operation, Registration, Scenario, Start};
use super::search::search;
use super::world::Wrong;

const NOTHING: Budget = Budget {
    touches: 0,
    writes: 0,
    snapshots: 0,
    marks: 0,
    loads: 0,
    cuts: 0,
    syncs: 0,
    failovers: 0,
    emptied: 0,
};

/// One server that writes once, one saver, one evictor, on a tag that is already hot.
const SMALL: Scenario = Scenario {
    servers: 1,
    savers: 1,
    evictors: 1,
    loaders: 0,
    start: Start::Hot,
    budget: Budget {
        touches: 1,
        writes: 1,
        snapshots: 2,
        marks: 1,
        ..NOTHING
    },
    written: &[0],
    operations: &[Operation::Set],
    scripts: false,
    chunked: false,
    crashes: false,
    lease: 1,
    delay: 1,
    settle: 2,
};

/// Searches with and without the guard.
fn check(scenario: Scenario, without: Guards, wanted: Wrong) {
    let found = search(scenario, without, Some(wanted)).wrong;
    assert_eq!(found.map(|(wrong, _)| wrong), Some(wanted));
    assert_eq!(
        search(scenario, Guards::default(), None).wrong,
        None,
        "with the guard"
    );
}

fn with_budget(scenario: Scenario, change: fn(&mut Budget)) -> Scenario {
    let mut scenario = scenario;
    change(&mut scenario.budget);
    scenario
}

#[test]
fn fresh_tokens() {
    let scenario = Scenario {
        savers: 2,
        start: Start::Noted,
        ..SMALL
    };
    check(
        scenario,
        Guards {
            fresh_tokens: false,
            ..Guards::default()
        },
        Wrong::Unsaved,
    );
}

#[test]
fn scripts_register_what_they_write() {
    check(
        Scenario {
            scripts: true,
            ..SMALL
        },
        Guards {
            scripts_register: false,
            ..Guards::default()
        },
        Wrong::Unsaved,
    );
}

#[test]
fn scripts_replace_tokens() {
    let scenario = Scenario {
        savers: 2,
        start: Start::Noted,
        scripts: true,
        ..SMALL
    };
    check(
        scenario,
        Guards {
            scripts_replace_tokens: false,
            ..Guards::default()
        },
        Wrong::Unsaved,
    );
}

#[test]
fn saver_waits_one_tick_longer() {
    let scenario = with_budget(SMALL, |budget| budget.writes = 2);
    check(
        scenario,
        Guards {
            saver_wait_short: 1,
            ..Guards::default()
        },
        Wrong::Unsaved,
    );
}

#[test]
fn saver_waits() {
    let scenario = with_budget(SMALL, |budget| budget.writes = 2);
    check(
        scenario,
        Guards {
            saver_wait_short: 2,
            ..Guards::default()
        },
        Wrong::Unsaved,
    );
}

#[test]
fn token_compared_at_removal() {
    let scenario = with_budget(SMALL, |budget| {
        budget.touches = 2;
        budget.writes = 2;
    });
    check(
        scenario,
        Guards {
            token_at_removal: false,
            ..Guards::default()
        },
        Wrong::Unsaved,
    );
}

#[test]
fn registrations_end_with_their_lease() {
    let scenario = Scenario {
        lease: 2,
        settle: 3,
        ..SMALL
    };
    let scenario = with_budget(scenario, |budget| {
        budget.touches = 2;
        budget.writes = 2;
    });
    check(
        scenario,
        Guards {
            registrations_end_with_lease: false,
            ..Guards::default()
        },
        Wrong::Unsaved,
    );
}

#[test]
fn leases_end_with_their_connection() {
    let scenario = with_budget(SMALL, |budget| {
        budget.writes = 2;
        budget.cuts = 1;
    });
    check(
        scenario,
        Guards {
            leases_dropped_on_cut: false,
            ..Guards::default()
        },
        Wrong::Unsaved,
    );
}

#[test]
fn lease_counts_from_the_sending_of_its_touch() {
    check(
        SMALL,
        Guards {
            lease_from_sending: false,
            ..Guards::default()
        },
        Wrong::Read,
    );
}

#[test]
fn evictor_waits_one_tick_longer() {
    check(
        SMALL,
        Guards {
            evictor_wait_short: 1,
            ..Guards::default()
        },
        Wrong::Read,
    );
}

#[test]
fn evictor_waits() {
    check(
        SMALL,
        Guards {
            evictor_wait_short: 2,
            ..Guards::default()
        },
        Wrong::Read,
    );
}

#[test]
fn touch_cancels_an_eviction() {
    check(
        SMALL,
        Guards {
            touch_cancels: false,
            ..Guards::default()
        },
        Wrong::Read,
    );
}

#[test]
fn nothing_is_dirty_at_confirm() {
    check(
        SMALL,
        Guards {
            clean_at_confirm: false,
            ..Guards::default()
        },
        Wrong::Unsaved,
    );
}

#[test]
fn token_compared_at_confirm() {
    let scenario = with_budget(Scenario { evictors: 2, ..SMALL }, |budget| budget.marks = 2);
    check(
        scenario,
        Guards {
            token_at_confirm: false,
            ..Guards::default()
        },
        Wrong::Read,
    );
}

#[test]
fn names_are_listed_after_the_mark() {
    let scenario = Scenario {
        written: &[1],
        ..SMALL
    };
    check(
        scenario,
        Guards {
            list_after_mark: false,
            ..Guards::default()
        },
        Wrong::Leak,
    );
}

#[test]
fn snapshot_cancels_an_eviction() {
    let scenario = Scenario {
        written: &[1],
        ..SMALL
    };
    check(
        scenario,
        Guards {
            snapshot_cancels: false,
            ..Guards::default()
        },
        Wrong::Leak,
    );
}

#[test]
fn state_and_token_on_every_chunk() {
    let scenario = Scenario {
        start: Start::Cold,
        chunked: true,
        loaders: 2,
        savers: 0,
        evictors: 0,
        ..SMALL
    };
    let scenario = with_budget(scenario, |budget| budget.loads = 2);
    check(
        scenario,
        Guards {
            chunk_token: ChunkToken::None,
            ..Guards::default()
        },
        Wrong::Truth,
    );
}

#[test]
fn state_and_token_on_the_last_chunk() {
    let scenario = Scenario {
        start: Start::Cold,
        loaders: 2,
        savers: 0,
        evictors: 0,
        ..SMALL
    };
    let scenario = with_budget(scenario, |budget| budget.loads = 2);
    check(
        scenario,
        Guards {
            chunk_token: ChunkToken::AllButTheLast,
            ..Guards::default()
        },
        Wrong::Truth,
    );
}

#[test]
fn rows_are_read_after_the_begin() {
    let scenario = Scenario {
        start: Start::Cold,
        loaders: 2,
        ..SMALL
    };
    let scenario = with_budget(scenario, |budget| budget.loads = 2);
    check(
        scenario,
        Guards {
            claim: Claim::NoneAndRowsBeforeBegin,
            ..Guards::default()
        },
        Wrong::Truth,
    );
}

#[test]
fn fence_on_the_tag() {
    let scenario = Scenario {
        savers: 2,
        evictors: 0,
        operations: &[Operation::Delete],
        ..SMALL
    };
    let scenario = with_budget(scenario, |budget| budget.writes = 2);
    let without = Guards {
        fence: Fence::Row,
        tombstones: false,
        ..Guards::default()
    };
    check(
        Scenario {
            operations: &[Operation::Set, Operation::Delete],
            ..scenario
        },
        without,
        Wrong::Older,
    );
}

#[test]
fn tombstones() {
    let scenario = Scenario {
        loaders: 1,
        evictors: 0,
        operations: &[Operation::Delete],
        ..SMALL
    };
    let scenario = with_budget(scenario, |budget| {
        budget.syncs = 1;
        budget.failovers = 1;
        budget.loads = 1;
    });
    check(
        scenario,
        Guards {
            tombstones: false,
            ..Guards::default()
        },
        Wrong::Truth,
    );
}

#[test]
fn state_run_and_generation_at_snapshot_and_removal() {
    let scenario = Scenario { evictors: 0, ..SMALL };
    let scenario = with_budget(scenario, |budget| {
        budget.snapshots = 3;
        budget.syncs = 1;
        budget.failovers = 1;
    });
    check(
        scenario,
        Guards {
            same_tag_at_save: false,
            ..Guards::default()
        },
        Wrong::Older,
    );
}

#[test]
fn run_in_every_script() {
    let scenario = Scenario {
        loaders: 1,
        evictors: 0,
        chunked: true,
        start: Start::Cold,
        ..SMALL
    };
    let scenario = with_budget(scenario, |budget| {
        budget.syncs = 1;
        budget.failovers = 1;
        budget.loads = 1;
    });
    check(
        scenario,
        Guards {
            run_everywhere: false,
            ..Guards::default()
        },
        Wrong::Truth,
    );
}

#[test]
fn run_in_every_script_with_loads_in_one_chunk() {
    let scenario = Scenario {
        loaders: 1,
        evictors: 0,
        ..SMALL
    };
    let scenario = with_budget(scenario, |budget| {
        budget.syncs = 1;
        budget.failovers = 1;
        budget.loads = 1;
    });
    check(
        scenario,
        Guards {
            run_everywhere: false,
            ..Guards::default()
        },
        Wrong::Truth,
    );
}

#[test]
fn a_kept_copy_is_compared_with_what_was_saved() {
    let scenario = Scenario {
        loaders: 1,
        evictors: 0,
        ..SMALL
    };
    let scenario = with_budget(scenario, |budget| {
        budget.syncs = 1;
        budget.failovers = 1;
        budget.loads = 1;
    });
    check(
        scenario,
        Guards {
            compare_with_saved: false,
            ..Guards::default()
        },
        Wrong::Truth,
    );
}

#[test]
fn claim_in_the_tag_row() {
    let scenario = Scenario {
        loaders: 1,
        evictors: 0,
        ..SMALL
    };
    let scenario = with_budget(scenario, |budget| {
        budget.emptied = 1;
        budget.loads = 1;
    });
    check(
        scenario,
        Guards {
            claim: Claim::None,
            ..Guards::default()
        },
        Wrong::Truth,
    );
}

#[test]
fn claim_from_a_base_read_before_the_begin() {
    let scenario = Scenario {
        start: Start::Cold,
        loaders: 2,
        savers: 0,
        evictors: 0,
        ..SMALL
    };
    let scenario = with_budget(scenario, |budget| budget.loads = 2);
    check(
        scenario,
        Guards {
            claim: Claim::Blind,
            ..Guards::default()
        },
        Wrong::Generation,
    );
}

#[test]
fn row_before_the_first_snapshot() {
    let scenario = Scenario {
        start: Start::NewHot,
        loaders: 1,
        evictors: 0,
        ..SMALL
    };
    let scenario = with_budget(scenario, |budget| {
        budget.emptied = 1;
        budget.loads = 1;
    });
    check(
        scenario,
        Guards {
            row_before_snapshot: false,
            ..Guards::default()
        },
        Wrong::Truth,
    );
}

/// Not harm but its possibility: the tag must be evictable from there.
#[test]
fn mark_takes_over_from_a_dead_evictor() {
    let scenario = Scenario {
        servers: 0,
        savers: 0,
        start: Start::Marked,
        ..SMALL
    };
    let without = Guards {
        mark_takes_over: false,
        ..Guards::default()
    };
    assert!(!search(scenario, without, None).can_evict);
    assert!(search(scenario, Guards::default(), None).can_evict);
}

#[test]
fn registration_is_atomic_dirty_first() {
    let scenario = Scenario { evictors: 0, ..SMALL };
    let scenario = with_budget(scenario, |budget| budget.cuts = 1);
    check(
        scenario,
        Guards {
            registration: Registration::DirtyFirst,
            ..Guards::default()
        },
        Wrong::Index,
    );
}

#[test]
fn registration_is_atomic_index_first() {
    let scenario = Scenario { evictors: 0, ..SMALL };
    let scenario = with_budget(scenario, |budget| budget.cuts = 1);
    check(
        scenario,
        Guards {
            registration: Registration::IndexFirst,
            ..Guards::default()
        },
        Wrong::Index,
    );
}

#[test]
fn expiry_is_absolute() {
    let scenario = Scenario {
        loaders: 1,
        operations: &[Operation::SetExpiring],
        ..SMALL
    };
    let scenario = with_budget(scenario, |budget| budget.loads = 1);
    check(
        scenario,
        Guards {
            absolute_expiry: false,
            ..Guards::default()
        },
        Wrong::Truth,
    );
}

#[test]
fn commands_land_within_their_delay() {
    let found = search(Scenario { delay: 2, ..SMALL }, Guards::default(), None).wrong;
    assert_eq!(found.map(|(wrong, _)| wrong), Some(Wrong::Read));
}
