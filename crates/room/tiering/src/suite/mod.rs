//! What every implementation of a tier must do, as tests that each of them runs.
//!
//! A suite is a list of cases; `cold_suite!(with_tier)` makes one `#[test]` of each. `with_tier` is a function
//! that opens a fresh and empty tier, calls the case with it, and cleans up. A new promise of a trait is a
//! new case here first.

// Cases are tests, though the compiler cannot know.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

pub mod cold;
pub mod hot;
