//! Tests of the service on a real store, and of what the stores have in common.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod queries;
mod service;
