//! The log against a disk that fails on demand, and against the real one.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod commit;
mod crash;
mod failure;
mod full_disk;
mod kill;
mod kit;
mod release;
mod torn;
