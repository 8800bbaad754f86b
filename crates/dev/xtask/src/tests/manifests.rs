//! Manifests: nothing in them that no code uses.

use crate::source;
use crate::workspace::packages;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Dependencies that are used without being named in Rust code, each with its reason.
const UNNAMED: &[(&str, &str)] = &[
    // Its feature makes syn's spans carry lines.
    ("xtask", "proc-macro2"),
    // Its tests include the HTTP client of the tests of jobs-api.
    ("nagaya", "http-body-util"),
    ("nagaya", "hyper-util"),
];

#[test]
fn every_workspace_dependency_has_a_user() {
    let manifest: toml_edit::DocumentMut = source::read(Path::new("Cargo.toml"))
        .parse()
        .expect("the manifest is TOML");
    let declared: BTreeSet<String> = packages()
        .into_values()
        .flat_map(|package| package.declared)
        .collect();
    let entries = manifest["workspace"]["dependencies"]
        .as_table_like()
        .expect("a table");
    let unused: Vec<_> = entries
        .iter()
        .map(|(name, _)| name)
        .filter(|name| !declared.contains(*name))
        .collect();
    assert!(
        unused.is_empty(),
        "no crate uses these workspace dependencies: {unused:?}"
    );
}

#[test]
fn every_dependency_of_a_crate_is_named_in_its_code() {
    let mut unused = Vec::new();
    for package in packages().into_values() {
        let folder = source::root().join(&package.folder);
        let code: String = source::files(&folder, "rs")
            .iter()
            .map(|path| fs::read_to_string(path).expect("code is text"))
            .collect();
        for name in package.declared {
            let identifier = name.replace('-', "_");
            if !code.contains(&identifier) && !UNNAMED.contains(&(package.name.as_str(), name.as_str())) {
                unused.push(format!("{}: {name}", package.name));
            }
        }
    }
    assert!(unused.is_empty(), "unused dependencies:\n{}", unused.join("\n"));
}

#[test]
fn architecture_gives_a_reason_for_every_dependency() {
    let manifest: toml_edit::DocumentMut = source::read(Path::new("Cargo.toml"))
        .parse()
        .expect("the manifest is TOML");
    let text = source::read(Path::new("ARCHITECTURE.md"));
    let explained: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .flat_map(|names| names.split(", "))
        .collect();
    let entries = manifest["workspace"]["dependencies"]
        .as_table_like()
        .expect("a table");
    let missing: Vec<_> = entries
        .iter()
        .map(|(name, _)| name)
        .filter(|name| !name.starts_with("nagaya-") && !explained.contains(name))
        .collect();
    assert!(
        missing.is_empty(),
        "ARCHITECTURE.md does not say why we use {missing:?}"
    );
}
