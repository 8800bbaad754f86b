//! The crates of the workspace and which of them uses which.

use crate::source;
use std::collections::BTreeMap;
use std::process::Command;

/// A crate of the workspace.
#[derive(Debug)]
pub struct Package {
    /// Without the prefix `nagaya-`.
    pub name: String,
    /// Folder relative to the root.
    pub folder: String,
    /// Our own crates that it uses outside of tests, without the prefix.
    pub uses: Vec<String>,
    /// Other people's crates that it uses outside of tests.
    pub foreign: Vec<String>,
    /// Names of everything in its manifest, tests' needs included.
    pub declared: Vec<String>,
}

/// Returns the crates by name. Asks cargo, which needs no network for this.
pub fn packages() -> BTreeMap<String, Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(source::root())
        .output()
        .expect("cargo runs, for it runs this test");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let root = source::root();
    let packages = metadata["packages"].as_array().expect("a list of packages");
    packages
        .iter()
        .map(|package| package_of(package, &root.to_string_lossy()))
        .map(|package| (package.name.clone(), package))
        .collect()
}

fn package_of(package: &serde_json::Value, root: &str) -> Package {
    let text = |value: &serde_json::Value| value.as_str().expect("cargo prints a string here").to_owned();
    let manifest = text(&package["manifest_path"]);
    let folder = manifest
        .trim_start_matches(root)
        .trim_start_matches('/')
        .trim_end_matches("/Cargo.toml")
        .to_owned();
    let mut found = Package {
        name: short(&text(&package["name"])).to_owned(),
        folder,
        uses: Vec::new(),
        foreign: Vec::new(),
        declared: Vec::new(),
    };
    for dependency in package["dependencies"]
        .as_array()
        .expect("a list of dependencies")
    {
        let name = text(&dependency["name"]);
        found.declared.push(name.clone());
        if dependency["kind"] == "dev" {
            continue;
        }
        if dependency["path"].is_string() {
            found.uses.push(short(&name).to_owned());
        } else {
            found.foreign.push(name);
        }
    }
    found
}

fn short(name: &str) -> &str {
    name.strip_prefix("nagaya-").unwrap_or(name)
}
