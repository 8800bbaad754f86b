//! The lease against real Redis servers, whole and broken; the id maker and its server.

// A test's helpers fail as loudly as the test itself.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod bound;
mod ceilings;
mod cost;
mod equal;
mod failover;
mod faults;
mod frozen;
mod leased;
mod mint;
mod model;
mod pool;
mod run;
mod serve;
mod serve_clients;
mod stage;
mod sticky;
mod support;
mod unique;
mod yaraus;
