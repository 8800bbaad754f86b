//! Functions that do not fit a screen.

use crate::functions::longer_than;
use crate::source;

/// About a screen.
const LINES_MAX: usize = 70;

/// Longer ones that are there for now: file and name.
const LONGER: &[(&str, &str)] = &[];

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
    let longer: Vec<_> = found.iter().map(|(file, name, _)| (file.as_str(), name.as_str())).collect();
    assert_eq!(longer, LONGER, "lines: {:?}", found.iter().map(|found| found.2).collect::<Vec<_>>());
}
