//! The protocol as it is: nothing may be found.

use super::scenario::{Budget, Guards, Operation, Scenario, Start};
use super::search::search;

/// Enough for a load, a write, its save and its eviction.
const ONCE: Budget = Budget {
    touches: 2,
    writes: 1,
    snapshots: 2,
    marks: 1,
    loads: 1,
    cuts: 0,
    syncs: 0,
    failovers: 0,
    emptied: 0,
};

const SET_OR_DELETE: &[Operation] = &[Operation::Set, Operation::Delete];
const BOTH_KEYS: &[u8] = &[0, 1];

/// Searches the small bounds, or the large ones on request.
fn check(small: Scenario, large: Scenario) {
    let is_long = std::env::var_os("NAGAYA_TEST_LONG").is_some();
    let found = search(if is_long { large } else { small }, Guards::default(), None);
    assert_eq!(found.wrong, None);
    assert!(
        found.can_evict,
        "a search in which nothing is ever evicted shows little"
    );
}

#[test]
fn without_faults() {
    let small = Scenario {
        start: Start::Cold,
        budget: ONCE,
        ..Scenario::default()
    };
    let budget = Budget {
        touches: 2,
        writes: 2,
        snapshots: 3,
        loads: 2,
        ..ONCE
    };
    check(
        small,
        Scenario {
            servers: 2,
            written: BOTH_KEYS,
            budget,
            ..small
        },
    );
}

#[test]
fn with_two_servers() {
    let budget = Budget { loads: 0, ..ONCE };
    let small = Scenario {
        servers: 2,
        loaders: 0,
        budget,
        ..Scenario::default()
    };
    let budget = Budget {
        touches: 2,
        writes: 2,
        loads: 2,
        ..ONCE
    };
    check(
        small,
        Scenario {
            loaders: 1,
            start: Start::Cold,
            budget,
            lease: 2,
            settle: 3,
            ..small
        },
    );
}

#[test]
fn with_scripts_beside_plain_writes() {
    let budget = Budget {
        touches: 1,
        loads: 0,
        writes: 2,
        ..ONCE
    };
    let small = Scenario {
        scripts: true,
        loaders: 0,
        budget,
        ..Scenario::default()
    };
    let budget = Budget {
        writes: 2,
        snapshots: 3,
        loads: 2,
        ..ONCE
    };
    check(
        small,
        Scenario {
            servers: 2,
            loaders: 1,
            operations: SET_OR_DELETE,
            budget,
            ..small
        },
    );
}

#[test]
fn with_two_savers() {
    let budget = Budget {
        touches: 1,
        loads: 0,
        ..ONCE
    };
    let small = Scenario {
        savers: 2,
        start: Start::Noted,
        operations: SET_OR_DELETE,
        budget,
        ..Scenario::default()
    };
    let budget = Budget {
        writes: 2,
        snapshots: 3,
        marks: 2,
        loads: 2,
        ..ONCE
    };
    check(
        small,
        Scenario {
            evictors: 2,
            loaders: 2,
            start: Start::Hot,
            budget,
            ..small
        },
    );
}

#[test]
fn with_two_evictors_and_two_loaders() {
    let budget = Budget {
        touches: 1,
        writes: 0,
        snapshots: 0,
        marks: 2,
        loads: 2,
        ..ONCE
    };
    let small = Scenario {
        evictors: 2,
        loaders: 2,
        budget,
        ..Scenario::default()
    };
    check(
        small,
        Scenario {
            chunked: true,
            budget: Budget {
                marks: 2,
                loads: 3,
                ..ONCE
            },
            ..small
        },
    );
}

#[test]
fn with_crashes_and_a_cut_connection() {
    let budget = Budget {
        touches: 1,
        loads: 0,
        cuts: 1,
        ..ONCE
    };
    let small = Scenario {
        loaders: 0,
        crashes: true,
        budget,
        ..Scenario::default()
    };
    let budget = Budget {
        touches: 2,
        writes: 2,
        loads: 2,
        cuts: 1,
        ..ONCE
    };
    let large = Scenario {
        servers: 2,
        loaders: 1,
        operations: SET_OR_DELETE,
        budget,
        ..small
    };
    check(
        small,
        Scenario {
            start: Start::Cold,
            ..large
        },
    );
}

#[test]
fn with_a_key_that_expires() {
    let budget = Budget { touches: 1, ..ONCE };
    let small = Scenario {
        operations: &[Operation::SetExpiring],
        budget,
        ..Scenario::default()
    };
    let budget = Budget {
        touches: 2,
        writes: 2,
        snapshots: 3,
        loads: 2,
        ..ONCE
    };
    let operations = &[Operation::Set, Operation::Delete, Operation::SetExpiring];
    check(
        small,
        Scenario {
            operations,
            written: BOTH_KEYS,
            chunked: true,
            budget,
            ..small
        },
    );
}

#[test]
fn with_a_failover() {
    let budget = Budget {
        touches: 1,
        marks: 1,
        syncs: 1,
        failovers: 1,
        ..ONCE
    };
    let small = Scenario {
        budget,
        ..Scenario::default()
    };
    let budget = Budget {
        touches: 2,
        writes: 2,
        snapshots: 2,
        loads: 2,
        ..budget
    };
    check(
        small,
        Scenario {
            savers: 2,
            budget,
            ..small
        },
    );
}

#[test]
fn with_a_failover_in_the_middle_of_a_load() {
    let budget = Budget {
        touches: 1,
        writes: 0,
        snapshots: 0,
        loads: 2,
        syncs: 1,
        failovers: 1,
        ..ONCE
    };
    let small = Scenario {
        start: Start::Cold,
        chunked: true,
        budget,
        ..Scenario::default()
    };
    let budget = Budget {
        touches: 2,
        writes: 2,
        snapshots: 2,
        ..budget
    };
    check(
        small,
        Scenario {
            operations: SET_OR_DELETE,
            budget,
            ..small
        },
    );
}

#[test]
fn with_an_emptied_node() {
    let budget = Budget {
        touches: 1,
        emptied: 1,
        ..ONCE
    };
    let small = Scenario {
        budget,
        ..Scenario::default()
    };
    let budget = Budget {
        touches: 2,
        writes: 2,
        snapshots: 3,
        loads: 2,
        ..budget
    };
    check(
        small,
        Scenario {
            savers: 2,
            operations: SET_OR_DELETE,
            budget,
            ..small
        },
    );
}

#[test]
fn with_an_emptied_node_and_a_new_tag() {
    let budget = Budget {
        touches: 1,
        emptied: 1,
        ..ONCE
    };
    let small = Scenario {
        start: Start::NewHot,
        budget,
        ..Scenario::default()
    };
    let budget = Budget {
        touches: 2,
        writes: 2,
        snapshots: 3,
        loads: 2,
        ..budget
    };
    check(
        small,
        Scenario {
            savers: 2,
            start: Start::New,
            budget,
            ..small
        },
    );
}

#[test]
fn with_two_losses() {
    let budget = Budget {
        touches: 1,
        writes: 0,
        snapshots: 0,
        loads: 2,
        syncs: 1,
        failovers: 1,
        emptied: 1,
        ..ONCE
    };
    let small = Scenario {
        budget,
        ..Scenario::default()
    };
    check(
        small,
        Scenario {
            budget: Budget {
                touches: 2,
                writes: 1,
                snapshots: 2,
                loads: 3,
                ..budget
            },
            ..small
        },
    );
}
