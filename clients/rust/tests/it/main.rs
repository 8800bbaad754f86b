//! The client against an in-memory server that can be told to misbehave, and against the real one.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod calls;
mod examples;
mod fake;
mod push;
mod server;
mod worker;
