//! Rust files of the workspace, parsed.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the root of the repository; `NAGAYA_SOURCE` names another tree to look at.
pub fn root() -> PathBuf {
    if let Some(root) = std::env::var_os("NAGAYA_SOURCE") {
        return root.into();
    }
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(3)
        .expect("this crate lies three folders below the root")
        .to_owned()
}

/// Returns the files below a folder that have this extension, sorted, as absolute paths.
/// Folders with build output and hidden ones are left out.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("a folder of the repository can be listed").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() {
                if name != "target" && name != "node_modules" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Returns the Rust files of the workspace's own crates, relative to the root.
pub fn rust_files() -> Vec<PathBuf> {
    let root = root();
    ["crates", "clients"]
        .iter()
        .flat_map(|folder| files(&root.join(folder), "rs"))
        .map(|path| {
            path.strip_prefix(&root)
                .expect("it was found below the root")
                .to_owned()
        })
        .collect()
}

/// Reads a file of the repository by its path relative to the root.
pub fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).expect("a file of the repository is text")
}

/// Parses a Rust file of the repository.
pub fn parse(path: &Path) -> syn::File {
    syn::parse_file(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns whether an item is compiled for tests only.
pub fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        if !attribute.path().is_ident("cfg") {
            return attribute.path().is_ident("test");
        }
        let syn::Meta::List(list) = &attribute.meta else {
            return false;
        };
        let condition = list.tokens.to_string();
        condition == "test" || condition.contains("any (test") || condition.contains("all (test")
    })
}
