//! redis-py; the scenarios are in `redis_py.py`.

use super::*;

#[track_caller]
fn check(name: &str) {
    check_on(&Scenario::new(), name);
}

#[track_caller]
fn check_on(scenario: &Scenario, name: &str) {
    let launch = Launch::new("python3", "python3")
        .args([script("redis_py.py")])
        .args([scenario.port(), name.to_owned()])
        .env("PYTHONPATH", installed("py"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    scenario.run(launch);
}

#[test]
fn values_of_every_type_come_back_as_they_went_in() {
    check("data_types");
}

#[test]
fn pipelines_of_thousands_are_answered_in_order() {
    check("pipelines");
}

#[test]
fn transactions_run_whole_or_not_at_all() {
    check("transactions");
}

#[test]
fn watched_keys_make_counting_safe() {
    check("watch");
}

#[test]
fn scripts_and_functions_run() {
    check("scripts");
}

#[test]
fn messages_reach_subscribers_in_order() {
    check("pubsub");
}

#[test]
fn blocked_clients_are_served_in_turn() {
    check("blocking");
}

#[test]
fn consumer_groups_keep_track_of_entries() {
    check("streams");
}

#[test]
fn scans_find_every_key_that_stays() {
    check("scan");
}

#[test]
fn resp3_answers_in_its_own_types() {
    check("resp3");
}

#[test]
fn all_of_it_passes_on_a_cluster_and_postgresql() {
    let scenario = Scenario::on_cluster();
    for name in [
        "data_types",
        "pipelines",
        "transactions",
        "watch",
        "scripts",
        "pubsub",
        "blocking",
        "streams",
        "scan",
        "resp3",
    ] {
        check_on(&scenario, name);
    }
}
