//! What the crate promises, against stores and targets that misbehave.

// A test's helpers fail as loudly as the test itself.
#![allow(clippy::unwrap_used)]

mod api;
mod bodies;
mod fixture;
mod many;
mod notify;
mod sink;
mod target;
mod targets_that_misbehave;
mod who_may_be_reached;
