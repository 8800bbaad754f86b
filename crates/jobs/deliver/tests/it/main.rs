//! The crate's guarantees, against stores and targets that misbehave.

// Test helpers may panic like the tests themselves.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod api;
mod bodies;
mod fixture;
mod many;
mod notify;
mod sink;
mod target;
mod targets_that_misbehave;
mod who_may_be_reached;
