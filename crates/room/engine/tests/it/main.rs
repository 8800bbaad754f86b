//! The engine as its clients meet it: through sockets, beside a real redis-server where there is one to
//! compare with.

// A test's helpers fail as loudly as the test itself.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod bad_input;
mod buffers;
mod busy;
mod churn;
mod databases;
mod eviction;
mod harness;
mod listeners;
mod pipelines;
mod rights;
mod storage;
mod walks;

/// Lets tests see how much memory the engines of this process take.
#[global_allocator]
static ALLOCATOR: nagaya_engine::CountingAllocator = nagaya_engine::CountingAllocator;
