//! The web console, as people use it: every page by mouse and keyboard, in light, in dark and on a phone.

use super::*;

#[test]
fn the_overview_is_readable_for_everybody() {
    check(&Scenario::new(), "console_frame.js", "overview");
}

#[test]
fn a_token_signs_in_and_one_that_may_only_look_changes_nothing() {
    let house = house().args(["--set", "http.token=house-token-of-tests"]);
    check(&Scenario::with(house), "console_frame.js", "signIn");
}

#[test]
fn forms_of_foreign_pages_are_refused() {
    check(&Scenario::new(), "console_frame.js", "foreignForms");
}

#[test]
fn a_failed_job_is_found_and_retried() {
    check(&Scenario::new(), "console_jobs.js", "retry");
}

#[test]
fn a_job_is_followed_while_it_runs() {
    check(&Scenario::new(), "console_jobs.js", "liveUpdates");
}

#[test]
fn a_webhook_is_replayed() {
    let house = house().args(["--set", "jobs.webhooks.allow=127.0.0.1"]);
    check(&Scenario::with(house), "console_jobs.js", "replay");
}

#[test]
fn queues_are_paused_and_emptied() {
    check(&Scenario::new(), "console_jobs.js", "queues");
}

#[test]
fn everything_works_without_a_script() {
    check(&Scenario::new(), "console_jobs.js", "withoutScript");
}
