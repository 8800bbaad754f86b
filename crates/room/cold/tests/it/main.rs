//! Tests of the cold tier against real files.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod support;

mod check;
mod concurrent;
mod crash;
mod decoded;
mod forget;
mod full;
mod open;
mod postgres;
mod processes;
mod queries;
mod rows;
mod suite;
