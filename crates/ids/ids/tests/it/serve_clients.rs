//! A memcached client that nobody here wrote; the scenarios are in `pymemcache_ids.py`.
//!
//! It lives in `target/clients`, where `scripts/clients` puts it.

use std::path::Path;
use std::time::Duration;

use nagaya_ids::server::ServerConfig;
use nagaya_testkit::{Folder, Launch, Process};

use crate::serve::TestServer;

/// Longer than any scenario takes on a loaded machine.
const SCENARIO_LIMIT: Duration = Duration::from_secs(60);

#[track_caller]
fn check(name: &str) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = here.join("../../../target/clients/py");
    assert!(
        installed.join("pymemcache").is_dir(),
        "{} has no pymemcache; run scripts/clients",
        installed.display()
    );
    let server = TestServer::start(ServerConfig::default());
    let launch = Launch::new("python3", "python3")
        .args([here.join("tests/it/pymemcache_ids.py")])
        .args([server.address().port().to_string(), name.to_owned()])
        .env("PYTHONPATH", installed)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let folder = Folder::new("pymemcache");
    let process = match Process::start(launch, folder.path()) {
        Ok(process) => process,
        Err(error) => panic!("{error}; scripts/test installs what is missing"),
    };
    let status = process.wait(SCENARIO_LIMIT).unwrap();
    assert!(status.success(), "{status}:\n{}", process.output());
}

#[test]
fn pymemcache_fetches_one_id() {
    check("one");
}

#[test]
fn pymemcache_fetches_many_at_once() {
    check("many");
}

#[test]
fn pymemcache_reads_stats_and_version() {
    check("stats");
}

#[test]
fn pymemcache_pools_share_the_server() {
    check("pool");
}

#[test]
fn pymemcache_sees_an_error_for_what_is_not_served() {
    check("refused");
}
