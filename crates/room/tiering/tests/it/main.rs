//! Tests that drive the crate through its public face: the drivers over the reference tiers, and the search
//! through everything that servers, savers, evictors and loaders can do to one tag.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod evictor;
mod history;
mod loader;
mod model;
mod saver;
mod tiers;
