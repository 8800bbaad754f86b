//! The client against a small house of its own that can be told to misbehave.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod calls;
mod examples;
mod fake;
mod push;
mod server;
mod worker;
