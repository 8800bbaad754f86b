//! Redis 7.0's Lua 5.1 scripting environment, without a keyspace.
//!
//! A [`Vm`] compiles scripts and libraries, runs them against a [`Host`] that knows the data, and writes what they
//! return as RESP. Everything a script sees is here: the locked globals, the `redis` table, and the `cjson`,
//! `cmsgpack`, `struct` and `bit` libraries. Start with `vm`, then `sandbox` for what scripts may touch; `raw` is
//! the only folder that talks to the Lua C library, and says how that is kept safe.

mod vm;

mod error;
mod host;
mod shebang;

mod sandbox;

mod handler;
mod redis_api;
mod register;
mod reply_in;
mod reply_out;

mod bits;
mod json;
mod msgpack;
mod pattern;
mod random;
mod strings;
mod structs;

mod digest;
mod number;
mod raw;

pub use digest::sha1_hex;
pub use error::Error;
pub use host::{Host, LogLevel, Tick};
pub use register::FunctionDef;
pub use shebang::{ScriptFlag, Shebang, parse_library_shebang, parse_shebang};
pub use vm::{LibraryId, Limits, RunOutcome, Vm};
