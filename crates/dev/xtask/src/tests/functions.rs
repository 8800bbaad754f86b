//! Functions that do not fit a screen.

use crate::functions::longer_than;
use crate::source;

/// About a screen.
const LINES_MAX: usize = 70;

/// Longer ones that are there for now: file and name.
#[rustfmt::skip]
const LONGER: &[(&str, &str)] = &[
    ("crates/base/redis-client/src/subscriber.rs", "run"),
    ("crates/fleet/fleet/src/metrics.rs", "encode"),
    ("crates/fleet/fleet/src/simulator/world.rs", "happen"),
    ("crates/fleet/fleet/src/simulator/world.rs", "inject_fault"),
    ("crates/jobs/api/src/rest/outgoing.rs", "routes"),
    ("crates/jobs/api/src/rest/table.rs", "job_routes"),
    ("crates/jobs/api/src/rest/table.rs", "work_routes"),
    ("crates/jobs/api/src/rest/table.rs", "queue_routes"),
    ("crates/jobs/api/src/rest/table.rs", "event_routes"),
    ("crates/jobs/api/src/rest/table.rs", "admin_routes"),
    ("crates/jobs/postgres/src/claim.rs", "take"),
    ("crates/jobs/sqlite/src/claim.rs", "take"),
    ("crates/nagaya/src/app/up.rs", "run"),
    ("crates/room/cluster/src/metrics.rs", "encode"),
    ("crates/room/commands/src/admin/memory.rs", "stats"),
    ("crates/room/commands/src/keys/sort.rs", "run"),
    ("crates/room/engine/src/metrics.rs", "encode"),
    ("crates/room/engine/src/persistence/mod.rs", "start"),
];

#[test]
fn functions_fit_a_screen() {
    let mut found = Vec::new();
    for path in source::rust_files() {
        let text = path.to_string_lossy();
        if text.contains("/tests/") || text.contains("/benches/") || text.ends_with("tests.rs") {
            continue;
        }
        for function in longer_than(&path, LINES_MAX) {
            found.push((function.file, function.name, function.lines));
        }
    }
    let longer: Vec<_> = found
        .iter()
        .map(|(file, name, _)| (file.as_str(), name.as_str()))
        .collect();
    assert_eq!(
        longer,
        LONGER,
        "lines: {:?}",
        found.iter().map(|found| found.2).collect::<Vec<_>>()
    );
}
