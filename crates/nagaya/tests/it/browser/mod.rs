//! Headless Chromium against a house, driven by scripts beside this file.
//!
//! Node and its packages live in `target/clients`, where `scripts/clients` puts them.

mod console;
mod console_parts;

use super::clients::{Scenario, installed};
use super::*;
use std::path::{Path, PathBuf};

/// Runs a scenario of a script beside this file against a house.
#[track_caller]
fn check(scenario: &Scenario, script: &str, name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/browser")
        .join(script);
    let base = format!("http://{}", scenario.house.address("http"));
    let launch = Launch::new("browser", "node")
        .args([file])
        .args([base, name.to_owned()])
        .env("SCREENSHOTS", screenshots(scenario))
        .env("NODE_PATH", installed("node").join("node_modules"));
    scenario.run(launch);
}

/// Where pictures of pages go: `target/screenshots` when somebody wants to see them, else away with the scenario.
fn screenshots(scenario: &Scenario) -> PathBuf {
    match std::env::var_os("NAGAYA_SCREENSHOTS") {
        Some(_) => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/screenshots"),
        None => scenario.folder().to_owned(),
    }
}

#[test]
fn a_browser_reads_what_the_house_says() {
    check(&Scenario::new(), "basics.js", "version");
}

#[test]
fn requests_that_leave_the_machine_are_found() {
    check(&Scenario::new(), "basics.js", "nothingLeavesTheMachine");
}
