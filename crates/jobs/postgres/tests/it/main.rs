//! Tests of the job store against real servers and real faults.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod support;

mod faults;
mod suite;
