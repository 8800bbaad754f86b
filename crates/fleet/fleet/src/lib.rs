//! Runs every worker on exactly one instance.
//!
//! Suggested reading order: names and timing; the placement decision; the store and its scripts; the protocol
//! of agents and managers as plain state machines; the loops that run them.

pub mod name;
pub mod timing;

pub mod plan;

pub mod store;

pub mod protocol;

pub mod agent;
pub mod ask;
pub mod manager;

pub mod commands;
pub mod metrics;
pub mod status;

#[cfg(any(test, feature = "simulator"))]
pub mod simulator;

mod http_client;

/// Returns a random, unique name.
pub(crate) fn random_id() -> String {
    let mut bytes = [0; 12];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .expect("the kernel's generator answers once it is seeded, which is waited for");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
