//! Tests that drive the crate through its public face, alone and side by side with a real redis-server.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod differential;
mod functions;
mod guards;
mod replies;
mod support;
