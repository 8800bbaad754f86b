//! The jobs API over real sockets, on a real store.

// A test's helpers fail as loudly as the test itself.
#![allow(clippy::unwrap_used)]

mod auth;
mod bad_input;
mod client;
mod cuts;
mod document;
mod events;
mod fuzz;
mod house;
mod houses;
mod idle;
mod rest;
mod sequences;
mod work_stream;
