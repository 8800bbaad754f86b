//! The hot tier and the processes around it against real servers, whole and broken.

// A test's helpers fail as loudly as the test itself.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod flaky;
mod hot_tier;
mod workers;
