//! ioredis; the scenarios are in `ioredis.js`.

use super::*;

#[track_caller]
fn check(name: &str) {
    check_on(&Scenario::new(), name);
}

#[track_caller]
fn check_on(scenario: &Scenario, name: &str) {
    let launch = Launch::new("node", "node")
        .args([script("ioredis.js")])
        .args([scenario.port(), name.to_owned()])
        .env("NODE_PATH", installed("node").join("node_modules"));
    scenario.run(launch);
}

#[test]
fn values_come_back_as_they_went_in() {
    check("dataTypes");
}

#[test]
fn automatic_pipelines_and_large_values_work() {
    check("pipelines");
}

#[test]
fn transactions_and_watch_work() {
    check("transactions");
}

#[test]
fn defined_commands_survive_a_script_flush() {
    check("scripts");
}

#[test]
fn plain_pattern_and_sharded_messages_arrive() {
    check("pubSub");
}

#[test]
fn blocked_clients_are_served_and_leavers_forgotten() {
    check("blocking");
}

#[test]
fn a_blocked_consumer_gets_the_next_entry() {
    check("streams");
}

#[test]
fn scan_streams_end_with_everything_found() {
    check("scan");
}

#[test]
fn all_of_it_passes_on_a_cluster_and_postgresql() {
    let scenario = Scenario::on_cluster();
    for name in [
        "dataTypes",
        "pipelines",
        "transactions",
        "scripts",
        "pubSub",
        "blocking",
        "streams",
        "scan",
    ] {
        check_on(&scenario, name);
    }
}
