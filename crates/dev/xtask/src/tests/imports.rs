//! Loops between the files of the large crates.

use crate::imports::Graph;

/// Files that may reach each other, at most.
const LOOP_FILES_MAX: usize = 6;

const CRATES: &[&str] = &[
    "crates/room/command-spec",
    "crates/room/connections",
    "crates/room/keyspace",
    "crates/room/exec",
    "crates/room/commands",
    "crates/room/cluster",
];

#[test]
fn no_loop_of_imports_spans_more_than_six_files() {
    for folder in CRATES {
        for files in Graph::of_crate(folder).loops() {
            assert!(
                files.len() <= LOOP_FILES_MAX,
                "{folder}: {} files: {files:?}",
                files.len()
            );
        }
    }
}
