//! Headless Chromium against a server, driven by scripts beside this file.
//!
//! Node and its packages live in `target/clients`, where `scripts/clients` puts them.

mod console;
mod console_parts;
mod rebinding;
mod results;

use super::clients::{Scenario, installed};
use super::*;
use std::path::{Path, PathBuf};

/// Runs a scenario of a script beside this file against a server.
#[track_caller]
fn check(scenario: &Scenario, script: &str, name: &str) {
    let launch = launch(scenario.house.address("http"), script, name);
    scenario.run(launch.env("SCREENSHOTS", screenshots(scenario)));
}

/// A scenario of a script beside this file, to be run against a server at an address.
fn launch(house: SocketAddr, script: &str, name: &str) -> Launch {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/browser")
        .join(script);
    Launch::new("browser", "node")
        .args([file])
        .args([format!("http://{house}"), name.to_owned()])
        .env("NODE_PATH", installed("node").join("node_modules"))
}

/// Where pictures of pages go: `target/screenshots` when requested, else in the scenario's folder.
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
