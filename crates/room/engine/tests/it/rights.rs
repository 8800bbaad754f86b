//! Rights of users, on a running engine.

use nagaya_commands::testing::rights::{PASSWORD, walk};
use nagaya_config::Secret;

use crate::harness::engine_with;

#[test]
fn every_command_answers_every_user_as_committed() {
    let engine = engine_with(|config| config.password = Some(Secret::new(PASSWORD)));
    let tally = walk(engine.tcp_address(), (u32::MAX, 0));
    for ((who, answer), count) in &tally {
        println!("{who}: {count} x {answer}");
    }
}
