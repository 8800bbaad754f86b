//! Scripts and functions, and how they run.
//!
//! A script runs on the thread of its client, under the locks of every shard,
//! in that thread's own Lua environment ([`vm`]). Its commands come back
//! through [`host`], which checks them and runs them on the same database. What
//! threads share is in [`shared`]: the sources of scripts by digest, the
//! function libraries, and, once a script takes too long, which one it is.
//! [`run`] is common to EVAL and FCALL.

pub mod host;
pub mod library;
pub mod load_host;
pub mod run;
pub mod shared;
pub mod traits;
pub mod vm;
