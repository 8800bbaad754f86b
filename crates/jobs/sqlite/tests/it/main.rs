//! Tests of the job store against real files and real faults of the disk.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod support;

mod broken_disk;
mod crash;
mod full_disk;
