//! The jobs API over real sockets, on a real store.

// Test helpers may panic like the tests themselves.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod auth;
mod bad_input;
mod client;
mod cuts;
mod document;
mod events;
mod every_store;
mod fuzz;
mod idle;
mod isolation;
mod leases;
mod operators;
mod rest;
mod revocation;
mod rights;
mod sequences;
mod test_server;
mod work_stream;
