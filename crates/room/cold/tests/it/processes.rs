//! Several processes on one file.

use std::path::Path;

use nagaya_tiering::cold::ColdTier;

use crate::support::{Place, assert_sound, child_path, open, put, rows, save, start_child};

const TEST: &str = "processes::processes_that_make_and_write_a_file_at_once_take_turns";
const CHILDREN: u64 = 3;
const COMMITS: u64 = 30;

#[test]
fn processes_that_make_and_write_a_file_at_once_take_turns() {
    if let Some(path) = child_path() {
        return write_as_child(&path);
    }
    let place = Place::new();
    let children: Vec<_> = (0..CHILDREN).map(|_| start_child(TEST, &place.path())).collect();
    let tags: Vec<u32> = children.iter().map(std::process::Child::id).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    let cold = place.open();
    for tag in tags {
        assert_eq!(rows(&cold, &tag.to_be_bytes()).len() as u64, COMMITS);
    }
    assert_eq!(cold.totals().unwrap().tags, CHILDREN);
    assert_sound(&cold);
}

fn write_as_child(path: &Path) {
    let cold = open(path);
    for snap in 1..=COMMITS {
        save(
            &cold,
            &std::process::id().to_be_bytes(),
            snap,
            vec![put(&snap.to_be_bytes(), b"v")],
        );
    }
}
