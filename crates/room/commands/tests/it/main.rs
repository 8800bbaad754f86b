//! The engine's commands beside a real redis-server: same requests, same reply bytes.

// A test's helpers fail as loudly as the test itself.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail the test that calls them, and are shared by its modules"
)]

mod harness;

mod diff_acl;
mod diff_bitmap;
mod diff_command;
mod diff_databases;
mod diff_geo;
mod diff_hash;
mod diff_hll;
mod diff_keys;
mod diff_list;
mod diff_pubsub;
mod diff_script;
mod diff_server;
mod diff_set;
mod diff_stream;
mod diff_string;
mod diff_zset;
mod replay;
mod tiered;
