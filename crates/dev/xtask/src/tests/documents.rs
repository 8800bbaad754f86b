//! Documents name files that exist.

use crate::source;
use std::path::Path;

#[test]
fn paths_in_documents_exist() {
    let root = source::root();
    let mut paths: Vec<_> = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"]
        .map(|name| root.join(name))
        .into();
    paths.extend(source::files(&root.join("docs"), "md"));
    let mut missing = Vec::new();
    for document in paths {
        let text = without_code_blocks(&source::read(&document));
        for quoted in text.split('`').skip(1).step_by(2) {
            let is_path = ["crates/", "clients/", "scripts/", "docs/", "bench/"]
                .iter()
                .any(|start| quoted.starts_with(start));
            let path = quoted.split_whitespace().next().unwrap_or_default();
            if is_path && !path.contains('*') && !root.join(Path::new(path)).exists() {
                missing.push(format!(
                    "{}: {path}",
                    document.strip_prefix(&root).unwrap_or(&document).display()
                ));
            }
        }
    }
    assert!(missing.is_empty(), "these do not exist:\n{}", missing.join("\n"));
}

fn without_code_blocks(text: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}
